//! Hashes of this member's history and of its peers'.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{EtcdServer, run_blocking};
use crate::basics::error::Error;
use crate::member::cluster::corruption::PeerHash;
use crate::state::hashes::KvHash;

impl EtcdServer {
    /// The HashKV digest of history up to `revision` (0: the current revision).
    pub(crate) async fn hash_kv(&self, revision: i64) -> Result<KvHash, Error> {
        let began = self.0.clock.now();
        // One at a time, because each digest reads the whole store.
        let turn = Arc::clone(&self.0.hash_turn).acquire_owned().await;
        let turn = turn.map_err(|_| Error::Stopped)?;
        let (hashes, view) = (Arc::clone(&self.0.hashes), self.view());
        let (here, mut asked) = oneshot::channel::<Infallible>();
        let hash = run_blocking(move || {
            // Held until the work ends, even if the client leaves earlier.
            let _turn = turn;
            hashes.at_while(&view, revision, &mut || match asked.try_recv() {
                Err(TryRecvError::Closed) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        });
        let hash = hash.await;
        drop(here);
        self.0
            .metrics
            .hash_revision
            .observe(self.0.clock.now() - began);
        hash
    }

    /// The known digests of the last compactions, newest first.
    pub(crate) fn compaction_hashes(&self) -> Vec<KvHash> {
        self.0.hashes.finished()
    }

    pub(crate) fn stop_hashing(&self) {
        self.0.hashes.stop();
    }

    /// The other members' digests of history up to `revision`.
    pub(crate) async fn peer_hashes(
        &self,
        revision: i64,
        patience: Duration,
    ) -> Result<Vec<PeerHash>, Error> {
        let members = self.members()?;
        Ok(self.0.peers.hashes(&members, revision, patience).await)
    }
}
