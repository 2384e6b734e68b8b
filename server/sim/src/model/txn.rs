//! Changes of keys: transactions, and the lone operations that are the smallest of them. All
//! comparisons see the state before the transaction, its steps what the steps before them wrote.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request as Op;
use pb::response_op::Response as Done;

use super::keys::{Keys, NEWEST};
use super::{Lease, Refusal, Revisions, range};

type Leases = BTreeMap<i64, Lease>;

pub(super) fn put(
    keys: &mut Keys,
    leases: &Leases,
    request: &pb::PutRequest,
) -> Result<pb::PutResponse, Refusal> {
    check_put(keys, leases, request)?;
    Ok(Writing::new(keys).put(request))
}

pub(super) fn delete_range(
    keys: &mut Keys,
    request: &pb::DeleteRangeRequest,
) -> pb::DeleteRangeResponse {
    Writing::new(keys).delete_range(request)
}

pub(super) fn run(
    keys: &mut Keys,
    revisions: Revisions,
    leases: &Leases,
    request: &pb::TxnRequest,
) -> Result<pb::TxnResponse, Refusal> {
    let branch = choose(keys, NEWEST, request);
    check(keys, revisions, leases, &branch)?;
    let mut writing = Writing::new(keys);
    let mut response = writing.run(&branch);
    response.header = header(writing.revision());
    Ok(response)
}

/// Only reads, from the state that has these revisions.
pub(super) fn read(
    keys: &Keys,
    revisions: Revisions,
    request: &pb::TxnRequest,
) -> Result<pb::TxnResponse, Refusal> {
    let branch = choose(keys, revisions.current, request);
    let mut response = pb::TxnResponse {
        header: header(revisions.current),
        succeeded: branch.succeeded,
        ..Default::default()
    };
    for step in &branch.steps {
        let Step::Op(Op::RequestRange(request)) = step else {
            unreachable!("a read only reads");
        };
        let range = range::answer(keys, revisions, request)?;
        response.responses.push(done(Done::ResponseRange(range)));
    }
    Ok(response)
}

/// What the comparisons chose.
struct Branch<'a> {
    succeeded: bool,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    /// No transaction.
    Op(&'a Op),
    Nested(Branch<'a>),
}

fn choose<'a>(keys: &Keys, at: i64, request: &'a pb::TxnRequest) -> Branch<'a> {
    let succeeded = request
        .compare
        .iter()
        .all(|compare| holds(keys, at, compare));
    let ops = if succeeded {
        &request.success
    } else {
        &request.failure
    };
    let steps = ops.iter().filter_map(|op| op.request.as_ref());
    let steps = steps.map(|op| match op {
        Op::RequestTxn(nested) => Step::Nested(choose(keys, at, nested)),
        op => Step::Op(op),
    });
    Branch {
        succeeded,
        steps: steps.collect(),
    }
}

/// For every key of the range. A range without keys is like one key that has never been.
fn holds(keys: &Keys, at: i64, compare: &pb::Compare) -> bool {
    let mut found = keys.range(&compare.key, &compare.range_end, at).peekable();
    if found.peek().is_some() {
        return found.all(|kv| holds_for(compare, kv));
    }
    compare.target() != CompareTarget::Value && holds_for(compare, &KeyValue::default())
}

fn holds_for(compare: &pb::Compare, kv: &KeyValue) -> bool {
    let ordering = match (&compare.target_union, compare.target()) {
        (Some(TargetUnion::Value(value)), CompareTarget::Value) => kv.value.cmp(value),
        (Some(TargetUnion::Version(version)), CompareTarget::Version) => kv.version.cmp(version),
        (Some(TargetUnion::CreateRevision(revision)), CompareTarget::Create) => {
            kv.create_revision.cmp(revision)
        }
        (Some(TargetUnion::ModRevision(revision)), CompareTarget::Mod) => {
            kv.mod_revision.cmp(revision)
        }
        (Some(TargetUnion::Lease(lease)), CompareTarget::Lease) => kv.lease.cmp(lease),
        other => unreachable!("clients here compare with what they name: {other:?}"),
    };
    match compare.result() {
        CompareResult::Equal => ordering == Ordering::Equal,
        CompareResult::NotEqual => ordering != Ordering::Equal,
        CompareResult::Greater => ordering == Ordering::Greater,
        CompareResult::Less => ordering == Ordering::Less,
    }
}

/// A transaction with a step that cannot be made has no effect at all.
fn check(
    keys: &Keys,
    revisions: Revisions,
    leases: &Leases,
    branch: &Branch<'_>,
) -> Result<(), Refusal> {
    for step in &branch.steps {
        match step {
            Step::Op(Op::RequestRange(request)) => {
                range::check_revision(revisions, request.revision)?;
            }
            Step::Op(Op::RequestPut(request)) => check_put(keys, leases, request)?,
            Step::Op(_) => {}
            Step::Nested(nested) => check(keys, revisions, leases, nested)?,
        }
    }
    Ok(())
}

fn check_put(keys: &Keys, leases: &Leases, request: &pb::PutRequest) -> Result<(), Refusal> {
    if request.lease != 0 && !leases.contains_key(&request.lease) {
        return Err(Refusal::LeaseNotFound);
    }
    let takes_over = request.ignore_value || request.ignore_lease;
    if takes_over && keys.get(&request.key, NEWEST).is_none() {
        return Err(Refusal::KeyNotFound);
    }
    Ok(())
}

/// The steps of one request: all their changes have the same revision.
struct Writing<'a> {
    keys: &'a mut Keys,
    /// Of the changes.
    next: i64,
}

impl Writing<'_> {
    fn new(keys: &mut Keys) -> Writing<'_> {
        let next = keys.revision() + 1;
        Writing { keys, next }
    }

    /// As far as it has come.
    fn revision(&self) -> i64 {
        self.keys.revision()
    }

    fn run(&mut self, branch: &Branch<'_>) -> pb::TxnResponse {
        let mut responses = Vec::new();
        for step in &branch.steps {
            responses.push(done(match step {
                Step::Op(Op::RequestRange(request)) => Done::ResponseRange(self.range(request)),
                Step::Op(Op::RequestPut(request)) => Done::ResponsePut(self.put(request)),
                Step::Op(Op::RequestDeleteRange(request)) => {
                    Done::ResponseDeleteRange(self.delete_range(request))
                }
                Step::Op(Op::RequestTxn(_)) => unreachable!("these are nested branches"),
                Step::Nested(nested) => Done::ResponseTxn(self.run(nested)),
            }));
        }
        pb::TxnResponse {
            header: Some(pb::ResponseHeader::default()),
            succeeded: branch.succeeded,
            responses,
        }
    }

    fn range(&self, request: &pb::RangeRequest) -> pb::RangeResponse {
        let at = match request.revision {
            0 => NEWEST,
            revision => revision,
        };
        range::rows(self.keys, at, self.revision(), request)
    }

    fn put(&mut self, request: &pb::PutRequest) -> pb::PutResponse {
        let before = self.keys.get(&request.key, NEWEST).cloned();
        let kept = before.clone().unwrap_or_default();
        let value = if request.ignore_value {
            &kept.value
        } else {
            &request.value
        };
        let lease = if request.ignore_lease {
            kept.lease
        } else {
            request.lease
        };
        self.keys.put(&request.key, value, lease, self.next);
        pb::PutResponse {
            header: header(self.next),
            prev_kv: before.filter(|_| request.prev_kv),
        }
    }

    fn delete_range(&mut self, request: &pb::DeleteRangeRequest) -> pb::DeleteRangeResponse {
        let found = self.keys.range(&request.key, &request.range_end, NEWEST);
        let found: Vec<KeyValue> = found.cloned().collect();
        for kv in &found {
            self.keys.delete(&kv.key, self.next);
        }
        pb::DeleteRangeResponse {
            header: header(self.revision()),
            deleted: found.len() as i64,
            prev_kvs: if request.prev_kv { found } else { Vec::new() },
        }
    }
}

fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader {
        revision,
        ..Default::default()
    })
}

fn done(response: Done) -> pb::ResponseOp {
    pb::ResponseOp {
        response: Some(response),
    }
}
