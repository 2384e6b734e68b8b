//! Lease calls at a follower. Only the leader can answer them, and clients take an error as the end
//! of their session.

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;

use crate::harness::fleet;

const TTL: i64 = 60;
/// etcd's, for a call to find a leader: 5 s and two election timeouts; and some to spare.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_follower_waits_for_a_leader_before_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = fleet::found(env!("CARGO_BIN_EXE_stele"), dir.path(), 3, &[]);
    let log = || members.iter().map(|m| m.log()).collect::<String>();
    let ready = || {
        members
            .iter()
            .all(|m| m.log().contains(testkit::READY_LINE))
    };
    fleet::wait("the start", ready, log);
    let mut clients = Vec::new();
    for member in &members {
        clients.push(Client::connect(member.url.clone()).await.unwrap());
    }
    let grant = pb::LeaseGrantRequest { ttl: TTL, id: 7 };
    clients[0].lease().lease_grant(grant).await.unwrap();
    let leader = status(&clients[0]).await.leader;
    let mut followers = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        if status(client).await.header.unwrap().member_id == leader {
            members[at].kill();
        } else {
            followers.push(client);
        }
    }
    assert_eq!(followers.len(), 2);
    for client in followers {
        let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: 7 }]);
        let renewed = tokio::time::timeout(PATIENCE, async {
            let mut lease = client.lease();
            let mut answers = lease.lease_keep_alive(renewals).await.unwrap().into_inner();
            answers.message().await.unwrap().unwrap()
        });
        assert_eq!(renewed.await.unwrap().ttl, TTL);
        let question = pb::LeaseTimeToLiveRequest { id: 7, keys: false };
        let told = client.lease().lease_time_to_live(question).await.unwrap();
        assert_eq!(told.into_inner().granted_ttl, TTL);
    }
}

async fn status(client: &Client) -> pb::StatusResponse {
    let mut maintenance = client.maintenance();
    let status = maintenance.status(pb::StatusRequest {}).await;
    status.unwrap().into_inner()
}
