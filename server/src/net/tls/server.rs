//! The server side of TLS: the certificate of a listener, and the clients it trusts.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;

use super::files::{self, Contents, Watched, files_equal};
use super::verify::{Allowed, ClientVerifier};
use super::{End, Identity, Protocol, Security, words};

/// ALPN protocols on peer connections.
const PEER_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
const CLIENT_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// The files of one end, and the configuration made from them.
pub(super) struct Answering {
    end: End,
    protocol: Protocol,
    cert: Watched,
    key: Watched,
    trusted: Option<Watched>,
    wants_certificate: bool,
    allowed: Allowed,
    last: Mutex<Option<Last>>,
}

struct Last {
    parts: Vec<Contents>,
    now: Current,
}

/// The configuration made from the current files.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) config: Arc<ServerConfig>,
    /// `None`: clients need no certificate.
    pub(super) verifier: Option<Arc<ClientVerifier>>,
}

impl Answering {
    /// The error is etcd's, for files that it refuses at start.
    pub(super) fn new(security: &Security, end: End) -> Result<Answering, String> {
        let Identity { files, .. } = security.identity(end);
        if files.cert_file.is_empty() || files.key_file.is_empty() {
            return Err(format!(
                "KeyFile and CertFile must both be present[key: {}, cert: {}]",
                files.key_file, files.cert_file
            ));
        }
        if files.client_cert_file.is_empty() != files.client_key_file.is_empty() {
            return Err(format!(
                "ClientKeyFile and ClientCertFile must both be present or both absent: key: {}, cert: {}]",
                files.client_key_file, files.client_cert_file
            ));
        }
        let allowed = Allowed::by(files)?;
        let trusted = &files.trusted_ca_file;
        let answering = Answering {
            end,
            protocol: security.protocol.clone(),
            cert: Watched::new(&files.cert_file),
            key: Watched::new(&files.key_file),
            trusted: (!trusted.is_empty()).then(|| Watched::new(trusted)),
            wants_certificate: files.client_cert_auth || !trusted.is_empty(),
            allowed,
            last: Mutex::new(None),
        };
        let trusted = answering.trusted.as_ref().map(Watched::read).transpose()?;
        answering.config_of(answering.cert.read()?, answering.key.read()?, trusted)?;
        if !files.client_cert_file.is_empty() {
            files::certificates(&Watched::new(&files.client_cert_file).read()?)?;
            files::key(&Watched::new(&files.client_key_file).read()?)?;
        }
        Ok(answering)
    }

    pub(super) async fn current(&self) -> Result<Current, String> {
        let (cert, key) = (self.cert.current().await?, self.key.current().await?);
        let trusted = match &self.trusted {
            Some(trusted) => Some(trusted.current().await?),
            None => None,
        };
        self.config_of(cert, key, trusted)
    }

    /// The configuration made from these bytes: the last one, if they are the same.
    fn config_of(
        &self,
        cert: Contents,
        key: Contents,
        trusted: Option<Contents>,
    ) -> Result<Current, String> {
        let parts: Vec<Contents> = [&cert, &key].into_iter().chain(&trusted).cloned().collect();
        let mut last = self.last.lock();
        if let Some(last) = &*last
            && files_equal(&last.parts, &parts)
        {
            return Ok(last.now.clone());
        }
        let now = self.make(&cert, &key, trusted.as_deref())?;
        *last = Some(Last {
            parts,
            now: now.clone(),
        });
        Ok(now)
    }

    fn make(&self, cert: &[u8], key: &[u8], trusted: Option<&[u8]>) -> Result<Current, String> {
        let provider = &self.protocol.provider;
        let verifier = if self.wants_certificate {
            let verifier = ClientVerifier::new(provider, trusted, self.allowed.clone())?;
            Some(Arc::new(verifier))
        } else {
            None
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(self.protocol.versions)
            .map_err(|error| error.to_string())?;
        let builder = match &verifier {
            Some(verifier) => {
                let verifier = Arc::clone(verifier) as Arc<dyn ClientCertVerifier>;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(files::certificates(cert)?, files::key(key)?)
            .map_err(|error| words::of_tls(&error))?;
        let protocols = match self.end {
            End::Client => CLIENT_PROTOCOLS,
            End::Peer => PEER_PROTOCOLS,
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        // Clients keep the session tickets. Every reload of the files creates new ticket keys, so
        // no session outlives the certificates it was made with.
        config.ticketer =
            rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?;
        Ok(Current {
            config: Arc::new(config),
            verifier,
        })
    }
}
