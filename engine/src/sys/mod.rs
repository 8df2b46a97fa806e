//! Every system call of the engine, and the only place where `unsafe` is allowed.
//!
//! Nothing here knows what a request or a phase is: `driver` is the face that `uring` and `epoll` implement: they move bytes for connection indices, `socket` opens sockets, `event_fd`
//! wakes threads, `limits` and `affinity` talk to the host.

pub(crate) mod accounting;
pub(crate) mod affinity;
pub(crate) mod driver;
pub(crate) mod epoll;
pub(crate) mod event_fd;
pub(crate) mod limits;
pub(crate) mod permissions;
pub(crate) mod send_slots;
pub(crate) mod socket;
pub(crate) mod time;
pub(crate) mod uring;
