//! A pod's status as a kubelet writes it: phase and conditions, from the states of the containers.

use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::address::PodAddresses;
use crate::container::{self, Containers, State};

/// The condition of a pod that is ready for its first container.
const SANDBOX: &str = "PodReadyToStartContainers";
/// The condition of a pod whose init containers have succeeded.
const INITIALIZED: &str = "Initialized";
/// The condition of a pod from the exit that restarts all its containers until they are removed.
const RESTARTING: &str = "AllContainersRestarting";

/// Whether a condition holds, with its reason and its message; both may be empty.
type Finding = Result<(&'static str, String), (&'static str, String)>;

/// What most conditions that hold say.
const HOLDS: Finding = Ok(("", String::new()));

/// The phase of a pod whose containers may still run.
pub fn phase(containers: &Containers) -> &'static str {
    if containers.init_failed {
        return "Failed";
    }
    let all = &containers.states;
    let any = |of: fn(&State) -> bool| all.iter().any(of);
    if !containers.initialized || any(|state| *state == State::Fresh) {
        return "Pending";
    }
    let runs = any(|state| matches!(state, State::Running | State::Resting(_)));
    if runs || containers.restarting {
        return "Running";
    }
    phase_when_stopped(containers)
}

/// The phase of a pod whose containers have all been stopped for good.
pub fn phase_when_stopped(containers: &Containers) -> &'static str {
    let well = |state: &State| matches!(state, State::Ended(0) | State::Resting(0));
    if containers.states.iter().all(well) {
        "Succeeded"
    } else {
        "Failed"
    }
}

/// The fields of the status that a node writes. The pod's addresses are written with its first
/// container.
pub fn of(
    pod: &Object,
    containers: &Containers,
    phase: &str,
    own: Option<&[&str]>,
    now: Timestamp,
    addresses: PodAddresses<'_>,
) -> Value {
    let started = object::at(pod, &["status", "startTime"]).cloned();
    let mut status = json!({
        "phase": phase,
        "conditions": conditions(pod, containers, phase, own.is_some(), now),
        "hostIP": addresses.host.first(),
        "hostIPs": listed(addresses.host),
        "startTime": started.unwrap_or_else(|| now.to_seconds().into()),
        "containerStatuses": containers.main,
    });
    if object::generation(pod) > 0 {
        status["observedGeneration"] = object::generation(pod).into();
    }
    if !containers.init.is_empty() {
        status["initContainerStatuses"] = containers.init.clone().into();
    }
    let of_host = object::at(pod, &["spec", "hostNetwork"]) == Some(&Value::Bool(true));
    if let Some(own) = if of_host { Some(addresses.host) } else { own } {
        status["podIP"] = own.first().copied().into();
        status["podIPs"] = listed(own);
    }
    status
}

fn listed(addresses: &[&str]) -> Value {
    addresses.iter().map(|ip| json!({"ip": ip})).collect()
}

/// Makes a patch replace a list of the object instead of merging it, so that it keeps its order.
pub fn replace(patch: &mut Value, list: &str) {
    if let Some(Value::Array(items)) = patch.get_mut(list) {
        items.insert(0, json!({"$patch": "replace"}));
    }
}

/// True if the pod has had a first container.
pub fn has_started(pod: &Object) -> bool {
    held(pod, SANDBOX)
}

/// True if writing this status would change the pod.
pub fn differs(pod: &Object, new: &Value) -> bool {
    let old = pod.get("status").unwrap_or(&Value::Null);
    let fields = new.as_object().into_iter().flatten();
    fields
        .into_iter()
        .any(|(field, value)| match field.as_str() {
            "conditions" => object::items(new, &["conditions"]).iter().any(|one| {
                let old = condition(pod, object::text(one, &["type"]));
                let mut fields = one.as_object().into_iter().flatten();
                fields.any(|(field, value)| old.and_then(|old| old.get(field)) != Some(value))
            }),
            _ => old.get(field) != Some(value),
        })
}

fn conditions(
    pod: &Object,
    containers: &Containers,
    phase: &str,
    has_sandbox: bool,
    now: Timestamp,
) -> Vec<Value> {
    let finished = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    };
    // As with a kubelet, a pod stays initialized while its init containers run again.
    let initialized = match (containers.initialized || held(pod, INITIALIZED), finished) {
        (false, _) => Err((
            "ContainersNotInitialized",
            format!(
                "containers with incomplete status: {}",
                names(&containers.init, false)
            ),
        )),
        (true, Some("PodCompleted")) => Ok(("PodCompleted", String::new())),
        (true, _) => HOLDS,
    };
    let unready = containers.main.iter().filter(|one| one["ready"] != true);
    let unready = unready.count() > 0;
    let ready = match finished {
        Some(reason) => Err((reason, String::new())),
        None if unready => Err((
            "ContainersNotReady",
            format!(
                "containers with unready status: {}",
                names(&containers.main, false)
            ),
        )),
        None => HOLDS,
    };
    let gates = object::items(pod, &["spec", "readinessGates"]).iter();
    let gates = gates.map(|gate| object::text(gate, &["conditionType"]));
    let closed = gates.filter(|gate| !held(pod, gate)).count();
    let pod_ready = match &ready {
        Ok(_) if closed > 0 => Err((
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate does not exist.".to_owned(),
        )),
        other => other.clone(),
    };
    let sandbox = if has_sandbox && finished.is_none() {
        HOLDS
    } else {
        Err(("", String::new()))
    };
    let restarting = restarting(pod, containers, finished);
    let all = [
        (SANDBOX, sandbox),
        (INITIALIZED, initialized),
        ("Ready", pod_ready),
        ("ContainersReady", ready),
        ("PodScheduled", HOLDS),
    ];
    let all = all.into_iter();
    let all = all.chain(restarting.map(|finding| (RESTARTING, finding)));
    all.map(|(kind, finding)| make_condition(pod, kind, finding, now))
        .collect()
}

/// The finding for [`RESTARTING`]; `None` for a pod without a rule that restarts all containers.
fn restarting(
    pod: &Object,
    containers: &Containers,
    finished: Option<&'static str>,
) -> Option<Finding> {
    let lists = ["initContainers", "containers"];
    let mut specs = lists
        .iter()
        .flat_map(|list| object::items(pod, &["spec", *list]));
    specs
        .any(container::may_restart_all)
        .then(|| match finished {
            Some(reason) => Err((reason, String::new())),
            None if containers.restarting => Ok((
                "RestartAllContainersStarted",
                "container exited with restart policy rule".to_owned(),
            )),
            None => Err(("", String::new())),
        })
}

/// A condition; it keeps its transition time while its status stays the same.
fn make_condition(pod: &Object, kind: &str, finding: Finding, now: Timestamp) -> Value {
    let (status, (reason, message)) = match finding {
        Ok(why) => ("True", why),
        Err(why) => ("False", why),
    };
    let old = condition(pod, kind);
    let same = old.filter(|old| object::text(old, &["status"]) == status);
    let since = same.and_then(|old| old.get("lastTransitionTime")).cloned();
    let mut condition = json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": since.unwrap_or_else(|| now.to_seconds().into()),
    });
    for (field, text) in [("reason", reason), ("message", message.as_str())] {
        let had = old.and_then(|old| old.get(field)).is_some();
        match text {
            // The status is written as a merge patch, so a removed field must be set to null.
            "" if had => condition[field] = Value::Null,
            "" => {}
            text => condition[field] = text.into(),
        }
    }
    if object::generation(pod) > 0 {
        condition["observedGeneration"] = object::generation(pod).into();
    }
    condition
}

fn condition<'a>(pod: &'a Object, kind: &str) -> Option<&'a Value> {
    let mut all = object::items(pod, &["status", "conditions"]).iter();
    all.find(|one| object::text(one, &["type"]) == kind)
}

/// True if the pod's status has this condition as true.
fn held(pod: &Object, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|one| object::text(one, &["status"]) == "True")
}

/// The names of the containers that are ready or not ready, in Go's list format.
fn names(statuses: &[Value], ready: bool) -> String {
    let such = statuses
        .iter()
        .filter(|one| (one["ready"] == true) == ready);
    let names: Vec<&str> = such.map(|one| object::text(one, &["name"])).collect();
    format!("[{}]", names.join(" "))
}
