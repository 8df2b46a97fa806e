//! What a core keeps of its finished requests: histograms, error texts, and records for the journal.

use super::connection::Request;
use crate::id::CoreId;
use crate::journal::BlockWriter;
use crate::plan::{PhasePlan, RequestImages, Secrets};
use crate::record::{
    Attachments, ErrorDetail, ErrorTable, Family, GapArena, GapChain, ImageFacts, Judge, Outcome, PhaseHistograms,
    RecordView, RequestRecord, Usage,
};
use crate::units::Nanos;

/// How a request ended, beside its times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    /// Index of the failure's text; 0 for successes.
    pub(super) error: u32,
    pub(super) status: u16,
    pub(super) missing_done: bool,
    pub(super) usage: Usage,
    /// Of the session's earlier turns; 0 without any.
    pub(super) history_tokens: Option<u32>,
    pub(super) history_bytes: u32,
    pub(super) at: Nanos,
}

/// The figures of one core. Nothing here allocates once every distinct error text has been seen.
pub(super) struct Recorder {
    core: CoreId,
    streaming: bool,
    images: RequestImages,
    histograms: Vec<PhaseHistograms>,
    errors: ErrorTable,
    arena: GapArena,
    journal: BlockWriter,
    rules: Rules,
}

/// What becomes of records beside being counted.
pub(super) struct Rules {
    /// Whether records of successes go to the journal too.
    pub(super) keep_successes: bool,
    /// Tells good requests from others; `None` without service levels.
    pub(super) judge: Option<Judge>,
    /// What no file may say.
    pub(super) secrets: Secrets,
}

impl Recorder {
    pub(super) fn new(
        core: CoreId,
        phases: &[PhasePlan],
        images: RequestImages,
        streaming: bool,
        journal: BlockWriter,
        rules: Rules,
    ) -> Self {
        Self {
            core,
            streaming,
            images,
            histograms: phases.iter().map(|_| PhaseHistograms::new()).collect(),
            errors: ErrorTable::default(),
            arena: GapArena::with_capacity(4096),
            journal,
            rules,
        }
    }

    /// The index of a failure's text.
    pub(super) fn intern(&mut self, detail: ErrorDetail) -> u32 {
        let known = self.errors.details().len();
        let index = self.errors.intern(detail);
        // Indices are given in order. The journal may outlive this process, so it gets each text once, without what no file may say.
        if let Some(fresh) = self.errors.details().get(known) {
            let secrets = &self.rules.secrets;
            let shown = ErrorDetail {
                message: secrets.redact(&fresh.message).into_owned(),
                type_name: secrets.redact(&fresh.type_name).into_owned(),
                ..*fresh
            };
            self.journal.append_text(index, &shown);
        }
        index
    }

    /// Keeps the gap between two contents of an open stream.
    pub(super) fn keep_gap(&mut self, chain: &mut GapChain, gap: Nanos) {
        self.arena.push(chain, gap.0);
    }

    /// Drops what was kept of a request that starts over.
    pub(super) fn forget_gaps(&mut self, chain: &mut GapChain) {
        self.arena.release(chain);
    }

    /// A request has ended. Says whether it met every service level; without any, none does.
    pub(super) fn finish(&mut self, request: &mut Request, ending: Ending, attachments: Attachments<'_>) -> bool {
        let record = RequestRecord {
            phase: request.credit.phase,
            core: self.core,
            outcome: ending.outcome,
            sequence: request.credit.sequence,
            session: request.session,
            image: request.image,
            history_tokens: ending.history_tokens,
            history_bytes: ending.history_bytes,
            error: ending.error,
            status: ending.status,
            connection_reused: request.connection_reused,
            resent: request.resent,
            missing_done: ending.missing_done,
            intended: request.intended,
            issued: request.issued,
            start: request.start,
            connected: request.connected,
            send_end: request.send_end,
            first_body: request.first_body,
            head: request.head,
            first_content: request.first_content,
            first_output: request.first_output,
            last_content: request.last_content,
            end: ending.at,
            content_events: request.content_events,
            bytes_sent: request.bytes_sent,
            bytes_received: request.bytes_received,
            chunks_received: request.chunks_received,
            usage: ending.usage,
            gaps: Vec::new(),
            transcript: None,
            trace: None,
        };
        self.count(&record, request.gaps);
        self.histograms[record.phase.index()].record(Family::ClientLag, record.start.since(request.ready).0);
        if self.rules.keep_successes || record.outcome != Outcome::Success {
            self.journal
                .append(&record, self.arena.pieces(request.gaps), attachments);
        }
        let good = self.is_good(&record, request.gaps);
        if good {
            self.histograms[record.phase.index()].count_good();
        }
        self.arena.release(&mut request.gaps);
        good
    }

    fn is_good(&self, record: &RequestRecord, gaps: GapChain) -> bool {
        let Some(judge) = &self.rules.judge else { return false };
        judge.is_good(&RecordView {
            record,
            image: ImageFacts::of(&self.images.entries[record.image as usize]),
            second_gap: self.arena.gaps(gaps).next(),
        })
    }

    fn count(&mut self, record: &RequestRecord, gaps: GapChain) {
        let histograms = &mut self.histograms[record.phase.index()];
        histograms.record(Family::SendLag, record.start.since(record.intended).0);
        if record.connected > Nanos::ZERO {
            histograms.record(Family::Connect, record.connected.since(record.start).0);
        }
        if record.outcome != Outcome::Success {
            return;
        }
        let latency = record.last_content.since(record.start);
        histograms.record(Family::RequestLatency, latency.0);
        let own = self.images.entries[record.image as usize].input_tokens;
        if let (Some(own), Some(history)) = (own, record.history_tokens) {
            histograms.record(Family::InputTokens, u64::from(own) + u64::from(history));
        }
        let output = record.usage.completion_tokens;
        if let Some(tokens) = output {
            histograms.record(Family::OutputTokens, u64::from(tokens));
        }
        if !self.streaming || record.first_content == Nanos::ZERO {
            return;
        }
        let first = record.first_content.since(record.start);
        histograms.record(Family::TimeToFirstToken, first.0);
        histograms.record(Family::FullDecodeDuration, record.end.since(record.first_content).0);
        if let Some(tokens) = output.filter(|&tokens| tokens >= 2) {
            histograms.record(
                Family::InterTokenLatency,
                latency.since(first).0 / u64::from(tokens - 1),
            );
        }
        let mut gaps = self.arena.gaps(gaps);
        if let Some(second) = gaps.next() {
            histograms.record(Family::TimeToSecondToken, second);
            histograms.record(Family::InterChunkLatency, second);
            gaps.for_each(|gap| histograms.record(Family::InterChunkLatency, gap));
        }
    }

    /// The figures by phase, for what is no request's.
    pub(super) fn histograms(&mut self) -> &mut [PhaseHistograms] {
        &mut self.histograms
    }

    /// Hands over to the journal what it has waited for long enough.
    pub(super) fn flush_old(&mut self, now: Nanos) {
        self.journal.flush_old(now);
    }

    /// Hands over to the journal what there is.
    pub(super) fn flush(&mut self) {
        self.journal.flush();
    }

    /// Times the core stood still until the journal's writer had room.
    pub(super) fn journal_waits(&self) -> u64 {
        self.journal.waits()
    }

    /// Hands over what the journal still lacks, and gives the figures away.
    pub(super) fn close(mut self) -> (Vec<PhaseHistograms>, Vec<ErrorDetail>) {
        self.journal.flush();
        (self.histograms, self.errors.into_details())
    }
}
