//! Limits of a namespace or a container: quotas and limit ranges.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::words::shown::{self, Field};
use crate::validate::{Causes, named, unchanged, words::quantity};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const SCOPES_OF_QUOTA: [&str; 2] = ["spec", "scopes"];
const OPPOSITES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];
const OF_PODS: [&str; 7] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.memory",
];
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Scopes that an object is in or not: there are no values to compare.
const WITHOUT_VALUES: [&str; 5] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "Terminating",
];
/// One expression of a scope selector, as Go prints it.
const EXPRESSION: [Field; 3] = [
    ("ScopeName", "scopeName", "\"\""),
    ("Operator", "operator", "\"\""),
    ("Values", "values", "null"),
];
const LIMIT_TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

pub(crate) fn quota(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    amounts(&spec, "hard", &mut causes);
    scopes(&spec, &mut causes);
    scope_selector(&spec, &mut causes);
    causes
}

/// The quantities in a quota's status.
pub(crate) fn quota_status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", object.get("status").unwrap_or(&Value::Null));
    amounts(&status, "hard", &mut causes);
    amounts(&status, "used", &mut causes);
    causes
}

/// The scopes of a quota must not change; their order means nothing.
pub(crate) fn quota_update(old: &Value, new: &Value) -> Causes {
    if scopes_of(old) == scopes_of(new) {
        return Causes::default();
    }
    unchanged(old, new, &SCOPES_OF_QUOTA)
}

fn scopes_of(quota: &Value) -> BTreeSet<&str> {
    let scopes = object::items(quota, &SCOPES_OF_QUOTA).iter();
    scopes.filter_map(Value::as_str).collect()
}

fn amounts(at: &FieldValue, key: &str, causes: &mut Causes) {
    for (resource, amount) in at.map(key).into_iter().flatten() {
        if causes.is_full() {
            break;
        }
        let field = format!("{}[{resource}]", at.path_of(key));
        quantity::quota_name(&field, resource, causes);
        quantity::of_resource(&field, resource, amount, causes);
    }
}

fn scopes(spec: &FieldValue, causes: &mut Causes) {
    let hard = spec.map("hard");
    let counted = |resource: &&String| quantity::is_of_quotas(resource);
    let counted: Vec<&String> = hard
        .into_iter()
        .flat_map(|map| map.keys())
        .filter(counted)
        .collect();
    let mut seen = BTreeSet::new();
    for scope in spec.items("scopes") {
        if causes.is_full() {
            break;
        }
        let scope = scope.as_str().unwrap_or_default();
        if !seen.insert(scope) {
            continue;
        }
        if !SCOPES.contains(&scope) {
            causes.wrong(spec, "scopes", "unsupported scope");
        }
        for _ in counted.iter().filter(|resource| !fits(scope, resource)) {
            if causes.is_full() {
                break;
            }
            causes.wrong(spec, "scopes", "unsupported scope applied to resource");
        }
    }
    if OPPOSITES
        .iter()
        .any(|two| two.iter().all(|one| seen.contains(one)))
    {
        causes.wrong(spec, "scopes", "conflicting scopes");
    }
}

fn scope_selector(spec: &FieldValue, causes: &mut Causes) {
    let Some(selector) = spec.child("scopeSelector") else {
        return;
    };
    let path = selector.path_of("matchExpressions");
    let hard = spec.map("hard").into_iter().flat_map(|map| map.keys());
    let counted: Vec<&String> = hard
        .filter(|resource| quantity::is_of_quotas(resource))
        .collect();
    let mut seen = BTreeSet::new();
    for expression in selector.each("matchExpressions") {
        if causes.is_full() {
            return;
        }
        // Kubernetes reports no index.
        let expression = FieldValue::new(path.clone(), expression.value);
        let scope = expression.text("scopeName");
        seen.insert(scope);
        if !SCOPES.contains(&scope) {
            causes.wrong_text(&expression, "scopeName", "unsupported scope");
        }
        for _ in counted.iter().filter(|resource| !fits(scope, resource)) {
            if causes.is_full() {
                return;
            }
            let all = selector.each("matchExpressions");
            let all: Vec<String> = all
                .map(|one| shown::as_go(one.value, &EXPRESSION))
                .collect();
            let shown = format!("{{\"MatchExpressions\":[{}]}}", all.join(","));
            let why = "unsupported scope applied to resource";
            causes.push(Cause::invalid_shown(&path, &shown, why));
        }
        operator(&expression, scope, causes);
    }
    if OPPOSITES
        .iter()
        .any(|two| two.iter().all(|one| seen.contains(one)))
    {
        // Kubernetes shows the other list of scopes.
        let scopes = spec.get("scopes").cloned().unwrap_or_default();
        causes.push(Cause::invalid(&path, &scopes, "conflicting scopes"));
    }
}

fn operator(expression: &FieldValue, scope: &str, causes: &mut Causes) {
    let operator = expression.text("operator");
    if WITHOUT_VALUES.contains(&scope) && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                   ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                   ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        causes.wrong_text(expression, "operator", why);
    }
    let valued = !expression.items("values").is_empty();
    match operator {
        "In" | "NotIn" if !valued => {
            let why =
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            causes.push(Cause::required(&expression.path_of("values"), why));
        }
        "Exists" | "DoesNotExist" if valued => {
            let why =
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.wrong(expression, "values", why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.wrong_text(expression, "operator", "not a valid selector operator"),
    }
}

/// True if the scope applies to the resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => OF_CLAIMS.contains(&resource),
        scope if SCOPES.contains(&scope) => OF_PODS.contains(&resource),
        _ => true,
    }
}

pub(crate) fn limit_range(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let mut types = BTreeSet::new();
    causes.each(&spec, "limits", |causes, limit| {
        let kind = limit.text("type");
        let field = limit.path_of("type");
        let wrong = name::qualified_name(kind);
        if !wrong.is_empty() {
            causes.extend(named(&field, kind, wrong));
        } else if !kind.contains('/') && !LIMIT_TYPES.contains(&kind) {
            let why = "must be a standard limit type or fully qualified";
            causes.wrong_text(limit, "type", why);
        }
        if !types.insert(kind) {
            causes.push(Cause::duplicate(&field, &kind.into()));
        }
        limits(limit, causes);
    });
    causes
}

/// One limit: known names, and quantities that do not contradict each other.
fn limits(limit: &FieldValue, causes: &mut Causes) {
    let kind = limit.text("type");
    let mut resources = BTreeSet::new();
    for part in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        if kind == "Pod" && part.starts_with("default") {
            causes.forbidden(limit, part, "may not be specified when `type` is 'Pod'");
            continue;
        }
        for resource in limit.map(part).into_iter().flat_map(|map| map.keys()) {
            if causes.is_full() {
                return;
            }
            let field = format!("{}[{resource}]", limit.path_of(part));
            match kind {
                "Pod" | "Container" => quantity::container_name(&field, resource, causes),
                _ => quantity::resource_name(&field, resource, causes),
            }
            resources.insert(resource.as_str());
        }
    }
    let stored = |part: &str| {
        limit
            .map(part)
            .is_some_and(|map| map.contains_key("storage"))
    };
    if kind == "PersistentVolumeClaim" && !stored("min") && !stored("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        causes.push(Cause::required(&limit.path_of("limits"), why));
    }
    for resource in resources {
        if causes.is_full() {
            return;
        }
        contradictions(limit, resource, causes);
    }
}

/// Quantities in order. Columns: the lesser one and its name in errors, the greater one and its
/// name, the field of the reported path, and the field of the reported quantity.
const ORDERS: [[&str; 6]; 6] = [
    ["min", "min", "max", "max", "min", "min"],
    [
        "min",
        "min",
        "defaultRequest",
        "default request",
        "defaultRequest",
        "defaultRequest",
    ],
    [
        "defaultRequest",
        "default request",
        "max",
        "max",
        "defaultRequest",
        "defaultRequest",
    ],
    [
        "defaultRequest",
        "default request",
        "default",
        "default limit",
        "defaultRequest",
        "defaultRequest",
    ],
    ["min", "min", "default", "default", "default", "min"],
    ["default", "default", "max", "max", "default", "max"],
];

fn contradictions(limit: &FieldValue, resource: &str, causes: &mut Causes) {
    let of_pod = limit.text("type") == "Pod";
    let amount = |part: &str| {
        let value = limit.map(part)?.get(resource)?;
        (!(of_pod && part.starts_with("default"))).then(|| quantity::read(value))
    };
    let field = |part: &str| format!("{}[{resource}]", limit.path_of(part));
    let mut wrong = |at: &str, shown: Quantity, why: &str| {
        causes.push(Cause::invalid(&field(at), &shown.to_string().into(), why));
    };
    for [less, its_name, more, other_name, at, shown] in ORDERS {
        if let (Some(a), Some(b)) = (amount(less), amount(more))
            && a > b
        {
            let why = format!("{its_name} value {a} is greater than {other_name} value {b}");
            wrong(at, if shown == less { a } else { b }, &why);
        }
    }
    let (low, high) = (amount("min"), amount("max"));
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        const PART: &str = "maxLimitRequestRatio";
        if ratio.milli_value() < 1000 {
            wrong(PART, ratio, &format!("ratio {ratio} is less than 1"));
        }
        if let (Some(low), Some(high)) = (low, high) {
            let most = high.milli_value() as f64 / low.milli_value() as f64;
            if ratio.milli_value() as f64 / 1000.0 > most {
                let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                wrong(PART, ratio, &why);
            }
        }
    }
    if let (Some(limit), Some(request)) = (amount("default"), amount("defaultRequest"))
        && !quantity::is_shared(resource)
        && limit != request
    {
        let why = format!(
            "default value {limit} must equal to defaultRequest value {request} in {resource}"
        );
        wrong("defaultRequest", request, &why);
    }
}
