//! Which servers a webhook's configuration trusts.
//!
//! A certificate that stands in the bundle itself is trusted, also one that says it is an
//! authority: people make such certificates for a single server, and Go accepts them.

use std::io;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The authorities that this machine trusts.
static SYSTEM: LazyLock<Vec<CertificateDer<'static>>> =
    LazyLock::new(|| rustls_native_certs::load_native_certs().certs);

/// Makes connections to servers that a bundle vouches for: certificates in PEM, in base64. Without
/// one the authorities of this machine do. `identity` is the certificate to show and its key, in PEM.
pub(crate) fn connector(
    bundle: &str,
    identity: Option<(&[u8], &[u8])>,
) -> Result<TlsConnector, String> {
    if bundle.is_empty() {
        return connector_to(None, identity);
    }
    let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
    connector_to(Some(&pem), identity)
}

/// The same for a bundle in PEM.
pub(crate) fn connector_to(
    bundle: Option<&[u8]>,
    identity: Option<(&[u8], &[u8])>,
) -> Result<TlsConnector, String> {
    let trusted = match bundle {
        Some(pem) => certificates(pem)?,
        None => SYSTEM.clone(),
    };
    with_trust(trusted, false, identity)
}

/// The same, whoever the server is.
pub(crate) fn connector_to_anybody(
    identity: Option<(&[u8], &[u8])>,
) -> Result<TlsConnector, String> {
    with_trust(Vec::new(), true, identity)
}

fn with_trust(
    trusted: Vec<CertificateDer<'static>>,
    anybody: bool,
    identity: Option<(&[u8], &[u8])>,
) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    // As in Go, what cannot be an authority is no error here.
    roots.add_parsable_certificates(trusted.iter().cloned());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous();
    let by_authority =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    // Without any authority nobody is trusted, except certificates of the bundle.
    let by_authority = by_authority.build().ok();
    let verifier = Verifier {
        by_authority,
        trusted,
        anybody,
        provider,
    };
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
            let config = builder.with_client_auth_cert(certificates(certificate)?, key);
            config.map_err(|error| error.to_string())?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Why a handshake failed, in the words of Go where it has some for it.
pub(crate) fn told(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(rustls::Error::InvalidCertificate(why)) = inner else {
        return format!("tls: {error}");
    };
    let why = match why {
        // A wrong signature is what another authority of the same name looks like.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".into()
        }
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".into()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("unable to load root certificates: no certificate is in the bundle".into());
    }
    Ok(all)
}

/// Believes authorities, and certificates that it has itself.
#[derive(Debug)]
struct Verifier {
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    /// Whoever answers is believed, because the configuration says so.
    anybody: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// A certificate that is trusted itself needs no authority, but its name and its time.
    fn verify_own(
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        rustls::client::verify_server_name(&parsed, name)?;
        let (_, x509) = X509Certificate::from_der(certificate)
            .map_err(|_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let (validity, now) = (x509.validity(), i64::try_from(now.as_secs()));
        let now = now.unwrap_or(i64::MAX);
        if now < validity.not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > validity.not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.anybody {
            return Ok(ServerCertVerified::assertion());
        }
        if self.trusted.iter().any(|one| one == certificate) {
            return Verifier::verify_own(certificate, name, now);
        }
        match &self.by_authority {
            Some(verifier) => verifier.verify_server_cert(certificate, between, name, stapled, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
