//! TLS connections, and the client certificates on them.
//!
//! A client certificate is optional. An untrusted one does not end the handshake: the client gets
//! 401, as with a bad token, and a good token beside the certificate still counts.

#[cfg(test)]
mod handshake;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::authenticate::front_proxy::FrontProxy;
use super::certificate::{Bearer, Peer, Subject};
use super::pki::Identity;
use crate::basics::clock;

/// A connection after its handshake.
pub type Stream = TlsStream<TcpStream>;

/// The server's TLS configuration.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// Without one no client is asked for a certificate.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The proxies that name users, and who checks their certificates.
    proxies: Option<(Arc<FrontProxy>, Arc<dyn ClientCertVerifier>)>,
}

impl Tls {
    /// The server shows `identity`, and believes clients whom `authority` (PEM) signed; without
    /// one it asks for no certificates.
    pub fn new(identity: &Identity, authority: Option<&str>) -> Result<Tls, String> {
        Tls::with(identity, authority, None, rustls::DEFAULT_VERSIONS)
    }

    /// The same for a server that also believes proxies; `newest_only` is TLS 1.3 alone.
    pub fn believing(
        identity: &Identity,
        authority: Option<&str>,
        proxies: Option<&Arc<FrontProxy>>,
        newest_only: bool,
    ) -> Result<Tls, String> {
        let versions: &[_] = if newest_only {
            &[&rustls::version::TLS13]
        } else {
            rustls::DEFAULT_VERSIONS
        };
        Tls::with(identity, authority, proxies, versions)
    }

    fn with(
        identity: &Identity,
        authority: Option<&str>,
        proxies: Option<&Arc<FrontProxy>>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Tls, String> {
        let provider = provider();
        let clients = match authority {
            Some(authority) => Some(verifier(authority, &provider)?),
            None => None,
        };
        let proxies = match proxies {
            Some(proxies) => {
                let verifier = verifier(proxies.authority(), &provider);
                let verifier = verifier.map_err(|why| format!("the authority of proxies: {why}"));
                Some((Arc::clone(proxies), verifier?))
            }
            None => None,
        };
        let asking = [
            clients.as_ref(),
            proxies.as_ref().map(|(_, verifier)| verifier),
        ];
        // Clients choose their certificate by the authorities that they are told.
        let asking = asking.into_iter().flatten();
        let hints: Vec<_> = asking
            .flat_map(|one| one.root_hint_subjects().iter().cloned())
            .collect();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
        let key = key.map_err(|error| error.to_string())?;
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let config = if clients.is_some() || proxies.is_some() {
            config.with_client_cert_verifier(Arc::new(Lenient { hints, provider }))
        } else {
            config.with_no_client_auth()
        };
        let mut config = config
            .with_single_cert(certificates(&identity.certificate)?, key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            verifier: clients,
            proxies,
        })
    }

    /// Completes the handshake; also returns the peer.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Peer)> {
        let stream = TlsAcceptor::from(self.config.clone())
            .accept(stream)
            .await?;
        let seconds = u64::try_from(clock::now().seconds).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let peer = self.peer(stream.get_ref().1.peer_certificates(), now);
        Ok((stream, peer))
    }

    /// Checks the client certificates of a connection.
    pub fn peer(&self, certificates: Option<&[CertificateDer<'_>]>, now: UnixTime) -> Peer {
        let Some((first, rest)) = certificates.and_then(<[_]>::split_first) else {
            return Peer::Nobody;
        };
        let own = self.client(first, rest, now);
        let Some((proxies, verifier)) = &self.proxies else {
            return own;
        };
        let is_trusted = verifier.verify_client_cert(first, rest, now).is_ok();
        match Subject::of(first) {
            Ok(subject) if is_trusted && proxies.allows(&subject.common_name) => Peer::Proxy {
                not_after: subject.not_after,
                own: Box::new(own),
            },
            _ => own,
        }
    }

    /// What a certificate is as that of a client.
    fn client(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Peer {
        let Some(verifier) = &self.verifier else {
            return Peer::Nobody;
        };
        if let Err(error) = verifier.verify_client_cert(first, rest, now) {
            return Peer::Refused(error.to_string());
        }
        match Bearer::of(first) {
            Ok(Some(bearer)) => Peer::Bearer(Arc::new(bearer)),
            Ok(None) => Peer::Nobody,
            Err(why) => Peer::Refused(why),
        }
    }
}

/// True if two texts in PEM have a certificate in common.
pub(crate) fn overlap(one: &str, other: &str) -> Result<bool, String> {
    let other = certificates(other)?;
    Ok(certificates(one)?.iter().any(|one| other.contains(one)))
}

fn verifier(
    authority: &str,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| error.to_string())
}

/// The algorithms of this process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.map_err(|error| error.to_string())
}

/// Accepts every certificate whose key the client holds. [`Tls::peer`] checks after the handshake
/// whether it is trusted.
#[derive(Debug)]
struct Lenient {
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Lenient {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
