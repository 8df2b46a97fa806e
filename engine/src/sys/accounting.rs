//! What the kernel says of the time that threads and processors had.
//!
//! Files under /proc and no special calls: reading one takes microseconds to a millisecond, so they are read at the borders of phases only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::time::thread_cpu;
use crate::units::Nanos;

/// The account of one thread, kept open so that a reading neither allocates nor looks up a path.
#[derive(Debug)]
pub(crate) struct ThreadAccount {
    schedstat: Option<File>,
}

/// Times of a thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ThreadTimes {
    /// On a processor, user and system.
    pub(crate) cpu: Nanos,
    /// Ready to run, and without a processor because others had it; `None` where the kernel keeps no such account.
    pub(crate) starved: Option<Nanos>,
    /// How often it was put on a processor.
    pub(crate) runs: u64,
}

impl ThreadAccount {
    /// The account of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        // The link names the thread that opens it, whoever reads later.
        Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The times so far. Called on the thread that the account belongs to.
    pub(crate) fn read(&self) -> ThreadTimes {
        // Exact to the call, while schedstat has the time on the processor as of the last tick.
        let cpu = thread_cpu();
        let mut text = [0; 96];
        let waits = self.schedstat.as_ref().and_then(|file| {
            let length = file.read_at(&mut text, 0).ok()?;
            parse_schedstat(&text[..length])
        });
        ThreadTimes {
            cpu,
            starved: waits.map(|(starved, _)| starved),
            runs: waits.map_or(0, |(_, runs)| runs),
        }
    }
}

/// Time spent waiting for a processor and the number of runs: the second and third number (Linux, Documentation/scheduler/sched-stats).
fn parse_schedstat(text: &[u8]) -> Option<(Nanos, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().skip(1);
    let starved = numbers.next()?.parse().ok()?;
    let runs = numbers.next()?.parse().ok()?;
    Some((Nanos(starved), runs))
}

/// How long a processor has been idle since the system started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorIdle {
    /// Number of the processor.
    pub(crate) processor: usize,
    /// Idle, or idle while disks work.
    pub(crate) idle: Nanos,
}

/// Idle times of all processors that are online, to a hundredth of a second (proc_stat(5)). Time that a hypervisor took away is not idle.
///
/// # Errors
/// The file is not there.
pub(crate) fn idle_processors() -> io::Result<Vec<ProcessorIdle>> {
    Ok(std::fs::read_to_string("/proc/stat")?
        .lines()
        .filter_map(parse_processor)
        .collect())
}

fn parse_processor(line: &str) -> Option<ProcessorIdle> {
    /// One unit of the file: USER_HZ has been 100 on every architecture for decades.
    const UNIT: u64 = 10_000_000;
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    // The line of the sum has no number and is not one of a processor.
    let processor = line.as_bytes().get(3)?.is_ascii_digit().then(|| words.next())??;
    // user nice system idle iowait ...
    let mut ticks = words.skip(3).map(str::parse::<u64>);
    let (idle, io_wait) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(ProcessorIdle {
        processor: processor.parse().ok()?,
        idle: Nanos((idle + io_wait).saturating_mul(UNIT)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_thread_grows_with_its_work() {
        let account = ThreadAccount::of_this_thread();
        let before = account.read();
        while thread_cpu().since(before.cpu) < Nanos::from_millis(2) {
            std::hint::spin_loop();
        }
        let after = account.read();
        assert!(after.cpu.since(before.cpu) >= Nanos::from_millis(2));
        assert!(after.starved >= before.starved && after.runs >= before.runs);
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        assert_eq!(parse_schedstat(b"120500 7300 12\n"), Some((Nanos(7300), 12)));
        assert_eq!(parse_schedstat(b"120500 7300"), None);
        assert_eq!(
            parse_processor("cpu13 10 20 30 400 5 6 7 8 9 10"),
            Some(ProcessorIdle {
                processor: 13,
                idle: Nanos::from_millis(4050)
            })
        );
        assert_eq!(parse_processor("cpu  10 20 30 400 5 6 7 8 9 10"), None);
        assert_eq!(parse_processor("ctxt 1990473"), None);
    }
}
