//! From the file back to records, all cores merged by completion time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{BLOCK_HEADER_BYTES, JournalError, MAGIC};
use crate::record::{RequestRecord, decode};

/// Where a block lies.
#[derive(Debug, Clone, Copy)]
struct BlockAt {
    offset: u64,
    length: u32,
    checksum: u32,
}

/// One core's records, in the order in which they ended.
struct CoreStream {
    blocks: std::vec::IntoIter<BlockAt>,
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
    /// The file cannot be read, or its block headers do not add up to its size.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        let damaged = |at| JournalError::Damaged {
            path: path.to_owned(),
            at,
        };
        let file = File::open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let mut input = BufReader::new(&file);
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(|_| damaged(0))?;
        if &magic != MAGIC {
            return Err(damaged(0));
        }
        let mut by_core: Vec<Vec<BlockAt>> = Vec::new();
        let mut at = MAGIC.len() as u64;
        while at < size {
            let mut header = [0; BLOCK_HEADER_BYTES];
            input.read_exact(&mut header).map_err(|_| damaged(at))?;
            let [c0, c1, _, _, l0, l1, l2, l3, s0, s1, s2, s3] = header;
            let core = usize::from(u16::from_le_bytes([c0, c1]));
            let length = u32::from_le_bytes([l0, l1, l2, l3]);
            let offset = at + BLOCK_HEADER_BYTES as u64;
            if offset + u64::from(length) > size {
                return Err(damaged(at));
            }
            if by_core.len() <= core {
                by_core.resize_with(core + 1, Vec::new);
            }
            by_core[core].push(BlockAt {
                offset,
                length,
                checksum: u32::from_le_bytes([s0, s1, s2, s3]),
            });
            input.seek_relative(i64::from(length)).map_err(fail)?;
            at = offset + u64::from(length);
        }
        let streams = by_core
            .into_iter()
            .map(|blocks| CoreStream {
                blocks: blocks.into_iter(),
                bytes: Vec::new(),
                at: 0,
                block_offset: 0,
                head: None,
            })
            .collect();
        Ok(Self {
            file,
            path: path.to_owned(),
            streams,
            primed: false,
        })
    }

    fn advance(&mut self, index: usize) -> Result<(), JournalError> {
        let stream = &mut self.streams[index];
        let fail = |source| JournalError::Io {
            path: self.path.clone(),
            source,
        };
        while stream.at == stream.bytes.len() {
            let Some(block) = stream.blocks.next() else {
                stream.head = None;
                return Ok(());
            };
            stream.bytes.resize(block.length as usize, 0);
            self.file.seek(SeekFrom::Start(block.offset)).map_err(fail)?;
            self.file.read_exact(&mut stream.bytes).map_err(fail)?;
            if crc32fast::hash(&stream.bytes) != block.checksum {
                return Err(JournalError::Damaged {
                    path: self.path.clone(),
                    at: block.offset,
                });
            }
            stream.at = 0;
            stream.block_offset = block.offset;
        }
        let record = decode(&stream.bytes, &mut stream.at).map_err(|error| JournalError::Damaged {
            path: self.path.clone(),
            at: stream.block_offset + error.at as u64,
        })?;
        stream.head = Some(record);
        Ok(())
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
mod tests {
    use super::super::{BlockWriter, Journal};
    use super::*;
    use crate::id::{CoreId, PhaseId};
    use crate::record::{Attachments, Outcome, Usage};
    use crate::units::Nanos;

    fn record(core: u16, sequence: u64) -> RequestRecord {
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
            first_byte: Nanos::ZERO,
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

    fn written(cores: u16, each: u64) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::start(&directory.path().join("journal"), usize::from(cores)).unwrap();
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
        let (path, outcome) = journal.finish();
        outcome.unwrap();
        (directory, path)
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
