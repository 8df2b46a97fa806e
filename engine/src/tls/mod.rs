//! TLS without sockets: ciphertext in, plaintext out, and the other way.
//!
//! ```text
//! plan::Verification --TlsClient::new--> TlsClient, one per run: roots, session tickets, server name
//!                                            |
//!                                         Session, one per connection
//! ```
//!
//! The protocol is rustls; this module holds the bytes that rustls leaves to its user, and says in words why a handshake failed.

mod client;
mod error;
mod session;

#[cfg(test)]
mod tests;

pub(crate) use client::{TlsClient, provider};
pub use error::TlsError;
pub(crate) use error::explain;
pub(crate) use session::{Session, Workspace};
