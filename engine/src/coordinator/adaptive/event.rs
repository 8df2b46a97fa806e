//! What a controller did and why, for the artifacts.

use super::window::WindowTotals;
use crate::plan::ControlVariable;
use crate::units::Nanos;

/// Where a controller stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looks for the value at which the service level breaks.
    Discover,
    /// Holds the value that was found.
    Sustain,
    /// Over.
    Complete,
}

impl Stage {
    /// The word in artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discover => "discover",
            Self::Sustain => "sustain",
            Self::Complete => "complete",
        }
    }
}

/// What came of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The boundary was found and held.
    Completed,
    /// The phase or the range ended before.
    Incomplete,
    /// No value held the service level.
    Failed,
}

impl Status {
    /// The word in artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The phase began.
    Started,
    /// A window was looked at.
    Window,
    /// The value was kept or changed.
    Decision,
    /// The value that was found is held from now on.
    SustainStarted,
    /// The service level broke above it.
    BoundaryDiscovered,
    /// The controller is done.
    Ended(Status),
}

impl EventKind {
    /// The word in artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "adaptive_phase_started",
            Self::Window => "adaptive_window",
            Self::Decision => "adaptive_decision",
            Self::SustainStarted => "sustain_started",
            Self::BoundaryDiscovered => "boundary_discovered",
            Self::Ended(Status::Completed) => "adaptive_complete",
            Self::Ended(Status::Incomplete) => "adaptive_incomplete",
            Self::Ended(Status::Failed) => "adaptive_failed",
        }
    }
}

/// One line of a controller's log.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveEvent {
    /// When.
    pub at: Nanos,
    /// What.
    pub kind: EventKind,
    /// Where the controller stood.
    pub stage: Stage,
    /// Windows before the one that this is about.
    pub iteration: u32,
    /// The value before.
    pub before: f64,
    /// The value from now on.
    pub after: f64,
    /// What there is of it: users who are to leave are there until their conversations are over, and those to come are not yet.
    pub actual: f64,
    /// The value that the window was about.
    pub candidate: f64,
    /// The value that is held.
    pub boundary: Option<f64>,
    /// The latest value that held the service level.
    pub last_passing: Option<f64>,
    /// The value that broke it first.
    pub first_failing: Option<f64>,
    /// The first filter's figure in the latest window.
    pub sla_value: Option<f64>,
    /// Figures of all filters, where the event is about them.
    pub sla_values: Vec<f64>,
    /// The filter with the smallest margin, where the event is about filters.
    pub binding: Option<usize>,
    /// What a window came to; `None` if it said nothing.
    pub passed: Option<bool>,
    /// Size of a step up.
    pub step: Option<f64>,
    /// Counts of the latest window.
    pub totals: WindowTotals,
    /// Successes per second in the latest window.
    pub throughput: f64,
    /// Why, in words.
    pub reason: String,
}

/// A distribution in four numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub average: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A value that was tried for a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Windows before this one.
    pub iteration: u32,
    /// The value.
    pub value: f64,
    /// Begin of the window.
    pub start: Nanos,
    /// End of the window.
    pub end: Nanos,
    /// Counts.
    pub totals: WindowTotals,
    /// Milliseconds from start to last content.
    pub latency: Option<Spread>,
    /// Milliseconds to the first content.
    pub first_token: Option<Spread>,
    /// Milliseconds between tokens.
    pub inter_token: Option<Spread>,
    /// Why it was not accepted; `None`: it was.
    pub rejection: Option<&'static str>,
}

/// Everything that a controller leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveReport {
    /// Its log.
    pub events: Vec<AdaptiveEvent>,
    /// Values that were tried, by window.
    pub candidates: Vec<Candidate>,
    /// What came of it.
    pub status: Status,
    /// Why it ended, in one word.
    pub reason: &'static str,
    /// When the latest value began to be held.
    pub sustain_started: Option<Nanos>,
    /// Windows in which it was held.
    pub sustain_windows: u32,
    /// Those of them that passed.
    pub sustain_passed: u32,
    /// Some output tokens were the server's count; some were events with content.
    pub token_sources: (bool, bool),
}

/// Why a search ends that its phase ends.
pub(super) const PHASE_STOPPED: &str = "phase_stopped";

impl AdaptiveReport {
    /// What came of it, for people: the status, and the value that it is about.
    pub fn told(&self, variable: ControlVariable) -> String {
        let name = variable.as_str();
        let last = self.events.last();
        let passing = last.and_then(|event| event.last_passing);
        let failing = last.and_then(|event| event.first_failing);
        let what = match self.status {
            Status::Completed => match (last.and_then(|event| event.boundary), failing) {
                (Some(held), Some(broke)) => {
                    format!("{name} {held} held the service level, and {broke} broke it")
                }
                (held, _) => format!("{name} {} held the service level", held.or(passing).unwrap_or_default()),
            },
            Status::Incomplete => match (passing, failing) {
                (Some(held), None) if self.reason == PHASE_STOPPED => {
                    format!(
                        "the phase ended before the search found what breaks the service level; {name} {held} is the highest that passed"
                    )
                }
                (Some(held), None) => {
                    format!("nothing broke the service level up to {name} {held}, where the search ended")
                }
                (Some(held), Some(broke)) => {
                    format!("the phase ended too soon; {name} {held} passed, and {broke} broke the service level")
                }
                (None, _) => format!("the phase ended before any {name} had passed"),
            },
            Status::Failed => match (passing, failing) {
                (None, Some(broke)) => format!("{name} {broke}, the lowest, broke the service level already"),
                (Some(held), _) => {
                    format!("{name} {held} passed at first and did not hold the service level for long enough")
                }
                (None, None) => format!("no {name} held the service level"),
            },
        };
        format!("{}: {what}", self.status.as_str())
    }
}
