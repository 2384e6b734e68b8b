//! `v3lockpb.Lock`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etcd_api::etcdserverpb as pb;
use etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use testkit::Launch;
use tokio::task::{JoinHandle, JoinSet};
use tonic::{Response, Status};

use super::{Side, beside_etcd, lease_of, without_term};

const CONTENDERS: i64 = 20;

type Locked = Result<Response<LockResponse>, Status>;

impl Side {
    /// Asks in a task: the answer may be long in coming.
    fn locking(&self, name: &str, lease: i64) -> JoinHandle<Locked> {
        let mut client = self.client.lock();
        let name = name.to_owned().into();
        tokio::spawn(async move {
            let answer = client.lock(LockRequest { name, lease }).await;
            answer.map(|mut answer| {
                without_term(&mut answer.get_mut().header);
                answer
            })
        })
    }

    async fn lock(&mut self, name: &str, lease: i64) {
        let answer = self.locking(name, lease).await.unwrap();
        self.say(&format!("lock {name} with {lease}"), answer);
    }

    async fn unlock(&mut self, key: &str) {
        let key = key.to_owned().into();
        let answer = self.client.lock().unlock(UnlockRequest { key }).await;
        let answer = answer.map(|mut answer| {
            without_term(&mut answer.get_mut().header);
            answer
        });
        self.say("unlock", answer);
    }
}

#[tokio::test]
async fn a_lock_goes_from_one_to_the_next_in_the_order_of_coming() {
    beside_etcd("locks", async |side| {
        for lease in 1..=4 {
            side.grant(lease, 1000).await;
        }
        side.lock("l", 1).await;
        side.lock("l", 1).await;
        let second = side.locking("l", 2);
        side.until("l/2", true).await;
        let third = side.locking("l", 3);
        side.until("l/3", true).await;
        let fourth = side.locking("l", 4);
        side.until("l/4", true).await;
        // It waits, and asks again from elsewhere: its place is the one it has.
        let again = side.locking("l", 2);
        // One in the middle gives up its place.
        side.revoke(3).await;
        side.until("l/3", false).await;
        assert!(!second.is_finished() && !fourth.is_finished());
        side.unlock("l/1").await;
        side.say("second", second.await.unwrap());
        side.say("again", again.await.unwrap());
        side.unlock("l/2").await;
        side.say("third", third.await.unwrap());
        side.say("fourth", fourth.await.unwrap());
        side.unlock("l/4").await;
        side.unlock("l/4").await;
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_locked_is_refused_in_etcds_words() {
    beside_etcd("refused locks", async |side| {
        side.lock("l", 99).await;
        side.lock("l", -1).await;
        side.unlock("").await;
        side.unlock("unknown").await;
        side.grant(-255, 1000).await;
        side.lock("l", -255).await;
        side.lock("", -255).await;
        side.lock("l/", -255).await;
        let large = "l".repeat(1_572_864);
        let answer = side.locking(&large, -255).await.unwrap();
        side.say("a name as large as a request may be", answer);
    })
    .await;
}

#[tokio::test]
async fn who_brings_no_lease_gets_one_for_a_minute() {
    beside_etcd("a session's own lease", async |side| {
        let locked = side.locking("l", 0).await.unwrap().unwrap().into_inner();
        let id = lease_of(&locked.key);
        let request = pb::LeaseTimeToLiveRequest { id, keys: true };
        let lease = side.client.lease().lease_time_to_live(request).await;
        let lease = lease.unwrap().into_inner();
        assert_eq!(lease.keys, [locked.key]);
        side.said
            .push(format!("{:?} {}", locked.header, lease.granted_ttl));
    })
    .await;
}

/// Twice: its lease ends by itself while it waits, and its caller goes away.
#[tokio::test]
async fn whoever_stops_waiting_loses_the_place() {
    beside_etcd("waiting in vain", async |side| {
        side.grant(1, 1000).await;
        side.grant(2, 1).await;
        side.grant(3, 1000).await;
        side.lock("l", 1).await;
        let expires = side.locking("l", 2);
        side.until("l/2", true).await;
        let leaves = side.locking("l", 3);
        side.until("l/3", true).await;
        leaves.abort();
        side.until("l/3", false).await;
        side.until("l/2", false).await;
        side.unlock("l/1").await;
        side.say("expires", expires.await.unwrap());
        side.lock("l", 3).await;
    })
    .await;
}

#[tokio::test]
async fn twenty_contenders_hold_it_one_at_a_time_by_create_revision() {
    let side = Side::start(Launch::program(env!("CARGO_BIN_EXE_stele"))).await;
    let held = Arc::new(AtomicBool::new(false));
    let mut contenders = JoinSet::new();
    for lease in 1..=CONTENDERS {
        side.grant(lease, 1000).await;
        let (client, held) = (side.client.clone(), Arc::clone(&held));
        contenders.spawn(async move {
            let name = "l".into();
            let locked = client.lock().lock(LockRequest { name, lease }).await;
            let key = locked.unwrap().into_inner().key;
            assert!(!held.swap(true, Ordering::SeqCst), "held twice");
            let request = pb::RangeRequest {
                key: key.clone(),
                ..Default::default()
            };
            let own = client.kv().range(request).await.unwrap().into_inner();
            tokio::task::yield_now().await;
            held.store(false, Ordering::SeqCst);
            client.lock().unlock(UnlockRequest { key }).await.unwrap();
            own.kvs[0].create_revision
        });
    }
    let mut order = Vec::new();
    while let Some(created) = contenders.join_next().await {
        order.push(created.unwrap());
    }
    assert_eq!(order.len(), CONTENDERS as usize);
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_those_who_wait() {
    let mut side = Side::start(Launch::program(env!("CARGO_BIN_EXE_stele"))).await;
    side.grant(1, 1000).await;
    side.grant(2, 1000).await;
    side.lock("l", 1).await;
    let waits = side.locking("l", 2);
    side.until("l/2", true).await;
    side.server.terminate();
    let status = waits.await.unwrap().unwrap_err();
    assert!(!status.message().is_empty());
}
