//! The control hooks of a run: the reset before it, and the thread that carries out profiler calls during it.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LOOK, RunError, unless_interrupted};
use crate::clock::WallAnchor;
use crate::control::{HookClient, HookReport, Waited};
use crate::coordinator::{HookCall, HookPort};
use crate::credit::Exchange;
use crate::interrupt::Interrupt;
use crate::plan::{HookPlan, Plan};
use crate::tls::TlsClient;
use crate::units::Nanos;

/// Longest life of the stop that follows a call which was given up: the user waits for the end of the process.
const LAST_STOP_TIMEOUT: Nanos = Nanos::from_secs(1);

/// The hooks of a run and the client that calls them.
pub(super) struct Hooks {
    client: HookClient,
    plan: HookPlan,
    interrupt: Arc<Interrupt>,
}

/// Every control call of a run, in order.
#[derive(Default)]
pub(super) struct HookReports(Vec<HookReport>);

impl Hooks {
    pub(super) fn new(plan: &Plan, tls: Option<&TlsClient>, interrupt: Arc<Interrupt>) -> Self {
        Self {
            client: client(plan, tls),
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
        let Self {
            mut client,
            plan,
            interrupt,
        } = self;
        let watched = Arc::clone(&interrupt);
        let (client, outcome) = unless_interrupted("ringload-reset", &interrupt, move || {
            let outcome = client.reset(&hook, |span| wait(span, &watched));
            (client, outcome)
        })?;
        outcome?;
        Ok(Self {
            client,
            plan,
            interrupt,
        })
    }

    /// Starts the control thread. It ends when the coordinator drops its end of the port.
    ///
    /// # Errors
    /// No thread.
    pub(super) fn start(self, exchange: Arc<Exchange>) -> Result<(HookPort, JoinHandle<HookReports>), RunError> {
        let (calls, requested) = channel();
        let (answered, answers) = channel();
        let Self { mut client, plan, .. } = self;
        let thread = super::threads::spawn("ringload-control".into(), move || {
            while let Ok(call) = requested.recv() {
                let result = match (&plan.server_profiler, call) {
                    (Some(hook), HookCall::ProfilerStart) => client.profiler_start(hook),
                    (Some(hook), HookCall::ProfilerStop) => client.profiler_stop(hook),
                    (None, _) => unreachable!("the machine calls a profiler only if the plan has one"),
                };
                let _ = answered.send((call, result.map_err(|error| error.to_string())));
                exchange.coordinator.wake();
            }
            HookReports(client.reports().to_vec())
        })?;
        Ok((HookPort { calls, answers }, thread))
    }
}

fn client(plan: &Plan, tls: Option<&TlsClient>) -> HookClient {
    let origins = vec![plan.endpoint.target.origin.clone()];
    HookClient::new(origins, plan.endpoint.control_headers.clone(), tls)
}

/// Stops a profiler whose last call was given up: a server that did not answer the start may run it all the same, and must end stopped. Returns
/// a warning if it cannot be stopped either.
pub(super) fn stop_after_given_up_call(plan: &Plan, tls: Option<&TlsClient>) -> Option<String> {
    let mut hook = plan.hooks.server_profiler.clone()?;
    hook.timeout = hook.timeout.min(LAST_STOP_TIMEOUT);
    let error = client(plan, tls).profiler_stop(&hook).err()?;
    Some(format!("the server profiler may still run: {error}"))
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
                "succeeded": report.succeeded,
            })
        };
        self.0.iter().map(call).collect()
    }
}
