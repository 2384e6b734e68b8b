//! Pods: their first status, and the parts that subresources change.

use std::collections::BTreeMap;

use machinery::amounts;
use machinery::object;
use serde_json::{Map, Value, json};

use super::{Kept, disabled};
use crate::basics::clock;
use crate::registry::strategy::keep;

/// What the paths of a pod cannot change.
pub(super) const RESETS: &[(&str, Kept)] = &[
    (
        "status",
        Kept::Fields(&[
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
            &["spec"],
        ]),
    ),
    (
        "ephemeralcontainers",
        Kept::AllBut(&[&[Some("spec"), Some("ephemeralContainers")]]),
    ),
    (
        "resize",
        Kept::AllBut(&[
            &[Some("spec"), Some("containers"), None, Some("resources")],
            &[Some("spec"), Some("containers"), None, Some("resizePolicy")],
            &[
                Some("spec"),
                Some("initContainers"),
                None,
                Some("resources"),
            ],
            &[
                Some("spec"),
                Some("initContainers"),
                None,
                Some("resizePolicy"),
            ],
        ]),
    ),
];

/// A new pod is pending; its resources determine its quality of service.
pub(super) fn prepare_for_create(pod: &mut Value) {
    let class = amounts::quality_of_service(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !object::items(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "lastTransitionTime": clock::now().to_seconds(),
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
    select_by_own_labels(pod);
    confine(pod);
}

/// Keeps what a new status leaves out: the quality of service, which old agents of nodes do not know,
/// and the generations that the status and its conditions are about. Drops what is of features that
/// are off.
pub(super) fn prepare_status(old: &Value, new: &mut Value) {
    let path = ["status", "qosClass"];
    if let Some(class) = object::at(old, &path)
        && object::text(new, &path).is_empty()
    {
        object::set(new, &path, class.clone());
    }
    keep_generations(old, new);
    if let Some(status) = new.get_mut("status") {
        disabled::drop_from_status(old.get("status"), status);
    }
}

fn keep_generations(old: &Value, new: &mut Value) {
    const KEY: &str = "observedGeneration";
    let path = ["status", KEY];
    let of = |object: &Value| object::integer(object, &[KEY]).unwrap_or(0);
    let known = object::integer(old, &path).unwrap_or(0);
    if known != 0 && object::integer(new, &path).unwrap_or(0) == 0 {
        object::set(new, &path, known.into());
    }
    // More than one condition may have a type: the first keeps the first one's.
    let mut known: Vec<(&str, i64)> = object::items(old, &["status", "conditions"])
        .iter()
        .map(|condition| (object::text(condition, &["type"]), of(condition)))
        .collect();
    let conditions = new.pointer_mut("/status/conditions");
    let conditions = conditions.and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let kind = object::text(condition, &["type"]);
        let Some(place) = known.iter().position(|(known, _)| *known == kind) else {
            continue;
        };
        let (_, generation) = known.remove(place);
        if generation != 0 && of(condition) == 0 {
            object::set(condition, &[KEY], generation.into());
        }
    }
}

/// `ephemeralcontainers` changes only the ephemeral containers.
pub(super) fn ephemeral_containers(old: &Value, new: &mut Value) {
    let mut result = old.clone();
    let path = ["spec", "ephemeralContainers"];
    let containers = object::items(new, &path).to_vec();
    if containers.is_empty() {
        drop(object::remove(&mut result, &path))
    } else {
        object::set(&mut result, &path, containers.into())
    }
    *new = result;
}

/// `resize` changes only the resources and resize policies of containers, and the resources of the
/// pod as a whole.
pub(super) fn resize(old: &Value, new: &mut Value) {
    let mut result = old.clone();
    for list in ["containers", "initContainers"] {
        let given = object::items(new, &["spec", list]);
        let names = |pod: &Value| -> Vec<Value> {
            let containers = object::items(pod, &["spec", list]).iter();
            containers.map(|one| one["name"].clone()).collect()
        };
        if names(old) != names(new) {
            // Validation refuses it.
            object::set(&mut result, &["spec", list], given.to_vec().into());
            continue;
        }
        let containers = result.pointer_mut(&format!("/spec/{list}"));
        let containers = containers.and_then(Value::as_array_mut);
        for (container, given) in containers.into_iter().flatten().zip(given) {
            for key in ["resources", "resizePolicy"] {
                keep(given, container, key);
            }
        }
    }
    let own = ["spec", "resources"];
    match object::at(new, &own) {
        Some(given) => object::set(&mut result, &own, given.clone()),
        None => drop(object::remove(&mut result, &own)),
    }
    *new = result;
}

/// Moves the profiles of AppArmor in the annotations of a new pod to the fields, which alone the
/// agents of nodes read.
fn confine(pod: &mut Value) {
    const PROFILE: [&str; 2] = ["securityContext", "appArmorProfile"];
    let annotations = object::annotations(pod).into_iter().flatten();
    let profiles: BTreeMap<String, Value> = annotations
        .filter_map(|(key, value)| {
            let container = key.strip_prefix(object::APP_ARMOR)?;
            Some((container.to_owned(), app_armor(value.as_str()?)?))
        })
        .collect();
    let on_windows = object::text(pod, &["spec", "os", "name"]) == "windows";
    let Some(spec) = pod
        .get_mut("spec")
        .filter(|_| !on_windows && !profiles.is_empty())
    else {
        return;
    };
    let of_pod = object::at(spec, &PROFILE).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let profile = profiles.get(object::text(container, &["name"]));
            let profile = profile.filter(|profile| of_pod.as_ref() != Some(*profile));
            if let Some(profile) = profile
                && object::at(container, &PROFILE).is_none()
            {
                object::set(container, &PROFILE, profile.clone());
            }
        }
    }
}

/// The field for an annotation with a profile of AppArmor; none if it is invalid.
pub(super) fn app_armor(annotation: &str) -> Option<Value> {
    let name = annotation.strip_prefix("localhost/");
    match (annotation, name) {
        ("unconfined", _) => Some(json!({"type": "Unconfined"})),
        ("runtime/default", _) => Some(json!({"type": "RuntimeDefault"})),
        (_, Some(name)) if !name.is_empty() && name.trim() == name => {
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
        _ => None,
    }
}

/// Adds what a new pod's own labels say under the keys that it names to its selectors of other
/// pods: schedulers read the selectors alone.
fn select_by_own_labels(pod: &mut Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let labels = object::labels(pod).cloned().unwrap_or_default();
    let mut each = |list: &str, inner: &str| {
        let terms = pod.pointer_mut(&format!("/spec/{list}"));
        let terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
        for term in terms.filter_map(|term| term.pointer_mut(inner)) {
            select(term, &labels);
        }
    };
    each("topologySpreadConstraints", "");
    for pods in ["podAffinity", "podAntiAffinity"] {
        each(&format!("affinity/{pods}/{REQUIRED}"), "");
        each(&format!("affinity/{pods}/{PREFERRED}"), "/podAffinityTerm");
    }
}

fn select(term: &mut Value, labels: &Map<String, Value>) {
    const EXPRESSIONS: [&str; 1] = ["matchExpressions"];
    let lists = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
    let lists = lists.into_iter().flat_map(|(list, operator)| {
        let keys = object::items(term, &[list]).iter();
        keys.filter_map(Value::as_str)
            .filter_map(move |key| Some((key, operator, labels.get(key)?)))
    });
    let more: Vec<Value> = lists
        .map(|(key, operator, value)| json!({"key": key, "operator": operator, "values": [value]}))
        .collect();
    // Without a selector, it fits no pod anyway.
    let Some(selector) = term.get_mut("labelSelector").filter(|one| one.is_object()) else {
        return;
    };
    if !more.is_empty() {
        let all = [object::items(selector, &EXPRESSIONS), &more[..]].concat();
        object::set(selector, &EXPRESSIONS, all.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pod_selects_by_the_values_of_its_own_labels() {
        let selector = || json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let keys = json!(["hash", "other"]);
        let term = json!({"labelSelector": selector(), "matchLabelKeys": keys,
            "mismatchLabelKeys": ["tenant"]});
        let bare = json!({"matchLabelKeys": ["hash"]});
        let mut pod = json!({
            "metadata": {"labels": {"hash": "h", "tenant": "t"}},
            "spec": {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [term, bare]},
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": term}]},
                },
                "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": keys}],
            },
        });
        prepare_for_create(&mut pod);
        let hash = json!({"key": "hash", "operator": "In", "values": ["h"]});
        let tenant = json!({"key": "tenant", "operator": "NotIn", "values": ["t"]});
        let mut merged = term.clone();
        merged["labelSelector"] =
            json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, hash, tenant]});
        let affinity = &pod["spec"]["affinity"];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(affinity["podAffinity"][required], json!([merged, bare]));
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let weighted = &affinity["podAntiAffinity"][preferred][0];
        assert_eq!(weighted["podAffinityTerm"], merged);
        let spread = &pod["spec"]["topologySpreadConstraints"][0];
        assert_eq!(spread["labelSelector"], json!({"matchExpressions": [hash]}));
    }

    #[test]
    fn a_new_pod_has_its_profiles_of_app_armor_in_the_fields() {
        let key = |name: &str| format!("{}{name}", object::APP_ARMOR);
        let annotations = json!({
            key("a"): "localhost/p", key("b"): "runtime/default", key("c"): "unconfined",
            key("d"): "loose",
        });
        let own = json!({"appArmorProfile": {"type": "Unconfined"}});
        let mut pod = json!({
            "metadata": {"annotations": annotations},
            "spec": {
                "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
                "initContainers": [{"name": "a"}],
                "containers": [{"name": "b"}, {"name": "c", "securityContext": own}, {"name": "d"}],
            },
        });
        prepare_for_create(&mut pod);
        let local = json!({"type": "Localhost", "localhostProfile": "p"});
        assert_eq!(
            pod["spec"]["initContainers"],
            json!([{"name": "a", "securityContext": {"appArmorProfile": local}}])
        );
        assert_eq!(
            pod["spec"]["containers"],
            json!([{"name": "b"}, {"name": "c", "securityContext": own}, {"name": "d"}])
        );
    }

    #[test]
    fn a_status_without_a_quality_of_service_keeps_it() {
        let old = json!({"status": {"qosClass": "Burstable"}});
        let mut without = json!({"status": {"phase": "Running"}});
        prepare_status(&old, &mut without);
        assert_eq!(without["status"]["qosClass"], "Burstable");
        let mut other = json!({"status": {"qosClass": "BestEffort"}});
        prepare_status(&old, &mut other);
        assert_eq!(other["status"]["qosClass"], "BestEffort");
    }

    #[test]
    fn a_status_keeps_the_generations_that_it_leaves_out() {
        let condition =
            |kind: &str, generation: i64| json!({"type": kind, "observedGeneration": generation});
        let old = json!({"status": {"observedGeneration": 3,
            "conditions": [condition("a", 1), condition("a", 2), {"type": "b"}]}});
        let mut new = json!({"status": {"conditions": [
            {"type": "b"}, {"type": "a"}, {"type": "a"}, {"type": "a"}, {"type": "c"}]}});
        prepare_status(&old, &mut new);
        let kept = json!({"observedGeneration": 3, "conditions": [
            {"type": "b"}, condition("a", 1), condition("a", 2), {"type": "a"}, {"type": "c"}]});
        assert_eq!(new["status"], kept);
        let mut given =
            json!({"status": {"observedGeneration": 4, "conditions": [condition("a", 5)]}});
        let same = given.clone();
        prepare_status(&old, &mut given);
        assert_eq!(given, same);
    }
}
