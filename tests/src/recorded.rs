//! Commands of AIPerf as they were recorded, run by ringload through a link of its name.
//!
//! Only the server's address and the place of the results are others. `golden/NAME/` has the command and, where it names one, the config.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary;
use crate::program::{Program, Workplace};

/// A recorded command, to be run against a server of the test.
pub struct Recorded {
    command: String,
    config: Option<String>,
}

/// Where a recorded run is kept.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Puts `with` in the place of every `start` and what follows it as far as `is_part` holds.
fn replace_all(text: &str, start: &str, is_part: impl Fn(char) -> bool, with: &str) -> String {
    let mut pieces = text.split(start);
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        replaced.push_str(with);
        replaced.push_str(piece.trim_start_matches(&is_part));
    }
    replaced
}

/// The text with another server and with its results in `results`.
fn elsewhere(text: &str, url: &str) -> String {
    let text = replace_all(text, "http://127.0.0.1:", |c| c.is_ascii_digit(), url);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    replace_all(&text, "artifacts/", is_name, "results")
}

impl Recorded {
    /// The run of this name, against the server at `url`.
    ///
    /// # Panics
    /// If it was not recorded.
    pub fn read(name: &str, url: &str) -> Self {
        let command = fs::read_to_string(folder(name).join("command.txt")).expect("a command");
        // A remark in brackets says what was done to the run meanwhile.
        let command = command.split("   (").next().unwrap_or_default();
        let config = command.contains("--config").then(|| {
            let config = fs::read_to_string(folder(name).join("config.yaml")).expect("a config");
            elsewhere(&config, url)
        });
        Self {
            command: elsewhere(command, url),
            config,
        }
    }

    /// Changes the config.
    ///
    /// # Panics
    /// If `from` is not in it.
    pub fn replace(&mut self, from: &str, to: &str) {
        let config = self.config.as_mut().expect("a config");
        assert!(config.contains(from), "{from} is not in the config");
        *config = config.replace(from, to);
    }

    /// Starts the command with `more` behind it, in a folder of its own.
    ///
    /// # Panics
    /// If the host has no room for it.
    pub fn start(&self, more: &[&str]) -> (Workplace, Program) {
        let workplace = Workplace::new("");
        if let Some(config) = &self.config {
            fs::write(workplace.path("config.yaml"), config).expect("a config file");
        }
        let link = workplace.path("aiperf");
        symlink(binary::ringload(), &link).expect("a link");
        let mut words = self.command.split_whitespace();
        assert_eq!(words.next(), Some("aiperf"), "{}", self.command);
        let mut command = Command::new(link);
        command.args(words).args(more).current_dir(workplace.folder());
        let program = Program::start(command);
        (workplace, program)
    }
}
