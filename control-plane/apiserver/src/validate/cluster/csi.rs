//! What drivers of storage say of themselves, and what is attached through them.

use std::collections::{BTreeMap, BTreeSet};

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::cluster::storage;
use crate::validate::words::{field::FieldValue, selector};
use crate::validate::workloads::pod::volumes;
use crate::validate::{Causes, named, unchanged, words::quantity};

const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLES: [&str; 2] = ["Persistent", "Ephemeral"];
/// Bounds of a token's lifetime, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const PERIOD_SECONDS_MIN: i64 = 10;
const NODE_ID_BYTES_MAX: usize = 192;
/// Bounds of what a driver says of an attachment.
const METADATA_BYTES_MAX: usize = 256 << 10;
const MESSAGE_BYTES_MAX: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

fn spec(object: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null))
}

pub(crate) fn driver(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    if let Some(policy) = spec.get("fsGroupPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        causes.unknown(&spec, "fsGroupPolicy", &POLICIES);
    }
    tokens(&spec, &mut causes);
    let modes = "volumeLifecycleModes";
    for mode in spec.items(modes) {
        if !causes.is_full() && !LIFECYCLES.iter().any(|one| mode == one) {
            causes.push(Cause::not_supported(
                &spec.path_of(modes),
                mode,
                &LIFECYCLES,
            ));
        }
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if spec
        .integer(period)
        .is_some_and(|given| given < PERIOD_SECONDS_MIN)
    {
        let why = format!("must be greater than or equal to {PERIOD_SECONDS_MIN} seconds");
        causes.wrong(&spec, period, &why);
    }
    let in_secrets = "serviceAccountTokenInSecrets";
    if spec.has(in_secrets) && spec.items("tokenRequests").is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        causes.wrong(&spec, in_secrets, why);
    }
    causes
}

fn tokens(spec: &FieldValue, causes: &mut Causes) {
    let mut audiences = BTreeSet::new();
    causes.each(spec, "tokenRequests", |causes, token| {
        let audience = token.text("audience");
        if !audiences.insert(audience) {
            let field = token.path_of("audience");
            return causes.push(Cause::duplicate(&field, &audience.into()));
        }
        let seconds = "expirationSeconds";
        match token.integer(seconds) {
            Some(..TOKEN_SECONDS_MIN) => {
                causes.wrong(
                    token,
                    seconds,
                    "may not specify a duration less than 10 minutes",
                );
            }
            Some(given) if given > TOKEN_SECONDS_MAX => {
                let why = "may not specify a duration larger than 2^32 seconds";
                causes.wrong(token, seconds, why);
            }
            _ => {}
        }
    });
}

pub(crate) fn driver_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let path = ["spec", "attachRequired"];
    let (before, after) = (object::at(old, &path), object::at(new, &path));
    if before != after {
        let shown = after.cloned().unwrap_or_default();
        // The name of the field in Kubernetes' own form.
        let field = "spec.attachedRequired";
        causes.push(Cause::invalid(field, &shown, "field is immutable"));
    }
    causes.extend(unchanged(old, new, &["spec", "volumeLifecycleModes"]));
    causes
}

/// The drivers on a node.
pub(crate) fn node(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut names = BTreeSet::new();
    causes.each(&spec(object), "drivers", |causes, driver| {
        volumes::driver_name(driver, "name", causes);
        if causes.required(driver, "nodeID") && driver.text("nodeID").len() > NODE_ID_BYTES_MAX {
            let why = format!("must be {NODE_ID_BYTES_MAX} characters or less");
            causes.wrong(driver, "nodeID", &why);
        }
        causes.below(driver, "allocatable", |causes, allocatable| {
            causes.not_negative(allocatable, "count");
        });
        let its_name = driver.text("name");
        if !names.insert(its_name) {
            causes.push(Cause::duplicate(&driver.path_of("name"), &its_name.into()));
        }
        let mut keys = BTreeSet::new();
        for key in driver.items("topologyKeys") {
            if causes.is_full() {
                break;
            }
            let text = key.as_str().unwrap_or_default();
            if text.is_empty() {
                causes.push(Cause::required(&driver.path, ""));
            }
            if !keys.insert(text) {
                causes.push(Cause::duplicate(&driver.path, key));
            }
            causes.extend(named(&driver.path, text, name::qualified_name(text)));
        }
    });
    causes
}

/// A driver stays as it is, except for what it has room for.
pub(crate) fn node_update(old: &Value, new: &Value) -> Causes {
    let drivers = |object| object::items(object, &["spec", "drivers"]);
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        object::remove(&mut driver, &["allocatable"]);
        driver
    };
    // Two drivers of one name are refused elsewhere.
    let named = drivers(new).iter();
    let named: BTreeMap<&str, &Value> = named
        .map(|driver| (object::text(driver, &["name"]), driver))
        .collect();
    let pairs = drivers(old).iter().filter_map(|old| {
        let new = named.get(object::text(old, &["name"]))?;
        Some((old, *new))
    });
    pairs
        .filter(|(old, new)| fixed(old) != fixed(new))
        .map(|(_, new)| Cause::invalid("spec.drivers", new, "field is immutable"))
        .collect()
}

pub(crate) fn attachment(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    volumes::driver_name(&spec, "attacher", &mut causes);
    let none = Value::Null;
    let source = FieldValue::new("spec.source", spec.get("source").unwrap_or(&none));
    let volume = source.get("persistentVolumeName").and_then(Value::as_str);
    match (source.has("inlineVolumeSpec"), volume) {
        (false, None) => causes.push(Cause::required(&source.path, ONE_SOURCE)),
        (true, Some(_)) => causes.push(Cause::forbidden(&source.path, ONE_SOURCE)),
        (false, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            causes.push(Cause::required(
                &source.path_of("persistentVolumeName"),
                why,
            ));
        }
        _ => {}
    }
    if volume.is_none() {
        causes.below(&source, "inlineVolumeSpec", storage::inline_volume);
    }
    let node = spec.text("nodeName");
    causes.extend(named("spec.nodeName", node, name::dns1123_subdomain(node)));
    if let Some(volume) = volume {
        let field = source.path_of("persistentVolumeName");
        causes.extend(named(&field, volume, name::dns1123_subdomain(volume)));
    }
    causes.extend(attachment_status(object));
    causes
}

fn attachment_status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", object.get("status").unwrap_or(&Value::Null));
    let told = status.map("attachmentMetadata").into_iter().flatten();
    let bytes: usize = told
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > METADATA_BYTES_MAX {
        let field = status.path_of("attachmentMetadata");
        causes.push(Cause::too_long(&field, METADATA_BYTES_MAX));
    }
    for key in ["attachError", "detachError"] {
        causes.below(&status, key, |causes, error| {
            if error.text("message").len() > MESSAGE_BYTES_MAX {
                let field = error.path_of("message");
                causes.push(Cause::too_long(&field, METADATA_BYTES_MAX));
            }
            causes.within(error, "errorCode", 0, i64::from(i32::MAX));
        });
    }
    causes
}

pub(crate) fn attachment_update(old: &Value, new: &Value) -> Causes {
    unchanged(old, new, &["spec"])
}

/// How much room there is for volumes of a class, given the old state of an update.
pub(crate) fn capacity(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let capacity = FieldValue::new("", object);
    let any_value = selector::had_wrong_values(old, &["nodeTopology"]);
    causes.label_selector_with(&capacity, "nodeTopology", any_value);
    let class = capacity.text("storageClassName");
    let wrong = name::dns1123_subdomain(class);
    causes.extend(named("storageClassName", class, wrong));
    if let Some(amount) = capacity.get("capacity") {
        causes.extend(quantity::not_negative("capacity", amount));
    }
    causes
}

pub(crate) fn capacity_update(old: &Value, new: &Value) -> Causes {
    let fixed = ["nodeTopology", "storageClassName"].iter();
    fixed.flat_map(|key| unchanged(old, new, &[key])).collect()
}

/// A class of volumes whose attributes can change.
pub(crate) fn attributes_class(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let class = FieldValue::new("", object);
    if causes.required(&class, "driverName") {
        let driver = class.text("driverName").to_lowercase();
        causes.extend(named("driverName", &driver, name::qualified_name(&driver)));
    }
    storage::parameters(&class, &mut causes);
    if class
        .map("parameters")
        .is_none_or(serde_json::Map::is_empty)
    {
        let why = "must contain at least one key/value pair";
        causes.push(Cause::required("parameters", why));
    }
    causes
}

pub(crate) fn attributes_class_update(old: &Value, new: &Value) -> Causes {
    let changed = |key: &&str| old.get(key) != new.get(key);
    let told = |key| Cause::forbidden(key, &format!("updates to {key} are forbidden."));
    let fixed = ["driverName", "parameters"].into_iter();
    fixed.filter(changed).map(told).collect()
}
