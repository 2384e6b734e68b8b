//! `--endpoints-auto-sync-interval`: the endpoints follow the cluster's members.

use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use tokio::time::timeout;

use super::Upstream;
use crate::telemetry::logging::json;

/// Limit for the answer, as in etcd.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks for the members every `interval`, for ever.
pub(in crate::proxy) async fn follow(upstream: Upstream, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let mut cluster = ClusterClient::new(upstream.clone());
        // Any member's own list will do.
        let listed = cluster.member_list(pb::MemberListRequest {
            linearizable: false,
        });
        match timeout(PATIENCE, listed).await {
            Ok(Ok(listed)) => take_over(&upstream, listed.into_inner().members),
            Ok(Err(error)) => {
                tracing::info!(error = error.message(), "Auto sync endpoints failed.");
            }
            Err(_) => {
                tracing::info!(
                    error = "context deadline exceeded",
                    "Auto sync endpoints failed."
                );
            }
        }
    }
}

/// Learners answer few calls, and members that have not started have no URLs yet.
fn take_over(upstream: &Upstream, members: Vec<pb::Member>) {
    let voters = members.into_iter().filter(|member| !member.is_learner);
    let urls: Vec<String> = voters.flat_map(|member| member.client_urls).collect();
    let endpoints: Vec<_> = urls
        .iter()
        .filter_map(|url| upstream.endpoint(url).ok())
        .collect();
    if !endpoints.is_empty() && upstream.set_endpoints(endpoints) {
        tracing::info!(endpoints = %json(&urls), "synchronized the endpoints with the cluster's members");
    }
}
