//! What a run notes in its journal beside the records, for whoever has to write the results if the process dies.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::facts::stop_word;
use crate::clock::WallAnchor;
use crate::coordinator::{LiveBoard, PhaseNews, PhaseSummary, StopReason, Tally, tally};
use crate::credit::Exchange;
use crate::id::PhaseId;
use crate::plan::{Plan, SavedPlan};
use crate::units::Nanos;

/// A note. All instants are readings of the monotonic clock in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Note {
    /// The first one.
    Opening(Box<Opening>),
    /// What is known of the engine when the load starts: the `ringload` key of the artifacts.
    Facts(Map<String, Value>),
    /// The clock of a phase started.
    PhaseStarted {
        /// Which one.
        phase: u16,
        /// When.
        at: u64,
    },
    /// A phase is over.
    PhaseEnded(Ended),
    /// The counts of the phases that are under way, about once a second.
    Counts {
        /// When they were taken.
        at: u64,
        /// Of each.
        phases: Vec<Count>,
    },
    /// There is no load any more; the results are being written.
    LoadEnded {
        /// When.
        at: u64,
    },
}

/// What ran, and how its clock is read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    /// Of ringload.
    pub(super) version: String,
    /// Of the process.
    pub(super) pid: u32,
    monotonic: u64,
    wall_ns: u64,
    /// Start of the run.
    pub(super) start: u64,
    /// What ran.
    pub(super) plan: SavedPlan,
    /// Its dataset, which is no JSON and follows behind it.
    #[serde(skip)]
    pub(super) dataset: Vec<u8>,
}

/// A phase that is over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    counts: Count,
    start: u64,
    sending_complete: u64,
    end: u64,
    stop_reason: String,
    drain_cut: bool,
}

/// Counts of a phase.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Count {
    phase: u16,
    sent: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    truncated: u64,
}

impl Note {
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("keys of notes are texts, which is all that JSON asks for")
    }

    /// `None` for a note that this version does not know.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (document, dataset) = parts(bytes);
        let mut note = serde_json::from_slice(document).ok()?;
        if let Self::Opening(opening) = &mut note {
            dataset.clone_into(&mut opening.dataset);
        }
        Some(note)
    }

    /// The bytes of the first note. Its dataset is written to its place at once: with raw records it is as large as what is sent.
    pub(super) fn opening(plan: &Plan, anchor: WallAnchor, start: Nanos) -> Vec<u8> {
        let saved = SavedPlan::of(plan);
        let mut bytes = Self::Opening(Box::new(Opening {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            monotonic: anchor.monotonic().0,
            wall_ns: anchor.wall_ns(),
            start: start.0,
            plan: saved.clone(),
            dataset: Vec::new(),
        }))
        .encode();
        bytes.push(END_OF_DOCUMENT);
        saved.push_dataset(plan, &mut bytes);
        bytes
    }

    pub(super) fn of(news: PhaseNews<'_>) -> Self {
        match news {
            PhaseNews::Started(phase, at) => Self::PhaseStarted {
                phase: phase.0,
                at: at.0,
            },
            PhaseNews::Ended(summary) => Self::phase_ended(summary),
        }
    }

    fn phase_ended(summary: &PhaseSummary) -> Self {
        Self::PhaseEnded(Ended {
            counts: Count::new(summary.phase, summary.tally),
            start: summary.start.0,
            sending_complete: summary.sending_complete.0,
            end: summary.end.0,
            stop_reason: stop_word(summary.stop_reason).to_owned(),
            drain_cut: summary.drain_cut,
        })
    }

    /// The counts now; `None` while no phase is under way.
    pub(super) fn counts(exchange: &Exchange, board: &LiveBoard, now: Nanos) -> Option<Self> {
        let open = board.open().into_iter();
        let phases: Vec<Count> = open
            .map(|open| Count::new(open.phase, tally(exchange, open.phase)))
            .collect();
        (!phases.is_empty()).then_some(Self::Counts { at: now.0, phases })
    }
}

/// Stands behind the JSON of the first note: compact JSON has no line breaks.
const END_OF_DOCUMENT: u8 = b'\n';

/// The JSON of a note, and what stands behind it.
pub(super) fn parts(note: &[u8]) -> (&[u8], &[u8]) {
    match note.iter().position(|&byte| byte == END_OF_DOCUMENT) {
        Some(end) => (&note[..end], &note[end + 1..]),
        None => (note, &[]),
    }
}

impl Opening {
    pub(super) fn anchor(&self) -> WallAnchor {
        WallAnchor::new(Nanos(self.monotonic), self.wall_ns)
    }
}

impl Ended {
    /// The summary of the phase; `None` if it was written by something else.
    pub(super) fn summary(&self) -> Option<PhaseSummary> {
        let reasons = [
            StopReason::Requests,
            StopReason::Duration,
            StopReason::Adaptive,
            StopReason::Stalled,
            StopReason::Interrupted,
        ];
        let known = |reason: &StopReason| stop_word(*reason) == self.stop_reason;
        let (phase, tally) = self.counts.read();
        Some(PhaseSummary {
            phase,
            start: Nanos(self.start),
            sending_complete: Nanos(self.sending_complete),
            end: Nanos(self.end),
            tally,
            stop_reason: reasons.into_iter().find(known)?,
            drain_cut: self.drain_cut,
        })
    }
}

impl Count {
    fn new(phase: PhaseId, tally: Tally) -> Self {
        Self {
            phase: phase.0,
            sent: tally.sent,
            succeeded: tally.succeeded,
            failed: tally.failed,
            cancelled: tally.cancelled,
            truncated: tally.truncated,
        }
    }

    pub(super) fn read(self) -> (PhaseId, Tally) {
        let tally = Tally {
            sent: self.sent,
            succeeded: self.succeeded,
            failed: self.failed,
            cancelled: self.cancelled,
            truncated: self.truncated,
        };
        (PhaseId(self.phase), tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{STRESS, anchor, plan, summary, tally};

    #[test]
    fn an_opening_comes_back_with_its_dataset() {
        let plan = plan();
        let bytes = Note::opening(&plan, anchor(), Nanos(5));
        let Some(Note::Opening(opening)) = Note::decode(&bytes) else {
            panic!("another note")
        };
        assert_eq!((opening.start, opening.pid), (5, std::process::id()));
        assert_eq!(opening.anchor(), anchor());
        let Opening {
            plan: saved, dataset, ..
        } = *opening;
        let back = saved
            .restore(&dataset, plan.artifacts.directory.clone())
            .expect("a plan");
        assert_eq!(back.requests.conversations, plan.requests.conversations);
        assert_eq!(back.requests.entries.len(), plan.requests.entries.len());
    }

    #[test]
    fn summaries_come_back_as_they_were() {
        for (stop_reason, drain_cut) in [
            (StopReason::Requests, false),
            (StopReason::Duration, true),
            (StopReason::Adaptive, false),
            (StopReason::Stalled, true),
            (StopReason::Interrupted, true),
        ] {
            let before = PhaseSummary {
                stop_reason,
                drain_cut,
                sending_complete: Nanos(7),
                ..summary(STRESS, 5, 9, tally(1, 2, 3, 4))
            };
            let Some(Note::PhaseEnded(read)) = Note::decode(&Note::phase_ended(&before).encode()) else {
                panic!("another note")
            };
            assert_eq!(read.summary(), Some(before));
        }
    }

    #[test]
    fn unknown_notes_are_none() {
        for bytes in [
            &b"{\"later\":{}}"[..],
            b"",
            b"\xff",
            b"{\"phase_started\":{\"phase\":\"x\"}}",
        ] {
            assert!(Note::decode(bytes).is_none());
        }
    }
}
