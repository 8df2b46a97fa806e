//! Where words go: results to standard output, everything else to standard error.
//!
//! `println!` and `eprintln!` panic when nobody listens, as in `ringload profile … | head`; these functions do not.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

use crate::engine::Secrets;

/// What no line may show.
static HIDDEN: OnceLock<Secrets> = OnceLock::new();

/// From now on these credentials are masked in whatever is written.
pub(crate) fn hide(secrets: Secrets) {
    // There is one config in the life of the process.
    let _ = HIDDEN.set(secrets);
}

fn shown(text: &str) -> Cow<'_, str> {
    HIDDEN.get().map_or(Cow::Borrowed(text), |secrets| secrets.redact(text))
}

/// A text without what no line may show, for who writes it by other means.
pub(crate) fn masked(text: &str) -> String {
    shown(text).into_owned()
}

/// Writes results to standard output. A reader that went away early has what it wanted.
///
/// # Errors
/// Anything but a closed pipe, a full disk for example.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(shown(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// One line on standard error; there is no place left to complain if that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text));
}

/// A warning on standard error.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// An error and its causes as one block.
pub(crate) fn error_block(error: &dyn Error) -> String {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        // Most messages name their cause already, because they end with what to do about it.
        if !text.contains(&told) {
            text.push_str(&format!("\n  caused by: {told}"));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_below_their_error() {
        #[derive(Debug)]
        struct Outer(&'static str, io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.1)
            }
        }
        let block = |message| error_block(&Outer(message, io::Error::other("no space left")));
        assert_eq!(
            block("artifacts cannot be written"),
            "error: artifacts cannot be written\n  caused by: no space left"
        );
        let complete = "artifacts cannot be written: no space left; choose another directory";
        assert_eq!(block(complete), format!("error: {complete}"));
    }
}
