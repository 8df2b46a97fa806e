//! What is said when the process ends without its results: how to get them from the journal.
//!
//! A handler of a signal may have to say it, which can neither allocate nor lock, so it is put together before the load and only read then.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

use crate::command::quoted;
use crate::engine::JOURNAL;
use crate::{console, sys};

/// Of every run of this process.
static WORDS: OnceLock<Vec<Words>> = OnceLock::new();

struct Words {
    journal: CString,
    line: String,
}

/// Says the words if it is dropped by a panic.
pub(crate) struct Ready;

/// Gets ready for runs with artifacts in these directories. Once in the life of the process.
pub(crate) fn prepare<'a>(directories: impl Iterator<Item = &'a Path>) -> Ready {
    let words = directories.filter_map(|directory| {
        // A path with a zero in it names no file.
        let journal = CString::new(directory.join(JOURNAL).as_os_str().as_bytes()).ok()?;
        let line = console::masked(&format!(
            "the results were not written; to write them from the journal: ringload recover {}\n",
            quoted(&directory.display().to_string())
        ));
        Some(Words { journal, line })
    });
    let _ = WORDS.set(words.collect());
    Ready
}

impl Drop for Ready {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say();
        }
    }
}

/// Says the words for each run that leaves a journal. A handler of signals may call this.
pub(crate) fn say() {
    let words = WORDS.get().map_or(&[][..], Vec::as_slice);
    for Words { line, .. } in words.iter().filter(|words| sys::exists(&words.journal)) {
        sys::say(line.as_bytes());
    }
}
