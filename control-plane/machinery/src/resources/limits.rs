//! Limit ranges: the defaults that they give to containers, and what they refuse.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::object;
use crate::resources::amounts::{self, Amounts, Part};
use crate::values::quantity::Quantity;

/// Says in a pod what came from limit ranges.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Larger values are compared in whole units: in thousandths they would not fit.
const MILLI_MAX: i64 = i64::MAX / 1000;

/// The requests and limits of one thing that a limit range limits.
struct Asked {
    requests: Amounts,
    limits: Amounts,
}

/// One resource of it, and the amount that the limit range has for it.
struct Check<'a> {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    kind: &'a str,
    resource: &'a str,
    enforced: Quantity,
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

/// Sets what the containers of a pod do not name to the defaults of a limit range, and notes that
/// in the pod.
pub fn set_defaults(range: &Value, pod: &mut Value) {
    let of_containers = |list: &str| {
        let items = object::items(range, &["spec", "limits"]).iter();
        let items = items.filter(|item| item["type"] == "Container");
        let lists = items.filter_map(|item| item.get(list)?.as_object());
        let all: BTreeMap<String, Value> = lists.flatten().map(owned).collect();
        all
    };
    let defaults = [
        (Part::Requests, of_containers("defaultRequest")),
        (Part::Limits, of_containers("default")),
    ];
    let mut notes = Vec::new();
    for (list, what) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            for (part, defaults) in &defaults {
                let set = set_missing(container, *part, defaults);
                if !set.is_empty() {
                    let part = part.key().trim_end_matches('s');
                    let name = object::text(container, &["name"]);
                    notes.push(format!("{} {part} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        object::set(pod, &["metadata", "annotations", ANNOTATION], note.into());
    }
}

/// Sets the missing amounts of a list; returns their resources.
fn set_missing<'a>(
    container: &mut Value,
    part: Part,
    defaults: &'a BTreeMap<String, Value>,
) -> Vec<&'a str> {
    let mut set = Vec::new();
    for (resource, amount) in defaults {
        let path = ["resources", part.key(), resource];
        if object::at(container, &path).is_none() {
            object::set(container, &path, amount.clone());
            set.push(resource.as_str());
        }
    }
    set
}

/// Why a limit range refuses a pod or a volume claim, by the plural of its kind; `None` if it does
/// not.
pub fn violation(range: &Value, plural: &str, object: &Value) -> Option<String> {
    let mut wrong = Vec::new();
    for item in object::items(range, &["spec", "limits"]) {
        match (plural, object::text(item, &["type"])) {
            ("pods", "Container") => {
                for container in ["containers", "initContainers"]
                    .into_iter()
                    .flat_map(|list| object::items(object, &["spec", list]))
                {
                    let asked = Asked {
                        requests: amounts::named(container, Part::Requests),
                        limits: amounts::named(container, Part::Limits),
                    };
                    check(item, &asked, &[minimum, maximum, ratio], &mut wrong);
                }
            }
            ("pods", "Pod") => {
                let asked = Asked {
                    requests: amounts::of_spec(object, Part::Requests),
                    limits: amounts::of_spec(object, Part::Limits),
                };
                check(item, &asked, &[minimum, maximum, ratio], &mut wrong);
            }
            ("persistentvolumeclaims", "PersistentVolumeClaim") => {
                let spec = object.get("spec").unwrap_or(&Value::Null);
                let asked = Asked {
                    requests: amounts::named(spec, Part::Requests),
                    limits: Amounts::new(),
                };
                check(item, &asked, &[minimum, maximum_request], &mut wrong);
            }
            _ => {}
        }
    }
    together(wrong)
}

/// A rule: its list in the limit range, and what it finds wrong.
type Rule = fn(&Check<'_>) -> Option<String>;

/// The list of a limit range that each rule is about, in the order of the rules.
const LISTS: [&str; 3] = ["min", "max", "maxLimitRequestRatio"];

fn check(item: &Value, asked: &Asked, rules: &[Rule], wrong: &mut Vec<String>) {
    for (list, rule) in LISTS.into_iter().zip(rules) {
        for (resource, enforced) in amounts::read(item.get(list)) {
            wrong.extend(rule(&Check {
                kind: object::text(item, &["type"]),
                resource: &resource,
                enforced,
                request: asked.requests.get(&resource).copied(),
                limit: asked.limits.get(&resource).copied(),
            }));
        }
    }
}

impl Check<'_> {
    /// Request, limit and enforced amount in one unit: thousandths, unless one is too large. What
    /// is missing is zero.
    fn values(&self) -> [i64; 3] {
        let zero = Quantity::ZERO;
        let all = [
            self.request.unwrap_or(zero),
            self.limit.unwrap_or(zero),
            self.enforced,
        ];
        let whole = all.map(Quantity::value);
        if whole.iter().all(|value| *value <= MILLI_MAX) {
            all.map(Quantity::milli_value)
        } else {
            whole
        }
    }

    fn usage(&self, bound: &str, why: &str) -> Option<String> {
        let Check {
            kind,
            resource,
            enforced,
            ..
        } = self;
        Some(format!(
            "{bound} {resource} usage per {kind} is {enforced}{why}"
        ))
    }
}

fn minimum(check: &Check<'_>) -> Option<String> {
    let [request, limit, enforced] = check.values();
    match (check.request, check.limit) {
        (None, _) => check.usage("minimum", ".  No request is specified"),
        (Some(shown), _) if request < enforced => {
            check.usage("minimum", &format!(", but request is {shown}"))
        }
        (_, Some(shown)) if limit < enforced => {
            check.usage("minimum", &format!(", but limit is {shown}"))
        }
        _ => None,
    }
}

fn maximum(check: &Check<'_>) -> Option<String> {
    let [request, limit, enforced] = check.values();
    match (check.limit, check.request) {
        (None, _) => check.usage("maximum", ".  No limit is specified"),
        (Some(shown), _) if limit > enforced => {
            check.usage("maximum", &format!(", but limit is {shown}"))
        }
        (_, Some(shown)) if request > enforced => {
            check.usage("maximum", &format!(", but request is {shown}"))
        }
        _ => None,
    }
}

/// The maximum of a claim, which has no limits.
fn maximum_request(check: &Check<'_>) -> Option<String> {
    let [request, _, enforced] = check.values();
    match check.request {
        None => check.usage("maximum", ".  No request is specified"),
        Some(shown) if request > enforced => {
            check.usage("maximum", &format!(", but request is {shown}"))
        }
        Some(_) => None,
    }
}

fn ratio(check: &Check<'_>) -> Option<String> {
    let Check {
        kind,
        resource,
        enforced,
        ..
    } = check;
    let refuse = |why: String| {
        Some(format!(
            "{resource} max limit to request ratio per {kind} is {enforced}, but {why}"
        ))
    };
    let [request, limit, _] = check.values();
    if check.request.is_none() || request == 0 {
        return refuse("no request is specified or request is 0".to_owned());
    }
    if check.limit.is_none() || limit == 0 {
        return refuse("no limit is specified or limit is 0".to_owned());
    }
    let observed = limit as f64 / request as f64;
    let is_more = if enforced.value() <= MILLI_MAX {
        observed * 1000.0 > enforced.milli_value() as f64
    } else {
        observed > enforced.value() as f64
    };
    if is_more {
        return refuse(format!("provided ratio is {observed:.6}"));
    }
    None
}

/// Several reasons as one text; each counts once.
fn together(mut reasons: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    match reasons.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

fn owned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}
