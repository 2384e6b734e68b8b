//! A connection that a client and an aggregated server have to themselves, once both agreed on
//! another protocol, such as WebSocket or SPDY. This server moves bytes and understands none.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// The end of a connection at the other server, in a response that switches protocols.
#[derive(Clone)]
pub(crate) struct Tunnel(OnUpgrade);

impl Tunnel {
    pub(crate) fn new(other: OnUpgrade) -> Tunnel {
        Tunnel(other)
    }

    /// Moves bytes both ways until both ends are done, or one breaks.
    pub(crate) async fn serve(self, client: OnUpgrade) {
        // The client left before the response was sent, or the other server after its answer.
        let (Ok(client), Ok(other)) = tokio::join!(client, self.0) else {
            return;
        };
        let (mut client, mut other) = (TokioIo::new(client), TokioIo::new(other));
        if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut other).await {
            tracing::debug!(%error, "a connection to an aggregated server failed");
        }
    }
}
