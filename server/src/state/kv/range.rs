//! Ranges, read in steps. Between two steps the caller may wait for memory, yield the thread, or
//! notice that the client has left. Rows are encoded as they are read.

use std::cmp::Ordering;
use std::mem;
use std::ops::ControlFlow;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use etcd_api::raw;
use pb::range_request::{SortOrder, SortTarget};
use raw::Rows;
use storage::mvcc::{Item, KeyRange, Root, Want};

use super::key_value::{encode_key_value, key_value_len};
use super::{revision_header, revision_to_read};
use crate::basics::error::Error;
use crate::state::answer::Room;
use crate::state::to_key_value;

/// Rows to be sorted are cut to the limit when there are twice as many plus this slack.
const SORT_SLACK: usize = 1024;

/// Answers a range from `root`; the header carries the root's revision.
pub fn range(root: &Root, request: &pb::RangeRequest) -> Result<raw::RangeResponse, Error> {
    let mut reading = Reading::new(root, request.clone())?;
    reading.step(root, Step::WHOLE)?;
    reading.finish(root)
}

/// Answers a range within a transaction, as far as there is room for its rows. Without room nothing
/// is read, and the answer is empty. The caller has checked the request's revision, so that whether
/// the transaction fails does not depend on the room.
pub(in crate::state) fn range_within(
    root: &Root,
    request: &pb::RangeRequest,
    room: &mut Room,
) -> Result<raw::RangeResponse, Error> {
    if !room.is_left() {
        return Ok(raw::RangeResponse::default());
    }
    let mut reading = Reading::new(root, request.clone())?;
    // Ends behind the row with which there are too many bytes. As for a range alone, rows that are
    // still to be sorted count with the memory that they take.
    let step = Step {
        rows: usize::MAX,
        bytes: room.left().saturating_add(1),
    };
    if !reading.step(root, step)? {
        room.take(reading.held_bytes());
        return Ok(raw::RangeResponse::default());
    }
    let response = reading.finish(root)?;
    if room.take(response.kvs.bytes()) {
        Ok(response)
    } else {
        Ok(raw::RangeResponse::default())
    }
}

/// Limits of one step; the step ends at the first one reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub rows: usize,
    /// Additional bytes held; the row that exceeds this is still read.
    pub bytes: usize,
}

impl Step {
    pub(crate) const WHOLE: Step = Step {
        rows: usize::MAX,
        bytes: usize::MAX,
    };
}

/// A range being read. All steps must use the same root.
pub(crate) struct Reading {
    request: pb::RangeRequest,
    at: i64,
    /// Rows to visit before the answer is complete.
    to_visit: usize,
    visited: usize,
    /// The key at which the next step begins.
    next: Bytes,
    is_done: bool,
    found: Found,
}

impl Reading {
    pub(crate) fn new(root: &Root, request: pb::RangeRequest) -> Result<Reading, Error> {
        let found = Found {
            limit: limit(&request),
            ..Found::default()
        };
        // In key order, one row beyond the limit shows whether there are more.
        let to_visit = if !filtered(&request) && limits_before_sorting(&request) {
            found.limit.saturating_add(1)
        } else {
            usize::MAX
        };
        Ok(Reading {
            at: revision_to_read(root, request.revision)?,
            to_visit,
            visited: 0,
            next: request.key.clone(),
            is_done: request.count_only,
            found,
            request,
        })
    }

    /// Reads on. Returns true when everything needed has been read.
    pub(crate) fn step(&mut self, root: &Root, step: Step) -> Result<bool, Error> {
        if self.is_done {
            return Ok(true);
        }
        let start = mem::take(&mut self.next);
        let rows_until = self.visited.saturating_add(step.rows);
        let bytes_until = self.found.bytes().saturating_add(step.bytes);
        let mut next = None;
        visit(root, &self.request, &start, self.at, |item| {
            self.visited += 1;
            self.found.take(&self.request, &item);
            if self.visited == self.to_visit {
                return ControlFlow::Break(());
            }
            if self.visited >= rows_until || self.found.bytes() >= bytes_until {
                next = Some(behind(item.key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        // After a single key there is nothing more to read.
        next = next.filter(|_| !self.request.range_end.is_empty());
        self.is_done = next.is_none();
        self.next = next.unwrap_or_default();
        Ok(self.is_done)
    }

    /// Approximate memory of what has been read.
    pub(crate) fn held_bytes(&self) -> usize {
        self.found.bytes()
    }

    /// The answer; all steps must be done.
    pub(crate) fn finish(self, root: &Root) -> Result<raw::RangeResponse, Error> {
        assert!(self.is_done, "an answer needs all of its rows");
        let request = &self.request;
        // If reading stopped early, or has not begun, the count needs a separate query.
        let count = if self.visited < self.to_visit && !request.count_only {
            self.visited as i64
        } else {
            let keys = KeyRange::from_wire(&request.key, &request.range_end);
            root.count(keys, self.at)? as i64
        };
        let (kvs, more) = self.found.finish(request);
        Ok(raw::RangeResponse {
            header: Some(revision_header(root.revision())),
            kvs,
            more,
            count,
        })
    }
}

/// The rows found so far.
#[derive(Default)]
struct Found {
    limit: usize,
    rows: Rows,
    /// There are more rows than the limit.
    more: bool,
    /// Candidate rows, if the result is not in key order.
    unsorted: Vec<KeyValue>,
    unsorted_bytes: usize,
}

impl Found {
    fn bytes(&self) -> usize {
        self.rows.bytes() + self.unsorted_bytes
    }

    fn take(&mut self, request: &pb::RangeRequest, item: &Item<'_>) {
        if !within_bounds(request, item) {
            return;
        }
        if is_in_key_order(request) {
            return self.add(request, item);
        }
        self.unsorted_bytes += size_of::<KeyValue>() + item.key.len() + item.value.len();
        self.unsorted.push(to_key_value(*item));
        // Keep one row beyond the limit, to know that there are more.
        let useful = self.limit.saturating_add(1);
        if self.unsorted.len() >= useful.saturating_mul(2).saturating_add(SORT_SLACK) {
            sort(request, &mut self.unsorted);
            self.unsorted.truncate(useful);
            let bytes = |kv: &KeyValue| size_of::<KeyValue>() + kv.key.len() + kv.value.len();
            self.unsorted_bytes = self.unsorted.iter().map(bytes).sum();
        }
    }

    fn add(&mut self, request: &pb::RangeRequest, item: &Item<'_>) {
        if self.rows.len() < self.limit {
            push(&mut self.rows, request, item)
        } else {
            self.more = true
        }
    }

    fn finish(mut self, request: &pb::RangeRequest) -> (Rows, bool) {
        let mut unsorted = mem::take(&mut self.unsorted);
        sort(request, &mut unsorted);
        // Each row is dropped after it is encoded, so that few rows are in memory twice.
        for kv in unsorted {
            self.add(request, &item(&kv));
        }
        (self.rows, self.more)
    }
}

/// One part of a streamed range.
pub(crate) struct Part {
    pub rows: Rows,
    /// More parts follow.
    pub more: bool,
    /// First key of the next part, if more follow.
    pub next_key: Bytes,
}

/// Reads the next `request.limit` rows (all if not positive), or fewer if they reach `bytes_max`.
/// As in etcd, a sort target other than the key sorts each part separately, and the next part
/// begins after the last row in that order.
pub(crate) fn part(
    root: &Root,
    request: &pb::RangeRequest,
    bytes_max: usize,
) -> Result<Part, Error> {
    let mut part = Part {
        rows: Rows::default(),
        more: false,
        next_key: Bytes::new(),
    };
    if request.count_only {
        return Ok(part);
    }
    let limit = limit(request);
    if is_in_key_order(request) {
        visit(root, request, &request.key, request.revision, |item| {
            let is_full = part.rows.len() == limit || part.rows.bytes() >= bytes_max;
            if is_full {
                part.more = true;
                part.next_key = Bytes::copy_from_slice(item.key);
                return ControlFlow::Break(());
            }
            push(&mut part.rows, request, &item);
            ControlFlow::Continue(())
        })?;
        return Ok(part);
    }
    let (mut kvs, mut bytes) = (Vec::new(), 0);
    visit(root, request, &request.key, request.revision, |item| {
        // As in etcd, the row beyond the limit is sorted too.
        part.more = kvs.len() == limit || bytes >= bytes_max;
        bytes += key_value_len(&item);
        kvs.push(to_key_value(item));
        if part.more {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    sort(request, &mut kvs);
    if part.more {
        kvs.pop();
    }
    if let Some(last) = kvs.last() {
        part.next_key = behind(&last.key);
    }
    for kv in kvs {
        push(&mut part.rows, request, &item(&kv));
    }
    Ok(part)
}

/// The first key after `key`.
fn behind(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

fn limit(request: &pb::RangeRequest) -> usize {
    match usize::try_from(request.limit) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    }
}

/// As in etcd, the limit applies before sorting if no order is requested, whatever the target, or
/// if the order is that of the keys.
fn limits_before_sorting(request: &pb::RangeRequest) -> bool {
    request.sort_order == SortOrder::None as i32
        || (request.sort_order == SortOrder::Ascend as i32
            && request.sort_target == SortTarget::Key as i32)
}

/// True if rows are returned in the order in which they are read.
fn is_in_key_order(request: &pb::RangeRequest) -> bool {
    request.sort_target == SortTarget::Key as i32 && request.sort_order != SortOrder::Descend as i32
}

/// Calls `row` for the rows of the range, from `start` on, in key order.
fn visit(
    root: &Root,
    request: &pb::RangeRequest,
    start: &[u8],
    at: i64,
    mut row: impl FnMut(Item<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    // Keys-only answers come from the key tree alone and have no lease, like those from etcd's
    // index. Only a sort by value must fetch the values, and then the lease is known too.
    let keys_alone = request.keys_only && request.sort_target != SortTarget::Value as i32;
    let want = if keys_alone {
        Want::KeysOnly
    } else {
        Want::Values
    };
    if request.range_end.is_empty() && !keys_alone {
        // There is only one row, so `Break` or `Continue` does not matter.
        root.get(start, at, |item| {
            let _ = row(item);
        })?;
        return Ok(());
    }
    let keys = KeyRange::from_wire(start, &request.range_end);
    root.range(keys, at, want, &mut |item| {
        row(if keys_alone {
            Item { lease: 0, ..item }
        } else {
            item
        })
    })?;
    Ok(())
}

fn push(rows: &mut Rows, request: &pb::RangeRequest, item: &Item<'_>) {
    let value = if request.keys_only { b"" } else { item.value };
    let item = Item { value, ..*item };
    rows.push(key_value_len(&item), |mut out| {
        encode_key_value(&item, &mut out);
    });
}

fn filtered(request: &pb::RangeRequest) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

/// A bound of 0 means no bound; a negative bound counts.
fn within_bounds(request: &pb::RangeRequest, item: &Item<'_>) -> bool {
    let at_most = |bound: i64, revision: i64| bound == 0 || revision <= bound;
    let at_least = |bound: i64, revision: i64| bound == 0 || revision >= bound;
    at_most(request.max_mod_revision, item.mod_revision)
        && at_least(request.min_mod_revision, item.mod_revision)
        && at_most(request.max_create_revision, item.create_revision)
        && at_least(request.min_create_revision, item.create_revision)
}

/// Sorts rows that arrive in ascending key order. As in etcd, a target other than the key sorts
/// ascending even without a requested order, after the limit was applied. Equal rows stay in key
/// order.
fn sort(request: &pb::RangeRequest, kvs: &mut [KeyValue]) {
    let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
    let order = SortOrder::try_from(request.sort_order).unwrap_or(SortOrder::None);
    let by = |a: &KeyValue, b: &KeyValue| -> Ordering {
        match target {
            SortTarget::Key => a.key.cmp(&b.key),
            SortTarget::Version => a.version.cmp(&b.version),
            SortTarget::Create => a.create_revision.cmp(&b.create_revision),
            SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
            SortTarget::Value => a.value.cmp(&b.value),
        }
    };
    match (target, order) {
        (SortTarget::Key, SortOrder::None | SortOrder::Ascend) => {}
        (_, SortOrder::None | SortOrder::Ascend) => kvs.sort_by(by),
        (_, SortOrder::Descend) => kvs.sort_by(|a, b| by(b, a)),
    }
}

fn item(kv: &KeyValue) -> Item<'_> {
    Item {
        key: &kv.key,
        value: &kv.value,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
    }
}

#[cfg(test)]
mod tests;
