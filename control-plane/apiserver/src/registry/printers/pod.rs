//! Columns of pods: the state of their containers.

use std::collections::BTreeSet;

use machinery::object;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::storage::cells::Cell;

use super::{Layout, NONE, age, any_or, text_or};

pub(crate) const POD: Layout = Layout {
    columns: &[
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP*",
        "Node*",
        "Nominated Node*",
        "Readiness Gates*",
    ],
    cells,
};

/// What a row says of a pod that is done, besides its cells.
pub(crate) fn row_conditions(pod: &Value) -> Option<Value> {
    let phase = object::text(pod, &["status", "phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

/// Sums over the containers.
#[derive(Default)]
struct Counted {
    ready: usize,
    restarts: Restarts,
    reason: String,
}

/// How often containers were started anew, and when the last of them had ended.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += object::integer(status, &["restartCount"]).unwrap_or(0);
        let ended = object::text(status, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(Timestamp::parse(ended));
    }
}

fn cells(pod: &Value) -> Vec<Cell> {
    let total = object::items(pod, &["spec", "containers"]).len() + sidecars(pod).count();
    let counted = count(pod);
    let restarts = counted.restarts.count;
    let restarts = match counted.restarts.last {
        Some(then) if restarts != 0 => Cell::Ago {
            before: format!("{restarts} ("),
            then,
            after: " ago)",
        },
        _ => restarts.to_string().into(),
    };
    let gates = object::items(pod, &["spec", "readinessGates"]);
    let met = gates.iter().filter(|gate| {
        let mut conditions = object::items(pod, &["status", "conditions"]).iter();
        let first = conditions.find(|one| one["type"] == gate["conditionType"]);
        first.is_some_and(|one| one["status"] == "True")
    });
    let gates = match gates.len() {
        0 => NONE.to_owned(),
        total => format!("{}/{total}", met.count()),
    };
    vec![
        format!("{}/{total}", counted.ready).into(),
        counted.reason.into(),
        restarts,
        age(pod),
        text_or(pod, &["status", "podIP"], NONE),
        text_or(pod, &["spec", "nodeName"], NONE),
        any_or(pod, &["status", "nominatedNodeName"], NONE),
        gates.into(),
    ]
}

/// Init containers that keep running.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    let all = object::items(pod, &["spec", "initContainers"]).iter();
    all.filter(|one| one["restartPolicy"] == "Always")
}

fn count(pod: &Value) -> Counted {
    let phase = object::text(pod, &["status", "phase"]);
    let why = object::text(pod, &["status", "reason"]);
    let mut counted = Counted {
        reason: if why.is_empty() {
            phase.to_owned()
        } else {
            why.to_owned()
        },
        ..Counted::default()
    };
    for condition in object::items(pod, &["status", "conditions"]) {
        if condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated" {
            counted.reason = "SchedulingGated".into();
        }
    }
    let (initializing, of_sidecars) = count_init(pod, &mut counted);
    // A sidecar that starts anew does not bring the pod back to its beginning.
    if !initializing || has_condition(pod, "Initialized") {
        counted.restarts = of_sidecars;
        count_main(pod, &mut counted);
    }
    if object::is_deleting(pod) {
        let lost = why == "NodeLost";
        if lost || !["Failed", "Succeeded"].contains(&phase) {
            counted.reason = if lost { "Unknown" } else { "Terminating" }.into();
        }
    }
    counted
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    let mut conditions = object::items(pod, &["status", "conditions"]).iter();
    conditions.any(|one| one["type"] == kind && one["status"] == "True")
}

/// Counts the init containers; true if they are not finished, and the restarts of those that keep
/// running.
fn count_init(pod: &Value, counted: &mut Counted) -> (bool, Restarts) {
    let total = object::items(pod, &["spec", "initContainers"]).len();
    let sidecars: BTreeSet<&str> = sidecars(pod)
        .map(|one| object::text(one, &["name"]))
        .collect();
    let mut of_sidecars = Restarts::default();
    for (at, status) in object::items(pod, &["status", "initContainerStatuses"])
        .iter()
        .enumerate()
    {
        counted.restarts.add(status);
        let keeps_running = sidecars.contains(object::text(status, &["name"]));
        if keeps_running {
            of_sidecars.add(status);
        }
        let state = |what: &str, key: &str| object::text(status, &["state", what, key]);
        let exit = object::integer(status, &["state", "terminated", "exitCode"]);
        if exit == Some(0) {
            continue;
        }
        if keeps_running && status["started"] == true {
            counted.ready += usize::from(status["ready"] == true);
            continue;
        }
        let waiting = state("waiting", "reason");
        counted.reason = match exit {
            Some(_) if !state("terminated", "reason").is_empty() => {
                format!("Init:{}", state("terminated", "reason"))
            }
            Some(code) => match object::integer(status, &["state", "terminated", "signal"]) {
                Some(signal) if signal != 0 => format!("Init:Signal:{signal}"),
                _ => format!("Init:ExitCode:{code}"),
            },
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                format!("Init:{waiting}")
            }
            None => format!("Init:{at}/{total}"),
        };
        return (true, of_sidecars);
    }
    (false, of_sidecars)
}

fn count_main(pod: &Value, counted: &mut Counted) {
    let (mut running, mut failed) = (false, None);
    for status in object::items(pod, &["status", "containerStatuses"])
        .iter()
        .rev()
    {
        counted.restarts.add(status);
        let waiting = object::text(status, &["state", "waiting", "reason"]);
        let ended = object::at(status, &["state", "terminated"]);
        if !waiting.is_empty() {
            counted.reason = waiting.to_owned();
        } else if let Some(ended) = ended {
            counted.reason = match (object::text(ended, &["reason"]), ended["signal"].as_i64()) {
                ("", Some(signal)) if signal != 0 => format!("Signal:{signal}"),
                ("", _) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or(0)),
                (reason, _) => reason.to_owned(),
            };
            if ended["exitCode"].as_i64().unwrap_or(0) != 0 {
                failed = Some(counted.reason.clone());
            }
        } else if status["ready"] == true && status["state"].get("running").is_some() {
            running = true;
            counted.ready += 1;
        }
    }
    if counted.reason != "Completed" {
        return;
    }
    // The first container is done; the others decide.
    if running && has_condition(pod, "Ready") {
        counted.reason = "Running".into();
    } else if let Some(failed) = failed {
        counted.reason = failed;
    } else if running {
        counted.reason = "NotReady".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of a pod up to its restarts.
    fn shown(conditions: Value, first: Value, main: Value) -> [String; 3] {
        let pod = json!({
            "spec": {
                "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
                "containers": [{"name": "a"}, {"name": "b"}],
            },
            "status": {"phase": "Running", "conditions": conditions,
                "initContainerStatuses": first, "containerStatuses": main},
        });
        let counted = count(&pod);
        let ready = counted.ready.to_string();
        [ready, counted.reason, counted.restarts.count.to_string()]
    }

    fn condition(kind: &str) -> Value {
        json!([{"type": kind, "status": "True"}])
    }

    #[test]
    fn a_sidecar_that_starts_anew_is_no_new_beginning() {
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let first = json!([
            {"name": "i", "restartCount": 4, "state": done},
            {"name": "s", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]);
        let main = json!([
            {"name": "a", "restartCount": 1, "ready": true, "state": {"running": {}}},
            {"name": "b", "ready": true, "state": {"running": {}}},
        ]);
        assert_eq!(
            shown(condition("Initialized"), first.clone(), main.clone()),
            ["2", "Init:CrashLoopBackOff", "3"]
        );
        assert_eq!(
            shown(json!([]), first, main),
            ["0", "Init:CrashLoopBackOff", "6"]
        );
    }

    #[test]
    fn a_container_that_failed_counts_more_than_one_that_is_done() {
        let done = json!({"name": "a", "state": {
            "terminated": {"exitCode": 0, "reason": "Completed"}}});
        let failed = json!({"name": "b", "state": {
            "terminated": {"exitCode": 1, "reason": "Error"}}});
        let running = json!({"name": "b", "ready": true, "state": {"running": {}}});
        let reason = |conditions: Value, other: &Value| {
            let [_, reason, _] = shown(conditions, json!([]), json!([done, other]));
            reason
        };
        assert_eq!(reason(json!([]), &failed), "Error");
        assert_eq!(reason(json!([]), &running), "NotReady");
        assert_eq!(reason(condition("Ready"), &running), "Running");
    }
}
