//! A server inside another program: on a thread of its own, reached by its listeners like any
//! other, and by channels that need no socket.

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

/// Bytes on their way in either direction of a channel.
const PIPE_BYTES: usize = 256 << 10;
/// Channels that wait to be taken on.
const WAITING_MAX: usize = 16;

/// Dropping it asks the server to stop; [`Local::stop`] also waits for that.
pub struct Local {
    addresses: Vec<SocketAddr>,
    connect: mpsc::Sender<DuplexStream>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<i32, StartError>>>,
}

impl Local {
    /// Returns once the server is ready to serve.
    pub fn start(config: Config, vfs: Arc<dyn Vfs>) -> Result<Local, StartError> {
        let (connect, connections) = mpsc::channel(WAITING_MAX);
        let (stop, stopped) = oneshot::channel();
        let (say_ready, ready) = std::sync::mpsc::channel();
        let host = Host::Program {
            stopped,
            connections,
            ready: Box::new(move |addresses| {
                // Nobody listens when the program has gone on without the server.
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

    /// Where it listens: for clients, HTTP, metrics, in the order of the flags.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A channel through memory.
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

    /// Ends it in order. Blocks until its files are closed.
    pub fn stop(mut self) -> Result<(), StartError> {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(_))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}
