//! Figures of slices of the run: what became of the requests that started in a slice, and what was going on during it.
//!
//! Slices have one length and follow each other from the first start of a profiling request on, through pauses between phases as well. Requests are dealt
//! to them once; then each slice is a phase of its own, made of copies of its requests, one slice at a time. Curves over time are about all requests
//! in flight, whenever they started, so they come from one sweep over the whole run.
//!
//! ```text
//! first start                                            last start
//! |  slice 0  |  slice 1  |   (pause)   |  slice 3  |  slice 4  |
//! ```

use std::collections::BTreeMap;

use super::collector::{PhaseData, widen};
use super::column::Mark;
use super::curve::{self, Curve};
use super::errors::{ErrorCount, ErrorGroups};
use super::fields::Fields;
use super::metric::{Kind, METRICS, Metric};
use super::rows::Row;
use super::scope::{self, Context, Measured, Reach};
use super::share::{self, PARALLEL_FROM};
use crate::coordinator::Tally;
use crate::id::PhaseId;
use crate::plan::{PhaseKind, SLICES_MAX};
use crate::record::RecordView;
use crate::units::Nanos;

/// What became of the slices that a run was to have.
#[derive(Debug, Clone)]
pub enum Slices {
    /// Those in which a request started, in their order.
    Cut(Vec<Slice>),
    /// The run was too long for slices this short.
    TooMany {
        /// Slices from the first start to the last.
        count: u64,
        /// The shortest that could have been, in whole milliseconds.
        shortest: Nanos,
    },
}

impl Slices {
    /// A word on slices that could not be cut.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Cut(_) => None,
            Self::TooMany { count, shortest } => Some(format!(
                "artifacts.slice_duration: profile_export_aiperf_timeslices is not written: requests started in {count} slices, and at most {SLICES_MAX} \
                 are written; slices of {shortest} or more would have done"
            )),
        }
    }
}

/// Figures of one slice.
#[derive(Debug, Clone)]
pub struct Slice {
    /// How many of its length lie between the first start of the run and its own.
    pub number: usize,
    /// Where it begins, in wall-clock nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Where the next one begins.
    pub end_ns: u64,
    /// Whether the run went on until its end.
    pub is_complete: bool,
    /// Its metrics, in the order of [`METRICS`].
    pub metrics: Vec<Measured>,
}

/// What is kept of a phase beside its columns, to know which requests values belong to.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// How far the gaps were filled after each success.
    pub(super) gap_ends: Vec<Mark>,
    /// Whether each success met every service level; empty without levels.
    pub(super) good: Vec<bool>,
    /// Failed and cancelled requests.
    pub(super) failures: Vec<Failure>,
}

/// A failed or cancelled request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// When it started, or took its slot if it never did.
    start: u64,
    input_tokens: Option<u64>,
    /// Among the failures of its phase.
    group: usize,
}

impl Failure {
    pub(super) fn of(view: &RecordView<'_>, group: usize) -> Self {
        let record = view.record;
        let start = Some(record.start).filter(|&start| start > Nanos::ZERO);
        Self {
            start: start.unwrap_or(record.issued).0,
            input_tokens: view.input_tokens(),
            group,
        }
    }
}

/// Where slices lie on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cuts {
    pub(super) first: Nanos,
    pub(super) length: Nanos,
    pub(super) count: usize,
}

impl Cuts {
    /// The number of the slice that an instant is in. There may be no such slice.
    pub(super) fn slice(&self, instant: Nanos) -> usize {
        (instant.since(self.first).0 / self.length.0) as usize
    }

    /// Where a slice begins.
    pub(super) fn start(&self, slice: usize) -> Nanos {
        self.first + Nanos(self.length.0.saturating_mul(slice as u64))
    }
}

/// Positions by slice, in their own order within each.
#[derive(Debug, Default)]
struct Dealt {
    positions: Vec<u32>,
    /// Where those of each slice begin in `positions`, and their number at the end.
    bounds: Vec<usize>,
}

impl Dealt {
    fn of(starts: impl Iterator<Item = u64> + Clone, cuts: &Cuts) -> Self {
        let slices = starts.map(|start| cuts.slice(Nanos(start)));
        let mut bounds = vec![0; cuts.count + 1];
        slices.clone().for_each(|slice| bounds[slice + 1] += 1);
        for slice in 0..cuts.count {
            bounds[slice + 1] += bounds[slice];
        }
        let mut next = bounds.clone();
        let mut positions = vec![0; bounds[cuts.count]];
        for (at, slice) in slices.enumerate() {
            positions[next[slice]] = u32::try_from(at).expect("2^32 requests do not fit in memory");
            next[slice] += 1;
        }
        Self { positions, bounds }
    }

    fn of_slice(&self, slice: usize) -> &[u32] {
        &self.positions[self.bounds[slice]..self.bounds[slice + 1]]
    }
}

/// A phase with its requests by slice.
struct Part<'a> {
    phase: &'a PhaseData,
    marks: &'a Marks,
    successes: Dealt,
    failures: Dealt,
}

impl Part<'_> {
    fn failures_of(&self, slice: usize) -> impl Iterator<Item = &Failure> {
        let positions = self.failures.of_slice(slice).iter();
        positions.map(|&at| &self.marks.failures[at as usize])
    }

    /// Appends what started in a slice.
    fn copy_slice(&self, slice: usize, context: &Context<'_>, into: &mut PhaseData) {
        for at in self.successes.of_slice(slice).iter().map(|&at| at as usize) {
            into.rows.push_from(&self.phase.rows, at);
            let ends = &self.marks.gap_ends;
            let begin = at.checked_sub(1).map_or(Mark::default(), |before| ends[before]);
            into.gaps.append_between(&self.phase.gaps, begin, ends[at]);
            into.good += u64::from(self.marks.good.get(at) == Some(&true));
            let row = Row::new(&self.phase.rows, context.images, at);
            widen(&mut into.responses, Nanos(row.start()), Nanos(row.last_content()));
        }
        self.failures_of(slice)
            .for_each(|failure| into.error_inputs.push(failure.input_tokens));
    }

    /// Failures that started in a slice, by their texts.
    fn errors_of(&self, slice: usize) -> Vec<ErrorCount> {
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        for failure in self.failures_of(slice) {
            *counts.entry(failure.group).or_default() += 1;
        }
        let counted = |(group, count)| ErrorCount {
            count,
            ..self.phase.errors.group(group).clone()
        };
        counts.into_iter().map(counted).collect()
    }
}

/// The figures of each slice over the profiling phases of a run.
pub(super) fn cut(context: Context<'_>, phases: &[&PhaseData], length: Nanos) -> Slices {
    let phases: Vec<(&PhaseData, &Marks)> = phases
        .iter()
        .filter_map(|&phase| Some((phase, phase.marks.as_deref()?)))
        .collect();
    let ended = phases.iter().flat_map(|(phase, marks)| {
        let failures = marks.failures.iter().map(|failure| failure.start);
        phase.rows.starts().iter().copied().chain(failures)
    });
    // Requests that were cut are in flight like others, and are no reason for a slice.
    let cut_short = phases
        .iter()
        .flat_map(|(phase, _)| &phase.other_flights)
        .map(|&(start, _)| start);
    let (Some(last), Some(first)) = (ended.clone().max(), ended.chain(cut_short).min()) else {
        return Slices::Cut(Vec::new());
    };
    let (first, span) = (Nanos(first), last - first);
    let count = span / length.0 + 1;
    if count > SLICES_MAX {
        // Above its share of the span, so that the last start is in the last slice; whole milliseconds, so that the message does not round it down.
        let shortest = Nanos::from_millis(span / SLICES_MAX / 1_000_000 + 1);
        return Slices::TooMany { count, shortest };
    }
    let cuts = Cuts {
        first,
        length,
        count: count as usize,
    };
    let run_end = phases
        .iter()
        .filter_map(|(phase, _)| phase.span)
        .map(|(_, end)| end)
        .max();
    let of_run: Vec<&PhaseData> = phases.iter().map(|&(phase, _)| phase).collect();
    let mut curves = curves(&context, &of_run, &cuts);
    let parts: Vec<Part<'_>> = phases
        .into_iter()
        .map(|(phase, marks)| Part {
            phase,
            marks,
            successes: Dealt::of(phase.rows.starts().iter().copied(), &cuts),
            failures: Dealt::of(marks.failures.iter().map(|failure| failure.start), &cuts),
        })
        .collect();
    let mut slices: Vec<Slice> = measure(context, &parts, &cuts)
        .into_iter()
        .map(|(number, mut metrics)| {
            metrics.append(&mut curves[number]);
            scope::sort(&mut metrics);
            let end = cuts.start(number + 1);
            Slice {
                number,
                start_ns: context.anchor.to_wall_ns(cuts.start(number)),
                end_ns: context.anchor.to_wall_ns(end),
                is_complete: run_end.is_some_and(|run_end| end <= run_end),
                metrics,
            }
        })
        .collect();
    slices.sort_by_key(|slice| slice.number);
    Slices::Cut(slices)
}

/// What became of the requests of each slice that has any, in any order.
fn measure(context: Context<'_>, parts: &[Part<'_>], cuts: &Cuts) -> Vec<(usize, Vec<Measured>)> {
    let context = Context {
        reach: Reach::Slice,
        ..context
    };
    let successes = |slice: usize| -> usize { parts.iter().map(|part| part.successes.of_slice(slice).len()).sum() };
    let failures = |slice: usize| -> usize { parts.iter().map(|part| part.failures.of_slice(slice).len()).sum() };
    let one = |&slice: &usize| {
        let mut phase = PhaseData::empty(PhaseId(0), PhaseKind::Profiling);
        parts
            .iter()
            .for_each(|part| part.copy_slice(slice, &context, &mut phase));
        phase.gaps.sort();
        phase.errors = ErrorGroups::of_counts(parts.iter().flat_map(|part| part.errors_of(slice)).collect());
        let (succeeded, failed) = (successes(slice) as u64, failures(slice) as u64);
        phase.seen = Tally {
            sent: succeeded + failed,
            succeeded,
            failed,
            ..Tally::default()
        };
        // Rates are over the whole slice.
        phase.span = Some((cuts.start(slice), cuts.start(slice + 1)));
        (slice, scope::compute(&context, &[&phase]).metrics)
    };
    // Large slices share the work on each, one after the other; small ones are shared. Either way there are copies of few slices at a time.
    let (large, small): (Vec<usize>, Vec<usize>) = (0..cuts.count)
        .filter(|&slice| successes(slice) + failures(slice) > 0)
        .partition(|&slice| successes(slice) >= PARALLEL_FROM);
    let mut measured: Vec<_> = large.iter().map(one).collect();
    let rows = small.iter().map(|&slice| successes(slice)).sum();
    measured.extend(share::among_threads(&small, rows, one));
    measured
}

/// What was going on during each slice.
fn curves(context: &Context<'_>, phases: &[&PhaseData], cuts: &Cuts) -> Vec<Vec<Measured>> {
    let mut stages: Vec<Vec<(&'static Metric, Curve)>> = Vec::new();
    for metric in METRICS.iter().filter(|metric| context.applies(metric)) {
        let Kind::Curve(curve) = metric.kind else { continue };
        match stages.iter_mut().find(|stage| stage[0].1.stage == curve.stage) {
            Some(stage) => stage.push((metric, curve)),
            None => stages.push(vec![(metric, curve)]),
        }
    }
    let mut slices: Vec<Vec<Measured>> = (0..cuts.count).map(|_| Vec::new()).collect();
    for stage in stages {
        let curves: Vec<Curve> = stage.iter().map(|&(_, curve)| curve).collect();
        let figures = curve::of_slices(curves[0].stage, &curves, phases, context.images, cuts);
        for ((metric, _), figures) in stage.into_iter().zip(figures) {
            for (slice, figure) in slices.iter_mut().zip(figures) {
                slice.extend(figure.map(|figure| Measured::of_distribution(metric, figure)));
            }
        }
    }
    slices
}
