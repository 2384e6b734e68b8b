//! Checks of a request that need no state. They run in etcd's order, so that a request with two
//! faults gets the same error.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

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
///
/// A message holds a hundred thousand operations, so none is compared with all others.
#[derive(Default)]
struct Writes<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: Deletes<'a>,
}

impl<'a> Writes<'a> {
    fn of(ops: &'a [pb::RequestOp]) -> Result<Writes<'a>, Error> {
        let mut all = Writes::default();
        for op in ops {
            if let Some(Op::RequestDeleteRange(delete)) = &op.request {
                all.deletes.add(&delete.key, &delete.range_end);
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
                    .any(|key| all.puts.contains(key) || all.deletes.contain(key))
                {
                    return Err(Error::DuplicateKey);
                }
            }
            for branch in [then, otherwise] {
                unite(&mut all.puts, branch.puts);
                all.deletes.add_all(branch.deletes);
            }
        }
        for op in ops {
            let Some(Op::RequestPut(put)) = &op.request else {
                continue;
            };
            if all.deletes.contain(&put.key) || !all.puts.insert(&put.key) {
                return Err(Error::DuplicateKey);
            }
        }
        Ok(all)
    }
}

/// Keys that are deleted.
#[derive(Default)]
struct Deletes<'a> {
    keys: HashSet<&'a [u8]>,
    /// The end of each range by its start. No two overlap.
    ranges: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Deletes<'a> {
    fn add(&mut self, start: &'a [u8], end: &'a [u8]) {
        if end.is_empty() {
            self.keys.insert(start);
        } else {
            self.add_range(start, end);
        }
    }

    /// As in etcd, an unbounded delete (range end of one zero byte) counts as empty here, so a put
    /// in its range is allowed.
    fn add_range(&mut self, mut start: &'a [u8], mut end: &'a [u8]) {
        if end <= start {
            return;
        }
        while let Some((from, until)) = self.last_before(Bound::Excluded(end))
            && until >= start
        {
            self.ranges.remove(from);
            (start, end) = (start.min(from), end.max(until));
        }
        self.ranges.insert(start, end);
    }

    fn add_all(&mut self, mut others: Deletes<'a>) {
        unite(&mut self.keys, others.keys);
        // Few into many, for the same reason as in `unite`.
        if self.ranges.len() < others.ranges.len() {
            std::mem::swap(&mut self.ranges, &mut others.ranges);
        }
        for (start, end) in others.ranges {
            self.add_range(start, end);
        }
    }

    fn contain(&self, key: &[u8]) -> bool {
        let last = self.last_before(Bound::Included(key));
        self.keys.contains(key) || last.is_some_and(|(_, until)| key < until)
    }

    /// The last range that starts before there.
    fn last_before(&self, there: Bound<&[u8]>) -> Option<(&'a [u8], &'a [u8])> {
        let mut before = self.ranges.range::<[u8], _>((Bound::Unbounded, there));
        before.next_back().map(|(start, end)| (*start, *end))
    }
}

/// Moves few keys to many: a key that moves is in a set of at least twice the size then, so none
/// moves often, however transactions are nested.
fn unite<'a>(all: &mut HashSet<&'a [u8]>, mut others: HashSet<&'a [u8]>) {
    if all.len() < others.len() {
        std::mem::swap(all, &mut others);
    }
    all.extend(others);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn put(key: Bytes) -> Op {
        Op::RequestPut(pb::PutRequest {
            key,
            ..Default::default()
        })
    }

    fn delete(key: Bytes) -> Op {
        Op::RequestDeleteRange(pb::DeleteRangeRequest {
            key,
            ..Default::default()
        })
    }

    fn list(ops: impl IntoIterator<Item = Op>) -> pb::TxnRequest {
        let some = |op| pb::RequestOp { request: Some(op) };
        pb::TxnRequest {
            success: ops.into_iter().map(some).collect(),
            ..Default::default()
        }
    }

    /// Compared one by one, their keys would take a server minutes, before it knows who asks.
    #[test]
    fn a_transaction_of_very_many_operations_is_checked() {
        const WIDTH: u32 = 42;
        let key = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
        let inner = |of: u32| {
            list((of * WIDTH..(of + 1) * WIDTH).map(|number| {
                if of < WIDTH * WIDTH / 2 {
                    delete(key(number))
                } else {
                    put(key(number))
                }
            }))
        };
        let middle =
            |of: u32| list((of * WIDTH..(of + 1) * WIDTH).map(|of| Op::RequestTxn(inner(of))));
        let mut outer: Vec<Op> = (0..WIDTH).map(|of| Op::RequestTxn(middle(of))).collect();
        assert_eq!(txn(&list(outer.clone()), 128), Ok(()));
        outer.push(put(key(0)));
        assert_eq!(txn(&list(outer), 128), Err(Error::DuplicateKey));
    }

    #[test]
    fn deletes_contain_what_each_of_them_does() {
        let mut rng = fastrand::Rng::with_seed(7);
        let keys: Vec<[u8; 1]> = (0..=30).map(|byte| [byte]).collect();
        for _ in 0..2_000 {
            let (mut sets, mut each) = ([Deletes::default(), Deletes::default()], Vec::new());
            for _ in 0..rng.usize(..8) {
                let start = &keys[rng.usize(1..keys.len())][..];
                let end = match rng.usize(..4) {
                    0 => &[][..],
                    _ => &keys[rng.usize(..keys.len())],
                };
                sets[rng.usize(..2)].add(start, end);
                each.push((start, end));
            }
            let [mut all, others] = sets;
            all.add_all(others);
            for key in keys.iter().map(|key| &key[..]) {
                let deleted = each.iter().any(|(start, end)| match end {
                    [] => key == *start,
                    end => *start <= key && key < *end,
                });
                assert_eq!(all.contain(key), deleted, "{key:?} in {each:?}");
            }
        }
    }
}
