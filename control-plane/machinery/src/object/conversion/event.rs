//! Events: the same fields under other names.

use serde_json::Value;

use crate::object;

/// (core, events.k8s.io): the two names of one field.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Makes an event of the core group one of `events.k8s.io`.
pub fn to_events(object: &mut Value) {
    rename(object, FIELDS);
}

/// Makes an event of `events.k8s.io` one of the core group.
pub fn to_core(object: &mut Value) {
    rename(object, FIELDS.map(|(core, events)| (events, core)));
}

fn rename(object: &mut Value, fields: [(&str, &str); 7]) {
    let fields_of_object = object::map_mut(object);
    for (from, to) in fields {
        if let Some(value) = fields_of_object.remove(from) {
            fields_of_object.insert(to.to_owned(), value);
        }
    }
}
