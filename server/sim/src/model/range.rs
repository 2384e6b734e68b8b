//! Ranges, as etcd answers them.

use std::cmp::Reverse;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use pb::range_request::{SortOrder, SortTarget};

use super::keys::Keys;
use super::{Refusal, Revisions};

/// From a state with these revisions.
pub(super) fn answer(
    keys: &Keys,
    revisions: Revisions,
    request: &pb::RangeRequest,
) -> Result<pb::RangeResponse, Refusal> {
    check_revision(revisions, request.revision)?;
    let at = match request.revision {
        0 => revisions.current,
        revision => revision,
    };
    Ok(rows(keys, at, revisions.current, request))
}

pub(super) fn check_revision(revisions: Revisions, revision: i64) -> Result<(), Refusal> {
    if revision > revisions.current {
        return Err(Refusal::FutureRevision);
    }
    if revision > 0 && revision < revisions.compacted {
        return Err(Refusal::Compacted);
    }
    Ok(())
}

/// What is live at `at`; the header has the revision `current`.
pub(super) fn rows(
    keys: &Keys,
    at: i64,
    current: i64,
    request: &pb::RangeRequest,
) -> pb::RangeResponse {
    let all = keys.range(&request.key, &request.range_end, at);
    let mut kvs: Vec<KeyValue> = all.cloned().collect();
    let mut response = pb::RangeResponse {
        header: Some(pb::ResponseHeader {
            revision: current,
            ..Default::default()
        }),
        count: kvs.len() as i64,
        ..Default::default()
    };
    if request.count_only {
        return response;
    }
    let bounded = [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ];
    let is_bounded = bounded.iter().any(|bound| *bound != 0);
    let limit = usize::try_from(request.limit).unwrap_or(0);
    // Without an order the limit comes before the sorting: one more tells that there are more.
    if limit > 0 && request.sort_order() == SortOrder::None && !is_bounded {
        kvs.truncate(limit + 1);
    }
    kvs.retain(|kv| is_within(request, kv));
    sort(&mut kvs, request);
    if limit > 0 && kvs.len() > limit {
        kvs.truncate(limit);
        response.more = true;
    }
    if request.keys_only {
        for kv in &mut kvs {
            kv.value = Bytes::new();
            // Unless values were read for sorting, keys come from an index that has no leases.
            if request.sort_target() != SortTarget::Value {
                kv.lease = 0;
            }
        }
    }
    response.kvs = kvs;
    response
}

fn is_within(request: &pb::RangeRequest, kv: &KeyValue) -> bool {
    let within = |low: i64, revision: i64, high: i64| {
        (low == 0 || low <= revision) && (high == 0 || revision <= high)
    };
    let (modified, created) = (kv.mod_revision, kv.create_revision);
    within(request.min_mod_revision, modified, request.max_mod_revision)
        && within(
            request.min_create_revision,
            created,
            request.max_create_revision,
        )
}

/// Targets other than the key sort even if no order is asked for. Equal rows stay in key order.
fn sort(kvs: &mut [KeyValue], request: &pb::RangeRequest) {
    let number = |kv: &KeyValue| match request.sort_target() {
        SortTarget::Version => kv.version,
        SortTarget::Create => kv.create_revision,
        SortTarget::Mod => kv.mod_revision,
        SortTarget::Key | SortTarget::Value => 0,
    };
    let text = |kv: &KeyValue| match request.sort_target() {
        SortTarget::Key => kv.key.clone(),
        SortTarget::Value => kv.value.clone(),
        _ => Bytes::new(),
    };
    let rank = |kv: &KeyValue| (number(kv), text(kv));
    if request.sort_order() == SortOrder::Descend {
        kvs.sort_by_key(|kv| Reverse(rank(kv)));
    } else {
        kvs.sort_by_key(rank);
    }
}
