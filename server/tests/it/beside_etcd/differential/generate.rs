//! Generates operations from a seed. Earlier answers steer it, so that the revisions, leases and
//! watches in the operations often exist, and often do not.

use std::collections::VecDeque;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request;

use super::op::{Answer, Op};
use super::stream::{FUTURE_STREAM, STREAMS};
use crate::harness::rng::Rng;

const WATCHES_PER_STREAM_MAX: usize = 5;
const LEASES_MAX: usize = 12;
/// No lease of the run expires by itself: when that happens differs between two servers.
const TTL_MIN: i64 = 100_000;
const OPS_PER_TXN_MAX: usize = 128;
/// Rows in the first chunk that etcd streams.
const STREAM_FIRST_CHUNK: i64 = 10;

pub(crate) struct Generator {
    pub(crate) rng: Rng,
    planned: VecDeque<Op>,
    /// The newest revision any answer told.
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    leases: Vec<i64>,
    /// Ids of the live watches, per stream.
    watches: [Vec<i64>; STREAMS],
    restart_every: usize,
    made: usize,
}

impl Generator {
    pub(crate) fn new(seed: u64, restart_every: usize) -> Generator {
        Generator {
            rng: Rng::new(seed),
            planned: VecDeque::new(),
            revision: 1,
            compacted: -1,
            leases: Vec::new(),
            watches: Default::default(),
            restart_every,
            made: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Op {
        self.made += 1;
        if let Some(op) = self.planned.pop_front() {
            return op;
        }
        if self.restart_every > 0 && self.made.is_multiple_of(self.restart_every) {
            return self.plan_restart();
        }
        match self.rng.below(1000) {
            0..220 => Op::Put(self.put()),
            220..300 => Op::Delete(self.delete()),
            300..560 => Op::Range(self.range()),
            560..610 => Op::RangeStream(self.streamed_range()),
            610..820 => Op::Txn(self.txn()),
            820..900 => self.lease_op(),
            900..904 => self.plan_compaction(),
            904..920 => Op::HashKv(pb::HashKvRequest {
                revision: self.read_revision(),
            }),
            920..926 => self.member_op(),
            926..928 => Op::Put(self.huge_put()),
            928..929 => Op::Txn(self.too_many_ops()),
            929..960 => self.watch_op(),
            960..966 => Op::Defragment,
            966..980 => self.drain(),
            _ => Op::Put(self.put()),
        }
    }

    /// What an answer teaches about the state of the servers.
    pub(crate) fn learn(&mut self, op: &Op, answer: &Answer) {
        let header = match answer {
            Answer::Put(r) => r.header,
            Answer::Delete(r) => r.header,
            Answer::Txn(r) => r.header,
            Answer::Range(r) => r.header,
            Answer::Revoke(r) => r.header,
            Answer::GrantAndRevoke(_, r) => r.header,
            _ => None,
        };
        self.revision = self
            .revision
            .max(header.map_or(0, |header| header.revision));
        match (op, answer) {
            (Op::Compact(request), Answer::Compact(_)) => self.compacted = request.revision,
            (Op::Grant(request), Answer::Grant(_)) => self.leases.push(request.id),
            (Op::Revoke(request), Answer::Revoke(_)) => {
                self.leases.retain(|lease| *lease != request.id);
            }
            (Op::Watch { stream, .. }, Answer::Control(messages)) => {
                let canceled = messages.iter().any(|message| message.canceled);
                if !canceled && let Some(message) = messages.first() {
                    self.watches[*stream].push(message.watch_id);
                }
            }
            (Op::CancelWatch { stream, id }, _) => self.watches[*stream].retain(|w| w != id),
            (Op::CloseStream { stream }, _) => self.watches[*stream].clear(),
            (Op::Restart { .. }, _) => self.watches = Default::default(),
            _ => {}
        }
    }

    pub(crate) fn drain(&self) -> Op {
        Op::Drain {
            revision: self.revision,
        }
    }

    // ---- keys, values, revisions ----

    /// Four bytes make few enough keys that operations meet: 4 + 16 + 64 keys and some longer.
    fn key(&mut self) -> Bytes {
        let length = self.rng.pick(&[1, 2, 2, 3, 3, 3, 3, 4, 40]);
        self.key_of(length)
    }

    fn key_of(&mut self, length: usize) -> Bytes {
        (0..length)
            .map(|_| self.rng.pick(&[0x00, b'a', b'b', 0xff]))
            .collect()
    }

    fn key_or_empty(&mut self) -> Bytes {
        if self.rng.below(100) == 0 {
            Bytes::new()
        } else {
            self.key()
        }
    }

    /// Every form of a range: one key, up to a key, prefix, from a key on, all, empty.
    fn span(&mut self) -> (Bytes, Bytes) {
        match self.rng.below(12) {
            0..4 => (self.key_or_empty(), Bytes::new()),
            4..7 => {
                let (a, b) = (self.key_or_empty(), self.key());
                if a <= b || self.rng.percent(10) {
                    (a, b)
                } else {
                    (b, a)
                }
            }
            7..9 => {
                let length = 1 + self.rng.below(2);
                let start = self.key_of(length);
                let mut end = start.to_vec();
                match end.iter().rposition(|byte| *byte < 0xff) {
                    Some(place) => {
                        end.truncate(place + 1);
                        end[place] += 1;
                    }
                    None => end = vec![0],
                }
                (start, end.into())
            }
            9 => (self.key(), Bytes::from_static(b"\0")),
            10 => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
            _ => {
                let key = self.key();
                (key.clone(), key)
            }
        }
    }

    fn value(&mut self) -> Bytes {
        let length = match self.rng.below(200) {
            0..30 => 0,
            30..150 => self.rng.below(12),
            150..190 => self.rng.below(200),
            _ => self.rng.below(5_000),
        };
        let byte = self.rng.next() as u8 & 0x03;
        let mut value = vec![byte; length];
        if length > 8 {
            value[..8].copy_from_slice(&self.rng.next().to_be_bytes());
        }
        value.into()
    }

    fn read_revision(&mut self) -> i64 {
        match self.rng.below(10) {
            0..4 => 0,
            4..7 => self.rng.between(self.compacted.max(1), self.revision),
            7 => self.rng.between((self.revision - 20).max(1), self.revision),
            8 => self
                .rng
                .pick(&[-1, self.compacted - 1, self.compacted, self.compacted + 1]),
            _ => self.rng.pick(&[
                self.revision,
                self.revision + 1,
                self.revision + 100,
                i64::MAX,
            ]),
        }
    }

    fn bound(&mut self) -> i64 {
        match self.rng.below(8) {
            0..6 => 0,
            6 => self.rng.between(1, self.revision + 2),
            _ => self.rng.pick(&[-3, 1, self.revision, i64::MAX]),
        }
    }

    fn lease(&mut self) -> i64 {
        match self.rng.below(20) {
            0..5 if !self.leases.is_empty() => self.rng.pick(&self.leases.clone()),
            5 => 987_654_321,
            _ => 0,
        }
    }

    // ---- requests on keys ----

    fn put(&mut self) -> pb::PutRequest {
        let mut request = pb::PutRequest {
            key: self.key_or_empty(),
            value: self.value(),
            lease: self.lease(),
            prev_kv: self.rng.percent(30),
            ignore_value: self.rng.percent(6),
            ignore_lease: self.rng.percent(6),
        };
        if request.ignore_value && self.rng.percent(85) {
            request.value = Bytes::new();
        }
        if request.ignore_lease && self.rng.percent(85) {
            request.lease = 0;
        }
        request
    }

    /// About a megabyte, above the request limit, and above what gRPC takes at all.
    fn huge_put(&mut self) -> pb::PutRequest {
        let length = self
            .rng
            .pick(&[1 << 20, 1 << 20, 1_400_000, 1_600_000, 2_200_000]);
        let value = vec![self.rng.next() as u8; length].into();
        pb::PutRequest {
            value,
            ..self.put()
        }
    }

    fn delete(&mut self) -> pb::DeleteRangeRequest {
        let (key, mut range_end) = self.span();
        // Most deletes are of a key, else the store never fills.
        if self.rng.percent(75) {
            range_end = Bytes::new();
        }
        pb::DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.rng.percent(40),
        }
    }

    /// A delete for a transaction. etcd lets an unbounded one stand beside a put of the same key,
    /// and a later compaction at that revision then loses the key's row: the next read of it ends
    /// the process (3.7.3).
    fn bounded_delete(&mut self) -> pb::DeleteRangeRequest {
        let mut delete = self.delete();
        if delete.range_end == b"\0"[..] {
            delete.range_end.clear();
        }
        delete
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.span();
        let mut request = pb::RangeRequest {
            key,
            range_end,
            limit: self.rng.pick(&[0, 0, 0, 1, 2, 3, 5, 10, 1000, -1]),
            revision: self.read_revision(),
            serializable: self.rng.percent(30),
            keys_only: self.rng.percent(20),
            count_only: self.rng.percent(8),
            ..Default::default()
        };
        if self.rng.percent(45) {
            request.sort_order = self.rng.below(3) as i32;
            request.sort_target = self.rng.below(5) as i32;
            if self.rng.percent(3) {
                request.sort_order = self.rng.pick(&[3, -1, 7]);
            }
            if self.rng.percent(3) {
                request.sort_target = self.rng.pick(&[5, -1, 99]);
            }
        }
        if self.rng.percent(20) {
            request.min_mod_revision = self.bound();
            request.max_mod_revision = self.bound();
            request.min_create_revision = self.bound();
            request.max_create_revision = self.bound();
        }
        request
    }

    /// A range for RangeStream. etcd lets a sort target without a sort order pass, then sorts each
    /// chunk by itself, and goes on behind the key of whichever row came last. Its sort is not
    /// stable (Go's sort.Slice) beyond a dozen rows, so where that target has ties chance decides
    /// what the next chunk holds. A first chunk has ten rows and one to look ahead, which Go sorts
    /// by insertion, stably: only ranges of many chunks have to be asked in key order.
    fn streamed_range(&mut self) -> pb::RangeRequest {
        let mut request = self.range();
        let one_chunk = (1..=STREAM_FIRST_CHUNK).contains(&request.limit)
            || request.limit < 0
            || request.range_end.is_empty()
            || request.count_only;
        let without_order = request.sort_order == SortOrder::None as i32;
        if !one_chunk && without_order && SortTarget::try_from(request.sort_target).is_ok() {
            request.sort_target = SortTarget::Key as i32;
        }
        request
    }

    // ---- transactions ----

    fn txn(&mut self) -> pb::TxnRequest {
        self.txn_of_depth(1)
    }

    fn txn_of_depth(&mut self, depth: usize) -> pb::TxnRequest {
        let branch = |this: &mut Generator| {
            let length = this.rng.pick(&[0, 1, 1, 2, 2, 3, 4]);
            (0..length).map(|_| this.op_in_txn(depth)).collect()
        };
        let compares = self.rng.pick(&[0, 1, 1, 1, 2, 3]);
        pb::TxnRequest {
            compare: (0..compares).map(|_| self.compare()).collect(),
            success: branch(self),
            failure: branch(self),
        }
    }

    fn op_in_txn(&mut self, depth: usize) -> pb::RequestOp {
        let request = match self.rng.below(100) {
            0..40 => Some(Request::RequestPut(self.put())),
            40..60 => Some(Request::RequestDeleteRange(self.bounded_delete())),
            60..84 => {
                // Most ranges in transactions are of now: a bad revision fails the whole of it.
                let mut range = self.range();
                if self.rng.percent(85) {
                    range.revision = 0;
                }
                Some(Request::RequestRange(range))
            }
            84..99 if depth < 3 => Some(Request::RequestTxn(self.txn_of_depth(depth + 1))),
            99 if self.rng.percent(30) => None,
            _ => Some(Request::RequestPut(self.put())),
        };
        pb::RequestOp { request }
    }

    fn compare(&mut self) -> pb::Compare {
        use pb::compare::TargetUnion;
        let target = self.rng.below(5) as i32;
        let number = match self.rng.below(3) {
            0 => 0,
            1 => self.rng.between(0, 4),
            _ => self.rng.between(self.revision - 30, self.revision + 1),
        };
        let matching = match target {
            0 => TargetUnion::Version(number.min(5)),
            1 => TargetUnion::CreateRevision(number),
            2 => TargetUnion::ModRevision(number),
            3 => TargetUnion::Value(self.value()),
            _ => TargetUnion::Lease(self.lease()),
        };
        let mut compare = pb::Compare {
            result: self.rng.below(4) as i32,
            target,
            key: self.key_or_empty(),
            range_end: Bytes::new(),
            target_union: Some(matching),
        };
        if self.rng.percent(25) {
            (compare.key, compare.range_end) = self.span();
        }
        match self.rng.below(60) {
            0 => compare.target_union = None,
            1 => compare.target_union = Some(TargetUnion::Version(1)),
            2 => compare.target = self.rng.pick(&[5, -1]),
            3 => compare.result = self.rng.pick(&[4, -1]),
            _ => {}
        }
        compare
    }

    fn too_many_ops(&mut self) -> pb::TxnRequest {
        let count = self.rng.pick(&[OPS_PER_TXN_MAX, OPS_PER_TXN_MAX + 1]);
        let mut request = pb::TxnRequest::default();
        for place in 0..count {
            let put = pb::PutRequest {
                key: format!("many/{place}").into(),
                value: self.value(),
                ..Default::default()
            };
            request.success.push(pb::RequestOp {
                request: Some(Request::RequestPut(put)),
            });
        }
        if self.rng.percent(30) {
            let nested = pb::TxnRequest {
                success: request.success,
                ..Default::default()
            };
            let nested = pb::RequestOp {
                request: Some(Request::RequestTxn(nested)),
            };
            return pb::TxnRequest {
                success: vec![nested],
                ..Default::default()
            };
        }
        request
    }

    // ---- leases, members, watches ----

    fn known_or_unknown_lease(&mut self) -> i64 {
        if self.leases.is_empty() || self.rng.percent(15) {
            self.rng.pick(&[0, -1, 987_654_321, i64::MAX])
        } else {
            self.rng.pick(&self.leases.clone())
        }
    }

    fn lease_op(&mut self) -> Op {
        match self.rng.below(10) {
            0..2 if self.leases.len() < LEASES_MAX => {
                let fresh = self.rng.pick(&[1, -1]) * self.rng.between(1, 1 << 40);
                let id = if self.rng.percent(15) {
                    self.lease()
                } else {
                    fresh
                };
                let ttl = self.rng.between(TTL_MIN, 3 * TTL_MIN);
                match id {
                    0 => Op::GrantAndRevoke(pb::LeaseGrantRequest { id, ttl }),
                    _ => Op::Grant(pb::LeaseGrantRequest { id, ttl }),
                }
            }
            2 => {
                let ttl = self
                    .rng
                    .pick(&[0, -7, 1, 2, 60, 9_000_000_000, 9_000_000_001, i64::MAX]);
                let id = self.rng.pick(&[0, 55_555, 987_654_321]);
                Op::GrantAndRevoke(pb::LeaseGrantRequest { id, ttl })
            }
            3..5 => Op::Revoke(pb::LeaseRevokeRequest {
                id: self.known_or_unknown_lease(),
            }),
            5..8 => {
                let (id, keys) = (self.known_or_unknown_lease(), self.rng.percent(70));
                Op::TimeToLive(pb::LeaseTimeToLiveRequest { id, keys })
            }
            8 => Op::Leases,
            _ => {
                let count = self.rng.below(4);
                Op::KeepAlive((0..count).map(|_| self.known_or_unknown_lease()).collect())
            }
        }
    }

    fn member_op(&mut self) -> Op {
        match self.rng.below(3) {
            0 => Op::Members(pb::MemberListRequest {
                linearizable: self.rng.percent(50),
            }),
            1 => Op::Status,
            _ => {
                let (alarm, action) = (self.rng.below(3) as i32, 0);
                Op::Alarms(pb::AlarmRequest {
                    action,
                    member_id: self.rng.next() & 7,
                    alarm,
                })
            }
        }
    }

    fn watch_op(&mut self) -> Op {
        let stream = self.rng.below(STREAMS);
        let live = self.watches[stream].len();
        match self.rng.below(20) {
            0 => {
                self.planned.push_back(Op::CloseStream { stream });
                self.drain()
            }
            1 => Op::SendUnanswered {
                stream,
                cancel: self.rng.pick(&[None, Some(4_711)]),
            },
            2..6 if live > 0 => {
                let id = self.rng.pick(&self.watches[stream].clone());
                self.planned.push_back(Op::CancelWatch { stream, id });
                self.drain()
            }
            _ if live >= WATCHES_PER_STREAM_MAX => {
                let id = self.watches[stream][0];
                self.planned.push_back(Op::CancelWatch { stream, id });
                self.drain()
            }
            _ => self.watch(stream),
        }
    }

    fn watch(&mut self, stream: usize) -> Op {
        let start_revision = if stream == FUTURE_STREAM {
            self.revision + self.rng.between(1, 200)
        } else {
            match self.rng.below(10) {
                0..4 => 0,
                4..8 => self.rng.between(self.compacted.max(1), self.revision),
                8 => self.rng.between(1, self.compacted.max(1)),
                _ => self
                    .rng
                    .pick(&[-1, 1, self.compacted.max(0), self.revision]),
            }
        };
        let (key, range_end) = match self.rng.below(20) {
            0 => (Bytes::new(), Bytes::new()),
            1 => (Bytes::new(), Bytes::from_static(b"\0")),
            _ => self.span(),
        };
        let filters = self.rng.pick(&[
            vec![],
            vec![],
            vec![],
            vec![0],
            vec![1],
            vec![0, 1],
            vec![9],
        ]);
        let request = pb::WatchCreateRequest {
            key,
            range_end,
            start_revision,
            progress_notify: self.rng.percent(10),
            filters,
            prev_kv: self.rng.percent(50),
            watch_id: self.rng.pick(&[0, 0, 0, 0, 3, 17, -5]),
            fragment: self.rng.percent(30),
        };
        let answers = self.answers_to(stream, &request);
        Op::Watch {
            stream,
            request,
            answers,
        }
    }

    /// A watch from before the compaction is created and then canceled; everything else about it
    /// is refused with one message.
    fn answers_to(&self, stream: usize, request: &pb::WatchCreateRequest) -> usize {
        let key = if request.key.is_empty() {
            &b"\0"[..]
        } else {
            &request.key
        };
        let end = &request.range_end;
        let empty = !end.is_empty() && end != &b"\0"[..] && end[..] <= *key;
        let taken = request.watch_id != 0 && self.watches[stream].contains(&request.watch_id);
        let compacted = (1..self.compacted).contains(&request.start_revision);
        if compacted && !empty && !taken { 2 } else { 1 }
    }

    fn plan_compaction(&mut self) -> Op {
        let revision = match self.rng.below(10) {
            0..7 => self.rng.between(self.compacted.max(0), self.revision),
            7 => self.revision,
            _ => self
                .rng
                .pick(&[-1, 0, self.compacted, self.revision + 1, i64::MAX]),
        };
        // A watch still reading what is compacted may or may not have finished: settle first.
        let physical = self.rng.percent(50);
        self.planned
            .push_back(Op::Compact(pb::CompactionRequest { revision, physical }));
        self.drain()
    }

    fn plan_restart(&mut self) -> Op {
        let everything = pb::RangeRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            ..Default::default()
        };
        self.planned.push_back(Op::Restart {
            kill: self.rng.percent(60),
        });
        self.planned.push_back(Op::Range(everything));
        self.planned
            .push_back(Op::HashKv(pb::HashKvRequest { revision: 0 }));
        self.planned.push_back(Op::Leases);
        self.drain()
    }
}
