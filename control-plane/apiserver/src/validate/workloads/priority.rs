//! Priority classes.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, unchanged};

/// The highest priority of a user's class.
const VALUE_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const OF_SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let class = FieldValue::new("", object);
    let (name, value) = (object::name(object), class.number("value"));
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(why) = wrong_in_system(name, value, class.flag("globalDefault")) {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            causes.push(Cause::forbidden("metadata.name", &why));
        }
    } else if value > VALUE_MAX {
        let why = format!("maximum allowed value of a user defined priority is {VALUE_MAX}");
        causes.push(Cause::forbidden("value", &why));
    }
    let known = ["PreemptLowerPriority", "Never"];
    causes.choice(&class, "preemptionPolicy", &known);
    causes
}

/// A class must not change, because pods have copied its value.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if old.get("value") != new.get("value") {
        let why = "may not be changed in an update.";
        causes.push(Cause::forbidden("value", why));
    }
    causes.extend(unchanged(old, new, &["preemptionPolicy"]));
    causes
}

fn wrong_in_system(name: &str, value: i64, default: bool) -> Option<String> {
    match OF_SYSTEM.iter().find(|(one, _)| *one == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, its)) if *its != value => {
            Some(format!("value of {name} PriorityClass must be {its}"))
        }
        Some(_) if default => Some(format!(
            "globalDefault of {name} PriorityClass must be false"
        )),
        Some(_) => None,
    }
}
