//! An apiserver that goes away and comes back, for tests of clients. It answers on one address for
//! as long as the process lives, and knows after each restart only what is in the store.
//!
//! The parts in this process use another one, which stays.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::tls::Tls;
use apiserver::faults::Faults;
use apiserver::{Config, Server};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// How long connections are refused at least.
const DOWN: Duration = Duration::from_millis(300);
/// Threads that answer requests.
const THREADS: usize = 2;
/// Bound of the connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// An address that is kept while nobody listens on it.
pub(super) struct Place {
    /// Bound, and never listening: others cannot be given its port, and may not connect to it.
    socket: TcpSocket,
    address: SocketAddr,
}

/// The apiserver, and what each of its lives starts with.
pub(super) struct Front {
    pub(super) place: Place,
    pub(super) client: etcd_api::Client,
    pub(super) config: Config,
    pub(super) tls: Tls,
    pub(super) faults: Arc<Faults>,
}

impl Place {
    /// Takes an address; port 0 is any free one.
    pub(super) fn take(address: SocketAddr) -> io::Result<Place> {
        let socket = bound(address)?;
        let address = socket.local_addr()?;
        Ok(Place { socket, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the address.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bound(self.socket.local_addr()?)?.listen(BACKLOG)
    }
}

/// A socket that shares its address with others that do not listen.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Front {
    /// Runs until `stop` completes; `up` is told when the first life has begun.
    pub(super) async fn run(
        self,
        up: oneshot::Sender<()>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let mut stop = pin!(stop);
        let mut up = Some(up);
        loop {
            let life = self.live().map_err(|error| error.to_string())?;
            let Life {
                runtime,
                listening,
                mut ended,
            } = life;
            let finished = tokio::select! {
                ended = &mut ended => Some(ended),
                () = async {
                    if listening.await.is_ok() && let Some(up) = up.take() {
                        let _ = up.send(());
                    }
                    self.faults.restart_due().await;
                } => None,
                () = &mut stop => Some(Ok(Ok(()))),
            };
            // Drops all tasks, and with them the connections and what they were doing.
            let gone = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(super::GRACE));
            gone.await.map_err(|error| error.to_string())?;
            match finished {
                None => tracing::info!("the apiserver has gone away, and will come back"),
                Some(Ok(ended)) => return ended,
                Some(Err(panic)) => return Err(panic.to_string()),
            }
            tokio::time::sleep(DOWN).await;
        }
    }

    /// Starts the apiserver on threads that end with it.
    fn live(&self) -> io::Result<Life> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()?;
        let (client, config) = (self.client.clone(), self.config.clone());
        let (tls, address) = (self.tls.clone(), self.place.address);
        let (told, listening) = oneshot::channel();
        let ended = runtime.spawn(async move {
            let server = Server::new(client, config);
            // Before that, custom resources would seem to be gone.
            server.ready().await;
            let listener = bound(address).and_then(|socket| socket.listen(BACKLOG));
            let listener = listener.map_err(|error| format!("cannot listen again: {error}"))?;
            let _ = told.send(());
            let served = server.serve_tls(listener, tls).await;
            served.map_err(|error| format!("the apiserver: {error}"))
        });
        Ok(Life {
            runtime,
            listening,
            ended,
        })
    }
}

/// The apiserver between two restarts.
struct Life {
    runtime: Runtime,
    /// Told when it listens.
    listening: oneshot::Receiver<()>,
    ended: tokio::task::JoinHandle<Result<(), String>>,
}
