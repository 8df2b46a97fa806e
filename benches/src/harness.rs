//! Sizes and surroundings of a bench run.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

/// Whether `RINGLOAD_BENCH_SMOKE` asks for a run that only shows that the bench works.
pub fn smoke() -> bool {
    std::env::var_os("RINGLOAD_BENCH_SMOKE").is_some_and(|value| value != "0")
}

/// How long criterion measures one case: (warm-up, measurement).
pub fn criterion_times() -> (Duration, Duration) {
    if smoke() {
        (Duration::from_millis(20), Duration::from_millis(50))
    } else {
        (Duration::from_secs(1), Duration::from_secs(3))
    }
}

/// How much a bench without criterion is asked to do; `None` if it was not meant.
///
/// Like criterion's benches: `cargo bench NAME` runs what has the name, and without `--bench`, which is how `cargo test` starts a bench, a short
/// run has to do.
pub fn size_of(bench: &str) -> Option<Size> {
    size(bench, std::env::args().skip(1), smoke())
}

/// See [`size_of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Enough to show that the bench works.
    Smoke,
    /// Enough for figures.
    Full,
}

fn size(bench: &str, arguments: impl Iterator<Item = String>, smoke: bool) -> Option<Size> {
    let (flags, names): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument.starts_with('-'));
    let meant = names.is_empty() || names.iter().any(|name| bench.contains(name.as_str()));
    let full = !smoke && flags.iter().any(|flag| flag == "--bench");
    meant.then_some(if full { Size::Full } else { Size::Smoke })
}

/// Ends a helper program: its error goes to standard error, behind its name.
pub fn exit(program: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The processors that this process may use, ascending: (for the server, for the client). `None` where there are fewer than two: both then
/// share what there is, and only the fact that the bench runs means something.
pub fn processors() -> Option<(usize, usize)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let (first, last) = ends_of(list.trim())?;
    (first != last).then_some((first, last))
}

/// The first and the last number of a list such as `0-3,8`.
fn ends_of(list: &str) -> Option<(usize, usize)> {
    let first = list.split([',', '-']).next()?.parse().ok()?;
    let last = list.split([',', '-']).next_back()?.parse().ok()?;
    Some((first, last))
}

/// One line on what the figures were measured with.
pub fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{processors} x {model}, Linux {}",
        read("/proc/sys/kernel/osrelease").trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_runs_when_it_is_meant_and_in_full_only_by_cargo_bench() {
        let size = |line: &str, smoke| super::size("send_lag", line.split_whitespace().map(str::to_owned), smoke);
        assert_eq!(size("--bench", false), Some(Size::Full));
        assert_eq!(size("--bench", true), Some(Size::Smoke));
        assert_eq!(size("", false), Some(Size::Smoke));
        assert_eq!(size("--bench lag", false), Some(Size::Full));
        assert_eq!(size("--bench pacer", false), None);
    }

    #[test]
    fn lists_of_processors_have_two_ends() {
        assert_eq!(ends_of("0-1"), Some((0, 1)));
        assert_eq!(ends_of("2,4-6,9"), Some((2, 9)));
        assert_eq!(ends_of("3"), Some((3, 3)));
        assert_eq!(ends_of(""), None);
    }
}
