//! Why TLS cannot be used, or failed, in words that say what to do.

use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use rustls_pki_types::UnixTime;

/// Longest piece of text that comes from a certificate or from rustls.
const LONGEST_SHOWN: usize = 200;

/// Settings of TLS that cannot be used. Found before any load is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file of roots.
    #[error("--ca-file {}: {reason}", .path.display())]
    CaFile {
        /// As given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The host has no roots.
    #[error(
        "no root certificate of this system can be used ({reason}); install the distribution's package of root certificates \
         (ca-certificates), name the roots to trust with --ca-file, or give --insecure"
    )]
    NoSystemRoots {
        /// What the search for them came to.
        reason: String,
    },
    /// The host of the URL.
    #[error("endpoint.url: no certificate can be issued for the host '{host}'; use a DNS name or an IP address")]
    Name {
        /// As in the URL.
        host: String,
    },
}

/// What went wrong in a handshake or with a record, and what to do about it. Never longer than a few hundred characters, and the same text for
/// the same cause: the current time, for one, is not in it.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => {
            let (check, remedy) = certificate(fault);
            format!("the server's certificate was not accepted: {check}; {remedy}, or skip all checks with --insecure")
        }
        Error::AlertReceived(alert) => format!("the server refused with the alert {alert:?}{}", alert_advice(*alert)),
        Error::InvalidMessage(_) => {
            "the server's bytes are not TLS; if it speaks plain HTTP, write http:// in endpoint.url".to_owned()
        }
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13 | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => "the server speaks neither TLS 1.2 nor TLS 1.3".to_owned(),
        other => bounded(&other.to_string()),
    }
}

/// Which check failed, and what makes it pass.
fn certificate(fault: &CertificateError) -> (String, &'static str) {
    const TRUST: &str = "trust its root with --ca-file FILE";
    const RENEW: &str = "renew it";
    match fault {
        CertificateError::UnknownIssuer => ("no trusted root has issued it".to_owned(), TRUST),
        CertificateError::BadSignature => ("its signature is not that of a trusted root".to_owned(), TRUST),
        CertificateError::Expired => ("it has expired".to_owned(), RENEW),
        CertificateError::ExpiredContext { not_after, .. } => (format!("it expired on {}", date(*not_after)), RENEW),
        CertificateError::NotValidYet => ("it is not valid yet".to_owned(), "check the clocks"),
        CertificateError::NotValidYetContext { not_before, .. } => (
            format!("it is not valid before {}", date(*not_before)),
            "check the clocks",
        ),
        CertificateError::NotValidForName => ("it is for another name".to_owned(), NAME),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() {
                "holds no name at all".to_owned()
            } else {
                format!("is for {}", bounded(&names(presented)))
            };
            (format!("it {names}, not for '{}'", expected.to_str()), NAME)
        }
        // The text of webpki is the only mark of this case.
        CertificateError::Other(inner) if inner.to_string().contains("CaUsedAsEndEntity") => (
            "it is the certificate of an authority (CA:TRUE), which no server may show as its own".to_owned(),
            "make it with basicConstraints=CA:FALSE",
        ),
        other => (
            bounded(&other.to_string()),
            "see whether the server sends its whole chain",
        ),
    }
}

/// The names of a certificate, without the word for their kind around them.
fn names(presented: &[String]) -> String {
    let bare = |name: &String| match name.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')').trim_matches('"').to_owned(),
        None => name.clone(),
    };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

const NAME: &str = "use a name of it in endpoint.url";

fn alert_advice(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            ": it has no version or cipher in common with ringload (TLS 1.2 and 1.3)"
        }
        AlertDescription::CertificateRequired | AlertDescription::BadCertificate => {
            ": it may want a client certificate, which ringload does not send"
        }
        AlertDescription::NoApplicationProtocol => ": it does not speak HTTP/1.1",
        AlertDescription::UnrecognisedName => ": it does not know the host name of endpoint.url",
        _ => "",
    }
}

/// The day of a date in a certificate.
fn date(time: UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map_or_else(
            || "a date out of range".to_owned(),
            |stamp| stamp.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
}

fn bounded(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(LONGEST_SHOWN).collect();
    if text.chars().count() > LONGEST_SHOWN {
        shown.push_str("..");
    }
    shown
}
