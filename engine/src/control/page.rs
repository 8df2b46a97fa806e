//! Reading a page that a server shows about itself.

use super::error::Effect;
use super::sender::{Ask, Refusal, Sender};
use crate::clock;
use crate::tls::TlsClient;
use crate::units::Nanos;

/// Bytes of the longest page: some ten times what a server of many models shows.
const PAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A page and when it was read.
#[derive(Debug)]
pub struct Page {
    /// Just before the connection was opened.
    pub sent: Nanos,
    /// When the head of the answer had come.
    pub answered: Nanos,
    /// The page.
    pub body: Vec<u8>,
}

/// Why there is no page. The texts hold no URL, no header and no body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    /// Another status than 2xx.
    #[error("answers with status {0}")]
    Status(u16),
    /// Longer than anything that is looked into.
    #[error("answers with more than {} MiB", PAGE_BYTES_MAX >> 20)]
    TooLong,
    /// Nobody was reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No answer, or not a whole one.
    #[error("gives no answer: {0}")]
    Failed(String),
}

/// A blocking client for pages: one connection each, no redirects, no proxy from the environment.
#[derive(Debug, Clone)]
pub struct PageClient {
    sender: Sender,
}

impl PageClient {
    /// A client whose requests carry these headers. `tls` tells how servers of `https` addresses are verified.
    pub(crate) fn new(headers: Vec<(String, String)>, tls: Option<&TlsClient>) -> Self {
        Self {
            sender: Sender::new(headers, tls).with_body_limit(PAGE_BYTES_MAX),
        }
    }

    /// Reads the page at `url`, whole within `timeout`.
    ///
    /// # Errors
    /// Anything but a 2xx answer that is read to its end.
    pub fn get(&self, url: &str, timeout: Nanos) -> Result<Page, NoPage> {
        let sent = clock::monotonic();
        let answer = self
            .sender
            .ask(Ask::Get, url, timeout)
            .map_err(|refusal| match refusal {
                Refusal::Transport {
                    reason,
                    effect: Effect::None,
                } => NoPage::Unreachable(reason),
                Refusal::Unsendable(reason) | Refusal::Transport { reason, .. } => NoPage::Failed(reason),
            })?;
        match (answer.status, answer.body) {
            (200..=299, Some(body)) => Ok(Page {
                sent,
                answered: answer.answered,
                body,
            }),
            (200..=299, None) => Err(NoPage::TooLong),
            (status, _) => Err(NoPage::Status(status)),
        }
    }
}
