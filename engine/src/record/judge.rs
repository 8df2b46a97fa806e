//! Whether a request met every service level of the run (`slos`), told where it ends and told again from its record.

use super::outcome::Outcome;
use super::request_record::RequestRecord;
use crate::plan::RequestImage;

/// What figures need of a turn of the dataset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageFacts {
    /// Tokens of its own message, where known without a tokenizer.
    pub(crate) input_tokens: Option<u32>,
    /// Whether it is the first of its conversation, and so has no history.
    pub(crate) is_first: bool,
    /// Output tokens asked for.
    pub(crate) requested_tokens: Option<u32>,
    /// Bytes of the body without history.
    pub(crate) body_bytes: u32,
}

impl ImageFacts {
    pub(crate) fn of(image: &RequestImage) -> Self {
        Self {
            input_tokens: image.input_tokens,
            is_first: image.turn == 0,
            requested_tokens: image.requested_output_tokens,
            body_bytes: image.body_len,
        }
    }
}

/// A record with its dataset entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordView<'a> {
    pub(crate) record: &'a RequestRecord,
    pub(crate) image: ImageFacts,
    /// First content to second. Beside the record, because a core judges requests whose gaps are still in its arena.
    pub(crate) second_gap: Option<u64>,
}

impl<'a> RecordView<'a> {
    /// A whole record, gaps included.
    pub(crate) fn new(record: &'a RequestRecord, image: ImageFacts) -> Self {
        Self {
            record,
            image,
            second_gap: record.gaps.first().copied(),
        }
    }
}

/// Which side of a threshold is good. The threshold itself always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Latencies.
    Smaller,
    /// Throughputs and amounts.
    Larger,
}

/// One service level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Criterion {
    /// The figure of a request in internal units; `None` if it has none.
    pub(crate) figure: fn(&RecordView<'_>) -> Option<f64>,
    /// Internal units in one unit of the threshold.
    pub(crate) divisor: f64,
    /// Which side is good.
    pub(crate) better: Better,
    /// In the unit of exports.
    pub(crate) threshold: f64,
}

/// What a request makes of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// On the good side, or on the threshold.
    Met,
    /// On the other side.
    Missed,
    /// The request does not have the figure. That is no better than a miss, but another mistake.
    Lacking,
}

impl Criterion {
    fn of(&self, view: &RecordView<'_>) -> Finding {
        let Some(figure) = (self.figure)(view) else {
            return Finding::Lacking;
        };
        let figure = figure / self.divisor;
        let is_met = match self.better {
            Better::Smaller => figure <= self.threshold,
            Better::Larger => figure >= self.threshold,
        };
        if is_met { Finding::Met } else { Finding::Missed }
    }
}

/// All service levels of a run. Judging allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    criteria: Vec<Criterion>,
}

impl Judge {
    /// A judge of these levels; `None` without any, for then nothing is judged.
    pub(crate) fn new(criteria: Vec<Criterion>) -> Option<Self> {
        (!criteria.is_empty()).then_some(Self { criteria })
    }

    /// Whether a request is good: it succeeded and meets every level.
    pub(crate) fn is_good(&self, view: &RecordView<'_>) -> bool {
        view.record.outcome == Outcome::Success && self.findings(view).all(|finding| finding == Finding::Met)
    }

    /// What is found of each level, in the order of the config.
    pub(crate) fn findings(&self, view: &RecordView<'_>) -> impl Iterator<Item = Finding> {
        self.criteria.iter().map(|criterion| criterion.of(view))
    }
}
