//! What can be read of a journal whose process died: everything in whole frames, and an account of the rest.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::frame::{Format, Kind, MAGIC};
use super::reader::{FrameAt, Frames, Reader};
use crate::id::CoreId;
use crate::record::{ErrorDetail, FailureClass, RequestRecord, decode, decode_text};

/// Why nothing can be read.
#[derive(Debug)]
pub(crate) enum NotSalvaged {
    /// The file system refused.
    Io(JournalError),
    /// A journal of another version of the format.
    Version(u8),
    /// No journal.
    Foreign,
    /// It ends before anything was written that says what ran, or that is damaged.
    Unopened,
    /// A process still writes it; with the first note, if it can be read.
    Alive(Option<Vec<u8>>),
}

/// A journal that nobody writes any more, and that nobody else salvages while this lives.
#[derive(Debug)]
pub(crate) struct Hold {
    file: File,
    path: PathBuf,
    blocks: Vec<FrameAt>,
    /// All notes, the opening first.
    pub(crate) notes: Vec<Vec<u8>>,
    damaged: u64,
    /// Bytes behind the last whole frame.
    torn: u64,
}

/// What a journal holds.
#[derive(Debug)]
pub(crate) struct Salvage {
    file: File,
    path: PathBuf,
    blocks: Vec<FrameAt>,
    /// Texts of failures by core and index.
    pub(crate) texts: Vec<Vec<ErrorDetail>>,
    /// Frames that do not check out and were left out.
    pub(crate) damaged: u64,
    /// Bytes at the end that are no whole frame.
    pub(crate) torn: u64,
}

/// Takes hold of a journal.
///
/// # Errors
/// Why nothing of it can be read.
pub(crate) fn salvage(path: &Path) -> Result<Hold, NotSalvaged> {
    let fail = |source| {
        NotSalvaged::Io(JournalError::Io {
            path: path.to_owned(),
            source,
        })
    };
    let mut file = File::open(path).map_err(fail)?;
    let mut first = Vec::with_capacity(MAGIC.len());
    (&mut file)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut first)
        .map_err(fail)?;
    let opening = || {
        let frame = *Frames::of(&file).ok()?.list.first()?;
        let mut note = Vec::new();
        let is_opening = frame.header.kind == Kind::Note && frame.read(&file, &mut note).ok()?;
        is_opening.then_some(note)
    };
    // Where a file system has no locks, there is none to respect.
    let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    match Format::of(&first) {
        Format::Version(version) => return Err(NotSalvaged::Version(version)),
        Format::Foreign => return Err(NotSalvaged::Foreign),
        Format::Ours | Format::Torn if is_locked => return Err(NotSalvaged::Alive(opening())),
        Format::Torn => return Err(NotSalvaged::Unopened),
        Format::Ours => {}
    }
    let frames = Frames::of(&file).map_err(fail)?;
    let (mut notes, mut damaged) = (Vec::new(), 0);
    let (blocks, others): (Vec<_>, Vec<_>) = frames
        .list
        .into_iter()
        .partition(|frame| frame.header.kind != Kind::Note);
    for (number, frame) in others.into_iter().enumerate() {
        let mut note = Vec::new();
        match frame.read(&file, &mut note).map_err(fail)? {
            true => notes.push(note),
            false if number == 0 => return Err(NotSalvaged::Unopened),
            false => damaged += 1,
        }
    }
    if notes.is_empty() {
        return Err(NotSalvaged::Unopened);
    }
    Ok(Hold {
        file,
        path: path.to_owned(),
        blocks,
        notes,
        damaged,
        torn: frames.size - frames.end,
    })
}

impl Hold {
    /// Checks every block and shows every record of those that are whole to `see`, block by block. A block with a record that is not `known` is as
    /// good as one that is damaged.
    ///
    /// # Errors
    /// The file system refused.
    pub(crate) fn read(
        self,
        known: impl Fn(&RequestRecord) -> bool,
        mut see: impl FnMut(&RequestRecord),
    ) -> Result<Salvage, JournalError> {
        let mut salvage = Salvage {
            texts: Vec::new(),
            damaged: self.damaged,
            torn: self.torn,
            blocks: Vec::new(),
            file: self.file,
            path: self.path,
        };
        let mut bytes = Vec::new();
        for block in self.blocks {
            let whole = block
                .read(&salvage.file, &mut bytes)
                .map_err(|source| JournalError::Io {
                    path: salvage.path.clone(),
                    source,
                })?;
            match entries(&bytes).filter(|(_, records)| whole && records.iter().all(&known)) {
                Some((texts, records)) => {
                    records.iter().for_each(&mut see);
                    salvage.blocks.push(block);
                    salvage.keep(block.header.kind, texts);
                }
                None => salvage.damaged += 1,
            }
        }
        Ok(salvage)
    }
}

type Texts = Vec<(u32, ErrorDetail)>;

/// Everything in a block; `None` if something in it is not whole.
fn entries(bytes: &[u8]) -> Option<(Texts, Vec<RequestRecord>)> {
    let (mut texts, mut records, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        match decode_text(bytes, &mut at).ok()? {
            Some(text) => texts.push(text),
            None => records.push(decode(bytes, &mut at).ok()?),
        }
    }
    Some((texts, records))
}

impl Salvage {
    fn keep(&mut self, kind: Kind, texts: Texts) {
        let Kind::Records(CoreId(core)) = kind else { return };
        let core = usize::from(core);
        if self.texts.len() <= core {
            self.texts.resize_with(core + 1, Vec::new);
        }
        for (index, detail) in texts {
            let table = &mut self.texts[core];
            // Texts come in order. What is missing between two of them was in a block that is damaged.
            while table.len() < index as usize && table.len() < crate::record::ErrorTable::CAPACITY * 2 {
                table.push(lost());
            }
            if table.len() == index as usize {
                table.push(detail);
            }
        }
    }

    /// Its records in completion order.
    ///
    /// # Errors
    /// The file system refused.
    pub(crate) fn reader(&self) -> Result<Reader, JournalError> {
        let file = self.file.try_clone().map_err(|source: io::Error| JournalError::Io {
            path: self.path.clone(),
            source,
        })?;
        Ok(Reader::of_frames(file, &self.path, self.blocks.clone()))
    }
}

fn lost() -> ErrorDetail {
    ErrorDetail {
        class: FailureClass::MalformedResponse,
        code: None,
        type_name: "UnknownError".to_owned(),
        message: "(the text of this failure was lost)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::reader::tests::{record, written};
    use super::super::{BlockWriter, Journal};
    use super::*;
    use crate::record::{Attachments, Outcome};

    fn count(path: &Path) -> Result<(usize, u64, u64), NotSalvaged> {
        let mut seen = 0;
        let salvage = salvage(path)?.read(|_| true, |_| seen += 1).unwrap();
        let records: Vec<_> = salvage.reader().unwrap().collect::<Result<_, _>>().unwrap();
        assert!(records.is_sorted_by_key(|record| record.end));
        assert_eq!(records.len(), seen);
        Ok((seen, salvage.damaged, salvage.torn))
    }

    /// A small journal of two cores with texts and notes, where each frame ends, and how many records are whole by then.
    fn small() -> (tempfile::TempDir, PathBuf, Vec<(usize, usize)>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::start(&path, 2, b"opening").unwrap();
        let mut writers = [0, 1].map(|core| BlockWriter::new(CoreId(core), journal.queue()));
        let mut sequence = 0;
        for _ in 0..3 {
            for (core, writer) in writers.iter_mut().enumerate() {
                writer.append_text(sequence as u32, &lost());
                for _ in 0..2 {
                    writer.append(
                        &record(core as u16, sequence),
                        std::iter::empty(),
                        Attachments::default(),
                    );
                    sequence += 1;
                }
                writer.flush();
            }
            journal.notes().add(b"a note".to_vec());
        }
        journal.finish().written.unwrap();
        let frames = Frames::of(&File::open(&path).unwrap()).unwrap();
        let mut whole = 0;
        let ends = frames.list.iter().map(|frame| {
            whole += 2 * usize::from(frame.header.kind != Kind::Note);
            (frame.offset as usize + frame.header.length as usize, whole)
        });
        let ends = ends.collect();
        (directory, path, ends)
    }

    #[test]
    fn a_file_cut_at_any_byte_gives_the_records_of_whole_blocks() {
        let (_directory, path, ends) = small();
        let bytes = fs::read(&path).unwrap();
        let (opening, _) = ends[0];
        for cut in 0..=bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            if cut < opening {
                assert!(matches!(salvage(&path), Err(NotSalvaged::Unopened)), "cut at {cut}");
                continue;
            }
            let &(end, whole) = ends.iter().rfind(|&&(end, _)| end <= cut).unwrap();
            assert_eq!(count(&path).unwrap(), (whole, 0, (cut - end) as u64), "cut at {cut}");
        }
    }

    #[test]
    fn any_byte_that_changed_costs_no_more_than_its_frame_or_what_follows_its_header() {
        let (_directory, path, ends) = small();
        let bytes = fs::read(&path).unwrap();
        let (opening, all) = (ends[0].0, ends[ends.len() - 1].1);
        for at in opening..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).unwrap();
            let frame = ends.iter().position(|&(end, _)| at < end).unwrap();
            let (start, before) = ends[frame - 1];
            let in_header = at < start + super::super::frame::HEADER_BYTES;
            let expected = if in_header {
                (before, 0, (bytes.len() - start) as u64)
            } else {
                (all - (ends[frame].1 - before), 1, 0)
            };
            assert_eq!(count(&path).unwrap(), expected, "byte {at}");
        }
    }

    #[test]
    fn pages_that_were_never_written_are_an_end() {
        let (_directory, path, ends) = small();
        let mut bytes = fs::read(&path).unwrap();
        bytes.resize(bytes.len() + 4096, 0);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(count(&path).unwrap(), (ends[ends.len() - 1].1, 0, 4096));
    }

    #[test]
    fn a_journal_under_way_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::start(&path, 1, b"opening").unwrap();
        assert!(matches!(salvage(&path), Err(NotSalvaged::Alive(Some(note))) if note == b"opening"));
        let closed = journal.finish();
        assert!(
            matches!(salvage(&path), Err(NotSalvaged::Alive(_))),
            "its run has not written it out"
        );
        drop(closed);
        let hold = salvage(&path).unwrap();
        assert!(matches!(salvage(&path), Err(NotSalvaged::Alive(_))), "one at a time");
        drop(hold);
        assert!(salvage(&path).is_ok());
    }

    #[test]
    fn other_files_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        for (bytes, expected) in [
            (&b"ringload\0\0\0\0"[..], "Version(1)"),
            (b"ringjrn\x07....", "Version(7)"),
            (b"not a journal", "Foreign"),
            (b"", "Unopened"),
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(format!("{:?}", salvage(&path).unwrap_err()), expected);
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(salvage(&path), Err(NotSalvaged::Io(_))));
    }

    #[test]
    fn texts_are_found_by_core_and_index_even_where_some_are_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let journal = Journal::start(&path, 1, b"opening").unwrap();
        let mut writer = BlockWriter::new(CoreId(0), journal.queue());
        let text = |message: &str| ErrorDetail {
            message: message.to_owned(),
            ..lost()
        };
        for (index, message) in ["first", "second", "third"].into_iter().enumerate() {
            writer.append_text(index as u32, &text(message));
            let mut failed = record(0, index as u64);
            (failed.outcome, failed.error) = (Outcome::Error, index as u32);
            writer.append(&failed, std::iter::empty(), Attachments::default());
            writer.flush();
        }
        journal.finish().written.unwrap();
        let bytes = fs::read(&path).unwrap();
        let texts = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let salvage = salvage(&path).unwrap().read(|_| true, |_| {}).unwrap();
            let of_core = salvage.texts[0].iter();
            of_core.map(|detail| detail.message.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&bytes), ["first", "second", "third"]);
        let mut changed = bytes.clone();
        let at = bytes.windows(6).position(|window| window == b"second").unwrap();
        changed[at] = b'S';
        assert_eq!(
            texts(&changed),
            ["first", "(the text of this failure was lost)", "third"]
        );
    }

    #[test]
    fn a_block_with_a_record_of_nothing_known_is_left_out() {
        let (_directory, path) = written(1, 2000);
        let salvage = salvage(&path)
            .unwrap()
            .read(|record| record.sequence != 0, |record| assert_ne!(record.sequence, 0))
            .unwrap();
        assert_eq!(salvage.damaged, 1);
        assert!(salvage.reader().unwrap().all(|record| record.unwrap().sequence > 0));
    }
}
