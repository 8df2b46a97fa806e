//! What all connections of a run share: whom they trust, whom they expect, and what they resume.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::TlsError;
use crate::plan::Verification;

/// The client side of a run's TLS.
///
/// Session tickets live here, behind a lock of rustls, so a core may wait for another one for as long as it takes to store or to take a ticket:
/// when a connection is opened, never while it carries requests.
#[derive(Debug)]
pub(crate) struct TlsClient {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    verification: Verification,
    roots: Vec<CertificateDer<'static>>,
}

impl TlsClient {
    /// Reads the roots and makes a client for the server `host`.
    ///
    /// # Errors
    /// A file of roots that cannot be used, a system without roots, a host that no certificate can name.
    pub(crate) fn new(host: &str, verification: &Verification) -> Result<Self, TlsError> {
        let name = server_name(host)?;
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers for TLS 1.2 and 1.3");
        let (store, roots) = match verification {
            Verification::Off => (RootCertStore::empty(), Vec::new()),
            Verification::CaFile(path) => roots_of_file(path)?,
            Verification::SystemRoots => roots_of_system()?,
        };
        let builder = match verification {
            Verification::Off => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
            _ => builder.with_root_certificates(store),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name,
            verification: verification.clone(),
            roots,
        })
    }

    /// A client for another server under the same roots, with session tickets of its own.
    ///
    /// # Errors
    /// A host that no certificate can name.
    pub(crate) fn for_host(&self, host: &str) -> Result<Self, TlsError> {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::default();
        Ok(Self {
            config: Arc::new(config),
            name: server_name(host)?,
            verification: self.verification.clone(),
            roots: self.roots.clone(),
        })
    }

    /// How servers are verified.
    pub(crate) fn verification(&self) -> &Verification {
        &self.verification
    }

    /// The trusted roots; none without verification.
    pub(crate) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { host: host.to_owned() })
}

/// The cryptography of every connection.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

type Roots = (RootCertStore, Vec<CertificateDer<'static>>);

/// The certificates of a PEM file. Each must be usable: one that is left out in silence would be looked for in vain.
fn roots_of_file(path: &Path) -> Result<Roots, TlsError> {
    let fail = |reason: String| TlsError::CaFile {
        path: path.to_owned(),
        reason,
    };
    let pem = std::fs::read(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    let mut store = RootCertStore::empty();
    let mut roots = Vec::new();
    for (index, certificate) in CertificateDer::pem_slice_iter(&pem).enumerate() {
        let number = index + 1;
        let certificate =
            certificate.map_err(|error| fail(format!("certificate {number} is no valid PEM: {error}")))?;
        store.add(certificate.clone()).map_err(|_| {
            fail(format!(
                "certificate {number} is no X.509 certificate that can be a root"
            ))
        })?;
        roots.push(certificate);
    }
    if roots.is_empty() {
        return Err(fail(
            "it holds no certificate; PEM is expected, with a line -----BEGIN CERTIFICATE-----".to_owned(),
        ));
    }
    Ok((store, roots))
}

/// The roots of this host. Single ones that rustls cannot use are normal among a hundred and left out.
fn roots_of_system() -> Result<Roots, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs.iter().cloned());
    if store.is_empty() {
        let reason = found
            .errors
            .first()
            .map_or_else(|| "none is installed".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots { reason });
    }
    Ok((store, found.certs))
}

/// Accepts every server: what `--insecure` asks for.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // A certificate that cannot be parsed has no key to check a signature with.
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
