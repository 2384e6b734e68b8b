//! Pods and what workloads make them from.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::{Map, Value, json};

use super::meta;
use super::{Causes, named, not_negative, one_of};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn pod(object: &Value) -> Causes {
    spec(object.get("spec").unwrap_or(&Value::Null), "spec")
}

/// A template: labels and a spec.
pub(super) fn template(object: &Value, path: &str) -> Causes {
    let Some(template) = object.pointer(&format!("/{}", path.replace('.', "/"))) else {
        return Causes::from(Cause::required(path, ""));
    };
    let mut causes = meta::labels(&format!("{path}.labels"), object::labels(template));
    causes.extend(spec(
        template.get("spec").unwrap_or(&Value::Null),
        &format!("{path}.spec"),
    ));
    causes
}

fn spec(spec: &Value, path: &str) -> Causes {
    let mut causes = Causes::default();
    let volumes = volumes(spec, path, &mut causes);
    let mut names = BTreeSet::new();
    if object::items(spec, &["containers"]).is_empty() {
        causes.push(Cause::required(&format!("{path}.containers"), ""));
    }
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for (at, one) in object::items(spec, &[key]).iter().enumerate() {
            if causes.is_full() {
                break;
            }
            let path = format!("{path}.{key}[{at}]");
            container(one, &path, &volumes, &mut causes);
            let name = object::text(one, &["name"]);
            if !name.is_empty() && !names.insert(name) {
                causes.push(Cause::duplicate(&format!("{path}.name"), &name.into()));
            }
        }
    }
    let field = |key: &str| format!("{path}.{key}");
    let policies = ["Always", "OnFailure", "Never"];
    one_of(
        spec,
        &["restartPolicy"],
        &field("restartPolicy"),
        &policies,
        &mut causes,
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(
        spec,
        &["dnsPolicy"],
        &field("dnsPolicy"),
        &policies,
        &mut causes,
    );
    let grace = "terminationGracePeriodSeconds";
    not_negative(spec, &[grace], &field(grace), &mut causes);
    if let Some(seconds) = object::integer(spec, &["activeDeadlineSeconds"])
        && seconds < 1
    {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(
            &field("activeDeadlineSeconds"),
            &seconds.into(),
            why,
        ));
    }
    let selector = spec.get("nodeSelector").and_then(Value::as_object);
    causes.extend(meta::labels(&field("nodeSelector"), selector));
    for key in [
        "nodeName",
        "serviceAccountName",
        "priorityClassName",
        "schedulerName",
    ] {
        let text = object::text(spec, &[key]);
        if !text.is_empty() {
            causes.extend(named(&field(key), text, name::dns1123_subdomain(text)));
        }
    }
    for key in ["hostname", "subdomain"] {
        let text = object::text(spec, &[key]);
        if !text.is_empty() {
            causes.extend(named(&field(key), text, name::dns1123_label(text)));
        }
    }
    tolerations(spec, path, &mut causes);
    causes
}

/// The names of the volumes.
fn volumes<'a>(spec: &'a Value, path: &str, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, volume) in object::items(spec, &["volumes"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = format!("{path}.volumes[{at}].name");
        let name = object::text(volume, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(&field, ""));
            continue;
        }
        causes.extend(named(&field, name, name::dns1123_label(name)));
        if !names.insert(name) {
            causes.push(Cause::duplicate(&field, &name.into()));
        }
        let sources = volume.as_object().map_or(0, |map| map.len() - 1);
        let field = format!("{path}.volumes[{at}]");
        if sources == 0 {
            causes.push(Cause::required(&field, "must specify a volume type"));
        } else if sources > 1 {
            let why = "may not specify more than 1 volume type";
            causes.push(Cause::forbidden(&field, why));
        }
    }
    names
}

fn container(one: &Value, path: &str, volumes: &BTreeSet<&str>, causes: &mut Causes) {
    let field = |key: &str| format!("{path}.{key}");
    let name = object::text(one, &["name"]);
    match name {
        "" => causes.push(Cause::required(&field("name"), "")),
        name => causes.extend(named(&field("name"), name, name::dns1123_label(name))),
    }
    let image = object::text(one, &["image"]);
    if image.is_empty() {
        causes.push(Cause::required(&field("image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(&field("image"), &image.into(), why));
    }
    let policy = "imagePullPolicy";
    one_of(one, &[policy], &field(policy), &PULL_POLICIES, causes);
    ports(one, path, causes);
    for (at, variable) in object::items(one, &["env"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = format!("{path}.env[{at}].name");
        let name = object::text(variable, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if name.contains('=') || !name.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            causes.push(Cause::invalid(&field, &name.into(), why));
        }
        let both = !object::text(variable, &["value"]).is_empty();
        if both && variable.get("valueFrom").is_some() {
            let why = "may not be specified when `value` is not empty";
            let field = format!("{path}.env[{at}].valueFrom");
            causes.push(Cause::invalid(&field, &"".into(), why));
        }
    }
    for (at, mount) in object::items(one, &["volumeMounts"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = |key: &str| format!("{path}.volumeMounts[{at}].{key}");
        match object::text(mount, &["name"]) {
            "" => causes.push(Cause::required(&field("name"), "")),
            name if !volumes.contains(name) => {
                causes.push(Cause::not_found(&field("name"), &name.into()));
            }
            _ => {}
        }
        if object::text(mount, &["mountPath"]).is_empty() {
            causes.push(Cause::required(&field("mountPath"), ""));
        }
    }
    resources(one, path, causes);
}

fn ports(one: &Value, path: &str, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    for (at, port) in object::items(one, &["ports"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = |key: &str| format!("{path}.ports[{at}].{key}");
        let name = object::text(port, &["name"]);
        if !name.is_empty() {
            causes.extend(named(&field("name"), name, port_name(name)));
            if !names.insert(name) {
                causes.push(Cause::duplicate(&field("name"), &name.into()));
            }
        }
        match object::integer(port, &["containerPort"]).unwrap_or(0) {
            0 => causes.push(Cause::required(&field("containerPort"), "")),
            number => causes.extend(port_number(&field("containerPort"), number)),
        }
        if let Some(number) = object::integer(port, &["hostPort"]).filter(|number| *number != 0) {
            causes.extend(port_number(&field("hostPort"), number));
        }
        one_of(port, &["protocol"], &field("protocol"), &PROTOCOLS, causes);
    }
}

/// The name of a port: like a label, but at most 15 letters and one of them a letter.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(plain) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".into());
    }
    wrong
}

pub(super) fn port_number(field: &str, number: i64) -> Option<Cause> {
    let why = "must be between 1 and 65535, inclusive";
    let good = (1..=65535).contains(&number);
    (!good).then(|| Cause::invalid(field, &number.into(), why))
}

fn resources(one: &Value, path: &str, causes: &mut Causes) {
    let amount = |which: &str, what: &str| {
        let text = object::at(one, &["resources", which, what])?.as_str()?;
        Quantity::parse(text).ok()
    };
    for which in ["limits", "requests"] {
        let map = object::at(one, &["resources", which]).and_then(Value::as_object);
        for (what, value) in map.into_iter().flatten() {
            let field = format!("{path}.resources.{which}[{what}]");
            let negative = amount(which, what).is_some_and(|amount| amount.milli_value() < 0);
            if negative {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(&field, value, why));
            }
            if which == "requests"
                && let (Some(request), Some(limit)) =
                    (amount("requests", what), amount("limits", what))
                && request.minus(limit).milli_value() > 0
            {
                let shown = object::text(one, &["resources", "limits", what]);
                let why = format!("must be less than or equal to {what} limit of {shown}");
                let field = format!("{path}.resources.requests");
                causes.push(Cause::invalid(&field, value, &why));
            }
        }
    }
}

fn tolerations(spec: &Value, path: &str, causes: &mut Causes) {
    for (at, one) in object::items(spec, &["tolerations"]).iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let field = |key: &str| format!("{path}.tolerations[{at}].{key}");
        let known = ["Equal", "Exists"];
        one_of(one, &["operator"], &field("operator"), &known, causes);
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(one, &["effect"], &field("effect"), &known, causes);
        let key = object::text(one, &["key"]);
        if key.is_empty() && object::text(one, &["operator"]) != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            let operator = object::text(one, &["operator"]);
            causes.push(Cause::invalid(&field("operator"), &operator.into(), why));
        }
        let timed = one.get("tolerationSeconds").is_some();
        let effect = object::text(one, &["effect"]);
        if timed && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(&field("effect"), &effect.into(), why));
        }
    }
}

/// Of a pod's spec only images, deadlines, tolerations (more) and the shortened grace may change.
pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let (before, after) = (fixed(old), fixed(new));
    let kept = object::items(old, &["spec", "tolerations"]);
    let now = object::items(new, &["spec", "tolerations"]);
    let mut causes = Causes::default();
    if kept.iter().any(|one| !now.contains(one)) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    if before != after {
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

/// The part of a pod's spec that is fixed when the pod is made.
fn fixed(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        for key in [
            "activeDeadlineSeconds",
            "tolerations",
            "ephemeralContainers",
            "schedulingGates",
        ] {
            spec.remove(key);
        }
        let gated = pod.pointer("/spec/schedulingGates").is_some();
        if gated {
            spec.remove("nodeSelector");
            spec.remove("affinity");
        }
        for key in ["containers", "initContainers"] {
            for container in spec
                .get_mut(key)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                let container = container.as_object_mut();
                let empty = &mut Map::new();
                let container = container.unwrap_or(empty);
                container.remove("image");
                // Resized through the resize path; compared there by nobody yet.
                container.remove("resources");
            }
        }
    }
    json!(spec)
}
