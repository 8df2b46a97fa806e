//! An allocator that counts what the reactor cores ask of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Calls of core threads while armed: allocations, growths and frees.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// All calls of any other thread while armed: shows that the counter counts.
static OTHER_CALLS: AtomicU64 = AtomicU64::new(0);
static ARMED: AtomicBool = AtomicBool::new(false);
/// Where the first call came from.
static FIRST: Mutex<Option<Backtrace>> = Mutex::new(None);

thread_local! {
    static WHO: Cell<Who> = const { Cell::new(Who::Unknown) };
}

/// What the allocator knows of a thread. Threads are named before they do anything of note, so one look is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Unknown,
    Core,
    /// A core whose backtrace is being taken, which allocates.
    Looking,
    Other,
}

/// The system's allocator with a counter; a test binary installs it with `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// What was counted between two moments.
#[derive(Debug)]
pub struct Count {
    /// Calls on threads named `ringload-core-*`.
    pub cores: u64,
    /// Calls on all other threads.
    pub others: u64,
    /// Where the first call on a core came from.
    pub first: Option<String>,
}

impl Counting {
    /// Starts counting at zero.
    pub fn arm() {
        CALLS.store(0, Ordering::Relaxed);
        OTHER_CALLS.store(0, Ordering::Relaxed);
        *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = None;
        ARMED.store(true, Ordering::Release);
    }

    /// Stops counting.
    pub fn disarm() -> Count {
        ARMED.store(false, Ordering::Release);
        let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
        Count {
            cores: CALLS.load(Ordering::Relaxed),
            others: OTHER_CALLS.load(Ordering::Relaxed),
            first: first.map(|backtrace| backtrace.to_string()),
        }
    }
}

fn note() {
    if !ARMED.load(Ordering::Acquire) {
        return;
    }
    // A thread that is going away has no locals any more; it is no core in the middle of its load.
    let who = WHO.try_with(|who| {
        if who.get() == Who::Unknown {
            who.set(if is_core() { Who::Core } else { Who::Other });
        }
        who.get()
    });
    match who {
        Ok(Who::Core) => {
            if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
                WHO.with(|who| who.set(Who::Looking));
                *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Backtrace::force_capture());
                WHO.with(|who| who.set(Who::Core));
            }
        }
        Ok(Who::Looking) => {}
        _ => {
            OTHER_CALLS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether the calling thread is a reactor core, by its name. Asked of the kernel, for the standard library's answer may allocate.
fn is_core() -> bool {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes (prctl(2)), which is the size of the buffer.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"ringload-core-")
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are the callee's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
