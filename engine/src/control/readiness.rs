//! Waiting until a server answers for its model, before anything else is sent.

use super::Waited;
use super::origin::redacted;
use super::retry::{ProbeLaw, Step};
use super::sender::{Ask, Refusal, Sender};
use crate::clock;
use crate::plan::{ProbeTarget, ReadinessMode, ReadinessPlan};
use crate::tls::TlsClient;
use crate::units::{Nanos, counted};

/// A model that was not served in time, or whose server cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "model '{model}' at {origin} is not ready after {waited} ({}): {last}; start the server, or raise wait_for_model_timeout",
    counted(*.probes, "probe")
)]
pub struct NotReady {
    /// The model.
    pub model: String,
    /// The server, without credentials.
    pub origin: String,
    /// From the first probe to the end of the last.
    pub waited: Nanos,
    /// Probes made.
    pub probes: u32,
    /// What the last probe came to.
    pub last: String,
}

/// Why a probe says no.
enum NotYet {
    /// It may say yes later.
    Later(String),
    /// It never will.
    Never(String),
}

/// A blocking client for probes: one connection each, no redirects.
#[derive(Debug)]
pub struct ReadinessClient {
    sender: Sender,
}

impl ReadinessClient {
    /// A client whose probes carry these headers. `tls` tells how servers of `https` addresses are verified.
    pub(crate) fn new(headers: Vec<(String, String)>, tls: Option<&TlsClient>) -> Self {
        Self {
            sender: Sender::new(headers, tls),
        }
    }

    /// Probes each server for each model in turn, each until it is ready or its time is up. `wait` sleeps between probes and says whether the user ended
    /// the run meanwhile.
    ///
    /// # Errors
    ///
    /// The first model that is not ready in time.
    pub fn wait_for(&self, plan: &ReadinessPlan, mut wait: impl FnMut(Nanos) -> Waited) -> Result<(), NotReady> {
        plan.targets
            .iter()
            .try_for_each(|target| self.wait_for_one(plan, target, &mut wait))
    }

    fn wait_for_one(
        &self,
        plan: &ReadinessPlan,
        target: &ProbeTarget,
        wait: &mut dyn FnMut(Nanos) -> Waited,
    ) -> Result<(), NotReady> {
        let law = ProbeLaw {
            interval: plan.interval,
            timeout: plan.timeout,
        };
        let start = clock::monotonic();
        let mut probes = 0;
        loop {
            probes += 1;
            let left = plan.timeout.since(clock::monotonic().since(start)).max(Nanos(1));
            let answer = self.probe(plan.mode, target, left);
            let waited = clock::monotonic().since(start);
            let (last, step) = match answer {
                Ok(()) => return Ok(()),
                Err(NotYet::Later(reason)) => (reason, law.after_failure(waited)),
                Err(NotYet::Never(reason)) => (reason, Step::GiveUp),
            };
            if let Step::RetryAfter(span) = step
                && wait(span) == Waited::Elapsed
            {
                continue;
            }
            return Err(NotReady {
                model: target.model.clone(),
                origin: redacted(&target.origin),
                waited,
                probes,
                last,
            });
        }
    }

    fn probe(&self, mode: ReadinessMode, target: &ProbeTarget, timeout: Nanos) -> Result<(), NotYet> {
        let start = clock::monotonic();
        if mode != ReadinessMode::Inference {
            self.is_listed(target, timeout)?;
        }
        if mode != ReadinessMode::Models {
            let left = timeout.since(clock::monotonic().since(start)).max(Nanos(1));
            self.infers(target, left)?;
        }
        Ok(())
    }

    /// Whether the server lists the model. One that has no list is asked whether it is there at all.
    fn is_listed(&self, target: &ProbeTarget, timeout: Nanos) -> Result<(), NotYet> {
        let url = &target.models_url;
        let (status, body) = self.ask(Ask::Get, url, timeout)?;
        match (status, body) {
            (200..=299, Some(body)) if lists(&body, &target.model) => Ok(()),
            (200..=299, Some(_)) => Err(NotYet::Later(format!("GET {} does not list it", redacted(url)))),
            // Too long to be searched, so nobody can say that it is not in there.
            (200..=299, None) => Ok(()),
            (404, _) => match self.ask(Ask::Get, &target.base_url, timeout)? {
                (200..=299, _) => Ok(()),
                (status, _) => Err(answered("GET", &target.base_url, status)),
            },
            (status, _) => Err(answered("GET", url, status)),
        }
    }

    /// Whether the server answers a request for one token. A refusal is an answer too: a server that is still loading gives none, or an error of
    /// its own.
    fn infers(&self, target: &ProbeTarget, timeout: Nanos) -> Result<(), NotYet> {
        match self.ask(Ask::PostJson(&target.body), &target.inference_url, timeout)? {
            (..=499, _) => Ok(()),
            (status, _) => Err(answered("POST", &target.inference_url, status)),
        }
    }

    fn ask(&self, ask: Ask<'_>, url: &str, timeout: Nanos) -> Result<(u16, Option<Vec<u8>>), NotYet> {
        let method = if matches!(ask, Ask::Get) { "GET" } else { "POST" };
        match self.sender.ask(ask, url, timeout) {
            Ok(answer) => Ok((answer.status, answer.body)),
            Err(Refusal::Transport { reason, .. }) => Err(NotYet::Later(format!(
                "{method} {} got no answer: {reason}",
                redacted(url)
            ))),
            Err(Refusal::Unsendable(reason)) => Err(NotYet::Never(format!(
                "{method} {} cannot be sent: {reason}",
                redacted(url)
            ))),
        }
    }
}

fn answered(method: &str, url: &str, status: u16) -> NotYet {
    NotYet::Later(format!("{method} {} was answered with status {status}", redacted(url)))
}

/// Whether a list of models, in the form of the OpenAI API, has an entry with this id.
fn lists(body: &[u8], model: &str) -> bool {
    let Ok(document) = serde_json::from_slice::<serde_json::Value>(body) else {
        return false;
    };
    let entries = document["data"].as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().any(|entry| entry["id"] == model)
}

#[cfg(test)]
#[path = "readiness_tests.rs"]
mod tests;
