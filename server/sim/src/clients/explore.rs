//! Requests of all shapes that etcd's clients can ask for, on few keys, so that they meet. What
//! they must answer is the model's business. None is such that a member refuses it at the door.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request as Op;
use server::request::Request;
use testkit::Rng;

use crate::model::Revisions;

/// Named `x/` and a digit.
const KEYS: u64 = 8;
/// Transactions in transactions.
const DEPTH_MAX: u64 = 2;
/// Revisions around the newest that are read again.
const READ_AGAIN: u64 = 60;
/// A lease that nobody grants.
const NO_LEASE: i64 = i64::MAX;

pub(super) struct Explorer<'a> {
    pub rng: &'a mut Rng,
    pub leases: &'a [i64],
    /// As the asked member has them.
    pub revisions: Revisions,
    /// No range ends before it begins: what users may do with such ones is not the model's business.
    pub only_ranges: bool,
}

/// A read, alone or several at once.
#[derive(Clone, Debug)]
pub(super) enum Read {
    Range(pb::RangeRequest),
    Txn(pb::TxnRequest),
}

impl Explorer<'_> {
    /// True: from what the member has, however old.
    pub(super) fn read(&mut self) -> (Read, bool) {
        let serializable = self.rng.chance(400);
        if self.rng.chance(800) {
            return (Read::Range(self.range()), serializable);
        }
        let txn = pb::TxnRequest {
            compare: self.compares(),
            success: self.ranges(),
            failure: self.ranges(),
        };
        (Read::Txn(txn), serializable)
    }

    pub(super) fn change(&mut self) -> Request {
        match self.rng.below(20) {
            0..8 => {
                let key = key(self.rng.below(KEYS));
                Request::Put(self.put(key))
            }
            8..11 => {
                let (key, range_end) = self.bounds();
                Request::DeleteRange(self.delete(key, range_end))
            }
            _ => {
                let mut free = self.all_keys();
                Request::Txn(self.txn(&mut free, DEPTH_MAX))
            }
        }
    }

    fn all_keys(&mut self) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..KEYS).collect();
        for at in (1..keys.len()).rev() {
            keys.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        keys
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = if self.rng.chance(200) {
            self.wide_bounds()
        } else {
            self.bounds()
        };
        let is_sorted = self.rng.chance(400);
        let mut request = pb::RangeRequest {
            key,
            range_end,
            limit: *self.rng.pick(&[0, 0, 0, 1, 2, 5]),
            revision: self.revision(),
            count_only: self.rng.chance(100),
            keys_only: self.rng.chance(200),
            ..Default::default()
        };
        if is_sorted {
            request.sort_order = self.rng.below(3) as i32;
            request.sort_target = self.rng.below(5) as i32;
        }
        if self.rng.chance(150) {
            request.min_mod_revision = self.bound();
            request.max_mod_revision = self.bound();
        }
        if self.rng.chance(150) {
            request.min_create_revision = self.bound();
            request.max_create_revision = self.bound();
        }
        request
    }

    fn ranges(&mut self) -> Vec<pb::RequestOp> {
        let count = self.rng.below(4);
        (0..count)
            .map(|_| op(Op::RequestRange(self.range())))
            .collect()
    }

    /// Mostly the newest; else one before it, behind a compaction, or one that is still to come.
    fn revision(&mut self) -> i64 {
        let Revisions { current, compacted } = self.revisions;
        let revision = match self.rng.below(20) {
            0..13 => 0,
            13..17 => current - self.rng.below(READ_AGAIN) as i64,
            17 => compacted + self.rng.below(3) as i64 - 1,
            _ => current + self.rng.below(3) as i64,
        };
        revision.max(0)
    }

    /// 0: none.
    fn bound(&mut self) -> i64 {
        if self.rng.chance(300) {
            return 0;
        }
        (self.revisions.current - self.rng.below(READ_AGAIN) as i64).max(1)
    }

    fn bounds(&mut self) -> (Bytes, Bytes) {
        let (one, other) = (self.rng.below(KEYS), self.rng.below(KEYS));
        match self.rng.below(8) {
            0..3 => (key(one), Bytes::new()),
            3 => (Bytes::from_static(b"x/"), Bytes::from_static(b"x0")),
            4 => (key(one), Bytes::from_static(b"\0")),
            _ if self.only_ranges => (key(one.min(other)), key(one.max(other) + 1)),
            // Without any key between them, half of the time.
            _ => (key(one), key(other)),
        }
    }

    /// Keys of others, too.
    fn wide_bounds(&mut self) -> (Bytes, Bytes) {
        let all: [(&[u8], &[u8]); 3] = [(b"\0", b"\0"), (b"k/", b"k0"), (b"l/", b"l0")];
        let (start, end) = *self.rng.pick(&all);
        (Bytes::from_static(start), Bytes::from_static(end))
    }

    fn value(&mut self) -> Bytes {
        let length = match self.rng.below(60) {
            0 => 3000,
            1..8 => self.rng.below(300),
            8..30 => 0,
            _ => self.rng.below(4),
        };
        // Any byte, and the same values now and then.
        (0..length).map(|_| self.rng.below(256) as u8).collect()
    }

    fn lease(&mut self) -> i64 {
        match self.rng.below(40) {
            0..12 if !self.leases.is_empty() => *self.rng.pick(self.leases),
            12 => NO_LEASE,
            _ => 0,
        }
    }

    fn put(&mut self, key: Bytes) -> pb::PutRequest {
        let mut put = pb::PutRequest {
            key,
            value: self.value(),
            lease: self.lease(),
            prev_kv: self.rng.chance(400),
            ..Default::default()
        };
        if self.rng.chance(100) {
            (put.ignore_value, put.value) = (true, Bytes::new());
        }
        if self.rng.chance(100) {
            (put.ignore_lease, put.lease) = (true, 0);
        }
        put
    }

    fn delete(&mut self, key: Bytes, range_end: Bytes) -> pb::DeleteRangeRequest {
        pb::DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.rng.chance(500),
        }
    }

    /// Writes only `free` keys, and takes those that it writes: one transaction must not put a key
    /// that it writes elsewhere.
    fn txn(&mut self, free: &mut Vec<u64>, depth: u64) -> pb::TxnRequest {
        // Deletions may meet each other, but no put.
        let only_deletes = depth == DEPTH_MAX && self.rng.chance(150);
        pb::TxnRequest {
            compare: self.compares(),
            success: self.ops(free, depth, only_deletes),
            failure: self.ops(free, depth, only_deletes),
        }
    }

    fn ops(&mut self, free: &mut Vec<u64>, depth: u64, only_deletes: bool) -> Vec<pb::RequestOp> {
        let count = self.rng.below(4);
        let mut ops = Vec::new();
        for _ in 0..count {
            let next = match self.rng.below(10) {
                0..3 => Op::RequestRange(self.range()),
                _ if only_deletes => {
                    let (key, range_end) = self.bounds();
                    Op::RequestDeleteRange(self.delete(key, range_end))
                }
                3 if depth > 0 => Op::RequestTxn(self.txn(free, depth - 1)),
                chosen => {
                    let Some(number) = free.pop() else { continue };
                    if chosen < 6 {
                        let delete = self.delete(key(number), Bytes::new());
                        Op::RequestDeleteRange(delete)
                    } else {
                        Op::RequestPut(self.put(key(number)))
                    }
                }
            };
            ops.push(op(next));
        }
        ops
    }

    fn compares(&mut self) -> Vec<pb::Compare> {
        let count = self.rng.below(3);
        (0..count).map(|_| self.compare()).collect()
    }

    fn compare(&mut self) -> pb::Compare {
        let (key, range_end) = self.bounds();
        let recent = self.revisions.current - self.rng.below(20) as i64;
        let few = self.rng.below(4) as i64;
        let (target, operand) = match self.rng.below(5) {
            0 => (CompareTarget::Version, TargetUnion::Version(few)),
            1 => (CompareTarget::Create, TargetUnion::CreateRevision(recent)),
            2 => (CompareTarget::Mod, TargetUnion::ModRevision(recent)),
            3 => (CompareTarget::Value, TargetUnion::Value(self.value())),
            _ => (CompareTarget::Lease, TargetUnion::Lease(self.lease())),
        };
        let results = [
            CompareResult::Equal,
            CompareResult::NotEqual,
            CompareResult::Less,
            CompareResult::Greater,
        ];
        pb::Compare {
            result: *self.rng.pick(&results) as i32,
            target: target as i32,
            key,
            range_end,
            target_union: Some(operand),
        }
    }
}

fn key(number: u64) -> Bytes {
    format!("x/{number}").into()
}

fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(request),
    }
}
