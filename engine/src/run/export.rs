//! After the load: every record to the report and into `profile_export.jsonl`.
//!
//! The load is over, so all processors are free. One thread reads the journal and collects figures; others make lines of the records, most of the
//! work, and one writes them. Batches are dealt in turn and their lines are taken in turn, so the file has the order of the records.
//!
//! ```text
//!                      batch                  lines
//! caller: journal ---.-------> line maker 0 -------.--> writer: file
//!          |          `------> line maker 1 ------'
//!          `--> collector
//! ```

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use crossbeam_queue::ArrayQueue;

use crate::artifact::{ArtifactDirectory, AtomicFile, RecordLines};
use crate::clock::WallAnchor;
use crate::credit::RequestIds;
use crate::http::format_uuid;
use crate::journal::{JournalError, Reader};
use crate::plan::Plan;
use crate::record::{ErrorDetail, RequestRecord};
use crate::report::Collector;

/// Records that change threads together: a third of a megabyte of lines for streams of 32 tokens.
const BATCH: usize = 128;
/// Batches that may wait at each end of a line maker.
const WAITING: usize = 2;
/// More line makers are faster than the thread that feeds them.
const MAKERS_MAX: usize = 4;

/// Reads the journal and hands every record to the collector and, if the plan wants the file, to the export. `texts` are those of failures, by core
/// and index. A failure of the export ends it
/// and nothing else: no figure depends on the file.
///
/// The first result tells whether all of the journal was read; what came before damage has been handed over. The second is the file under its
/// name, `None` if the plan wants none, or why it could not be written whole and has been removed.
pub(super) fn records(
    plan: &Plan,
    directory: &ArtifactDirectory,
    anchor: WallAnchor,
    journal: Result<Reader, JournalError>,
    texts: &[Vec<ErrorDetail>],
    collector: &mut Collector,
) -> (Result<(), JournalError>, Result<Option<PathBuf>, String>) {
    let lines = Lines {
        lines: RecordLines::new(plan, anchor),
        ids: RequestIds::new(&plan.benchmark_id),
        texts,
    };
    let spare = ArrayQueue::new(MAKERS_MAX * WAITING);
    let file = plan.artifacts.records.then(|| directory.create_records()).transpose();
    thread::scope(|scope| {
        let mut export = match file {
            Ok(None) => Ok(None),
            Ok(Some(file)) => Export::start(scope, &lines, &spare, file).map(Some).map_err(told),
            Err(error) => Err(error.to_string()),
        };
        let read = read(journal, |record| {
            collector.add(&record, lines.errors(&record));
            if let Ok(Some(export)) = &mut export {
                export.take(record);
            }
        });
        let file = export.and_then(|export| export.map(Export::finish).transpose());
        (read, file)
    })
}

fn read(journal: Result<Reader, JournalError>, mut take: impl FnMut(RequestRecord)) -> Result<(), JournalError> {
    for record in journal? {
        take(record?);
    }
    Ok(())
}

fn told(error: io::Error) -> String {
    format!("profile_export.jsonl: {error}")
}

/// What a line needs beside its record.
struct Lines<'a> {
    lines: RecordLines,
    ids: RequestIds,
    texts: &'a [Vec<ErrorDetail>],
}

impl Lines<'_> {
    /// Error texts of the core that ran the request.
    fn errors(&self, record: &RequestRecord) -> &[ErrorDetail] {
        self.texts.get(record.core.index()).map_or(&[], Vec::as_slice)
    }

    fn append(&self, record: &RequestRecord, out: &mut Vec<u8>) {
        let text = |(high, low)| format_uuid(high, low);
        let request = text(self.ids.request(record.phase, record.sequence));
        let session = text(self.ids.session(record.phase, record.session));
        self.lines
            .append(record, self.errors(record), (&request, &session), out);
    }
}

/// `profile_export.jsonl` in the making.
struct Export<'scope> {
    batch: Vec<RequestRecord>,
    makers: Vec<SyncSender<Vec<RequestRecord>>>,
    turn: usize,
    writer: ScopedJoinHandle<'scope, io::Result<AtomicFile>>,
}

impl<'scope> Export<'scope> {
    /// Starts the threads. `spare` holds buffers that have been written.
    ///
    /// # Errors
    /// The host refuses a thread.
    fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        lines: &'env Lines<'env>,
        spare: &'env ArrayQueue<Vec<u8>>,
        file: AtomicFile,
    ) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAKERS_MAX);
        let (mut makers, mut texts) = (Vec::new(), Vec::new());
        for maker in 0..count {
            let (sender, batches) = sync_channel(WAITING);
            let (text, receiver) = sync_channel(WAITING);
            Builder::new()
                .name(format!("ringload-lines-{maker}"))
                .spawn_scoped(scope, move || make_lines(lines, spare, &batches, &text))?;
            makers.push(sender);
            texts.push(receiver);
        }
        let writer = Builder::new()
            .name("ringload-export".to_owned())
            .spawn_scoped(scope, move || write_lines(file, &texts, spare))?;
        Ok(Self {
            batch: Vec::with_capacity(BATCH),
            makers,
            turn: 0,
            writer,
        })
    }

    fn take(&mut self, record: RequestRecord) {
        self.batch.push(record);
        if self.batch.len() == BATCH {
            self.deal();
        }
    }

    fn deal(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Refused once the writer has failed, which `finish` tells.
        let _ = self.makers[self.turn].send(batch);
        self.turn = (self.turn + 1) % self.makers.len();
    }

    /// # Errors
    /// The file could not be written whole and has been removed.
    fn finish(mut self) -> Result<PathBuf, String> {
        self.deal();
        self.makers.clear();
        let file = match self.writer.join() {
            Ok(written) => written.map_err(told)?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        file.commit().map_err(|error| error.to_string())
    }
}

/// Ends when there are no more batches, or when nobody wants lines any more.
fn make_lines(
    lines: &Lines<'_>,
    spare: &ArrayQueue<Vec<u8>>,
    batches: &Receiver<Vec<RequestRecord>>,
    text: &SyncSender<Vec<u8>>,
) {
    while let Ok(batch) = batches.recv() {
        let mut out = spare.pop().unwrap_or_default();
        batch.iter().for_each(|record| lines.append(record, &mut out));
        if text.send(out).is_err() {
            return;
        }
    }
}

/// Writes lines in the turn of their makers. A failure removes the file at once: its room is needed for the others.
fn write_lines(
    mut file: AtomicFile,
    texts: &[Receiver<Vec<u8>>],
    spare: &ArrayQueue<Vec<u8>>,
) -> io::Result<AtomicFile> {
    for texts in texts.iter().cycle() {
        // The maker whose turn it is has ended, and all batches before are written: it was the end.
        let Ok(mut text) = texts.recv() else { break };
        file.write_all(&text)?;
        text.clear();
        let _ = spare.push(text);
    }
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::Value;
    use tempfile::TempDir;

    use super::*;
    use crate::id::CoreId;
    use crate::journal::{BlockWriter, Journal};
    use crate::record::Attachments;
    use crate::report::RunEnd;
    use crate::report::fixture::{BASELINE, anchor, plan, success};

    /// More than every thread may hold, and a part of a batch.
    const RECORDS: u64 = BATCH as u64 * 37 + 5;

    /// A directory for artifacts, and a journal of two cores that answered in turn.
    fn journal() -> (TempDir, Plan, ArtifactDirectory, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let mut plan = plan();
        plan.artifacts.directory = temp.path().to_owned();
        let directory = ArtifactDirectory::prepare(&plan).unwrap();
        let journal = Journal::start(&temp.path().join("journal"), 2, b"opening").unwrap();
        let mut writers = [0, 1].map(|core| BlockWriter::new(CoreId(core), journal.queue()));
        for sequence in 0..RECORDS {
            let core = (sequence % 2) as u16;
            let record = RequestRecord {
                core: CoreId(core),
                ..success(BASELINE, sequence)
            };
            writers[usize::from(core)].append(&record, std::iter::empty(), Attachments::default());
        }
        writers.iter_mut().for_each(BlockWriter::flush);
        let closed = journal.finish();
        closed.written.unwrap();
        (temp, plan, directory, closed.path)
    }

    #[test]
    fn lines_have_the_order_of_the_records_whoever_made_them() {
        let (_temp, plan, directory, journal) = journal();
        let mut collector = Collector::new(&plan, anchor());
        let (read, file) = records(&plan, &directory, anchor(), Reader::open(&journal), &[], &mut collector);
        read.unwrap();
        let text = fs::read_to_string(file.unwrap().expect("the plan wants the file")).unwrap();
        let sequences = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["metadata"]["session_num"].as_u64().unwrap()
        });
        assert!(sequences.eq(0..RECORDS));
        assert_eq!(
            collector.finish(&[], &RunEnd::Complete).aggregate.counts.succeeded,
            RECORDS
        );
    }

    #[test]
    fn a_full_disk_ends_the_export_and_nothing_else() {
        let (temp, plan, directory, journal) = journal();
        let unfinished = temp.path().join(".profile_export.jsonl.ringload-unfinished");
        symlink("/dev/full", &unfinished).unwrap();
        let mut collector = Collector::new(&plan, anchor());
        let (read, file) = records(&plan, &directory, anchor(), Reader::open(&journal), &[], &mut collector);
        read.unwrap();
        assert!(file.unwrap_err().contains("No space left on device"));
        assert!(!unfinished.is_symlink(), "its room is given back");
        assert_eq!(
            collector.finish(&[], &RunEnd::Complete).aggregate.counts.succeeded,
            RECORDS
        );
    }

    #[test]
    fn a_plan_without_records_has_no_file() {
        let (temp, mut plan, directory, journal) = journal();
        plan.artifacts.records = false;
        let mut collector = Collector::new(&plan, anchor());
        let (read, file) = records(&plan, &directory, anchor(), Reader::open(&journal), &[], &mut collector);
        assert!(read.is_ok() && file == Ok(None));
        assert!(!temp.path().join("profile_export.jsonl").exists());
    }
}
