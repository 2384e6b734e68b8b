//! The Events of a kubelet about its pods, derived from the status that is about to be written.

#[cfg(test)]
mod tests;

use machinery::api::Call;
use machinery::event::Event;
use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::{Value, json};

/// The component of the Events.
const COMPONENT: &str = "kubelet";

/// One Event about a container.
struct Line {
    warning: bool,
    reason: &'static str,
    message: String,
}

/// The Events that belong to the calls decided for a pod.
pub fn of(pod: &Object, calls: &[Call], node: &str, now: Timestamp) -> Vec<Call> {
    let written = calls.iter().find_map(|call| match call {
        Call::Patch {
            subresource: "status",
            patch,
            ..
        } => patch.get("status"),
        _ => None,
    });
    let Some(new) = written else {
        return Vec::new();
    };
    let lists = [
        ("initContainerStatuses", "initContainers"),
        ("containerStatuses", "containers"),
    ];
    let mut events = Vec::new();
    for (statuses, specs) in lists {
        let old = object::items(pod, &["status", statuses]);
        for status in object::items(new, &[statuses]) {
            let name = object::text(status, &["name"]);
            let old = old
                .iter()
                .find(|one| object::text(one, &["name"]) == name)
                .unwrap_or(&Value::Null);
            for line in lines(pod, old, status) {
                let event = Event {
                    about: json!({
                        "apiVersion": "v1", "kind": "Pod",
                        "namespace": object::namespace(pod), "name": object::name(pod),
                        "uid": object::uid(pod),
                        "resourceVersion": object::resource_version(pod),
                        "fieldPath": format!("spec.{specs}{{{name}}}"),
                    }),
                    warning: line.warning,
                    reason: line.reason,
                    message: &line.message,
                    component: COMPONENT,
                    host: node,
                };
                let name = event.name(now, events.len());
                events.push(event.create(&name, now));
            }
        }
    }
    events
}

/// The Events for a container's change from one status to another.
fn lines(pod: &Object, old: &Value, new: &Value) -> Vec<Line> {
    let normal = |reason, message: String| Line {
        warning: false,
        reason,
        message,
    };
    let name = object::text(new, &["name"]);
    let mut lines = Vec::new();
    if run(new).is_some() && run(new) != run(old) {
        let image = object::text(new, &["image"]);
        let there = "already present on machine and can be accessed by the pod";
        lines.push(normal(
            "Pulled",
            format!("Container image {image:?} {there}"),
        ));
        lines.push(normal("Created", "Container created".into()));
        lines.push(normal("Started", "Container started".into()));
    }
    if object::is_deleting(pod) && is_running(old) && !is_running(new) {
        lines.push(normal("Killing", format!("Stopping container {name}")));
    }
    if rests(new) && !rests(old) {
        let (namespace, uid) = (object::namespace(pod), object::uid(pod));
        let pod = format!("{}_{namespace}({uid})", object::name(pod));
        lines.push(Line {
            warning: true,
            reason: "BackOff",
            message: format!("Back-off restarting failed container {name} in pod {pod}"),
        });
    }
    lines
}

/// The container ID of the current run, or of the last one if the container has ended.
fn run(status: &Value) -> Option<&str> {
    let path: &[&str] = match object::at(status, &["state", "waiting"]) {
        Some(_) => &["lastState", "terminated", "containerID"],
        None => &["containerID"],
    };
    Some(object::text(status, path)).filter(|run| !run.is_empty())
}

fn is_running(status: &Value) -> bool {
    object::at(status, &["state", "running"]).is_some()
}

/// True if the container waits for its restart.
fn rests(status: &Value) -> bool {
    object::text(status, &["state", "waiting", "reason"]) == "CrashLoopBackOff"
}
