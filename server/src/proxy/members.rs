//! What clients are told of the cluster's members: the proxies, so that clients that follow the
//! members stay with them.
//!
//! With `--resolver-prefix`, each proxy registers under a key that expires with its lease, in the
//! form of etcd's endpoint manager, and lists all that are registered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::mvccpb::event::EventType;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::forward::Along;
use super::kv::Kv;
use super::settings::Resolver;
use super::upstream::Upstream;

/// Pause after registering, or reading who is registered, has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Renewals of a registration within its time to live.
const RENEWALS: u32 = 3;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Members {
    upstream: Upstream,
    kv: Kv,
    host: String,
    /// Of this proxy; empty: clients are told the members' own addresses.
    advertised: String,
    /// Registered proxies by key.
    registered: Arc<Mutex<BTreeMap<Bytes, pb::Member>>>,
}

/// The value of a registration: etcd's, with its names.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Registration {
    #[serde(default)]
    op: u8,
    #[serde(default)]
    addr: String,
    /// JSON in a string.
    #[serde(default)]
    metadata: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

impl Registration {
    fn member(value: &[u8]) -> Option<pb::Member> {
        let this: Registration = serde_json::from_slice(value).ok()?;
        let metadata = this.metadata.unwrap_or_default();
        let metadata: Metadata = serde_json::from_str(&metadata).unwrap_or_default();
        Some(pb::Member {
            name: metadata.name,
            client_urls: vec![this.addr],
            ..pb::Member::default()
        })
    }
}

impl Members {
    pub(super) fn new(upstream: Upstream, kv: Kv, advertised: String) -> Members {
        let host = rustix::system::uname();
        Members {
            upstream,
            kv,
            host: host.nodename().to_string_lossy().into_owned(),
            advertised,
            registered: Arc::default(),
        }
    }

    /// Begins to register this proxy, and to follow who else is registered.
    pub(super) fn start(&self, resolver: &Resolver) {
        tokio::spawn(self.clone().register(resolver.clone()));
        tokio::spawn(self.clone().follow(resolver.prefix.clone()));
    }

    /// `None`: the cluster itself is to be asked.
    pub(super) fn list(&self) -> Option<pb::MemberListResponse> {
        if self.advertised.is_empty() {
            return None;
        }
        let mut members: Vec<_> = self.registered.lock().values().cloned().collect();
        if members.is_empty() {
            members.push(pb::Member {
                name: self.host.clone(),
                client_urls: vec![self.advertised.clone()],
                ..pb::Member::default()
            });
        }
        Some(pb::MemberListResponse {
            header: None,
            members,
        })
    }

    async fn register(self, resolver: Resolver) {
        loop {
            match self.register_once(&resolver).await {
                Ok(lease) => {
                    tracing::info!(
                        addr = self.advertised,
                        "lease-ttl" = resolver.ttl,
                        "registered session with lease"
                    );
                    self.renew(lease, resolver.ttl).await;
                    tracing::warn!("session expired; possible network partition or server restart");
                    tracing::warn!("creating a new session to rejoin");
                }
                Err(status) => {
                    tracing::warn!(error = status.message(), "failed to create a session");
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn register_once(&self, resolver: &Resolver) -> Result<i64, Status> {
        let grant = pb::LeaseGrantRequest {
            ttl: resolver.ttl,
            id: 0,
        };
        let mut lease = LeaseClient::new(self.upstream.clone());
        let lease = lease.lease_grant(grant).await?.into_inner().id;
        let metadata = Metadata {
            name: self.host.clone(),
        };
        let value = Registration {
            op: 0,
            addr: self.advertised.clone(),
            metadata: serde_json::to_string(&metadata).ok(),
        };
        let value = serde_json::to_vec(&value).map_err(|e| Status::internal(e.to_string()))?;
        let put = pb::PutRequest {
            key: format!("{}/{}", resolver.prefix, self.advertised).into(),
            value: value.into(),
            lease,
            ..pb::PutRequest::default()
        };
        let txn = pb::TxnRequest {
            success: vec![pb::RequestOp {
                request: Some(Request::RequestPut(put)),
            }],
            ..pb::TxnRequest::default()
        };
        self.kv.txn(&Along::default(), txn).await?;
        Ok(lease)
    }

    /// Renews until the lease is gone.
    async fn renew(&self, id: i64, ttl: i64) {
        let pause = Duration::from_secs(ttl.unsigned_abs()) / RENEWALS;
        loop {
            tokio::time::sleep(pause).await;
            let mut lease = LeaseClient::new(self.upstream.clone());
            let requests = tokio_stream::once(pb::LeaseKeepAliveRequest { id });
            let Ok(answers) = lease.lease_keep_alive(requests).await else {
                continue;
            };
            if let Ok(Some(answer)) = answers.into_inner().message().await
                && answer.ttl <= 0
            {
                return;
            }
        }
    }

    async fn follow(self, prefix: String) {
        loop {
            match self.follow_once(&prefix).await {
                Ok(()) => tracing::info!("endpoints watch channel closed"),
                Err(status) => tracing::warn!(
                    prefix,
                    error = status.message(),
                    "failed to establish endpoint watch"
                ),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Reads who is registered and follows the changes until the watch ends.
    async fn follow_once(&self, prefix: &str) -> Result<(), Status> {
        let key = Bytes::from(format!("{prefix}/"));
        // The character behind the slash.
        let end = Bytes::from(format!("{prefix}0"));
        let range = pb::RangeRequest {
            key: key.clone(),
            range_end: end.clone(),
            serializable: true,
            ..pb::RangeRequest::default()
        };
        let read = self.kv.read(&Along::default(), range).await?;
        let members = read.kvs.into_iter();
        let members = members.filter_map(|kv| Some((kv.key, Registration::member(&kv.value)?)));
        *self.registered.lock() = members.collect();

        let mut create = pb::WatchCreateRequest {
            key,
            range_end: end,
            start_revision: read.header.map_or(0, |header| header.revision) + 1,
            ..pb::WatchCreateRequest::default()
        };
        let namespace = self.kv.namespace();
        namespace.enter(&mut create.key, &mut create.range_end)?;
        let create = pb::watch_request::RequestUnion::CreateRequest(create);
        let create = pb::WatchRequest {
            request_union: Some(create),
        };
        let requests =
            tokio_stream::StreamExt::chain(tokio_stream::once(create), tokio_stream::pending());
        let mut watch = WatchClient::new(self.upstream.clone());
        let mut answers = watch.watch(requests).await?.into_inner();
        while let Some(mut answer) = answers.message().await? {
            namespace.leave_events(&mut answer.events);
            if answer.canceled {
                return Ok(());
            }
            let mut registered = self.registered.lock();
            for event in answer.events {
                let Some(kv) = event.kv else { continue };
                match Registration::member(&kv.value) {
                    _ if event.r#type == EventType::Delete as i32 => {
                        registered.remove(&kv.key);
                    }
                    Some(member) => {
                        registered.insert(kv.key, member);
                    }
                    None => tracing::warn!(
                        key = %String::from_utf8_lossy(&kv.key),
                        "unmarshal endpoint update failed"
                    ),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_have_etcds_form() {
        let value = Registration {
            op: 0,
            addr: "127.0.0.1:23790".into(),
            metadata: Some(r#"{"name":"host"}"#.into()),
        };
        let text = serde_json::to_string(&value).unwrap();
        let etcds = r#"{"Op":0,"Addr":"127.0.0.1:23790","Metadata":"{\"name\":\"host\"}"}"#;
        assert_eq!(text, etcds);
        let member = Registration::member(etcds.as_bytes()).unwrap();
        assert_eq!(member.name, "host");
        assert_eq!(member.client_urls, ["127.0.0.1:23790"]);
        assert!(Registration::member(b"text").is_none());
    }
}
