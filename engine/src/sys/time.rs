//! The monotonic clock.
#![allow(unsafe_code)]

use crate::units::Nanos;

/// `CLOCK_MONOTONIC`, in nanoseconds (clock_gettime(2); a vDSO call where the clock source allows it).
pub(crate) fn monotonic_now() -> Nanos {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `spec` is a valid, writable timespec; CLOCK_MONOTONIC exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut spec) };
    Nanos(spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64)
}
