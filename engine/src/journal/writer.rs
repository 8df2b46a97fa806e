//! From the cores to the file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::JournalError;
use super::frame::{HEADER_BYTES, Header, Kind, MAGIC};
use crate::id::CoreId;
use crate::record::{self, Attachments, ErrorDetail, RequestRecord};
use crate::units::Nanos;

/// A block is handed over when the next record might not fit.
const BLOCK_BYTES: usize = 64 * 1024;
/// Blocks that exist from the start, per core: at 28 MB/s of records, 70 ms of writer sleep.
const BLOCKS_PER_CORE: usize = 32;
/// How often the writer looks for full blocks. Polling keeps system calls off the cores.
const POLL: Duration = Duration::from_millis(20);

/// A block that is not full is handed over when its first record is this old and the core looks, which it does at least once a second: a process
/// that dies takes the records of its last two seconds along, however slow the load.
pub(crate) const TAIL_AGE: Nanos = Nanos::from_secs(1);

/// Bytes that the file gives back when the disk is full, or a block more. They held records of a list that is not whole any more; the summaries,
/// which tell what became of every request, need the room.
const BYTES_GIVEN_UP: u64 = 8 * BLOCK_BYTES as u64;

struct Block {
    core: CoreId,
    bytes: Vec<u8>,
}

/// The two queues between cores and writer.
pub(crate) struct BlockQueue {
    full: ArrayQueue<Block>,
    empty: ArrayQueue<Vec<u8>>,
    /// Blocks that had to be allocated while the load ran, because the writer fell behind.
    grown: AtomicU64,
    /// Notes of the run, a few for each phase and second. No core ever takes this lock.
    notes: Mutex<Vec<Vec<u8>>>,
    closing: AtomicBool,
}

impl BlockQueue {
    fn new(cores: usize) -> Self {
        let blocks = cores * BLOCKS_PER_CORE;
        let queue = Self {
            // Far more than exist at the start: a writer that falls behind costs memory, never a record.
            full: ArrayQueue::new(blocks * 64),
            empty: ArrayQueue::new(blocks * 64),
            grown: AtomicU64::new(0),
            notes: Mutex::default(),
            closing: AtomicBool::new(false),
        };
        for _ in 0..blocks {
            let _ = queue.empty.push(Vec::with_capacity(BLOCK_BYTES));
        }
        queue
    }

    fn fresh(&self) -> Vec<u8> {
        self.empty.pop().unwrap_or_else(|| {
            self.grown.fetch_add(1, Ordering::Relaxed);
            Vec::with_capacity(BLOCK_BYTES)
        })
    }

    /// Returns how often it had to wait for room.
    fn hand_over(&self, core: CoreId, bytes: Vec<u8>) -> u64 {
        let mut waits = 0;
        let mut block = Block { core, bytes };
        // 2,048 blocks (128 MiB) per core are waiting for the disk when this is full. Waiting is the only way to lose nothing; the send lag shows it.
        while let Err(refused) = self.full.push(block) {
            block = refused;
            waits += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
        waits
    }
}

/// The run's end: what a reader of the journal has to know beside the records.
#[derive(Clone)]
pub(crate) struct Notes {
    queue: Arc<BlockQueue>,
}

impl Notes {
    /// Adds a note. It is written soon, and before the file is closed.
    pub(crate) fn add(&self, note: Vec<u8>) {
        // A list is whole after every statement, so a panic elsewhere cannot have left it broken.
        let mut notes = self.queue.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note);
    }
}

/// A core's end: appends records, hands over full blocks.
pub(crate) struct BlockWriter {
    core: CoreId,
    block: Vec<u8>,
    /// When the first request of the block ended.
    oldest: Option<Nanos>,
    queue: Arc<BlockQueue>,
    waits: u64,
}

impl BlockWriter {
    /// The writing end of one core.
    pub(crate) fn new(core: CoreId, queue: Arc<BlockQueue>) -> Self {
        Self {
            core,
            block: queue.fresh(),
            oldest: None,
            queue,
            waits: 0,
        }
    }

    /// Appends the text behind an index, before the first record that has this index.
    pub(crate) fn append_text(&mut self, index: u32, detail: &ErrorDetail) {
        record::encode_text(index, detail, &mut self.block);
    }

    /// Appends a record with its encoded gaps, and with what else is kept of the request.
    pub(crate) fn append<'a>(
        &mut self,
        record: &RequestRecord,
        gaps: impl Iterator<Item = &'a [u8]>,
        attachments: Attachments<'_>,
    ) {
        record::encode(record, gaps, attachments, &mut self.block);
        self.oldest.get_or_insert(record.end);
        // Half a kilobyte is left for the next one: most records fit, and one that does not only makes its block larger.
        if self.block.len() + 512 > BLOCK_BYTES {
            self.flush();
        }
    }

    /// Hands over what is there if some of it is [`TAIL_AGE`] old.
    pub(crate) fn flush_old(&mut self, now: Nanos) {
        if self.oldest.is_some_and(|oldest| now.since(oldest) >= TAIL_AGE) {
            self.flush();
        }
    }

    /// Hands over what is there.
    pub(crate) fn flush(&mut self) {
        self.oldest = None;
        if !self.block.is_empty() {
            let full = std::mem::replace(&mut self.block, self.queue.fresh());
            self.waits += self.queue.hand_over(self.core, full);
        }
    }

    /// How often the core had to wait for room in the writer's queue.
    pub(crate) fn waits(&self) -> u64 {
        self.waits
    }
}

/// The writer thread and its file.
pub(crate) struct Journal {
    queue: Arc<BlockQueue>,
    thread: JoinHandle<Result<(), JournalError>>,
    path: PathBuf,
    lock: File,
}

impl Journal {
    /// Creates the file with `opening` as its first note and starts the writer.
    ///
    /// The file is locked until the last handle to it is gone, which the system sees to if the process dies: a journal that nobody has locked is one
    /// that nobody writes.
    ///
    /// # Errors
    /// The file cannot be created or written, or the note is longer than 4 GiB.
    pub(crate) fn start(path: &Path, cores: usize, opening: &[u8]) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        check_length(path, opening.len())?;
        let mut output = Output::create(path).map_err(fail)?;
        output.open(opening).map_err(fail)?;
        let lock = output.file.try_clone().map_err(fail)?;
        let queue = Arc::new(BlockQueue::new(cores));
        let theirs = Arc::clone(&queue);
        let owned = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("ringload-journal".into())
            .spawn(move || write_blocks(&theirs, output, &owned))
            .map_err(fail)?;
        Ok(Self {
            queue,
            thread,
            path: path.to_owned(),
            lock,
        })
    }

    /// The queues, for the cores.
    pub(crate) fn queue(&self) -> Arc<BlockQueue> {
        Arc::clone(&self.queue)
    }

    /// The way for notes.
    pub(crate) fn notes(&self) -> Notes {
        Notes { queue: self.queue() }
    }

    /// Writes what is left and ends the thread. All cores have flushed.
    pub(crate) fn finish(self) -> Closed {
        self.queue.closing.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(written) => Closed {
                path: self.path,
                written,
                _lock: self.lock,
            },
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// A journal that nothing is added to any more.
pub(crate) struct Closed {
    /// The file.
    pub(crate) path: PathBuf,
    /// Why it is not whole, if so: it holds whole blocks in any case.
    pub(crate) written: Result<(), JournalError>,
    /// What is in it is still this process's to write out.
    _lock: File,
}

/// Whether a note can be the first one. The frames behind one whose length does not fit could not be found, and no record be read back.
fn check_length(path: &Path, bytes: usize) -> Result<(), JournalError> {
    if u32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(JournalError::TooLarge {
        path: path.to_owned(),
        bytes,
    })
}

/// The file, and where its latest blocks begin.
struct Output {
    file: File,
    end: u64,
    latest: VecDeque<u64>,
    buffer: Vec<u8>,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        // Where a file system has no locks, the run goes on without one.
        let _ = file.try_lock();
        file.write_all(MAGIC)?;
        Ok(Self {
            file,
            end: MAGIC.len() as u64,
            latest: VecDeque::new(),
            buffer: Vec::with_capacity(BLOCK_BYTES + HEADER_BYTES),
        })
    }

    /// Writes the first note. It tells of every entry of the dataset, so it is not copied to be one write: a journal that ends in the middle of it is
    /// one that ends before it.
    fn open(&mut self, opening: &[u8]) -> io::Result<()> {
        self.file.write_all(&Header::of(Kind::Note, opening).encode())?;
        self.file.write_all(opening)?;
        self.end += (HEADER_BYTES + opening.len()) as u64;
        Ok(())
    }

    fn append(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        // In one write, so that a process that is killed leaves whole frames or none.
        self.buffer.clear();
        self.buffer.extend_from_slice(&Header::of(kind, payload).encode());
        self.buffer.extend_from_slice(payload);
        self.file.write_all(&self.buffer)?;
        if kind != Kind::Note {
            self.latest.push_back(self.end);
        }
        self.end += self.buffer.len() as u64;
        while self.latest.get(1).is_some_and(|next| self.end - next >= BYTES_GIVEN_UP) {
            self.latest.pop_front();
        }
        Ok(())
    }

    /// Ends the file after a frame that was written whole, some blocks early. Best effort: the write has failed already.
    fn give_up(&self) {
        let _ = self.file.set_len(self.latest.front().copied().unwrap_or(self.end));
    }
}

fn write_blocks(queue: &BlockQueue, mut output: Output, path: &Path) -> Result<(), JournalError> {
    let mut outcome = Ok(());
    let mut append = |kind: Kind, payload: &[u8]| {
        if outcome.is_err() {
            // The cores must still get their blocks back, so the loop goes on without the file.
            return;
        }
        outcome = output.append(kind, payload).map_err(|source| JournalError::Io {
            path: path.to_owned(),
            source,
        });
        if outcome.is_err() {
            output.give_up();
        }
    };
    loop {
        // Read before the queues are emptied: what was pushed before closing is then seen.
        let closing = queue.closing.load(Ordering::Acquire);
        while let Some(Block { core, mut bytes }) = queue.full.pop() {
            append(Kind::Records(core), &bytes);
            bytes.clear();
            let _ = queue.empty.push(bytes);
        }
        let notes = std::mem::take(&mut *queue.notes.lock().unwrap_or_else(PoisonError::into_inner));
        notes.iter().for_each(|note| append(Kind::Note, note));
        if closing {
            return outcome;
        }
        std::thread::park_timeout(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_note_is_as_long_as_its_length_can_say() {
        let path = Path::new("/results/ringload.journal");
        assert!(check_length(path, u32::MAX as usize).is_ok());
        let refusal = check_length(path, u32::MAX as usize + 1)
            .expect_err("one byte more")
            .to_string();
        assert!(refusal.contains("found 4294967296 bytes of requests"), "{refusal}");
        assert!(
            refusal.contains("at most 4294967295; take fewer or shorter entries"),
            "{refusal}"
        );
    }

    #[test]
    fn a_file_that_cannot_grow_ends_with_a_whole_block_and_gives_room_back() {
        const BLOCK: u64 = BYTES_GIVEN_UP / 8;
        let block = vec![0; BLOCK as usize - HEADER_BYTES];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let records = Kind::Records(CoreId(0));
        let length = || std::fs::metadata(&path).unwrap().len();
        let opened = (MAGIC.len() + HEADER_BYTES + 7) as u64;

        let mut output = Output::create(&path).unwrap();
        output.open(b"opening").unwrap();
        output.append(records, &block).unwrap();
        output.give_up();
        assert_eq!(length(), opened, "the first note stays");

        for notes in [0, 3] {
            let mut output = Output::create(&path).unwrap();
            output.open(b"opening").unwrap();
            for _ in 0..20 {
                output.append(records, &block).unwrap();
            }
            for _ in 0..notes {
                output.append(Kind::Note, b"a note").unwrap();
            }
            output.file.write_all(b"half a block").unwrap();
            output.give_up();
            assert_eq!(length(), opened + BLOCK * (20 - 8));
        }
    }

    #[test]
    fn small_blocks_give_as_much_room_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut output = Output::create(&path).unwrap();
        let all = BYTES_GIVEN_UP / 1000 * 3;
        for _ in 0..all {
            output
                .append(Kind::Records(CoreId(0)), &[0; 1000 - HEADER_BYTES])
                .unwrap();
        }
        output.give_up();
        let given_up = MAGIC.len() as u64 + all * 1000 - std::fs::metadata(&path).unwrap().len();
        assert!(
            (BYTES_GIVEN_UP..BYTES_GIVEN_UP + 1000).contains(&given_up),
            "{given_up}"
        );
    }
}
