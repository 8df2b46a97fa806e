//! The one system call that neither the standard library nor procfs gives in full: getrusage(2).
#![allow(unsafe_code)]

use std::time::Duration;

/// What the finished children of this process used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user space, all threads.
    pub user: Duration,
    /// Processor time in the kernel on behalf of the children, all threads.
    pub system: Duration,
    /// Largest resident set of any one child, in KiB.
    pub max_rss_kib: u64,
}

/// The usage of all children that have been waited for. The kernel scales the two times to the exact sum of the time on processors, which
/// `/proc/self/stat` would cut to hundredths of a second.
pub fn children() -> Usage {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes one live rusage; with this constant the call cannot fail (getrusage(2)).
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_waited_for_is_in_the_account() {
        let before = children();
        let status = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
            .status()
            .expect("a shell");
        let after = children();
        assert!(status.success());
        assert!(after.user + after.system > before.user + before.system);
        assert!(after.max_rss_kib > 0);
    }
}
