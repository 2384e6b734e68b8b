//! Checks of a request that need no state. They run in etcd's order, so that a request with two
//! faults gets the same error.

use std::collections::HashSet;

use etcd_api::etcdserverpb as pb;
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request as Op;
use tonic::Code;

use crate::basics::error::Error;

pub(crate) fn range(request: &pb::RangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if SortOrder::try_from(request.sort_order).is_err()
        || SortTarget::try_from(request.sort_target).is_err()
    {
        return Err(Error::InvalidSortOption);
    }
    Ok(())
}

/// A streamed range allows only key order and no filters.
pub(crate) fn range_stream(request: &pb::RangeRequest) -> Result<(), Error> {
    let unimplemented = |text: &str| Err(Error::Other(Code::Unimplemented, text.to_owned()));
    let by_key = request.sort_target == SortTarget::Key as i32;
    let ascending = request.sort_order == SortOrder::Ascend as i32;
    if request.sort_order != SortOrder::None as i32 && !(ascending && by_key) {
        return unimplemented("RangeStream does not support custom sort orders");
    }
    if request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
    {
        return unimplemented("RangeStream does not support revision filters");
    }
    Ok(())
}

pub(crate) fn put(request: &pb::PutRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

pub(crate) fn delete_range(request: &pb::DeleteRangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    Ok(())
}

/// `max_ops` limits each of the three lists, and the operations left for a nested transaction.
pub(crate) fn txn(request: &pb::TxnRequest, max_ops: usize) -> Result<(), Error> {
    shape(request, max_ops)?;
    Writes::of(&request.success)?;
    Writes::of(&request.failure)?;
    Ok(())
}

fn shape(request: &pb::TxnRequest, max_ops: usize) -> Result<(), Error> {
    let ops = request
        .compare
        .len()
        .max(request.success.len())
        .max(request.failure.len());
    if ops > max_ops {
        return Err(Error::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Op::RequestRange(r)) => range(r)?,
            Some(Op::RequestPut(r)) => put(r)?,
            Some(Op::RequestDeleteRange(r)) => delete_range(r)?,
            Some(Op::RequestTxn(nested)) => shape(nested, max_ops - ops)?,
            None => return Err(Error::KeyNotFound),
        }
    }
    Ok(())
}

/// The keys that a list of operations writes. A put must not meet another write of its key, except
/// in the other branch of the same nested transaction, since only one branch runs.
#[derive(Default)]
struct Writes<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Writes<'a> {
    fn of(ops: &'a [pb::RequestOp]) -> Result<Writes<'a>, Error> {
        let mut all = Writes::default();
        for op in ops {
            if let Some(Op::RequestDeleteRange(delete)) = &op.request {
                all.deletes.push((&delete.key, &delete.range_end));
            }
        }
        // Nested transactions first, checked against the deletes of this list, then the puts.
        for op in ops {
            let Some(Op::RequestTxn(nested)) = &op.request else {
                continue;
            };
            let then = Writes::of(&nested.success)?;
            let otherwise = Writes::of(&nested.failure)?;
            for branch in [&then, &otherwise] {
                if branch
                    .puts
                    .iter()
                    .any(|key| all.puts.contains(key) || all.deletes(key))
                {
                    return Err(Error::DuplicateKey);
                }
            }
            for branch in [then, otherwise] {
                all.puts.extend(branch.puts);
                all.deletes.extend(branch.deletes);
            }
        }
        for op in ops {
            let Some(Op::RequestPut(put)) = &op.request else {
                continue;
            };
            if all.deletes(&put.key) || !all.puts.insert(&put.key) {
                return Err(Error::DuplicateKey);
            }
        }
        Ok(all)
    }

    /// As in etcd, an unbounded delete (range end of one zero byte) counts as empty here, so a put
    /// in its range is allowed.
    fn deletes(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|(start, end)| match *end {
            [] => key == *start,
            end => *start <= key && key < end,
        })
    }
}
