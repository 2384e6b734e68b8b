//! The status of claims: what is allocated, to whom, and what drivers say of it.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::claim::Names;
use super::{CONFIGURATIONS_MAX, same};
use crate::validate::Causes;
use crate::validate::words::address;
use crate::validate::words::field::FieldValue;
use crate::validate::workloads::pod::node_selector;

const USERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 8;
const ADDRESSES_MAX: usize = 16;
const INTERFACE_BYTES_MAX: usize = 256;
const HARDWARE_BYTES_MAX: usize = 128;

/// An update of the status of a claim.
pub(crate) fn status(_subresource: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", new.get("status").unwrap_or(&Value::Null));
    let identity = |one: &FieldValue| one.text("uid").to_owned();
    causes.few_distinct(
        &status,
        "reservedFor",
        USERS_MAX,
        identity,
        |causes, user| {
            for key in ["resource", "name", "uid"] {
                causes.required(user, key);
            }
        },
    );
    let allocated = devices_of(new);
    let identity = |one: &FieldValue| device_id(one.value);
    causes.few_distinct(&status, "devices", usize::MAX, identity, |causes, one| {
        device(causes, one, &allocated);
    });
    users(&mut causes, old, new);
    let path = ["status", "allocation"];
    let Some(allocation) = status.child("allocation") else {
        return causes;
    };
    if object::at(old, &path).is_some() {
        causes.extend(same(old, new, &path, Value::Null));
    } else {
        let requests = object::at(new, &["spec", "devices"]).unwrap_or(&Value::Null);
        let requests = FieldValue::new("spec.devices", requests);
        allocate(&mut causes, &allocation, &Names::of(&requests));
    }
    causes
}

/// Only an allocated claim has users, and one that is being deleted gets no new ones.
fn users(causes: &mut Causes, old: &Value, new: &Value) {
    const USERS: [&str; 2] = ["status", "reservedFor"];
    let users = object::items(new, &USERS);
    let why = if users.is_empty() {
        return;
    } else if object::at(new, &["status", "allocation"]).is_none() {
        "may not be specified when `allocated` is not set"
    } else if object::is_deleting(new) {
        let before = object::items(old, &USERS);
        if users.iter().all(|one| before.contains(one)) {
            return;
        }
        "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    } else {
        return;
    };
    causes.push(Cause::forbidden(&USERS.join("."), why));
}

/// A new allocation.
fn allocate(causes: &mut Causes, allocation: &FieldValue, names: &Names) {
    causes.below(allocation, "devices", |causes, devices| {
        causes.few(devices, "results", RESULTS_MAX, |causes, result| {
            names.check_one(causes, &result.path_of("request"), result.text("request"));
            causes.driver(result, "driver");
            causes.pool_name(result, "pool");
            causes.dns_label(result, "device");
            causes.binding_conditions(result);
            share(causes, result);
        });
        // Those of the class and those of the claim.
        causes.few(devices, "config", 2 * CONFIGURATIONS_MAX, |causes, one| {
            causes.choice(one, "source", &["FromClaim", "FromClass"]);
            names.check(causes, one);
            causes.configuration(one);
        });
    });
    causes.below(allocation, "nodeSelector", |causes, selector| {
        node_selector(causes, selector, false);
    });
}

/// What a driver says of a device.
fn device(causes: &mut Causes, device: &FieldValue, allocated: &BTreeSet<String>) {
    causes.driver(device, "driver");
    causes.pool_name(device, "pool");
    causes.dns_label(device, "device");
    share(causes, device);
    if !allocated.contains(&device_id(device.value)) {
        let shown = json!(device_id(device.value));
        let why = "must be an allocated device in the claim";
        causes.push(Cause::invalid(&device.path, &shown, why));
    }
    let count = device.items("conditions").len();
    if count > CONDITIONS_MAX {
        let field = device.path_of("conditions");
        causes.push(Cause::too_many(&field, count, CONDITIONS_MAX));
    }
    causes.conditions(device);
    if device.has("data") {
        causes.json_object(device, "data");
    }
    causes.below(device, "networkData", |causes, data| {
        causes.at_most(data, "interfaceName", INTERFACE_BYTES_MAX);
        causes.at_most(data, "hardwareAddress", HARDWARE_BYTES_MAX);
        let identity = |one: &FieldValue| one.value.as_str().unwrap_or_default().to_owned();
        causes.few_distinct(data, "ips", ADDRESSES_MAX, identity, |causes, one| {
            let text = one.value.as_str().unwrap_or_default();
            causes.extend(address::wrong_interface(&one.path, text));
        });
    });
}

/// The id of a share of a device: a UUID in its usual form.
fn share(causes: &mut Causes, at: &FieldValue) {
    let Some(id) = at.get("shareID").and_then(Value::as_str) else {
        return;
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = id.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if id.len() != 36 {
        let why = format!("error validating uid: invalid UUID length: {}", id.len());
        causes.wrong(at, "shareID", &why);
    } else if lengths != [8, 4, 4, 4, 12] || !parts.into_iter().all(digits) {
        causes.wrong(at, "shareID", "error validating uid: invalid UUID format");
    } else if id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` \
                   with lowercase hexadecimal characters";
        causes.wrong(at, "shareID", why);
    }
}

/// The devices, or shares of devices, that are allocated to a claim.
pub(crate) fn devices_of(claim: &Value) -> BTreeSet<String> {
    let results = object::items(claim, &["status", "allocation", "devices", "results"]);
    results.iter().map(device_id).collect()
}

/// What makes a device, or a share of one, the same.
pub(crate) fn device_id(device: &Value) -> String {
    let keys = ["driver", "pool", "device", "shareID"];
    let parts = keys.map(|key| object::text(device, &[key]));
    parts.join("/").trim_end_matches('/').to_owned()
}
