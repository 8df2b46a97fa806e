//! Exit codes: a promise to scripts.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The run did what the config says.
    Success,
    /// The run failed: no load, no successful request, or an error on the way.
    RunFailed,
    /// A mistake in the config or on the command line; nothing was sent.
    Usage,
    /// A failure threshold was missed.
    ThresholdMissed,
    /// The client was the limit and the user asked to fail then.
    ClientLimited,
    /// Ended by this signal.
    Interrupted(i32),
}

impl Exit {
    /// Every way to end, with the text that the help shows.
    const TABLE: [(Self, &'static str); 8] = [
        (Self::Success, "success"),
        (Self::RunFailed, "the run failed"),
        (
            Self::Usage,
            "mistake in the config or on the command line; nothing was sent",
        ),
        (
            Self::ThresholdMissed,
            "more requests of a phase failed than its failed_request_threshold allows; the run was ended early",
        ),
        (
            Self::ClientLimited,
            "the client was the limit and --fail-on-client-limited was given",
        ),
        (
            Self::Interrupted(signal_hook::consts::SIGHUP),
            "interrupted by SIGHUP (the terminal hung up)",
        ),
        (
            Self::Interrupted(signal_hook::consts::SIGINT),
            "interrupted by SIGINT (Ctrl-C)",
        ),
        (
            Self::Interrupted(signal_hook::consts::SIGTERM),
            "interrupted by SIGTERM",
        ),
    ];

    /// The code that a shell sees. Signals follow the shell's own convention of 128 plus the number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::RunFailed => 1,
            Self::Usage => 2,
            Self::ThresholdMissed => 3,
            Self::ClientLimited => 4,
            // Signal numbers end at 64 (signal(7)).
            Self::Interrupted(signal) => 128 + (signal & 0x7F) as u8,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The exit codes as the help shows them.
pub(crate) fn help() -> String {
    let mut text = String::from("Exit codes:");
    for (exit, meaning) in Exit::TABLE {
        text.push_str(&format!("\n  {:>3}  {meaning}", exit.code()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones() {
        let codes: Vec<(Exit, u8)> = Exit::TABLE.iter().map(|&(exit, _)| (exit, exit.code())).collect();
        assert_eq!(
            codes,
            [
                (Exit::Success, 0),
                (Exit::RunFailed, 1),
                (Exit::Usage, 2),
                (Exit::ThresholdMissed, 3),
                (Exit::ClientLimited, 4),
                (Exit::Interrupted(1), 129),
                (Exit::Interrupted(2), 130),
                (Exit::Interrupted(15), 143),
            ]
        );
    }

    #[test]
    fn the_help_names_every_code() {
        let text = help();
        for (exit, meaning) in Exit::TABLE {
            assert!(text.contains(&format!("{:>3}  {meaning}", exit.code())), "{text}");
        }
    }
}
