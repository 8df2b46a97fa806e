//! Waking a thread: eventfd(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::units::Nanos;

/// A counter that one side raises and the other waits for.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// A new, unraised, non-blocking event.
    ///
    /// # Errors
    /// The descriptor limit, or no memory.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Raises the event. Never blocks; a full counter is as good as a raised one.
    pub(crate) fn signal(&self) {
        let one: u64 = 1;
        // SAFETY: writes eight bytes from a live u64.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes back every signal so far.
    pub(crate) fn drain(&self) {
        let mut count: u64 = 0;
        // SAFETY: reads eight bytes into a live u64; EAGAIN (nothing raised) is fine.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Sleeps until the event is raised or `timeout` has passed, and drains it. May wake early.
    pub(crate) fn wait(&self, timeout: Nanos) {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let spec = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000).min(i64::MAX as u64) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: one live pollfd, one live timespec, no signal mask. EINTR counts as an early wake.
        let ready = unsafe { libc::ppoll(&mut poll, 1, &spec, std::ptr::null()) };
        if ready > 0 {
            self.drain();
        }
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_before_the_wait_is_not_lost() {
        let event = EventFd::new().unwrap();
        event.signal();
        event.signal();
        event.wait(Nanos::from_secs(60)); // returns at once, or the test hangs
        event.wait(Nanos::from_millis(1)); // drained: runs into its timeout
    }
}
