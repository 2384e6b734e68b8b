//! A server embedded in another program, on a thread of its own. It is reached through its
//! listeners as usual, or through in-memory channels without a socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use hyper_util::rt::TokioIo;
use storage::vfs::Vfs;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::{Channel, Endpoint};

use crate::config::Config;
use crate::lifecycle::{self, Host, StartError};

/// Bytes buffered in each direction of a channel.
const PIPE_BYTES: usize = 256 << 10;
/// Channels waiting to be accepted.
const WAITING_MAX: usize = 16;

/// Dropping this asks the server to stop; [`Local::stop`] also waits until it has.
pub struct Local {
    addresses: Vec<SocketAddr>,
    connect: mpsc::Sender<DuplexStream>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<i32, StartError>>>,
}

impl Local {
    /// Returns when the server is ready to serve.
    pub fn start(config: Config, vfs: Arc<dyn Vfs>) -> Result<Local, StartError> {
        let (connect, connections) = mpsc::channel(WAITING_MAX);
        let (stop, stopped) = oneshot::channel();
        let (say_ready, ready) = std::sync::mpsc::channel();
        let host = Host::Program {
            stopped,
            connections,
            ready: Box::new(move |addresses| {
                // The receiver may be gone if the program no longer waits for the server.
                let _ = say_ready.send(addresses);
            }),
        };
        let thread = Builder::new()
            .name("stele".to_owned())
            .spawn(move || lifecycle::run_in(config, vfs, host))
            .map_err(StartError::Runtime)?;
        match ready.recv() {
            Ok(addresses) => Ok(Local {
                addresses,
                connect,
                stop: Some(stop),
                thread: Some(thread),
            }),
            Err(_) => Err(match thread.join() {
                Ok(Err(error)) => error,
                Ok(Ok(_)) => StartError::Runtime(io::Error::other("stopped before it was ready")),
                Err(panic) => std::panic::resume_unwind(panic),
            }),
        }
    }

    /// The listen addresses for clients, HTTP and metrics, in the order of the flags.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// An in-memory channel.
    pub fn channel(&self) -> Channel {
        let connect = self.connect.clone();
        Endpoint::from_static("http://stele.local").connect_with_connector_lazy(tower::service_fn(
            move |_| {
                let connect = connect.clone();
                async move {
                    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                    let sent = connect.send(theirs).await;
                    sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
                    Ok::<_, io::Error>(TokioIo::new(ours))
                }
            },
        ))
    }

    /// Stops the server gracefully. Blocks until its files are closed.
    pub fn stop(mut self) -> Result<(), StartError> {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(_))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}
