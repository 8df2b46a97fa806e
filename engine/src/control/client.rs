//! The hook client.

use std::collections::BTreeSet;

use super::error::{Hook, HookCallName, HookError};
use super::log::{HookLog, HookReport};
use super::origin::{redacted, unique};
use super::retry::{RetryLaw, Step};
use super::sender::{Ask, Refusal, Sender};
use crate::clock;
use crate::plan::{ProfilerHook, ResetHook};
use crate::tls::TlsClient;
use crate::units::Nanos;

/// A 2xx answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookReply {
    /// The status.
    pub status: u16,
    /// The member `success` of a JSON body, where there is one.
    pub success: Option<bool>,
}

/// How a wait between two attempts ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The time passed.
    Elapsed,
    /// The user ended the run.
    Interrupted,
}

/// A blocking client for control calls: one connection per call, no redirects, no proxy from the environment, no body sent.
///
/// A clone is the same client for another thread: its calls stand in the same log.
#[derive(Debug, Clone)]
pub struct HookClient {
    sender: Sender,
    /// Each server once, in the user's order.
    origins: Vec<String>,
    log: HookLog,
}

impl HookClient {
    /// A client for these origins (`scheme://host:port`; two spellings of one server count once) whose calls carry these headers.
    /// Headers that frame the message are left to the client. `tls` tells how servers of `https` origins are verified.
    pub(crate) fn new(origins: Vec<String>, headers: Vec<(String, String)>, tls: Option<&TlsClient>) -> Self {
        Self {
            sender: Sender::new(headers, tls),
            origins: unique(origins),
            log: HookLog::default(),
        }
    }

    /// The calls made so far, in order, those without an answer included. Secrets are not in them.
    pub fn reports(&self) -> Vec<HookReport> {
        self.log.reports()
    }

    /// Resets the KV cache at every origin in turn. While a server is busy its reset is retried inside the budget of the hook, which
    /// each origin has for itself. `wait` sleeps between attempts and says whether the user ended the run meanwhile.
    ///
    /// # Errors
    ///
    /// The first origin that cannot be reset ends the call.
    pub fn reset(&self, hook: &ResetHook, mut wait: impl FnMut(Nanos) -> Waited) -> Result<(), HookError> {
        (0..self.origins.len()).try_for_each(|server| self.reset_origin(server, hook, &mut wait))
    }

    fn reset_origin(
        &self,
        server: usize,
        hook: &ResetHook,
        wait: &mut dyn FnMut(Nanos) -> Waited,
    ) -> Result<(), HookError> {
        let origin = &self.origins[server];
        let call = self.log.begin(Hook::ResetKvCache, server, origin);
        let start = clock::monotonic();
        let mut law = RetryLaw::new(hook.retry_budget);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let result = self
                .post(Hook::ResetKvCache, origin, &hook.path, hook.timeout)
                .and_then(|reply| {
                    // Some servers answer 200 although they could not reset because requests were running.
                    if reply.success == Some(false) {
                        Err(HookError::NotDone {
                            call: call_name(Hook::ResetKvCache, origin, &hook.path),
                            status: reply.status,
                        })
                    } else {
                        Ok(reply)
                    }
                });
            let elapsed = clock::monotonic().since(start);
            let step = match &result {
                Err(error) if error.is_transient() => law.after_failure(elapsed),
                _ => Step::GiveUp,
            };
            if let Step::RetryAfter(span) = step
                && wait(span) == Waited::Elapsed
            {
                self.log.again(call);
                continue;
            }
            self.log.end(call, result.as_ref().map(|reply| reply.status));
            return match (result, step) {
                (Ok(_), _) => Ok(()),
                (Err(_), Step::RetryAfter(_)) => Err(HookError::Interrupted {
                    call: call_name(Hook::ResetKvCache, origin, &hook.path),
                }),
                (Err(last), Step::GiveUp) if last.is_transient() => Err(HookError::GaveUp {
                    attempts,
                    elapsed,
                    last: Box::new(last),
                }),
                (Err(fatal), Step::GiveUp) => Err(fatal),
            };
        }
    }

    /// Starts the profiler at every origin in turn. If one fails, the profiler is stopped again where it may run, in reverse order: also where
    /// the answer of the start got lost.
    ///
    /// # Errors
    ///
    /// The first failure, with what could not be stopped again.
    pub fn profiler_start(&self, hook: &ProfilerHook) -> Result<(), HookError> {
        for server in 0..self.origins.len() {
            let Err(cause) = self.call_once(Hook::ProfilerStart, server, &hook.start_path, hook.timeout) else {
                continue;
            };
            let started = (0..=server).rev().filter(|&server| self.log.needs_stop(server));
            return Err(match self.stop_at(started, hook) {
                Ok(()) => cause,
                Err(rollback) => HookError::RollbackFailed {
                    cause: Box::new(cause),
                    rollback: Box::new(rollback),
                },
            });
        }
        Ok(())
    }

    /// Stops the profiler at every origin, whatever happens at the others.
    ///
    /// # Errors
    ///
    /// All failures together.
    pub fn profiler_stop(&self, hook: &ProfilerHook) -> Result<(), HookError> {
        self.stop_at(0..self.origins.len(), hook)
    }

    /// Origins, by number, whose profiler may run without a stop on its way there.
    pub fn needing_stop(&self) -> BTreeSet<usize> {
        let servers = 0..self.origins.len();
        servers.filter(|&server| self.log.needs_stop(server)).collect()
    }

    /// Origins, by number, that owe the answer to a call.
    pub fn owing_answer(&self) -> BTreeSet<usize> {
        let servers = 0..self.origins.len();
        servers.filter(|&server| self.log.awaits_answer(server)).collect()
    }

    /// An origin by its number, fit for messages.
    pub fn shown_origin(&self, server: usize) -> String {
        redacted(&self.origins[server])
    }

    /// Stops the profiler at these origins, by number.
    ///
    /// # Errors
    ///
    /// All failures together.
    pub fn stop_at(&self, servers: impl IntoIterator<Item = usize>, hook: &ProfilerHook) -> Result<(), HookError> {
        let stop = |server| {
            self.call_once(Hook::ProfilerStop, server, &hook.stop_path, hook.timeout)
                .err()
        };
        let failures = servers.into_iter().filter_map(stop).collect();
        HookError::from_list(failures).map_or(Ok(()), Err)
    }

    fn call_once(&self, hook: Hook, server: usize, path: &str, timeout: Nanos) -> Result<(), HookError> {
        let origin = &self.origins[server];
        let call = self.log.begin(hook, server, origin);
        let result = self.post(hook, origin, path, timeout);
        self.log.end(call, result.as_ref().map(|reply| reply.status));
        result.map(|_| ())
    }

    /// One POST with an empty body to `origin` + `path`, answered in full within `timeout`.
    ///
    /// # Errors
    ///
    /// Anything but a 2xx answer.
    pub fn post(&self, hook: Hook, origin: &str, path: &str, timeout: Nanos) -> Result<HookReply, HookError> {
        let call = call_name(hook, origin, path);
        let answer = match self.sender.ask(Ask::Post, &format!("{origin}{path}"), timeout) {
            Ok(answer) => answer,
            Err(Refusal::Unsendable(reason)) => return Err(HookError::Unsendable { call, reason }),
            Err(Refusal::Transport { reason, effect }) => return Err(HookError::Transport { call, reason, effect }),
        };
        match answer.status {
            200..=299 => Ok(HookReply {
                status: answer.status,
                success: answer.body.and_then(|body| success_member(&body)),
            }),
            300..=399 => Err(HookError::Redirected {
                call,
                status: answer.status,
                location: answer.location.unwrap_or_else(|| "an unnamed location".to_owned()),
            }),
            status => Err(HookError::Status { call, status }),
        }
    }
}

fn call_name(hook: Hook, origin: &str, path: &str) -> HookCallName {
    HookCallName {
        hook,
        origin: redacted(origin),
        path: redacted(path),
    }
}

/// The boolean member `success` of a JSON object.
fn success_member(body: &[u8]) -> Option<bool> {
    serde_json::from_slice::<serde_json::Value>(body)
        .ok()?
        .get("success")?
        .as_bool()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
