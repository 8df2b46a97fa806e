//! Records as bytes: how they leave a core and how they are read back.
//!
//! Little-endian, in this order: length of the rest (u32); phase, core, status (u16 each); outcome, flags (u8 each); sequence, session (u64
//! each); image, history tokens, history bytes, error, content events, bytes sent, chunks received (u32 each); bytes received (u64); eleven times (u64 each,
//! the order of the struct's fields); five token counts (u32 each); then the gaps as LEB128 varints, as many as fill the length. A token count
//! of `u32::MAX` is absent. Flags say that a [transcript](Transcript) follows, and that a [trace](HttpTrace) does.

use super::http_trace::HttpTrace;
use super::outcome::Outcome;
use super::request_record::{DecodeError, RequestRecord, Usage};
use super::transcript::Transcript;
use crate::id::{CoreId, PhaseId};
use crate::units::Nanos;
use crate::varint::get_varint;

/// Bytes of a record without gaps, its length field included.
pub(crate) const FIXED_BYTES: usize = 4 + 3 * 2 + 2 + 2 * 8 + 7 * 4 + 8 + 11 * 8 + 5 * 4;

const REUSED: u8 = 1;
const RESENT: u8 = 2;
const MISSING_DONE: u8 = 4;
const TRANSCRIBED: u8 = 8;
const TRACED: u8 = 16;
const ABSENT: u32 = u32::MAX;

/// What stands behind a record if it is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attachments<'a> {
    pub(crate) transcript: Option<&'a Transcript>,
    pub(crate) trace: Option<&'a HttpTrace>,
}

/// Appends a record to `out`. `gaps` are the encoded gaps in pieces; the record's own fields `gaps`, `transcript` and `trace` are not looked at, so
/// that a core can keep the one encoded and the others for itself.
pub(crate) fn encode<'a>(
    record: &RequestRecord,
    gaps: impl Iterator<Item = &'a [u8]>,
    attachments: Attachments<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&record.phase.0.to_le_bytes());
    out.extend_from_slice(&record.core.0.to_le_bytes());
    out.extend_from_slice(&record.status.to_le_bytes());
    out.push(record.outcome as u8);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.push(
        flag(record.connection_reused, REUSED)
            | flag(record.resent, RESENT)
            | flag(record.missing_done, MISSING_DONE)
            | flag(attachments.transcript.is_some(), TRANSCRIBED)
            | flag(attachments.trace.is_some(), TRACED),
    );
    out.extend_from_slice(&record.sequence.to_le_bytes());
    out.extend_from_slice(&record.session.to_le_bytes());
    for value in [
        record.image,
        record.history_tokens.unwrap_or(ABSENT),
        record.history_bytes,
        record.error,
        record.content_events,
        record.bytes_sent,
        record.chunks_received,
    ] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(&record.bytes_received.to_le_bytes());
    for time in times(record) {
        out.extend_from_slice(&time.0.to_le_bytes());
    }
    let usage = record.usage;
    for count in [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        usage.reasoning_tokens,
        usage.cache_read_tokens,
    ] {
        out.extend_from_slice(&count.unwrap_or(ABSENT).to_le_bytes());
    }
    for piece in gaps {
        out.extend_from_slice(piece);
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    if let Some(transcript) = attachments.transcript {
        transcript.encode(out);
    }
    if let Some(trace) = attachments.trace {
        trace.encode(out);
    }
}

fn times(record: &RequestRecord) -> [Nanos; 11] {
    [
        record.intended,
        record.issued,
        record.start,
        record.connected,
        record.send_end,
        record.first_body,
        record.head,
        record.first_content,
        record.first_output,
        record.last_content,
        record.end,
    ]
}

/// Reads the record at `*at` and moves `*at` behind it.
///
/// # Errors
/// The bytes are not a whole record.
pub(crate) fn decode(bytes: &[u8], at: &mut usize) -> Result<RequestRecord, DecodeError> {
    let damaged = DecodeError { at: *at };
    let length_bytes = bytes.get(*at..*at + 4).ok_or(damaged)?;
    let length = u32::from_le_bytes(length_bytes.try_into().map_err(|_| damaged)?) as usize;
    let body = bytes.get(*at + 4..*at + 4 + length).ok_or(damaged)?;
    if length + 4 < FIXED_BYTES {
        return Err(damaged);
    }
    let mut fields = Fields { bytes: body, at: 0 };
    let (mut record, flags) = fields.record(damaged)?;
    let mut end = *at + 4 + length;
    if flags & TRANSCRIBED != 0 {
        let transcript = Transcript::decode(bytes, &mut end).ok_or(damaged)?;
        record.transcript = Some(Box::new(transcript));
    }
    if flags & TRACED != 0 {
        let trace = HttpTrace::decode(bytes, &mut end).ok_or(damaged)?;
        record.trace = Some(Box::new(trace));
    }
    *at = end;
    Ok(record)
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        out
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn time(&mut self) -> Nanos {
        Nanos(self.u64())
    }

    fn count(&mut self) -> Option<u32> {
        Some(self.u32()).filter(|&count| count != ABSENT)
    }

    /// The record, and its flags. The caller has checked that the fixed part is there.
    fn record(&mut self, damaged: DecodeError) -> Result<(RequestRecord, u8), DecodeError> {
        let (phase, core, status) = (PhaseId(self.u16()), CoreId(self.u16()), self.u16());
        let [outcome, flags] = self.array();
        let mut record = RequestRecord {
            phase,
            core,
            outcome: Outcome::from_u8(outcome).ok_or(damaged)?,
            status,
            connection_reused: flags & REUSED != 0,
            resent: flags & RESENT != 0,
            missing_done: flags & MISSING_DONE != 0,
            sequence: self.u64(),
            session: self.u64(),
            image: self.u32(),
            history_tokens: self.count(),
            history_bytes: self.u32(),
            error: self.u32(),
            content_events: self.u32(),
            bytes_sent: self.u32(),
            chunks_received: self.u32(),
            bytes_received: self.u64(),
            intended: self.time(),
            issued: self.time(),
            start: self.time(),
            connected: self.time(),
            send_end: self.time(),
            first_body: self.time(),
            head: self.time(),
            first_content: self.time(),
            first_output: self.time(),
            last_content: self.time(),
            end: self.time(),
            usage: Usage {
                prompt_tokens: self.count(),
                completion_tokens: self.count(),
                total_tokens: self.count(),
                reasoning_tokens: self.count(),
                cache_read_tokens: self.count(),
            },
            gaps: Vec::new(),
            transcript: None,
            trace: None,
        };
        record
            .gaps
            .reserve_exact(record.content_events.saturating_sub(1).min(1 << 20) as usize);
        while self.at < self.bytes.len() {
            record.gaps.push(get_varint(self.bytes, &mut self.at).ok_or(damaged)?);
        }
        Ok((record, flags))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use proptest::prelude::*;

    use super::*;
    use crate::varint::{VARINT_BYTES, put_varint};

    prop_compose! {
        fn any_record()(
            ids in any::<(u16, u16, u16, u8)>(),
            flags in any::<(bool, bool, bool)>(),
            numbers in any::<(u64, u32, u32, u32, u32, u32, u64)>(),
            session in any::<(u64, Option<u16>, u32)>(),
            times in any::<[u64; 11]>(),
            counts in any::<[Option<u16>; 5]>(),
            gaps in proptest::collection::vec(any::<u64>(), 0..40),
            body in any::<Option<(Vec<u8>, Vec<u8>)>>(),
            trace in any::<Option<([u64; 5], [Option<(IpAddr, u16)>; 2], Vec<(u64, u32)>, Vec<u8>)>>(),
        ) -> RequestRecord {
            let count = |i: usize| counts[i].map(u32::from);
            RequestRecord {
                phase: PhaseId(ids.0), core: CoreId(ids.1), status: ids.2,
                outcome: Outcome::ALL[usize::from(ids.3 % 4)],
                connection_reused: flags.0, resent: flags.1, missing_done: flags.2,
                sequence: numbers.0, session: session.0, image: numbers.1, history_tokens: session.1.map(u32::from),
                history_bytes: session.2, error: numbers.2, content_events: numbers.3,
                bytes_sent: numbers.4, chunks_received: numbers.5, bytes_received: numbers.6,
                intended: Nanos(times[0]), issued: Nanos(times[1]), start: Nanos(times[2]), connected: Nanos(times[3]),
                send_end: Nanos(times[4]), first_body: Nanos(times[5]), head: Nanos(times[6]),
                first_content: Nanos(times[7]), first_output: Nanos(times[8]), last_content: Nanos(times[9]), end: Nanos(times[10]),
                usage: Usage {
                    prompt_tokens: count(0), completion_tokens: count(1), total_tokens: count(2),
                    reasoning_tokens: count(3), cache_read_tokens: count(4),
                },
                gaps,
                transcript: body.map(|(body, history)| Box::new(Transcript {
                    is_stream: flags.0,
                    content_type: b"text/event-stream".to_vec(),
                    reads: vec![(Nanos(times[0]), body.len() as u32)],
                    history,
                    body,
                })),
                trace: trace.map(|(times, ends, writes, head)| {
                    let [local, remote] = ends.map(|end| end.map(SocketAddr::from));
                    Box::new(HttpTrace {
                        server: ids.0, sending: flags.0, connect_start: Nanos(times[0]), connect_end: Nanos(times[1]), head_end: Nanos(times[2]),
                        first_body: Nanos(times[3]), last_body: Nanos(times[4]), local, remote,
                        body_bytes: numbers.0, body_reads: numbers.1, head,
                        writes: writes.into_iter().map(|(time, so_far)| (Nanos(time), so_far)).collect(),
                    })
                }),
            }
        }
    }

    fn encoded(record: &RequestRecord, out: &mut Vec<u8>) {
        let pieces: Vec<Vec<u8>> = record
            .gaps
            .iter()
            .map(|&gap| {
                let mut bytes = [0; VARINT_BYTES];
                let used = put_varint(gap, &mut bytes);
                bytes[..used].to_vec()
            })
            .collect();
        encode(
            record,
            pieces.iter().map(Vec::as_slice),
            Attachments {
                transcript: record.transcript.as_deref(),
                trace: record.trace.as_deref(),
            },
            out,
        );
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were(records in proptest::collection::vec(any_record(), 1..5)) {
            let mut bytes = Vec::new();
            records.iter().for_each(|record| encoded(record, &mut bytes));
            let mut at = 0;
            for record in &records {
                prop_assert_eq!(&decode(&bytes, &mut at).unwrap(), record);
            }
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn damaged_bytes_are_refused_or_read_but_never_panic(
            record in any_record(), cut in any::<prop::sample::Index>(), noise in any::<(prop::sample::Index, u8)>(),
        ) {
            let mut bytes = Vec::new();
            encoded(&record, &mut bytes);
            let at = noise.0.index(bytes.len());
            bytes[at] ^= noise.1;
            let _ = decode(&bytes, &mut 0);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(decode(&bytes, &mut 0).is_err() || noise.1 != 0);
        }
    }
}
