//! Stele and etcd in one cluster. Stele joins as a learner, receives etcd's state, is promoted,
//! leads, and sends its own state to another etcd. After mixed operations through all members, the
//! history must have one hash.
//!
//! Runs `STELE_JOIN_OPS` operations in total, from the seed `STELE_JOIN_SEED`.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes reads the clock"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::{Launch, Server, Tools};

use crate::beside_etcd::differential::generate::Generator;
use crate::beside_etcd::differential::op::{Answer, NO_ANSWER, Op, shown};
use crate::beside_etcd::differential::side::Side;
use crate::beside_etcd::differential::{normal, op};
use crate::harness::fleet::{PATIENCE, ctl, free_urls};
use crate::harness::subject;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
/// With little log in memory a new member needs the state.
const FORGETFUL: [&str; 2] = ["--snapshot-count=50", "--snapshot-catchup-entries=10"];
/// etcd asks the other members for their hash when it starts, and at compactions.
const CHECKS: [&str; 2] = [
    "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true",
    "--compact-hash-check-time=1s",
];
/// Between two comparisons of HashKV.
const OPS_PER_HASH: usize = 250;
const AGAIN: Duration = Duration::from_millis(20);
/// Parts of the run; see `STELE_JOIN_OPS`.
const PHASES: usize = 6;

struct Place {
    name: &'static str,
    peer_url: String,
}

impl Place {
    fn new(name: &'static str) -> Place {
        let [peer_url, _] = free_urls();
        Place { name, peer_url }
    }

    fn launch(&self, program: &std::path::Path, places: &[&Place], existing: bool) -> Launch {
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

async fn client(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
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

struct Run {
    first_peer_url: String,
    generator: Generator,
    done: usize,
    hashes: usize,
}

impl Run {
    fn new(first: &Place) -> Run {
        Run {
            first_peer_url: first.peer_url.clone(),
            generator: Generator::new(subject::number("STELE_JOIN_SEED", 1), 0),
            done: 0,
            hashes: 0,
        }
    }

    /// The next operations, each through one of the members; what is read is read from all, and
    /// all must say the same. `learners` take no operations.
    async fn go_on(&mut self, ops: usize, sides: &mut [Side], learners: &[(&Server, &Place)]) {
        let end = self.done + ops;
        while self.done < end {
            let mut op = self.generator.next();
            match &mut op {
                // Another member's answer may be older.
                Op::Range(request) | Op::RangeStream(request) => request.serializable = false,
                Op::Put(_) | Op::Delete(_) | Op::Txn(_) | Op::Compact(_) => {}
                Op::Grant(_) | Op::Revoke(_) | Op::GrantAndRevoke(_) => {}
                _ => continue,
            }
            self.done += 1;
            self.ask(&op, sides).await;
            if self.done.is_multiple_of(OPS_PER_HASH) {
                self.compare_hashes(sides).await;
            }
        }
        self.compare_hashes(sides).await;
        for (learner, place) in learners {
            self.compare_rows(&sides[0].server, learner, place).await;
        }
    }

    async fn ask(&mut self, op: &Op, sides: &mut [Side]) {
        let reads = matches!(op, Op::Range(_) | Op::RangeStream(_));
        let asked = if reads {
            0..sides.len()
        } else {
            let one = self.done % sides.len();
            one..one + 1
        };
        let mut first: Option<Answer> = None;
        for side in &mut sides[asked] {
            let mut answer = side.run(op).await;
            normal::answer(op, &mut answer);
            forget_the_member(&mut answer);
            let silent = matches!(&answer, Answer::Error { code, .. } if *code == NO_ANSWER);
            assert!(
                !silent,
                "operation {}: {}: {}",
                self.done,
                shown(op),
                shown(&answer)
            );
            match &first {
                None => {
                    self.generator.learn(op, &answer);
                    first = Some(answer);
                }
                Some(first) => assert!(
                    *first == answer,
                    "operation {}: {}\n{}\n{}",
                    self.done,
                    shown(op),
                    shown(first),
                    shown(&answer)
                ),
            }
        }
    }

    /// At the newest revision, which all have once they have answered for it.
    async fn compare_hashes(&mut self, sides: &[Side]) {
        let revision = self.generator.revision;
        if revision == self.generator.compacted {
            return; // Whoever compacted there answers with what was before.
        }
        let mut hashes = Vec::new();
        for side in sides {
            let client = client(&side.server).await;
            // Refused by one that is not there yet.
            let answer = until_ok("HashKV", || {
                let mut maintenance = client.maintenance();
                async move { maintenance.hash_kv(pb::HashKvRequest { revision }).await }
            });
            let answer = answer.await.into_inner();
            hashes.push((answer.hash, answer.compact_revision, answer.hash_revision));
        }
        self.hashes += 1;
        let same = hashes.iter().all(|hash| *hash == hashes[0]);
        assert!(
            same,
            "revision {revision} after {} operations: {hashes:?}",
            self.done
        );
    }

    /// A learner answers its clients nothing but serializable reads; its hash is asked for as
    /// members ask each other.
    async fn compare_rows(&self, server: &Server, learner: &Server, place: &Place) {
        let all = pb::RangeRequest {
            key: b"\0"[..].into(),
            range_end: b"\0"[..].into(),
            serializable: true,
            ..Default::default()
        };
        let expected = client(server).await.kv().range(all.clone()).await.unwrap();
        let expected = expected.into_inner();
        let revision = expected.header.unwrap().revision;
        let mut kv = client(learner).await.kv();
        let until = Instant::now() + PATIENCE;
        let found = loop {
            let found = kv.range(all.clone()).await.unwrap().into_inner();
            let at = found.header.unwrap().revision;
            assert!(at <= revision, "{at} is not known to others");
            if at == revision {
                break found;
            }
            assert!(
                Instant::now() < until,
                "it stays at revision {at} of {revision}"
            );
            tokio::time::sleep(AGAIN).await;
        };
        assert!(
            found.kvs == expected.kvs,
            "other rows at revision {revision}"
        );
        if revision != self.generator.compacted {
            let urls = [&self.first_peer_url, &place.peer_url];
            let hashes = urls.map(|url| peer_hash(url, revision));
            assert_eq!(hashes[0], hashes[1], "revision {revision}");
            assert!(hashes[0].contains("\"hash\":"), "{hashes:?}");
        }
    }
}

/// `GET /members/hashkv`: the body of the answer.
fn peer_hash(url: &str, revision: i64) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let body = format!("{{\"revision\":{revision}}}");
    let head = "GET /members/hashkv HTTP/1.1\r\nHost: peer\r\nConnection: close\r\n";
    let length = body.len();
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.trim().to_owned()
}

/// Each member names itself in its answers.
fn forget_the_member(answer: &mut op::Answer) {
    if let Answer::Range(answer) = answer
        && let Some(header) = &mut answer.header
    {
        header.member_id = 0;
        header.raft_term = 0;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stele_joins_etcd_by_its_state_leads_it_and_brings_up_another() {
    let Some(tools) = Tools::or_skip("a cluster of etcd and Stele") else {
        return;
    };
    let ops = subject::number("STELE_JOIN_OPS", 3_000) as usize / PHASES;
    let places = ["e0", "s1", "e2"].map(Place::new);
    let [e0, s1, e2] = &places;
    let founder = e0.launch(&tools.etcd, &[e0], false);
    let etcd = start(&founder.flags(&FORGETFUL).flags(&CHECKS));
    let etcd_id = member_id(&etcd).await;
    let mut run = Run::new(e0);
    let mut sides = vec![Side::new(etcd).await];
    run.go_on(ops, &mut sides, &[]).await;

    // By etcd's state: its log does not go back far enough.
    let stele_id = add_learner(&sides[0].server, s1).await;
    let stele = start(&s1.launch(STELE.as_ref(), &[e0, s1], true).flags(&FORGETFUL));
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
    let other = start(
        &e2.launch(&tools.etcd, &[e0, s1, e2], true)
            .flags(&FORGETFUL),
    );
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stele_joins_etcd_by_its_log() {
    let Some(tools) = Tools::or_skip("a member of Stele added to etcd") else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let etcd = start(&e0.launch(&tools.etcd, &[e0], false));
    let mut run = Run::new(e0);
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

/// etcd keeps what was written down of a lease for good, renewals or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_were_idle_under_stele_are_renewed_in_full_under_etcd() {
    let Some(tools) = Tools::or_skip("leases in a cluster of etcd and Stele") else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let etcd = start(&e0.launch(&tools.etcd, &[e0], false));
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

async fn hash_at(server: &Server, revision: i64) -> (u32, i64) {
    let client = client(server).await;
    // Refused by one that is not there yet.
    let answer = until_ok("HashKV", || {
        let mut maintenance = client.maintenance();
        async move { maintenance.hash_kv(pb::HashKvRequest { revision }).await }
    });
    let answer = answer.await.into_inner();
    (answer.hash, answer.hash_revision)
}

/// The entry with the alarm has a field of which etcd knows nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_that_stele_raises_by_itself_is_like_any_other_to_etcd() {
    let Some(tools) = Tools::or_skip("a space alarm in a cluster of etcd and Stele") else {
        return;
    };
    let places = ["e0", "s1"].map(Place::new);
    let [e0, s1] = &places;
    let mut etcd = start(&e0.launch(&tools.etcd, &[e0], false));
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
