//! The hook client.

use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Timeout};

use super::error::{Effect, Hook, HookCallName, HookError};
use super::origin::{redacted, unique};
use super::retry::{RetryLaw, Step};
use crate::clock;
use crate::plan::{ProfilerHook, ResetHook, Verification};
use crate::tls::{self, TlsClient};
use crate::units::Nanos;

/// A longer body is not looked into.
const BODY_LIMIT: u64 = 64 * 1024;

/// Headers that frame the message: a user's header may not contradict the empty body or the single use of the connection.
const FRAMING_HEADERS: [&str; 5] = ["connection", "content-length", "expect", "te", "transfer-encoding"];

/// A 2xx answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookReply {
    /// The status.
    pub status: u16,
    /// The member `success` of a JSON body, where there is one.
    pub success: Option<bool>,
}

/// One control call with all its attempts, for the artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// The hook.
    pub what: Hook,
    /// The origin without credentials.
    pub origin: String,
    /// Start of the first attempt on the monotonic clock.
    pub start: Nanos,
    /// From there to the end of the last attempt.
    pub duration: Nanos,
    /// Attempts made.
    pub attempts: u32,
    /// Status of the last answer; `None` if the last attempt got none.
    pub status: Option<u16>,
    /// Whether the call did what it is for.
    pub succeeded: bool,
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
#[derive(Debug)]
pub struct HookClient {
    agent: Agent,
    /// Each server once, in the user's order.
    origins: Vec<String>,
    headers: Vec<(String, String)>,
    /// Whether it can speak TLS.
    secure: bool,
    reports: Vec<HookReport>,
}

impl HookClient {
    /// A client for these origins (`scheme://host:port`; two spellings of one server count once) whose calls carry these headers.
    /// Headers that frame the message are left to the client. `tls` tells how servers of `https` origins are verified.
    pub(crate) fn new(origins: Vec<String>, headers: Vec<(String, String)>, tls: Option<&TlsClient>) -> Self {
        let agent = Agent::config_builder()
            .tls_config(tls_config(tls))
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("ringload/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let is_framing = |name: &str| FRAMING_HEADERS.iter().any(|framing| framing.eq_ignore_ascii_case(name));
        Self {
            agent,
            origins: unique(origins),
            headers: headers.into_iter().filter(|(name, _)| !is_framing(name)).collect(),
            secure: tls.is_some(),
            reports: Vec::new(),
        }
    }

    /// The calls made so far, in order. Secrets are not in them.
    pub fn reports(&self) -> &[HookReport] {
        &self.reports
    }

    /// Resets the KV cache at every origin in turn. While a server is busy its reset is retried inside the budget of the hook, which
    /// each origin has for itself. `wait` sleeps between attempts and says whether the user ended the run meanwhile.
    ///
    /// # Errors
    ///
    /// The first origin that cannot be reset ends the call.
    pub fn reset(&mut self, hook: &ResetHook, mut wait: impl FnMut(Nanos) -> Waited) -> Result<(), HookError> {
        for origin in self.origins.clone() {
            self.reset_origin(&origin, hook, &mut wait)?;
        }
        Ok(())
    }

    fn reset_origin(
        &mut self,
        origin: &str,
        hook: &ResetHook,
        wait: &mut dyn FnMut(Nanos) -> Waited,
    ) -> Result<(), HookError> {
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
                continue;
            }
            self.report(Hook::ResetKvCache, origin, start, elapsed, attempts, &result);
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

    /// Starts the profiler at every origin in turn. If one fails, the profiler is stopped again where it runs, in reverse order. A
    /// start whose answer got lost may have worked, so it is taken back too.
    ///
    /// # Errors
    ///
    /// The first failure, with what could not be stopped again.
    pub fn profiler_start(&mut self, hook: &ProfilerHook) -> Result<(), HookError> {
        let origins = self.origins.clone();
        for (index, origin) in origins.iter().enumerate() {
            let Err(cause) = self.call_once(Hook::ProfilerStart, origin, &hook.start_path, hook.timeout) else {
                continue;
            };
            let running = if cause.may_have_had_effect() {
                &origins[..=index]
            } else {
                &origins[..index]
            };
            let rollback = self.stop_at(running.iter().rev(), hook);
            return Err(match rollback {
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
    pub fn profiler_stop(&mut self, hook: &ProfilerHook) -> Result<(), HookError> {
        let origins = self.origins.clone();
        self.stop_at(origins.iter(), hook)
    }

    fn stop_at<'a>(&mut self, origins: impl Iterator<Item = &'a String>, hook: &ProfilerHook) -> Result<(), HookError> {
        let failures = origins
            .filter_map(|origin| {
                self.call_once(Hook::ProfilerStop, origin, &hook.stop_path, hook.timeout)
                    .err()
            })
            .collect();
        HookError::from_list(failures).map_or(Ok(()), Err)
    }

    fn call_once(&mut self, hook: Hook, origin: &str, path: &str, timeout: Nanos) -> Result<(), HookError> {
        let start = clock::monotonic();
        let result = self.post(hook, origin, path, timeout);
        let elapsed = clock::monotonic().since(start);
        self.report(hook, origin, start, elapsed, 1, &result);
        result.map(|_| ())
    }

    fn report(
        &mut self,
        what: Hook,
        origin: &str,
        start: Nanos,
        duration: Nanos,
        attempts: u32,
        result: &Result<HookReply, HookError>,
    ) {
        self.reports.push(HookReport {
            what,
            origin: redacted(origin),
            start,
            duration,
            attempts,
            status: match result {
                Ok(reply) => Some(reply.status),
                Err(error) => error.status(),
            },
            succeeded: result.is_ok(),
        });
    }

    /// One POST with an empty body to `origin` + `path`, answered in full within `timeout`.
    ///
    /// # Errors
    ///
    /// Anything but a 2xx answer.
    pub fn post(&self, hook: Hook, origin: &str, path: &str, timeout: Nanos) -> Result<HookReply, HookError> {
        let call = || call_name(hook, origin, path);
        // Said before the client finds out behind a connection, which would first have to be opened, with retries.
        let scheme = origin.split_once("://").map_or("", |(scheme, _)| scheme);
        let speakable = scheme.eq_ignore_ascii_case("http") || self.secure && scheme.eq_ignore_ascii_case("https");
        if !speakable {
            return Err(HookError::Unsendable {
                call: call(),
                reason: format!("this client does not speak '{scheme}'"),
            });
        }
        let mut request = self.agent.post(format!("{origin}{path}"));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = request
            .config()
            .timeout_global(Some(Duration::from_nanos(timeout.0)))
            .build()
            .send_empty()
            .map_err(|error| classify(call(), &error, timeout))?;
        let status = response.status().as_u16();
        match status {
            200..=299 => {}
            300..=399 => {
                let location = response.headers().get("location").and_then(|value| value.to_str().ok());
                return Err(HookError::Redirected {
                    call: call(),
                    status,
                    location: location.map_or_else(|| "an unnamed location".to_owned(), redacted),
                });
            }
            _ => return Err(HookError::Status { call: call(), status }),
        }
        // The answer is complete when its body is: a server may write the head before the work is done.
        let success = match response.body_mut().with_config().limit(BODY_LIMIT).read_to_vec() {
            Ok(body) => success_member(&body),
            Err(ureq::Error::BodyExceedsLimit(_)) => None,
            Err(error) => return Err(classify(call(), &error, timeout)),
        };
        Ok(HookReply { status, success })
    }
}

/// The same roots as the load's, or none of them.
fn tls_config(tls: Option<&TlsClient>) -> TlsConfig {
    let roots: Vec<Certificate<'static>> = tls
        .map_or(&[][..], TlsClient::roots)
        .iter()
        .map(|root| Certificate::from_der(root).to_owned())
        .collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .disable_verification(tls.is_some_and(|tls| *tls.verification() == Verification::Off))
        .unversioned_rustls_crypto_provider(tls::provider())
        .build()
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

/// Turns the client's error into ours. Only texts that cannot hold a URL, a header or a body are passed on.
fn classify(call: HookCallName, error: &ureq::Error, timeout: Nanos) -> HookError {
    let unsendable = |call, reason: &str| HookError::Unsendable {
        call,
        reason: reason.to_owned(),
    };
    let (reason, effect) = match error {
        ureq::Error::Http(_) => {
            return unsendable(call, "a header name or value holds characters that HTTP does not allow");
        }
        ureq::Error::BadUri(_) => return unsendable(call, "origin and path do not form a URL"),
        ureq::Error::Timeout(stage) => {
            let effect = match stage {
                Timeout::Resolve | Timeout::Connect => Effect::None,
                _ => Effect::Possible,
            };
            (format!("timed out after {timeout}"), effect)
        }
        ureq::Error::HostNotFound => ("the host name does not resolve".to_owned(), Effect::None),
        ureq::Error::ConnectionFailed => ("the connection failed".to_owned(), Effect::None),
        ureq::Error::Rustls(error) => return unsendable(call, &format!("TLS handshake: {}", tls::explain(error))),
        ureq::Error::Io(error) => {
            // A handshake that failed is wrapped in an error of the stream. It fails again however often it is tried.
            if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
                return unsendable(call, &format!("TLS handshake: {}", tls::explain(error)));
            }
            let effect = match error.kind() {
                std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable => Effect::None,
                _ => Effect::Possible,
            };
            (error.to_string(), effect)
        }
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            ("the answer is not valid HTTP/1.1".to_owned(), Effect::Possible)
        }
        _ => ("the exchange failed".to_owned(), Effect::Possible),
    };
    HookError::Transport { call, reason, effect }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
