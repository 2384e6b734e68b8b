//! Leases and alarms in clusters of etcd and Stele.

use std::time::{Duration, Instant};

use etcd_api::etcdserverpb as pb;
use testkit::{Minor, Server, Tools};

use super::{
    AGAIN, Place, STELE, add_learner, client, know_to_vote, member_id, move_leader, promote, start,
    until_ok,
};
use crate::harness::fleet::{PATIENCE, ctl};
use crate::harness::minors::beside_each_minor;

/// Seconds; long enough that what one leader writes down of it is far less than all of it.
const LEASE_TTL: i64 = 16;

/// What is left of the lease as soon as it was renewed, in seconds.
async fn left_after_renewal(server: &Server, id: i64) -> i64 {
    let mut lease = client(server).await.lease();
    let asked = tokio_stream::iter([pb::LeaseKeepAliveRequest { id }]);
    let mut answers = lease.lease_keep_alive(asked).await.unwrap().into_inner();
    let renewed = answers.message().await.unwrap().unwrap();
    assert_eq!(renewed.ttl, LEASE_TTL);
    let asked = pb::LeaseTimeToLiveRequest { id, keys: false };
    let told = lease.lease_time_to_live(asked).await;
    told.unwrap().into_inner().ttl
}

beside_each_minor!(leases_that_were_idle_under_stele_are_renewed_in_full_under_etcd);
/// etcd keeps what was written down of a lease for good, renewals or not.
async fn leases_that_were_idle_under_stele_are_renewed_in_full_under_etcd(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("leases in a cluster of etcd and Stele") else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let etcd = start(&e0.launch(&program, &[e0], false));
    let etcd_id = member_id(&etcd).await;
    let stele_id = add_learner(&etcd, s1).await;
    let stele = start(&s1.launch(STELE.as_ref(), &[e0, s1], true));
    promote(&etcd, stele_id).await;
    know_to_vote(&stele).await;
    move_leader(&etcd, stele_id).await;
    let id = 77;
    let grant = pb::LeaseGrantRequest { id, ttl: LEASE_TTL };
    let mut lease = client(&stele).await.lease();
    lease.lease_grant(grant).await.unwrap();
    // Idle for half its time: written down more than once, if at all.
    tokio::time::sleep(Duration::from_secs(LEASE_TTL as u64 / 2)).await;
    move_leader(&stele, etcd_id).await;
    // Again, should the machine have been busy in between: of a time written down there is never more.
    let mut most = 0;
    for _ in 0..10 {
        most = most.max(left_after_renewal(&etcd, id).await);
    }
    assert!(most > LEASE_TTL - 3, "{most} s of {LEASE_TTL} s are left");
}

const SMALL_QUOTA: &str = "--quota-backend-bytes=262144";
const VALUE_BYTES: usize = 16 << 10;
/// Of that size, more than the quota lets in.
const VALUES: usize = 40;

async fn put(server: &Server, key: &str) -> Result<i64, tonic::Status> {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: vec![b'v'; VALUE_BYTES].into(),
        ..Default::default()
    };
    let answer = client(server).await.kv().put(request).await?;
    Ok(answer.into_inner().header.unwrap().revision)
}

async fn is_refused(server: &Server) {
    let error = put(server, "refused").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::ResourceExhausted, "{error}");
    assert_eq!(error.message(), "etcdserver: mvcc: database space exceeded");
}

/// What `etcdctl` prints; how many spaces it puts between two fields differs from build to build.
fn told(tools: &Tools, server: &Server, words: &[&str]) -> Option<Vec<String>> {
    let text = ctl(tools, &server.url(), server.data_dir(), words)?;
    let words_of = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(text.lines().map(words_of).collect())
}

/// The lines of `etcdctl alarm list`, once there are that many.
async fn alarms(tools: &Tools, server: &Server, count: usize) -> Vec<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = told(tools, server, &["alarm", "list"]);
        if let Some(listed) = &listed
            && listed.len() == count
        {
            return listed.clone();
        }
        assert!(Instant::now() < until, "{listed:?}");
        tokio::time::sleep(AGAIN).await;
    }
}

pub(super) async fn hash_at(server: &Server, revision: i64) -> (u32, i64) {
    let client = client(server).await;
    // Refused by one that is not there yet.
    let answer = until_ok("HashKV", || {
        let mut maintenance = client.maintenance();
        async move { maintenance.hash_kv(pb::HashKvRequest { revision }).await }
    });
    let answer = answer.await.into_inner();
    (answer.hash, answer.compact_revision)
}

beside_each_minor!(an_alarm_that_stele_raises_by_itself_is_like_any_other_to_etcd);
/// The entry with the alarm has a field of which etcd knows nothing.
async fn an_alarm_that_stele_raises_by_itself_is_like_any_other_to_etcd(minor: Minor) {
    let (Some(program), Some(tools)) = (
        minor.etcd_or_skip("a space alarm in a cluster of etcd and Stele"),
        Tools::or_skip("etcdctl on a cluster of etcd and Stele"),
    ) else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let mut etcd = start(&e0.launch(&program, &[e0], false));
    let stele_id = add_learner(&etcd, s1).await;
    let launch = s1.launch(STELE.as_ref(), &[e0, s1], true);
    let mut stele = start(&launch.flag(SMALL_QUOTA));
    promote(&etcd, stele_id).await;
    know_to_vote(&stele).await;
    // Only Stele has so little room.
    for number in 0..VALUES {
        put(&etcd, &format!("key/{number}")).await.unwrap();
    }
    let raised = format!("memberID:{stele_id} alarm:NOSPACE");
    // Under a leader of each kind, and disarmed through the other one.
    for leader in ["etcd", "stele"] {
        if leader == "stele" {
            move_leader(&etcd, stele_id).await;
        }
        is_refused(&stele).await;
        for server in [&etcd, &stele] {
            assert_eq!(
                alarms(&tools, server, 1).await,
                std::slice::from_ref(&raised)
            );
        }
        is_refused(&etcd).await;
        is_refused(&stele).await;
        let through = if leader == "etcd" { &stele } else { &etcd };
        let disarmed = told(&tools, through, &["alarm", "disarm"]).unwrap();
        assert_eq!(disarmed, std::slice::from_ref(&raised));
        for server in [&etcd, &stele] {
            assert_eq!(alarms(&tools, server, 0).await, [""; 0]);
        }
        let revision = put(&etcd, leader).await.unwrap();
        assert_eq!(
            hash_at(&etcd, revision).await,
            hash_at(&stele, revision).await
        );
    }
    // Both read the entries again.
    etcd.kill_and_restart();
    stele.kill_and_restart();
    know_to_vote(&stele).await;
    let revision = until_ok("a put", || put(&etcd, "last")).await;
    assert_eq!(
        hash_at(&etcd, revision).await,
        hash_at(&stele, revision).await
    );
    assert_eq!(alarms(&tools, &etcd, 0).await, [""; 0]);
}
