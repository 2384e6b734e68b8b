//! The page `/version`, which clients and other members ask for.

use crate::config::ETCD_VERSION;
use crate::runtime::etcd_server::EtcdServer;

/// The versions of the server, of the cluster, and of what is stored, which follows the cluster's.
pub(super) fn versions(server: &EtcdServer) -> String {
    let decided = server.cluster_version().ok().flatten();
    let cluster = decided.as_deref().unwrap_or("not_decided");
    let storage = decided.as_deref().unwrap_or("unknown");
    format!(
        "{{\"etcdserver\":\"{ETCD_VERSION}\",\"etcdcluster\":\"{cluster}\",\"storage\":\"{storage}\"}}"
    )
}
