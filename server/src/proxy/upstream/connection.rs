//! One connection to a member, opened again whenever it ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tonic::body::Body;

use super::{How, pings};
use crate::config::Url;
use crate::net::socket::Socket;

/// Limit of one attempt, as in etcd.
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

/// Pauses between attempts: doubled after each that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Bytes a member may send ahead, per stream and per connection.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// Keeps `slot` filled with a connection to `url`, for ever. Signals every change.
pub(super) async fn keep(
    how: How,
    url: Url,
    slot: Arc<Mutex<Option<SendRequest<Body>>>>,
    changed: watch::Sender<()>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = timeout(DIAL_PATIENCE, open(&how, &url)).await;
        match opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok((sender, ended)) => {
                tracing::debug!(endpoint = url.as_str(), "connected to an endpoint");
                pause = FIRST_PAUSE;
                *slot.lock() = Some(sender);
                changed.send_replace(());
                let error = ended.await.unwrap_or_default();
                *slot.lock() = None;
                tracing::info!(
                    endpoint = url.as_str(),
                    error,
                    "lost the connection to an endpoint"
                );
            }
            Err(error) => {
                tracing::warn!(endpoint = url.as_str(), %error, "failed to connect to an endpoint");
                tokio::time::sleep(pause).await;
                pause = PAUSE_MAX.min(pause * 2);
            }
        }
    }
}

/// A new connection, and what tells when it ends, and why.
type Opened = (SendRequest<Body>, oneshot::Receiver<String>);

async fn open(how: &How, url: &Url) -> io::Result<Opened> {
    let socket = Socket::connect(url).await?;
    if !url.is_secure() {
        return speak(how, socket).await;
    }
    speak(how, how.tls.connect_to(url, socket).await?).await
}

async fn speak<S>(how: &How, stream: S) -> io::Result<Opened>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(pings(how.keepalive))
        .keep_alive_timeout(how.keepalive.timeout)
        .keep_alive_while_idle(how.keepalive.while_idle)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        let error = connection.await.err();
        // Nobody listens if the endpoint is not listed any more.
        let _ = end.send(error.map_or(String::new(), |error| error.to_string()));
    });
    Ok((sender, ended))
}
