//! From the file back to records, all cores merged by completion time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::frame::{Format, HEADER_BYTES, Header, Kind, MAGIC};
use crate::id::CoreId;
use crate::record::{RequestRecord, decode, decode_text};

/// A frame and where its payload lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameAt {
    pub(super) header: Header,
    pub(super) offset: u64,
}

/// The frames of a file, as far as each header leads to the next.
pub(super) struct Frames {
    pub(super) list: Vec<FrameAt>,
    /// Where the last whole frame ends.
    pub(super) end: u64,
    pub(super) size: u64,
}

impl Frames {
    /// Finds the frames behind the magic number. Payloads are not looked at.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut input = BufReader::new(file);
        let mut end = MAGIC.len() as u64;
        input.seek(SeekFrom::Start(end))?;
        let mut list = Vec::new();
        while size - end >= HEADER_BYTES as u64 {
            let mut bytes = [0; HEADER_BYTES];
            input.read_exact(&mut bytes)?;
            let offset = end + HEADER_BYTES as u64;
            let header = Header::decode(&bytes).filter(|header| u64::from(header.length) <= size - offset);
            let Some(header) = header else { break };
            list.push(FrameAt { header, offset });
            input.seek_relative(i64::from(header.length))?;
            end = offset + u64::from(header.length);
        }
        Ok(Self { list, end, size })
    }
}

impl FrameAt {
    /// Reads the payload; `false` if it does not check out.
    pub(super) fn read(&self, mut file: &File, bytes: &mut Vec<u8>) -> io::Result<bool> {
        bytes.resize(self.header.length as usize, 0);
        file.seek(SeekFrom::Start(self.offset))?;
        file.read_exact(bytes)?;
        Ok(crc32fast::hash(bytes) == self.header.checksum)
    }
}

/// One core's records, in the order in which they ended.
#[derive(Default)]
struct CoreStream {
    blocks: std::vec::IntoIter<FrameAt>,
    bytes: Vec<u8>,
    at: usize,
    block_offset: u64,
    head: Option<RequestRecord>,
}

/// A finished journal. Iterates over its records in completion order, holding one block per core in memory.
pub(crate) struct Reader {
    file: File,
    path: PathBuf,
    streams: Vec<CoreStream>,
    primed: bool,
}

impl Reader {
    /// Opens a journal and finds its blocks.
    ///
    /// # Errors
    /// The file cannot be read, or its frames do not add up to its size.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        let damaged = |at| JournalError::Damaged {
            path: path.to_owned(),
            at,
        };
        let mut file = File::open(path).map_err(fail)?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic).map_err(|_| damaged(0))?;
        if Format::of(&magic) != Format::Ours {
            return Err(damaged(0));
        }
        let frames = Frames::of(&file).map_err(fail)?;
        if frames.end < frames.size {
            return Err(damaged(frames.end));
        }
        Ok(Self::of_frames(file, path, frames.list))
    }

    /// The records of these frames.
    pub(super) fn of_frames(file: File, path: &Path, frames: Vec<FrameAt>) -> Self {
        let mut by_core: Vec<Vec<FrameAt>> = Vec::new();
        for frame in frames {
            let Kind::Records(CoreId(core)) = frame.header.kind else {
                continue;
            };
            let core = usize::from(core);
            if by_core.len() <= core {
                by_core.resize_with(core + 1, Vec::new);
            }
            by_core[core].push(frame);
        }
        let stream = |blocks: Vec<FrameAt>| CoreStream {
            blocks: blocks.into_iter(),
            ..CoreStream::default()
        };
        Self {
            file,
            path: path.to_owned(),
            streams: by_core.into_iter().map(stream).collect(),
            primed: false,
        }
    }

    fn advance(&mut self, index: usize) -> Result<(), JournalError> {
        let stream = &mut self.streams[index];
        let damaged = |at| JournalError::Damaged {
            path: self.path.clone(),
            at,
        };
        loop {
            while stream.at == stream.bytes.len() {
                let Some(block) = stream.blocks.next() else {
                    stream.head = None;
                    return Ok(());
                };
                let whole = block
                    .read(&self.file, &mut stream.bytes)
                    .map_err(|source| JournalError::Io {
                        path: self.path.clone(),
                        source,
                    })?;
                if !whole {
                    return Err(damaged(block.offset));
                }
                stream.at = 0;
                stream.block_offset = block.offset;
            }
            let place = |at: usize| damaged(stream.block_offset + at as u64);
            if decode_text(&stream.bytes, &mut stream.at)
                .map_err(|error| place(error.at))?
                .is_none()
            {
                let record = decode(&stream.bytes, &mut stream.at).map_err(|error| place(error.at))?;
                stream.head = Some(record);
                return Ok(());
            }
        }
    }

    fn next_record(&mut self) -> Result<Option<RequestRecord>, JournalError> {
        if !self.primed {
            for index in 0..self.streams.len() {
                self.advance(index)?;
            }
            self.primed = true;
        }
        // Few cores: a scan beats a heap.
        let first = (0..self.streams.len())
            .filter_map(|index| self.streams[index].head.as_ref().map(|record| (record.end, index)))
            .min();
        let Some((_, index)) = first else { return Ok(None) };
        let record = self.streams[index].head.take();
        self.advance(index)?;
        Ok(record)
    }
}

impl Iterator for Reader {
    type Item = Result<RequestRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{BlockWriter, Journal};
    use super::*;
    use crate::id::{CoreId, PhaseId};
    use crate::record::{Attachments, Outcome, Usage};
    use crate::units::Nanos;

    pub(in super::super) fn record(core: u16, sequence: u64) -> RequestRecord {
        RequestRecord {
            phase: PhaseId(0),
            core: CoreId(core),
            outcome: Outcome::Success,
            sequence,
            session: 0,
            image: 0,
            history_tokens: Some(0),
            history_bytes: 0,
            error: 0,
            status: 200,
            connection_reused: false,
            resent: false,
            missing_done: false,
            intended: Nanos::ZERO,
            issued: Nanos::ZERO,
            start: Nanos(1),
            connected: Nanos::ZERO,
            send_end: Nanos::ZERO,
            first_body: Nanos::ZERO,
            head: Nanos::ZERO,
            first_content: Nanos::ZERO,
            first_output: Nanos::ZERO,
            last_content: Nanos::ZERO,
            end: Nanos(sequence * 10 + u64::from(core)),
            content_events: 0,
            bytes_sent: 0,
            bytes_received: 0,
            chunks_received: 0,
            usage: Usage::default(),
            gaps: vec![],
            transcript: None,
            trace: None,
        }
    }

    pub(in super::super) fn written(cores: u16, each: u64) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::start(&directory.path().join("journal"), usize::from(cores), b"opening").unwrap();
        let mut writers: Vec<_> = (0..cores)
            .map(|core| BlockWriter::new(CoreId(core), journal.queue()))
            .collect();
        for sequence in 0..each {
            for (core, writer) in writers.iter_mut().enumerate() {
                writer.append(
                    &record(core as u16, sequence),
                    std::iter::empty(),
                    Attachments::default(),
                );
            }
        }
        writers.iter_mut().for_each(BlockWriter::flush);
        let closed = journal.finish();
        closed.written.unwrap();
        (directory, closed.path)
    }

    #[test]
    fn all_records_of_all_cores_come_back_in_completion_order() {
        let (_directory, path) = written(3, 2000);
        let records: Vec<_> = Reader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(records.len(), 6000);
        assert!(records.is_sorted_by_key(|record| record.end));
        assert_eq!(records.iter().filter(|record| record.core == CoreId(2)).count(), 2000);
    }

    #[test]
    fn damage_is_found_and_located() {
        let (_directory, path) = written(1, 2000);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Reader::open(&path)
            .and_then(|reader| reader.collect::<Result<Vec<_>, _>>())
            .unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
        std::fs::write(&path, b"not a journal").unwrap();
        assert!(matches!(Reader::open(&path), Err(JournalError::Damaged { at: 0, .. })));
    }

    #[test]
    fn an_empty_run_has_no_records() {
        let (_directory, path) = written(2, 0);
        assert_eq!(Reader::open(&path).unwrap().count(), 0);
    }
}
