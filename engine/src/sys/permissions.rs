//! What this process may do with a directory, asked without doing it.
//!
//! Unsafe code is one system call, with a pointer that the kernel only reads during the call.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether files can be created in a directory.
///
/// # Errors
/// Why not: permissions, or a file system that is mounted for reading alone.
pub(crate) fn may_create_in(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: the kernel reads a string that ends with a zero and lives during the call. AT_EACCESS asks for the user whose rights count for open(2).
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_the_process_takes_files_and_one_that_is_missing_does_not() {
        let own = tempfile::tempdir().expect("a directory");
        assert!(may_create_in(own.path()).is_ok());
        assert!(may_create_in(&own.path().join("missing")).is_err());
    }
}
