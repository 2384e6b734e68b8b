//! The answer to `Maintenance.Snapshot`: a database file in pieces, then a digest of the whole
//! file.
//!
//! A blocking thread writes the file and waits for the client at each piece; it holds only a view
//! and a few pieces. The stream of a client that stops reading is ended, because a view keeps pages
//! from being reused.

use std::io::{self, Write};

use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb::SnapshotResponse;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

use super::limits::patience::Patience;
use crate::basics::error::Error;
use crate::runtime::etcd_server::EtcdServer;
use crate::state::snapshot::{Snapshot, WriteError};

/// Bytes of the file in one message, as in etcd.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces queued for the client: enough to keep it busy, and small in memory.
const PIECES_WAITING: usize = 16;
/// Snapshots sent at the same time.
pub(super) const SENDING_MAX: usize = 8;

pub(super) type Piece = Result<SnapshotResponse, Status>;

/// Sends the snapshot file of `server`'s current state into the returned channel. Must be called
/// inside a runtime.
pub(super) fn send(server: &EtcdServer, permit: OwnedSemaphorePermit) -> mpsc::Receiver<Piece> {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING + 1);
    // A client that is given up has taken nothing, so the other places are full then. Without an
    // error, what it has got would look like the whole file.
    let last_word = sender.clone().try_reserve_owned();
    let last_word = last_word.expect("nothing was sent yet");
    let runtime = Handle::current();
    let (server, view) = (server.clone(), server.view());
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let began = server.now();
        match run(&server, view, &sender, &runtime) {
            Ok(()) => server
                .metrics()
                .backend_snapshot
                .observe(server.now() - began),
            Err(error) => drop(last_word.send(Err(error))),
        }
    });
    receiver
}

fn run(
    server: &EtcdServer,
    view: storage::mvcc::View,
    sender: &mpsc::Sender<Piece>,
    runtime: &Handle,
) -> Result<(), Status> {
    let snapshot = Snapshot::of_while(view, &|| !sender.is_closed()).map_err(status)?;
    tracing::info!(
        "total-bytes" = snapshot.file_bytes(),
        "storage-version" = snapshot.version(),
        "sending database snapshot to client"
    );
    let mut pieces = Pieces {
        server,
        sender,
        runtime,
        remaining: snapshot.file_bytes(),
        version: snapshot.version().to_owned(),
        buffer: BytesMut::with_capacity(PIECE_BYTES),
        digest: digest::Context::new(&digest::SHA256),
        patience: Patience::new(),
    };
    snapshot.write(&mut pieces).map_err(status)?;
    pieces.finish().map_err(|error| status(error.into()))?;
    tracing::info!(
        "total-bytes" = snapshot.file_bytes(),
        "successfully sent database snapshot to client"
    );
    Ok(())
}

/// Logs what the operator has to know: a client that has gone is none of it.
fn status(error: WriteError) -> Status {
    match error {
        WriteError::Data(error) => {
            tracing::warn!(%error, "failed to send database snapshot to client");
            error.into()
        }
        // The client has gone, or was given up.
        WriteError::Sink(_) => Error::Timeout.into(),
    }
}

/// Cuts a file into messages.
struct Pieces<'a> {
    server: &'a EtcdServer,
    sender: &'a mpsc::Sender<Piece>,
    runtime: &'a Handle,
    /// Bytes of the file not yet put into a message.
    remaining: u64,
    version: String,
    buffer: BytesMut,
    digest: digest::Context,
    patience: Patience,
}

impl Pieces<'_> {
    fn send(&mut self, blob: Bytes) -> io::Result<()> {
        let bytes = blob.len() as u64;
        let response = SnapshotResponse {
            header: None,
            remaining_bytes: self.remaining,
            blob,
            version: self.version.clone(),
        };
        let sent = self.sender.send(Ok(response));
        let sent = self.patience.wait(self.server, sent);
        match self.runtime.block_on(sent) {
            Some(Ok(())) => {
                self.patience.gave(bytes);
                Ok(())
            }
            Some(Err(_)) => Err(io::Error::other("the client has gone")),
            None => Err(io::Error::other("the client takes nothing any more")),
        }
    }

    fn send_piece(&mut self) -> io::Result<()> {
        let blob = self.buffer.split().freeze();
        self.buffer.reserve(PIECE_BYTES);
        self.digest.update(&blob);
        self.remaining -= blob.len() as u64;
        self.send(blob)
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.send_piece()?;
        }
        let digest = self.digest.clone().finish();
        self.send(Bytes::copy_from_slice(digest.as_ref()))
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PIECE_BYTES {
            self.send_piece()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
