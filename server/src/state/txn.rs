//! Transactions. All comparisons, nested ones included, see the state before the transaction. The
//! chosen branch is checked as a whole. Only then are its writes made, all under one revision.

mod reading;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request as Op;
use raw::response_op::Response as OpResponse;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use storage::mvcc::{Item, KeyRange, Root, Want, Write};

use super::Tally;
use super::answer::Room;
use super::kv;
use crate::basics::error::Error;
use crate::request::keys::compares_rows;
pub use reading::read;
pub(crate) use reading::{Reading, is_read_only, is_serializable};

/// Runs a transaction that may write. What it writes, counts and fails with does not depend on the
/// room for its answer: the comparisons, and all checks, come before the first step.
pub(super) fn write(
    write: &mut Write<'_>,
    txn: &pb::TxnRequest,
    room: &mut Room,
    total: &mut Tally,
) -> Result<raw::TxnResponse, Error> {
    let mut tally = Tally::default();
    let path = choose(write, txn, &mut tally)?;
    // etcd uses two store transactions, one to compare and one to execute, and counts both.
    std::mem::take(&mut tally).end(total);
    check(write, &path)?;
    let mut response = execute(write, &path, room, &mut tally)?;
    tally.end(total);
    response.header = Some(kv::revision_header(write.revision()));
    Ok(response)
}

/// The operations that the comparisons have chosen.
struct Path<'a> {
    succeeded: bool,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    Range(&'a pb::RangeRequest),
    Put(&'a pb::PutRequest),
    Delete(&'a pb::DeleteRangeRequest),
    Txn(Path<'a>),
}

fn choose<'a>(root: &Root, txn: &'a pb::TxnRequest, tally: &mut Tally) -> Result<Path<'a>, Error> {
    let mut succeeded = true;
    for compare in &txn.compare {
        tally.range();
        if !holds(root, compare)? {
            succeeded = false;
            break;
        }
    }
    let ops = if succeeded {
        &txn.success
    } else {
        &txn.failure
    };
    let mut steps = Vec::with_capacity(ops.len());
    for op in ops {
        steps.push(match &op.request {
            Some(Op::RequestRange(range)) => Step::Range(range),
            Some(Op::RequestPut(put)) => Step::Put(put),
            Some(Op::RequestDeleteRange(delete)) => Step::Delete(delete),
            Some(Op::RequestTxn(nested)) => Step::Txn(choose(root, nested, tally)?),
            None => return Err(Error::KeyNotFound),
        });
    }
    Ok(Path { succeeded, steps })
}

/// Checks everything that could make a step fail, before the first step runs.
fn check(root: &Root, path: &Path<'_>) -> Result<(), Error> {
    for step in &path.steps {
        match step {
            Step::Range(range) => check_range_revision(root, range.revision)?,
            Step::Put(put) => kv::check_put(root, put)?,
            Step::Delete(_) => {}
            Step::Txn(nested) => check(root, nested)?,
        }
    }
    Ok(())
}

/// Unlike in a single range, a negative revision is compared with the compacted revision.
fn check_range_revision(root: &Root, revision: i64) -> Result<(), Error> {
    if revision == 0 {
        return Ok(());
    }
    if revision > root.revision() {
        return Err(Error::FutureRevision);
    }
    if revision < root.compacted() {
        return Err(Error::Compacted);
    }
    Ok(())
}

/// Runs the steps in order; each sees the writes of those before it. As in etcd, headers of the
/// steps have only a revision, and that of a nested transaction not even this.
fn execute(
    write: &mut Write<'_>,
    path: &Path<'_>,
    room: &mut Room,
    tally: &mut Tally,
) -> Result<raw::TxnResponse, Error> {
    let mut responses = Vec::with_capacity(path.steps.len());
    for step in &path.steps {
        match step {
            Step::Range(_) => tally.range(),
            Step::Put(put) => tally.put(put),
            Step::Delete(delete) => tally.delete_range(delete),
            Step::Txn(_) => {}
        }
        let response = match step {
            Step::Range(range) => OpResponse::ResponseRange(kv::range_within(write, range, room)?),
            Step::Put(put) => OpResponse::ResponsePut(kv::put(write, put, room)?),
            Step::Delete(delete) => {
                OpResponse::ResponseDeleteRange(kv::delete_range(write, delete, room)?)
            }
            Step::Txn(nested) => OpResponse::ResponseTxn(execute(write, nested, room, tally)?),
        };
        responses.push(raw::ResponseOp {
            response: Some(response),
        });
    }
    Ok(raw::TxnResponse {
        header: Some(pb::ResponseHeader::default()),
        succeeded: path.succeeded,
        responses,
    })
}

/// True if the comparison holds for every key in its range. A range without keys compares like a
/// missing key.
fn holds(root: &Root, compare: &pb::Compare) -> Result<bool, Error> {
    let keys = KeyRange::from_wire(&compare.key, &compare.range_end);
    let wants_value = compare.target == CompareTarget::Value as i32;
    let want = if compares_rows(compare) {
        Want::Values
    } else {
        Want::KeysOnly
    };
    let (mut any, mut all) = (false, true);
    root.range(keys, 0, want, &mut |item| {
        any = true;
        all = item_holds(compare, &item);
        if all {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    if any {
        return Ok(all);
    }
    // A missing key has no value, so a value comparison is false; its numbers are all 0.
    Ok(!wants_value && item_holds(compare, &MISSING))
}

const MISSING: Item<'static> = Item {
    key: b"",
    value: b"",
    create_revision: 0,
    mod_revision: 0,
    version: 0,
    lease: 0,
};

fn item_holds(compare: &pb::Compare, item: &Item<'_>) -> bool {
    let operand = compare.target_union.as_ref();
    let ordering = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Value) => {
            let value = match operand {
                Some(TargetUnion::Value(value)) => &value[..],
                _ => b"",
            };
            item.value.cmp(value)
        }
        Ok(CompareTarget::Version) => item.version.cmp(&match operand {
            Some(TargetUnion::Version(version)) => *version,
            _ => 0,
        }),
        Ok(CompareTarget::Create) => item.create_revision.cmp(&match operand {
            Some(TargetUnion::CreateRevision(revision)) => *revision,
            _ => 0,
        }),
        Ok(CompareTarget::Mod) => item.mod_revision.cmp(&match operand {
            Some(TargetUnion::ModRevision(revision)) => *revision,
            _ => 0,
        }),
        Ok(CompareTarget::Lease) => item.lease.cmp(&match operand {
            Some(TargetUnion::Lease(lease)) => *lease,
            _ => 0,
        }),
        // As in etcd, an unknown target compares as equal, and an unknown relation is true.
        Err(_) => Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}
