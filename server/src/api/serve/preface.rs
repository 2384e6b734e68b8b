//! Detects the protocol of a connection by its first bytes, and gives these bytes back to the
//! reader: TLS or clear text, HTTP/2 or HTTP/1.

use std::io;
use std::time::Duration;

use tokio::io::AsyncRead;

use crate::net::rewound::Rewound;

/// First bytes of an HTTP/2 client with prior knowledge.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Type of a TLS record with a handshake message; no HTTP method begins with this byte.
const TLS_HANDSHAKE: u8 = 22;

/// Time a client has to show which protocol it speaks. Also limits how long an idle, half-open
/// connection stays.
pub(crate) const PREFACE_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is known. `None`: the client left, or sent nothing in time.
pub(crate) async fn detect<S: AsyncRead + Unpin>(stream: S) -> Option<(Protocol, Rewound<S>)> {
    tokio::time::timeout(PREFACE_PATIENCE, read(stream))
        .await
        .ok()?
        .ok()?
}

/// Reads until it is known whether the client starts a TLS handshake.
pub(super) async fn detect_tls<S: AsyncRead + Unpin>(stream: S) -> Option<(bool, Rewound<S>)> {
    let mut rewound = Rewound::new(stream);
    let read = rewound.read_ahead();
    let read = tokio::time::timeout(PREFACE_PATIENCE, read).await.ok()?;
    read.ok()?;
    let first = *rewound.ahead().first()?;
    Some((first == TLS_HANDSHAKE, rewound))
}

async fn read<S: AsyncRead + Unpin>(stream: S) -> io::Result<Option<(Protocol, Rewound<S>)>> {
    let mut rewound = Rewound::new(stream);
    loop {
        if rewound.read_ahead().await? == 0 {
            return Ok(None);
        }
        let ahead = rewound.ahead();
        let protocol = if !PREFACE.starts_with(ahead) {
            Protocol::Http1
        } else if ahead.len() == PREFACE.len() {
            Protocol::Http2
        } else {
            continue;
        };
        return Ok(Some((protocol, rewound)));
    }
}
