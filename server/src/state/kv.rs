//! Single operations on keys: range, put, delete range, compact. The same functions serve a
//! request of its own and an operation inside a transaction.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use etcd_api::raw;
use pb::range_request::{SortOrder, SortTarget};
use storage::mvcc::{Item, KeyRange, Root, Want, Write};

use super::to_key_value;
use crate::encode::{encode_key_value, key_value_len};
use crate::error::Error;

/// Answers a range from `root`; the header carries the root's revision.
pub fn range(root: &Root, request: &pb::RangeRequest) -> Result<raw::RangeResponse, Error> {
    let at = revision_to_read(root, request.revision)?;
    let keys = KeyRange::from_wire(&request.key, &request.range_end);
    let mut response = raw::RangeResponse {
        header: Some(revision_header(root.revision())),
        ..Default::default()
    };
    if request.count_only {
        response.count = root.count(keys, at)? as i64;
        return Ok(response);
    }
    let limit = match usize::try_from(request.limit) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    // In plain key order one row beyond the limit tells whether there are more.
    let in_key_order = !filtered(request) && limits_before_sorting(request);
    let rows_to_read = if in_key_order {
        limit.saturating_add(1)
    } else {
        usize::MAX
    };
    let rows_read = if in_key_order && request.sort_target == SortTarget::Key as i32 {
        let mut rows = Rows::default();
        visit(root, request, at, rows_to_read, |item| rows.push(&item))?;
        response.kvs = rows.encoded;
        response.kvs.len()
    } else {
        let mut kvs = Vec::new();
        visit(root, request, at, rows_to_read, |item| {
            kvs.push(to_key_value(item))
        })?;
        let rows_read = kvs.len();
        retain_by_revision(request, &mut kvs);
        sort(request, &mut kvs);
        let mut rows = Rows::default();
        // The row beyond the limit stays in, to be seen below.
        kvs.truncate(limit.saturating_add(1));
        rows.push_all(request, &kvs);
        response.kvs = rows.encoded;
        rows_read
    };
    // Whoever stopped reading early has to ask how many there are.
    response.count = match rows_read < rows_to_read {
        true => rows_read as i64,
        false => root.count(keys, at)? as i64,
    };
    if response.kvs.len() > limit {
        response.kvs.truncate(limit);
        response.more = true;
    }
    Ok(response)
}

/// One part of a range that is sent in parts.
pub struct Part {
    pub rows: Vec<Bytes>,
    /// The range goes on after this part.
    pub more: bool,
    /// Where it goes on, if it does.
    pub next_key: Bytes,
}

/// Reads the next `request.limit` rows (not positive: all). A target other than the key sorts each
/// part by itself, and the next one begins after the last row of that order: so etcd does it.
pub fn part(root: &Root, request: &pb::RangeRequest) -> Result<Part, Error> {
    let mut part = Part {
        rows: Vec::new(),
        more: false,
        next_key: Bytes::new(),
    };
    if request.count_only {
        return Ok(part);
    }
    let limit = match usize::try_from(request.limit) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    let mut kvs = Vec::new();
    visit(
        root,
        request,
        request.revision,
        limit.saturating_add(1),
        |item| {
            kvs.push(to_key_value(item));
        },
    )?;
    sort(request, &mut kvs);
    if kvs.len() > limit {
        part.more = true;
        kvs.truncate(limit);
    }
    if let Some(last) = kvs.last() {
        part.next_key = [&last.key[..], &[0]].concat().into();
    }
    let mut rows = Rows::default();
    rows.push_all(request, &kvs);
    part.rows = rows.encoded;
    Ok(part)
}

/// The revision a read runs at, or why it cannot.
pub fn revision_to_read(root: &Root, requested: i64) -> Result<i64, Error> {
    let at = if requested <= 0 {
        root.revision()
    } else {
        requested
    };
    if at > root.revision() {
        return Err(Error::FutureRevision);
    }
    if at < root.compacted() {
        return Err(Error::Compacted);
    }
    Ok(at)
}

pub fn put(write: &mut Write<'_>, request: &pb::PutRequest) -> Result<pb::PutResponse, Error> {
    check_put(write, request)?;
    let needs_previous = request.prev_kv || request.ignore_value || request.ignore_lease;
    let previous = if needs_previous {
        write.get(&request.key, 0, to_key_value)?
    } else {
        None
    };
    let mut value = &request.value[..];
    let mut lease = request.lease;
    if let Some(previous) = &previous {
        if request.ignore_value {
            value = &previous.value;
        }
        if request.ignore_lease {
            lease = previous.lease;
        }
    }
    write.put(&request.key, value, lease)?;
    Ok(pb::PutResponse {
        header: Some(revision_header(write.revision())),
        prev_kv: previous.filter(|_| request.prev_kv),
    })
}

/// What must hold before a put may start, alone or in a transaction.
pub fn check_put(root: &Root, request: &pb::PutRequest) -> Result<(), Error> {
    if request.lease != 0 && !super::lease::exists(root, request.lease)? {
        return Err(Error::LeaseNotFound);
    }
    if (request.ignore_value || request.ignore_lease)
        && root.get(&request.key, 0, |_| ())?.is_none()
    {
        return Err(Error::KeyNotFound);
    }
    Ok(())
}

pub fn delete_range(
    write: &mut Write<'_>,
    request: &pb::DeleteRangeRequest,
) -> Result<pb::DeleteRangeResponse, Error> {
    let keys = KeyRange::from_wire(&request.key, &request.range_end);
    let mut prev_kvs = Vec::new();
    if request.prev_kv {
        write.range(keys, 0, Want::Values, &mut |item| {
            prev_kvs.push(to_key_value(item));
            ControlFlow::Continue(())
        })?;
    }
    let deleted = write.delete_range(keys)? as i64;
    let header = Some(revision_header(write.revision()));
    Ok(pb::DeleteRangeResponse {
        header,
        deleted,
        prev_kvs,
    })
}

pub fn compact(write: &mut Write<'_>, request: &pb::CompactionRequest) -> Result<(), Error> {
    if request.revision <= write.compacted() {
        return Err(Error::Compacted);
    }
    if request.revision > write.revision() {
        return Err(Error::FutureRevision);
    }
    write.compact(request.revision)?;
    Ok(())
}

/// A header that so far says only at which revision its answer was made.
pub(super) fn revision_header(revision: i64) -> pb::ResponseHeader {
    pb::ResponseHeader {
        revision,
        ..Default::default()
    }
}

/// etcd cuts a range to its limit while it reads when no order is asked for, whatever the target,
/// or the order of the keys.
fn limits_before_sorting(request: &pb::RangeRequest) -> bool {
    request.sort_order == SortOrder::None as i32
        || (request.sort_order == SortOrder::Ascend as i32
            && request.sort_target == SortTarget::Key as i32)
}

/// Calls `row` for the rows of the range in key order, at most `rows` of them.
fn visit(
    root: &Root,
    request: &pb::RangeRequest,
    at: i64,
    rows: usize,
    mut row: impl FnMut(Item<'_>),
) -> Result<(), Error> {
    // Keys-only answers come from the key tree alone and, as etcd's from its index, know no
    // lease. Only a sort by value has to fetch the values, and then the lease is there too.
    let keys_alone = request.keys_only && request.sort_target != SortTarget::Value as i32;
    let want = if keys_alone {
        Want::KeysOnly
    } else {
        Want::Values
    };
    if request.range_end.is_empty() && !keys_alone {
        root.get(&request.key, at, row)?;
        return Ok(());
    }
    let keys = KeyRange::from_wire(&request.key, &request.range_end);
    let mut left = rows;
    root.range(keys, at, want, &mut |item| {
        row(if keys_alone {
            Item { lease: 0, ..item }
        } else {
            item
        });
        left -= 1;
        if left > 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(())
}

/// Encoded key-values, many to an allocation.
#[derive(Default)]
struct Rows {
    encoded: Vec<Bytes>,
    buffer: BytesMut,
}

impl Rows {
    const BUFFER_BYTES: usize = 16 << 10;

    fn push_all(&mut self, request: &pb::RangeRequest, kvs: &[KeyValue]) {
        for kv in kvs {
            let value = if request.keys_only {
                b""
            } else {
                &kv.value[..]
            };
            self.push(&Item { value, ..item(kv) });
        }
    }

    fn push(&mut self, item: &Item<'_>) {
        let len = key_value_len(item);
        if self.buffer.capacity() < len {
            // The first row gets no more than it needs: most ranges have one.
            let more = if self.encoded.is_empty() {
                len
            } else {
                len.max(Self::BUFFER_BYTES)
            };
            self.buffer = BytesMut::with_capacity(more);
        }
        encode_key_value(item, &mut self.buffer);
        self.encoded.push(self.buffer.split().freeze());
    }
}

fn filtered(request: &pb::RangeRequest) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

/// A bound of 0 is no bound; a negative one is a real one.
fn retain_by_revision(request: &pb::RangeRequest, kvs: &mut Vec<KeyValue>) {
    let at_most = |bound: i64, revision: i64| bound == 0 || revision <= bound;
    let at_least = |bound: i64, revision: i64| bound == 0 || revision >= bound;
    kvs.retain(|kv| {
        at_most(request.max_mod_revision, kv.mod_revision)
            && at_least(request.min_mod_revision, kv.mod_revision)
            && at_most(request.max_create_revision, kv.create_revision)
            && at_least(request.min_create_revision, kv.create_revision)
    });
}

/// Rows arrive in ascending key order. A target other than the key sorts ascending even when no
/// order was asked for; etcd does so after the limit has been applied, and so does this.
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
