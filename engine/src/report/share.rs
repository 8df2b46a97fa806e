//! Work on many items, shared among threads. The load is over by then, so all processors are free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Rows from which a figure of them pays for a thread.
pub(super) const PARALLEL_FROM: usize = 50_000;
/// More threads than this wait for memory.
const THREADS_MAX: usize = 16;

/// Does `work` on each item. With [`PARALLEL_FROM`] rows or more in all of them it is done by several threads, and results come in any order.
///
/// # Panics
/// If `work` does.
pub(super) fn among_threads<T: Sync, R: Send>(items: &[T], rows: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = match rows {
        rows if rows < PARALLEL_FROM => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        // Relaxed: the counter hands out positions and guards no other memory; the scope's join publishes the results.
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(work(item));
        }
        done
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("computing statistics does not panic"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        let items: Vec<u64> = (0..1000).collect();
        for rows in [0, PARALLEL_FROM] {
            let mut done = among_threads(&items, rows, |item| item * 2);
            done.sort_unstable();
            assert!(done.into_iter().eq(items.iter().map(|item| item * 2)));
        }
    }
}
