//! `etcdserverpb.Watch`: runs one [`WatchStream`] per call.
//!
//! The response's body *is* the stream: the connection polls it when it has room for more bytes. So
//! a client that does not read causes no work, and needs no task and no queue here. The stream
//! encodes its responses itself; one message value and one poll per response would cost more than
//! the events do.

mod minding;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::codec::ProtoCodec;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchRequest, WatchResponse};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_stream::Stream as _;
use tonic::codec::Codec;
use tonic::{Status, Streaming};

use super::limits::budget::too_large;
use crate::auth::{self, Credentials, Image};
use crate::basics::error::Error;
use crate::request::AuthInfo;
use crate::runtime::etcd_server::EtcdServer;
use crate::state::watch::{Ended, Head, HistoryDone, Out, StreamOptions, WatchStream};
use minding::Minded;

/// See [`Timing`].
const EVENTS_PER_TIMING: u64 = 16;

/// Requests handled before responses get their turn.
const REQUESTS_PER_POLL: usize = 16;

#[derive(Clone)]
pub(crate) struct WatchService {
    server: EtcdServer,
    options: StreamOptions,
    progress_interval: Duration,
}

impl WatchService {
    /// Responses larger than `max_message_bytes` are split into fragments.
    pub(crate) fn new(
        server: EtcdServer,
        max_message_bytes: usize,
        progress_interval: Duration,
    ) -> WatchService {
        WatchService {
            server,
            options: StreamOptions {
                fragment_bytes: max_message_bytes,
            },
            progress_interval,
        }
    }

    /// Answers the call at once; all work happens in the response's body.
    pub(crate) fn call<B>(&self, request: http::Request<B>) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let who = request.extensions().get::<Credentials>();
        let who = who.cloned().unwrap_or_default();
        let decoder = ProtoCodec::<WatchResponse, WatchRequest>::default().decoder();
        let requests = Streaming::new_request(decoder, request.into_body(), None, None);
        let reader = self.server.reader();
        let body = WatchBody {
            stream: WatchStream::new(self.server.hub().clone(), reader, self.options),
            server: self.server.clone(),
            out: Out::default(),
            who,
            requests: Some(requests),
            catching_up: None,
            read: None,
            minded: None,
            ticks: ticks(self.progress_interval),
            status: None,
            is_over: false,
            has_ticked: false,
            told: (0, 0),
            timing: Timing::default(),
        };
        self.server.metrics().watch_streams.add(1);
        let mut response = http::Response::new(tonic::body::Body::new(body));
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// The progress interval plus up to 10 %, so that streams opened together do not all send progress
/// at the same moment.
fn ticks(interval: Duration) -> Interval {
    let spread = RandomState::new().build_hasher().finish() % 1000;
    let interval = interval + interval.mul_f64(spread as f64 / 10_000.0);
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

type CatchingUp = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

struct WatchBody {
    server: EtcdServer,
    stream: WatchStream,
    out: Out,
    who: Credentials,
    /// A request by a user that this member may not know yet, and the read index it waits for.
    catching_up: Option<(WatchRequest, CatchingUp)>,
    /// `None` after the client has closed its side; this does not end the call.
    requests: Option<Streaming<WatchRequest>>,
    /// A read of history that runs on another thread.
    read: Option<JoinHandle<HistoryDone>>,
    /// A view that the stream holds while it sends a large revision.
    minded: Option<Minded>,
    ticks: Interval,
    /// The status to end the call with, once it is decided.
    status: Option<Status>,
    is_over: bool,
    /// The progress interval has passed, and the notifications are not yet written.
    has_ticked: bool,
    /// Number of watchers, and of slow watchers, last added to the gauges.
    told: (i64, i64),
    timing: Timing,
}

/// Which rounds of work are timed: all rounds with answers or progress, and one in
/// [`EVENTS_PER_TIMING`] of the rounds with events only, counted for all rounds since the last
/// timed one. Reading the clock in each round would cost a tenth of an event.
#[derive(Default)]
struct Timing {
    /// Rounds with events since the last timed one.
    untimed: u64,
    timed_once: bool,
}

impl Timing {
    fn is_due(&self) -> bool {
        !self.timed_once || self.untimed + 1 >= EVENTS_PER_TIMING
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.tell((0, 0));
        self.server.metrics().watch_streams.add(-1);
    }
}

impl WatchBody {
    fn tell(&mut self, watches: (i64, i64)) {
        let metrics = self.server.metrics();
        metrics.watchers.add(watches.0 - self.told.0);
        metrics.slow_watchers.add(watches.1 - self.told.1);
        self.told = watches;
    }

    /// Observes the histograms of the time spent writing responses.
    fn tell_time(&mut self, began: Option<Duration>, events: u64, ticked: bool, answered: bool) {
        let metrics = self.server.metrics();
        let took = began.map(|began| self.server.now().saturating_sub(began));
        if events > 0 {
            self.timing.untimed += 1;
            if let Some(took) = took {
                let rounds = std::mem::take(&mut self.timing.untimed);
                self.timing.timed_once = true;
                let each = took.div_f64(events as f64);
                metrics.watch_send.observe_each(took, rounds);
                metrics.watch_send_per_event.observe_each(each, rounds);
            }
        } else if let Some(took) = took.filter(|_| answered) {
            if ticked {
                metrics.watch_progress.observe(took)
            } else {
                metrics.watch_control_stream.observe(took)
            }
        }
    }

    /// Handles requests that have arrived. Returns true if there was one.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let mut was_busy = self.poll_catching_up(cx);
        for _ in 0..REQUESTS_PER_POLL {
            if self.catching_up.is_some() {
                break;
            }
            if !self.stream.accepts() || self.out.is_full() || self.status.is_some() {
                break;
            }
            let Some(requests) = &mut self.requests else {
                break;
            };
            match Pin::new(requests).poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(request))) => self.take(request, false),
                Poll::Ready(Some(Err(status))) => {
                    self.server.metrics().broken_streams.watch.inc();
                    self.status = Some(status);
                }
                Poll::Ready(None) => self.requests = None,
            }
            was_busy = true;
        }
        was_busy
    }

    /// Authorizes a request and carries it out. `caught_up`: this member has caught up with the
    /// leader, so a user that it does not know does not exist.
    fn take(&mut self, request: WatchRequest, caught_up: bool) {
        let Some(RequestUnion::CreateRequest(create)) = &request.request_union else {
            return self.stream.request(request, &mut self.out);
        };
        let ask = |image: &Image, by: &AuthInfo| auth::may_watch(image, by, create);
        match self.server.check_watch_now(&self.who, ask) {
            None if !caught_up => {
                let server = self.server.clone();
                let waiting = Box::pin(async move { server.linearizable().await });
                self.catching_up = Some((request, waiting));
            }
            None => self.refuse(request, &Error::InvalidAuthToken),
            Some(Err(error)) => self.refuse(request, &error),
            Some(Ok(())) => self.stream.request(request, &mut self.out),
        }
    }

    fn refuse(&mut self, request: WatchRequest, error: &Error) {
        let reason = auth::watch_refusal(error);
        self.stream.refuse(request, &reason, &mut self.out);
    }

    /// Returns true when a waiting request has been handled.
    fn poll_catching_up(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.stream.accepts() || self.out.is_full() || self.status.is_some() {
            return false;
        }
        let Some((_, waiting)) = &mut self.catching_up else {
            return false;
        };
        let Poll::Ready(result) = waiting.as_mut().poll(cx) else {
            return false;
        };
        if let (Some((request, _)), Ok(())) = (self.catching_up.take(), &result) {
            self.take(request, true);
        }
        if let Err(error) = result {
            self.status = Some(error.into());
        }
        true
    }

    /// Starts and finishes reads of history. Returns true when one has finished.
    fn poll_history(&mut self, cx: &mut Context<'_>) -> bool {
        if self.read.is_none() {
            let Some(mut read) = self.stream.next_read() else {
                return false;
            };
            if let Some(view) = self.stream.take_held_view() {
                self.minded = Some(Minded::new(&self.server, view));
            }
            if let Some(done) = read.run_if_short() {
                self.stream.read_done(done);
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
            // The runtime is shutting down.
            Err(_) => self.status = Some(Error::Stopped.into()),
        }
        true
    }

    fn poll_ticks(&mut self, cx: &mut Context<'_>) -> bool {
        let has_passed = self.ticks.poll_tick(cx).is_ready();
        if has_passed {
            self.stream.tick();
            self.has_ticked = true;
        }
        has_passed
    }

    /// The next bytes to send; `None` when the call has ended.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let head = self.server.header(0);
        self.out.set_head(Head {
            cluster_id: head.cluster_id,
            member_id: head.member_id,
            raft_term: head.raft_term,
        });
        loop {
            let ticked = std::mem::take(&mut self.has_ticked);
            // A stream that accepts no requests owes an answer to one.
            let timed = ticked || self.timing.is_due() || !self.stream.accepts();
            let mut began = timed.then(|| self.server.now());
            let mut is_busy = self.poll_requests(cx);
            if is_busy {
                began = began.or_else(|| Some(self.server.now()));
            }
            let did_accept = self.stream.accepts();
            let before = self.out.waiting_bytes();
            self.stream.pump(&mut self.out);
            let events = self.out.take_events();
            let has_answered = events == 0 && self.out.waiting_bytes() > before;
            self.tell_time(began, events, ticked, has_answered);
            self.server.metrics().events_total.add(events);
            let (watches, slow) = self.stream.watches();
            self.tell((watches as i64, slow as i64));
            // Requests that could not be accepted were not polled, so they would not wake this
            // task.
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
            // Anything that arrives before `arm` leaves the mailbox filled, and `arm` returns false.
            if !is_busy && self.stream.mailbox().arm(cx.waker()) {
                return Poll::Pending;
            }
            if !is_busy && self.stream.waits_for_history() {
                // The mailbox is filled and waits for a read of history; its end wakes this task.
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
        if let Some(minded) = &self.minded {
            minded.is_servers_turn();
        }
        let bytes = ready!(self.poll_bytes(cx));
        self.minded.take_if(|minded| !minded.is_held());
        if let Some(bytes) = bytes {
            if let Some(minded) = &self.minded {
                minded.is_clients_turn(bytes.len());
            }
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
        Ended::GivenUp => Error::Timeout.into(),
        Ended::TooLarge(bytes) => too_large(*bytes).into(),
    }
}
