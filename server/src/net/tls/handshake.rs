//! Runs TLS handshakes, incoming and outgoing, on dedicated threads: public-key operations occupy a
//! thread for milliseconds, which must not delay requests and heartbeats.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::HandshakeKind;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::files::Watched;
use super::server::Answering;
use super::{End, Security, check, names, words};
use crate::net::rewound::Rewound;
use crate::net::socket::Socket;

/// Limit from the first byte to the end of the handshake, as in etcd.
const PATIENCE: Duration = Duration::from_secs(10);

/// Concurrent handshakes per end; each holds about 50 KiB. One more aborts the oldest, so clients
/// that never finish do not block others.
const AT_ONCE_MAX: usize = 1024;

/// Time that a refused client gets to read the alert.
const FAREWELL: Duration = Duration::from_millis(500);

/// Bytes that a refused client may still send meanwhile: its certificate and its first request.
const FAREWELL_BYTES_MAX: u64 = 256 << 10;

/// The handshake threads. They start with the first handshake and end with the process.
#[derive(Clone, Default)]
pub(crate) struct Handshakes(Arc<Mutex<Option<Handle>>>);

impl Handshakes {
    pub(super) fn threads(&self) -> io::Result<Handle> {
        let mut started = self.0.lock();
        if let Some(handle) = &*started {
            return Ok(handle.clone());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((cores / 2).max(1))
            .thread_name("handshakes")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Builder::new()
            .name("handshakes".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(started.insert(handle).clone())
    }
}

/// Runs `work` on the handshake threads. It is cancelled when the caller stops waiting.
pub(super) async fn run_on<T: Send + 'static>(
    threads: &Handle,
    work: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    let (mut done, result) = oneshot::channel();
    threads.spawn(async move {
        tokio::select! {
            result = work => drop(done.send(result)),
            () = done.closed() => {}
        }
    });
    let stopped = |_| io::Error::other("the threads of handshakes have stopped");
    result.await.map_err(stopped)?
}

/// A connection after its handshake.
pub(crate) struct Secured {
    pub(crate) stream: TlsStream<Rewound<Socket>>,
    /// Common name of the client's certificate, if certificates name users. An empty name is a user
    /// without permissions.
    pub(crate) common_name: Option<Arc<str>>,
}

/// The most recently begun handshakes, oldest first, finished or not.
#[derive(Default)]
struct Slots(Mutex<VecDeque<oneshot::Sender<Infallible>>>);

impl Slots {
    /// Registers a handshake. The receiver resolves when so many newer ones have begun that this
    /// one must end.
    fn take(&self) -> oneshot::Receiver<Infallible> {
        let (slot, displaced) = oneshot::channel();
        let mut slots = self.0.lock();
        slots.push_back(slot);
        if slots.len() > AT_ONCE_MAX {
            slots.pop_front();
        }
        displaced
    }
}

/// Runs the server side of handshakes for one end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<Inner>);

struct Inner {
    end: End,
    cert_file: String,
    key_file: String,
    answering: Answering,
    crl: Option<Watched>,
    /// The host that shows a certificate must be named in it.
    checks_host: bool,
    names_users: bool,
    patience: Duration,
    slots: Slots,
    threads: Handle,
}

impl Acceptor {
    /// Reads all files once, so that unusable ones are refused at start. The error is etcd's.
    pub(crate) fn new(
        security: &Security,
        end: End,
        checks_host: bool,
    ) -> Result<Acceptor, String> {
        let threads = security.handshakes.threads();
        let files = &security.identity(end).files;
        let crl = &files.crl_file;
        Ok(Acceptor(Arc::new(Inner {
            end,
            cert_file: files.cert_file.clone(),
            key_file: files.key_file.clone(),
            answering: Answering::new(security, end)?,
            crl: (!crl.is_empty()).then(|| Watched::new(crl)),
            checks_host,
            names_users: end == End::Client && files.client_cert_auth,
            patience: PATIENCE,
            slots: Slots::default(),
            threads: threads.map_err(|error| error.to_string())?,
        })))
    }

    /// Runs `task`, which calls [`Acceptor::accept`], on the handshake threads.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.threads.spawn(task);
    }

    /// Runs a client's handshake on the handshake threads, and brings the connection back to the
    /// current event loop.
    pub(crate) async fn accept_there(
        &self,
        mut socket: Socket,
    ) -> Option<TlsStream<Rewound<Socket>>> {
        socket.park().ok()?;
        let acceptor = self.clone();
        let secured = run_on(&self.0.threads, async move {
            socket.unpark()?;
            let Some(mut secured) = acceptor.accept(Rewound::new(socket)).await else {
                return Ok(None);
            };
            secured.stream.get_mut().0.get_mut().park()?;
            Ok(Some(secured.stream))
        });
        let mut stream = secured.await.ok()??;
        stream.get_mut().0.get_mut().unpark().ok()?;
        Some(stream)
    }

    /// Runs a client's handshake. `None`: it was refused, and the reason is in the log.
    pub(crate) async fn accept(&self, stream: Rewound<Socket>) -> Option<Secured> {
        let remote = stream.get_ref().remote();
        let mut server_name = String::new();
        let displaced = self.0.slots.take();
        let handshake = timeout(self.0.patience, self.handshake(stream, &mut server_name));
        let error = tokio::select! {
            accepted = handshake => match accepted {
                Ok(Ok(secured)) => return Some(secured),
                Ok(Err(error)) => error,
                Err(_) => "i/o timeout".to_owned(),
            },
            _ = displaced => format!("{AT_ONCE_MAX} handshakes have begun since"),
        };
        // Go also prints `@` for the peer of a unix socket.
        let remote = remote.map_or_else(|| "@".to_owned(), |remote| remote.to_string());
        match self.0.end {
            End::Client => tracing::warn!(
                "remote-addr" = remote,
                "server-name" = server_name,
                error,
                "rejected connection on client endpoint"
            ),
            End::Peer => tracing::warn!(
                "remote-addr" = remote,
                "server-name" = server_name,
                error,
                "rejected connection on peer endpoint"
            ),
        }
        None
    }

    async fn handshake(
        &self,
        stream: Rewound<Socket>,
        server_name: &mut String,
    ) -> Result<Secured, String> {
        let inner = &*self.0;
        let remote = stream.get_ref().remote();
        let mut hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream);
        let start = match (&mut hello).await {
            Ok(start) => start,
            Err(error) => {
                if let Some(stream) = hello.take_io() {
                    part(stream).await;
                }
                return Err(words::of(&error));
            }
        };
        if let Some(name) = start.client_hello().server_name() {
            name.clone_into(server_name);
        }
        let now = inner.answering.current().await;
        let now = now.inspect_err(|error| {
            tracing::warn!(
                "cert-file" = inner.cert_file,
                "key-file" = inner.key_file,
                error,
                "failed to create peer certificate"
            );
        })?;
        let accepted = start.into_stream(Arc::clone(&now.config)).into_fallible();
        let stream = match accepted.await {
            Ok(stream) => stream,
            Err((error, stream)) => {
                part(stream).await;
                return Err(words::of(&error));
            }
        };
        let connection = stream.get_ref().1;
        let certificates = connection.peer_certificates().unwrap_or_default();
        let Some((own, others)) = certificates.split_first() else {
            return Ok(Secured {
                stream,
                common_name: None,
            });
        };
        if let Some(verifier) = &now.verifier
            && connection.handshake_kind() == Some(HandshakeKind::Resumed)
        {
            // A resumed session: the certificate was valid when the session began, but may have
            // expired.
            let verified = verifier.verify_client_cert(own, others, UnixTime::now());
            verified.map_err(|error| words::of(&io::Error::other(error)))?;
        }
        if let Some(crl) = &inner.crl {
            check::revocation(&crl.current().await?, certificates)?;
        }
        if let Some(remote) = remote
            && inner.checks_host
        {
            check::remote(own, remote.ip()).await?;
        }
        let names_users = inner.names_users;
        let common_name = names_users.then(|| Arc::from(names::common_name(own)));
        Ok(Secured {
            stream,
            common_name,
        })
    }
}

/// Gives the client time to read the alert: closing a socket with unread bytes resets the
/// connection, and the reset would discard the alert.
async fn part(mut stream: Rewound<Socket>) {
    // It does not matter whether the client reads it.
    let _ = timeout(FAREWELL, async {
        stream.shutdown().await?;
        let mut rest = stream.take(FAREWELL_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::config::{self, Url};
    use crate::net::socket::{Bound, Listener};

    struct Port {
        acceptor: Acceptor,
        listener: Listener,
        address: std::net::SocketAddr,
        _dir: tempfile::TempDir,
    }

    /// A server with a self-signed certificate.
    fn open() -> Port {
        let dir = tempfile::tempdir().unwrap();
        let args = [
            format!("--data-dir={}", dir.path().display()),
            "--auto-tls".to_owned(),
        ];
        let config = config::parse(&args, &[], &|_| unreachable!()).unwrap();
        let security = Security::prepare(&config).unwrap();
        let bound = Bound::bind(&Url::parse("https://127.0.0.1:0").unwrap(), false).unwrap();
        Port {
            acceptor: Acceptor::new(&security, End::Client, false).unwrap(),
            address: bound.address().unwrap(),
            listener: bound.listen().unwrap(),
            _dir: dir,
        }
    }

    async fn connect(port: &Port) -> (TcpStream, Rewound<Socket>) {
        let client = TcpStream::connect(port.address).await.unwrap();
        (client, Rewound::new(port.listener.accept().await.unwrap()))
    }

    #[tokio::test]
    async fn a_handshake_that_never_ends_is_ended() {
        let mut port = open();
        Arc::get_mut(&mut port.acceptor.0).unwrap().patience = Duration::from_millis(50);
        let (mut client, stream) = connect(&port).await;
        assert!(port.acceptor.accept(stream).await.is_none());
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn one_too_many_ends_the_oldest() {
        let mut port = open();
        Arc::get_mut(&mut port.acceptor.0).unwrap().patience = Duration::MAX;
        let (mut client, stream) = connect(&port).await;
        let acceptor = port.acceptor.clone();
        let oldest = tokio::spawn(async move { acceptor.accept(stream).await.is_none() });
        let slots = &port.acceptor.0.slots;
        while slots.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        let mut later: Vec<_> = (0..AT_ONCE_MAX).map(|_| slots.take()).collect();
        let soon = Duration::from_secs(60);
        assert!(timeout(soon, oldest).await.unwrap().unwrap());
        assert_eq!(later[0].try_recv(), Err(TryRecvError::Empty));
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
