//! Why a control call failed. Messages never hold a response body, a header or a credential.

use std::fmt;

use crate::units::{Nanos, counted};

/// A control call by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Empties the server's KV cache.
    ResetKvCache,
    /// Starts the server's profiler.
    ProfilerStart,
    /// Stops the server's profiler.
    ProfilerStop,
}

impl Hook {
    /// The word in messages and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ResetKvCache => "kv-cache reset",
            Self::ProfilerStart => "profiler start",
            Self::ProfilerStop => "profiler stop",
        }
    }

    /// What to do about a server that does not know the path.
    fn missing_route_advice(self) -> &'static str {
        match self {
            Self::ResetKvCache => {
                "the server has no such route: vLLM serves /reset_prefix_cache only with VLLM_SERVER_DEV_MODE=1, \
                 SGLang calls it /flush_cache (--server-preset sglang); any other path goes into endpoint.reset_kv_cache.path"
            }
            Self::ProfilerStart | Self::ProfilerStop => {
                "the server has no such route: vLLM serves it only when a profiler is configured \
                 (--profiler-config, in older versions VLLM_TORCH_PROFILER_DIR); \
                 any other path goes into endpoint.server_profiler.start_path and stop_path"
            }
        }
    }

    /// What to do about a server that refuses the call as it stands.
    fn refused_advice(self) -> &'static str {
        match self {
            Self::ResetKvCache => ": SGLang refuses to flush while requests run or wait; let other load end first",
            Self::ProfilerStart | Self::ProfilerStop => {
                ": a profiler may be on already, or none is configured; the server's log says which"
            }
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which call it was: hook, origin and path, fit for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCallName {
    /// The hook.
    pub hook: Hook,
    /// The origin without credentials.
    pub origin: String,
    /// The path without query.
    pub path: String,
}

impl fmt::Display for HookCallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (POST {}{})", self.hook, self.origin, self.path)
    }
}

/// Whether a call that failed may have had its effect on the server all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The server never saw the whole request.
    None,
    /// The request may have arrived: only its answer is missing.
    Possible,
}

/// A failed control call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// No complete answer: the connection failed or timed out.
    #[error("{call} got no answer: {reason}")]
    Transport {
        /// The call.
        call: HookCallName,
        /// What happened to the connection.
        reason: String,
        /// Whether the server may have acted.
        effect: Effect,
    },
    /// The call cannot be made at all.
    #[error("{call} cannot be sent: {reason}")]
    Unsendable {
        /// The call.
        call: HookCallName,
        /// Why not, and what to do.
        reason: String,
    },
    /// An answer with a status other than 2xx and 3xx.
    #[error("{call} was answered with status {status}{}", advice(*.status, .call.hook))]
    Status {
        /// The call.
        call: HookCallName,
        /// The status.
        status: u16,
    },
    /// An answer with a status 3xx.
    #[error(
        "{call} was redirected with status {status} to {location}, but control calls follow no redirect: \
         name the final address in endpoint.url or in the path of the hook"
    )]
    Redirected {
        /// The call.
        call: HookCallName,
        /// The status.
        status: u16,
        /// Where to, without credentials and query.
        location: String,
    },
    /// A 2xx answer whose JSON body says `"success": false`.
    #[error("{call} was answered with status {status}, but its body says \"success\": false: the server is busy")]
    NotDone {
        /// The call.
        call: HookCallName,
        /// The status.
        status: u16,
    },
    /// The budget for attempts is spent.
    #[error("gave up after {} in {elapsed}: {last}", counted(*attempts, "attempt"))]
    GaveUp {
        /// Attempts made.
        attempts: u32,
        /// From the start of the first attempt to the end of the last.
        elapsed: Nanos,
        /// How the last attempt failed.
        last: Box<HookError>,
    },
    /// The user ended the run while the call waited for its next attempt.
    #[error("{call} was interrupted before its next attempt")]
    Interrupted {
        /// The call.
        call: HookCallName,
    },
    /// A start failed at one origin, and not everything could be stopped again.
    #[error("{cause}; taking it back failed too: {rollback}")]
    RollbackFailed {
        /// Why the start failed.
        cause: Box<HookError>,
        /// What could not be stopped.
        rollback: Box<HookError>,
    },
    /// Failures at more than one origin.
    #[error("{}", joined(.0))]
    Several(Vec<HookError>),
}

impl HookError {
    /// Whether trying again may help: the connection failed, or the server said that it is busy.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::NotDone { .. } => true,
            Self::Status { status, .. } => matches!(status, 409 | 423 | 429 | 503),
            _ => false,
        }
    }

    /// Whether the server may have acted on the call although it failed.
    pub(super) fn may_have_had_effect(&self) -> bool {
        matches!(
            self,
            Self::Transport {
                effect: Effect::Possible,
                ..
            }
        )
    }

    /// The status of the answer, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } | Self::Redirected { status, .. } | Self::NotDone { status, .. } => {
                Some(*status)
            }
            _ => None,
        }
    }

    /// One error for a list of them; `None` for an empty list.
    pub(super) fn from_list(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }
}

fn advice(status: u16, hook: Hook) -> String {
    match status {
        400 => hook.refused_advice().to_owned(),
        401 | 403 => ": the server refused the credentials, check the API key and endpoint.headers".to_owned(),
        404 | 405 | 501 => format!(": {}", hook.missing_route_advice()),
        409 | 423 | 429 | 503 => ": the server is busy".to_owned(),
        _ => String::new(),
    }
}

fn joined(errors: &[HookError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
