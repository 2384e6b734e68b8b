//! The versions that members report: whether this member can join them.

use std::time::Duration;

use serde::Deserialize;

use crate::config::{CLUSTER_VERSION, MIN_CLUSTER_VERSION};
use crate::member::cluster::peer::Dialer;
use crate::state::MemberInfo;

const VERSION_PATIENCE: Duration = Duration::from_secs(7);

/// The fields of `/version` that matter here.
#[derive(Debug, Deserialize)]
pub(crate) struct Versions {
    pub etcdserver: String,
    pub etcdcluster: String,
}

impl Versions {
    pub(in super::super) fn of(body: &[u8]) -> Option<Versions> {
        serde_json::from_slice(body).ok()
    }
}

/// The versions that the member at one of these URLs reports.
pub(crate) async fn versions(dialer: &Dialer, urls: &[String]) -> Option<Versions> {
    for url in urls {
        if let Ok(answer) = dialer.get(url, "/version", VERSION_PATIENCE).await
            && let Some(versions) = Versions::of(&answer.body)
        {
            return Some(versions);
        }
    }
    None
}

/// Major and minor version.
pub(crate) fn minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// True if at least one member knows the cluster version, and no member reports one that this
/// version cannot speak.
pub(super) async fn is_compatible(dialer: &Dialer, others: &[&MemberInfo]) -> bool {
    let mut newest = minor(CLUSTER_VERSION).unwrap_or_default();
    let mut oldest = minor(MIN_CLUSTER_VERSION).unwrap_or_default();
    if downgrades(dialer, others).await {
        newest.1 += 1;
        oldest = newest;
    }
    let mut told = false;
    for member in others {
        let Some(versions) = versions(dialer, &member.peer_urls).await else {
            let id = format!("{:x}", member.id);
            tracing::warn!("remote-member-id" = id, "failed to get version");
            continue;
        };
        let Some(version) = minor(&versions.etcdcluster) else {
            continue; // Not decided yet.
        };
        if version < oldest || version > newest {
            tracing::warn!(
                "remote-member-id" = format!("{:x}", member.id),
                "remote-member-cluster-version" = versions.etcdcluster,
                "cluster version of remote member is not compatible"
            );
            return false;
        }
        if lacks_checks(&versions.etcdserver) {
            tracing::warn!(
                "remote-member-id" = format!("{:x}", member.id),
                "remote-member-server-version" = versions.etcdserver,
                "the remote member does not check all permissions of a transaction; upgrade it to \
                 etcd 3.5.31, 3.6.11 or later before you use authentication: else its data and this \
                 member's may differ"
            );
        }
        told = true;
    }
    told
}

async fn downgrades(dialer: &Dialer, others: &[&MemberInfo]) -> bool {
    for url in others.iter().flat_map(|member| &member.peer_urls) {
        let asked = dialer
            .get(url, "/downgrade/enabled", VERSION_PATIENCE)
            .await;
        if let Ok(answer) = asked
            && answer.status == 200
        {
            return answer.body.as_ref() == b"true";
        }
    }
    false
}

/// True for releases of etcd before those that check all permissions of a transaction.
fn lacks_checks(version: &str) -> bool {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some([3, 6, patch]) => *patch < 11,
        Some([3, 5, patch]) => *patch < 31,
        Some([3, minor, _]) => *minor < 5,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_without_all_checks_are_told_from_those_with_them() {
        for (version, lacks) in [
            ("3.4.40", true),
            ("3.5.30", true),
            ("3.5.31", false),
            ("3.6.10", true),
            ("3.6.11", false),
            ("3.7.0", false),
            ("3.8.0-alpha.0", false),
        ] {
            assert_eq!(lacks_checks(version), lacks, "{version}");
        }
    }
}
