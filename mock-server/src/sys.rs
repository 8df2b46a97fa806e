//! The system calls that neither std nor monoio offers, behind safe functions.
//!
//! This is the only file of the crate where unsafe code is allowed. Every call here passes plain integers or a pointer
//! to a local value that outlives the call, and the kernel keeps none of them; a bad descriptor gives an error, never
//! undefined behaviour.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Turns the `-1` of a system call into the error of this thread.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock that a client on this host can read too.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill. The call cannot fail for this clock and pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Raises the soft limit of open files to the hard one and returns it: a connection costs one descriptor.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit for the kernel to fill.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is a valid rlimit that the kernel only reads.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Pins the calling thread to one CPU.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero cpu_set_t is the empty set; `cpu` was checked to lie inside it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: `set` is valid for reads of the size given; thread 0 is the caller.
    check(unsafe { libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &set) }).map(drop)
}

/// Sets `TCP_NODELAY`. On a listening socket it is inherited by every accepted one, which saves a call for each.
pub(crate) fn set_nodelay(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `on` is valid for reads of `size` bytes.
    check(unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size,
        )
    })
    .map(drop)
}

/// Hands `bytes` to a socket without waiting; how many it took. `None` if it takes none now, or never will.
pub(crate) fn send_now(socket: RawFd, bytes: &[u8]) -> Option<usize> {
    // SAFETY: `bytes` is valid for reads of its length, and the kernel keeps no pointer to it.
    let sent = unsafe {
        libc::send(
            socket,
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).ok()
}

/// Shuts both directions: the peer sees FIN, and a read or write pending on this side ends at once.
pub(crate) fn shutdown_both(socket: RawFd) {
    // SAFETY: no pointers. An error means that the peer was quicker, which is what we want anyway.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Resets a TCP connection: the peer sees RST and never FIN (connect(2), "dissolve the association").
///
/// `SO_LINGER` with a time of zero would need every reference to the descriptor gone, and dropping monoio's write half
/// sends FIN before that.
pub(crate) fn reset(socket: RawFd) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr is a valid one with the family AF_UNSPEC (0).
    let nowhere: libc::sockaddr = unsafe { mem::zeroed() };
    let size = mem::size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: `nowhere` is valid for reads of `size` bytes.
    check(unsafe { libc::connect(socket, &nowhere, size) }).map(drop)
}

/// A non-blocking timer descriptor on `CLOCK_MONOTONIC`, disarmed.
pub(crate) fn timer() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let timer = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
    // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(timer) })
}

/// Arms `timer` for one absolute time, or disarms it for `None`. Either way earlier expirations are forgotten, so the
/// descriptor never has to be read.
pub(crate) fn set_timer(timer: &impl AsRawFd, deadline_ns: Option<u64>) -> io::Result<()> {
    // A value of all zeros disarms, so an absolute time of zero is moved to the first nanosecond of the past.
    let ns = deadline_ns.map_or(0, |ns| ns.max(1));
    let value = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        },
    };
    // SAFETY: `value` is a valid itimerspec that the kernel only reads; the old value is not asked for.
    check(unsafe { libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &value, std::ptr::null_mut()) })
        .map(drop)
}
