//! The services for locks and elections, compared with etcd: both get the same requests in the same
//! order, so answers must be equal, revisions included.

mod election;
mod lock;
mod users;

use std::fmt::Debug;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::ResponseHeader;
use testkit::{Launch, Server, Tools};
use tonic::{Response, Status};

const POLL: Duration = Duration::from_millis(2);

/// One server, and what it answered.
struct Side {
    server: Server,
    client: Client,
    said: Vec<String>,
}

impl Side {
    async fn start(launch: Launch) -> Side {
        let server = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let client = Client::connect(server.url()).await.unwrap();
        Side {
            server,
            client,
            said: Vec::new(),
        }
    }

    /// Keeps an answer for the comparison.
    fn say<T: Debug>(&mut self, what: &str, answer: Result<Response<T>, Status>) {
        self.said.push(match answer {
            Ok(answer) => format!("{what}: {:?}", answer.into_inner()),
            Err(status) => format!("{what}: {:?} {}", status.code(), status.message()),
        });
    }

    async fn grant(&self, id: i64, ttl: i64) {
        let request = pb::LeaseGrantRequest { ttl, id };
        self.client.lease().lease_grant(request).await.unwrap();
    }

    async fn revoke(&self, id: i64) {
        let request = pb::LeaseRevokeRequest { id };
        self.client.lease().lease_revoke(request).await.unwrap();
    }

    async fn exists(&self, key: &str) -> bool {
        let request = pb::RangeRequest {
            key: key.to_owned().into(),
            ..Default::default()
        };
        self.client
            .kv()
            .range(request)
            .await
            .unwrap()
            .into_inner()
            .count
            == 1
    }

    /// Until `key` exists, or until it does not.
    async fn until(&self, key: &str, exists: bool) {
        while self.exists(key).await != exists {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Only the term differs between a server of one kind and the other.
fn without_term(header: &mut Option<ResponseHeader>) {
    header.as_mut().unwrap().raft_term = 0;
}

fn lease_of(key: &[u8]) -> i64 {
    let key = std::str::from_utf8(key).unwrap();
    i64::from_str_radix(key.rsplit('/').next().unwrap(), 16).unwrap()
}

/// Plays `scene` at etcd and at Stele; what they answered must be equal.
async fn beside_etcd(name: &str, scene: impl AsyncFn(&mut Side)) {
    beside_etcd_with(&[], name, scene).await;
}

async fn beside_etcd_with(flags: &[&str], name: &str, scene: impl AsyncFn(&mut Side)) {
    let stele = Launch::program(env!("CARGO_BIN_EXE_stele"));
    let mut stele = Side::start(stele.flags(flags)).await;
    scene(&mut stele).await;
    let Some(tools) = Tools::or_skip(name) else {
        return;
    };
    let mut etcd = Side::start(Launch::etcd(&tools).flags(flags)).await;
    scene(&mut etcd).await;
    let (etcd, stele) = (etcd.said.join("\n"), stele.said.join("\n"));
    assert_eq!(etcd, stele, "\netcd:\n{etcd}\n\nStele:\n{stele}");
}
