//! The cluster version: the oldest minor version among the members. The leader asks the members and
//! decides.

use std::time::Duration;

use etcd_api::membershippb;

use crate::basics::error::Error;
use crate::config::{CLUSTER_VERSION, MIN_CLUSTER_VERSION};
use crate::member::cluster::peer::join::{minor, versions};
use crate::request::Request;
use crate::runtime::etcd_server::EtcdServer;

/// How often a leader asks the members, as in etcd.
const INTERVAL: Duration = Duration::from_secs(4);
/// How soon a new leader notices that it is the leader.
const LOOK: Duration = Duration::from_millis(500);

/// Runs until the server stops.
pub(super) async fn keep(server: EtcdServer) {
    let looks = (INTERVAL.as_millis() / LOOK.as_millis()) as u32;
    let mut passed = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        if !server.is_leader() {
            passed = looks; // Asks at once after becoming the leader.
            continue;
        }
        passed += 1;
        if passed >= looks {
            passed = 0;
            decide(&server).await;
        }
    }
}

/// Sets the cluster version if it is known and has changed. A failure is only told, because
/// [`keep`] decides again: the leadership may have just ended.
pub(super) async fn decide(server: &EtcdServer) {
    if let Err(error) = try_decide(server).await {
        tracing::warn!(%error, "failed to update cluster version");
    }
}

async fn try_decide(server: &EtcdServer) -> Result<(), Error> {
    let decided = server.cluster_version()?;
    let oldest = oldest(server).await?;
    let downgrade = server.downgrade_info()?;
    let target = minor(&downgrade.target).filter(|_| downgrade.enabled);
    let chosen = match (decided.as_deref().and_then(minor), oldest) {
        (None, None) => minor(MIN_CLUSTER_VERSION),
        (None, oldest) => oldest,
        // A downgrade goes one minor version down, and only if all members have that version.
        (Some(decided), Some(oldest)) if target.is_some() => target.filter(|(major, minor)| {
            let next = Some((*major, minor + 1));
            Some(decided) == next && Some(oldest) == next
        }),
        (Some(decided), Some(oldest)) if decided < oldest => Some(oldest),
        _ => None,
    };
    let Some((major, minor)) = chosen else {
        return Ok(());
    };
    let set = membershippb::ClusterVersionSetRequest {
        ver: format!("{major}.{minor}.0"),
    };
    server.propose(Request::ClusterVersionSet(set)).await?;
    Ok(())
}

/// The oldest version among the members; `None` if a member cannot be asked.
async fn oldest(server: &EtcdServer) -> Result<Option<(u64, u64)>, Error> {
    let mut oldest = minor(CLUSTER_VERSION);
    for member in server.members()? {
        if member.id == server.identity().member_id {
            continue;
        }
        let told = versions(server.peers().dialer(), &member.peer_urls).await;
        let Some(theirs) = told.and_then(|told| minor(&told.etcdserver)) else {
            return Ok(None);
        };
        oldest = oldest.min(Some(theirs));
    }
    Ok(oldest)
}
