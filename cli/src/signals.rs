//! The first signal asks the run to end; the second ends the process, and so does one before the run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

use crate::exit::Exit;
use crate::{console, sys};

/// Signals that end a run. Not SIGHUP where the user had it ignored (nohup): the run is to outlive the terminal then.
fn ending() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !sys::is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// Whether a [`Watch`] has taken over.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Until a [`Watch`] starts an ending signal ends the process with that signal's code: there is nothing to cut and nothing to write yet. The default
/// is to kill, and a script that waits for a code would see none if its signal comes early.
pub(crate) fn exit_until_watched() {
    for signal in ending() {
        // Without the handler the default stands, which ends the process too.
        let _ = sys::end_unless(signal, &IS_WATCHED, i32::from(Exit::Interrupted(signal).code()));
    }
}

/// From now on a write that passes a limit on file sizes (ulimit -f) fails (EFBIG, write(2)) and is told like a full disk. The default of the signal
/// that comes with it is to kill, and all results went with the process.
///
/// # Errors
/// When the system refuses the handler.
pub(crate) fn survive_large_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Watches for signals until it is dropped.
pub(crate) struct Watch {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watch {
    /// Calls `on_first` with the first ending signal, on a thread of its own. The one after it ends the process with that signal's code, and a line on
    /// the way back to the results, from inside the signal handler: it works even when every thread is stuck.
    ///
    /// # Errors
    /// When the system refuses the handlers or the thread.
    pub(crate) fn start(on_first: impl FnOnce(i32) + Send + 'static) -> io::Result<Self> {
        survive_large_files()?;
        let asked = Arc::new(AtomicBool::new(false));
        let ending = ending();
        for &signal in &ending {
            // A terminal that goes away may say so twice, through the shell and by itself, and nobody is in a hurry then.
            let second = (signal != SIGHUP).then(|| i32::from(Exit::Interrupted(signal).code()));
            sys::end_at_second(signal, Arc::clone(&asked), second)?;
        }
        let mut signals = Signals::new(&ending)?;
        let handle = signals.handle();
        // Everything that takes a signal is in place. Relaxed: handlers share nothing but this flag.
        IS_WATCHED.store(true, Ordering::Relaxed);
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                on_first(signal);
                console::note("interrupted: cutting requests and writing results; a second signal exits at once");
            }
        })?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the watcher has been printed by then; the run's own result is worth more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_signal_reaches_the_run() {
        // One test only: a second signal would end the test process.
        let (sender, receiver) = mpsc::channel();
        let watch =
            Watch::start(move |signal| sender.send(signal).expect("the test waits")).expect("handlers are free");
        signal_hook::low_level::raise(SIGTERM).expect("a process may signal itself");
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(SIGTERM));
        drop(watch);
    }
}
