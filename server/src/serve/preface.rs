//! Tells HTTP/2 from HTTP/1 by the first bytes of a connection, and gives them back.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a client that knows it speaks HTTP/2 sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Time a client has to say which protocol it speaks. Kept by connections that send nothing, so
/// it also bounds what a half-open one costs.
pub(super) const PREFACE_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is known. None: the client left, or said nothing in time.
pub(super) async fn detect(stream: TcpStream) -> Option<(Protocol, Rewound)> {
    tokio::time::timeout(PREFACE_PATIENCE, read(stream))
        .await
        .ok()?
        .ok()?
}

async fn read(mut stream: TcpStream) -> io::Result<Option<(Protocol, Rewound)>> {
    let mut read = [0; PREFACE.len()];
    let mut length = 0;
    loop {
        let count = stream.read(&mut read[length..]).await?;
        if count == 0 {
            return Ok(None);
        }
        length += count;
        let protocol = match read[..length] == PREFACE[..length] {
            false => Protocol::Http1,
            true if length == PREFACE.len() => Protocol::Http2,
            true => continue,
        };
        return Ok(Some((
            protocol,
            Rewound {
                stream,
                read,
                start: 0,
                end: length,
            },
        )));
    }
}

/// A stream with its first bytes back in front.
pub(super) struct Rewound {
    stream: TcpStream,
    read: [u8; PREFACE.len()],
    start: usize,
    end: usize,
}

impl AsyncRead for Rewound {
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

impl AsyncWrite for Rewound {
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
