//! Checks values against a schema, and lets old violations through.

use serde_json::{Map, Value};

use super::errors::Violation;
use super::number::{self, Number};
use super::old::Old;
use crate::custom::structural::node::{Additional, Checks, Kind, Node};
use crate::custom::structural::path::Path;

/// The most violations that are told: a small body may have millions, and each is a hundred times as
/// long as what is wrong.
const FOUND_MAX: usize = 10_000;

/// What was found in a value.
#[derive(Debug, Default)]
struct Outcome {
    found: Vec<Violation>,
    /// How many checks were made, as Kubernetes counts them: of several alternatives that all
    /// fail, the one with the most checks explains best what is wrong.
    checks: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.found.is_empty()
    }

    fn merge(&mut self, other: Outcome) {
        let room = FOUND_MAX.saturating_sub(self.found.len());
        self.found.extend(other.found.into_iter().take(room));
        self.checks += other.checks;
    }
}

/// The violations in a value, with paths relative to it.
pub(in crate::custom::structural) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
) -> Vec<Violation> {
    let old = old.map(|value| Old { value, node });
    ratcheted(node, value, old, &Path::root()).found
}

/// Validates a value; violations of one that did not change do not count.
fn ratcheted(node: &Node, value: &Value, old: Option<Old>, at: &Path) -> Outcome {
    let mut outcome = checked(node, value, old, at);
    if !outcome.is_valid() && old.is_some_and(|old| old.is(value)) {
        outcome.found.clear();
    }
    outcome
}

fn checked(node: &Node, value: &Value, old: Option<Old>, at: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let is_typed = node.kind.is_some() || format_name(node).is_some();
    if is_typed || value.is_null() {
        let mismatch = check_type(node, value, at);
        outcome.checks += usize::from(mismatch.is_none());
        outcome.found.extend(mismatch);
    }
    let checks = node.checks.as_deref();
    if value.is_null() {
        outcome
            .found
            .extend(checks.and_then(|checks| check_allowed(checks, value, at)));
        return outcome;
    }
    outcome.checks += usize::from(is_typed);
    outcome.checks += 2;
    if let Some(checks) = checks {
        outcome.merge(check_alternatives(checks, value, old, at));
    }
    match value {
        Value::String(text) => {
            outcome.checks += 1;
            if let Some(checks) = checks {
                outcome.found.extend(check_text(checks, text, at));
                if let Some(format) = checks.format.as_ref().filter(|format| format.is_of_text()) {
                    outcome.checks += 1;
                    let wrong = !format.accepts(text);
                    let named = || Violation::wrong_type(at, format.name(), text);
                    outcome.found.extend(wrong.then(named));
                }
            }
        }
        Value::Number(_) => {
            outcome.checks += 2;
            number::check(node, value, at, &mut outcome.found);
        }
        Value::Array(items) => {
            outcome.checks += 2;
            outcome.merge(check_items(node, items, old, at));
        }
        _ => {}
    }
    outcome.checks += 1;
    outcome
        .found
        .extend(checks.and_then(|checks| check_allowed(checks, value, at)));
    if let Value::Object(fields) = value {
        outcome.checks += 1;
        outcome.merge(check_fields(node, fields, old, at));
    }
    outcome.checks += 1;
    outcome
}

fn check_type(node: &Node, value: &Value, at: &Path) -> Option<Violation> {
    let word = node.kind.map_or("", Kind::word);
    let (is, format) = match value {
        Value::Null if node.nullable || node.kind.is_none() => return None,
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(_) => match Number::read(value) {
            Some(Number::Whole(_)) => ("integer", "int64"),
            _ => ("number", "float64"),
        },
    };
    let is_whole = Number::read(value).is_some_and(Number::is_whole);
    let fits = match node.kind {
        None => format_name(node).is_none() || value.is_string() || value.is_array(),
        Some(Kind::Integer) => is_whole,
        Some(Kind::Number) => value.is_number(),
        Some(Kind::IntOrString) => value.is_string() || is_whole,
        Some(kind) => kind.word() == is,
    };
    if fits {
        return None;
    }
    // Go compares formats where a value can have one, and types for texts and lists.
    let by_format = format_name(node)
        .filter(|_| !matches!(value, Value::Null | Value::String(_) | Value::Array(_)));
    Some(match by_format {
        Some(wanted) => Violation::wrong_type(at, wanted, format),
        None => Violation::wrong_type(at, word, is),
    })
}

fn format_name(node: &Node) -> Option<&str> {
    let checks = node.checks.as_deref()?;
    checks.format.as_ref().map(|format| format.name())
}

fn check_alternatives(checks: &Checks, value: &Value, old: Option<Old>, at: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let quoted = || Value::from(at.to_string());
    if !checks.any_of.is_empty() {
        let (valid, outcomes) = tried(&checks.any_of, value, old, at);
        if valid == 0 {
            let why = format!("{} must validate at least one schema (anyOf)", quoted());
            outcome.found.push(Violation::of_none(why));
        }
        outcome.merge(outcomes);
    }
    if !checks.one_of.is_empty() {
        let (valid, outcomes) = tried(&checks.one_of, value, old, at);
        if valid != 1 {
            let found = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            let why = format!(
                "{} must validate one and only one schema (oneOf). {found}",
                quoted()
            );
            outcome.found.push(Violation::of_none(why));
        }
        if valid < 2 {
            outcome.merge(outcomes);
        }
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for each in &checks.all_of {
            let of_each = checked(each, value, old, at);
            valid += usize::from(of_each.is_valid());
            outcome.merge(of_each);
        }
        if valid < checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let why = format!("{} must validate all the schemas (allOf){none}", quoted());
            outcome.found.push(Violation::of_none(why));
        }
    }
    if let Some(not) = &checks.not
        && checked(not, value, old, at).is_valid()
    {
        let why = format!("{} must not validate the schema (not)", quoted());
        outcome.found.push(Violation::of_none(why));
    }
    outcome
}

/// How many alternatives are valid, and the outcome that counts: of the first valid one, else of
/// the one with the most checks.
fn tried(nodes: &[Node], value: &Value, old: Option<Old>, at: &Path) -> (usize, Outcome) {
    let mut valid = 0;
    let mut best: Option<Outcome> = None;
    for node in nodes {
        let outcome = checked(node, value, old, at);
        let is_better = if outcome.is_valid() {
            valid == 0
        } else {
            valid == 0
                && best
                    .as_ref()
                    .is_none_or(|best| outcome.checks > best.checks)
        };
        valid += usize::from(outcome.is_valid());
        if is_better {
            best = Some(outcome);
        }
    }
    (valid, best.unwrap_or_default())
}

fn check_text(checks: &Checks, text: &str, at: &Path) -> Option<Violation> {
    let value = || Value::from(text);
    let chars = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(limit) = checks.max_length.filter(|limit| chars() > *limit) {
        return Some(Violation::too_long(at, limit));
    }
    if let Some(limit) = checks.min_length.filter(|limit| chars() < *limit) {
        let why = format!("should be at least {limit} chars long");
        return Some(Violation::invalid(at, &value(), &why));
    }
    let pattern = checks.pattern.as_ref()?;
    let why = || format!("should match '{}'", pattern.text());
    (!pattern.matches(text)).then(|| Violation::invalid(at, &value(), &why()))
}

fn check_allowed(checks: &Checks, value: &Value, at: &Path) -> Option<Violation> {
    // A null is never allowed, not even if the list has one: Go does not compare it.
    let is_allowed = |one: &Value| !value.is_null() && (one == value || number::same(one, value));
    let wrong = !checks.allowed.is_empty() && !checks.allowed.iter().any(is_allowed);
    wrong.then(|| Violation::not_supported(at, value, &checks.allowed))
}

fn check_items(node: &Node, items: &[Value], old: Option<Old>, at: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(of_items) = &node.items {
        let old_items = old.and_then(Old::items);
        for (index, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|items| items.find(item));
            outcome.merge(ratcheted(of_items, item, old, &at.index(index)));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let Some(checks) = &node.checks else {
        return outcome;
    };
    if let Some(limit) = checks.min_items.filter(|limit| count < *limit) {
        let why = format!("should have at least {limit} items");
        outcome
            .found
            .push(Violation::invalid(at, &items.len().into(), &why));
    }
    if let Some(limit) = checks.max_items.filter(|limit| count > *limit) {
        outcome
            .found
            .push(Violation::too_many(at, items.len(), limit));
    }
    outcome
}

fn check_fields(node: &Node, fields: &Map<String, Value>, old: Option<Old>, at: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    let checks = node.checks.as_deref();
    if let Some(limit) = checks.and_then(|it| it.min_properties.filter(|limit| count < *limit)) {
        let why = format!("should have at least {limit} properties");
        outcome
            .found
            .push(Violation::invalid(at, &fields.len().into(), &why));
    }
    if let Some(limit) = checks.and_then(|it| it.max_properties.filter(|limit| count > *limit)) {
        outcome
            .found
            .push(Violation::too_many(at, fields.len(), limit));
    }
    for (name, value) in fields {
        let is_property = node.properties.contains_key(name);
        if !is_property && matches!(node.additional, Additional::Denied) {
            let why = format!("{at}.{name} in body is a forbidden property");
            let name = Value::from(name.as_str());
            outcome.found.push(Violation::plain(at, &name, why));
        } else if let Some(of_field) = node.of_field(name) {
            // The type is that of the request on both sides, so a change does not show in it.
            let is_type = at.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !is_type).and_then(|old| old.field(name));
            outcome.merge(ratcheted(of_field, value, old, &at.field(name)));
        }
    }
    for name in checks.into_iter().flat_map(|checks| &checks.required) {
        if !fields.contains_key(name) {
            outcome.found.push(Violation::required(&at.field(name)));
        }
    }
    outcome
}
