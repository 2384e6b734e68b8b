//! A run of random operations through members of both kinds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request;
use testkit::{Minor, Server};

use super::{AGAIN, Place, client, until_ok};
use crate::beside_etcd::differential::generate::Generator;
use crate::beside_etcd::differential::op::{Answer, NO_ANSWER, Op, shown};
use crate::beside_etcd::differential::side::Side;
use crate::beside_etcd::differential::{normal, op};
use crate::harness::fleet::PATIENCE;
use crate::harness::subject;

/// Between two comparisons of HashKV.
const OPS_PER_HASH: usize = 250;

pub(super) struct Run {
    first_peer_url: String,
    /// The oldest version among the members.
    minor: Minor,
    generator: Generator,
    pub(super) done: usize,
    pub(super) hashes: usize,
}

impl Run {
    pub(super) fn new(first: &Place, minor: Minor) -> Run {
        Run {
            first_peer_url: first.peer_url.clone(),
            minor,
            generator: Generator::new(subject::number("STELE_JOIN_SEED", 1), 0),
            done: 0,
            hashes: 0,
        }
    }

    /// The next operations, each through one of the members; what is read is read from all, and
    /// all must say the same. `learners` take no operations.
    pub(super) async fn go_on(
        &mut self,
        ops: usize,
        sides: &mut [Side],
        learners: &[(&Server, &Place)],
    ) {
        let end = self.done + ops;
        while self.done < end {
            let mut op = self.generator.next();
            if self.minor < Minor::V3_7 {
                op = for_older_members(op);
            }
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
            // etcd 3.5 does not tell of which revision it is.
            let hash_revision = match answer.hash_revision {
                0 => revision,
                hash_revision => hash_revision,
            };
            hashes.push((answer.hash, answer.compact_revision, hash_revision));
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
            assert!(hashes[0]["hash"].is_u64(), "{hashes:?}");
        }
    }
}

/// Without what etcd before 3.7 does not know, answers in another way, or does not apply alike on all
/// of its own members: see `older::members_of_etcd_before_37_disagree_about_ranges_that_are_refused`.
fn for_older_members(op: Op) -> Op {
    match op {
        Op::Range(mut range) | Op::RangeStream(mut range) => {
            // They tell of leases there, too.
            range.keys_only = false;
            sort_as_known(&mut range);
            Op::Range(range)
        }
        Op::Txn(mut txn) => {
            for op in txn.success.iter_mut().chain(&mut txn.failure) {
                if let Some(Request::RequestRange(range)) = &mut op.request {
                    range.revision = 0;
                }
            }
            sort_txn_as_known(&mut txn);
            Op::Txn(txn)
        }
        op => op,
    }
}

/// etcd 3.5 crashes if it is to sort by what it does not know.
fn sort_as_known(range: &mut pb::RangeRequest) {
    if pb::range_request::SortTarget::try_from(range.sort_target).is_err() {
        range.sort_target = 0;
    }
    if pb::range_request::SortOrder::try_from(range.sort_order).is_err() {
        range.sort_order = 0;
    }
}

fn sort_txn_as_known(txn: &mut pb::TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match &mut op.request {
            Some(Request::RequestRange(range)) => sort_as_known(range),
            Some(Request::RequestTxn(nested)) => sort_txn_as_known(nested),
            _ => {}
        }
    }
}

/// `GET /members/hashkv`, without what etcd 3.5 does not say.
fn peer_hash(url: &str, revision: i64) -> serde_json::Value {
    let mut hash = page(
        url,
        "/members/hashkv",
        &format!("{{\"revision\":{revision}}}"),
    );
    hash.as_object_mut().unwrap().remove("hash_revision");
    hash
}

/// A page of JSON that a server has at this URL.
pub(super) fn page(url: &str, path: &str, body: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: peer\r\nConnection: close\r\n");
    let length = body.len();
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
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
