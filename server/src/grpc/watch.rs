//! `etcdserverpb.Watch`: runs one [`Stream`] per call.
//!
//! The response's body *is* the stream: the connection polls it when it has room for more bytes, so
//! a client that does not read is not worked for, and needs no task and no queue here. Responses
//! leave as bytes that the stream has put together itself; going through one message type and one
//! poll per response would cost more than the events do.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::codec::ProtoCodec;
use etcd_api::etcdserverpb::{WatchRequest, WatchResponse};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_stream::Stream as _;
use tonic::codec::Codec;
use tonic::{Status, Streaming};

use crate::error::Error;
use crate::node::Node;
use crate::watch::{Ended, Head, HistoryDone, Out, Stream, StreamOptions};

/// Requests taken in before responses get their turn.
const REQUESTS_PER_POLL: usize = 16;

#[derive(Clone)]
pub struct WatchService {
    node: Node,
    options: StreamOptions,
    progress_interval: Duration,
}

impl WatchService {
    /// `max_message_bytes` is the size at which responses are cut into fragments.
    pub fn new(node: Node, max_message_bytes: usize, progress_interval: Duration) -> WatchService {
        WatchService {
            node,
            options: StreamOptions {
                fragment_bytes: max_message_bytes,
            },
            progress_interval,
        }
    }

    /// Answers the call at once; everything happens in the response's body.
    pub fn call<B>(&self, request: http::Request<B>) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let decoder = ProtoCodec::<WatchResponse, WatchRequest>::default().decoder();
        let requests = Streaming::new_request(decoder, request.into_body(), None, None);
        let reader = self.node.reader();
        let body = WatchBody {
            stream: Stream::new(self.node.hub().clone(), reader, self.options),
            node: self.node.clone(),
            out: Out::default(),
            requests: Some(requests),
            read: None,
            ticks: ticks(self.progress_interval),
            status: None,
            is_over: false,
            told: (0, 0),
        };
        self.node.metrics().watch_streams.add(1);
        let mut response = http::Response::new(tonic::body::Body::new(body));
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// The progress interval with up to a tenth more, so that streams opened together do not all
/// speak at once.
fn ticks(interval: Duration) -> Interval {
    let spread = RandomState::new().build_hasher().finish() % 1000;
    let interval = interval + interval.mul_f64(spread as f64 / 10_000.0);
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

struct WatchBody {
    node: Node,
    stream: Stream,
    out: Out,
    /// `None` after the client has closed its side, which does not end the call.
    requests: Option<Streaming<WatchRequest>>,
    /// History being read on another thread.
    read: Option<JoinHandle<HistoryDone>>,
    ticks: Interval,
    /// How the call ends, when it does.
    status: Option<Status>,
    is_over: bool,
    /// Watches, and slow ones among them, as the gauges have them.
    told: (i64, i64),
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.tell((0, 0));
        self.node.metrics().watch_streams.add(-1);
    }
}

impl WatchBody {
    fn tell(&mut self, watches: (i64, i64)) {
        let metrics = self.node.metrics();
        metrics.watchers.add(watches.0 - self.told.0);
        metrics.slow_watchers.add(watches.1 - self.told.1);
        self.told = watches;
    }

    /// Takes requests in while there are some. True when there was one.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let mut was_busy = false;
        for _ in 0..REQUESTS_PER_POLL {
            if !self.stream.accepts() || self.out.is_full() || self.status.is_some() {
                break;
            }
            let Some(requests) = &mut self.requests else {
                break;
            };
            match Pin::new(requests).poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(request))) => self.stream.request(request, &mut self.out),
                Poll::Ready(Some(Err(status))) => self.status = Some(status),
                Poll::Ready(None) => self.requests = None,
            }
            was_busy = true;
        }
        was_busy
    }

    /// Begins and ends reads of history. True when one has ended.
    fn poll_history(&mut self, cx: &mut Context<'_>) -> bool {
        if self.read.is_none() {
            let Some(read) = self.stream.next_read() else {
                return false;
            };
            if read.is_short() {
                self.stream.read_done(read.run());
                return true;
            }
            self.read = Some(tokio::task::spawn_blocking(move || read.run()));
        }
        let Some(read) = &mut self.read else {
            return false;
        };
        let Poll::Ready(result) = Pin::new(read).poll(cx) else {
            return false;
        };
        self.read = None;
        match result {
            Ok(done) => self.stream.read_done(done),
            // The runtime is going down.
            Err(_) => self.status = Some(Error::Stopped.into()),
        }
        true
    }

    fn poll_ticks(&mut self, cx: &mut Context<'_>) -> bool {
        let has_passed = self.ticks.poll_tick(cx).is_ready();
        if has_passed {
            self.stream.tick();
        }
        has_passed
    }

    /// The next bytes to send; `None` when the call has come to its end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let head = self.node.header(0);
        self.out.set_head(Head {
            cluster_id: head.cluster_id,
            member_id: head.member_id,
            raft_term: head.raft_term,
        });
        loop {
            let mut is_busy = self.poll_requests(cx);
            let did_accept = self.stream.accepts();
            self.stream.pump(&mut self.out);
            self.node.metrics().events_total.add(self.out.take_events());
            let (watches, slow) = self.stream.watches();
            self.tell((watches as i64, slow as i64));
            // Requests that had to wait have not been polled, so they would not wake us.
            is_busy |= !did_accept && self.stream.accepts();
            if let Some(bytes) = self.out.next_frame() {
                return Poll::Ready(Some(bytes));
            }
            if let Some(ended) = self.stream.ended() {
                self.status.get_or_insert_with(|| status(ended));
            }
            if self.status.is_some() {
                return Poll::Ready(None);
            }
            is_busy |= self.poll_history(cx);
            is_busy |= self.poll_ticks(cx);
            // Whatever comes between looking and arming shows in the mailbox being filled.
            if !is_busy && self.stream.mailbox().arm(cx.waker()) {
                return Poll::Pending;
            }
            if !is_busy && self.stream.waits_for_history() {
                // The mailbox is filled and waits itself; the read that it waits for wakes us.
                return Poll::Pending;
            }
        }
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(bytes) = ready!(self.poll_bytes(cx)) {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        self.is_over = true;
        let mut trailers = HeaderMap::new();
        let status = self.status.take().unwrap_or_else(|| Status::ok(""));
        Poll::Ready(Some(
            status
                .add_header(&mut trailers)
                .map(|()| Frame::trailers(trailers)),
        ))
    }
}

fn status(ended: &Ended) -> Status {
    match ended {
        Ended::ServerStopped => Error::Stopped.into(),
        Ended::Failed(error) => Error::Damaged(error.to_string()).into(),
    }
}
