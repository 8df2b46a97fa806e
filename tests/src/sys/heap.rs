//! An allocator that knows how much memory is taken, and how much was at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a gauge; a test binary installs it with `#[global_allocator]`.
#[derive(Debug)]
pub struct Gauged;

impl Gauged {
    /// Forgets the peak. Returns what is taken now.
    pub fn begin() -> usize {
        let taken = TAKEN.load(Ordering::Relaxed);
        PEAK.store(taken, Ordering::Relaxed);
        taken
    }

    /// The most that was taken at once since [`Gauged::begin`].
    pub fn peak() -> usize {
        PEAK.load(Ordering::Relaxed)
    }
}

fn take(bytes: usize) {
    let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(taken, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; the gauge touches no memory of it.
unsafe impl GlobalAlloc for Gauged {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new exist side by side while it moves.
        take(size);
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
