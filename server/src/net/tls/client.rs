//! The dialing side of TLS, for connections to other members, to the discovery service, and of a proxy
//! to members.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::files::{self, Contents, Watched, files_equal};
use super::handshake::{Handshakes, run_on};
use super::verify::{Allowed, ServerVerifier};
use super::{Identity, Protocol, Security};
use crate::config::{TlsFiles, Url};
use crate::net::socket::Socket;

/// The protocol of gRPC, which its servers insist on.
const GRPC: &[&[u8]] = &[b"h2"];

/// A connection, encrypted or not.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// The authorities that this member trusts, and its own certificate.
pub(crate) struct Dialing {
    protocol: Protocol,
    trusted: Option<Watched>,
    /// Certificate and key, shown to members that ask for a client certificate.
    own: Option<(Watched, Watched)>,
    /// What members may be called; an error if the flags contradict each other.
    allowed: Result<Allowed, String>,
    believes_anybody: bool,
    /// The name in all certificates; `None`: the host that is dialed.
    name: Option<String>,
    /// Application protocols (ALPN).
    protocols: &'static [&'static [u8]],
    handshakes: Handshakes,
    last: Mutex<Option<Last>>,
}

struct Last {
    parts: Vec<Contents>,
    config: Arc<ClientConfig>,
}

impl Dialing {
    /// For connections to other members.
    pub(crate) fn to_members(security: &Security) -> Dialing {
        Dialing {
            name: security.peer_name.clone(),
            ..Dialing::of(
                &security.peer,
                security.protocol.clone(),
                security.handshakes.clone(),
            )
        }
    }

    /// For connections to a server of gRPC. Files that cannot be used are an error.
    pub(crate) fn to_service(files: TlsFiles, believes_anybody: bool) -> Result<Dialing, String> {
        let identity = Identity {
            files,
            is_made_up: believes_anybody,
        };
        let dialing = Dialing {
            protocols: GRPC,
            ..Dialing::of(&identity, Protocol::default(), Handshakes::default())
        };
        dialing.check()?;
        Ok(dialing)
    }

    /// For a proxy's connections to members.
    pub(crate) fn to_cluster(security: &Security) -> Dialing {
        Dialing {
            protocols: GRPC,
            ..Dialing::of(
                &security.peer,
                security.protocol.clone(),
                security.handshakes.clone(),
            )
        }
    }

    fn of(identity: &Identity, protocol: Protocol, handshakes: Handshakes) -> Dialing {
        let files = &identity.files;
        let watched = |path: &String| (!path.is_empty()).then(|| Watched::new(path));
        let (cert, key) = if files.client_cert_file.is_empty() {
            (&files.cert_file, &files.key_file)
        } else {
            (&files.client_cert_file, &files.client_key_file)
        };
        Dialing {
            protocol,
            trusted: watched(&files.trusted_ca_file),
            own: watched(cert).zip(watched(key)),
            allowed: Allowed::by(files),
            believes_anybody: identity.is_made_up,
            name: None,
            protocols: &[],
            handshakes,
            last: Mutex::new(None),
        }
    }

    /// Runs the handshake with the server at `url`.
    pub(crate) async fn connect_to(
        self: &Arc<Dialing>,
        url: &Url,
        socket: Socket,
    ) -> io::Result<Box<dyn Connection>> {
        let host = match &self.name {
            Some(name) => name,
            // A unix socket has no host name for a certificate.
            None if url.is_unix() => "localhost",
            None => url.host(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.connect(name, socket).await?))
    }

    /// Reads all files once, so that unusable ones are refused at start.
    pub(crate) fn check(&self) -> Result<(), String> {
        let trusted = self.trusted.as_ref().map(Watched::read).transpose()?;
        let own = match &self.own {
            Some((cert, key)) => Some((cert.read()?, key.read()?)),
            None => None,
        };
        self.config_of(trusted, own).map(drop)
    }

    /// Runs the handshake with `name` on dedicated threads, so that peer traffic is not delayed,
    /// and brings the connection back to the current event loop.
    async fn connect(
        self: &Arc<Dialing>,
        name: ServerName<'static>,
        mut socket: Socket,
    ) -> io::Result<TlsStream<Socket>> {
        socket.park()?;
        let dialing = Arc::clone(self);
        let threads = self.handshakes.threads()?;
        let connected = run_on(&threads, async move {
            socket.unpark()?;
            let config = dialing.current().await.map_err(io::Error::other)?;
            let mut stream = TlsConnector::from(config).connect(name, socket).await?;
            stream.get_mut().0.park()?;
            Ok(stream)
        });
        let mut stream = connected.await?;
        stream.get_mut().0.unpark()?;
        Ok(stream)
    }

    /// The configuration made from the current files.
    async fn current(&self) -> Result<Arc<ClientConfig>, String> {
        let trusted = match &self.trusted {
            Some(trusted) => Some(trusted.current().await?),
            None => None,
        };
        let own = match &self.own {
            Some((cert, key)) => Some((cert.current().await?, key.current().await?)),
            None => None,
        };
        self.config_of(trusted, own)
    }

    /// The configuration made from these bytes: the last one, if they are the same.
    fn config_of(
        &self,
        trusted: Option<Contents>,
        own: Option<(Contents, Contents)>,
    ) -> Result<Arc<ClientConfig>, String> {
        let parts: Vec<Contents> = trusted
            .iter()
            .chain(own.iter().flat_map(|(cert, key)| [cert, key]))
            .cloned()
            .collect();
        let mut last = self.last.lock();
        if let Some(last) = &*last
            && files_equal(&last.parts, &parts)
        {
            return Ok(Arc::clone(&last.config));
        }
        let provider = &self.protocol.provider;
        let verifier = if self.believes_anybody {
            ServerVerifier::of_anybody(provider)
        } else {
            ServerVerifier::new(provider, trusted.as_deref(), self.allowed.clone()?)?
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(self.protocol.versions)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match own {
            Some((cert, key)) => builder
                .with_client_auth_cert(files::certificates(&cert)?, files::key(&key)?)
                .map_err(|error| error.to_string())?,
            None => builder.with_no_client_auth(),
        };
        let protocols = self.protocols.iter();
        config.alpn_protocols = protocols.map(|protocol| protocol.to_vec()).collect();
        let config = Arc::new(config);
        *last = Some(Last {
            parts,
            config: Arc::clone(&config),
        });
        Ok(config)
    }
}
