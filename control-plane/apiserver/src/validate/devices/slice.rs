//! Slices: the devices of a pool that a driver publishes, and the counters that they share.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::device::{counters, device};
use super::places::{places, shown};
use super::same;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// What must be the same in every state of a slice: nodes may write only their own. The last may be
/// left out.
const OF_SLICE: [&[&str]; 3] = [
    &["spec", "pool", "name"],
    &["spec", "driver"],
    &["spec", "nodeName"],
];
const ONE_PLACE: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const DEVICES_MAX: usize = 128;
/// The same if a device has taints or consumes counters.
const RICH_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;

/// A slice.
pub(crate) fn slice(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    causes.driver(&spec, "driver");
    pool(&mut causes, &spec);
    let places = places(&mut causes, &spec, &["allNodes", "perDeviceNodeSelection"]);
    if let Some(selector) = spec.child("nodeSelector")
        && selector.items("nodeSelectorTerms").len() != 1
    {
        let why = "must have exactly one node selector term";
        causes.wrong(&selector, "nodeSelectorTerms", why);
    }
    match places.as_slice() {
        [] => causes.push(Cause::required("spec", ONE_PLACE)),
        [_] => {}
        several => {
            let why = format!("{ONE_PLACE}, but multiple fields are set");
            causes.push(Cause::invalid("spec", &shown(several), &why));
        }
    }
    if spec.has("sharedCounters") && spec.has("devices") {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        causes.push(Cause::invalid("spec", &"".into(), why));
    }
    let is_rich = |one: &Value| {
        let has = |key: &str| !object::items(one, &[key]).is_empty();
        has("taints") || has("consumesCounters")
    };
    let most = if spec.items("devices").iter().any(is_rich) {
        RICH_DEVICES_MAX
    } else {
        DEVICES_MAX
    };
    let by_device = spec.flag("perDeviceNodeSelection");
    let identity = |one: &FieldValue| one.text("name").to_owned();
    causes.few_distinct(&spec, "devices", most, identity, |causes, one| {
        device(causes, one, by_device);
    });
    let key = "sharedCounters";
    causes.few_distinct(&spec, key, COUNTER_SETS_MAX, identity, |causes, set| {
        causes.must_be_named(set, "name", name::dns1123_label);
        counters(causes, set);
    });
    causes
}

/// A slice after an update.
pub(crate) fn slice_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    for path in OF_SLICE {
        let missing = match path.last() {
            Some(&"nodeName") => Value::Null,
            _ => "".into(),
        };
        causes.extend(same(old, new, path, missing));
    }
    causes
}

fn pool(causes: &mut Causes, spec: &FieldValue) {
    let none = Value::Null;
    let pool = spec.child("pool");
    let pool = pool.unwrap_or(FieldValue::new(spec.path_of("pool"), &none));
    causes.pool_name(&pool, "name");
    let count = pool.number("resourceSliceCount");
    if count <= 0 {
        let field = pool.path_of("resourceSliceCount");
        causes.push(Cause::invalid(
            &field,
            &count.into(),
            "must be greater than zero",
        ));
    }
    if pool.number("generation") < 0 {
        let why = "must be greater than or equal to zero";
        causes.wrong(&pool, "generation", why);
    }
}
