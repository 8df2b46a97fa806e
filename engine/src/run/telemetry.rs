//! Scrapers beside the load: started before it, told where phases start and end, and given a moment for their last answers.

use std::sync::Arc;
use std::time::Instant;

use super::RunError;
use crate::control::PageClient;
use crate::coordinator::PhaseSummary;
use crate::id::PhaseId;
use crate::plan::{Plan, ScrapeSource};
use crate::telemetry::{Bell, Course, GpuHistory, History, Lifetime, Scrapers};
use crate::tls::TlsClient;
use crate::units::counted;

/// The scrapers of a run.
pub(super) struct Observers {
    pub(super) bell: Arc<Bell>,
    servers: Scrapers<History>,
    gpus: Option<Scrapers<GpuHistory>>,
}

/// What they leave behind.
pub(super) struct Observed {
    pub(super) servers: Vec<(History, Course)>,
    pub(super) gpus: Option<Vec<(GpuHistory, Course)>>,
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
        let servers = Scrapers::start(
            &plan.telemetry.server_metrics,
            &bell,
            client,
            &plan.secrets,
            History::default,
        )
        .map_err(RunError::Threads)?;
        let gpus = plan.telemetry.gpu.as_ref();
        let gpus = gpus.map(|sources| Scrapers::start(sources, &bell, client, &plan.secrets, GpuHistory::default));
        let gpus = gpus.transpose().map_err(RunError::Threads)?;
        let started = Instant::now();
        servers.await_first(started);
        if let Some(gpus) = &gpus {
            gpus.await_first(started);
        }
        Ok(Self { bell, servers, gpus })
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
            gpus: self.gpus.map(|gpus| gpus.finish(ended)),
        }
    }
}

impl Observed {
    /// A line for each thing about an endpoint that the user would want to know.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let gpus = self.gpus.iter().flatten();
        let gpus = gpus.filter_map(|(_, course)| line("GPU telemetry", "gpu-telemetry", course));
        let servers = self.servers.iter().flat_map(|(history, course)| {
            let about = |text: String| format!("server metrics of {}: {text}", course.url);
            let bad = (history.bad_lines > 0)
                .then(|| format!("left out {} that are no Prometheus text", counted(history.bad_lines, "line")));
            let anew = (history.resets > 0).then(|| {
                format!(
                    "counters began anew {}, as they do when a server restarts; figures hold what was counted before and after",
                    counted(history.resets, "time")
                )
            });
            let course = line("server metrics", "server-metrics", course);
            course.into_iter().chain([bad, anew].into_iter().flatten().map(about))
        });
        servers.chain(gpus)
    }
}

/// A line about how it went with an endpoint, unless it went well or nobody would expect it to be there.
fn line(what: &str, flag: &str, course: &Course) -> Option<String> {
    let remedy = if course.is_of_flags {
        format!("name the right address with --{flag}, or give --no-{flag}")
    } else {
        let key = flag.replace('-', "_");
        format!("name the right address in {key}.urls, or write {key}: false")
    };
    let url = &course.url;
    if let Some(reason) = &course.off {
        return course.is_news.then(|| format!("no {what}: {reason}; {remedy}"));
    }
    if let Some(reason) = course.detour.as_ref().filter(|_| course.is_news) {
        return Some(format!("{what} come from {url}: {reason}"));
    }
    if course.answers == 0 {
        return Some(format!("no {what}: no answer from {url} while the load ran; {remedy}"));
    }
    if course.failures > 0 {
        let (failures, last) = (course.failures, course.last_failure.as_deref().unwrap_or_default());
        let all = failures + course.answers;
        return Some(format!(
            "{what} of {url}: {failures} of {} failed, the last one because the server {last}",
            counted(all, "scrape")
        ));
    }
    if course.is_unanswered {
        return Some(format!(
            "{what} of {url}: no answer at the end of the load, so what came last is missing in them"
        ));
    }
    course.is_thinned.then(|| {
        format!("{what} of {url}: too many figures moved to keep all of them; from some time on there are only those of starts and ends of phases")
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
