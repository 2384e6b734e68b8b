//! Sends and receives snapshots between members: `POST /raft/snapshot`, the message first and the
//! state after it in the same body.
//!
//! The state is etcd's database file, unless the peer's answer to `GET /version` says that it knows
//! our own form; the request then names that form. A dedicated thread reads the view and waits for
//! the peer, piece by piece, at the rate of [`super::pace`]. A transfer whose peer reads nothing
//! for long is aborted: the view keeps pages from being reused, and the leader keeps its log.

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::thread::Builder;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use raft::Message;
use storage::mvcc::View;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::dial::{self, Target};
use super::link::Counting;
use super::pace::Pace;
use crate::state::snapshot::{Form, ReceiveError, Received, Receiving, Snapshot, rows};
use crate::telemetry::metrics::Metrics;

const PATH: &str = "/raft/snapshot";
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

/// Sends `view` with its message; returns whether the peer accepted it.
pub(super) async fn send(target: Target, message: Message, view: View) -> bool {
    let id = format!("{:x}", target.id);
    let index = view.applied().index;
    tracing::info!(
        "to" = id,
        "snapshot-index" = index,
        "sending database snapshot"
    );
    let counting = Counting::begin(target.peers.0.clock, &target.link.traffic.snapshots_sent);
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for url in &target.urls {
        outcome = send_to(&target, url, &message, &view).await;
        if outcome.is_ok() {
            break;
        }
    }
    match outcome {
        Ok(form) => {
            let metrics = &target.peers.0.metrics;
            metrics.backend_snapshot.observe(counting.age());
            counting.succeeded();
            tracing::info!(
                "to" = id,
                "snapshot-index" = index,
                form = ?form,
                "sent database snapshot"
            );
            true
        }
        Err(error) => {
            tracing::warn!("to" = id, %error, "failed to send database snapshot");
            target.link.traffic.sent_failures.inc();
            drop((view, counting));
            sleep(RETRY).await;
            false
        }
    }
}

async fn send_to(target: &Target, url: &str, message: &Message, view: &View) -> io::Result<Form> {
    let form = ask_form(target, url).await?;
    let taken = Arc::new(AtomicU64::new(0));
    let (sender, pieces) = mpsc::channel(PIECES_WAITING);
    let metrics = Arc::clone(&target.peers.0.metrics);
    let body = Pieces {
        pieces,
        taken: Arc::clone(&taken),
        pace: Pace::begin(Instant::now(), log_bytes(&metrics), !is_for_voter(message)),
        metrics,
        wait: Box::pin(sleep(Duration::ZERO)),
        is_due: true,
    };
    let mut request = dial::introduced(target.me(), "POST", PATH)
        .header(http::header::CONTENT_TYPE, "application/octet-stream");
    if form == Form::Rows {
        request = request.header(rows::HEADER, rows::FORM);
    }
    let request = request.body(body).map_err(io::Error::other)?;
    let (message, view) = (message.clone(), view.clone());
    Builder::new()
        .name("snapshot".to_owned())
        .spawn(move || write(form, &message, view, sender))?;
    let mut sending = std::pin::pin!(target.dialer().send(url, request));
    let mut seen = 0;
    let response = loop {
        match timeout(PATIENCE, &mut sending).await {
            Ok(response) => break response?,
            Err(silence) => {
                let now = taken.load(Ordering::Relaxed);
                if now == seen {
                    return Err(silence.into());
                }
                seen = now;
            }
        }
    };
    if response.status() == http::StatusCode::NO_CONTENT {
        return Ok(form);
    }
    let status = response.status();
    let text = timeout(PATIENCE, response.into_body().collect()).await?;
    let text = text.map_err(io::Error::other)?.to_bytes();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(io::Error::other(format!("{status}: {text}")))
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
    let request = dial::introduced(target.me(), "GET", "/version");
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
fn write(form: Form, message: &Message, view: View, sender: mpsc::Sender<Piece>) {
    give_way();
    let mut out = Sink {
        sender,
        buffer: BytesMut::with_capacity(PIECE_BYTES),
    };
    if let Err(error) = write_all(form, message, view, &mut out) {
        tracing::debug!(%error, "a snapshot was not written to its end");
        // The body must not appear complete.
        let _ = out.sender.blocking_send(Err(io::Error::other(error)));
    }
}

fn write_all(
    form: Form,
    message: &Message,
    view: View,
    out: &mut Sink,
) -> Result<(), crate::state::snapshot::WriteError> {
    let mut bytes = Vec::with_capacity(raft::wire::message_size_hint(message));
    raft::wire::encode_message(message, &mut bytes);
    out.write_all(&(bytes.len() as u64).to_be_bytes())?;
    out.write_all(&bytes)?;
    match form {
        Form::Rows => rows::write(&view, out)?,
        Form::Database => Snapshot::of(view)?.write(out)?,
    }
    Ok(out.flush()?)
}

/// Splits the written bytes into pieces.
struct Sink {
    sender: mpsc::Sender<Piece>,
    buffer: BytesMut,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

/// Receives a peer's state, on a blocking thread.
pub(super) async fn receive(
    receiving: Receiving,
    form: Form,
    mut body: Incoming,
    allow: impl Fn(&Message) -> Result<(), String> + Send + 'static,
    metrics: &Metrics,
) -> Result<(Message, Received), ReceiveError> {
    let (sender, pieces) = mpsc::channel(PIECES_WAITING);
    let mut source = Source {
        pieces,
        piece: Bytes::new(),
    };
    let (done, loaded) = oneshot::channel();
    Builder::new()
        .name("snapshot".to_owned())
        .spawn(move || {
            give_way();
            // Fails only if the sender is gone.
            let _ = done.send(receiving.read_if(form, &mut source, &allow));
        })
        .map_err(ReceiveError::Input)?;
    loop {
        let piece = match timeout(SILENCE_MAX, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => Ok(frame.into_data().unwrap_or_default()),
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Err(silence) => Err(silence.into()),
        };
        let ends = piece.is_err();
        // If the loading thread accepts no more, it has ended and reports why.
        if sender.send(piece).await.is_err() || ends {
            break;
        }
    }
    drop(sender);
    let lost = |error| ReceiveError::Input(io::Error::other(error));
    let all_here = Instant::now();
    let loaded = loaded.await.map_err(lost)?;
    metrics.snapshot_db_fsync.observe(all_here.elapsed());
    loaded
}

/// The received pieces as a blocking reader.
struct Source {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.piece = piece?,
            }
        }
        let count = out.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}
