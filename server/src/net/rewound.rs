//! A stream whose first bytes were looked at before its reader gets them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// Bytes that can be read ahead: the length of the preface of HTTP/2, the longest beginning that
/// tells two protocols apart.
const AHEAD_BYTES_MAX: usize = 24;

/// A stream whose first bytes were read ahead; they are read again first.
pub(crate) struct Rewound<S> {
    stream: S,
    read: [u8; AHEAD_BYTES_MAX],
    start: usize,
    end: usize,
}

impl<S> Rewound<S> {
    /// Wraps a stream of which nothing was read.
    pub(crate) fn new(stream: S) -> Rewound<S> {
        Rewound {
            stream,
            read: [0; AHEAD_BYTES_MAX],
            start: 0,
            end: 0,
        }
    }

    /// The bytes read ahead so far.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.read[..self.end]
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: AsyncRead + Unpin> Rewound<S> {
    /// Reads more bytes ahead and returns how many, at most until 24 are there. 0: the stream
    /// has ended.
    pub(crate) async fn read_ahead(&mut self) -> io::Result<usize> {
        let count = self.stream.read(&mut self.read[self.end..]).await?;
        self.end += count;
        Ok(count)
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
