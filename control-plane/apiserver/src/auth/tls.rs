//! TLS connections, and the client certificates on them. The server's own certificate and the
//! authorities are read again while it serves; connections keep those that they began with.
//!
//! A client certificate is optional. An untrusted one does not end the handshake: the client gets
//! 401, as with a bad token, and a good token beside the certificate still counts.

#[cfg(test)]
mod handshake;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::RwLock;
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
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::authenticate::front_proxy::FrontProxy;
use super::certificate::{Bearer, Peer, Subject};
use super::pki::Identity;
use crate::basics::clock;

/// The time between two looks at the files of certificates.
const READ_EVERY: Duration = Duration::from_secs(10);

/// TLS 1.3 alone.
static NEWEST: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// A connection after its handshake.
pub type Stream = TlsStream<TcpStream>;

/// What a server shows, and whom it believes.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    /// What the server shows.
    pub identity: Identity,
    /// The authority (PEM) of clients; without one it asks for no certificates.
    pub clients: Option<String>,
    /// The authority (PEM) of proxies; without one it believes none.
    pub proxies: Option<String>,
}

/// Reads the certificates, which may be others each time.
pub type Read = Box<dyn Fn() -> Result<Certificates, String> + Send + Sync>;

/// The server's TLS configuration. Its clones read new certificates together.
#[derive(Clone)]
pub struct Tls {
    current: Arc<RwLock<Arc<Current>>>,
    source: Arc<Source>,
}

/// Where certificates come from, and what does not change with them.
struct Source {
    read: Read,
    proxies: Option<Arc<FrontProxy>>,
    /// TLS 1.3 alone.
    newest_only: bool,
}

/// What new connections get.
struct Current {
    certificates: Certificates,
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
        let certificates = Certificates {
            identity: identity.clone(),
            clients: authority.map(str::to_owned),
            proxies: None,
        };
        let same = certificates.clone();
        let read = Box::new(move || Ok(same.clone()));
        Tls::reading(certificates, read, None, false)
    }

    /// The same with certificates that can be read again. It also believes these proxies;
    /// `newest_only` is TLS 1.3 alone.
    pub fn reading(
        certificates: Certificates,
        read: Read,
        proxies: Option<Arc<FrontProxy>>,
        newest_only: bool,
    ) -> Result<Tls, String> {
        let source = Source {
            read,
            proxies,
            newest_only,
        };
        let current = Arc::new(source.with(certificates)?);
        Ok(Tls {
            current: Arc::new(RwLock::new(current)),
            source: Arc::new(source),
        })
    }

    /// Waits until there are other certificates, and returns them: new connections get them. Those
    /// that cannot be used are told to the log, and the old ones hold.
    pub(crate) async fn changed(&self) -> Certificates {
        let mut told = String::new();
        loop {
            tokio::time::sleep(READ_EVERY).await;
            match self.read_aside().await {
                Ok(Some(certificates)) => {
                    tracing::info!("the certificates of the server were read again");
                    return certificates;
                }
                Ok(None) => told.clear(),
                Err(why) if why == told => {}
                Err(why) => {
                    tracing::error!(why, "new certificates cannot be used: the old ones hold");
                    told = why;
                }
            }
        }
    }

    /// Completes the handshake; also returns the peer.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Peer)> {
        let current = self.current();
        let stream = TlsAcceptor::from(Arc::clone(&current.config))
            .accept(stream)
            .await?;
        let seconds = u64::try_from(clock::now().seconds).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let peer = current.peer(stream.get_ref().1.peer_certificates(), now);
        Ok((stream, peer))
    }

    /// Checks the client certificates of a connection.
    pub fn peer(&self, certificates: Option<&[CertificateDer<'_>]>, now: UnixTime) -> Peer {
        self.current().peer(certificates, now)
    }

    /// Reads again on a separate thread: a slow disk, or a pipe in the place of a file, must not
    /// stop the task, which also accepts connections. A server that ends does not wait for the
    /// thread.
    async fn read_aside(&self) -> Result<Option<Certificates>, String> {
        let (done, read) = oneshot::channel();
        let tls = self.clone();
        Builder::new()
            .name("certificates".to_owned())
            .spawn(move || drop(done.send(tls.read_again())))
            .map_err(|error| error.to_string())?;
        read.await.map_err(|error| error.to_string())?
    }

    /// Returns the certificates if they are others than before.
    fn read_again(&self) -> Result<Option<Certificates>, String> {
        let certificates = (self.source.read)()?;
        if certificates == self.current().certificates {
            return Ok(None);
        }
        let new = self.source.with(certificates.clone())?;
        *self.current.write() = Arc::new(new);
        Ok(Some(certificates))
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read())
    }
}

impl Source {
    fn with(&self, certificates: Certificates) -> Result<Current, String> {
        let provider = provider();
        let clients = certificates.clients.as_deref();
        let clients = clients.map(|authority| verifier(authority, &provider));
        let clients = clients.transpose()?;
        let proxies = match (&self.proxies, &certificates.proxies) {
            (Some(proxies), Some(authority)) => {
                check_apart(proxies, authority, certificates.clients.as_deref())?;
                let verifier = verifier(authority, &provider);
                let verifier = verifier.map_err(|why| format!("the authority of proxies: {why}"));
                Some((Arc::clone(proxies), verifier?))
            }
            _ => None,
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
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(self.versions())
            .map_err(|error| error.to_string())?;
        let config = if clients.is_some() || proxies.is_some() {
            config.with_client_cert_verifier(Arc::new(Lenient { hints, provider }))
        } else {
            config.with_no_client_auth()
        };
        let Identity { certificate, key } = &certificates.identity;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|error| error.to_string())?;
        let mut config = config
            .with_single_cert(self::certificates(certificate)?, key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Current {
            config: Arc::new(config),
            verifier: clients,
            proxies,
            certificates,
        })
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.newest_only {
            &NEWEST
        } else {
            rustls::DEFAULT_VERSIONS
        }
    }
}

impl Current {
    fn peer(&self, certificates: Option<&[CertificateDer<'_>]>, now: UnixTime) -> Peer {
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

/// Checks that no client can pass for a proxy.
pub(crate) fn check_apart(
    proxies: &FrontProxy,
    authority: &str,
    clients: Option<&str>,
) -> Result<(), String> {
    if proxies.allows_every_name()
        && let Some(clients) = clients
        && overlap(authority, clients)?
    {
        return Err(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping \
             certificates; --requestheader-allowed-names must be specified to ensure regular \
             client certificates cannot set authenticating proxy headers for arbitrary users"
                .to_owned(),
        );
    }
    Ok(())
}

/// True if two texts in PEM have a certificate in common.
fn overlap(one: &str, other: &str) -> Result<bool, String> {
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
