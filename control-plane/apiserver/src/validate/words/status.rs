//! The counts in a status, which must fit each other.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::field::FieldValue;
use crate::validate::Causes;

/// The counts in a status.
pub(crate) struct Counts {
    /// At least zero.
    all: &'static [&'static str],
    /// At most `replicas`.
    parts: &'static [&'static str],
    /// At least the available replicas; the name of the ready ones in errors.
    ready: Option<&'static str>,
}

pub(crate) const DEPLOYMENT: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: Some("readyReplicas"),
};
pub(crate) const REPLICA_SET: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: Some("readyReplicas"),
};
pub(crate) const STATEFUL_SET: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &[
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ],
    ready: Some("status.readyReplicas"),
};
pub(crate) const DAEMON_SET: Counts = Counts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    ready: None,
};
pub(crate) const JOB: Counts = Counts {
    all: &["active", "succeeded", "failed", "ready", "terminating"],
    parts: &[],
    ready: None,
};
pub(crate) const AUTOSCALER: Counts = Counts {
    all: &["currentReplicas", "desiredReplicas"],
    parts: &[],
    ready: None,
};

pub(crate) fn check(counts: &Counts, old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", new.get("status").unwrap_or(&Value::Null));
    for key in counts.all {
        causes.not_negative(&status, key);
    }
    let mut at_most = |key: &str, limit: &str, called: &str| {
        if status.number(key) > status.number(limit) {
            causes.wrong(&status, key, &format!("cannot be greater than {called}"));
        }
    };
    for key in counts.parts {
        at_most(key, "replicas", "status.replicas");
    }
    if let Some(called) = counts.ready {
        at_most("availableReplicas", "readyReplicas", called);
    }
    let key = "collisionCount";
    let had = object::integer(old, &["status", key]).unwrap_or(0);
    if counts.all.contains(&key) && status.number(key) < had {
        let now = status.number(key).into();
        let why = "cannot be decremented";
        causes.push(Cause::invalid(&status.path_of(key), &now, why));
    }
    causes
}
