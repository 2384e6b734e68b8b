//! Disconnects clients that ping too often, by grpc-go's rules. A ping is a strike if it comes
//! sooner after the last one than `--grpc-keepalive-min-time`, or within two hours while no call is
//! open. Headers or data from the server clear the strikes. The third strike ends the connection
//! with GOAWAY, ENHANCE_YOUR_CALM and the text that grpc clients look for.
//!
//! hyper answers pings itself and does not report them. So this stream, below hyper, follows the
//! frames in both directions by their nine-byte headers; nothing is copied.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::api::calls::framing::Framing;
use crate::api::calls::open_calls::OpenCalls;

/// Strikes without consequence.
const STRIKES_MAX: u32 = 2;

/// Shortest time between two pings while no call is open.
const IDLE_MIN_TIME: Duration = Duration::from_secs(2 * 3600);

/// Time a client has to read the last frame and close. Closing a socket with unread bytes resets
/// the connection, and the frame would be lost.
const FAREWELL: Duration = Duration::from_secs(1);

const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";

/// Finds HTTP/2 frames in a stream of bytes cut anywhere.
struct Frames(Framing<HEADER_BYTES>);

impl Frames {
    /// The first frame begins after `bytes` bytes.
    fn behind(bytes: usize) -> Frames {
        Frames(Framing::behind(bytes))
    }

    /// Calls `begun` with type, flags and stream of each frame whose header ends in `data`.
    fn feed(&mut self, data: &[u8], mut begun: impl FnMut(u8, u8, u32)) {
        let Ok(()) = self.0.feed(data, |&[a, b, c, kind, flags, stream @ ..]| {
            begun(kind, flags, u32::from_be_bytes(stream));
            Ok::<_, Infallible>(u32::from_be_bytes([0, a, b, c]) as usize)
        });
    }

    fn is_between_frames(&self) -> bool {
        self.0.is_between()
    }
}

/// The ping rule, separate from the byte stream.
struct Policy {
    min_time: Duration,
    last: Option<Instant>,
    strikes: u32,
    /// The server has sent headers or data since the last ping.
    answered: bool,
}

impl Policy {
    /// True if a ping at `now` is one too many.
    fn is_abused(&mut self, now: Instant, is_idle: bool) -> bool {
        let last = self.last.replace(now);
        if std::mem::take(&mut self.answered) {
            self.strikes = 0;
            return false;
        }
        let least = if is_idle {
            IDLE_MIN_TIME
        } else {
            self.min_time
        };
        if last.is_some_and(|last| now < last + least) {
            self.strikes += 1;
        }
        self.strikes > STRIKES_MAX
    }
}

/// A connection being closed because its client pinged too often.
struct Leaving {
    /// Bytes of the GOAWAY frame not yet written.
    frame: Vec<u8>,
    until: Pin<Box<Sleep>>,
}

pub(crate) struct Policed<S> {
    stream: S,
    calls: OpenCalls,
    policy: Policy,
    incoming: Frames,
    outgoing: Frames,
    newest_stream: u32,
    leaving: Option<Leaving>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Policed<S> {
    pub(crate) fn new(stream: S, min_time: Duration, calls: OpenCalls) -> Policed<S> {
        Policed {
            stream,
            calls,
            policy: Policy {
                min_time,
                last: None,
                strikes: 0,
                answered: false,
            },
            incoming: Frames::behind(PREFACE_BYTES),
            outgoing: Frames::behind(0),
            newest_stream: 0,
            leaving: None,
        }
    }

    /// Follows received bytes. Returns true if the client must be disconnected.
    fn came_in(&mut self, data: &[u8]) -> bool {
        let (mut pings, newest) = (0, &mut self.newest_stream);
        self.incoming.feed(data, |kind, flags, stream| match kind {
            HEADERS => *newest = (*newest).max(stream),
            PING if flags & ACK == 0 => pings += 1,
            _ => {}
        });
        if pings == 0 {
            return false;
        }
        let (now, is_idle) = (Instant::now(), self.calls.is_empty());
        (0..pings).any(|_| self.policy.is_abused(now, is_idle))
    }

    fn went_out(&mut self, data: &[u8]) {
        let answered = &mut self.policy.answered;
        self.outgoing.feed(data, |kind, _, _| {
            *answered |= matches!(kind, DATA | HEADERS)
        });
    }

    /// GOAWAY cannot be sent in the middle of another frame; then the connection just closes.
    fn leave(&mut self) {
        let frame = if self.outgoing.is_between_frames() {
            goaway(self.newest_stream)
        } else {
            Vec::new()
        };
        self.leaving = Some(Leaving {
            frame,
            until: Box::pin(tokio::time::sleep(FAREWELL)),
        });
    }

    /// Sends the last frame and waits for the client to close. Ends with an error, so that hyper
    /// drops the connection.
    fn poll_leave(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(leaving) = &mut self.leaving else {
            return Poll::Ready(Ok(()));
        };
        let gone = || Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        if leaving.until.as_mut().poll(context).is_ready() {
            return gone();
        }
        let stream = &mut self.stream;
        while !leaving.frame.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(context, &leaving.frame)) {
                Ok(written) if written > 0 => drop(leaving.frame.drain(..written)),
                _ => return gone(),
            }
        }
        if ready!(Pin::new(&mut *stream).poll_shutdown(context)).is_err() {
            return gone();
        }
        loop {
            let mut scratch = [0; 1024];
            let mut read = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *stream).poll_read(context, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {}
                _ => return gone(),
            }
        }
    }
}

fn goaway(newest_stream: u32) -> Vec<u8> {
    let length = 8 + TOO_MANY_PINGS.len();
    let mut frame = vec![0, 0, length as u8, GOAWAY, 0, 0, 0, 0, 0];
    frame.extend(newest_stream.to_be_bytes());
    frame.extend(ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend(TOO_MANY_PINGS);
    frame
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Policed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.leaving.is_some() {
            return this.poll_leave(context);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if this.came_in(&buffer.filled()[before..]) {
            buffer.set_filled(before);
            this.leave();
            return this.poll_leave(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Policed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.leaving.is_some() {
            return Poll::Ready(Ok(data.len()));
        }
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, data))?;
        this.went_out(&data[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let all = slices.iter().map(|slice| slice.len()).sum();
        if this.leaving.is_some() {
            return Poll::Ready(Ok(all));
        }
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, slices))?;
        let mut left = written;
        for slice in slices {
            let part = slice.len().min(left);
            this.went_out(&slice[..part]);
            left -= part;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.leaving {
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut this.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.leaving {
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut this.stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    const PING_FRAME: &[u8] = b"\0\0\x08\x06\0\0\0\0\0........";
    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> Policy {
        Policy {
            min_time: 5 * SECOND,
            last: None,
            strikes: 0,
            answered: false,
        }
    }

    #[test]
    fn strikes_are_counted_as_grpc_go_counts_them() {
        let start = Instant::now();
        let at = |seconds| start + seconds * SECOND;
        let mut busy = policy();
        let pings = [0, 1, 2, 3].map(|second| busy.is_abused(at(second), false));
        assert_eq!(pings, [false, false, false, true]);

        let mut patient = policy();
        assert!((0..100).all(|ping| !patient.is_abused(at(ping * 5), false)));

        let mut idle = policy();
        let pings = [0, 10, 20, 30].map(|second| idle.is_abused(at(second), true));
        assert_eq!(pings, [false, false, false, true], "no call is open");

        let mut answered = policy();
        for second in 0..100 {
            answered.answered = true;
            assert!(!answered.is_abused(at(second), false));
        }
    }

    /// Returns the bytes that the server reads until the end, and how the connection ends.
    async fn serve(mut stream: Policed<DuplexStream>) -> (usize, io::Result<usize>) {
        let (mut total, mut buffer) = (0, [0; 64]);
        loop {
            match stream.read(&mut buffer).await {
                Ok(count) if count > 0 => total += count,
                end => return (total, end),
            }
        }
    }

    #[tokio::test]
    async fn who_pings_too_often_is_told_and_let_go() {
        let (mut client, server) = tokio::io::duplex(4096);
        let calls = OpenCalls::default();
        let _open = calls.begin();
        let serving = tokio::spawn(serve(Policed::new(server, 5 * SECOND, calls)));
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let headers = b"\0\0\x01\x01\x04\0\0\0\x07h";
        client.write_all(headers).await.unwrap();
        for _ in 0..4 {
            client.write_all(PING_FRAME).await.unwrap();
        }
        let mut told = Vec::new();
        client.read_to_end(&mut told).await.unwrap();
        assert_eq!(told, goaway(7));
        assert!(told.ends_with(b"too_many_pings"));
        drop(client);
        let (_, end) = serving.await.unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }

    #[tokio::test]
    async fn one_that_never_leaves_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(4096);
        let policed = Policed::new(server, 5 * SECOND, OpenCalls::default());
        let serving = tokio::spawn(serve(policed));
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        for _ in 0..4 {
            client.write_all(PING_FRAME).await.unwrap();
        }
        let (_, end) = serving.await.unwrap();
        assert!(end.is_err());
        drop(client);
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let bytes = [PING_FRAME, b"\0\0\0\x04\x01\0\0\0\0", PING_FRAME].concat();
        for cut in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::behind(0), Vec::new());
            for part in bytes.chunks(cut) {
                frames.feed(part, |kind, flags, _| found.push((kind, flags)));
            }
            assert_eq!(found, [(6, 0), (4, 1), (6, 0)], "cut at {cut}");
            assert!(frames.is_between_frames());
        }
    }
}
