//! Checks values against a schema, and lets old violations through.

use serde_json::{Map, Value};

use super::errors::{Outcome, Violation};
use super::limits;
use super::number::{self, Number};
use super::old::{Compared, Old};
use crate::basics::budget::Room;
use crate::custom::structural::node::{Additional, Checks, Kind, Node};
use crate::custom::structural::path::Path;

/// The violations in a value, with paths relative to it.
pub(in crate::custom::structural) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
) -> Vec<Violation> {
    let compared = Compared::default();
    let old = old.map(|value| Old {
        value,
        node,
        compared: &compared,
    });
    let at = Path::root();
    if old.is_some() && ratcheted(node, value, old, &at, Room::NONE).is_valid {
        return Vec::new();
    }
    ratcheted(node, value, old, &at, Room::default()).found
}

/// Validates a value; violations of one that did not change do not count. Where violations are
/// told, that is found out first: each has its path, which may be as long as the object. Elsewhere
/// only what is invalid is compared, and most is valid.
fn ratcheted(node: &Node, value: &Value, old: Option<Old>, at: &Path, room: Room) -> Outcome {
    let Some(of_old) = old else {
        return checked(node, value, old, at, room);
    };
    if room.is_left() && !of_old.is(value) {
        return checked(node, value, old, at, room);
    }
    let mut outcome = checked(node, value, old, at, Room::NONE);
    outcome.is_valid = outcome.is_valid || of_old.is(value);
    Outcome { room, ..outcome }
}

fn checked(node: &Node, value: &Value, old: Option<Old>, at: &Path, room: Room) -> Outcome {
    let mut outcome = Outcome::within(room);
    let is_typed = node.kind.is_some() || format_name(node).is_some();
    if is_typed || value.is_null() {
        match check_type(node, value) {
            None => outcome.checks += 1,
            Some((wanted, is)) => outcome.tell(|| Violation::wrong_type(at, wanted, is)),
        }
    }
    let checks = node.checks.as_deref();
    if value.is_null() {
        check_allowed(checks, value, at, &mut outcome);
        return outcome;
    }
    outcome.checks += usize::from(is_typed);
    outcome.checks += 2;
    if let Some(checks) = checks {
        outcome.merge(check_alternatives(checks, value, old, at, outcome.room));
    }
    match value {
        Value::String(text) => {
            outcome.checks += 1;
            if let Some(checks) = checks {
                check_text(checks, text, at, &mut outcome);
                if let Some(format) = checks.format.as_ref().filter(|format| format.is_of_text()) {
                    outcome.checks += 1;
                    if !format.accepts(text) {
                        outcome.tell(|| Violation::wrong_type(at, format.name(), text));
                    }
                }
            }
        }
        Value::Number(_) => {
            outcome.checks += 2;
            limits::check(node, value, at, &mut outcome);
        }
        Value::Array(items) => {
            outcome.checks += 2;
            outcome.merge(check_items(node, items, old, at, outcome.room));
        }
        _ => {}
    }
    outcome.checks += 1;
    check_allowed(checks, value, at, &mut outcome);
    if let Value::Object(fields) = value {
        outcome.checks += 1;
        outcome.merge(check_fields(node, fields, old, at, outcome.room));
    }
    outcome.checks += 1;
    outcome
}

/// The type, or the format, that the value must have and the one that it has, if they differ.
fn check_type<'n>(node: &'n Node, value: &Value) -> Option<(&'n str, &'static str)> {
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
        Some(wanted) => (wanted, format),
        None => (word, is),
    })
}

fn format_name(node: &Node) -> Option<&str> {
    let checks = node.checks.as_deref()?;
    checks.format.as_ref().map(|format| format.name())
}

fn check_alternatives(
    checks: &Checks,
    value: &Value,
    old: Option<Old>,
    at: &Path,
    room: Room,
) -> Outcome {
    let mut outcome = Outcome::within(room);
    let quoted = || Value::from(at.to_string());
    let must = |rest: &str| Violation::of_none(format!("{} must {rest}", quoted()));
    if !checks.any_of.is_empty() {
        let (valid, best) = tried(&checks.any_of, value, old, at);
        if valid == 0 {
            outcome.tell(|| must("validate at least one schema (anyOf)"));
        }
        outcome.merge(told(best, value, old, at, outcome.room));
    }
    if !checks.one_of.is_empty() {
        let (valid, best) = tried(&checks.one_of, value, old, at);
        if valid != 1 {
            let found = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            outcome.tell(|| {
                must(&format!(
                    "validate one and only one schema (oneOf). {found}"
                ))
            });
        }
        if valid < 2 {
            outcome.merge(told(best, value, old, at, outcome.room));
        }
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for each in &checks.all_of {
            let of_each = checked(each, value, old, at, outcome.room);
            valid += usize::from(of_each.is_valid);
            outcome.merge(of_each);
        }
        if valid < checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.tell(|| must(&format!("validate all the schemas (allOf){none}")));
        }
    }
    if let Some(not) = &checks.not
        && checked(not, value, old, at, Room::NONE).is_valid
    {
        outcome.tell(|| must("not validate the schema (not)"));
    }
    outcome
}

/// How many alternatives are valid, and the one whose outcome counts: the first valid one, else the
/// one with the most checks. Nothing of the others is told.
fn tried<'n>(
    nodes: &'n [Node],
    value: &Value,
    old: Option<Old>,
    at: &Path,
) -> (usize, Option<(&'n Node, Outcome)>) {
    let mut valid = 0;
    let mut best: Option<(&Node, Outcome)> = None;
    for node in nodes {
        let outcome = checked(node, value, old, at, Room::NONE);
        let most = best.as_ref().map(|(_, best)| best.checks);
        let is_better =
            valid == 0 && (outcome.is_valid || most.is_none_or(|most| outcome.checks > most));
        valid += usize::from(outcome.is_valid);
        if is_better {
            best = Some((node, outcome));
        }
    }
    (valid, best)
}

/// The outcome of the alternative that counts, with what is told of it. It is checked again only
/// for that: then each level of alternatives adds one round, and does not double them.
fn told(
    best: Option<(&Node, Outcome)>,
    value: &Value,
    old: Option<Old>,
    at: &Path,
    room: Room,
) -> Outcome {
    match best {
        Some((node, outcome)) if !outcome.is_valid && room.is_left() => {
            checked(node, value, old, at, room)
        }
        Some((_, outcome)) => Outcome { room, ..outcome },
        None => Outcome::within(room),
    }
}

fn check_text(checks: &Checks, text: &str, at: &Path, outcome: &mut Outcome) {
    let value = || Value::from(text);
    let chars = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(limit) = checks.max_length.filter(|limit| chars() > *limit) {
        outcome.tell(|| Violation::too_long(at, limit));
    } else if let Some(limit) = checks.min_length.filter(|limit| chars() < *limit) {
        let why = format!("should be at least {limit} chars long");
        outcome.tell(|| Violation::invalid(at, &value(), &why));
    } else if let Some(pattern) = checks.pattern.as_ref()
        && !pattern.matches(text)
    {
        let why = || format!("should match '{}'", pattern.text());
        outcome.tell(|| Violation::invalid(at, &value(), &why()));
    }
}

fn check_allowed(checks: Option<&Checks>, value: &Value, at: &Path, outcome: &mut Outcome) {
    let Some(checks) = checks.filter(|checks| !checks.allowed.is_empty()) else {
        return;
    };
    // A null is never allowed, not even if the list has one: Go does not compare it.
    let is_allowed = |one: &Value| !value.is_null() && (one == value || number::same(one, value));
    if !checks.allowed.iter().any(is_allowed) {
        outcome.tell(|| Violation::not_supported(at, value, &checks.allowed));
    }
}

fn check_items(node: &Node, items: &[Value], old: Option<Old>, at: &Path, room: Room) -> Outcome {
    let mut outcome = Outcome::within(room);
    if let Some(of_items) = &node.items {
        let old_items = old.and_then(Old::items);
        for (index, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|items| items.find(item));
            let at = at.index(index);
            outcome.merge(ratcheted(of_items, item, old, &at, outcome.room));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let Some(checks) = &node.checks else {
        return outcome;
    };
    if let Some(limit) = checks.min_items.filter(|limit| count < *limit) {
        let why = format!("should have at least {limit} items");
        outcome.tell(|| Violation::invalid(at, &items.len().into(), &why));
    }
    if let Some(limit) = checks.max_items.filter(|limit| count > *limit) {
        outcome.tell(|| Violation::too_many(at, items.len(), limit));
    }
    outcome
}

fn check_fields(
    node: &Node,
    fields: &Map<String, Value>,
    old: Option<Old>,
    at: &Path,
    room: Room,
) -> Outcome {
    let mut outcome = Outcome::within(room);
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    let checks = node.checks.as_deref();
    if let Some(limit) = checks.and_then(|it| it.min_properties.filter(|limit| count < *limit)) {
        let why = format!("should have at least {limit} properties");
        outcome.tell(|| Violation::invalid(at, &fields.len().into(), &why));
    }
    if let Some(limit) = checks.and_then(|it| it.max_properties.filter(|limit| count > *limit)) {
        outcome.tell(|| Violation::too_many(at, fields.len(), limit));
    }
    for (name, value) in fields {
        let is_property = node.properties.contains_key(name);
        if !is_property && matches!(node.additional, Additional::Denied) {
            outcome.tell(|| {
                let why = format!("{at}.{name} in body is a forbidden property");
                Violation::plain(at, &name.as_str().into(), why)
            });
        } else if let Some(of_field) = node.of_field(name) {
            // The type is that of the request on both sides, so a change does not show in it.
            let is_type = at.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !is_type).and_then(|old| old.field(name));
            let at = at.field(name);
            outcome.merge(ratcheted(of_field, value, old, &at, outcome.room));
        }
    }
    for name in checks.into_iter().flat_map(|checks| &checks.required) {
        if !fields.contains_key(name) {
            outcome.tell(|| Violation::required(&at.field(name)));
        }
    }
    outcome
}
