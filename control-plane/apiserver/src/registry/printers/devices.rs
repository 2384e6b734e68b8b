//! Columns of devices and of claims for them.

use machinery::object;
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{Layout, age, text_or};

pub(crate) const RESOURCE_CLAIM: Layout = Layout {
    columns: &["State", "Age"],
    cells: |claim| vec![state(claim), age(claim)],
};

pub(crate) const RESOURCE_SLICE: Layout = Layout {
    columns: &["Node", "Driver", "Pool", "Age"],
    cells: |slice| {
        let paths: [&[&str]; 3] = [&["nodeName"], &["driver"], &["pool", "name"]];
        let texts = paths.map(|path| text_or(slice, &[&["spec"], path].concat(), ""));
        texts.into_iter().chain([age(slice)]).collect()
    },
};

/// Whether a claim is allocated and used, and whether it is being deleted.
fn state(claim: &Value) -> Cell {
    let is_deleted = object::deletion_timestamp(claim).is_some();
    let is_allocated = object::at(claim, &["status", "allocation"]).is_some();
    let is_reserved = !object::items(claim, &["status", "reservedFor"]).is_empty();
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && is_reserved, "reserved"),
    ];
    let held = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state);
    Vec::from_iter(held).join(",").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_shown_by_all_its_states() {
        let allocated = json!({"allocation": {}});
        let used = json!({"allocation": {}, "reservedFor": [{"name": "p"}]});
        for (deleted, status, shown) in [
            (false, json!({}), "pending"),
            (true, json!({}), "deleted"),
            (false, allocated, "allocated"),
            (true, used, "deleted,allocated,reserved"),
        ] {
            let mut claim = json!({"metadata": {}, "status": status});
            if deleted {
                claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            assert_eq!(state(&claim), shown.into());
        }
    }
}
