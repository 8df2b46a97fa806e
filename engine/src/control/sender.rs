//! One exchange with a server, on a connection of its own.

use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Timeout};

use super::error::Effect;
use super::origin::redacted;
use crate::clock;
use crate::plan::Verification;
use crate::tls::{self, TlsClient};
use crate::units::Nanos;

/// A longer body is not looked into.
const BODY_LIMIT: u64 = 64 * 1024;

/// Headers that frame the message: a user's header may not contradict the body or the single use of the connection.
const FRAMING_HEADERS: [&str; 5] = ["connection", "content-length", "expect", "te", "transfer-encoding"];

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    /// GET.
    Get,
    /// POST without a body.
    Post,
    /// POST with a JSON body.
    PostJson(&'a [u8]),
}

/// A complete answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Where a redirect points to, fit for messages.
    pub(super) location: Option<String>,
    /// The body of a 2xx answer; `None` if it is too long to be looked into.
    pub(super) body: Option<Vec<u8>>,
    /// When its head had come.
    pub(super) answered: Nanos,
}

/// Why there is no complete answer. The texts hold no URL, no header and no body.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The question cannot be sent, however often it is tried.
    Unsendable(String),
    /// The connection failed or timed out.
    Transport { reason: String, effect: Effect },
}

/// Sends control calls: one connection each, no redirects, no proxy from the environment.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    agent: Agent,
    headers: Vec<(String, String)>,
    /// Whether it can speak TLS.
    secure: bool,
    /// Bytes of the longest body that is looked into.
    body_limit: u64,
}

impl Sender {
    /// A sender whose calls carry these headers. Headers that frame the message are left to it. `tls` tells how servers of `https` addresses are
    /// verified.
    pub(super) fn new(headers: Vec<(String, String)>, tls: Option<&TlsClient>) -> Self {
        let agent = Agent::config_builder()
            .tls_config(tls_config(tls))
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("ringload/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let is_framing = |name: &str| FRAMING_HEADERS.iter().any(|framing| framing.eq_ignore_ascii_case(name));
        Self {
            agent,
            headers: headers.into_iter().filter(|(name, _)| !is_framing(name)).collect(),
            secure: tls.is_some(),
            body_limit: BODY_LIMIT,
        }
    }

    /// The same for answers that may be longer.
    pub(super) fn with_body_limit(self, bytes: u64) -> Self {
        Self {
            body_limit: bytes,
            ..self
        }
    }

    /// Asks `url` and waits for the whole answer, at most `timeout`.
    pub(super) fn ask(&self, ask: Ask<'_>, url: &str, timeout: Nanos) -> Result<Answer, Refusal> {
        // Said before the client finds out behind a connection, which would first have to be opened, with retries.
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let speakable = scheme.eq_ignore_ascii_case("http") || self.secure && scheme.eq_ignore_ascii_case("https");
        if !speakable {
            let why = match scheme.to_ascii_lowercase().as_str() {
                "https" => "https is spoken only in runs whose load goes to an https address".to_owned(),
                _ => format!("this client does not speak '{scheme}'"),
            };
            return Err(Refusal::Unsendable(why));
        }
        let span = Some(Duration::from_nanos(timeout.0));
        // Two kinds of builder, because a GET has no body; what is set on them is the same.
        let sent = match ask {
            Ask::Get => {
                let mut request = self.agent.get(url);
                for (name, value) in &self.headers {
                    request = request.header(name, value);
                }
                request.config().timeout_global(span).build().call()
            }
            Ask::Post | Ask::PostJson(_) => {
                let mut request = self.agent.post(url);
                for (name, value) in &self.headers {
                    request = request.header(name, value);
                }
                match ask {
                    Ask::PostJson(body) => request
                        .header("content-type", "application/json")
                        .config()
                        .timeout_global(span)
                        .build()
                        .send(body),
                    _ => request.config().timeout_global(span).build().send_empty(),
                }
            }
        };
        let mut response = sent.map_err(|error| classify(&error, timeout))?;
        let answered = clock::monotonic();
        let status = response.status().as_u16();
        let location = response.headers().get("location").and_then(|value| value.to_str().ok());
        let location = location.map(redacted);
        let body = if (200..300).contains(&status) {
            // The answer is complete when its body is: a server may write the head before the work is done.
            match response.body_mut().with_config().limit(self.body_limit).read_to_vec() {
                Ok(body) => Some(body),
                Err(ureq::Error::BodyExceedsLimit(_)) => None,
                Err(error) => return Err(classify(&error, timeout)),
            }
        } else {
            None
        };
        Ok(Answer {
            status,
            location,
            body,
            answered,
        })
    }
}

/// The same roots as the load's, or none of them.
fn tls_config(tls: Option<&TlsClient>) -> TlsConfig {
    let roots: Vec<Certificate<'static>> = tls
        .map_or(&[][..], TlsClient::roots)
        .iter()
        .map(|root| Certificate::from_der(root).to_owned())
        .collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .disable_verification(tls.is_some_and(|tls| *tls.verification() == Verification::Off))
        .unversioned_rustls_crypto_provider(tls::provider())
        .build()
}

/// Turns the client's error into ours. Only texts that cannot hold a URL, a header or a body are passed on.
fn classify(error: &ureq::Error, timeout: Nanos) -> Refusal {
    let unsendable = |reason: &str| Refusal::Unsendable(reason.to_owned());
    let (reason, effect) = match error {
        ureq::Error::Http(_) => {
            return unsendable("a header name or value holds characters that HTTP does not allow");
        }
        ureq::Error::BadUri(_) => return unsendable("origin and path do not form a URL"),
        ureq::Error::Timeout(stage) => {
            let effect = match stage {
                Timeout::Resolve | Timeout::Connect => Effect::None,
                _ => Effect::Possible,
            };
            (format!("timed out after {timeout}"), effect)
        }
        ureq::Error::HostNotFound => ("the host name does not resolve".to_owned(), Effect::None),
        ureq::Error::ConnectionFailed => ("the connection failed".to_owned(), Effect::None),
        ureq::Error::Rustls(error) => return unsendable(&format!("TLS handshake: {}", tls::explain(error))),
        ureq::Error::Io(error) => {
            // A handshake that failed is wrapped in an error of the stream. It fails again however often it is tried.
            if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
                return unsendable(&format!("TLS handshake: {}", tls::explain(error)));
            }
            let effect = match error.kind() {
                std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable => Effect::None,
                _ => Effect::Possible,
            };
            (error.to_string(), effect)
        }
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            ("the answer is not valid HTTP/1.1".to_owned(), Effect::Possible)
        }
        _ => ("the exchange failed".to_owned(), Effect::Possible),
    };
    Refusal::Transport { reason, effect }
}
