//! Scheduling: gates, tolerations, and topology spread.

use std::collections::{BTreeMap, BTreeSet};
use std::num::IntErrorKind;

use machinery::status::Cause;
use machinery::{name, object};

use super::Pod;
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
/// Operators of a feature gate that is off: they compare numbers.
const COMPARISONS: [&str; 2] = ["Gt", "Lt"];
const SPREAD: &str = "topologySpreadConstraints";

pub(super) fn gates(spec: &FieldValue, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    causes.each(spec, "schedulingGates", |causes, gate| {
        let text = gate.text("name");
        causes.extend(named(&gate.path, text, name::qualified_name(text)));
        if !names.insert(text) {
            causes.push(Cause::duplicate(&gate.path, &text.into()));
        }
    });
}

/// Tolerations. They may compare numbers if the pod had such before.
pub(crate) fn tolerations(spec: &FieldValue, compares: bool, causes: &mut Causes) {
    tolerations_at(&spec.path_of("tolerations"), spec, compares, causes);
}

/// The same with another path of the list.
pub(super) fn tolerations_at(field: &str, spec: &FieldValue, compares: bool, causes: &mut Causes) {
    for (at, one) in spec.items("tolerations").iter().enumerate() {
        if causes.is_full() {
            return;
        }
        let one = FieldValue::new(format!("{field}[{at}]"), one);
        toleration(&one, compares, causes);
    }
}

fn toleration(one: &FieldValue, compares: bool, causes: &mut Causes) {
    causes.named(one, "key", name::qualified_name);
    let (operator, value) = (one.text("operator"), one.text("value"));
    if one.text("key").is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.wrong_text(one, "operator", why);
    }
    if one.has("tolerationSeconds") && one.text("effect") != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.wrong_text(one, "effect", why);
    }
    // Kubernetes reports an invalid value at the operator.
    let told = match operator {
        "" | "Equal" => name::label_value(value).join(";"),
        "Exists" if !value.is_empty() => {
            "value must be empty when `operator` is 'Exists'".to_owned()
        }
        _ => String::new(),
    };
    if !told.is_empty() {
        let field = one.path_of("operator");
        causes.push(Cause::invalid(&field, &value.into(), &told));
    }
    match operator {
        "Lt" | "Gt" if compares => number(one, "value", causes),
        "Lt" | "Gt" => causes.unknown(one, "operator", &["Equal", "Exists", "Lt", "Gt"]),
        _ => causes.word(one, "operator", &["Equal", "Exists"]),
    }
    causes.word(one, "effect", &EFFECTS);
}

/// True if a toleration compares numbers.
pub(super) fn compares(spec: &FieldValue) -> bool {
    let mut tolerations = spec.items("tolerations").iter();
    tolerations.any(|one| COMPARISONS.contains(&object::text(one, &["operator"])))
}

/// A number in a text.
fn number(at: &FieldValue, key: &str, causes: &mut Causes) {
    let text = at.text(key);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = text == "0"
        || (digits.starts_with(|c: char| ('1'..='9').contains(&c))
            && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if text.is_empty() {
        causes.wrong_text(at, key, "must be non-empty");
    } else if !is_plain {
        let why = "must be a valid decimal integer in canonical form";
        causes.wrong_text(at, key, why);
    }
    if let Err(error) = text.parse::<i64>() {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let why = format!("strconv.ParseInt: parsing {text:?}: {why}");
        causes.wrong_text(at, key, &why);
    }
}

pub(super) fn spread(pod: &Pod, causes: &mut Causes) {
    let spec = &pod.spec;
    // Duplicate constraints; each except the last is reported.
    let mut left: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in spec.each(SPREAD) {
        *left.entry(spread_kind(&one)).or_default() += 1;
    }
    causes.each(spec, SPREAD, |causes, one| {
        if one.number("maxSkew") <= 0 {
            causes.wrong(one, "maxSkew", "must be greater than zero");
        }
        if one.text("topologyKey").is_empty() {
            let why = "can not be empty";
            causes.push(Cause::required(&one.path_of("topologyKey"), why));
        }
        if !ACTIONS.contains(&one.text("whenUnsatisfiable")) {
            causes.unknown(one, "whenUnsatisfiable", &ACTIONS);
        }
        let (key, action) = spread_kind(one);
        let left = left.entry((key, action)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let field = one.path_of("{topologyKey, whenUnsatisfiable}");
            let shown = format!("{{{key}, {action}}}");
            causes.push(Cause::duplicate(&field, &shown.into()));
        }
        domains(one, causes);
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            causes.word(one, key, &["Honor", "Ignore"]);
        }
        label_keys(one, causes);
        if !pod.exceptions.spread_selectors {
            causes.label_selector(one, "labelSelector");
        }
    });
}

/// True if the pods to spread are selected in a way that is refused.
pub(super) fn has_wrong_selectors(spec: &FieldValue) -> bool {
    let mut causes = Causes::default();
    for one in spec.items(SPREAD) {
        causes.label_selector(&FieldValue::new("", one), "labelSelector");
    }
    !causes.is_empty()
}

fn spread_kind<'a>(one: &FieldValue<'a>) -> (&'a str, &'a str) {
    (one.text("topologyKey"), one.text("whenUnsatisfiable"))
}

fn domains(one: &FieldValue, causes: &mut Causes) {
    let action = one.text("whenUnsatisfiable");
    let Some(domains) = one.integer("minDomains") else {
        return;
    };
    if domains <= 0 {
        causes.wrong(one, "minDomains", "must be greater than zero");
    }
    if action != "DoNotSchedule" {
        let why =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        causes.wrong(one, "minDomains", &why);
    }
}

/// Labels whose values come from the pod itself.
pub(super) fn label_keys(term: &FieldValue, causes: &mut Causes) {
    let lists = ["matchLabelKeys", "mismatchLabelKeys"];
    for list in lists {
        if term.items(list).is_empty() {
            continue;
        }
        if !term.has("labelSelector") {
            let why = "must not be specified when labelSelector is not set";
            causes.forbidden(term, list, why);
            continue;
        }
        causes.each(term, list, |causes, key| {
            let text = key.value.as_str().unwrap_or_default();
            causes.extend(named(&key.path, text, name::qualified_name(text)));
        });
    }
    selected_twice(term, causes);
    let others: BTreeSet<_> = term.each(lists[1]).map(|one| one.value.as_str()).collect();
    causes.each(term, lists[0], |causes, key| {
        if others.contains(&key.value.as_str()) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            causes.push(Cause::invalid(&key.path, key.value, why));
        }
    });
}

/// A label that comes from the pod itself is selected once: the selector has it since the pod was
/// made.
fn selected_twice(term: &FieldValue, causes: &mut Causes) {
    let Some(selector) = term.child("labelSelector") else {
        return;
    };
    let keys = term.items("matchLabelKeys").iter().enumerate();
    let keys: BTreeMap<&str, usize> = keys
        .filter_map(|(at, key)| Some((key.as_str()?, at)))
        .collect();
    let labels = selector.map("matchLabels").into_iter().flatten();
    let mut seen: BTreeSet<&str> = labels.map(|(key, _)| key.as_str()).collect();
    causes.each(&selector, "matchExpressions", |causes, one| {
        let key = one.text("key");
        if !seen.insert(key)
            && let Some(at) = keys.get(key)
        {
            // Kubernetes leaves the list out of the path.
            let field = format!("{}[{at}]", term.path);
            let why = "exists in both matchLabelKeys and labelSelector";
            causes.push(Cause::invalid(&field, &key.into(), why));
        }
    });
}
