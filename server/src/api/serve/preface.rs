//! Detects the protocol of a connection by its first bytes, and gives these bytes back to the
//! reader: TLS or clear text, HTTP/2 or HTTP/1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// First bytes of an HTTP/2 client with prior knowledge.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Type of a TLS record with a handshake message; no HTTP method begins with this byte.
const TLS_HANDSHAKE: u8 = 22;

/// Time a client has to show which protocol it speaks. Also limits how long an idle, half-open
/// connection stays.
pub(super) const PREFACE_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is known. `None`: the client left, or sent nothing in time.
pub(super) async fn detect<S: AsyncRead + Unpin>(stream: S) -> Option<(Protocol, Rewound<S>)> {
    tokio::time::timeout(PREFACE_PATIENCE, read(stream))
        .await
        .ok()?
        .ok()?
}

/// Reads until it is known whether the client starts a TLS handshake.
pub(super) async fn detect_tls<S: AsyncRead + Unpin>(stream: S) -> Option<(bool, Rewound<S>)> {
    let mut rewound = Rewound::new(stream);
    let read = rewound.stream.read(&mut rewound.read);
    let count = tokio::time::timeout(PREFACE_PATIENCE, read).await.ok()?;
    rewound.end = count.ok().filter(|count| *count > 0)?;
    Some((rewound.read[0] == TLS_HANDSHAKE, rewound))
}

async fn read<S: AsyncRead + Unpin>(stream: S) -> io::Result<Option<(Protocol, Rewound<S>)>> {
    let mut rewound = Rewound::new(stream);
    loop {
        let free = &mut rewound.read[rewound.end..];
        let count = rewound.stream.read(free).await?;
        if count == 0 {
            return Ok(None);
        }
        rewound.end += count;
        let protocol = if rewound.read[..rewound.end] != PREFACE[..rewound.end] {
            Protocol::Http1
        } else if rewound.end == PREFACE.len() {
            Protocol::Http2
        } else {
            continue;
        };
        return Ok(Some((protocol, rewound)));
    }
}

/// A stream whose first bytes were read ahead; they are read again first.
pub(crate) struct Rewound<S> {
    stream: S,
    read: [u8; PREFACE.len()],
    start: usize,
    end: usize,
}

impl<S> Rewound<S> {
    /// Wraps a stream of which nothing was read.
    pub(crate) fn new(stream: S) -> Rewound<S> {
        Rewound {
            stream,
            read: [0; PREFACE.len()],
            start: 0,
            end: 0,
        }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.start < self.end {
            let count = buffer.remaining().min(self.end - self.start);
            buffer.put_slice(&self.read[self.start..self.start + count]);
            self.start += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
