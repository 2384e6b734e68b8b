//! Stele and etcd 3.5, 3.6 or 3.7 in one cluster. Stele joins as a learner, receives etcd's state, is
//! promoted, leads, and sends its own state to another etcd. After mixed operations through all
//! members, the history must have one hash.
//!
//! Runs `STELE_JOIN_OPS` operations in total, from the seed `STELE_JOIN_SEED`.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes reads the clock"
)]

mod older;
mod run;
mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::{Launch, Minor, Server};
use tonic::transport::Endpoint;

use crate::beside_etcd::differential::op::Op;
use crate::beside_etcd::differential::side::Side;
use crate::harness::fleet::{PATIENCE, free_urls};
use crate::harness::minors::{beside_each_minor, checks, forgetful};
use crate::harness::subject;
use run::Run;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const AGAIN: Duration = Duration::from_millis(20);
/// Of a call; several fit into the patience with which it is made again.
const CALL_MAX: Duration = Duration::from_secs(10);
/// Parts of the run; see `STELE_JOIN_OPS`.
const PHASES: usize = 6;
/// Operations of the run, unless `STELE_JOIN_OPS` says otherwise. Fewer beside older members: what
/// differs there has tests of its own.
const OPS: u64 = 3_000;
const OPS_BESIDE_OLDER: u64 = 1_200;

struct Place {
    name: &'static str,
    peer_url: String,
}

impl Place {
    fn new(name: &'static str) -> Place {
        let [peer_url, _] = free_urls();
        Place { name, peer_url }
    }

    fn launch(&self, program: &Path, places: &[&Place], existing: bool) -> Launch {
        let all: Vec<String> = places
            .iter()
            .map(|place| format!("{}={}", place.name, place.peer_url))
            .collect();
        let state = if existing { "existing" } else { "new" };
        Launch::program(program)
            .flag(format!("--name={}", self.name))
            .flag(format!("--listen-peer-urls={}", self.peer_url))
            .flag(format!("--initial-advertise-peer-urls={}", self.peer_url))
            .flag(format!("--initial-cluster={}", all.join(",")))
            .flag(format!("--initial-cluster-state={state}"))
    }
}

fn start(launch: &Launch) -> Server {
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Again until it is accepted.
async fn until_ok<T, F>(what: &str, call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, tonic::Status>>,
{
    let until = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < until, "{what}: {error}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Its calls have a deadline: etcd may drop a change of members that comes right behind another one,
/// and then never answers.
async fn client(server: &Server) -> Client {
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    Client::new(endpoint.timeout(CALL_MAX).connect().await.unwrap())
}

async fn add_learner(server: &Server, place: &Place) -> u64 {
    let client = client(server).await;
    let request = pb::MemberAddRequest {
        peer_urls: vec![place.peer_url.clone()],
        is_learner: true,
    };
    // Refused while the cluster thinks that a member is not well.
    let answer = until_ok("member add", || {
        let request = request.clone();
        let mut cluster = client.cluster();
        async move { cluster.member_add(request).await }
    });
    answer.await.into_inner().member.unwrap().id
}

async fn promote(server: &Server, id: u64) {
    let client = client(server).await;
    // Refused until it has come close.
    let answer = until_ok("member promote", || {
        let mut cluster = client.cluster();
        async move {
            cluster
                .member_promote(pb::MemberPromoteRequest { id })
                .await
        }
    });
    let members = answer.await.into_inner().members;
    let found = members.iter().find(|member| member.id == id);
    assert!(
        found.is_some_and(|member| !member.is_learner),
        "{members:?}"
    );
}

/// Until then it refuses what learners do not serve: others may know sooner that it votes.
async fn know_to_vote(server: &Server) {
    let client = client(server).await;
    until_ok("a read of the new voter", || {
        let mut kv = client.kv();
        let request = pb::RangeRequest {
            key: b"key"[..].into(),
            ..Default::default()
        };
        async move { kv.range(request).await }
    })
    .await;
}

async fn move_leader(server: &Server, target_id: u64) {
    let client = client(server).await;
    until_ok("move-leader", || {
        let mut maintenance = client.maintenance();
        async move {
            let request = pb::MoveLeaderRequest { target_id };
            maintenance.move_leader(request).await
        }
    })
    .await;
    let status = client.maintenance().status(pb::StatusRequest {}).await;
    assert_eq!(status.unwrap().into_inner().leader, target_id);
}

async fn member_id(server: &Server) -> u64 {
    let mut maintenance = client(server).await.maintenance();
    let status = maintenance.status(pb::StatusRequest {}).await.unwrap();
    status.into_inner().header.unwrap().member_id
}

beside_each_minor!(stele_joins_by_the_state_leads_and_brings_up_another);
async fn stele_joins_by_the_state_leads_and_brings_up_another(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("a cluster of etcd and Stele") else {
        return;
    };
    let ops = if minor == Minor::V3_7 {
        OPS
    } else {
        OPS_BESIDE_OLDER
    };
    let ops = subject::number("STELE_JOIN_OPS", ops) as usize / PHASES;
    let places = ["e0", "s1", "e2"].map(Place::new);
    let [e0, s1, e2] = &places;
    let founder = e0.launch(&program, &[e0], false);
    let etcd = start(&founder.flags(&forgetful(minor)).flags(checks(minor)));
    let etcd_id = member_id(&etcd).await;
    let mut run = Run::new(e0, minor);
    let mut sides = vec![Side::new(etcd).await];
    run.go_on(ops, &mut sides, &[]).await;

    // By etcd's state: its log does not go back far enough.
    let stele_id = add_learner(&sides[0].server, s1).await;
    let joining = s1.launch(STELE.as_ref(), &[e0, s1], true);
    let stele = start(&joining.flags(&forgetful(Minor::V3_7)));
    assert!(
        stele.log().contains("received database snapshot"),
        "{}",
        stele.log()
    );
    run.go_on(ops, &mut sides, &[(&stele, s1)]).await;

    promote(&sides[0].server, stele_id).await;
    know_to_vote(&stele).await;
    sides.push(Side::new(stele).await);
    run.go_on(ops, &mut sides, &[]).await;

    move_leader(&sides[0].server, stele_id).await;
    run.go_on(ops, &mut sides, &[]).await;

    // By Stele's state.
    let second = add_learner(&sides[1].server, e2).await;
    let joining = e2.launch(&program, &[e0, s1, e2], true);
    let other = start(&joining.flags(&forgetful(minor)));
    let sent = sides[1]
        .server
        .wait_for_log("sent database snapshot", PATIENCE);
    assert!(sent, "{}", sides[1].server.log());
    run.go_on(ops / 10, &mut sides, &[(&other, e2)]).await;
    promote(&sides[1].server, second).await;
    know_to_vote(&other).await;
    sides.push(Side::new(other).await);
    run.go_on(ops, &mut sides, &[]).await;

    move_leader(&sides[1].server, etcd_id).await;
    for side in &mut sides {
        side.run(&Op::Restart { kill: true }).await;
    }
    let passed = "initial corruption checking passed; no corruption";
    let log = sides[0].server.log();
    assert!(log.contains(passed), "{log}");
    run.go_on(ops, &mut sides, &[]).await;
    let mut maintenance = client(&sides[0].server).await.maintenance();
    let alarms = maintenance.alarm(pb::AlarmRequest::default()).await;
    assert_eq!(alarms.unwrap().into_inner().alarms, []);
    println!("{} operations, HashKV equal {} times", run.done, run.hashes);
}

beside_each_minor!(stele_joins_by_the_log);
async fn stele_joins_by_the_log(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("a member of Stele added to etcd") else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let etcd = start(&e0.launch(&program, &[e0], false));
    let mut run = Run::new(e0, minor);
    let mut sides = vec![Side::new(etcd).await];
    run.go_on(20, &mut sides, &[]).await;
    add_learner(&sides[0].server, s1).await;
    let stele = start(&s1.launch(STELE.as_ref(), &[e0, s1], true));
    assert!(
        !stele.log().contains("received database snapshot"),
        "{}",
        stele.log()
    );
    run.go_on(200, &mut sides, &[(&stele, s1)]).await;
}
