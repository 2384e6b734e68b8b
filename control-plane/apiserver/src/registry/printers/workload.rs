//! Columns of workloads: the actual and the desired number of pods.

use machinery::time::{self, Timestamp};
use machinery::{conversion, object};
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{
    Layout, NONE, UNKNOWN, UNSET, age, any_or, containers, count, labels, number, selector,
    selector_or, since, text_or,
};

/// How many metrics of an autoscaler are shown.
const TARGETS_SHOWN: usize = 2;
const TEMPLATE: [&str; 4] = ["spec", "template", "spec", "containers"];

pub(crate) const DEPLOYMENT: Layout = Layout {
    columns: &[
        "Ready",
        // These are numbers, but Go declares them as strings.
        "Up-to-date",
        "Available",
        "Age",
        "Containers*",
        "Images*",
        "Selector*",
    ],
    cells: deployment,
};

pub(crate) const REPLICA_SET: Layout = Layout {
    columns: &[
        "Desired#",
        "Current#",
        "Ready#",
        "Age",
        "Containers*",
        "Images*",
        "Selector*",
    ],
    cells: replica_set,
};

pub(crate) const STATEFUL_SET: Layout = Layout {
    columns: &["Ready", "Age", "Containers*", "Images*"],
    cells: stateful_set,
};

pub(crate) const DAEMON_SET: Layout = Layout {
    columns: &[
        "Desired#",
        "Current#",
        "Ready#",
        "Up-to-date#",
        "Available#",
        "Node Selector",
        "Age",
        "Containers*",
        "Images*",
        "Selector*",
    ],
    cells: daemon_set,
};

pub(crate) const JOB: Layout = Layout {
    columns: &[
        "Status",
        "Completions",
        "Duration",
        "Age",
        "Containers*",
        "Images*",
        "Selector*",
    ],
    cells: job,
};

pub(crate) const CRON_JOB: Layout = Layout {
    columns: &[
        "Schedule",
        "Timezone",
        "Suspend?",
        "Active#",
        "Last Schedule",
        "Age",
        "Containers*",
        "Images*",
        "Selector*",
    ],
    cells: cron_job,
};

pub(crate) const HORIZONTAL_POD_AUTOSCALER: Layout = Layout {
    columns: &[
        "Reference",
        "Targets",
        "MinPods",
        // These are numbers, but Go declares them as strings.
        "MaxPods",
        "Replicas",
        "Age",
    ],
    cells: autoscaler,
};

pub(crate) const POD_DISRUPTION_BUDGET: Layout = Layout {
    columns: &[
        "Min Available",
        "Max Unavailable",
        "Allowed Disruptions#",
        "Age",
    ],
    cells: budget,
};

pub(crate) const CONTROLLER_REVISION: Layout = Layout {
    columns: &["Controller", "Revision", "Age"],
    cells: revision,
};

pub(crate) const POD_TEMPLATE: Layout = Layout {
    columns: &["Containers", "Images", "Pod Labels"],
    cells: |object| {
        let mut cells = containers(object, &["template", "spec", "containers"]).to_vec();
        cells.push(labels(object, &["template", "metadata", "labels"]));
        cells
    },
};

fn with_template(mut cells: Vec<Cell>, object: &Value) -> Vec<Cell> {
    cells.extend(containers(object, &TEMPLATE));
    cells
}

fn deployment(object: &Value) -> Vec<Cell> {
    let status = |key: &str| number(object, &["status", key]);
    let ready = count(object, &["status", "readyReplicas"]);
    let wanted = count(object, &["spec", "replicas"]);
    let cells = vec![
        format!("{ready}/{wanted}").into(),
        status("updatedReplicas"),
        status("availableReplicas"),
        age(object),
    ];
    let mut cells = with_template(cells, object);
    cells.push(selector_or(object, &["spec", "selector"], ""));
    cells
}

fn replica_set(object: &Value) -> Vec<Cell> {
    let cells = vec![
        number(object, &["spec", "replicas"]),
        number(object, &["status", "replicas"]),
        number(object, &["status", "readyReplicas"]),
        age(object),
    ];
    let mut cells = with_template(cells, object);
    cells.push(match object::kind(object) {
        "ReplicationController" => labels(object, &["spec", "selector"]),
        _ => selector(object, &["spec", "selector"]),
    });
    cells
}

fn stateful_set(object: &Value) -> Vec<Cell> {
    let ready = count(object, &["status", "readyReplicas"]);
    let wanted = count(object, &["spec", "replicas"]);
    with_template(
        vec![format!("{ready}/{wanted}").into(), age(object)],
        object,
    )
}

fn daemon_set(object: &Value) -> Vec<Cell> {
    let status = |key: &str| number(object, &["status", key]);
    let cells = vec![
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(object, &["spec", "template", "spec", "nodeSelector"]),
        age(object),
    ];
    let mut cells = with_template(cells, object);
    cells.push(selector(object, &["spec", "selector"]));
    cells
}

fn job(object: &Value) -> Vec<Cell> {
    let has = |kind: &str| {
        let mut conditions = object::items(object, &["status", "conditions"]).iter();
        conditions.any(|one| one["type"] == kind && one["status"] == "True")
    };
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if object::is_deleting(object) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let done = count(object, &["status", "succeeded"]);
    let completions = match object::integer(object, &["spec", "completions"]) {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match object::integer(object, &["spec", "parallelism"]) {
            Some(most) if most > 1 => format!("{done}/1 of {most}"),
            _ => format!("{done}/1"),
        },
    };
    let started = Timestamp::parse(object::text(object, &["status", "startTime"]));
    let ended = Timestamp::parse(object::text(object, &["status", "completionTime"]));
    let duration = match started {
        Some(started) => match ended {
            Some(ended) => time::human(ended.since(started)).into(),
            None => Cell::ago(started),
        },
        None => "".into(),
    };
    let cells = vec![status.into(), completions.into(), duration, age(object)];
    let mut cells = with_template(cells, object);
    cells.push(selector(object, &["spec", "selector"]));
    cells
}

fn cron_job(object: &Value) -> Vec<Cell> {
    let last = object::text(object, &["status", "lastScheduleTime"]);
    let suspend = match object::at(object, &["spec", "suspend"]) {
        Some(Value::Bool(true)) => "True",
        Some(_) => "False",
        None => UNSET,
    };
    let template = [
        "spec",
        "jobTemplate",
        "spec",
        "template",
        "spec",
        "containers",
    ];
    let mut cells = vec![
        text_or(object, &["spec", "schedule"], ""),
        text_or(object, &["spec", "timeZone"], NONE),
        suspend.into(),
        object::items(object, &["status", "active"]).len().into(),
        if last.is_empty() {
            NONE.into()
        } else {
            since(last)
        },
        age(object),
    ];
    cells.extend(containers(object, &template));
    cells.push(selector(
        object,
        &["spec", "jobTemplate", "spec", "selector"],
    ));
    cells
}

fn autoscaler(object: &Value) -> Vec<Cell> {
    let target = |key: &str| object::text(object, &["spec", "scaleTargetRef", key]);
    vec![
        format!("{}/{}", target("kind"), target("name")).into(),
        targets(object),
        any_or(object, &["spec", "minReplicas"], UNSET),
        number(object, &["spec", "maxReplicas"]),
        number(object, &["status", "currentReplicas"]),
        age(object),
    ]
}

/// The metrics of an autoscaler, current and wanted.
fn targets(object: &Value) -> Cell {
    // The empty object of a bookmark, which has no name, gets no default metric.
    if object::api_version(object) != "autoscaling/v1" || object::name(object).is_empty() {
        return targets_of_v2(object);
    }
    // It has but one; annotations hold the others.
    let mut whole = object.clone();
    conversion::autoscaler::to_v2(&mut whole);
    targets_of_v2(&whole)
}

fn targets_of_v2(object: &Value) -> Cell {
    let current = object::items(object, &["status", "currentMetrics"]);
    let metrics = object::items(object, &["spec", "metrics"]).iter();
    let targets: Vec<String> = metrics
        .enumerate()
        .map(|(at, metric)| of_metric(metric, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    match targets.len() {
        0 => NONE.into(),
        count if count > TARGETS_SHOWN => {
            let shown = targets[..TARGETS_SHOWN].join(", ");
            format!("{shown} + {} more...", count - TARGETS_SHOWN).into()
        }
        _ => targets.join(", ").into(),
    }
}

/// One metric, and what it was when it was last read.
fn of_metric(metric: &Value, current: &Value) -> String {
    let key = match object::text(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |field: &str| object::at(metric, &[key, "target", field]).map(plain);
    let is = |field: &str| {
        let value = object::at(current, &[key, "current", field]);
        value.map_or(UNKNOWN.to_owned(), plain)
    };
    let percent = |number: String| format!("{number}%");
    match key {
        "external" | "object" => match wanted("averageValue") {
            Some(average) => format!("{}/{average} (avg)", is("averageValue")),
            None => format!("{}/{}", is("value"), wanted("value").unwrap_or_default()),
        },
        "pods" => {
            let average = wanted("averageValue").unwrap_or_default();
            format!("{}/{average}", is("averageValue"))
        }
        _ => {
            let name = object::text(metric, &[key, "name"]);
            if let Some(average) = wanted("averageValue") {
                return format!("{name}: {}/{average}", is("averageValue"));
            }
            let used = object::at(current, &[key, "current", "averageUtilization"]);
            let used = used.map_or(UNKNOWN.to_owned(), |used| percent(plain(used)));
            let wanted = wanted("averageUtilization").map_or("<auto>".to_owned(), percent);
            format!("{name}: {used}/{wanted}")
        }
    }
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn budget(object: &Value) -> Vec<Cell> {
    vec![
        any_or(object, &["spec", "minAvailable"], "N/A"),
        any_or(object, &["spec", "maxUnavailable"], "N/A"),
        number(object, &["status", "disruptionsAllowed"]),
        age(object),
    ]
}

fn revision(object: &Value) -> Vec<Cell> {
    let controller = match object::controller(object) {
        Some(owner) => {
            let kind = object::kind(owner).to_ascii_lowercase();
            let group = object::api_version(owner)
                .split_once('/')
                .map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", object::text(owner, &["name"]))
        }
        None => NONE.to_owned(),
    };
    vec![
        controller.into(),
        number(object, &["revision"]),
        age(object),
    ]
}
