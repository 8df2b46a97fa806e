//! The control hooks of a run: the reset before it, and the thread that carries out profiler calls during it.
//!
//! The server must end with its profiler stopped, whatever happens to the run (a profiler that is left on slows down whatever is served
//! next). As long as the coordinator waits for answers that is the phase machine's work. Once it has given up on a call, two sides see to it, and
//! the log that they share keeps them from doing it twice: the control thread, should the answer of a start come after all, and whoever ends
//! the run, who does not wait for that answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LOOK, RunError, unless_interrupted};
use crate::clock::{self, WallAnchor};
use crate::control::{CallEnd, HookClient, HookError, HookReport, ReadinessClient, Waited};
use crate::coordinator::{HookCall, HookPort};
use crate::credit::Exchange;
use crate::interrupt::Interrupt;
use crate::plan::{HookPlan, Plan, ProfilerHook};
use crate::tls::TlsClient;
use crate::units::Nanos;

/// Longest life of a stop that follows a call which was given up: the user waits for the end of the process.
const LAST_STOP_TIMEOUT: Nanos = Nanos::from_secs(1);
/// From the interrupt to the end of all waiting for control calls. What is left of five seconds is for writing the results.
const LAST_WORD: Nanos = Nanos::from_secs(4);

/// The hooks of a run and the client that calls them.
pub(super) struct Hooks {
    client: HookClient,
    plan: HookPlan,
    interrupt: Arc<Interrupt>,
}

/// The thread that carries out profiler calls, and what it takes to do without it.
pub(super) struct ControlThread {
    /// Gives what its own last stop came to.
    thread: JoinHandle<Result<(), HookError>>,
    client: HookClient,
    /// The profiler hook with the timeout of last stops.
    last_stop: Option<ProfilerHook>,
}

/// Every control call of a run, in order.
#[derive(Default)]
pub(super) struct HookReports(Vec<HookReport>);

/// Waits until the server answers for the model, if the plan says so.
///
/// # Errors
/// It is not ready in time, or the user ended the run before it was.
pub(super) fn await_model(plan: &Plan, tls: Option<&TlsClient>, interrupt: &Arc<Interrupt>) -> Result<(), RunError> {
    let Some(readiness) = plan.readiness.clone() else {
        return Ok(());
    };
    let client = ReadinessClient::new(plan.endpoint.control_headers.clone(), tls);
    let watched = Arc::clone(interrupt);
    let outcome = unless_interrupted("ringload-readiness", interrupt, move || {
        client.wait_for(&readiness, |span| wait(span, &watched))
    })?;
    Ok(outcome?)
}

impl Hooks {
    pub(super) fn new(plan: &Plan, tls: Option<&TlsClient>, interrupt: Arc<Interrupt>) -> Self {
        let origins = plan.endpoint.targets.iter().map(|target| target.origin.clone());
        Self {
            client: HookClient::new(origins.collect(), plan.endpoint.control_headers.clone(), tls),
            plan: plan.hooks.clone(),
            interrupt,
        }
    }

    /// Resets the KV cache, if the plan says so.
    ///
    /// # Errors
    /// The server does not reset, or the user ended the run before it answered.
    pub(super) fn reset(self) -> Result<Self, RunError> {
        let Some(hook) = self.plan.reset_kv_cache.clone() else {
            return Ok(self);
        };
        let (client, watched) = (self.client.clone(), Arc::clone(&self.interrupt));
        unless_interrupted("ringload-reset", &self.interrupt, move || {
            client.reset(&hook, |span| wait(span, &watched))
        })??;
        Ok(self)
    }

    /// Starts the control thread. It ends when the coordinator drops its end of the port.
    ///
    /// # Errors
    /// No thread.
    pub(super) fn start(self, exchange: Arc<Exchange>) -> Result<(HookPort, ControlThread), RunError> {
        let (calls, requested) = channel();
        let (answered, answers) = channel();
        let Self { client, plan, .. } = self;
        let last_stop = plan.server_profiler.as_ref().map(|hook| ProfilerHook {
            timeout: hook.timeout.min(LAST_STOP_TIMEOUT),
            ..hook.clone()
        });
        let (caller, last) = (client.clone(), last_stop.clone());
        let thread = super::threads::spawn("ringload-control".into(), move || {
            while let Ok(call) = requested.recv() {
                let result = match (&plan.server_profiler, call) {
                    (Some(hook), HookCall::ProfilerStart) => caller.profiler_start(hook),
                    (Some(hook), HookCall::ProfilerStop) => caller.profiler_stop(hook),
                    (None, _) => unreachable!("the machine calls a profiler only if the plan has one"),
                };
                // Nobody listens any more if the coordinator has given up.
                let _ = answered.send((call, result.map_err(|error| error.to_string())));
                exchange.coordinator.wake();
            }
            // A run that ends in good order leaves nothing to do here. This one may have been left while a start was under way, or by a core
            // that failed. The log has what comes of it.
            last.map_or(Ok(()), |hook| caller.stop_at(caller.needing_stop(), &hook))
        })?;
        let control = ControlThread {
            thread,
            client,
            last_stop,
        };
        Ok((HookPort { calls, answers }, control))
    }
}

impl ControlThread {
    /// Sees to it that the server ends with its profiler stopped, and gives the calls of the run. The coordinator has ended; if the user ended the run,
    /// at `interrupted`, nobody waits much longer for answers. Returns a warning where a profiler may still run.
    pub(super) fn end(self, interrupted: Option<Nanos>) -> (HookReports, Option<String>) {
        let mut stops = vec![self.thread];
        if let Some(interrupted) = interrupted {
            // One thread for each origin: a server that hangs must not keep the others from being stopped.
            for server in self.client.needing_stop() {
                let (client, hook) = (self.client.clone(), self.last_stop.clone());
                let stop = move || hook.map_or(Ok(()), |hook| client.stop_at([server], &hook));
                stops.extend(super::threads::spawn("ringload-last-stop".into(), stop));
            }
            let deadline = interrupted + LAST_WORD;
            while clock::monotonic() < deadline && !stops.iter().all(JoinHandle::is_finished) {
                std::thread::sleep(LOOK);
            }
            // Whoever waits for an answer now is left alone with it.
            stops.retain(JoinHandle::is_finished);
        }
        let failed = stops.into_iter().filter_map(|stop| super::threads::join(stop).err());
        let mut reasons: Vec<String> = failed.map(|error| error.to_string()).collect();
        if let Some(hook) = &self.last_stop {
            let unanswered = self
                .client
                .needing_stop()
                .union(&self.client.owing_answer())
                .copied()
                .collect();
            reasons.extend(by_hand(&self.client, hook, unanswered));
        }
        let warning =
            (!reasons.is_empty()).then(|| format!("the server profiler may still run: {}", reasons.join("; ")));
        (HookReports(self.client.reports()), warning)
    }
}

/// What the user has to do at servers that owe an answer.
fn by_hand(client: &HookClient, hook: &ProfilerHook, servers: BTreeSet<usize>) -> Option<String> {
    let path = hook.stop_path.split('?').next().unwrap_or_default();
    let commands: Vec<String> = servers
        .into_iter()
        .map(|server| format!("curl -X POST {}{path}", client.shown_origin(server)))
        .collect();
    let told = || {
        format!(
            "a control call had no answer when the run ended; stop it with {}",
            commands.join(" and ")
        )
    };
    (!commands.is_empty()).then(told)
}

fn wait(span: Nanos, interrupt: &Interrupt) -> Waited {
    let mut left = Duration::from_nanos(span.0);
    while !interrupt.is_raised() {
        if left.is_zero() {
            return Waited::Elapsed;
        }
        let step = left.min(LOOK);
        std::thread::sleep(step);
        left -= step;
    }
    Waited::Interrupted
}

impl HookReports {
    /// For the artifacts, with wall-clock times to line up with a trace of the server.
    pub(super) fn to_json(&self, anchor: WallAnchor) -> Vec<Value> {
        let call = |report: &HookReport| {
            json!({
                "hook": report.what.as_str(),
                "origin": report.origin,
                "start_ns": anchor.to_wall_ns(report.start),
                "duration_ns": report.duration.0,
                "attempts": report.attempts,
                "status": report.status,
                "succeeded": report.succeeded(),
                "given_up": report.end == CallEnd::Pending,
            })
        };
        self.0.iter().map(call).collect()
    }
}
