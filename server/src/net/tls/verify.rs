//! Which certificates are trusted.
//!
//! Go trusts a certificate that is itself in the pool of authorities, whoever signed it: a member's
//! own certificate may be the cluster's only authority. The verifiers here do the same.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use super::names;
use crate::config::TlsFiles;

/// Verifies the certificates of a listener's clients.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    pool: HashSet<Vec<u8>>,
    allowed: Allowed,
}

/// Which certificates are accepted among those signed by a trusted authority.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    All,
    CommonNames(Vec<String>),
    Hostnames(Vec<String>),
}

impl Allowed {
    /// What flags allow; etcd's error if they contradict each other.
    pub(super) fn by(files: &TlsFiles) -> Result<Allowed, String> {
        let (cns, hosts) = (&files.allowed_cns, &files.allowed_hostnames);
        Ok(match (cns.is_empty(), hosts.is_empty()) {
            (true, true) => Allowed::All,
            (false, true) => Allowed::CommonNames(cns.clone()),
            (true, false) => Allowed::Hostnames(hosts.clone()),
            (false, false) => {
                return Err(format!(
                    "AllowedCNs and AllowedHostnames are mutually exclusive (cns={cns:?}, hostnames={hosts:?})"
                ));
            }
        })
    }

    /// The error sends the alert "bad certificate", as Go does. Of a host that is not the
    /// certificate's there is another, with both names.
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if self.allows(certificate) {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidForName))
    }

    fn allows(&self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Allowed::All => true,
            Allowed::CommonNames(allowed) => allowed.contains(&names::common_name(certificate)),
            Allowed::Hostnames(allowed) => {
                allowed.iter().any(|host| names::is_for(certificate, host))
            }
        }
    }
}

/// The authorities in a PEM file; without a file, those of the system.
pub(super) fn authorities(
    pem: Option<&[u8]>,
) -> Result<(Arc<RootCertStore>, HashSet<Vec<u8>>), String> {
    let all = match pem {
        Some(pem) => super::files::certificates(pem)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let pool = all.iter().map(|certificate| certificate.to_vec()).collect();
    let mut store = RootCertStore::empty();
    for certificate in all {
        let added = store.add(certificate);
        // Some of the system's certificates may be of an unsupported kind; skip these.
        if pem.is_some() {
            added.map_err(|error| error.to_string())?;
        }
    }
    Ok((Arc::new(store), pool))
}

impl ClientVerifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        pem: Option<&[u8]>,
        allowed: Allowed,
    ) -> Result<ClientVerifier, String> {
        let (roots, pool) = authorities(pem)?;
        let inner = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        Ok(ClientVerifier {
            inner: inner.build().map_err(|error| error.to_string())?,
            pool,
            allowed,
        })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now);
        if let Err(error) = verified
            && !(self.pool.contains(end_entity.as_ref()) && names::is_valid_at(end_entity, now))
        {
            return Err(error);
        }
        self.allowed.check(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Verifies the certificates of other members. What members may be called counts whoever of them
/// dials: otherwise anybody with a certificate of the authority could stand in a member's place, and
/// be sent its log.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    /// `None`: every certificate is accepted, because self-signed ones prove nothing.
    inner: Option<Arc<WebPkiServerVerifier>>,
    pool: HashSet<Vec<u8>>,
    allowed: Allowed,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        pem: Option<&[u8]>,
        allowed: Allowed,
    ) -> Result<ServerVerifier, String> {
        let (roots, pool) = authorities(pem)?;
        let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
        Ok(ServerVerifier {
            inner: Some(inner.build().map_err(|error| error.to_string())?),
            pool,
            allowed,
            provider: Arc::clone(provider),
        })
    }

    pub(super) fn of_anybody(provider: &Arc<CryptoProvider>) -> ServerVerifier {
        ServerVerifier {
            inner: None,
            pool: HashSet::new(),
            allowed: Allowed::All,
            provider: Arc::clone(provider),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let is_own = || {
            self.pool.contains(end_entity.as_ref())
                && names::is_valid_at(end_entity, now)
                && names::is_for(end_entity, &server_name.to_str())
        };
        if let Err(error) = verified
            && !is_own()
        {
            return Err(error);
        }
        self.allowed.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
