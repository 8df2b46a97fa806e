//! Adaptive scale, resolved: which limit or pace a phase moves while it runs, how far, and what tells whether the server still copes.

use crate::config::{AdaptiveScale, AdaptiveStep, AdaptiveVariable, Sla};
use crate::units::Nanos;

/// Seconds of a window when the file does not say.
const DEFAULT_PERIOD_S: f64 = 30.0;
const DEFAULT_BASE_STEP: f64 = 10.0;
const DEFAULT_MULTIPLIER: u32 = 4;
const DEFAULT_PERCENT: f64 = 25.0;

/// How long before a request is due its credit is given to the cores, in phases whose pace a controller moves. A change of the pace applies this
/// long after the window that it follows from, so no credit that was given has to be taken back or moved.
///
/// Five turns of the coordinator: one that is kept from running for 40 ms makes no request late. A twentieth of the shortest window of a config:
/// little of what a window judges was sent at the pace before.
pub const PACE_LEAD: Nanos = Nanos::from_millis(50);

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlVariable {
    /// Requests in flight.
    Concurrency,
    /// Requests in prefill.
    PrefillConcurrency,
    /// Arrivals per second of an open loop.
    RequestRate,
    /// Users who pace themselves.
    Users,
}

impl ControlVariable {
    /// The word in config and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::PrefillConcurrency => "prefill_concurrency",
            Self::RequestRate => "request_rate",
            Self::Users => "users",
        }
    }

    /// Whether it moves the schedule of a phase, and not a limit.
    pub fn is_pace(self) -> bool {
        matches!(self, Self::RequestRate | Self::Users)
    }

    /// Whether its values are whole numbers.
    pub fn is_whole(self) -> bool {
        self != Self::RequestRate
    }
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepPolicy {
    /// The further from the service level, the further.
    #[default]
    SlaMargin,
    /// By a percentage of the value.
    FixedPercent,
}

impl StepPolicy {
    /// The word in config and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlaMargin => "sla_margin",
            Self::FixedPercent => "fixed_percent_step",
        }
    }
}

/// A figure of a window that a service level can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowMetric {
    /// Milliseconds from the start of a request to its last content.
    RequestLatency,
    /// Milliseconds from the start of a request to its first content.
    TimeToFirstToken,
    /// Milliseconds between tokens, as a mean of each request.
    InterTokenLatency,
    /// Successes per second.
    RequestThroughput,
    /// Output tokens of successes per second.
    OutputTokenThroughput,
    /// Good requests per second: successes that meet the run's `slos`.
    Goodput,
    /// Good requests among all that ended, 0 to 1.
    GoodputRatio,
    /// Successes among all that ended, 0 to 1.
    SuccessRate,
    /// Failures among all that ended, in percent.
    ErrorRate,
    /// Simulated disconnects among all that ended, 0 to 1.
    CancellationRate,
}

impl WindowMetric {
    /// Whether it says something about a window in which nothing succeeded.
    pub fn is_about_failures(self) -> bool {
        matches!(self, Self::ErrorRate | Self::CancellationRate)
    }
}

/// One number of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStat {
    /// Arithmetic mean.
    Average,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Percentile, 1 to 99, interpolated linearly between the closest ranks.
    Percentile(u8),
}

/// Which side of the threshold is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlaOp {
    /// Below.
    Lt,
    /// Not above.
    Le,
    /// Above.
    Gt,
    /// Not below.
    Ge,
}

impl SlaOp {
    /// The word in config and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
        }
    }

    /// Whether a value meets the threshold.
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Lt => value < threshold,
            Self::Le => value <= threshold,
            Self::Gt => value > threshold,
            Self::Ge => value >= threshold,
        }
    }
}

/// One service level.
#[derive(Debug, Clone, PartialEq)]
pub struct SlaFilter {
    /// What is looked at.
    pub metric: WindowMetric,
    /// Its name as the user wrote it.
    pub name: String,
    /// Which number of it.
    pub stat: WindowStat,
    /// The statistic as the user wrote it.
    pub stat_name: String,
    /// Which side is good.
    pub op: SlaOp,
    /// Where the sides meet.
    pub threshold: f64,
}

impl SlaFilter {
    /// The filter in one word, as artifacts name it.
    pub fn key(&self) -> String {
        format!(
            "{}:{}:{}:{}",
            self.name,
            self.stat_name,
            self.op.as_str(),
            self.threshold
        )
    }
}

/// The controller of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptivePlan {
    /// What it moves.
    pub variable: ControlVariable,
    /// Where it begins, and the lowest that it goes; positive. Whole, like all values of a variable that counts something, and then at most
    /// `u32::MAX`.
    pub min: f64,
    /// The highest that it goes; above `min`.
    pub max: f64,
    /// From one assessment to the next.
    pub assessment_period: Nanos,
    /// Successes without which a window says nothing.
    pub min_completed: u64,
    /// How long the value that was found must hold.
    pub sustain_duration: Nanos,
    /// How far a step goes.
    pub step_policy: StepPolicy,
    /// Smallest step of the policy `sla_margin`; whole where values are.
    pub base_step: f64,
    /// Most base steps in one.
    pub max_step_multiplier: u32,
    /// Step of the policy `fixed_percent_step`.
    pub step_percent: f64,
    /// What must hold; all of it. Not empty.
    pub filters: Vec<SlaFilter>,
}

impl AdaptivePlan {
    /// The value as the whole number that it is, of a variable that counts something.
    pub fn whole(value: f64) -> u32 {
        value as u32
    }
}

/// The controller of a phase, with its defaults.
pub(super) fn resolve(written: &AdaptiveScale) -> AdaptivePlan {
    let span = |seconds: f64| Nanos::from_secs_f64(seconds).max(Nanos(1));
    AdaptivePlan {
        variable: match written.variable {
            AdaptiveVariable::Concurrency => ControlVariable::Concurrency,
            AdaptiveVariable::PrefillConcurrency => ControlVariable::PrefillConcurrency,
            AdaptiveVariable::RequestRate => ControlVariable::RequestRate,
            AdaptiveVariable::Users => ControlVariable::Users,
        },
        min: written.min.unwrap_or(1.0),
        max: written.max,
        assessment_period: span(written.assessment_period_s.unwrap_or(DEFAULT_PERIOD_S)),
        min_completed: written.min_completed_requests.unwrap_or(1),
        sustain_duration: span(written.sustain_duration_s),
        step_policy: match written.step_policy {
            None | Some(AdaptiveStep::SlaMargin) => StepPolicy::SlaMargin,
            Some(AdaptiveStep::FixedPercent) => StepPolicy::FixedPercent,
        },
        base_step: written.base_step.unwrap_or(DEFAULT_BASE_STEP),
        max_step_multiplier: written.max_step_multiplier.unwrap_or(DEFAULT_MULTIPLIER),
        step_percent: written.step_percent.unwrap_or(DEFAULT_PERCENT),
        filters: written.sla.iter().map(filter).collect(),
    }
}

fn filter(written: &Sla) -> SlaFilter {
    SlaFilter {
        metric: match written.metric.as_str() {
            "request_latency" => WindowMetric::RequestLatency,
            "time_to_first_token" | "ttft" => WindowMetric::TimeToFirstToken,
            "inter_token_latency" | "itl" | "tpot" => WindowMetric::InterTokenLatency,
            "request_throughput" | "throughput" => WindowMetric::RequestThroughput,
            "output_token_throughput" => WindowMetric::OutputTokenThroughput,
            "goodput" => WindowMetric::Goodput,
            "goodput_ratio" => WindowMetric::GoodputRatio,
            "success_rate" => WindowMetric::SuccessRate,
            "error_rate" => WindowMetric::ErrorRate,
            "cancellation_rate" => WindowMetric::CancellationRate,
            other => unreachable!("the config knows no window metric {other}"),
        },
        name: written.metric.clone(),
        stat: match written.stat.as_str() {
            "avg" => WindowStat::Average,
            "min" => WindowStat::Min,
            "max" => WindowStat::Max,
            percentile => WindowStat::Percentile(
                percentile
                    .strip_prefix('p')
                    .and_then(|percent| percent.parse().ok())
                    .expect("the config knows no other statistic than avg, min, max and percentiles"),
            ),
        },
        stat_name: written.stat.clone(),
        op: match written.op.as_str() {
            "lt" => SlaOp::Lt,
            "le" => SlaOp::Le,
            "gt" => SlaOp::Gt,
            "ge" => SlaOp::Ge,
            other => unreachable!("the config knows no operator {other}"),
        },
        threshold: written.threshold,
    }
}
