//! Takes the records of a run one by one and keeps what the report needs of them.

use super::column::{Column, Pool};
use super::errors::ErrorGroups;
use super::fields::Fields;
use super::levels::Findings;
use super::rows::Rows;
use super::scope::{self, Reach};
use super::slices::{self, Failure, Marks};
use super::validity::{ClientFigures, ClientReport};
use super::{PercentileMode, PhaseReport, Report, RunEnd};
use crate::clock::WallAnchor;
use crate::coordinator::{PhaseSummary, StopReason, Tally};
use crate::id::PhaseId;
use crate::plan::{Arrival, PhaseKind, Plan, Slo};
use crate::record::{CoreWindow, ErrorDetail, ImageFacts, Judge, Outcome, PhaseHistograms, RecordView, RequestRecord};
use crate::units::Nanos;

/// Gathers a run's records (or its histograms) per phase and turns them into a [`Report`].
///
/// A successful streamed request costs 73 bytes and 4 bytes per gap of its stream, plus 8 for every span above 2.1 s; a failed one
/// costs 24 bytes. Ten million requests of 32 tokens need about 2 GB, up to twice that while a vector grows. Runs that cannot
/// afford it set `artifacts.records: false`: then nothing is kept per request and percentiles come from histograms. Slices cost 21 bytes more per
/// success and 44 more per failure, and once more what the requests of one slice cost, while it is computed.
#[derive(Debug)]
pub struct Collector {
    anchor: WallAnchor,
    streaming: bool,
    mode: PercentileMode,
    images: Vec<ImageFacts>,
    slos: Vec<Slo>,
    judge: Option<Judge>,
    /// Length of slices, if there are to be some.
    slice: Option<Nanos>,
    phases: Vec<PhaseData>,
}

/// Everything known of one phase.
#[derive(Debug)]
pub(super) struct PhaseData {
    id: PhaseId,
    profiling_index: Option<u16>,
    name: String,
    kind: PhaseKind,
    pub(super) rows: Rows,
    /// Gaps between contents of successful requests.
    pub(super) gaps: Pool,
    /// Start minus issue of every request that was not cut.
    pub(super) issue_delays: Column,
    /// Input tokens of failed and cancelled requests.
    pub(super) error_inputs: Column,
    /// Start and end of every request that was no success.
    pub(super) other_flights: Vec<(u64, u64)>,
    pub(super) errors: ErrorGroups,
    pub(super) histograms: Option<PhaseHistograms>,
    /// Counts of the records that were added.
    pub(super) seen: Tally,
    pub(super) resent: u64,
    pub(super) missing_done: u64,
    /// Those of the records that met every service level.
    pub(super) good: u64,
    /// What the successes made of each service level; empty without levels and without records.
    pub(super) levels: Vec<Findings>,
    /// First start and last content of successful requests.
    pub(super) responses: Option<(Nanos, Nanos)>,
    /// First issue and last end of any request: stands in for the window of a phase that has no summary.
    pub(super) span: Option<(Nanos, Nanos)>,
    pub(super) summary: Option<PhaseSummary>,
    /// When its clock started, of a phase that may have no summary.
    start: Option<Nanos>,
    /// Requests that ended and that nothing else is known of.
    lost: u64,
    /// An open loop without a cap.
    uncapped: bool,
    /// It replays the timestamps of its dataset.
    pub(super) replays: bool,
    client: Option<ClientNotes>,
    /// What slices need beside all this; `None` where there are none.
    pub(super) marks: Option<Box<Marks>>,
}

/// What was noted about the client over one phase, beside its histograms.
#[derive(Debug, Clone, Default)]
pub struct ClientNotes {
    /// Of each core.
    pub cores: Vec<CoreWindow>,
    /// The longest that the coordinator overslept.
    pub stall: Nanos,
    /// Arrivals that were due and never sent.
    pub unsent: u64,
}

impl Collector {
    /// An empty collector for the phases of a plan. `artifacts.records` decides whether percentiles are exact.
    pub fn new(plan: &Plan, anchor: WallAnchor) -> Self {
        let slice = plan.artifacts.slice.filter(|_| plan.artifacts.records);
        Self {
            anchor,
            streaming: plan.endpoint.streaming,
            mode: if plan.artifacts.records {
                PercentileMode::Exact
            } else {
                PercentileMode::Histogram
            },
            images: plan.requests.entries.iter().map(ImageFacts::of).collect(),
            judge: super::judge(&plan.slos),
            slos: plan.slos.clone(),
            slice,
            phases: plan
                .phases
                .iter()
                .map(|phase| PhaseData {
                    profiling_index: phase.profiling_index,
                    name: phase.name.clone(),
                    levels: match plan.artifacts.records {
                        true => vec![Findings::default(); plan.slos.len()],
                        false => Vec::new(),
                    },
                    uncapped: !phase.arrival.is_closed_loop()
                        && phase.concurrency.is_none()
                        && phase.limits.prefill.is_none(),
                    replays: matches!(phase.arrival, Arrival::FixedSchedule(_)),
                    marks: (slice.is_some() && phase.kind == PhaseKind::Profiling).then(Box::default),
                    ..PhaseData::empty(phase.id, phase.kind)
                })
                .collect(),
        }
    }

    /// Takes in one record; `errors` is the error table of the core that ran it. The order of records does not matter.
    ///
    /// In a run without records only what histograms cannot tell is kept: counts, error texts and the first and last response. Records
    /// of failures alone are enough there.
    ///
    /// # Panics
    /// If the record belongs to a phase or a dataset entry that the plan does not have.
    pub fn add(&mut self, record: &RequestRecord, errors: &[ErrorDetail]) {
        let exact = self.mode == PercentileMode::Exact;
        let phase = &mut self.phases[record.phase.index()];
        let view = RecordView::new(record, self.images[record.image as usize]);
        phase.seen.sent += 1;
        phase.resent += u64::from(record.resent);
        widen(&mut phase.span, record.issued, record.end);
        if exact && record.outcome != Outcome::Truncated {
            phase.issue_delays.push(Some(record.start.since(record.issued).0));
        }
        // One that was cut while it waited for a connection never started.
        if exact && record.outcome != Outcome::Success && record.start > Nanos::ZERO {
            phase.other_flights.push((record.start.0, record.end.0));
        }
        match record.outcome {
            Outcome::Success => {
                phase.seen.succeeded += 1;
                phase.missing_done += u64::from(record.missing_done);
                if let Some(judge) = &self.judge {
                    let good = judge.is_good(&view);
                    phase.good += u64::from(good);
                    if let Some(marks) = &mut phase.marks {
                        marks.good.push(good);
                    }
                    for (level, finding) in phase.levels.iter_mut().zip(judge.findings(&view)) {
                        level.count(finding);
                    }
                }
                widen(&mut phase.responses, record.start, record.last_content);
                if exact {
                    phase.rows.push(record.image, &view, self.streaming);
                    if self.streaming {
                        record.gaps.iter().for_each(|&gap| phase.gaps.push(gap));
                    }
                    if let Some(marks) = &mut phase.marks {
                        marks.gap_ends.push(phase.gaps.mark());
                    }
                }
            }
            Outcome::Error | Outcome::Cancelled => {
                match record.outcome {
                    Outcome::Error => phase.seen.failed += 1,
                    _ => phase.seen.cancelled += 1,
                }
                let group = phase.errors.add(record, errors);
                if exact {
                    phase.error_inputs.push(view.input_tokens());
                }
                if let Some(marks) = &mut phase.marks {
                    marks.failures.push(Failure::of(&view, group));
                }
            }
            Outcome::Truncated => phase.seen.truncated += 1,
        }
    }

    /// Takes in the histograms that one core (or all of them, merged) kept of a phase.
    ///
    /// They give the send lag of every run, and all distributions of a run without records.
    pub fn add_histograms(&mut self, phase: PhaseId, histograms: &PhaseHistograms) {
        match &mut self.phases[phase.index()].histograms {
            Some(merged) => merged.merge(histograms),
            none => *none = Some(histograms.clone()),
        }
    }

    /// Takes in what was noted about the client over a phase. Without it the phase has no verdict.
    pub fn add_client(&mut self, phase: PhaseId, notes: ClientNotes) {
        self.phases[phase.index()].client = Some(notes);
    }

    /// Notes the start of a phase that may have no summary.
    pub fn add_start(&mut self, phase: PhaseId, at: Nanos) {
        self.phases[phase.index()].start = Some(at);
    }

    /// Notes that so many requests of a phase are not among the records, and can be counted nowhere but in its reason.
    pub fn add_lost(&mut self, phase: PhaseId, requests: u64) {
        self.phases[phase.index()].lost += requests;
    }

    /// Gives up on records: some are lost, and figures of the rest would describe an arbitrary part of the run. All distributions come from
    /// histograms, which cover every request, as in a run without records.
    pub fn forget_records(&mut self) {
        self.mode = PercentileMode::Histogram;
        for phase in &mut self.phases {
            phase.rows = Rows::default();
            phase.gaps = Pool::default();
            phase.issue_delays = Column::default();
            phase.error_inputs = Column::default();
            phase.other_flights = Vec::new();
            phase.responses = None;
            phase.levels = Vec::new();
            phase.marks = None;
        }
        self.slice = None;
    }

    /// Computes the report. `phases` are the summaries of the phases that ended; phases that never started are left out.
    pub fn finish(mut self, phases: &[PhaseSummary], end: &RunEnd) -> Report {
        for summary in phases {
            self.phases[summary.phase.index()].summary = Some(summary.clone());
        }
        let context = scope::Context {
            anchor: self.anchor,
            streaming: self.streaming,
            mode: self.mode,
            images: &self.images,
            slos: &self.slos,
            reach: Reach::Phases,
        };
        // Before gaps are sorted, which parts them from their requests.
        let slices = self.slice.map(|length| {
            let profiling: Vec<&PhaseData> = self.phases.iter().filter(|phase| phase.marks.is_some()).collect();
            slices::cut(context, &profiling, length)
        });
        for phase in &mut self.phases {
            phase.marks = None;
            phase.gaps.sort();
        }
        let started: Vec<&PhaseData> = self.phases.iter().filter(|phase| phase.started()).collect();
        let reports: Vec<PhaseReport> = started
            .iter()
            .map(|phase| PhaseReport {
                id: phase.id,
                profiling_index: phase.profiling_index,
                name: phase.name.clone(),
                kind: phase.kind,
                scope: scope::ScopeReport {
                    was_cancelled: phase.interrupted(),
                    incomplete_reason: phase.incomplete_reason(),
                    ..scope::compute(&context, &[phase])
                },
                client: phase.client(),
            })
            .collect();
        let of_kind = |kind: PhaseKind| {
            let members: Vec<&PhaseData> = started.iter().copied().filter(|phase| phase.kind == kind).collect();
            match members.as_slice() {
                // The same records and the same window: not worth sorting everything twice.
                [_] => reports
                    .iter()
                    .find(|report| report.kind == kind)
                    .map(|report| report.scope.clone())
                    .expect("every started phase has a report"),
                members => scope::compute(&context, members),
            }
        };
        let aggregate = scope::ScopeReport {
            was_cancelled: matches!(
                end,
                RunEnd::Interrupted | RunEnd::ThresholdMissed(_) | RunEnd::Killed(_)
            ),
            incomplete_reason: end.incomplete_reason(),
            ..of_kind(PhaseKind::Profiling)
        };
        let warmed_up = started.iter().any(|phase| phase.kind == PhaseKind::Warmup);
        let warmup = warmed_up.then(|| of_kind(PhaseKind::Warmup));
        Report {
            aggregate,
            warmup,
            phases: reports,
            percentiles: self.mode,
            slices,
        }
    }
}

impl PhaseData {
    /// A phase of which nothing is known yet.
    pub(super) fn empty(id: PhaseId, kind: PhaseKind) -> Self {
        Self {
            id,
            profiling_index: None,
            name: String::new(),
            kind,
            rows: Rows::default(),
            gaps: Pool::default(),
            issue_delays: Column::default(),
            error_inputs: Column::default(),
            other_flights: Vec::new(),
            errors: ErrorGroups::default(),
            histograms: None,
            seen: Tally::default(),
            resent: 0,
            missing_done: 0,
            good: 0,
            levels: Vec::new(),
            responses: None,
            span: None,
            summary: None,
            start: None,
            lost: 0,
            uncapped: false,
            replays: false,
            client: None,
            marks: None,
        }
    }

    fn started(&self) -> bool {
        self.summary.is_some() || self.start.is_some() || self.span.is_some()
    }

    fn interrupted(&self) -> bool {
        self.summary
            .as_ref()
            .is_none_or(|summary| summary.stop_reason == StopReason::Interrupted)
    }

    fn incomplete_reason(&self) -> Option<String> {
        match &self.summary {
            None => Some("the phase never ended: its figures come from the records that were saved".to_owned()),
            Some(summary) if summary.stop_reason == StopReason::Interrupted => {
                Some("the run ended before the phase had sent all its requests".to_owned())
            }
            Some(summary) if summary.stop_reason == StopReason::Stalled => {
                Some("the phase stalled: nothing was sent and no byte received for the stall timeout".to_owned())
            }
            Some(_) if self.lost > 0 => {
                let ended = self.lost + self.seen.returned();
                Some(format!("{} of its {ended} requests have no record", self.lost))
            }
            Some(_) => None,
        }
    }

    /// The observation window on the monotonic clock: the phase's own, else from its start, or its first record, to the end of its last record.
    pub(super) fn window(&self) -> Option<(Nanos, Nanos)> {
        match (&self.summary, self.start, self.span) {
            (Some(summary), ..) => Some((summary.start, summary.end)),
            (None, Some(start), span) => Some((start, span.map_or(start, |(_, last)| last))),
            (None, None, span) => span,
        }
    }

    /// What the client says of itself.
    fn client(&self) -> Option<ClientReport> {
        let notes = self.client.as_ref()?;
        let due = self.tally().sent + notes.unsent;
        let arrivals = (due, notes.unsent, self.uncapped);
        let figures = ClientFigures::of(self.histograms.as_ref()?, &notes.cores, notes.stall, arrivals);
        Some(ClientReport::new(figures))
    }

    /// Final counts: those of the phase machine, else those of the records.
    pub(super) fn tally(&self) -> Tally {
        self.summary.as_ref().map_or(self.seen, |summary| summary.tally)
    }
}

/// Widens a pair of first and last instant.
pub(super) fn widen(span: &mut Option<(Nanos, Nanos)>, first: Nanos, last: Nanos) {
    *span = Some(match *span {
        Some((low, high)) => (low.min(first), high.max(last)),
        None => (first, last),
    });
}
