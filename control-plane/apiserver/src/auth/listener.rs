//! A listener of encrypted connections. Handshakes are made side by side, so that a slow client
//! holds nobody up; there is a bound to their number and to their time.

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use rustls::pki_types::UnixTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls::{Peer, Tls};
use crate::clock;

/// Handshakes under way at once; more clients than this wait to be accepted.
const HANDSHAKES_MAX: usize = 1024;
/// A client that is not done by then is let go.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Connections that are ready and wait to be served.
const READY_MAX: usize = 64;
/// How long accepting rests after it failed, which is when files run out.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Accepts encrypted connections; hand it to `axum::serve`.
pub struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, Remote)>,
    local: SocketAddr,
    accepting: AbortHandle,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its address.
    pub address: SocketAddr,
    /// What it shows of itself.
    pub peer: Peer,
}

impl TlsListener {
    /// Begins to accept. It belongs to the tokio runtime it is made in.
    pub fn new(listener: TcpListener, tls: Tls) -> io::Result<TlsListener> {
        let local = listener.local_addr()?;
        let (done, ready) = mpsc::channel(READY_MAX);
        let accepting = tokio::spawn(accept(listener, tls, done)).abort_handle();
        Ok(TlsListener {
            ready,
            local,
            accepting,
        })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = Remote;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // Accepting ends only with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Remote {
            address: self.local,
            peer: Peer::Nobody,
        })
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Peer {
        stream.remote_addr().peer.clone()
    }
}

/// Over a plain connection nobody shows a certificate.
impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(_: IncomingStream<'_, TcpListener>) -> Peer {
        Peer::Nobody
    }
}

type Done = mpsc::Sender<(TlsStream<TcpStream>, Remote)>;

async fn accept(listener: TcpListener, tls: Tls, done: Done) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, address)) => {
                tokio::spawn(shake(stream, address, tls.clone(), done.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

async fn shake(
    stream: TcpStream,
    address: SocketAddr,
    tls: Tls,
    done: Done,
    place: OwnedSemaphorePermit,
) {
    // Answers are written whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let shaking = TlsAcceptor::from(tls.config()).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE_TIME, shaking).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%address, %error, "no handshake"),
        Err(_) => return tracing::debug!(%address, "no handshake in time"),
    };
    drop(place);
    let seconds = u64::try_from(clock::now().seconds).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let peer = tls.peer(stream.get_ref().1.peer_certificates(), now);
    // Fails only when the listener is gone.
    let _ = done.send((stream, Remote { address, peer })).await;
}
