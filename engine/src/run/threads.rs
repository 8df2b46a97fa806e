//! The threads of a run: started together, joined together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::hooks::{ControlThread, HookReports, Hooks};
use super::telemetry::{Observed, Observers};
use super::{Host, RunError, RunOptions};
use crate::coordinator::{Coordinator, CoordinatorReport, LiveBoard, MachineSettings, gate_capacity};
use crate::credit::{Command, Exchange, RequestIds};
use crate::http::{Extractor, Wanted};
use crate::id::CoreId;
use crate::journal::{BlockWriter, Journal};
use crate::plan::Plan;
use crate::reactor::{
    self, Chosen, CorePlan, CoreReport, DriverChoice, DriverKind, ReactorError, Routes, connects_in_flight,
};
use crate::report;
use crate::sys::{affinity, limits};
use crate::units::Nanos;

/// What the threads leave behind.
pub(super) struct Ended {
    pub(super) coordinator: CoordinatorReport,
    pub(super) cores: Vec<Result<CoreReport, ReactorError>>,
    pub(super) hooks: HookReports,
    /// A profiler may still run.
    pub(super) unstopped: Option<String>,
    /// What the server and its GPUs said meanwhile.
    pub(super) observed: Observed,
}

/// A run under way.
pub(super) struct Load {
    exchange: Arc<Exchange>,
    cores: Vec<JoinHandle<Result<CoreReport, ReactorError>>>,
    coordinator: JoinHandle<CoordinatorReport>,
    control: ControlThread,
    done: Receiver<()>,
}

pub(super) fn spawn<T: Send + 'static>(
    name: String,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    std::thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(RunError::Threads)
}

pub(super) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Load {
    /// Starts the cores, waits until each is ready to send, then starts the control and coordinator threads.
    ///
    /// # Errors
    /// A thread, an event or a driver could not be made. Nothing was sent.
    pub(super) fn start(
        plan: &Plan,
        host: &mut Host,
        journal: &Journal,
        hooks: Hooks,
        board: &Arc<LiveBoard>,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let (exchange, cores) = loop {
            match start_cores(plan, host, journal) {
                Ok(started) => break started,
                // One ring could be had, but not one for each core.
                Err(RunError::Reactor(error @ ReactorError::Setup { .. })) if options.driver == DriverChoice::Auto => {
                    host.driver = Chosen {
                        kind: DriverKind::Epoll,
                        reason: Some(error.as_reason()),
                    };
                }
                Err(error) => return Err(error),
            }
        };
        let (port, control) = hooks.start(Arc::clone(&exchange))?;
        let coordinator = Coordinator::new(
            plan,
            Arc::clone(&exchange),
            port,
            Arc::clone(board),
            Arc::clone(&options.interrupt),
            MachineSettings {
                drain_stall_timeout: options.drain_stall_timeout,
                stall_timeout: options.stall_timeout,
                seed: plan.seed,
            },
        );
        let (finished, done) = channel();
        let coordinator = spawn("ringload-coordinator".into(), move || {
            limits::sharpen_timers();
            let report = coordinator.run();
            let _ = finished.send(());
            report
        })?;
        Ok(Self {
            exchange,
            cores,
            coordinator,
            control,
            done,
        })
    }

    pub(super) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Waits until the load has ended, at most `patience`.
    pub(super) fn ended_within(&self, patience: Duration) -> bool {
        // A dropped sender means that the coordinator panicked; joining passes that on.
        !matches!(self.done.recv_timeout(patience), Err(RecvTimeoutError::Timeout))
    }

    /// Joins everything. The load has ended, so `observers` have their last answers to wait for.
    pub(super) fn join(self, observers: Observers) -> Ended {
        let scraping_ended = observers.end();
        let coordinator = join(self.coordinator);
        let (hooks, unstopped) = self.control.end(coordinator.interrupted);
        Ended {
            coordinator,
            cores: self.cores.into_iter().map(join).collect(),
            hooks,
            unstopped,
            observed: observers.finish(scraping_ended),
        }
    }
}

type CoreThread = JoinHandle<Result<CoreReport, ReactorError>>;

/// What a core says before it runs.
struct Ready {
    core: CoreId,
    /// It has its driver.
    able: bool,
    /// It runs where it should.
    pinned: bool,
}

fn start_cores(plan: &Plan, host: &mut Host, journal: &Journal) -> Result<(Arc<Exchange>, Vec<CoreThread>), RunError> {
    let processors = &host.placement.processors.cores;
    let count = processors.len();
    let capacities: Vec<usize> = plan.phases.iter().map(|phase| gate_capacity(phase, count)).collect();
    let exchange = Exchange::new(&capacities, count).map_err(RunError::Threads)?;
    let is_steered = plan.phases.iter().any(|phase| phase.limits.adaptive.is_some());
    let exchange = Arc::new(if is_steered { exchange.sampled() } else { exchange });
    let extractor = plan.endpoint.response_field.as_deref().map(Extractor::new);
    let extractor = extractor.map(|made| made.expect("the config was refused that has no expression here"));
    let extractor = extractor.unwrap_or_default();
    let routes = Routes::new(&host.addresses.servers, &host.addresses.sources);
    let (ready, readiness) = channel();
    let mut threads = Vec::new();
    for (index, &processor) in processors.iter().enumerate() {
        let id = CoreId(index as u16);
        let core_plan = CorePlan {
            id,
            phases: plan.phases.clone(),
            connections: host.placement.connections_per_core,
            images: plan.requests.clone(),
            ids: RequestIds::new(&plan.benchmark_id),
            seed: plan.seed,
            routes: routes.clone().beginning_at(index),
            connects_in_flight: connects_in_flight(count),
            connection_reuse: plan.endpoint.connection_reuse,
            tls: host.tls.clone(),
            kind: plan.endpoint.kind,
            extractor: extractor.clone(),
            wanted: Wanted {
                bodies: plan.artifacts.raw || plan.artifacts.outputs,
                heads: plan.artifacts.trace,
            },
            streaming: plan.endpoint.streaming,
            request_timeout: plan.endpoint.request_timeout.unwrap_or(Nanos::MAX),
            pacing: host.profiles,
            journal: BlockWriter::new(id, journal.queue()),
            keep_successes: plan.artifacts.records,
            judge: report::judge(&plan.slos),
            secrets: plan.secrets.clone(),
        };
        let (exchange, ready, kind) = (Arc::clone(&exchange), ready.clone(), host.driver.kind);
        threads.push(spawn(format!("ringload-core-{index}"), move || {
            let pinned = processor.is_none_or(affinity::pin_to);
            limits::sharpen_timers();
            run_core(kind, core_plan, exchange, |able| {
                let _ = ready.send(Ready { core: id, able, pinned });
            })
        })?);
    }
    drop(ready);
    let cores: Vec<Ready> = readiness.iter().take(threads.len()).collect();
    if cores.iter().filter(|ready| ready.able).count() == threads.len() {
        let refused = cores.iter().filter(|ready| !ready.pinned);
        refused.for_each(|ready| host.placement.processors.lose(ready.core.index()));
        return Ok((exchange, threads));
    }
    // A core that could not start returns its reason; the others have nothing to do and end when told.
    exchange.links.iter().for_each(|link| link.command(Command::Shutdown));
    let failure = threads.into_iter().filter_map(|thread| join(thread).err()).next();
    Err(RunError::Reactor(failure.expect("a core that is not ready has failed")))
}

fn run_core(
    kind: DriverKind,
    plan: CorePlan,
    exchange: Arc<Exchange>,
    ready: impl FnOnce(bool),
) -> Result<CoreReport, ReactorError> {
    /// Tells the coordinator if the core ends in any way but the planned one.
    struct Alarm {
        exchange: Arc<Exchange>,
        armed: bool,
    }
    impl Drop for Alarm {
        fn drop(&mut self) {
            if self.armed {
                self.exchange.report_core_failure();
            }
        }
    }
    let mut alarm = Alarm {
        exchange: Arc::clone(&exchange),
        armed: true,
    };
    let report = reactor::run_core(kind, plan, exchange, ready)?;
    alarm.armed = false;
    Ok(report)
}
