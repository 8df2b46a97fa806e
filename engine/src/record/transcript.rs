//! What a server answered to one request, byte by byte: kept only for the raw export.
//!
//! Behind its record in the journal, little-endian: length of the rest (u32); whether it is a stream (u8); lengths of content type and history (u32
//! each) and these; number of reads (u32), then for each its time (u64) and where in the body it ended (u32); then the body.

use crate::units::Nanos;

/// The body of an answer, and when its pieces came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Whether it is an event stream.
    pub is_stream: bool,
    /// `Content-Type` of the answer.
    pub content_type: Vec<u8>,
    /// What the body of the request said of the session's earlier turns.
    pub history: Vec<u8>,
    /// The body of the answer, without its framing.
    pub body: Vec<u8>,
    /// The reads that brought it: when, and where in the body each ended.
    pub reads: Vec<(Nanos, u32)>,
}

impl Transcript {
    /// Makes ready for the next answer; memory is kept.
    pub(crate) fn clear(&mut self) {
        self.is_stream = false;
        self.content_type.clear();
        self.history.clear();
        self.body.clear();
        self.reads.clear();
    }

    /// Takes the payload of one read.
    pub(crate) fn take(&mut self, payload: &mut Vec<u8>, now: Nanos) {
        if payload.is_empty() {
            return;
        }
        self.body.append(payload);
        self.reads.push((now, self.body.len() as u32));
    }

    /// When the byte at `at` came.
    pub fn time_of(&self, at: usize) -> Nanos {
        let read = self.reads.partition_point(|&(_, end)| end as usize <= at);
        self.reads.get(read).map_or(Nanos::ZERO, |&(time, _)| time)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(u8::from(self.is_stream));
        for piece in [&self.content_type, &self.history] {
            out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            out.extend_from_slice(piece);
        }
        push_stamps(&self.reads, out);
        out.extend_from_slice(&self.body);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads the transcript at `*at` and moves `*at` behind it; `None` if it is not whole.
    pub(super) fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let mut rest = bytes.get(*at..)?;
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let mut rest = rest.get(..length)?;
        let [is_stream] = take(&mut rest)?;
        let mut piece = || -> Option<Vec<u8>> {
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (piece, others) = rest.split_at_checked(length)?;
            rest = others;
            Some(piece.to_vec())
        };
        let (content_type, history) = (piece()?, piece()?);
        let reads = take_stamps(&mut rest);
        *at += 4 + length;
        Some(Self {
            is_stream: is_stream != 0,
            content_type,
            history,
            reads: reads?,
            body: rest.to_vec(),
        })
    }
}

/// Appends how much there was at which times: their number (u32), then for each its time (u64) and the bytes so far (u32).
pub(super) fn push_stamps(stamps: &[(Nanos, u32)], out: &mut Vec<u8>) {
    out.extend_from_slice(&(stamps.len() as u32).to_le_bytes());
    for (time, so_far) in stamps {
        out.extend_from_slice(&time.0.to_le_bytes());
        out.extend_from_slice(&so_far.to_le_bytes());
    }
}

/// Takes what [`push_stamps`] appended; `None` if it is not whole.
pub(super) fn take_stamps(rest: &mut &[u8]) -> Option<Vec<(Nanos, u32)>> {
    let count = u32::from_le_bytes(take(rest)?);
    let mut stamp = || {
        let time = Nanos(u64::from_le_bytes(take(rest)?));
        Some((time, u32::from_le_bytes(take(rest)?)))
    };
    (0..count).map(|_| stamp()).collect()
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_came_with_the_read_that_held_it() {
        let mut transcript = Transcript::default();
        for (time, piece) in [(5, "ab"), (7, ""), (9, "c")] {
            transcript.take(&mut piece.as_bytes().to_vec(), Nanos(time));
        }
        let times = [0, 1, 2, 3].map(|at| transcript.time_of(at).0);
        assert_eq!(times, [5, 5, 9, 0]);
        assert_eq!((transcript.reads.len(), &transcript.body[..]), (2, &b"abc"[..]));
    }
}
