//! Connections: accepted, and copied to an endpoint and back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::remotes::Remotes;
use crate::dns::dial;

/// Buffer of one direction of a connection.
const BUFFER_BYTES: usize = 32 << 10;

/// Pause after a connection could not be accepted, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

struct Proxy {
    remotes: Mutex<Remotes>,
    retry_delay: Duration,
}

/// Serves connections for ever. An endpoint that failed gets none until it answers again, which is
/// tried every `retry_delay`.
pub(super) async fn accept(listener: TcpListener, remotes: Remotes, retry_delay: Duration) {
    let proxy = Arc::new(Proxy {
        remotes: Mutex::new(remotes),
        retry_delay,
    });
    tokio::spawn(Arc::clone(&proxy).monitor());
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(Arc::clone(&proxy).serve(client))),
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Proxy {
    async fn serve(self: Arc<Proxy>, mut client: TcpStream) {
        let Some(mut server) = self.connect().await else {
            return;
        };
        // Small requests must not wait for large packets.
        let _ = client.set_nodelay(true).and(server.set_nodelay(true));
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        // As in etcd, the end of one direction ends the other.
        let _ended = tokio::select! {
            ended = copy(from_client, to_server) => ended,
            ended = copy(from_server, to_client) => ended,
        };
    }

    /// A connection to an active endpoint, if there is one.
    async fn connect(&self) -> Option<TcpStream> {
        loop {
            let (place, address) = self.pick()?;
            match dial(&address).await {
                Ok(server) => return Some(server),
                Err(error) => {
                    self.remotes.lock().set_active(place, false);
                    tracing::warn!(
                        address,
                        interval = go_text::duration(self.retry_delay),
                        error,
                        "deactivated endpoint"
                    );
                }
            }
        }
    }

    fn pick(&self) -> Option<(usize, String)> {
        let mut remotes = self.remotes.lock();
        let place = remotes.pick()?;
        Some((place, remotes.service(place).to_string()))
    }

    /// Tries the endpoints that failed, now and then.
    async fn monitor(self: Arc<Proxy>) {
        loop {
            tokio::time::sleep(self.retry_delay).await;
            let inactive = self.remotes.lock().inactive();
            for place in inactive {
                tokio::spawn(Arc::clone(&self).try_again(place));
            }
        }
    }

    async fn try_again(self: Arc<Proxy>, place: usize) {
        let address = self.remotes.lock().service(place).to_string();
        match dial(&address).await {
            Ok(_) => {
                self.remotes.lock().set_active(place, true);
                tracing::info!(address, "activated");
            }
            Err(error) => tracing::warn!(
                address,
                interval = go_text::duration(self.retry_delay),
                error,
                "failed to activate endpoint (stay inactive for another interval)"
            ),
        }
    }
}

async fn copy(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<u64> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    tokio::io::copy_buf(&mut from, &mut to).await
}
