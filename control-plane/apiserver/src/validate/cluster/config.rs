//! Config maps, secrets and leases.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::{Map, Value};

use crate::validate::words::{embedded, field::FieldValue};
use crate::validate::{Causes, named};

/// Upper bound of all values of a secret or config map together, in bytes.
const DATA_BYTES_MAX: usize = 1 << 20;

pub(crate) fn config_map(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let binary = object.get("binaryData").and_then(Value::as_object);
    let mut bytes = keys(object, "data", &mut causes, |causes, key| {
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            let field = format!("data[{key}]");
            causes.push(Cause::invalid(&field, &key.into(), why));
        }
    });
    bytes += keys(object, "binaryData", &mut causes, |_, _| {});
    if bytes > DATA_BYTES_MAX {
        // The path of the whole object, as Kubernetes writes it.
        causes.push(Cause::too_long("[]", DATA_BYTES_MAX));
    }
    causes
}

pub(crate) fn secret(object: &Value) -> Causes {
    let mut causes = Causes::default();
    if keys(object, "data", &mut causes, |_, _| {}) > DATA_BYTES_MAX {
        causes.push(Cause::too_long("data", DATA_BYTES_MAX));
    }
    let data = |key: &str| object::at(object, &["data", key]).and_then(Value::as_str);
    let mut need = |key: &str, empty: bool| {
        if data(key).is_none_or(|value| value.is_empty() && !empty) {
            causes.push(Cause::required(&format!("data[{key}]"), ""));
        }
    };
    match object::text(object, &["type"]) {
        "kubernetes.io/dockercfg" => causes.extend(registry(object, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => causes.extend(registry(object, ".dockerconfigjson")),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey", false),
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.iter().all(|key| data(key).is_none()) {
                keys.iter().for_each(|key| need(key, true));
            }
        }
        "kubernetes.io/tls" => {
            need("tls.crt", true);
            need("tls.key", true);
        }
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if object::annotation(object, name).is_none_or(str::is_empty) {
                let field = format!("metadata.annotations[{name}]");
                causes.push(Cause::required(&field, ""));
            }
        }
        _ => {}
    }
    causes
}

/// Credentials for image registries: a JSON object.
fn registry(object: &Value, key: &str) -> Option<Cause> {
    let field = format!("data[{key}]");
    let Some(data) = object::at(object, &["data", key]).and_then(Value::as_str) else {
        return Some(Cause::required(&field, ""));
    };
    // Decoding of the body has refused invalid base64.
    let bytes = STANDARD.decode(data).unwrap_or_default();
    let why = match embedded::read(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => embedded::misfit(&other, "value of type map[string]interface {}"),
        Err(why) => why,
    };
    let shown = "<secret contents redacted>";
    Some(Cause::invalid(&field, &shown.into(), &why))
}

/// Checks the keys of a map, with an additional rule for each. Returns the size of the values.
fn keys(
    object: &Value,
    part: &str,
    causes: &mut Causes,
    rule: impl Fn(&mut Causes, &str),
) -> usize {
    let empty = Map::new();
    let map = object
        .get(part)
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for key in map.keys() {
        causes.extend(named(
            &format!("{part}[{key}]"),
            key,
            name::config_map_key(key),
        ));
        rule(causes, key);
    }
    let texts = map.values().filter_map(Value::as_str);
    // These values are base64 here: four letters for three bytes, the last four filled up.
    let base64 = part == "binaryData" || object::kind(object) == "Secret";
    let bytes = |text: &str| {
        let filling = text.len() - text.trim_end_matches('=').len();
        if base64 {
            (text.len() / 4 * 3).saturating_sub(filling)
        } else {
            text.len()
        }
    };
    texts.map(bytes).sum()
}

/// Fields that must not change: the type of a secret, and the data of an immutable object.
pub(crate) fn immutable(kind: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if kind == "Secret" && old.get("type") != new.get("type") {
        let shown = new.get("type").cloned().unwrap_or_default();
        causes.push(Cause::invalid("type", &shown, "field is immutable"));
    }
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return causes;
    }
    let why = "field is immutable when `immutable` is set";
    for key in ["immutable", "data", "binaryData"] {
        if old.get(key) != new.get(key) {
            causes.push(Cause::forbidden(key, why));
        }
    }
    causes
}

pub(crate) fn lease(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let seconds = "leaseDurationSeconds";
    if spec.integer(seconds).is_some_and(|given| given <= 0) {
        causes.wrong(&spec, seconds, "must be greater than 0");
    }
    causes.not_negative(&spec, "leaseTransitions");
    causes
}
