//! The program as a child process: a folder with a config file, the program under way, and what it left.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;
use tempfile::TempDir;

use crate::{binary, eventually};

/// A folder with a config file, in which the program runs.
pub struct Workplace {
    folder: TempDir,
}

/// The program under way. Killed if the test fails before it ends.
pub struct Program {
    child: Child,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<String>>,
}

/// What the program left.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// A config against a server; `phases` are lines of YAML.
pub fn config(url: &str, phases: &str) -> String {
    format!(
        "schemaVersion: \"2.0\"\nbenchmark:\n  model: mock-model\n  endpoint:\n    url: {url}\n    type: chat\n    streaming: true\n  \
         dataset:\n    type: synthetic\n    entries: 8\n    prompts: {{isl: 16, osl: 4}}\n  artifacts: {{dir: ./results}}\n  phases:\n{phases}"
    )
}

/// A closed-loop phase for [`config`]; `rest` are its other keys.
pub fn phase(name: &str, rest: &str) -> String {
    let kind = if name == "warmup" { "warmup" } else { "profiling" };
    format!("    - {{name: {name}, kind: {kind}, type: concurrency, {rest}}}\n")
}

impl Workplace {
    /// A fresh folder with `config` as `test.yaml`.
    ///
    /// # Panics
    /// If the host has no room for it.
    pub fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("test.yaml"), config).expect("a config file");
        Self { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// The program with these arguments, in the folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::ringload());
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Runs a command that ends by itself.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Program::start(self.command(arguments)).end()
    }

    /// `profile` with the config, on one core and quietly.
    pub fn profile(&self, more: &[&str]) -> Ended {
        self.start_profile(more).end()
    }

    /// `profile` without a config, on one core and quietly.
    pub fn profile_of_flags(&self, url: &str, more: &[&str]) -> Ended {
        let words = [
            "profile",
            "--model",
            "mock-model",
            "--url",
            url,
            "--ui",
            "none",
            "--cores",
            "1",
        ];
        self.run(&[&words, more].concat())
    }

    /// `profile` with the config, under way.
    pub fn start_profile(&self, more: &[&str]) -> Program {
        Program::start(self.profile_command(more))
    }

    /// The same, to be changed before it starts.
    pub fn profile_command(&self, more: &[&str]) -> Command {
        let mut command = self.command(&["profile", "--config", "test.yaml", "--ui", "none", "--cores", "1"]);
        command.args(more);
        command
    }

    /// The summary of all profiling phases.
    ///
    /// # Panics
    /// If it is not there or is not JSON.
    pub fn root(&self) -> Value {
        let text = fs::read(self.path("results/profile_export_aiperf.json")).expect("a summary");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// Reads to the end, showing on the way what has come.
fn gather(mut from: impl Read, shown: &Mutex<String>) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        all.extend_from_slice(&piece[..length]);
        *shown.lock().expect("no reader panics") = String::from_utf8_lossy(&all).into_owned();
    }
    String::from_utf8(all).expect("the program writes text")
}

impl Program {
    /// Starts a command, without input and with its output gathered.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        let out = child.stdout.take().expect("it is piped");
        let err = child.stderr.take().expect("it is piped");
        let readers = vec![
            std::thread::spawn(move || gather(out, &Mutex::default())),
            std::thread::spawn({
                let stderr = Arc::clone(&stderr);
                move || gather(err, &stderr)
            }),
        ];
        Self { child, stderr, readers }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory.
    ///
    /// # Panics
    /// If it has ended.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it is a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number
            .and_then(|number| number.trim().parse().ok())
            .expect("a number of kB")
    }

    /// Sends it a signal by name.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, name: &str) {
        // The shell's own kill: it is there wherever a shell is.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status();
        assert!(status.expect("a shell").success());
    }

    /// Whether its standard error holds this text by now.
    ///
    /// # Panics
    /// If the reader of its standard error did.
    pub fn said(&self, text: &str) -> bool {
        self.stderr.lock().expect("no reader panics").contains(text)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not come in time.
    pub fn end(mut self) -> Ended {
        let mut status = None;
        eventually("the end of the program", || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        let mut texts = self.readers.drain(..).map(|reader| reader.join().expect("text"));
        Ended {
            code: status.and_then(|status| status.code()),
            stdout: texts.next().expect("two readers"),
            stderr: texts.next().expect("two readers"),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if it has ended, which is what it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Asserts the exit code.
    ///
    /// # Panics
    /// With all that the program said, if the code is another.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// The line that says what went wrong.
    ///
    /// # Panics
    /// With all of standard error, if there is none or several.
    pub fn only_error(&self) -> &str {
        let errors: Vec<&str> = self.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        let [line] = errors[..] else {
            panic!("one line expected: {}", self.stderr)
        };
        line
    }
}
