//! Handshakes of those who connect and of those whom this member calls, on threads of their own: the
//! mathematics of public keys takes a thread for milliseconds, and neither requests nor heartbeats
//! wait for it.

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
use crate::api::serve::Rewound;
use crate::net::socket::Socket;

/// From the first byte to the end of the handshake: etcd's.
const PATIENCE: Duration = Duration::from_secs(10);

/// Handshakes under way on one end. Each holds some 50 KiB. One more ends the oldest: those who never
/// finish theirs are in nobody's way.
const AT_ONCE_MAX: usize = 1024;

/// A client that was refused gets this long to read why.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a refused client may still send while it reads: its certificate and its first request.
const FAREWELL_BYTES_MAX: u64 = 256 << 10;

/// The threads. They start with the first handshake and end with the process.
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

/// What `work` comes to on other threads. It ends when nobody waits for it any more.
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

/// A connection whose handshake is over.
pub(crate) struct Secured {
    pub(crate) stream: TlsStream<Rewound<Socket>>,
    /// Of the client's certificate, if certificates are to name users. Without a name in it, it is
    /// that of a user who may nothing.
    pub(crate) common_name: Option<Arc<str>>,
}

/// The latest handshakes to begin, the oldest first, whether they are over or not.
#[derive(Default)]
struct Places(Mutex<VecDeque<oneshot::Sender<Infallible>>>);

impl Places {
    /// Resolves when so many have begun after this one that it has to end.
    fn take(&self) -> oneshot::Receiver<Infallible> {
        let (place, displaced) = oneshot::channel();
        let mut places = self.0.lock();
        places.push_back(place);
        if places.len() > AT_ONCE_MAX {
            places.pop_front();
        }
        displaced
    }
}

/// Takes those who connect to one end through their handshake. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<Inner>);

struct Inner {
    end: End,
    cert_file: String,
    key_file: String,
    answering: Answering,
    crl: Option<Watched>,
    /// A certificate must be of the host that shows it.
    checks_host: bool,
    names_users: bool,
    patience: Duration,
    places: Places,
    threads: Handle,
}

impl Acceptor {
    /// Reads all files once, to refuse at start what cannot work. The error is etcd's.
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
            places: Places::default(),
            threads: threads.map_err(|error| error.to_string())?,
        })))
    }

    /// Where [`Acceptor::accept`] is to run.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.threads.spawn(task);
    }

    /// Takes a client through its handshake there, and brings the connection back to the event loop
    /// that this is called in.
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

    /// Takes a client through its handshake. None: it was refused, and the log says why.
    pub(crate) async fn accept(&self, stream: Rewound<Socket>) -> Option<Secured> {
        let remote = stream.get_ref().remote();
        let mut server_name = String::new();
        let displaced = self.0.places.take();
        let handshake = timeout(self.0.patience, self.handshake(stream, &mut server_name));
        let error = tokio::select! {
            accepted = handshake => match accepted {
                Ok(Ok(secured)) => return Some(secured),
                Ok(Err(error)) => error,
                Err(_) => "i/o timeout".to_owned(),
            },
            _ = displaced => format!("{AT_ONCE_MAX} handshakes have begun since"),
        };
        // Of a unix socket Go knows no more either.
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
        let now = inner.answering.current().inspect_err(|error| {
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
            // It was believed when the session began, and may have expired since.
            let verified = verifier.verify_client_cert(own, others, UnixTime::now());
            verified.map_err(|error| words::of(&io::Error::other(error)))?;
        }
        if let Some(crl) = &inner.crl {
            check::revocation(&crl.read()?, certificates)?;
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

/// Lets the client read the alert: a connection that is closed with bytes unread is reset, and a
/// reset overtakes what was sent before it.
async fn part(mut stream: Rewound<Socket>) {
    // Whether it does read is the client's affair.
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

    /// With a certificate that the server made.
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
        let places = &port.acceptor.0.places;
        while places.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        let mut later: Vec<_> = (0..AT_ONCE_MAX).map(|_| places.take()).collect();
        let soon = Duration::from_secs(60);
        assert!(timeout(soon, oldest).await.unwrap().unwrap());
        assert_eq!(later[0].try_recv(), Err(TryRecvError::Empty));
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
