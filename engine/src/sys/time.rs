//! The clocks of the kernel.
#![allow(unsafe_code)]

use crate::units::Nanos;

/// `CLOCK_MONOTONIC`, in nanoseconds (clock_gettime(2); a vDSO call where the clock source allows it).
pub(crate) fn monotonic_now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread, user and system (`CLOCK_THREAD_CPUTIME_ID`). A real system call: not for the hot path.
pub(crate) fn thread_cpu() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Nanos {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `spec` is a valid, writable timespec; both clocks exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut spec) };
    Nanos(spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64)
}
