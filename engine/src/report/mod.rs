//! Figures of a finished run: exact statistics per phase, over all profiling phases and over all warmup phases.
//!
//! [`METRICS`] is the one table of what can be reported. A [`Collector`] takes the records in and [`Collector::finish`] computes the
//! [`Report`], from which artifacts and the console only format.

mod collector;
mod column;
mod curve;
mod distribution;
mod errors;
mod fields;
mod formula;
mod levels;
mod metric;
mod radix;
mod rows;
mod scope;
mod share;
mod slices;
mod table;
mod totals;
mod validity;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod validity_tests;

pub use collector::{ClientNotes, Collector};
pub use distribution::{Distribution, PERCENTILES};
pub use errors::ErrorCount;
pub(crate) use fields::Fields;
pub use levels::{Findings, Level};
pub(crate) use metric::{Formula, Kind, judge};
pub use metric::{Group, METRICS, Metric, Unit, metric};
pub use scope::{Measured, ScopeReport, Value, Window};
pub use slices::{Slice, Slices};
pub use table::{DistributionRow, ScalarRow, Table};
pub use validity::{ClientFigures, ClientReport, Finding, LATE, Spread, Verdict};

use crate::id::PhaseId;
use crate::plan::PhaseKind;

/// Where percentiles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PercentileMode {
    /// From every value.
    Exact,
    /// From histograms with 3 significant digits, because the run kept no records.
    Histogram,
}

impl PercentileMode {
    /// The word in artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Histogram => "histogram",
        }
    }
}

/// How the run as a whole ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// Every phase did what it was asked to.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// Too many requests failed for a phase's `failed_request_threshold`; which, in one line.
    ThresholdMissed(String),
    /// Something else ended it early; the reason in one line.
    Failed(String),
    /// Its process died before all phases were over; what is known of it in one line.
    Killed(String),
}

impl RunEnd {
    fn incomplete_reason(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Interrupted => Some("the run was interrupted before all its phases were over".to_owned()),
            Self::ThresholdMissed(reason) | Self::Failed(reason) | Self::Killed(reason) => Some(reason.clone()),
        }
    }
}

/// One phase's figures.
#[derive(Debug, Clone)]
pub struct PhaseReport {
    /// Position in the workflow.
    pub id: PhaseId,
    /// Position among profiling phases; `None` for warmup.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its role.
    pub kind: PhaseKind,
    /// Its figures.
    pub scope: ScopeReport,
    /// Whether the client was the limit; `None` if nothing is known of the client.
    pub client: Option<ClientReport>,
}

/// All figures of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// All profiling phases together; of the run as a whole where it says whether it is complete.
    pub aggregate: ScopeReport,
    /// All warmup phases together; `None` if none started.
    pub warmup: Option<ScopeReport>,
    /// Every phase that started, in the order of the workflow.
    pub phases: Vec<PhaseReport>,
    /// Where percentiles come from.
    pub percentiles: PercentileMode,
    /// Figures of the slices of the run; `None` if none were asked for, and without records.
    pub slices: Option<Slices>,
}

impl Report {
    /// The profiling phase where the client did worst, the first of equals, with its verdict; `None` if nothing is known of the client.
    pub fn worst_client(&self) -> Option<(&PhaseReport, &ClientReport)> {
        self.phases
            .iter()
            .filter(|phase| phase.kind == PhaseKind::Profiling)
            .filter_map(|phase| Some((phase, phase.client.as_ref()?)))
            // Of equal maxima the last one counts, so the phases are looked at from the end.
            .rev()
            .max_by_key(|(_, client)| client.verdict())
    }
}
