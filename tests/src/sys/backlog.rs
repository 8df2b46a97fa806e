//! A server that has no room for connections.

use std::net::TcpListener;
use std::os::fd::AsRawFd as _;

/// Listens where nobody accepts and only one connection finds room: the SYN of any other is dropped, and its connect stays open.
///
/// # Panics
/// If the host refuses it.
pub fn full_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    // SAFETY: a number for a descriptor that lives; listening again only changes the backlog (listen(2)).
    let result = unsafe { libc::listen(listener.as_raw_fd(), 0) };
    assert_eq!(result, 0, "a listening socket may listen with another backlog");
    listener
}
