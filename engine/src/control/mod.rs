//! The control client: blocking calls to the server around the load, on their own sockets and never on a core.
//!
//! Its connections are never pooled with those of the load, nor with one another: a control call must not warm a connection that a
//! measured request would otherwise have to open. It is meant for a thread of its own.

mod client;
mod error;
mod log;
mod origin;
mod page;
mod readiness;
mod retry;
mod sender;

#[cfg(test)]
mod test_server;

pub use client::{HookClient, HookReply, Waited};
pub use error::{Effect, Hook, HookCallName, HookError};
pub use log::{CallEnd, HookReport};
pub use page::{NoPage, Page, PageClient};
pub use readiness::{NotReady, ReadinessClient};

pub(crate) use origin::redacted;
