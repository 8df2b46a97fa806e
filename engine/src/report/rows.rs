//! Successful requests of one phase, as columns and seen one by one.

use super::column::Column;
use super::fields::Fields;
use crate::record::{ImageFacts, RecordView};

/// Successful requests of one phase, field by field.
///
/// Nine spans, three token counts, image, reads and bytes at 4 bytes each, the start at 8 and the reuse flag make 69 bytes; the delay in
/// `issue_delays` makes it 73. Reasoning and cache counts cost 4 more each once a server reports them, and so do
/// the two columns of later turns once there is one.
#[derive(Debug, Default)]
pub(super) struct Rows {
    reused: Vec<bool>,
    image: Vec<u32>,
    /// Readings of the clock.
    start: Vec<u64>,
    /// Input tokens of later turns; what a first turn has is in its image.
    later_input: Column,
    /// Bytes of their history.
    history_bytes: Column,
    latency: Column,
    first_content: Column,
    second_content_gap: Column,
    first_output: Column,
    end: Column,
    since_intended: Column,
    connecting: Column,
    sending: Column,
    first_body: Column,
    chunks_received: Column,
    bytes_received: Column,
    prompt_tokens: Column,
    completion_tokens: Column,
    total_tokens: Column,
    reasoning_tokens: Column,
    cache_read_tokens: Column,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.image.len()
    }

    /// When each started, in readings of the clock.
    pub(super) fn starts(&self) -> &[u64] {
        &self.start
    }

    /// Appends a request.
    pub(super) fn push(&mut self, image: u32, view: &RecordView<'_>, streaming: bool) {
        self.reused.push(view.connection_reused());
        self.image.push(image);
        self.start.push(view.record.start.0);
        let later = view.input_tokens().filter(|_| !view.image().is_first);
        self.later_input.push(later);
        self.history_bytes
            .push(Some(view.history_bytes()).filter(|&bytes| bytes > 0));
        self.latency.push(Some(view.latency()));
        if streaming {
            self.first_content.push(view.first_content());
            self.second_content_gap.push(view.second_content_gap());
            self.first_output.push(view.first_output());
        }
        self.end.push(Some(view.end()));
        self.since_intended.push(Some(view.since_intended()));
        self.connecting.push(Some(view.connecting()));
        self.sending.push(Some(view.sending()));
        self.first_body.push(Some(view.first_body()));
        self.chunks_received.push(Some(view.chunks_received()));
        self.bytes_received.push(Some(view.bytes_received()));
        self.prompt_tokens.push(view.prompt_tokens());
        self.completion_tokens.push(view.completion_tokens());
        self.total_tokens.push(view.total_tokens());
        self.reasoning_tokens.push(view.reasoning_tokens());
        self.cache_read_tokens.push(view.cache_read_tokens());
    }

    /// Appends the request at a place among others.
    pub(super) fn push_from(&mut self, others: &Self, at: usize) {
        // Taken apart, so that a field that is added and forgotten here does not compile.
        let Self {
            reused,
            image,
            start,
            later_input,
            history_bytes,
            latency,
            first_content,
            second_content_gap,
            first_output,
            end,
            since_intended,
            connecting,
            sending,
            first_body,
            chunks_received,
            bytes_received,
            prompt_tokens,
            completion_tokens,
            total_tokens,
            reasoning_tokens,
            cache_read_tokens,
        } = others;
        self.reused.push(reused[at]);
        self.image.push(image[at]);
        self.start.push(start[at]);
        let columns = [
            (&mut self.later_input, later_input),
            (&mut self.history_bytes, history_bytes),
            (&mut self.latency, latency),
            (&mut self.first_content, first_content),
            (&mut self.second_content_gap, second_content_gap),
            (&mut self.first_output, first_output),
            (&mut self.end, end),
            (&mut self.since_intended, since_intended),
            (&mut self.connecting, connecting),
            (&mut self.sending, sending),
            (&mut self.first_body, first_body),
            (&mut self.chunks_received, chunks_received),
            (&mut self.bytes_received, bytes_received),
            (&mut self.prompt_tokens, prompt_tokens),
            (&mut self.completion_tokens, completion_tokens),
            (&mut self.total_tokens, total_tokens),
            (&mut self.reasoning_tokens, reasoning_tokens),
            (&mut self.cache_read_tokens, cache_read_tokens),
        ];
        for (column, other) in columns {
            column.push(other.get(at));
        }
    }
}

/// One row, seen as a request.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    rows: &'a Rows,
    images: &'a [ImageFacts],
    at: usize,
}

impl<'a> Row<'a> {
    pub(super) fn new(rows: &'a Rows, images: &'a [ImageFacts], at: usize) -> Self {
        Self { rows, images, at }
    }

    /// When it started.
    pub(super) fn start(&self) -> u64 {
        self.rows.start[self.at]
    }

    /// When its last content came.
    pub(super) fn last_content(&self) -> u64 {
        self.start() + self.always(&self.rows.latency)
    }

    fn always(&self, column: &Column) -> u64 {
        column.get(self.at).expect("every row has this field")
    }
}

impl Fields for Row<'_> {
    fn latency(&self) -> u64 {
        self.always(&self.rows.latency)
    }

    fn first_content(&self) -> Option<u64> {
        self.rows.first_content.get(self.at)
    }

    fn second_content_gap(&self) -> Option<u64> {
        self.rows.second_content_gap.get(self.at)
    }

    fn first_output(&self) -> Option<u64> {
        self.rows.first_output.get(self.at)
    }

    fn end(&self) -> u64 {
        self.always(&self.rows.end)
    }

    fn since_intended(&self) -> u64 {
        self.always(&self.rows.since_intended)
    }

    fn connecting(&self) -> u64 {
        self.always(&self.rows.connecting)
    }

    fn sending(&self) -> u64 {
        self.always(&self.rows.sending)
    }

    fn first_body(&self) -> u64 {
        self.always(&self.rows.first_body)
    }

    fn connection_reused(&self) -> bool {
        self.rows.reused[self.at]
    }

    fn chunks_received(&self) -> u64 {
        self.always(&self.rows.chunks_received)
    }

    fn bytes_received(&self) -> u64 {
        self.always(&self.rows.bytes_received)
    }

    fn prompt_tokens(&self) -> Option<u64> {
        self.rows.prompt_tokens.get(self.at)
    }

    fn completion_tokens(&self) -> Option<u64> {
        self.rows.completion_tokens.get(self.at)
    }

    fn total_tokens(&self) -> Option<u64> {
        self.rows.total_tokens.get(self.at)
    }

    fn reasoning_tokens(&self) -> Option<u64> {
        self.rows.reasoning_tokens.get(self.at)
    }

    fn cache_read_tokens(&self) -> Option<u64> {
        self.rows.cache_read_tokens.get(self.at)
    }

    fn input_tokens(&self) -> Option<u64> {
        let image = self.image();
        if image.is_first {
            return image.input_tokens.map(u64::from);
        }
        self.rows.later_input.get(self.at)
    }

    fn history_bytes(&self) -> u64 {
        self.rows.history_bytes.get(self.at).unwrap_or(0)
    }

    fn image(&self) -> ImageFacts {
        self.images[self.rows.image[self.at] as usize]
    }
}
