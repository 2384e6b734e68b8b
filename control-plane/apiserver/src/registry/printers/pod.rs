//! Columns of pods: the state of their containers.

use machinery::object;
use machinery::time::Timestamp;
use serde_json::Value;

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

/// Sums over the containers.
#[derive(Default)]
struct Counted {
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
    running: bool,
}

fn cells(pod: &Value) -> Vec<Cell> {
    let total = object::items(pod, &["spec", "containers"]).len() + sidecars(pod).count();
    let counted = count(pod);
    let restarts = match counted.last_restart {
        Some(then) if counted.restarts > 0 => Cell::Ago {
            before: format!("{} (", counted.restarts),
            then,
            after: " ago)",
        },
        _ => counted.restarts.to_string().into(),
    };
    let gates = object::items(pod, &["spec", "readinessGates"]);
    let met = gates.iter().filter(|gate| {
        let mut conditions = object::items(pod, &["status", "conditions"]).iter();
        conditions.any(|one| one["type"] == gate["conditionType"] && one["status"] == "True")
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
    let initializing = count_init(pod, &mut counted);
    if !initializing {
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

/// Counts the init containers; true if they are not finished.
fn count_init(pod: &Value, counted: &mut Counted) -> bool {
    let total = object::items(pod, &["spec", "initContainers"]).len();
    let keeps_running = |name: &str| sidecars(pod).any(|one| object::text(one, &["name"]) == name);
    for (at, status) in object::items(pod, &["status", "initContainerStatuses"])
        .iter()
        .enumerate()
    {
        restarted(status, counted);
        let state = |what: &str, key: &str| object::text(status, &["state", what, key]);
        let exit = object::integer(status, &["state", "terminated", "exitCode"]);
        if exit == Some(0) {
            continue;
        }
        if keeps_running(object::text(status, &["name"])) && status["started"] == true {
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
        return true;
    }
    false
}

fn count_main(pod: &Value, counted: &mut Counted) {
    for status in object::items(pod, &["status", "containerStatuses"])
        .iter()
        .rev()
    {
        restarted(status, counted);
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
        } else if status["ready"] == true && status["state"].get("running").is_some() {
            counted.running = true;
            counted.ready += 1;
        }
    }
    if counted.reason == "Completed" && counted.running {
        let mut conditions = object::items(pod, &["status", "conditions"]).iter();
        let ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        counted.reason = if ready { "Running" } else { "NotReady" }.into();
    }
}

fn restarted(status: &Value, counted: &mut Counted) {
    counted.restarts += object::integer(status, &["restartCount"]).unwrap_or(0);
    let ended = object::text(status, &["lastState", "terminated", "finishedAt"]);
    let ended = Timestamp::parse(ended);
    counted.last_restart = counted.last_restart.max(ended);
}
