//! What makes a job fail or succeed before all its pods are done.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::indexes;
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, words::shown::quoted};

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 << 10;

/// When the failure of a pod ends the job, or does not count.
pub(super) fn failure(spec: &FieldValue, causes: &mut Causes) {
    causes.below(spec, "podFailurePolicy", |causes, policy| {
        few(policy, "rules", RULES_MAX, causes);
        let containers = ["containers", "initContainers"].into_iter();
        let containers = containers
            .flat_map(|list| object::items(spec.value, &["template", "spec", list]))
            .map(|container| object::text(container, &["name"]));
        let containers: BTreeSet<&str> = containers.collect();
        causes.each(policy, "rules", |causes, rule| {
            action(spec, rule, causes);
            causes.below(rule, "onExitCodes", |causes, codes| {
                exit_codes(codes, &containers, causes);
            });
            few(rule, "onPodConditions", PATTERNS_MAX, causes);
            causes.each(rule, "onPodConditions", pattern);
            let by_conditions = !rule.items("onPodConditions").is_empty();
            let why = match (rule.has("onExitCodes"), by_conditions) {
                (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
                (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
                _ => return,
            };
            causes.push(Cause::invalid_together(&rule.path, why));
        });
    });
}

fn action(spec: &FieldValue, rule: &FieldValue, causes: &mut Causes) {
    match rule.text("action") {
        "FailIndex" if !spec.has("backoffLimitPerIndex") => {
            let why = "requires the backoffLimitPerIndex to be set";
            causes.wrong(rule, "action", why);
        }
        _ => one_of(rule, "action", &ACTIONS, causes),
    }
}

/// A required text; one that is missing is reported with those that are possible.
fn one_of(at: &FieldValue, key: &str, known: &[&str], causes: &mut Causes) {
    if at.text(key).is_empty() {
        let why = format!("valid values: {}", quoted(known));
        causes.push(Cause::required(&at.path_of(key), &why));
    } else {
        causes.word(at, key, known);
    }
}

fn pattern(causes: &mut Causes, pattern: &FieldValue) {
    causes.label_name(pattern, "type");
    one_of(pattern, "status", &STATUSES, causes);
}

fn exit_codes(codes: &FieldValue, containers: &BTreeSet<&str>, causes: &mut Causes) {
    const KEY: &str = "values";
    one_of(codes, "operator", &OPERATORS, causes);
    let container = codes.get("containerName").and_then(Value::as_str);
    if container.is_some_and(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        causes.wrong(codes, "containerName", why);
    }
    if codes.items(KEY).is_empty() {
        causes.wrong(codes, KEY, "at least one value is required");
    }
    few(codes, KEY, CODES_MAX, causes);
    let numbers: Vec<i64> = codes.items(KEY).iter().filter_map(Value::as_i64).collect();
    let mut seen = BTreeSet::new();
    causes.each(codes, KEY, |causes, code| {
        if codes.text("operator") == "In" && *code.value == 0 {
            let why = "must not be 0 for the In operator";
            causes.push(Cause::invalid(&code.path, code.value, why));
        }
        if !seen.insert(code.value.as_i64()) {
            causes.push(Cause::duplicate(&code.path, code.value));
        }
    });
    if !numbers.is_sorted() {
        causes.wrong(codes, KEY, "must be ordered");
    }
}

/// When a job succeeds though not all its indexes have.
pub(super) fn success(spec: &FieldValue, causes: &mut Causes) {
    let completions = spec.number("completions");
    causes.below(spec, "successPolicy", |causes, policy| {
        if policy.items("rules").is_empty() {
            let why = "at least one rules must be specified when the successPolicy is specified";
            causes.push(Cause::required(&policy.path_of("rules"), why));
        }
        few(policy, "rules", RULES_MAX, causes);
        causes.each(policy, "rules", |causes, rule| {
            success_rule(rule, completions, causes);
        });
    });
}

fn success_rule(rule: &FieldValue, completions: i64, causes: &mut Causes) {
    const COUNT: &str = "succeededCount";
    const INDEXES: &str = "succeededIndexes";
    if !rule.has(COUNT) && !rule.has(INDEXES) {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(Cause::required(&rule.path, why));
    }
    let mut total = None;
    if rule.has(INDEXES) {
        causes.at_most(rule, INDEXES, INDEXES_BYTES_MAX);
        match indexes::count(rule.text(INDEXES), completions) {
            Ok(count) => total = Some(count),
            Err(why) => {
                total = Some(0);
                let why = format!("error parsing succeededIndexes: {why}");
                causes.wrong(rule, INDEXES, &why);
            }
        }
    }
    causes.not_negative(rule, COUNT);
    let Some(count) = rule.integer(COUNT) else {
        return;
    };
    if count > completions {
        let why = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        causes.wrong(rule, COUNT, &why);
    }
    if let Some(total) = total.filter(|total| count > *total) {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        causes.wrong(rule, COUNT, &why);
    }
}

fn few(at: &FieldValue, key: &str, most: usize, causes: &mut Causes) {
    let count = at.items(key).len();
    if count > most {
        causes.push(Cause::too_many(&at.path_of(key), count, most));
    }
}
