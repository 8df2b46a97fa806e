//! Scrapers beside the load: started before it, told where phases start and end, and given a moment for their last answers.

use std::sync::Arc;
use std::time::Instant;

use super::RunError;
use crate::control::PageClient;
use crate::coordinator::PhaseSummary;
use crate::id::PhaseId;
use crate::plan::{Plan, ScrapeSource};
use crate::telemetry::{Bell, Course, History, Lifetime, Scrapers};
use crate::tls::TlsClient;

/// The scrapers of a run.
pub(super) struct Observers {
    pub(super) bell: Arc<Bell>,
    servers: Scrapers<History>,
}

/// What they leave behind.
pub(super) struct Observed {
    pub(super) servers: Vec<(History, Course)>,
}

impl Observers {
    /// Starts them and waits a moment for first answers, so that counters are known from before the first request.
    ///
    /// # Errors
    /// No thread.
    pub(super) fn start(plan: &Plan, tls: Option<&TlsClient>) -> Result<Self, RunError> {
        let bell = Arc::new(Bell::default());
        let client = |source: &ScrapeSource| {
            let headers = if source.is_of_endpoint {
                plan.endpoint.control_headers.clone()
            } else {
                Vec::new()
            };
            PageClient::new(headers, tls)
        };
        let servers = Scrapers::start(&plan.telemetry.server_metrics, &bell, client, History::default)
            .map_err(RunError::Threads)?;
        servers.await_first();
        Ok(Self { bell, servers })
    }

    /// The load has ended: asks for last answers without waiting for them.
    pub(super) fn end(&self) -> Instant {
        self.bell.end();
        Instant::now()
    }

    /// Waits for last answers, but not long after the end.
    pub(super) fn finish(self, ended: Instant) -> Observed {
        Observed {
            servers: self.servers.finish(ended),
        }
    }
}

impl Observed {
    /// A line for each endpoint that the user would want to know about.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.servers.iter().flat_map(|(history, course)| {
            lines("server metrics", "server_metrics", course)
                .into_iter()
                .chain(bad_lines(course, history))
        })
    }
}

fn lines(what: &str, key: &str, course: &Course) -> Option<String> {
    if let Some(reason) = course.off.as_ref().filter(|_| course.is_news) {
        return Some(format!(
            "no {what}: {reason}; name the right address in {key}.urls, or write {key}: false"
        ));
    }
    if let Some(reason) = course.detour.as_ref().filter(|_| course.is_news) {
        return Some(format!("{what} come from {}: {reason}", course.url));
    }
    if course.failures > 0 {
        let last = course.last_failure.as_deref().unwrap_or_default();
        return Some(format!(
            "{what} of {}: {} of {} scrapes failed, the last one because the server {last}",
            course.url,
            course.failures,
            course.failures + course.answers
        ));
    }
    if course.is_unanswered {
        return Some(format!(
            "{what} of {}: no answer at the end of the load, so the end of the last phase is missing in them",
            course.url
        ));
    }
    course.is_thinned.then(|| {
        format!(
            "{what} of {}: too many figures moved to keep them all, so from some time on only starts and ends of phases are in them",
            course.url
        )
    })
}

fn bad_lines(course: &Course, history: &History) -> Option<String> {
    (history.bad_lines > 0).then(|| {
        format!(
            "server metrics of {}: {} lines are not Prometheus text and were left out",
            course.url, history.bad_lines
        )
    })
}

/// When the phases ran.
pub(super) fn lifetimes(phases: &[PhaseSummary]) -> Vec<(PhaseId, Lifetime)> {
    let of = |summary: &PhaseSummary| {
        let lifetime = Lifetime {
            start: summary.start,
            end: summary.end,
        };
        (summary.phase, lifetime)
    };
    let mut lifetimes: Vec<(PhaseId, Lifetime)> = phases.iter().map(of).collect();
    lifetimes.sort_by_key(|&(phase, _)| phase.index());
    lifetimes
}
