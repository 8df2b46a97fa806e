//! A file that is one text.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Longest text of a file, in bytes: some millions of tokens, which is beyond every context window. It stands in the body of every request.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// A text that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system refuses it.
    #[error("cannot read the file: {0}")]
    Unreadable(#[from] io::Error),
    /// A directory, a pipe, a device.
    #[error("cannot read the file: it is not a regular file")]
    NotAFile,
    /// More than any message may take.
    #[error("found more than {MAX_TEXT_BYTES} bytes; allowed: at most that; shorten the text")]
    TooLarge,
    /// Bytes that are no text.
    #[error("found the byte {byte:#04x} on line {line}, which is no UTF-8; convert the file to UTF-8")]
    NotUtf8 {
        /// The first such byte.
        byte: u8,
        /// Its line, from 1.
        line: usize,
    },
    /// Nothing but white space.
    #[error("found no text in it; write what is to be said")]
    Blank,
}

/// The text of a file, to the last byte; only a mark that says that it is UTF-8 is no part of it. Symbolic links are followed.
///
/// # Errors
/// It cannot be read, is no text, is blank, or is longer than 16 MiB.
pub fn load_text(path: &Path) -> Result<String, TextError> {
    // Opening a pipe would wait for somebody who writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(TextError::NotAFile);
    }
    let mut bytes = Vec::new();
    // A file may grow while it is read.
    File::open(path)?.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(TextError::TooLarge);
    }
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> Result<String, TextError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        TextError::NotUtf8 {
            byte: bytes[at],
            line: memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1,
        }
    })?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    match text.trim().is_empty() {
        true => Err(TextError::Blank),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_is_in_the_file_and_anything_else_is_told() {
        let of = |bytes: &[u8]| text_of(bytes.to_vec()).map_err(|error| error.to_string());
        assert_eq!(of("Be brief.\nÄ\n".as_bytes()), Ok("Be brief.\nÄ\n".to_owned()));
        assert_eq!(of("\u{feff}a".as_bytes()), Ok("a".to_owned()));
        assert!(of(b"a\nb\xff").is_err_and(|error| error.contains("0xff on line 2")));
        for blank in ["", " \n\t", "\u{feff}"] {
            assert!(
                of(blank.as_bytes()).is_err_and(|error| error.contains("no text")),
                "{blank:?}"
            );
        }
    }

    #[test]
    fn what_is_no_file_or_too_much_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = |path: &Path| load_text(path).expect_err("it is refused").to_string();
        assert!(error(folder.path()).contains("not a regular file"));
        assert!(error(&folder.path().join("none")).starts_with("cannot read the file: "));
        let large = folder.path().join("large");
        let file = File::create(&large).expect("a file");
        file.set_len(MAX_TEXT_BYTES + 1).expect("a hole");
        assert!(error(&large).contains("at most"));
        let link = folder.path().join("link");
        std::fs::write(folder.path().join("prompt"), "hi").expect("written");
        std::os::unix::fs::symlink(folder.path().join("prompt"), &link).expect("a link");
        assert_eq!(load_text(&link).expect("it is followed"), "hi");
    }
}
