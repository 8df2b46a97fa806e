//! Which processors exist, and where threads run.
#![allow(unsafe_code)]

/// Processors that fit a mask. On larger hosts the kernel refuses to fill one, so that none is known.
const PROCESSORS: usize = libc::CPU_SETSIZE as usize;

/// Processors that the calling thread may run on, by number, ascending. Processors that are offline, and those outside the cgroup's cpuset, are
/// not among them (sched_getaffinity(2)).
pub(crate) fn allowed_processors() -> Vec<usize> {
    let mut ids: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .collect();
    ids.sort_unstable();
    ids
}

/// Pins the calling thread; `false` where the host refuses.
pub(crate) fn pin_to(processor: usize) -> bool {
    processor < PROCESSORS && core_affinity::set_for_current(core_affinity::CoreId { id: processor })
}

/// Lets the calling thread run on these processors and no others; `false` where the host refuses. Threads that it starts inherit that.
pub(crate) fn restrict_to(processors: &[usize]) -> bool {
    // SAFETY: a mask is plain bits, all zero is the empty one.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors.iter().filter(|&&processor| processor < PROCESSORS) {
        // SAFETY: the number is within the mask.
        unsafe { libc::CPU_SET(processor, &mut mask) };
    }
    // SAFETY: reads one live mask of the given size; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &mask) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_children_stay_where_they_were_put() {
        let allowed = allowed_processors();
        let last = *allowed.last().expect("a host of tests tells its processors");
        let theirs = std::thread::spawn(move || {
            assert!(restrict_to(&[last]));
            std::thread::spawn(allowed_processors).join().expect("no panic")
        });
        assert_eq!(theirs.join().expect("no panic"), [last]);
        assert_eq!(allowed_processors(), allowed, "other threads are not touched");
    }

    #[test]
    fn processors_that_do_not_exist_are_refused() {
        std::thread::spawn(|| {
            assert!(!restrict_to(&[]));
            assert!(!restrict_to(&[PROCESSORS + 5]));
            assert!(!pin_to(PROCESSORS));
        })
        .join()
        .expect("no panic");
    }
}
