//! What depends on the version of the members of etcd.

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use pb::response_op::Response;
use testkit::{Minor, Server};

use super::run::page;
use super::state::hash_at;
use super::{
    AGAIN, Place, STELE, add_learner, client, know_to_vote, member_id, move_leader, promote, start,
    until_ok,
};
use crate::beside_etcd::auth::CHEAP;
use crate::beside_etcd::auth::ask::{Request, ask};
use crate::beside_etcd::auth::cluster::{add_users, login, must};
use crate::harness::fleet::PATIENCE;
use crate::harness::minors::{beside_each_minor, cluster_version};

/// Two voters: one of `program`, which founded the cluster, and one of `other`, which joined it.
async fn pair(program: &Path, other: &Path) -> [Server; 2] {
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let founder = start(&e0.launch(program, &[e0], false).flag(CHEAP));
    let id = add_learner(&founder, s1).await;
    let joined = start(&s1.launch(other, &[e0, s1], true).flag(CHEAP));
    promote(&founder, id).await;
    know_to_vote(&joined).await;
    [founder, joined]
}

fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(request),
    }
}

/// Writes `a`, and reads `key`.
fn write_and_read(key: &'static str, revision: i64) -> pb::TxnRequest {
    let range = pb::RangeRequest {
        key: key.into(),
        revision,
        ..Default::default()
    };
    pb::TxnRequest {
        success: vec![op(Op::RequestPut(put("a"))), op(Op::RequestRange(range))],
        ..Default::default()
    }
}

fn put(key: &'static str) -> pb::PutRequest {
    pb::PutRequest {
        key: key.into(),
        value: Bytes::from_static(b"v"),
        ..Default::default()
    }
}

const FUTURE: i64 = 1_000_000;

async fn revision_after_put(server: &Server) -> i64 {
    let answer = client(server).await.kv().put(put("z")).await.unwrap();
    answer.into_inner().header.unwrap().revision
}

async fn have_the_same(servers: &[Server; 2]) {
    for server in servers {
        let revision = revision_after_put(server).await;
        let hashes = [
            hash_at(&servers[0], revision).await,
            hash_at(&servers[1], revision).await,
        ];
        assert_eq!(hashes[0], hashes[1], "revision {revision}");
    }
}

beside_each_minor!(transactions_of_stele_whose_ranges_are_refused_change_nothing_anywhere);
/// Members of etcd before 3.7 look at the ranges of other members' transactions only if they are
/// nested.
async fn transactions_of_stele_whose_ranges_are_refused_change_nothing_anywhere(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("transactions beside older members") else {
        return;
    };
    let servers = pair(&program, STELE.as_ref()).await;
    let [etcd, stele] = &servers;
    let stele_id = member_id(stele).await;
    let stele_client = client(stele).await;
    for leader in ["etcd", "stele"] {
        if leader == "stele" {
            move_leader(etcd, stele_id).await;
        }
        let mut kv = stele_client.kv();
        let answer = kv.txn(write_and_read("a", 0)).await.unwrap().into_inner();
        let [put, range] = &answer.responses[..] else {
            panic!("{answer:?}");
        };
        assert!(matches!(put.response, Some(Response::ResponsePut(_))));
        let Some(Response::ResponseRange(range)) = &range.response else {
            panic!("{range:?}");
        };
        let revision = answer.header.unwrap().revision;
        assert_eq!(range.header.unwrap().revision, revision);
        assert_eq!(range.kvs[0].mod_revision, revision);
        let error = kv.txn(write_and_read("a", FUTURE)).await.unwrap_err();
        assert_eq!(
            error.message(),
            "etcdserver: mvcc: required revision is a future revision"
        );
        have_the_same(&servers).await;
    }
    add_users(&client(etcd).await).await;
    let alice = login(&stele_client, "alice", "alice").await;
    let root = login(&stele_client, "root", "root").await;
    let asked = Request::Txn(write_and_read("b", 0));
    let denied = ask(&stele_client, &asked, Some(&alice)).await;
    assert_eq!(denied.shown.unwrap_err().1, "etcdserver: permission denied");
    let off = ask(&stele_client, &Request::Disable, Some(&root)).await;
    assert!(off.shown.is_ok(), "{:?}", off.shown);
    have_the_same(&servers).await;
}

beside_each_minor!(what_stele_denies_under_an_alarm_is_done_nowhere);
/// etcd 3.5 checks no permissions while the space alarm is raised.
async fn what_stele_denies_under_an_alarm_is_done_nowhere(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("users and an alarm in a cluster of etcd and Stele")
    else {
        return;
    };
    let servers = pair(&program, STELE.as_ref()).await;
    let [first, second] = [client(&servers[0]).await, client(&servers[1]).await];
    add_users(&first).await;
    let root = login(&second, "root", "root").await;
    let alice = login(&second, "alice", "alice").await;
    let alarm = |action| {
        Request::Alarm(pb::AlarmRequest {
            action,
            member_id: 7,
            alarm: pb::AlarmType::Nospace as i32,
        })
    };
    use pb::alarm_request::AlarmAction::{Activate, Deactivate};
    must(&first, alarm(Activate as i32), Some(&root)).await;
    let name = "eve".to_owned();
    let denied = [
        Request::Delete(pb::DeleteRangeRequest {
            key: b"b"[..].into(),
            ..Default::default()
        }),
        Request::UserAdd(pb::AuthUserAddRequest {
            name,
            password: "e".to_owned(),
            ..Default::default()
        }),
    ];
    for request in denied {
        let (code, text) = ask(&second, &request, Some(&alice))
            .await
            .shown
            .unwrap_err();
        assert_eq!((code, &text[..]), (7, "etcdserver: permission denied"));
    }
    must(&first, alarm(Deactivate as i32), Some(&root)).await;
    for client in [&first, &second] {
        let users = must(client, Request::UserList, Some(&root)).await;
        assert!(!users.shown.unwrap().contains("eve"));
    }
    must(&first, Request::Disable, Some(&root)).await;
    have_the_same(&servers).await;
}

/// The transaction that one member of etcd refuses changes the data of another one.
async fn disagree(first: Minor, second: Minor) {
    let text = "transactions among members of etcd";
    let (Some(first), Some(second)) = (first.etcd_or_skip(text), second.etcd_or_skip(text)) else {
        return;
    };
    let servers = pair(&first, &second).await;
    let mut kv = client(&servers[1]).await.kv();
    let error = kv.txn(write_and_read("a", FUTURE)).await.unwrap_err();
    assert!(error.message().contains("future revision"), "{error}");
    revision_after_put(&servers[1]).await;
    let mut revisions = Vec::new();
    for server in &servers {
        let range = pb::RangeRequest {
            key: b"z"[..].into(),
            ..Default::default()
        };
        let answer = client(server).await.kv().range(range).await.unwrap();
        revisions.push(answer.into_inner().header.unwrap().revision);
    }
    assert_eq!(revisions[0], revisions[1] + 1, "they agree now");
}

/// Stele cannot help it; docs/migrating.md tells of it. Should these fail with a later release of
/// etcd, that has been mended there.
mod members_of_etcd_before_37_disagree_about_ranges_that_are_refused {
    use testkit::Minor;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn v3_5_alone() {
        super::disagree(Minor::V3_5, Minor::V3_5).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn v3_6_beside_3_7() {
        super::disagree(Minor::V3_6, Minor::V3_7).await;
    }
}

/// The cluster version, once the member says so.
async fn until_cluster_version(server: &Server, expected: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = page(&server.url(), "/version", "");
        if told["etcdcluster"] == expected {
            return;
        }
        assert!(Instant::now() < until, "{told}, not {expected}");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn remove(server: &Server, id: u64) {
    let client = client(server).await;
    until_ok("member remove", || {
        let mut cluster = client.cluster();
        async move { cluster.member_remove(pb::MemberRemoveRequest { id }).await }
    })
    .await;
}

beside_each_minor!(the_cluster_version_is_that_of_the_oldest_member_until_it_is_gone);
/// etcd 3.5 publishes itself in the form of the v2 API, here through a leader that is Stele.
async fn the_cluster_version_is_that_of_the_oldest_member_until_it_is_gone(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("the version of a cluster of etcd and Stele") else {
        return;
    };
    let [mut etcd, stele] = pair(&program, STELE.as_ref()).await;
    let version = cluster_version(minor);
    until_cluster_version(&stele, version).await;
    move_leader(&etcd, member_id(&stele).await).await;
    let etcd_id = member_id(&etcd).await;
    // It serves when it has published itself and knows the cluster version; meanwhile Stele has
    // decided about the latter.
    etcd.kill_and_restart();
    know_to_vote(&etcd).await;
    until_ok("a put", || async {
        client(&etcd).await.kv().put(put("a")).await
    })
    .await;
    for server in [&etcd, &stele] {
        assert_eq!(page(&server.url(), "/version", "")["etcdcluster"], version);
    }
    remove(&stele, etcd_id).await;
    until_cluster_version(&stele, "3.7.0").await;
    until_ok("a put", || async {
        client(&stele).await.kv().put(put("a")).await
    })
    .await;
}

/// All that the members say of each other, but for who says it.
async fn members(server: &Server) -> Vec<pb::Member> {
    let mut cluster = client(server).await.cluster();
    let request = pb::MemberListRequest { linearizable: true };
    let mut members = cluster
        .member_list(request)
        .await
        .unwrap()
        .into_inner()
        .members;
    members.sort_by_key(|member| member.id);
    members
}

async fn add(server: &Server, url: &str) -> Result<u64, String> {
    let request = pb::MemberAddRequest {
        peer_urls: vec![url.to_owned()],
        is_learner: true,
    };
    let added = client(server).await.cluster().member_add(request).await;
    let added = added.map_err(|error| error.message().to_owned())?;
    Ok(added.into_inner().member.unwrap().id)
}

beside_each_minor!(changes_of_members_are_the_same_to_all_whoever_leads);
async fn changes_of_members_are_the_same_to_all_whoever_leads(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("members of a cluster of etcd and Stele") else {
        return;
    };
    let servers = pair(&program, STELE.as_ref()).await;
    let stele_id = member_id(&servers[1]).await;
    for leader in ["etcd", "stele"] {
        if leader == "stele" {
            move_leader(&servers[0], stele_id).await;
        }
        for through in &servers {
            let [place, other] = ["x", "y"].map(Place::new);
            let id = add_learner(through, &place).await;
            let same = async || {
                let [a, b] = [members(&servers[0]).await, members(&servers[1]).await];
                assert_eq!(a, b);
                assert!(a.iter().any(|member| member.id == id && member.is_learner));
                a
            };
            let all = same().await;
            let voter = all.iter().find(|member| !member.is_learner).unwrap();
            let taken = add(through, &voter.peer_urls[0]).await;
            assert_eq!(taken.unwrap_err(), "etcdserver: Peer URLs already exists");
            let second = add(through, &other.peer_url).await;
            assert_eq!(
                second.unwrap_err(),
                "etcdserver: too many learner members in cluster"
            );
            let update = pb::MemberUpdateRequest {
                id,
                peer_urls: vec![other.peer_url.clone()],
            };
            let mut cluster = client(through).await.cluster();
            until_ok("member update", || {
                let (mut cluster, update) = (cluster.clone(), update.clone());
                async move { cluster.member_update(update).await }
            })
            .await;
            let all = same().await;
            let updated = all.iter().find(|member| member.id == id).unwrap();
            assert_eq!(updated.peer_urls, [other.peer_url]);
            let early = cluster
                .member_promote(pb::MemberPromoteRequest { id })
                .await;
            assert_eq!(
                early.unwrap_err().message(),
                "etcdserver: can only promote a learner member which is in sync with leader"
            );
            remove(through, id).await;
            let [a, b] = [members(&servers[0]).await, members(&servers[1]).await];
            assert_eq!(a, b);
            assert_eq!(a.len(), 2);
        }
    }
    have_the_same(&servers).await;
}
