//! Sends and receives snapshots between members: `POST /raft/snapshot`, the message first and the
//! state after it in the same body.
//!
//! The state is etcd's database file, unless the peer's answer to `GET /version` says that it knows
//! our own form; the request then names that form. A dedicated thread reads the view and waits for
//! the peer, piece by piece, at the rate of [`super::pace`]. A transfer whose peer reads nothing
//! for long is aborted: the view keeps pages from being reused, and the leader keeps its log.
//!
//! A transfer has a number. If its connection breaks, the sender asks `GET /raft/snapshot/held` how
//! much of it has arrived, and sends the rest: the same view gives the same bytes. It keeps the view
//! for that time, and gives up if the peer has nothing of the transfer, or if an attempt brings
//! nothing more. etcd's members, and older ones of ours, answer that they know no such page, and
//! get a new snapshot.

pub(super) mod arrival;

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::thread::Builder;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, Limited};
use raft::Message;
use storage::mvcc::View;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::dial::Target;
use super::dialer::ANSWER_BYTES_MAX;
use super::link::Counting;
use super::pace::Pace;
use crate::basics::clock;
use crate::state::snapshot::{Form, Snapshot, WriteError, rows};
use crate::telemetry::metrics::Metrics;
use arrival::REST_MAX;

const PATH: &str = "/raft/snapshot";
/// How many bytes of a transfer have arrived.
const HELD_PATH: &str = "/raft/snapshot/held";
/// Names the transfer in the requests about it: a number in hexadecimal.
pub(super) const NUMBER_HEADER: &str = "X-Stele-Transfer";
/// Where the body of a request goes on, in bytes; 0 without the header.
pub(super) const OFFSET_HEADER: &str = "X-Stele-Offset";
/// Small, so that neither side works long on one piece.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces queued: enough to keep both sides busy, and small in memory.
const PIECES_WAITING: usize = 8;
/// Limit for the peer to take one piece, and to install the whole state at the end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Limit for the sender to send something.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Delay before a failed transfer is reported, because the report starts the next attempt.
const RETRY: Duration = Duration::from_secs(1);
/// The threads at both ends run at low priority.
const NICENESS: i32 = 10;

type Piece = io::Result<Bytes>;

/// Why an attempt to send a state failed.
struct Failure {
    how: How,
    error: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The peer did not answer before anything was sent.
    Unreached,
    /// The connection broke.
    Broken,
    /// The peer refused it.
    Refused,
}

impl How {
    /// How much of the transfer the peer must hold for another attempt, after this one to send the
    /// bytes from `offset` on; `None` if there is none. An attempt must have brought something, but
    /// one that sent nothing could not.
    fn least_held(self, offset: u64) -> Option<u64> {
        match self {
            // Nothing is lost of a transfer that has not begun.
            How::Unreached => (offset > 0).then_some(offset),
            How::Broken => Some(offset + 1),
            How::Refused => None,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let how = How::Broken;
        Failure { how, error }
    }
}

/// One state on its way to one peer.
struct Transfer {
    target: Target,
    message: Message,
    view: View,
    /// When it began, as nanoseconds since 1970: no other transfer of this member has the number.
    number: u128,
}

/// Sends `view` with its message; returns whether the peer accepted it.
pub(super) async fn send(target: Target, message: Message, view: View) -> bool {
    let id = format!("{:x}", target.id);
    let index = view.applied().index;
    tracing::info!(
        "to" = id,
        "snapshot-index" = index,
        "sending database snapshot"
    );
    let peers = target.peers.clone();
    let traffic = Arc::clone(&target.link.traffic);
    let counting = Counting::begin(peers.0.clock, &traffic.snapshots_sent);
    let transfer = Transfer {
        target,
        message,
        view,
        number: clock::unix_time().as_nanos(),
    };
    match transfer.run().await {
        Ok(form) => {
            peers.0.metrics.backend_snapshot.observe(counting.age());
            counting.succeeded();
            tracing::info!(
                "to" = id,
                "snapshot-index" = index,
                form = ?form,
                "sent database snapshot"
            );
            true
        }
        Err(Failure { error, .. }) => {
            tracing::warn!("to" = id, %error, "failed to send database snapshot");
            traffic.sent_failures.inc();
            drop((transfer, counting));
            sleep(RETRY).await;
            false
        }
    }
}

impl Transfer {
    /// Sends the state; where a connection breaks, goes on from what has arrived.
    async fn run(&self) -> Result<Form, Failure> {
        let mut offset = 0;
        loop {
            let failure = match self.attempt(offset).await {
                Err(failure) => failure,
                sent => return sent,
            };
            let Some(least) = failure.how.least_held(offset) else {
                return Err(failure);
            };
            match self.held().await {
                Some(held) if held >= least => offset = held,
                _ => return Err(failure),
            }
            tracing::warn!(
                "to" = format!("{:x}", self.target.id),
                error = %failure.error,
                offset,
                "a database snapshot's connection broke, sending the rest"
            );
        }
    }

    /// Tries one URL of the peer after the other until a connection is made and not refused. If
    /// that one breaks, more has arrived than `offset`: what has is asked before the next attempt.
    async fn attempt(&self, offset: u64) -> Result<Form, Failure> {
        let mut last = None;
        for url in &self.target.urls {
            match self.send_to(url, offset).await {
                Err(failure) if failure.how != How::Broken => {
                    // What was refused at one URL is, whoever answers at the others.
                    let is_news = |last: &Failure| last.how == How::Unreached;
                    if last.as_ref().is_none_or(is_news) {
                        last = Some(failure);
                    }
                }
                ended => return ended,
            }
        }
        Err(last.unwrap_or_else(|| Failure {
            how: How::Refused,
            error: io::ErrorKind::NotFound.into(),
        }))
    }

    /// The number of bytes that have arrived; `None` if the peer does not answer for long, or has
    /// nothing of this transfer.
    async fn held(&self) -> Option<u64> {
        let until = Instant::now() + REST_MAX;
        while Instant::now() < until {
            sleep(RETRY).await;
            for url in &self.target.urls {
                let request = self
                    .target
                    .me()
                    .request("GET", HELD_PATH)
                    .header(NUMBER_HEADER, format!("{:x}", self.number))
                    .body(Full::default())
                    .ok()?;
                let answer = timeout(SILENCE_MAX, self.target.dialer().exchange(url, request));
                let Ok(Ok(answer)) = answer.await else {
                    continue;
                };
                match StatusCode::from_u16(answer.status) {
                    Ok(StatusCode::OK) => {
                        return held_bytes(&answer.body);
                    }
                    // Its former connection is still being read there.
                    Ok(StatusCode::SERVICE_UNAVAILABLE) => {}
                    _ => return None,
                }
            }
        }
        None
    }

    /// Sends the bytes from `offset` on.
    async fn send_to(&self, url: &str, offset: u64) -> Result<Form, Failure> {
        let target = &self.target;
        let form = ask_form(target, url).await.map_err(|error| Failure {
            how: How::Unreached,
            error,
        })?;
        let taken = Arc::new(AtomicU64::new(0));
        let (sender, pieces) = mpsc::channel(PIECES_WAITING);
        let metrics = Arc::clone(&target.peers.0.metrics);
        let body = Pieces {
            pieces,
            taken: Arc::clone(&taken),
            pace: Pace::begin(
                Instant::now(),
                log_bytes(&metrics),
                !is_for_voter(&self.message),
            ),
            metrics,
            wait: Box::pin(sleep(Duration::ZERO)),
            is_due: true,
        };
        let mut request = target
            .me()
            .request("POST", PATH)
            .header(http::header::CONTENT_TYPE, "application/octet-stream");
        if form == Form::Rows {
            request = request
                .header(rows::HEADER, rows::FORM)
                .header(NUMBER_HEADER, format!("{:x}", self.number))
                .header(OFFSET_HEADER, offset);
        }
        let request = request.body(body).map_err(io::Error::other)?;
        let (message, view) = (self.message.clone(), self.view.clone());
        Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || write(form, &message, view, Sink::new(sender, offset)))?;
        let mut sending = std::pin::pin!(target.dialer().send(url, request));
        let mut seen = 0;
        let response = loop {
            match timeout(PATIENCE, &mut sending).await {
                Ok(response) => break response?,
                Err(silence) => {
                    let now = taken.load(Ordering::Relaxed);
                    if now == seen {
                        return Err(io::Error::from(silence).into());
                    }
                    seen = now;
                }
            }
        };
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(form);
        }
        let why = why_refused(response).await?;
        Err(Failure {
            how: How::Refused,
            error: io::Error::other(why),
        })
    }
}

/// The peer's reason for an answer without success.
async fn why_refused<B>(response: Response<B>) -> io::Result<String>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let body = timeout(PATIENCE, body.collect()).await?;
    let body = body.map_err(io::Error::other)?.to_bytes();
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    Ok(format!("{status}: {text}"))
}

/// How much of a transfer has arrived, by the answer of the peer that receives it.
pub(super) fn held_bytes(body: &[u8]) -> Option<u64> {
    std::str::from_utf8(body).ok()?.trim().parse().ok()
}

/// A member that the snapshot does not know yet is new, so it learns.
fn is_for_voter(message: &Message) -> bool {
    match &message.body {
        raft::Body::Snapshot(snapshot) => snapshot.conf.voters.contains(&message.to),
        _ => false,
    }
}

fn log_bytes(metrics: &Metrics) -> u64 {
    metrics.wal_bytes.get().unsigned_abs()
}

async fn ask_form(target: &Target, url: &str) -> io::Result<Form> {
    let request = target.me().request("GET", "/version");
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let response = timeout(SILENCE_MAX, target.dialer().send(url, request)).await??;
    Ok(form_of(response.headers()))
}

/// The form that the sender of these headers knows or sends.
pub(super) fn form_of(headers: &HeaderMap) -> Form {
    match headers.get(rows::HEADER).map(HeaderValue::as_bytes) {
        Some(form) if form == rows::FORM.as_bytes() => Form::Rows,
        _ => Form::Database,
    }
}

/// Only for dedicated threads: a lowered priority cannot be raised again.
fn give_way() {
    // Only an optimization; a failure is harmless.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// The sending thread: ends when all is written or the receiver is gone.
fn write(form: Form, message: &Message, view: View, mut out: Sink) {
    give_way();
    if let Err(error) = write_all(form, message, view, &mut out) {
        match &error {
            WriteError::Data(error) => {
                tracing::warn!(%error, "failed to read the state that a member needs");
            }
            WriteError::Sink(error) => {
                tracing::debug!(%error, "a snapshot was not written to its end");
            }
        }
        // The body must not appear complete.
        let _ = out.sender.blocking_send(Err(io::Error::other(error)));
    }
}

fn write_all(form: Form, message: &Message, view: View, out: &mut Sink) -> Result<(), WriteError> {
    let mut bytes = Vec::with_capacity(raft::wire::message_size_hint(message));
    raft::wire::encode_message(message, &mut bytes);
    out.write_all(&(bytes.len() as u64).to_be_bytes())?;
    out.write_all(&bytes)?;
    match form {
        Form::Rows => rows::write(&view, out)?,
        Form::Database => {
            let snapshot = Snapshot::of_while(view, &|| !out.sender.is_closed())?;
            snapshot.write(out)?;
        }
    }
    Ok(out.flush()?)
}

/// Splits the written bytes into pieces.
struct Sink {
    sender: mpsc::Sender<Piece>,
    buffer: BytesMut,
    /// Bytes that have arrived before.
    skip: u64,
}

impl Sink {
    fn new(sender: mpsc::Sender<Piece>, skip: u64) -> Sink {
        Sink {
            sender,
            buffer: BytesMut::with_capacity(PIECE_BYTES),
            skip,
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.skip > 0 {
            let skipped =
                usize::try_from(self.skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
            self.skip -= skipped as u64;
            return Ok(skipped);
        }
        let taken = bytes.len().min(PIECE_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = self.buffer.split().freeze();
        self.buffer.reserve(PIECE_BYTES);
        let sent = self.sender.blocking_send(Ok(piece));
        sent.map_err(|_| io::Error::other("the peer takes nothing any more"))
    }
}

/// The body of the request.
struct Pieces {
    pieces: mpsc::Receiver<Piece>,
    /// Number of pieces handed to the connection.
    taken: Arc<AtomicU64>,
    pace: Pace,
    /// Show how fast clients write.
    metrics: Arc<Metrics>,
    /// Runs until the next piece is due; unused while `is_due`.
    wait: Pin<Box<Sleep>>,
    is_due: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.is_due {
            ready!(self.wait.as_mut().poll(cx));
            self.is_due = true;
        }
        let piece = ready!(self.pieces.poll_recv(cx));
        self.taken.fetch_add(1, Ordering::Relaxed);
        let bytes = match &piece {
            Some(Ok(piece)) => piece.len(),
            _ => 0,
        };
        let log_bytes = log_bytes(&self.metrics);
        let now = Instant::now();
        let wait = self.pace.next(now, log_bytes, bytes);
        if !wait.is_zero() {
            self.is_due = false;
            self.wait.as_mut().reset(now + wait);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_has_begun_goes_on_until_an_attempt_brings_nothing() {
        assert_eq!(How::Broken.least_held(0), Some(1));
        assert_eq!(How::Broken.least_held(7), Some(8));
        assert_eq!(How::Unreached.least_held(0), None);
        assert_eq!(How::Unreached.least_held(7), Some(7));
        assert_eq!(How::Refused.least_held(7), None);
    }

    #[tokio::test]
    async fn a_refusal_is_read_up_to_a_limit() {
        let refused = |body: Full<Bytes>| {
            let response = Response::builder().status(StatusCode::CONFLICT);
            why_refused(response.body(body).unwrap())
        };
        let why = refused("no such part\n".into()).await.unwrap();
        assert_eq!(why, "409 Conflict: no such part");
        assert!(
            refused(vec![b'a'; ANSWER_BYTES_MAX + 1].into())
                .await
                .is_err()
        );
    }
}
