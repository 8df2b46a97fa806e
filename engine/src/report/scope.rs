//! The figures of one scope: one phase, all profiling phases, or all warmup phases.

use std::sync::{Mutex, PoisonError};

use super::PercentileMode;
use super::collector::PhaseData;
use super::column::Pool;
use super::curve;
use super::distribution::Distribution;
use super::errors::{self, ErrorCount, ErrorGroups};
use super::levels::{self, Level};
use super::metric::{
    E2E_NORMALIZED_LATENCY, Formula, Kind, METRICS, Metric, OSL_MISMATCH, SCHEDULE_OFFSET, USAGE_DISCREPANCY,
};
use super::radix;
use super::rows::Row;
use super::share;
use super::totals::Totals;
use crate::clock::WallAnchor;
use crate::coordinator::Tally;
use crate::plan::Slo;
use crate::record::{Family, ImageFacts, PhaseHistograms};
use crate::units::Nanos;

/// A figure of a scope, in the metric's exported unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One number.
    Scalar(f64),
    /// Statistics over many.
    Distribution(Box<Distribution>),
}

/// A metric and its figure.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it is.
    pub metric: &'static Metric,
    /// How much.
    pub value: Value,
}

impl Measured {
    /// Statistics of a metric in its internal unit.
    pub(super) fn of_distribution(metric: &'static Metric, distribution: Distribution) -> Self {
        Self {
            metric,
            value: Value::Distribution(Box::new(distribution.scaled(metric.unit.divisor()))),
        }
    }
}

/// Puts figures into the order of [`METRICS`].
pub(super) fn sort(measured: &mut [Measured]) {
    measured.sort_by_key(|m| METRICS.iter().position(|metric| metric.tag == m.metric.tag));
}

/// When a scope was observed, in wall-clock nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Start of the first phase's clock.
    pub start_ns: u64,
    /// When the last request of the last phase ended.
    pub end_ns: u64,
    /// Whether all phases of the scope ended; otherwise `end_ns` is the last thing that is known.
    pub ended: bool,
}

/// Everything reported about one scope.
#[derive(Debug, Clone)]
pub struct ScopeReport {
    /// `None` if nothing of the scope started.
    pub window: Option<Window>,
    /// What became of its requests: `sent = succeeded + failed + cancelled + truncated`.
    pub counts: Tally,
    /// Requests sent a second time because a reused connection had died.
    pub resent: u64,
    /// Successful streams without a `[DONE]`.
    pub missing_done: u64,
    /// Its metrics, in the order of [`METRICS`]. A metric without inputs is not there.
    pub metrics: Vec<Measured>,
    /// Its failures, most frequent first. Requests that the engine cut are not among them.
    pub errors: Vec<ErrorCount>,
    /// What its successes made of each service level. Empty without levels, and where there are no records to count.
    pub levels: Vec<Level>,
    /// Actual start minus intended start in milliseconds, from the histograms.
    pub send_lag: Option<Distribution>,
    /// Whether an interrupt cut it short.
    pub was_cancelled: bool,
    /// Why it is not complete; `None` if it is.
    pub incomplete_reason: Option<String>,
}

impl ScopeReport {
    /// The figure of a metric.
    pub fn get(&self, tag: &str) -> Option<&Value> {
        self.metrics
            .iter()
            .find(|measured| measured.metric.tag == tag)
            .map(|measured| &measured.value)
    }

    /// The figure of a scalar metric.
    pub fn scalar(&self, tag: &str) -> Option<f64> {
        match self.get(tag)? {
            Value::Scalar(value) => Some(*value),
            Value::Distribution(_) => None,
        }
    }

    /// The statistics of a distribution.
    pub fn distribution(&self, tag: &str) -> Option<&Distribution> {
        match self.get(tag)? {
            Value::Distribution(distribution) => Some(distribution),
            Value::Scalar(_) => None,
        }
    }
}

/// What is the same for all scopes of a run.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) anchor: WallAnchor,
    pub(super) streaming: bool,
    pub(super) mode: PercentileMode,
    pub(super) images: &'a [ImageFacts],
    pub(super) slos: &'a [Slo],
    pub(super) reach: Reach,
}

/// How far a scope reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Over whole phases.
    Phases,
    /// Over the requests that started in one slice of the run. What was going on at once is not known from these alone.
    Slice,
}

impl Context<'_> {
    /// Whether there may be a figure of this metric.
    pub(super) fn applies(&self, metric: &Metric) -> bool {
        let of_scope = match self.reach {
            Reach::Phases => true,
            Reach::Slice => metric.in_slices && !matches!(metric.kind, Kind::Curve(_)),
        };
        of_scope && (self.streaming || !metric.streaming_only)
    }
}

/// A scope under computation.
struct Scope<'a> {
    phases: &'a [&'a PhaseData],
    images: &'a [ImageFacts],
    successes: u64,
    errors: u64,
    /// Whose turn it is to compute a curve.
    turn: Mutex<()>,
}

/// Requests counted for what they were, not for what they measured.
struct Judged {
    /// `None` without service levels.
    good: Option<u64>,
    context_overflows: u64,
}

/// Computes the figures of some phases taken together.
pub(super) fn compute(context: &Context<'_>, phases: &[&PhaseData]) -> ScopeReport {
    let counts = phases.iter().map(|phase| phase.tally()).fold(Tally::default(), add);
    let seen = phases.iter().map(|phase| phase.seen).fold(Tally::default(), add);
    // Beside exact distributions stand the counts of the same records; histograms have no other counts than the phase machine's.
    let of_record = match context.mode {
        PercentileMode::Exact => seen,
        PercentileMode::Histogram => counts,
    };
    let scope = Scope {
        phases,
        images: context.images,
        successes: of_record.succeeded,
        errors: of_record.failed + of_record.cancelled,
        turn: Mutex::new(()),
    };
    let histograms = merged_histograms(phases);
    let applicable = || METRICS.iter().filter(|metric| context.applies(metric));
    let mut measured = match context.mode {
        PercentileMode::Exact => scope.distributions(applicable()),
        PercentileMode::Histogram => from_histograms(applicable(), histograms.as_ref()),
    };
    let good = match context.mode {
        PercentileMode::Exact => phases.iter().map(|phase| phase.good).sum(),
        PercentileMode::Histogram => histograms.as_ref().map_or(0, PhaseHistograms::good),
    };
    let errors = ErrorGroups::merged(phases.iter().map(|phase| &phase.errors));
    let judged = Judged {
        good: (!context.slos.is_empty()).then_some(good),
        context_overflows: errors::context_overflows(&errors),
    };
    let totals = scope.totals(context, &measured, judged);
    let scalars: Vec<Measured> = applicable()
        .filter_map(|metric| match metric.kind {
            Kind::Scalar(value) => value(&totals).filter(|v| v.is_finite()).map(|v| Measured {
                metric,
                value: Value::Scalar(v),
            }),
            _ => None,
        })
        .collect();
    measured.extend(scalars);
    sort(&mut measured);
    ScopeReport {
        window: window(context, phases),
        counts,
        resent: phases.iter().map(|phase| phase.resent).sum(),
        missing_done: phases.iter().map(|phase| phase.missing_done).sum(),
        metrics: measured,
        errors,
        levels: levels::of(context.slos, phases),
        send_lag: histograms
            .and_then(|all| Distribution::of_histogram(all.family(Family::SendLag)))
            .map(|lag| lag.scaled(1e6)),
        was_cancelled: false,
        incomplete_reason: None,
    }
}

fn add(a: Tally, b: Tally) -> Tally {
    Tally {
        sent: a.sent + b.sent,
        succeeded: a.succeeded + b.succeeded,
        failed: a.failed + b.failed,
        cancelled: a.cancelled + b.cancelled,
        truncated: a.truncated + b.truncated,
    }
}

fn merged_histograms(phases: &[&PhaseData]) -> Option<PhaseHistograms> {
    let mut all = phases.iter().filter_map(|phase| phase.histograms.as_ref());
    let mut merged = all.next()?.clone();
    all.for_each(|other| merged.merge(other));
    Some(merged)
}

fn from_histograms(
    metrics: impl Iterator<Item = &'static Metric>,
    histograms: Option<&PhaseHistograms>,
) -> Vec<Measured> {
    let Some(histograms) = histograms else {
        return Vec::new();
    };
    metrics
        .filter_map(|metric| {
            let distribution = Distribution::of_histogram(histograms.family(metric.family?))?;
            Some(Measured::of_distribution(metric, distribution))
        })
        .collect()
}

/// From the first start to the last end.
fn window(context: &Context<'_>, phases: &[&PhaseData]) -> Option<Window> {
    let windows = || phases.iter().filter_map(|phase| phase.window());
    Some(Window {
        start_ns: context.anchor.to_wall_ns(windows().map(|(start, _)| start).min()?),
        end_ns: context.anchor.to_wall_ns(windows().map(|(_, end)| end).max()?),
        ended: phases.iter().all(|phase| phase.summary.is_some()),
    })
}

/// Length of the union of windows: an instant in two phases counts once, a pause between phases not at all.
pub(super) fn union_length(mut windows: Vec<(Nanos, Nanos)>) -> Nanos {
    windows.sort_unstable();
    let mut covered_to = Nanos::ZERO;
    windows.into_iter().fold(Nanos::ZERO, |length, (start, end)| {
        let fresh = end.since(start.max(covered_to));
        covered_to = covered_to.max(end);
        length + fresh
    })
}

impl Scope<'_> {
    fn rows(&self) -> usize {
        self.phases.iter().map(|phase| phase.rows.len()).sum()
    }

    /// All values of a formula in ascending order.
    fn sorted(&self, formula: &Formula) -> Vec<f64> {
        self.sorted_of(formula, |_| true)
    }

    /// The same over some of the phases.
    fn sorted_of(&self, formula: &Formula, wanted: impl Fn(&PhaseData) -> bool) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.rows());
        for phase in self.phases.iter().filter(|phase| wanted(phase)) {
            values.extend((0..phase.rows.len()).filter_map(|at| {
                let row = Row::new(&phase.rows, self.images, at);
                (formula.of_row)(&row)
            }));
        }
        radix::sort(&mut values);
        values
    }

    fn of_formula(&self, formula: &Formula) -> Option<Distribution> {
        let values = self.sorted(formula);
        Distribution::of_sorted(values.len(), |at| values[at])
    }

    /// Distributions of all metrics. A thread holds one metric's values at a time, 16 bytes per record. Curves hold up to 128 bytes per record, so
    /// they take turns.
    fn distributions(&self, metrics: impl Iterator<Item = &'static Metric>) -> Vec<Measured> {
        let metrics: Vec<&'static Metric> = metrics.collect();
        let measured = share::among_threads(&metrics, self.rows(), |metric| {
            let distribution = self.distribution(metric)?;
            Some(Measured::of_distribution(metric, distribution))
        });
        measured.into_iter().flatten().collect()
    }

    /// Statistics of one metric in internal units; `None` for scalars and for metrics without values.
    fn distribution(&self, metric: &Metric) -> Option<Distribution> {
        match metric.kind {
            Kind::Record(formula) => self.of_formula(&formula),
            Kind::Gaps => match self.phases {
                [phase] => of_pool(&phase.gaps),
                phases => {
                    let mut pool = Pool::default();
                    phases.iter().for_each(|phase| pool.append(&phase.gaps));
                    pool.sort();
                    of_pool(&pool)
                }
            },
            Kind::ErrorInput => of_integers(
                self.phases
                    .iter()
                    .flat_map(|phase| phase.error_inputs.values())
                    .collect(),
            ),
            Kind::IssueDelay => of_integers(
                self.phases
                    .iter()
                    .flat_map(|phase| phase.issue_delays.values())
                    .collect(),
            ),
            Kind::Adjusted { of } => match super::metric::metric(of)?.kind {
                Kind::Record(formula) if self.errors > 0 => {
                    let values = self.sorted(&formula);
                    Distribution::with_failures(values.len(), self.errors, |at| values[at])
                }
                _ => None,
            },
            Kind::Curve(curve) => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                curve::distribution(curve, self.phases, self.images, self.window())
            }
            Kind::Scalar(_) => None,
        }
    }

    /// Length of the union of the phases' windows.
    fn window(&self) -> Nanos {
        union_length(self.phases.iter().filter_map(|phase| phase.window()).collect())
    }

    fn schedule_offset(&self) -> Option<Distribution> {
        if !self.phases.iter().any(|phase| phase.replays) {
            return None;
        }
        let values = self.sorted_of(&SCHEDULE_OFFSET, |phase| phase.replays);
        Distribution::of_sorted(values.len(), |at| values[at])
    }

    fn totals<'m>(&self, context: &Context<'_>, measured: &'m [Measured], judged: Judged) -> Totals<'m> {
        let has_window = self.phases.iter().any(|phase| phase.window().is_some());
        let window_s = has_window.then(|| self.window().as_secs_f64());
        // One phase: from its first request to its last response. Several: the time in which any of them ran. Without records only
        // the window is known.
        let responses = match self.phases {
            [phase] => phase.responses.map(|(first, last)| last.since(first).as_secs_f64()),
            _ => None,
        };
        let benchmark_duration_s = match (self.successes, context.mode) {
            (0, _) => None,
            (_, PercentileMode::Exact) if self.phases.len() == 1 => responses,
            _ => responses.or(window_s),
        };
        Totals {
            measured,
            successes: self.successes,
            errors: self.errors,
            good: judged.good,
            context_overflows: judged.context_overflows,
            window_s,
            benchmark_duration_s,
            normalized_latency: self.of_formula(&E2E_NORMALIZED_LATENCY),
            osl_mismatch: self.of_formula(&OSL_MISMATCH),
            usage_discrepancy: self.of_formula(&USAGE_DISCREPANCY),
            schedule_offset: self.schedule_offset(),
        }
    }
}

fn of_pool(pool: &Pool) -> Option<Distribution> {
    Distribution::of_sorted(pool.len(), |at| pool.at(at) as f64)
}

fn of_integers(mut values: Vec<u64>) -> Option<Distribution> {
    radix::sort(&mut values);
    Distribution::of_sorted(values.len(), |at| values[at] as f64)
}
