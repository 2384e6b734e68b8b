//! The receiving end of a transfer. If its connection breaks, the thread that loads the state waits
//! for the rest: the sender asks how much is here, and goes on from there.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use raft::Message;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::super::page::header_of;
use super::{NUMBER_HEADER, PIECES_WAITING, Piece, SILENCE_MAX, give_way};
use crate::state::snapshot::{Form, ReceiveError, Received, Receiving};
use crate::telemetry::metrics::Metrics;

/// How long the part of a state that is here waits for the rest.
pub(in super::super) const REST_MAX: Duration = Duration::from_secs(60);

type Loaded = Result<(Message, Received), ReceiveError>;

/// Names a transfer: its sender, and the number that the sender gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Name {
    from: u64,
    number: u64,
}

impl Name {
    /// `None` if the sender does not go on with transfers: an etcd member, or an older one of ours.
    pub(in super::super) fn of<B>(request: &Request<B>, from: Option<u64>) -> Option<Name> {
        let number = header_of(request, NUMBER_HEADER)?;
        let number = u64::from_str_radix(number, 16).ok()?;
        Some(Name {
            from: from?,
            number,
        })
    }
}

/// What is here of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Arrived {
    Nothing,
    /// Its former connection is still being read.
    Reading,
    Bytes(u64),
}

/// The transfer that arrives, or that broke off; there is at most one.
#[derive(Default)]
pub(in super::super) struct Arrivals(Mutex<Option<Slot>>);

enum Slot {
    Reading(Reading),
    Broken(Name, Arrival),
}

/// A transfer whose connection is being read.
struct Reading {
    name: Option<Name>,
    is_known: bool,
    /// Ends it.
    given_up: Arc<Notify>,
    /// Closes when it has ended.
    over: oneshot::Receiver<Infallible>,
}

/// A state on its way to the thread that loads it.
pub(in super::super) struct Arrival {
    /// Handed to the thread so far.
    bytes: u64,
    /// A known peer sends it.
    is_known: bool,
    pieces: mpsc::Sender<Piece>,
    loaded: oneshot::Receiver<Loaded>,
}

impl Arrivals {
    /// What is here of a transfer. If its former connection is still being read, that ends: the
    /// sender has given it up.
    pub(in super::super) fn arrived(&self, name: Name) -> Arrived {
        match &*self.0.lock() {
            Some(Slot::Reading(reading)) if reading.name == Some(name) => {
                reading.given_up.notify_one();
                Arrived::Reading
            }
            Some(Slot::Broken(of, arrival)) if *of == name => Arrived::Bytes(arrival.bytes),
            _ => Arrived::Nothing,
        }
    }

    /// Takes a transfer that broke off after this many bytes.
    pub(in super::super) fn resume(&self, name: Name, bytes: u64) -> Option<Arrival> {
        let mut slot = self.0.lock();
        let is_it = |slot: &mut Slot| match slot {
            Slot::Broken(of, arrival) => *of == name && arrival.bytes == bytes,
            Slot::Reading(_) => false,
        };
        match slot.take_if(is_it)? {
            Slot::Broken(_, arrival) => Some(arrival),
            Slot::Reading(_) => None,
        }
    }

    /// Ends the transfer that arrives, unless a known peer sends it: there is one place, which all
    /// other senders could hold for as long as they like.
    pub(in super::super) async fn displace_stranger(&self) {
        while let Some(reading) = self.take_stranger() {
            reading.given_up.notify_one();
            // Nothing is sent; it closes.
            let _ = reading.over.await;
        }
    }

    fn take_stranger(&self) -> Option<Reading> {
        let is_it = |slot: &mut Slot| match slot {
            Slot::Reading(reading) => !reading.is_known,
            Slot::Broken(..) => false,
        };
        match self.0.lock().take_if(is_it)? {
            Slot::Reading(reading) => Some(reading),
            Slot::Broken(..) => None,
        }
    }

    /// Drops a transfer that broke off; returns when its thread has cleared away what was here. That
    /// of a known peer makes way for known peers only.
    pub(in super::super) async fn drop_broken(&self, for_known: bool) {
        let goes = |slot: &mut Slot| match slot {
            Slot::Broken(_, arrival) => for_known || !arrival.is_known,
            Slot::Reading(_) => false,
        };
        let broken = self.0.lock().take_if(goes);
        if let Some(Slot::Broken(_, arrival)) = broken {
            arrival.end("another transfer began").await;
        }
    }

    /// Drops a transfer that broke off after this many bytes, if it does not go on.
    pub(in super::super) async fn expire(&self, name: Name, bytes: u64) {
        tokio::time::sleep(REST_MAX).await;
        if let Some(arrival) = self.resume(name, bytes) {
            tracing::warn!(
                bytes,
                "dropped a part of a database snapshot: its sender did not go on"
            );
            arrival.end("the sender did not go on").await;
        }
    }

    /// Reads a body to its end. `Err` holds the number of bytes that are here if the connection
    /// broke and the sender may go on.
    pub(in super::super) async fn read(
        &self,
        name: Option<Name>,
        mut arrival: Arrival,
        body: Incoming,
        metrics: &Metrics,
    ) -> Result<Loaded, (u64, io::Error)> {
        let given_up = Arc::new(Notify::new());
        let (_under_way, over) = oneshot::channel();
        *self.0.lock() = Some(Slot::Reading(Reading {
            name,
            is_known: arrival.is_known,
            given_up: Arc::clone(&given_up),
            over,
        }));
        let end = arrival.read(body, &given_up).await;
        let bytes = arrival.bytes;
        let end = {
            let mut slot = self.0.lock();
            // Not by its name, which others may have. If the thread ended before, the next transfer
            // may be here already, and keeps the slot.
            slot.take_if(|slot| match slot {
                Slot::Reading(reading) => Arc::ptr_eq(&reading.given_up, &given_up),
                Slot::Broken(..) => false,
            });
            match (name, end) {
                (Some(name), Some(error)) if slot.is_none() => {
                    *slot = Some(Slot::Broken(name, arrival));
                    return Err((bytes, error));
                }
                (_, end) => end,
            }
        };
        if let Some(error) = end {
            // A state without its end must not seem complete.
            let _ = arrival.pieces.send(Err(error)).await;
        }
        let all_here = Instant::now();
        let loaded = arrival.loaded().await;
        metrics.snapshot_db_fsync.observe(all_here.elapsed());
        Ok(loaded)
    }
}

impl Arrival {
    /// Starts the thread that loads the state. `is_known`: a known peer sends it.
    pub(in super::super) fn begin(
        receiving: Receiving,
        form: Form,
        is_known: bool,
        allow: impl Fn(&Message) -> Result<(), String> + Send + 'static,
    ) -> io::Result<Arrival> {
        let (pieces, arriving) = mpsc::channel(PIECES_WAITING);
        let mut source = Source {
            pieces: arriving,
            piece: Bytes::new(),
        };
        let (done, loaded) = oneshot::channel();
        Builder::new().name("snapshot".to_owned()).spawn(move || {
            give_way();
            // Fails only if nobody waits for the state any more.
            let _ = done.send(receiving.read_if(form, &mut source, &allow));
        })?;
        Ok(Arrival {
            bytes: 0,
            is_known,
            pieces,
            loaded,
        })
    }

    /// Reads a body to its end, or until the thread takes no more. Returns why the body broke off.
    async fn read(&mut self, mut body: Incoming, given_up: &Notify) -> Option<io::Error> {
        loop {
            let frame = tokio::select! {
                frame = timeout(SILENCE_MAX, body.frame()) => frame,
                () = given_up.notified() => {
                    return Some(io::Error::other("the sender has given it up"));
                }
            };
            let piece = match frame {
                Ok(frame) => match frame? {
                    Ok(frame) => frame.into_data().unwrap_or_default(),
                    Err(error) => return Some(io::Error::other(error)),
                },
                Err(silence) => return Some(silence.into()),
            };
            let bytes = piece.len() as u64;
            // A thread that takes no more has ended and says why.
            self.pieces.send(Ok(piece)).await.ok()?;
            self.bytes += bytes;
        }
    }

    /// Waits for the thread: all pieces are here.
    async fn loaded(self) -> Loaded {
        drop(self.pieces);
        let lost = |error| ReceiveError::Input(io::Error::other(error));
        self.loaded.await.map_err(lost).and_then(|loaded| loaded)
    }

    /// Ends the thread; what it loaded is cleared away.
    async fn end(self, why: &'static str) {
        let _ = self.pieces.send(Err(io::Error::other(why))).await;
        // What it says of the missing rest helps nobody.
        let _ = self.loaded().await;
    }
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
