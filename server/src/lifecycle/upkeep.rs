//! What a member does by itself while it serves.

use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use storage::encryption::DataKeys;
use tokio::task::JoinSet;

use super::{corruption, versions};
use crate::basics::clock::Clock;
use crate::basics::error::Error;
use crate::config::keys::{Follower, KeyChange};
use crate::config::{self, AutoCompaction, Config};
use crate::request::Request;
use crate::runtime::compactor::Compactor;
use crate::runtime::etcd_server::EtcdServer;

/// Starts all of it; it ends with the set.
pub(super) fn start(
    server: &EtcdServer,
    config: &Arc<Config>,
    data_keys: Option<Arc<DataKeys>>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(server.clone().keep_watch_over_leader());
    tasks.spawn(versions::keep(server.clone()));
    tasks.spawn(corruption::keep(server.clone(), Arc::clone(config)));
    tasks.spawn(compact_by_itself(server.clone(), Arc::clone(config)));
    let keys = config.encryption.clone().zip(data_keys);
    let keys = keys.map(|(source, data_keys)| Follower::new(source, data_keys));
    tasks.spawn(follow_keys(server.clone(), keys));
    tasks
}

/// Follows changes of the encryption keys while the server runs: the first key encrypts new data.
async fn follow_keys(server: EtcdServer, mut keys: Option<Follower>) {
    while let Some(mut now) = keys.take() {
        tokio::time::sleep(now.interval()).await;
        let looking = tokio::task::spawn_blocking(move || (now.look(), now));
        let Ok((look, same)) = looking.await else {
            return;
        };
        keys = Some(same);
        match look {
            KeyChange::Same => {}
            KeyChange::Changed => {
                tracing::info!("the encryption key for new data has changed");
                if server.keys_changed().is_err() {
                    return;
                }
            }
            KeyChange::Refused(error) => {
                tracing::warn!(error, "cannot use the encryption keys as they are now");
            }
        }
    }
}

async fn compact_by_itself(server: EtcdServer, config: Arc<Config>) {
    let clock = Clock::start();
    let Some(mut compactor) = Compactor::new(config.auto_compaction, clock.now()) else {
        return;
    };
    let mode = match config.auto_compaction {
        AutoCompaction::Revision(_) => "revision",
        AutoCompaction::Periodic(_) | AutoCompaction::Off => "periodic",
    };
    loop {
        tokio::time::sleep(compactor.next().saturating_sub(clock.now())).await;
        let Some(revision) = compactor.turn(clock.now(), server.view().revision()) else {
            continue;
        };
        if !server.is_leader() {
            continue;
        }
        let request = pb::CompactionRequest {
            revision,
            physical: false,
        };
        tracing::info!(revision, "starting auto {mode} compaction");
        let began = clock.now();
        match server.propose(Request::Compaction(request)).await {
            // A client may have compacted further already.
            Ok(_) | Err(Error::Compacted) => {
                let took = config::duration(clock.now() - began);
                tracing::info!(revision, took, "completed auto {mode} compaction");
            }
            Err(error) => {
                tracing::warn!(revision, %error, "failed auto {mode} compaction");
                continue;
            }
        }
        compactor.done(clock.now(), revision);
    }
}
