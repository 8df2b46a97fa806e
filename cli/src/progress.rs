//! One line per second on standard error while the load runs.

use std::io::{self, IsTerminal as _, Stderr, Write};

use ringload_engine::units::Nanos;

use crate::args::Ui;
use crate::engine::{LivePhase, LiveSilence, LiveSnapshot};
use crate::number::{grouped, grouped_decimal};

/// Longest phase name shown; names may have 100 characters.
const NAME_CHARS: usize = 32;

/// Draws snapshots; each replaces the last one on a terminal and gets a line of its own elsewhere.
pub(crate) struct Progress<W> {
    out: W,
    style: Style,
    /// The phases of the last snapshot.
    previous: Vec<Before>,
    /// A line stands on the terminal without its end.
    open_line: bool,
    /// What each line begins with.
    prefix: String,
}

/// What a phase had when it was last shown.
struct Before {
    name: String,
    elapsed: Nanos,
    sent: u64,
    returned: u64,
    was_silent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Silent,
    Terminal,
    Lines,
}

impl Progress<Stderr> {
    /// Progress on standard error, in the style that fits where it goes.
    pub(crate) fn on_stderr(ui: Ui) -> Self {
        let out = io::stderr();
        let style = match ui {
            Ui::None => Style::Silent,
            Ui::Simple if out.is_terminal() => Style::Terminal,
            Ui::Simple => Style::Lines,
        };
        Self::new(out, style)
    }

    /// The same for one of several runs; each line begins with `prefix`.
    pub(crate) fn of_cell(ui: Ui, prefix: String) -> Self {
        Self {
            prefix,
            ..Self::on_stderr(ui)
        }
    }
}

impl<W: Write> Progress<W> {
    fn new(out: W, style: Style) -> Self {
        Self {
            out,
            style,
            previous: Vec::new(),
            open_line: false,
            prefix: String::new(),
        }
    }

    /// Draws a snapshot. A terminal that went away is no reason to end the run, so failures to write are dropped.
    pub(crate) fn show(&mut self, snapshot: &LiveSnapshot) {
        if self.style != Style::Silent {
            for line in self.turns_of_silence(snapshot) {
                self.clear();
                let _ = writeln!(self.out, "{line}");
            }
        }
        let line = self.line(snapshot);
        let _ = match self.style {
            Style::Silent => Ok(()),
            // Wrapping is off while the line is written (DECAWM): in a narrow window its end is lost, and not its neighbours above.
            Style::Terminal => write!(self.out, "\r\x1b[?7l{line}\x1b[K\x1b[?7h"),
            Style::Lines => writeln!(self.out, "{line}"),
        };
        let _ = self.out.flush();
        self.open_line = self.style == Style::Terminal;
    }

    /// Takes the line away, so that what follows starts at the left.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.open_line) {
            let _ = write!(self.out, "\r\x1b[K");
            let _ = self.out.flush();
        }
    }

    fn line(&mut self, snapshot: &LiveSnapshot) -> String {
        let parts: Vec<String> = snapshot.phases.iter().map(|phase| self.describe(phase)).collect();
        let is_waiting = snapshot
            .phases
            .iter()
            .any(|phase| phase.draining || self.stands_still(phase));
        self.previous = snapshot
            .phases
            .iter()
            .map(|phase| Before {
                name: phase.name.clone(),
                elapsed: phase.elapsed,
                sent: phase.tally.sent,
                returned: phase.tally.returned(),
                was_silent: phase.silent.is_some(),
            })
            .collect();
        let mut line = if parts.is_empty() {
            "no phase is running".to_owned()
        } else {
            parts.join(" | ")
        };
        // What a drain waits for, or a closed loop whose server has stopped answering. While requests start, old ones are nothing to remark on.
        if let Some(age) = snapshot.oldest_request.filter(|_| is_waiting) {
            line.push_str(&format!("  oldest {:.1} s", age.as_secs_f64()));
        }
        format!("{}{:>6.1} s  {line}", self.prefix, snapshot.elapsed.as_secs_f64())
    }

    fn describe(&self, phase: &LivePhase) -> String {
        let tally = &phase.tally;
        let name = shorten(&phase.name);
        if phase.draining {
            return format!("{name}  draining, {} left", grouped(tally.in_flight()));
        }
        let mut text = format!(
            "{name}  {:.1} s  sent {}  in flight {}  errors {}",
            phase.elapsed.as_secs_f64(),
            grouped(tally.sent),
            grouped(tally.in_flight()),
            grouped(tally.failed),
        );
        for (count, word) in [(tally.cancelled, "cancelled"), (tally.truncated, "truncated")] {
            if count > 0 {
                text.push_str(&format!("  {word} {}", grouped(count)));
            }
        }
        text.push_str(&format!("  {} req/s", grouped_decimal(self.rate(phase), 1)));
        text
    }

    /// A line for each phase that has fallen silent since the last snapshot, and for each that goes on. Unlike the line of progress they stay.
    fn turns_of_silence(&self, snapshot: &LiveSnapshot) -> Vec<String> {
        let turn = |phase: &LivePhase| {
            let was_silent = self.before(phase).is_some_and(|before| before.was_silent);
            let name = shorten(&phase.name);
            match (was_silent, &phase.silent) {
                (false, Some(silence)) => Some(format!("warning: phase {name}: {}", silent(phase, silence))),
                (true, None) => Some(format!("phase {name}: goes on")),
                _ => None,
            }
        };
        let at = snapshot.elapsed.as_secs_f64();
        let with_time = |line: String| format!("{}{at:>6.1} s  {line}", self.prefix);
        snapshot.phases.iter().filter_map(turn).map(with_time).collect()
    }

    fn before(&self, phase: &LivePhase) -> Option<&Before> {
        self.previous.iter().find(|before| before.name == phase.name)
    }

    /// Whether nothing was sent and nothing ended since the last snapshot, with requests in flight.
    fn stands_still(&self, phase: &LivePhase) -> bool {
        let tally = &phase.tally;
        tally.in_flight() > 0
            && self
                .before(phase)
                .is_some_and(|before| (before.sent, before.returned) == (tally.sent, tally.returned()))
    }

    /// Requests of the phase that ended per second, since the last snapshot.
    fn rate(&self, phase: &LivePhase) -> f64 {
        let (since, before) = self
            .before(phase)
            .map_or((Nanos::ZERO, 0), |before| (before.elapsed, before.returned));
        let span = phase.elapsed.since(since).as_secs_f64();
        if span > 0.0 {
            phase.tally.returned().saturating_sub(before) as f64 / span
        } else {
            0.0
        }
    }
}

/// What a silent phase waits for.
fn silent(phase: &LivePhase, silence: &LiveSilence) -> String {
    let oldest = silence.oldest_request.map_or(String::new(), |age| {
        format!(", the oldest for {:.0} s", age.as_secs_f64())
    });
    format!(
        "no byte for {:.0} s, {} in flight{oldest}",
        silence.lasts.as_secs_f64(),
        grouped(phase.tally.in_flight())
    )
}

fn shorten(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        name.to_owned()
    } else {
        let mut short: String = name.chars().take(NAME_CHARS - 1).collect();
        short.push('…');
        short
    }
}

#[cfg(test)]
mod tests {
    use ringload_engine::coordinator::Tally;

    use super::*;

    fn phase(name: &str, elapsed_s: u64, sent: u64, succeeded: u64) -> LivePhase {
        LivePhase {
            name: name.into(),
            elapsed: Nanos::from_secs(elapsed_s),
            tally: Tally {
                sent,
                succeeded,
                ..Tally::default()
            },
            draining: false,
            silent: None,
        }
    }

    fn snapshot(elapsed_s: u64, phases: Vec<LivePhase>) -> LiveSnapshot {
        LiveSnapshot {
            elapsed: Nanos::from_secs(elapsed_s),
            phases,
            oldest_request: Some(Nanos::from_millis(2500)),
        }
    }

    fn drawn(style: Style, snapshots: &[LiveSnapshot]) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, style);
        snapshots.iter().for_each(|snapshot| progress.show(snapshot));
        progress.clear();
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_rate_is_that_of_the_last_interval() {
        let text = drawn(
            Style::Lines,
            &[
                snapshot(2, vec![phase("baseline", 1, 1_032, 1_000)]),
                snapshot(4, vec![phase("baseline", 3, 4_032, 4_000)]),
            ],
        );
        assert_eq!(
            text,
            "   2.0 s  baseline  1.0 s  sent 1,032  in flight 32  errors 0  1,000.0 req/s\n   \
             4.0 s  baseline  3.0 s  sent 4,032  in flight 32  errors 0  1,500.0 req/s\n"
        );
    }

    #[test]
    fn a_drain_says_how_many_are_left_and_how_old_the_oldest_is() {
        let draining = LivePhase {
            draining: true,
            ..phase("a", 5, 1_200, 100)
        };
        let text = drawn(Style::Lines, &[snapshot(5, vec![draining])]);
        assert_eq!(text, "   5.0 s  a  draining, 1,100 left  oldest 2.5 s\n");
    }

    #[test]
    fn overlapping_phases_share_the_line() {
        let mut draining = phase("a", 5, 100, 90);
        draining.draining = true;
        let mut failing = phase("b", 1, 20, 0);
        failing.tally.failed = 4;
        failing.tally.cancelled = 6;
        let text = drawn(Style::Lines, &[snapshot(5, vec![draining, failing])]);
        assert_eq!(
            text,
            "   5.0 s  a  draining, 10 left | b  1.0 s  sent 20  in flight 10  errors 4  cancelled 6  10.0 req/s  oldest 2.5 s\n"
        );
    }

    #[test]
    fn a_phase_that_stands_still_says_what_it_waits_for() {
        let at = |elapsed_s, sent, succeeded| snapshot(elapsed_s, vec![phase("a", elapsed_s, sent, succeeded)]);
        // Sent, all in flight; one second without news; news again; all answered, and nothing more to send yet.
        let text = drawn(
            Style::Lines,
            &[at(1, 8, 0), at(2, 8, 0), at(3, 9, 1), at(4, 9, 9), at(5, 9, 9)],
        );
        let told: Vec<bool> = text.lines().map(|line| line.ends_with("oldest 2.5 s")).collect();
        assert_eq!(told, [false, true, false, false, false], "{text}");
    }

    #[test]
    fn a_phase_that_falls_silent_is_told_of_once_and_so_is_its_end() {
        let at = |elapsed_s: u64, is_silent: bool| {
            let silent = is_silent.then(|| LiveSilence {
                lasts: Nanos::from_secs(elapsed_s - 1),
                oldest_request: Some(Nanos::from_secs(elapsed_s)),
            });
            let phase = LivePhase {
                silent,
                ..phase("a", elapsed_s, 8, 0)
            };
            snapshot(elapsed_s, vec![phase])
        };
        let snapshots = [at(60, false), at(61, true), at(62, true), at(63, false)];
        let told = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("sent"));
            lines.map(str::to_owned).collect()
        };
        let expected = [
            "  61.0 s  warning: phase a: no byte for 60 s, 8 in flight, the oldest for 61 s",
            "  63.0 s  phase a: goes on",
        ];
        assert_eq!(told(&drawn(Style::Lines, &snapshots)), expected);
        let on_terminal = drawn(Style::Terminal, &snapshots);
        for line in expected {
            assert!(on_terminal.contains(&format!("\r\x1b[K{line}\n")), "{on_terminal:?}");
        }
        assert_eq!(drawn(Style::Silent, &snapshots), "");
    }

    #[test]
    fn a_terminal_keeps_one_line_and_gets_it_back_clean() {
        let text = drawn(Style::Terminal, &[snapshot(1, vec![]), snapshot(2, vec![])]);
        assert!(!text.contains('\n'));
        assert_eq!(text.matches('\r').count(), 3);
        assert!(text.ends_with("\r\x1b[K"), "{text:?}");
        assert_eq!(text.matches("\x1b[?7l").count(), text.matches("\x1b[?7h").count());
    }

    #[test]
    fn silence_is_silent() {
        assert_eq!(drawn(Style::Silent, &[snapshot(1, vec![phase("a", 1, 1, 1)])]), "");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten(&"n".repeat(32)).chars().count(), 32);
        assert_eq!(shorten(&"n".repeat(100)), format!("{}…", "n".repeat(31)));
    }
}
