//! From the cores to the file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::{BLOCK_HEADER_BYTES, JournalError, MAGIC};
use crate::id::CoreId;
use crate::record::{self, Attachments, RequestRecord};

/// A block is handed over when the next record might not fit.
const BLOCK_BYTES: usize = 64 * 1024;
/// Blocks that exist from the start, per core: at 28 MB/s of records, 70 ms of writer sleep.
const BLOCKS_PER_CORE: usize = 32;
/// How often the writer looks for full blocks. Polling keeps system calls off the cores.
const POLL: Duration = Duration::from_millis(20);

/// Blocks that the file gives back when the disk is full. They held records of a list that is not whole any more; the summaries, which tell
/// what became of every request, need the room.
const BLOCKS_GIVEN_UP: usize = 8;

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

/// A core's end: appends records, hands over full blocks.
pub(crate) struct BlockWriter {
    core: CoreId,
    block: Vec<u8>,
    queue: Arc<BlockQueue>,
    waits: u64,
}

impl BlockWriter {
    /// The writing end of one core.
    pub(crate) fn new(core: CoreId, queue: Arc<BlockQueue>) -> Self {
        Self {
            core,
            block: queue.fresh(),
            queue,
            waits: 0,
        }
    }

    /// Appends a record with its encoded gaps, and with what else is kept of the request.
    pub(crate) fn append<'a>(
        &mut self,
        record: &RequestRecord,
        gaps: impl Iterator<Item = &'a [u8]>,
        attachments: Attachments<'_>,
    ) {
        record::encode(record, gaps, attachments, &mut self.block);
        // Half a kilobyte is left for the next one: most records fit, and one that does not only makes its block larger.
        if self.block.len() + 512 > BLOCK_BYTES {
            self.flush();
        }
    }

    /// Hands over what is there.
    pub(crate) fn flush(&mut self) {
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
}

impl Journal {
    /// Creates the file and starts the writer.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub(crate) fn start(path: &Path, cores: usize) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io {
            path: path.to_owned(),
            source,
        };
        let output = Output::create(path).map_err(fail)?;
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
        })
    }

    /// The queues, for the cores.
    pub(crate) fn queue(&self) -> Arc<BlockQueue> {
        Arc::clone(&self.queue)
    }

    /// Writes what is left and ends the thread. All cores have flushed. Gives the file and why it is not whole, if so: it holds whole blocks
    /// in any case.
    pub(crate) fn finish(self) -> (PathBuf, Result<(), JournalError>) {
        self.queue.closing.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(outcome) => (self.path, outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The file, and where its latest blocks begin.
struct Output {
    file: File,
    end: u64,
    latest: VecDeque<u64>,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        Ok(Self {
            file,
            end: MAGIC.len() as u64,
            latest: VecDeque::with_capacity(BLOCKS_GIVEN_UP),
        })
    }

    fn append(&mut self, block: &[u8]) -> io::Result<()> {
        self.file.write_all(block)?;
        if self.latest.len() == BLOCKS_GIVEN_UP {
            self.latest.pop_front();
        }
        self.latest.push_back(self.end);
        self.end += block.len() as u64;
        Ok(())
    }

    /// Ends the file after a block that was written whole, some blocks early. Best effort: the write has failed already.
    fn give_up(&self) {
        let _ = self.file.set_len(self.latest.front().copied().unwrap_or(self.end));
    }
}

fn write_blocks(queue: &BlockQueue, mut output: Output, path: &Path) -> Result<(), JournalError> {
    let mut outcome = Ok(());
    let mut buffer = Vec::with_capacity(BLOCK_BYTES + BLOCK_HEADER_BYTES);
    loop {
        // Read before the queue is emptied: what was pushed before closing is then seen.
        let closing = queue.closing.load(Ordering::Acquire);
        while let Some(Block { core, mut bytes }) = queue.full.pop() {
            if outcome.is_ok() {
                buffer.clear();
                buffer.extend_from_slice(&core.0.to_le_bytes());
                buffer.extend_from_slice(&[0; 2]);
                buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                buffer.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
                buffer.extend_from_slice(&bytes);
                // After a failure the cores must still get their blocks back, so the loop goes on without the file.
                outcome = output.append(&buffer).map_err(|source| JournalError::Io {
                    path: path.to_owned(),
                    source,
                });
                if outcome.is_err() {
                    output.give_up();
                }
            }
            bytes.clear();
            let _ = queue.empty.push(bytes);
        }
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
    fn a_file_that_cannot_grow_ends_with_a_whole_block_and_gives_room_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut output = Output::create(&path).unwrap();
        let length = || std::fs::metadata(&path).unwrap().len();
        let magic = MAGIC.len() as u64;
        output.append(&[0; 100]).unwrap();
        output.give_up();
        assert_eq!(length(), magic);

        let mut output = Output::create(&path).unwrap();
        for _ in 0..20 {
            output.append(&[0; 100]).unwrap();
        }
        output.file.write_all(b"half a block").unwrap();
        output.give_up();
        assert_eq!(length(), magic + 100 * (20 - BLOCKS_GIVEN_UP as u64));
    }
}
