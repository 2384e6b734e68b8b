//! Writes small frames of one turn in one system call.
//!
//! h2 copies small frames together. Its limit for "small" depends on the stream below: 256 bytes if
//! the stream supports vectored writes, 1024 if not. Most answers with a value are between the two,
//! and at 256 each would be a separate write. So this stream reports no vectored writes, buffers
//! small writes until the flush, and appends large ones behind them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Writes of at least this size are passed through, not copied.
const LARGE_BYTES: usize = 4096;

/// The buffer is written early when it exceeds this.
const WAITING_BYTES_MAX: usize = 16 << 10;

pub(crate) struct Gather<S> {
    stream: S,
    /// Accepted but not yet written.
    waiting: Vec<u8>,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(crate) fn new(stream: S) -> Gather<S> {
        Gather {
            stream,
            waiting: Vec::new(),
        }
    }

    fn poll_write_waiting(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting))?;
            self.take_off(written)?;
        }
        Poll::Ready(Ok(()))
    }

    fn take_off(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.waiting.drain(..written);
        Ok(())
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if data.len() < LARGE_BYTES && this.waiting.len() + data.len() <= WAITING_BYTES_MAX {
            this.waiting.extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        loop {
            let slices = [IoSlice::new(&this.waiting), IoSlice::new(data)];
            let stream = Pin::new(&mut this.stream);
            let written = ready!(stream.poll_write_vectored(context, &slices))?;
            let of_waiting = written.min(this.waiting.len());
            if written > of_waiting {
                this.waiting.clear();
                return Poll::Ready(Ok(written - of_waiting));
            }
            this.take_off(written)?;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_write_waiting(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_write_waiting(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        false
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Accepts up to `room` bytes per call, and counts the calls; at zero it blocks.
    #[derive(Default)]
    struct Slow {
        room: usize,
        calls: usize,
        taken: Vec<u8>,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = data.len().min(self.room);
            self.calls += 1;
            self.taken.extend(&data[..count]);
            match count {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(count)),
            }
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let data: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            self.poll_write(context, &data)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn slow(room: usize) -> Gather<Slow> {
        Gather::new(Slow {
            room,
            ..Slow::default()
        })
    }

    fn write(gather: &mut Gather<Slow>, data: &[u8]) -> Poll<usize> {
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(gather)
            .poll_write(&mut context, data)
            .map(|written| written.unwrap())
    }

    fn flush(gather: &mut Gather<Slow>) -> Poll<()> {
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(gather)
            .poll_flush(&mut context)
            .map(|flushed| flushed.unwrap())
    }

    #[test]
    fn small_writes_leave_together_at_the_flush() {
        let mut gather = slow(usize::MAX);
        for part in [[1; 300], [2; 300], [3; 300]] {
            assert_eq!(write(&mut gather, &part), Poll::Ready(300));
        }
        assert_eq!(gather.stream.calls, 0);
        assert!(flush(&mut gather).is_ready());
        assert_eq!(gather.stream.calls, 1);
        assert_eq!(gather.stream.taken, [[1; 300], [2; 300], [3; 300]].concat());
    }

    #[test]
    fn a_large_write_takes_along_what_waits() {
        let mut gather = slow(usize::MAX);
        assert_eq!(write(&mut gather, &[1; 9]), Poll::Ready(9));
        assert_eq!(write(&mut gather, &[2; 9000]), Poll::Ready(9000));
        assert_eq!(gather.stream.calls, 1);
        assert_eq!(gather.stream.taken.len(), 9009);
    }

    #[test]
    fn nothing_is_lost_or_repeated_however_little_is_taken_at_a_time() {
        let mut gather = slow(7);
        let parts: Vec<Vec<u8>> = [100, 5000, 3, 16 << 10, 4095, 4096]
            .iter()
            .enumerate()
            .map(|(number, &length)| vec![number as u8; length])
            .collect();
        for part in &parts {
            let mut rest = part.as_slice();
            while !rest.is_empty() {
                let Poll::Ready(written) = write(&mut gather, rest) else {
                    panic!("there is room");
                };
                rest = &rest[written..];
            }
        }
        assert!(flush(&mut gather).is_ready());
        assert_eq!(gather.stream.taken, parts.concat());
    }

    #[test]
    fn a_stream_without_room_takes_nothing_more() {
        let mut gather = slow(0);
        assert_eq!(write(&mut gather, &[1; 100]), Poll::Ready(100));
        assert_eq!(write(&mut gather, &[2; 5000]), Poll::Pending);
        assert_eq!(flush(&mut gather), Poll::Pending);
        gather.stream.room = 5100;
        assert_eq!(write(&mut gather, &[2; 5000]), Poll::Ready(5000));
        assert_eq!(gather.stream.taken, [vec![1; 100], vec![2; 5000]].concat());
    }
}
