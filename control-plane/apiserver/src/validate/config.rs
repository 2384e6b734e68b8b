//! Config maps, secrets, events, leases, nodes and roles.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::{Map, Value};

use super::{Causes, meta, named, one_of};

/// The most bytes of all values of a secret or config map.
const DATA_BYTES_MAX: usize = 1 << 20;

pub(super) fn config_map(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut bytes = 0;
    for part in ["data", "binaryData"] {
        bytes += keys(object, part, &mut causes);
    }
    let twice = |key: &String| object.pointer(&format!("/data/{}", escape(key))).is_some();
    let binary = object.get("binaryData").and_then(Value::as_object);
    for key in binary
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .filter(|key| twice(key))
    {
        let why = "duplicate of key present in data";
        causes.push(Cause::invalid("binaryData", &key.as_str().into(), why));
    }
    if bytes > DATA_BYTES_MAX {
        causes.push(Cause::too_long("", DATA_BYTES_MAX));
    }
    causes
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

pub(super) fn secret(object: &Value) -> Causes {
    let mut causes = Causes::default();
    if keys(object, "data", &mut causes) > DATA_BYTES_MAX {
        causes.push(Cause::too_long("data", DATA_BYTES_MAX));
    }
    let needed: &[&str] = match object::text(object, &["type"]) {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if object::annotation(object, name).is_none_or(str::is_empty) {
                causes.push(Cause::required(
                    &format!("metadata.annotations[{name}]"),
                    "",
                ));
            }
            &[]
        }
        _ => &[],
    };
    let data = object.get("data").and_then(Value::as_object);
    for key in needed {
        if data.is_none_or(|data| !data.contains_key(*key)) {
            causes.push(Cause::required(&format!("data[{key}]"), ""));
        }
    }
    causes
}

/// Checks the keys below a part; the bytes of its values.
fn keys(object: &Value, part: &str, causes: &mut Causes) -> usize {
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
    }
    let texts = map.values().map(|value| value.as_str().map_or(0, str::len));
    let text_bytes: usize = texts.sum();
    // Bytes are written in base64 here: three of them in four letters.
    let base64 = part == "binaryData" || object::kind(object) == "Secret";
    if base64 {
        text_bytes / 4 * 3
    } else {
        text_bytes
    }
}

/// What was said to stay, stays.
pub(super) fn immutable(kind: &str, old: &Value, new: &Value) -> Causes {
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

pub(super) fn event(object: &Value) -> Causes {
    let about = object::text(object, &["involvedObject", "namespace"]);
    let namespace = object::namespace(object);
    // Events about the cluster's objects live in the default namespace.
    let fits = about == namespace || about.is_empty() && namespace == "default";
    match fits || (about.is_empty() && namespace == "kube-system") {
        true => Causes::default(),
        false => {
            let why = "does not match event.namespace";
            Causes::from(Cause::invalid(
                "involvedObject.namespace",
                &about.into(),
                why,
            ))
        }
    }
}

pub(super) fn lease(object: &Value) -> Causes {
    let mut causes = Causes::default();
    if let Some(seconds) = object::integer(object, &["spec", "leaseDurationSeconds"])
        && seconds <= 0
    {
        let why = "must be greater than 0";
        causes.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            why,
        ));
    }
    if let Some(count) = object::integer(object, &["spec", "leaseTransitions"])
        && count < 0
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", &count.into(), why));
    }
    causes
}

pub(super) fn node(object: &Value) -> Causes {
    let mut causes = Causes::default();
    for (at, taint) in object::items(object, &["spec", "taints"])
        .iter()
        .enumerate()
    {
        let field = |key: &str| format!("spec.taints[{at}].{key}");
        let key = object::text(taint, &["key"]);
        causes.extend(named(&field("key"), key, name::qualified_name(key)));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if object::text(taint, &["effect"]).is_empty() {
            causes.push(Cause::required(&field("effect"), ""));
        }
        one_of(taint, &["effect"], &field("effect"), &effects, &mut causes);
        let value = object::text(taint, &["value"]);
        causes.extend(named(&field("value"), value, name::label_value(value)));
    }
    causes
}

pub(super) fn role(kind: &str, object: &Value) -> Causes {
    let mut causes = Causes::default();
    for (at, rule) in object::items(object, &["rules"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = |key: &str| format!("rules[{at}].{key}");
        if object::items(rule, &["verbs"]).is_empty() {
            causes.push(Cause::required(
                &field("verbs"),
                "verbs must contain at least one value",
            ));
        }
        let paths = !object::items(rule, &["nonResourceURLs"]).is_empty();
        if paths && kind == "Role" {
            let why = "namespaced rules cannot apply to non-resource URLs";
            let shown = rule["nonResourceURLs"].clone();
            causes.push(Cause::invalid(&field("nonResourceURLs"), &shown, why));
        }
        if paths {
            continue;
        }
        for (key, why) in [
            (
                "apiGroups",
                "resource rules must supply at least one api group",
            ),
            (
                "resources",
                "resource rules must supply at least one resource",
            ),
        ] {
            if object::items(rule, &[key]).is_empty() {
                causes.push(Cause::required(&field(key), why));
            }
        }
    }
    if kind.ends_with("Binding") {
        let known: &[&str] = match kind {
            "RoleBinding" => &["ClusterRole", "Role"],
            _ => &["ClusterRole"],
        };
        one_of(
            object,
            &["roleRef", "kind"],
            "roleRef.kind",
            known,
            &mut causes,
        );
        if object::text(object, &["roleRef", "name"]).is_empty() {
            causes.push(Cause::required("roleRef.name", ""));
        }
        for (at, subject) in object::items(object, &["subjects"]).iter().enumerate() {
            if causes.is_full() {
                break;
            }
            if object::text(subject, &["name"]).is_empty() {
                causes.push(Cause::required(&format!("subjects[{at}].name"), ""));
            }
        }
    }
    let selector = object::at(object, &["aggregationRule", "matchLabels"]);
    causes.extend(meta::labels(
        "aggregationRule",
        selector.and_then(Value::as_object),
    ));
    causes
}
