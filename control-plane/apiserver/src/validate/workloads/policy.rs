//! Disruption budgets.

use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::{selector, shown};

const SPEC: [shown::Field; 4] = [
    ("MinAvailable", "minAvailable", "null"),
    ("Selector", "selector", "null"),
    ("MaxUnavailable", "maxUnavailable", "null"),
    (
        "UnhealthyPodEvictionPolicy",
        "unhealthyPodEvictionPolicy",
        "null",
    ),
];
const SHARES: [&str; 2] = ["minAvailable", "maxUnavailable"];
const COUNTS: [&str; 4] = [
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];
const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

/// A budget, given the old one if it is updated.
pub(crate) fn budget(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    if SHARES.iter().all(|key| spec.has(key)) {
        let shown = shown::as_go(spec.value, &SPEC);
        let why = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::invalid_shown("spec", &shown, why));
    }
    for key in SHARES {
        share(&spec, key, &mut causes);
    }
    let any_value = selector::had_wrong_values(old, &["spec", "selector"]);
    causes.label_selector_with(&spec, "selector", any_value);
    causes.word(&spec, "unhealthyPodEvictionPolicy", &POLICIES);
    causes
}

/// The status of a budget.
pub(crate) fn status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", object.get("status").unwrap_or(&Value::Null));
    causes.conditions(&status);
    for count in COUNTS {
        causes.not_negative(&status, count);
    }
    causes
}

/// A number, or a percentage up to 100.
fn share(spec: &FieldValue, key: &str, causes: &mut Causes) {
    let Some(text) = spec.get(key).and_then(Value::as_str) else {
        return causes.not_negative(spec, key);
    };
    let digits = text.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        causes.wrong(spec, key, why);
    } else if digits.parse::<i64>().map_or(true, |percent| percent > 100) {
        causes.wrong(spec, key, "must not be greater than 100%");
    }
}
