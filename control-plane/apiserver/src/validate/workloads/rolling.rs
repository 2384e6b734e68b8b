//! The update strategies of deployments, daemon sets and stateful sets.

use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::shown::{self, Field};

const ROLLING: [Field; 2] = [
    ("MaxUnavailable", "maxUnavailable", "0"),
    ("MaxSurge", "maxSurge", "0"),
];
const OF_STATEFUL_SETS: [Field; 2] = [
    ("Partition", "partition", "0"),
    ("MaxUnavailable", "maxUnavailable", "null"),
];

pub(crate) fn deployment(spec: &FieldValue, causes: &mut Causes) {
    let strategy = child(spec, "strategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("Recreate", _) => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.forbidden(&strategy, "rollingUpdate", why);
        }
        ("RollingUpdate", None) => {
            let why = "this should be defaulted and never be nil";
            causes.push(Cause::required(&strategy.path_of("rollingUpdate"), why));
        }
        ("RollingUpdate", Some(rolling)) => rolling_deployment(&rolling, causes),
        _ => causes.push(Cause::not_supported_shown(
            &strategy.path,
            &strategy_shown(&strategy, &ROLLING),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn rolling_deployment(rolling: &FieldValue, causes: &mut Causes) {
    number_or_percent(rolling, "maxUnavailable", causes);
    number_or_percent(rolling, "maxSurge", causes);
    if amount(rolling, "maxUnavailable") == 0 && amount(rolling, "maxSurge") == 0 {
        let why = "may not be 0 when `maxSurge` is 0";
        causes.wrong(rolling, "maxUnavailable", why);
    }
    at_most_all(rolling, "maxUnavailable", causes);
}

pub(crate) fn daemon_set(spec: &FieldValue, causes: &mut Causes) {
    let strategy = child(spec, "updateStrategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => {
            causes.push(Cause::required(&strategy.path_of("rollingUpdate"), ""));
        }
        ("RollingUpdate", Some(rolling)) => rolling_daemon_set(&rolling, causes),
        _ => causes.push(Cause::not_supported_shown(
            &strategy.path,
            &strategy_shown(&strategy, &ROLLING),
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn rolling_daemon_set(rolling: &FieldValue, causes: &mut Causes) {
    for check in [number_or_percent, at_most_all] {
        check(rolling, "maxUnavailable", causes);
        check(rolling, "maxSurge", causes);
    }
    let some = |key: &str| amount(rolling, key) != 0;
    match (some("maxUnavailable"), some("maxSurge")) {
        (true, true) => {
            let why = "may not be set when maxUnavailable is non-zero";
            causes.wrong(rolling, "maxSurge", why);
        }
        (false, false) => {
            let why = "cannot be 0 when maxSurge is 0";
            causes.push(Cause::required(&rolling.path_of("maxUnavailable"), why));
        }
        _ => {}
    }
}

pub(crate) fn stateful_set(spec: &FieldValue, causes: &mut Causes) {
    let strategy = child(spec, "updateStrategy");
    match (strategy.text("type"), strategy.child("rollingUpdate")) {
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(_)) => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            causes.wrong(&strategy, "rollingUpdate", why);
        }
        ("RollingUpdate", Some(rolling)) => {
            causes.not_negative(&rolling, "partition");
            if rolling.has("maxUnavailable") {
                number_or_percent(&rolling, "maxUnavailable", causes);
                if amount(&rolling, "maxUnavailable") == 0 {
                    causes.wrong(&rolling, "maxUnavailable", "cannot be 0");
                }
                at_most_all(&rolling, "maxUnavailable", causes);
            }
        }
        _ => {
            let shown = strategy_shown(&strategy, &OF_STATEFUL_SETS);
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            causes.push(Cause::invalid_shown(&strategy.path, &shown, why));
        }
    }
}

/// The place of a key; a null value if it is missing.
fn child<'a>(spec: &FieldValue<'a>, key: &str) -> FieldValue<'a> {
    spec.child(key)
        .unwrap_or_else(|| FieldValue::new(spec.path_of(key), &Value::Null))
}

/// A strategy as Go prints it, with names that JSON does not have.
fn strategy_shown(strategy: &FieldValue, fields: &[Field]) -> String {
    let kind = Value::from(strategy.text("type"));
    let rolling = strategy.get("rollingUpdate");
    let rolling = rolling.map_or("null".into(), |rolling| shown::as_go(rolling, fields));
    format!("{{\"Type\":{kind},\"RollingUpdate\":{rolling}}}")
}

fn number_or_percent(rolling: &FieldValue, key: &str, causes: &mut Causes) {
    let text = rolling.get(key).is_some_and(Value::is_string);
    if text && percent(rolling, key).is_none() {
        let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        causes.wrong(rolling, key, why);
    }
    causes.not_negative(rolling, key);
}

fn at_most_all(rolling: &FieldValue, key: &str, causes: &mut Causes) {
    if percent(rolling, key).is_some_and(|percent| percent > 100) {
        causes.wrong(rolling, key, "must not be greater than 100%");
    }
}

/// The number before the percent sign; one that is too large counts as the largest.
fn percent(rolling: &FieldValue, key: &str) -> Option<i64> {
    let digits = rolling.text(key).strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// The number or the percentage; anything else counts as 0.
fn amount(rolling: &FieldValue, key: &str) -> i64 {
    percent(rolling, key).unwrap_or_else(|| rolling.number(key))
}
