//! Updates of pods. Images, shorter deadlines, more tolerations and fewer gates are allowed;
//! ephemeral containers and resources change through their subresources.

mod node_affinity;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use machinery::amounts;
use machinery::object::{self, APP_ARMOR, MIRROR_POD};
use machinery::status::Cause;
use serde_json::{Map, Value, json};

use super::annotations::Annotations;
use super::exceptions::Exceptions;
use super::{containers, scheduling};
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const LISTS: [&str; 2] = ["containers", "initContainers"];
const DEADLINE: &str = "activeDeadlineSeconds";
const GRACE: &str = "terminationGracePeriodSeconds";
const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const QUALITY: [&str; 2] = ["status", "qosClass"];
const ONLY_AMOUNTS: &str = "only cpu and memory resources are mutable";

fn spec(pod: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", pod.get("spec").unwrap_or(&Value::Null))
}

/// An update of the pod itself.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = annotations(old, new);
    causes.extend(fields(old, new));
    causes
}

/// The annotations after an update. Those that decide what the pod may do stay for its whole life.
pub(crate) fn annotations(old: &Value, new: &Value) -> Causes {
    let empty = Map::new();
    let was = object::annotations(old).unwrap_or(&empty);
    let is = object::annotations(new).unwrap_or(&empty);
    let mut causes = Causes::default();
    let mut refuse = |key: &str, verb: &str| {
        let what = match key {
            MIRROR_POD => "mirror pod annotation",
            key if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        let path = format!("metadata.annotations[{key}]");
        causes.push(Cause::forbidden(&path, &format!("may not {verb} {what}")));
    };
    for (key, _) in was
        .iter()
        .filter(|(key, value)| is.get(*key) != Some(value))
    {
        refuse(key, "remove or update");
    }
    for key in is.keys().filter(|key| !was.contains_key(*key)) {
        refuse(key, "add");
    }
    if let Some(annotations) = Annotations::of_pod(new) {
        annotations.check(Exceptions::of_annotations(old), &mut causes);
    }
    causes
}

fn fields(old: &Value, new: &Value) -> Causes {
    let (was, is) = (spec(old), spec(new));
    let mut causes = Causes::default();
    for list in LISTS {
        if was.items(list).len() != is.items(list).len() {
            let why = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&is.path_of(list), why));
            return causes;
        }
        causes.each(&is, list, |causes, container| {
            causes.required(container, "image");
            containers::trimmed_image(causes, container);
        });
    }
    match (was.integer(DEADLINE), is.integer(DEADLINE)) {
        (Some(before), Some(after)) if after > before => {
            let why = "must be less than or equal to previous value";
            causes.wrong(&is, DEADLINE, why);
            return causes;
        }
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            causes.wrong(&is, DEADLINE, why);
        }
        _ => {}
    }
    tolerations(&was, &is, &mut causes);
    gates(&was, &is, &mut causes);
    let gated = !was.items("schedulingGates").is_empty();
    if gated && was.get("nodeSelector") != is.get("nodeSelector") {
        selector(&was, &is, &mut causes);
    }
    if gated {
        node_affinity::narrower(&was, &is, &mut causes);
    }
    if was.value != &with_what_may_change(&was, &is, gated) {
        causes.push(Cause::forbidden("spec", FIXED));
    }
    causes
}

/// Existing tolerations may only change their duration.
fn tolerations(was: &FieldValue, is: &FieldValue, causes: &mut Causes) {
    let untimed = |spec: &FieldValue| -> BTreeSet<String> {
        let all = spec.items("tolerations").iter().cloned();
        all.map(|mut one| {
            object::remove(&mut one, &["tolerationSeconds"]);
            one.to_string()
        })
        .collect()
    };
    if untimed(was).is_subset(&untimed(is)) {
        return scheduling::tolerations(is, scheduling::compares(was), causes);
    }
    let why = "existing toleration can not be modified except its tolerationSeconds";
    causes.push(Cause::forbidden(&is.path_of("tolerations"), why));
}

/// Gates may only be removed.
fn gates(was: &FieldValue, is: &FieldValue, causes: &mut Causes) {
    let had: BTreeSet<&str> = names(was, "schedulingGates").collect();
    causes.each(is, "schedulingGates", |causes, gate| {
        let name = gate.text("name");
        if !had.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.forbidden(gate, "name", &why);
        }
    });
}

/// While a pod is gated, its node selector may become narrower.
fn selector(was: &FieldValue, is: &FieldValue, causes: &mut Causes) {
    let kept = |(key, value): (&String, &Value)| {
        let now = is.map("nodeSelector").and_then(|map| map.get(key));
        now == Some(value)
    };
    let before = was.map("nodeSelector").into_iter().flatten();
    if !before.into_iter().all(kept) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.wrong(is, "nodeSelector", why);
    }
}

/// The new spec, with the old values of all fields that may change.
fn with_what_may_change(was: &FieldValue, is: &FieldValue, gated: bool) -> Value {
    let mut spec = is.value.clone();
    let mut keys = vec![DEADLINE, "tolerations", "schedulingGates"];
    if gated {
        keys.push("nodeSelector");
        let old = object::at(was.value, &["affinity", "nodeAffinity"]);
        as_it_was(&mut spec, &["affinity", "nodeAffinity"], old);
        if spec.get("affinity") == Some(&json!({})) && !was.has("affinity") {
            object::remove(&mut spec, &["affinity"]);
        }
    }
    if was.number(GRACE) < 0 && is.number(GRACE) == 1 {
        keys.push(GRACE);
    }
    for key in keys {
        as_it_was(&mut spec, &[key], was.get(key));
    }
    for list in LISTS {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for (container, old) in containers.iter_mut().zip(was.items(list)) {
            as_it_was(container, &["image"], old.get("image"));
        }
    }
    spec
}

fn as_it_was(object: &mut Value, path: &[&str], old: Option<&Value>) {
    match old {
        Some(value) => object::set(object, path, value.clone()),
        None => drop(object::remove(object, path)),
    }
}

fn names<'a>(spec: &FieldValue<'a>, list: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let items = spec.items(list).iter();
    items.map(|one| object::text(one, &["name"]))
}

/// Ephemeral containers may only be added.
pub(crate) fn visitors(old: &Value, new: &Value) -> Causes {
    const LIST: &str = "ephemeralContainers";
    let (was, is) = (spec(old), spec(new));
    let now: BTreeMap<&str, &Value> = names(&is, LIST).zip(is.items(LIST)).collect();
    let mut causes = Causes::default();
    causes.each(&was, LIST, |causes, container| {
        let name = container.text("name");
        let what = match now.get(name) {
            None => "removed",
            Some(after) if *after != container.value => "changed",
            Some(_) => return,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {what}\n");
        causes.push(Cause::forbidden(&was.path_of(LIST), &why));
    });
    causes
}

/// Why a pod does not have a subresource, whatever the update is.
pub(super) fn refused(subresource: &str, pod: &Value) -> Option<&'static str> {
    let is_static = object::annotation(pod, MIRROR_POD).is_some();
    match subresource {
        "ephemeralcontainers" if is_static => {
            Some("static pods do not support ephemeral containers")
        }
        "resize" if is_static => Some("static pods cannot be resized"),
        "resize" if object::text(pod, &["spec", "os", "name"]) == "windows" => {
            Some("windows pods cannot be resized")
        }
        _ => None,
    }
}

/// An update of the resources of the containers, and of the pod as a whole.
pub(crate) fn resized(old: &Value, new: &Value) -> Causes {
    let (was, is) = (spec(old), spec(new));
    let mut causes = Causes::default();
    let class = match object::text(old, &QUALITY) {
        "" => amounts::quality_of_service(old),
        class => class,
    };
    if class != amounts::quality_of_service(new) {
        let shown = object::text(new, &QUALITY).into();
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid(&is.path, &shown, why));
    }
    if !node_resizes(old) {
        let why = "Pod running on node without support for resize";
        causes.push(Cause::forbidden(&is.path, why));
    }
    causes.extend(own_amounts(&was, &is));
    let other_containers = reordered(&was, &is);
    if !other_containers.is_empty() {
        causes.extend(other_containers);
        return causes;
    }
    for list in ["initContainers", "containers"] {
        for (before, after) in was.each(list).zip(is.each(list)) {
            causes.extend(removed(&before, &after, "resource"));
        }
    }
    for (before, after) in was.each("containers").zip(is.each("containers")) {
        if !is_fixed(&before, &after) {
            causes.push(Cause::forbidden(&is.path, ONLY_AMOUNTS));
        }
    }
    for (before, after) in was.each("initContainers").zip(is.each("initContainers")) {
        first_resized(&before, &after, &mut causes);
    }
    causes
}

/// True unless the node reports of a container that runs, but not what it holds.
fn node_resizes(pod: &Value) -> bool {
    let statuses = object::items(pod, &["status", "containerStatuses"]).iter();
    let mut running = statuses.filter(|one| object::at(one, &["state", "running"]).is_some());
    running
        .next()
        .is_none_or(|one| one.get("resources").is_some())
}

/// An init container or a sidecar after a resize.
fn first_resized(before: &FieldValue, after: &FieldValue, causes: &mut Causes) {
    if !is_fixed(before, after) {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        causes.push(Cause::forbidden(&after.path, why));
    }
    let is_sidecar = after.text("restartPolicy") == "Always";
    if is_sidecar || before.value == after.value {
        return;
    }
    let policies = after.items("resizePolicy").iter();
    for _ in policies.filter(|policy| policy["restartPolicy"] == "RestartContainer") {
        let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be \
                   resized";
        causes.push(Cause::forbidden(&after.path, why));
    }
}

/// The containers of a resized pod are the same in the same order.
fn reordered(was: &FieldValue, is: &FieldValue) -> Causes {
    let mut causes = Causes::default();
    for list in LISTS {
        if was.items(list).len() != is.items(list).len() {
            let why = format!("{list} may not be added or removed on resize");
            causes.push(Cause::forbidden(&is.path_of(list), &why));
            continue;
        }
        for (before, after) in was.each(list).zip(is.each(list)) {
            if before.text("name") != after.text("name") {
                let why = format!("{list} may not be renamed or reordered on resize");
                causes.push(Cause::forbidden(&after.path_of("name"), &why));
            }
        }
    }
    causes
}

/// The resources that the pod names as a whole.
fn own_amounts(was: &FieldValue, is: &FieldValue) -> Causes {
    let mut causes = Causes::default();
    if was.has("resources") && !is.has("resources") {
        let why = "pod-level resources cannot be removed";
        causes.push(Cause::forbidden(&is.path_of("resources"), why));
        return causes;
    }
    causes.extend(removed(was, is, "pod-level resource"));
    if fixed_amounts(was) != fixed_amounts(is) {
        let why = "only cpu and memory resources are mutable at pod-level";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

/// No quantity may be removed. `what` is what has the quantities.
fn removed(before: &FieldValue, after: &FieldValue, what: &str) -> Causes {
    let mut causes = Causes::default();
    for which in ["requests", "limits"] {
        let had = object::at(before.value, &["resources", which]).and_then(Value::as_object);
        let gone = |key: &String| object::at(after.value, &["resources", which, key]).is_none();
        if had.is_some_and(|map| map.keys().any(gone)) {
            let why = format!("{what} {which} cannot be removed");
            let field = after.path_of(&format!("resources.{which}"));
            causes.push(Cause::forbidden(&field, &why));
        }
    }
    causes
}

/// True if a resize changes nothing of a container but quantities of CPU and memory.
fn is_fixed(before: &FieldValue, after: &FieldValue) -> bool {
    let fixed = |container: &FieldValue| {
        let mut rest = container.value.clone();
        object::remove(&mut rest, &["resources"]);
        (rest, fixed_amounts(container))
    };
    // As in Kubernetes, a container with claims to devices is never resized.
    let has_claims = object::at(before.value, &["resources", "claims"]).is_some();
    !has_claims && fixed(before) == fixed(after)
}

/// The resources that may not change.
fn fixed_amounts(of: &FieldValue) -> Value {
    let mut resources = of.get("resources").cloned().unwrap_or_else(|| json!({}));
    for which in ["requests", "limits"] {
        for what in ["cpu", "memory"] {
            object::remove(&mut resources, &[which, what]);
        }
        if object::at(&resources, &[which]) == Some(&json!({})) {
            object::remove(&mut resources, &[which]);
        }
    }
    resources
}
