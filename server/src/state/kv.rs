//! Single operations on keys: range, put, delete range, compact. The same functions run a request
//! and an operation inside a transaction.

mod key_value;
mod range;

use std::ops::ControlFlow;

use etcd_api::etcdserverpb as pb;
use prost::Message as _;
use prost::encoding::encoded_len_varint;
use storage::mvcc::{KeyRange, Root, Want, Write};

use super::answer::Room;
use super::to_key_value;
use crate::basics::error::Error;
use crate::request::keys::reads_previous;

use key_value::key_value_len;
pub use range::range;
pub(super) use range::range_within;
pub(crate) use range::{Reading, Step, part};

/// The revision at which a read runs, or the error if it is compacted or in the future.
pub(crate) fn revision_to_read(root: &Root, requested: i64) -> Result<i64, Error> {
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

pub(super) fn put(
    write: &mut Write<'_>,
    request: &pb::PutRequest,
    room: &mut Room,
) -> Result<pb::PutResponse, Error> {
    check_put(write, request)?;
    let shows_previous = request.prev_kv && room.is_left();
    let previous = if reads_previous(request, shows_previous) {
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
        prev_kv: previous.filter(|kv| shows_previous && room.take(framed(kv.encoded_len()))),
    })
}

/// The preconditions of a put, alone or in a transaction.
pub(crate) fn check_put(root: &Root, request: &pb::PutRequest) -> Result<(), Error> {
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

pub(super) fn delete_range(
    write: &mut Write<'_>,
    request: &pb::DeleteRangeRequest,
    room: &mut Room,
) -> Result<pb::DeleteRangeResponse, Error> {
    let keys = KeyRange::from_wire(&request.key, &request.range_end);
    let mut prev_kvs = Vec::new();
    if request.prev_kv && room.is_left() {
        write.range(keys, 0, Want::Values, &mut |item| {
            if !room.take(framed(key_value_len(&item))) {
                return ControlFlow::Break(());
            }
            prev_kvs.push(to_key_value(item));
            ControlFlow::Continue(())
        })?;
    }
    if !room.is_left() {
        // They are not sent, and the deletion needs memory of its own.
        prev_kvs = Vec::new();
    }
    let deleted = write.delete_range(keys)? as i64;
    let header = Some(revision_header(write.revision()));
    Ok(pb::DeleteRangeResponse {
        header,
        deleted,
        prev_kvs,
    })
}

pub(crate) fn compact(write: &mut Write<'_>, request: &pb::CompactionRequest) -> Result<(), Error> {
    if request.revision <= write.compacted() {
        return Err(Error::Compacted);
    }
    if request.revision > write.revision() {
        return Err(Error::FutureRevision);
    }
    write.compact(request.revision)?;
    Ok(())
}

/// Bytes of a message of `len` bytes within another one, where its tag takes one byte.
fn framed(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

/// A header with only the revision set; the rest is filled in later.
pub(super) fn revision_header(revision: i64) -> pb::ResponseHeader {
    pb::ResponseHeader {
        revision,
        ..Default::default()
    }
}
