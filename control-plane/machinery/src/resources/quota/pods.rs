//! Pods: what they request and may take, as long as they have not ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::number;
use crate::object;
use crate::object::selector::Requirement;
use crate::resources::amounts::{self, Amounts, HUGE_PAGES, Part, REQUESTS};
use crate::values::quantity::Quantity;
use crate::values::time::Timestamp;

/// Resources that a quota names like those of containers, as requests and as limits.
const COMPUTE: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// What a pod has to say of each container if a quota counts it.
const REQUIRED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];
/// What the names of devices begin with that are requested by the name of their class.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// True if pods use the resource of this name.
pub(super) fn counts(resource: &str) -> bool {
    let of_requests = resource.strip_prefix(REQUESTS);
    let bare = of_requests
        .or_else(|| resource.strip_prefix("limits."))
        .unwrap_or(resource);
    let device = |bare: &str| !amounts::is_native(resource) || bare.starts_with(DEVICE_CLASS);
    resource == "pods"
        || COMPUTE.contains(&bare)
        || resource.starts_with(HUGE_PAGES)
        || of_requests.is_some_and(|bare| bare.starts_with(HUGE_PAGES) || device(bare))
}

/// What a pod uses. One that has ended, or should have by now, only counts as an object.
pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if has_ended(pod, now) {
        return Amounts::new();
    }
    let requests = amounts::held(pod, Part::Requests);
    compute(&requests, &amounts::held(pod, Part::Limits))
}

/// The names that a quota has for requests and limits, and the pod itself.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([number("pods", 1)]);
    for (name, amount) in requests {
        let compute = COMPUTE.contains(&name.as_str());
        let pages = name.starts_with(HUGE_PAGES);
        if compute || pages {
            usage.insert(name.clone(), *amount);
        }
        if compute || pages || amounts::is_extended(name) || name.starts_with(DEVICE_CLASS) {
            usage.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    let limits = limits.iter();
    for (name, amount) in limits.filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        usage.insert(format!("limits.{name}"), *amount);
    }
    usage
}

/// Which containers name no amount of a resource that a quota counts.
pub(super) fn unspecified<'a>(
    pod: &Value,
    resources: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    if amounts::names_own(pod) {
        return None;
    }
    let required = resources.into_iter().filter(|one| REQUIRED.contains(one));
    let required: BTreeSet<&str> = required.collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in containers(pod) {
        let part = |part| amounts::named(container, part);
        let has = compute(&part(Part::Requests), &part(Part::Limits));
        for resource in required.iter().filter(|one| !has.contains_key(**one)) {
            let names = missing.entry(resource).or_default();
            names.insert(object::text(container, &["name"]));
        }
    }
    let list = |(resource, names): (&str, BTreeSet<&str>)| {
        let names: Vec<&str> = names.into_iter().collect();
        format!("{resource} for: {}", names.join(","))
    };
    let missing: Vec<String> = missing.into_iter().map(list).collect();
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

/// True if a pod is in a scope.
pub(super) fn is_in(scope: &Requirement, pod: &Value) -> bool {
    match scope.key.as_str() {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "CrossNamespacePodAffinity" => looks_across_namespaces(pod),
        "PriorityClass" => {
            let class = object::text(pod, &["spec", "priorityClassName"]);
            scope.matches(Some(class).filter(|class| !class.is_empty()))
        }
        _ => false,
    }
}

/// True if an update ends a pod, moves it to another scope or resizes it.
pub(super) fn is_changed(old: &Value, new: &Value, now: Timestamp) -> bool {
    has_deadline(old) != has_deadline(new)
        || !has_ended(old, now) && has_ended(new, now)
        || is_resized(old, new)
}

/// True if a pod may run only for a limited time.
pub(super) fn has_deadline(pod: &Value) -> bool {
    let deadline = object::integer(pod, &["spec", "activeDeadlineSeconds"]);
    deadline.is_some_and(|seconds| seconds >= 0)
}

/// True if a pod ended, or its grace period is over: a pod on a lost node would count forever.
fn has_ended(pod: &Value, now: Timestamp) -> bool {
    let phase = object::text(pod, &["status", "phase"]);
    let deletion = object::deletion_timestamp(pod).and_then(Timestamp::parse);
    let grace = object::deletion_grace_seconds(pod);
    let overdue = deletion.zip(grace).is_some_and(|(deletion, grace)| {
        now > deletion.plus(Duration::from_secs(grace.try_into().unwrap_or(0)))
    });
    ["Failed", "Succeeded"].contains(&phase) || overdue
}

/// True if no container asks for CPU or memory.
fn is_best_effort(pod: &Value) -> bool {
    let told = object::text(pod, &["status", "qosClass"]);
    if !told.is_empty() {
        return told == "BestEffort";
    }
    let asks = |of: &Value| {
        [Part::Requests, Part::Limits].into_iter().any(|part| {
            let amounts = amounts::named(of, part);
            let asked = |name| amounts.get(name).is_some_and(|one| *one > Quantity::ZERO);
            asked("cpu") || asked("memory")
        })
    };
    match pod
        .get("spec")
        .filter(|spec| spec.get("resources").is_some())
    {
        Some(spec) => !asks(spec),
        None => !containers(pod).any(asks),
    }
}

/// True if the place of a pod depends on pods of other namespaces.
fn looks_across_namespaces(pod: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let across = |term: &Value| {
        !object::items(term, &["namespaces"]).is_empty() || term.get("namespaceSelector").is_some()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |list| object::items(pod, &["spec", "affinity", kind, list]).iter();
        let preferred = terms(PREFERRED).filter_map(|one| one.get("podAffinityTerm"));
        terms(REQUIRED).chain(preferred).any(across)
    })
}

/// True if a container reports other resources than before.
fn is_resized(old: &Value, new: &Value) -> bool {
    ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .any(|list| {
            let before = object::items(old, &["status", list]).iter();
            let after = object::items(new, &["status", list]);
            before.into_iter().any(|before| {
                let same = after.iter().find(|after| after["name"] == before["name"]);
                same.is_some_and(|after| after["resources"] != before["resources"])
            })
        })
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let all = |key| object::items(pod, &["spec", key]).iter();
    all("containers").chain(all("initContainers"))
}
