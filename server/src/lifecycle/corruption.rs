//! Schedules the corruption checks: before a member serves (`InitialCorruptCheck`), periodically by
//! the leader (`--corrupt-check-time`), and by the leader after compactions (`CompactHashCheck`).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;

use crate::basics::error::Error;
use crate::config::{self, Config, Url};
use crate::member::cluster::corruption::{self, Compared};
use crate::member::cluster::peer::{self, Dialer, Introduction};
use crate::member::data_dir::DataDir;
use crate::request::Request;
use crate::runtime::etcd_server::{EtcdServer, REQUEST_TIMEOUT};
use crate::state::hashes;

/// Compares this member's data with its peers' before it serves or votes. Skipped if the directory
/// is empty.
pub(super) async fn check_initially(
    config: &Config,
    data: &DataDir,
    dialer: &Dialer,
) -> Result<(), String> {
    if data.is_new || !config.gate("InitialCorruptCheck") {
        return Ok(());
    }
    let id = format!("{:x}", data.member_id);
    let patience = patience(config);
    tracing::info!(
        "local-member-id" = id,
        timeout = config::duration(patience),
        "starting initial corruption check"
    );
    let failed = |error: &dyn std::fmt::Display| format!("{id} failed to fetch hash ({error})");
    let root = data.state.store.root();
    let own = hashes::current(root, &mut || ControlFlow::Continue(()));
    let own = own.map_err(|error| failed(&error))?;
    let members = data.members().map_err(|error| failed(&error))?;
    let revision = own.hash_revision;
    let me = Introduction {
        member_id: data.member_id,
        cluster_id: data.cluster_id,
        peer_urls: Url::texts(&config.initial_advertise_peer_urls),
    };
    let asked = peer::hashes(dialer, &me, &members, revision, patience).await;
    corruption::initial(data.member_id, &own, &asked)?;
    tracing::info!(
        "local-member-id" = id,
        "initial corruption checking passed; no corruption"
    );
    Ok(())
}

/// Runs until the server stops.
pub(super) async fn keep(server: EtcdServer, config: Arc<Config>) {
    let patience = patience(&config);
    let by_time = periodically(&server, config.corrupt_check_time, patience);
    let every = config.compact_hash_check_time;
    let every = config.gate("CompactHashCheck").then_some(every);
    let by_compaction = after_compactions(&server, every, patience);
    tokio::join!(by_time, by_compaction);
}

async fn periodically(server: &EtcdServer, every: Option<Duration>, patience: Duration) {
    let Some(every) = every else {
        return;
    };
    tracing::info!(
        "local-member-id" = format!("{:x}", server.identity().member_id),
        interval = config::duration(every),
        "enabled corruption checking"
    );
    loop {
        tokio::time::sleep(every).await;
        if server.is_leader()
            && let Err(error) = check_periodically(server, patience).await
        {
            tracing::warn!(%error, "failed to check hash KV");
        }
    }
}

async fn check_periodically(server: &EtcdServer, patience: Duration) -> Result<(), Error> {
    let first = server.hash_kv(0).await?;
    let peers = server.peer_hashes(first.hash_revision, patience).await?;
    server.linearizable().await?;
    let second = server.hash_kv(0).await?;
    let own_id = server.identity().member_id;
    match corruption::periodic(own_id, &first, &second, &peers) {
        Some(corrupt) => raise(server, corrupt).await,
        None => Ok(()),
    }
}

async fn after_compactions(server: &EtcdServer, every: Option<Duration>, patience: Duration) {
    let Some(every) = every else {
        return;
    };
    // Newest revision that was compared on all members.
    let mut checked = 0;
    loop {
        tokio::time::sleep(every).await;
        if !server.is_leader() {
            continue;
        }
        match check_compactions(server, &mut checked, patience).await {
            Ok(count) => tracing::info!(
                "number-of-hashes-checked" = count,
                "finished compaction hash check"
            ),
            Err(error) => tracing::warn!(%error, "failed to check compaction hashes"),
        }
    }
}

/// Compares compactions, from the newest to the first that all members could compare. Returns how
/// many were compared.
async fn check_compactions(
    server: &EtcdServer,
    checked: &mut i64,
    patience: Duration,
) -> Result<usize, Error> {
    let own_id = server.identity().member_id;
    tracing::info!(
        "local-member-id" = format!("{own_id:x}"),
        timeout = config::duration(patience),
        "starting compact hash check"
    );
    let mut count = 0;
    for hash in server.compaction_hashes() {
        if hash.hash_revision <= *checked {
            break;
        }
        count += 1;
        let peers = server.peer_hashes(hash.hash_revision, patience).await?;
        if peers.is_empty() {
            continue;
        }
        match corruption::at_compaction(own_id, &hash, &peers) {
            Compared::Incomplete => {}
            Compared::Same => {
                *checked = hash.hash_revision;
                break;
            }
            Compared::Corrupt(members) => {
                for member in members {
                    raise(server, member).await?;
                }
                break;
            }
        }
    }
    Ok(count)
}

/// Raises the CORRUPT alarm, which stops all changes, unless it is raised already.
async fn raise(server: &EtcdServer, member_id: u64) -> Result<(), Error> {
    let alarm = pb::AlarmType::Corrupt as i32;
    let raised = pb::AlarmMember { member_id, alarm };
    if server.alarms()?.contains(&raised) {
        return Ok(());
    }
    let request = Request::Alarm(pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id,
        alarm,
    });
    server.propose(request).await.map(drop)
}

/// Timeout of one request to one member.
fn patience(config: &Config) -> Duration {
    REQUEST_TIMEOUT + 2 * config.election_timeout
}
