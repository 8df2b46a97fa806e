//! The largest value that something had while a test ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples a number until it is asked for the largest.
pub struct Peak {
    done: Arc<AtomicBool>,
    sampler: JoinHandle<usize>,
}

impl Peak {
    /// Starts to sample.
    pub fn of(sample: impl Fn() -> usize + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (end, peak) = (Arc::clone(&done), AtomicUsize::new(0));
        let sampler = std::thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                peak.fetch_max(sample(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
            peak.into_inner()
        });
        Self { done, sampler }
    }

    /// The largest sample; ends the sampling.
    ///
    /// # Panics
    /// If the sampling panicked.
    pub fn so_far(self) -> usize {
        self.done.store(true, Ordering::Release);
        self.sampler.join().expect("the sampler does not panic")
    }
}
