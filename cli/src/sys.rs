//! What a signal handler may do that the standard library has no safe word for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level;

use crate::last_words;

/// From now on this signal raises `asked`. If it is up already, the signal says the last words and ends the process with `code`, inside its handler;
/// without a code it does nothing more.
///
/// # Errors
/// The system refuses the handler.
pub(crate) fn end_at_second(signal: i32, asked: Arc<AtomicBool>, code: Option<i32>) -> io::Result<()> {
    let act = move || {
        // Relaxed: handlers share nothing but this flag.
        let is_second = asked.swap(true, Ordering::Relaxed);
        if let (true, Some(code)) = (is_second, code) {
            last_words::say();
            low_level::exit(code);
        }
    };
    // SAFETY: a handler may call only what signal-safety(7) lists. This one swaps an atomic flag, reads what was put together before, and calls
    // access(2), poll(2), write(2) and _exit(2): nothing allocates, locks or panics.
    unsafe { low_level::register(signal, act) }.map(drop)
}

/// From now on this signal ends the process with `code`, inside its handler, unless `is_watched` is up.
///
/// # Errors
/// The system refuses the handler.
pub(crate) fn end_unless(signal: i32, is_watched: &'static AtomicBool, code: i32) -> io::Result<()> {
    let act = move || {
        // Relaxed: handlers share nothing but this flag.
        if !is_watched.load(Ordering::Relaxed) {
            low_level::exit(code);
        }
    };
    // SAFETY: a handler may call only what signal-safety(7) lists. This one reads an atomic flag and calls _exit(2).
    unsafe { low_level::register(signal, act) }.map(drop)
}

/// Whether the process was started with this signal ignored, as nohup(1) does it with SIGHUP.
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of the plain struct.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only, and writes one live sigaction.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut before) } != 0;
    !failed && before.sa_sigaction == libc::SIG_IGN
}

/// Whether a file is there. For handlers: access(2) is safe in them.
pub(crate) fn exists(path: &CStr) -> bool {
    // SAFETY: the path ends with a zero and lives through the call.
    unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 }
}

/// Writes to standard error what fits without waiting. For handlers: poll(2) and write(2) are safe in them.
pub(crate) fn say(text: &[u8]) {
    let mut descriptor = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: reads and writes one live pollfd.
    let ready = unsafe { libc::poll(&mut descriptor, 1, 0) } == 1;
    // A pipe that is ready takes 4,096 bytes (pipe(7)). Nobody waits for a reader who does not read.
    if ready && descriptor.revents & libc::POLLOUT != 0 {
        // SAFETY: the bytes live through the call.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
}
