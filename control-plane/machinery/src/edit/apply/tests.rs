//! Compared with what Kubernetes' own code makes of random writes: `testdata/apply.jsonl`, and any
//! larger file that `STELE_APPLY_CASES` names.

mod bounds;
mod scale;
mod versions;

use std::fs;

use serde_json::{Map as Object, Value, json};

use super::*;
use crate::{object, object::defaults, schema, strict};

/// The time of each write.
const NOW: &str = "2026-01-01T00:00:00Z";
/// The time that the file has for all writes, once they are over.
const BEFORE: &str = "2001-09-09T01:46:40Z";

/// The kinds of the golden file: those of the table, and one custom resource.
struct Kinds {
    api_version: String,
    kind: String,
    custom: Option<Custom>,
}

impl Kinds {
    fn new(api_version: &str, kind: &str) -> Kinds {
        let custom = (kind == "Thing").then(|| Custom::of_object(&thing()));
        Kinds {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            custom,
        }
    }

    fn message(&self) -> &'static schema::Message {
        let (group, version) = schema::split_api_version(&self.api_version);
        schema::kind(group, version, &self.kind).unwrap().message()
    }

    /// Decodes an object as a body, with defaults.
    fn decode(&self, object: &Value) -> Value {
        if self.custom.is_some() {
            return object.clone();
        }
        let mut decoded = strict::prune(object, self.message()).unwrap().object;
        let (group, _) = schema::split_api_version(&self.api_version);
        defaults::apply(group, &self.kind, &mut decoded);
        object::set_type(&mut decoded, &self.api_version, &self.kind);
        decoded
    }
}

impl Versions for Kinds {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        if api_version != self.api_version {
            return None;
        }
        Some(match &self.custom {
            Some(custom) => custom,
            None => self.message(),
        })
    }

    fn empty(&self) -> Value {
        let mut empty = match self.custom {
            Some(_) => json!({}),
            None => strict::prune(&json!({}), self.message()).unwrap().object,
        };
        object::set_type(&mut empty, &self.api_version, &self.kind);
        empty
    }

    fn convert(&self, _object: &Value, _api_version: &str) -> Result<Value, Unconverted> {
        Err(Unconverted::Unknown)
    }
}

/// The schema of the custom resource, as the oracle has it.
fn thing() -> Value {
    let source = include_str!("../../../generate/apply.go");
    let begin = source.find("`{\"apiVersion\":\"apiextensions").unwrap() + 1;
    let end = begin + source[begin..].find('`').unwrap();
    let definition: Value = serde_json::from_str(&source[begin..end]).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// A value without nulls: Go's types do not distinguish them from missing fields.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Object(fields.collect::<Object<_, _>>())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
}

/// The places where two values differ.
fn differing(ours: &Value, theirs: &Value, at: &str) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let each = |key: &String| {
                let of = |one: &Object<String, Value>| one.get(key).cloned().unwrap_or_default();
                differing(&of(a), &of(b), &format!("{at}/{key}"))
            };
            keys.into_iter().flat_map(each).collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .flat_map(|(index, (a, b))| differing(a, b, &format!("{at}/{index}")))
                .collect()
        }
        (a, b) if a == b => Vec::new(),
        (a, b) => vec![format!("{at}: ours {a}, theirs {b}")],
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs one write; returns the object after it.
fn run(kinds: &Kinds, live: Option<&Value>, line: &Value) -> Result<Value, Error> {
    let reset = Reset::of(&[&["status"]]);
    let write = Write {
        versions: kinds,
        api_version: &kinds.api_version,
        subresource: "",
        reset: &reset,
        manager: line["manager"].as_str().unwrap(),
        now: NOW,
    };
    let empty = kinds.empty();
    let live = live.unwrap_or(&empty);
    let mut new = match line.get("update") {
        Some(update) => {
            let mut new = kinds.decode(update);
            write.update(live, &mut new)?;
            new
        }
        None => {
            let force = line["force"] == true;
            let applied = write.apply(live, &line["apply"], force)?;
            kinds.decode(&applied)
        }
    };
    finish(&mut new);
    Ok(new)
}

/// Gives an object what the oracle gives it after each write.
fn finish(object: &mut Value) {
    object::set(object, &["metadata", "uid"], "u".into());
    let managers = object.pointer_mut("/metadata/managedFields");
    for entry in managers.and_then(Value::as_array_mut).into_iter().flatten() {
        if entry["time"] == NOW {
            entry["time"] = BEFORE.into();
        }
    }
}

/// How the result of a write differs from Kubernetes'; `None` if it does not.
fn compared(ours: &Result<Value, Error>, line: &Value) -> Option<String> {
    match (ours, line["error"].as_str()) {
        (Ok(ours), None) => {
            let (ours, theirs) = (without_nulls(ours), without_nulls(&line["result"]));
            let differing = differing(&ours, &theirs, "");
            (!differing.is_empty()).then(|| differing.join("\n"))
        }
        (Err(error), Some(theirs)) => {
            let ours = error.to_string();
            // Nobody sees why an update has no managers.
            let is_told = line.get("apply").is_some();
            (is_told && sorted(&ours) != sorted(theirs))
                .then(|| format!("ours   {ours}\ntheirs {theirs}"))
        }
        (ours, theirs) => Some(format!("ours   {ours:?}\ntheirs {theirs:?}")),
    }
}

/// Compares every write of a file; returns how many there are.
fn compare_all(text: &str) -> usize {
    let mut sequence = Value::Null;
    let mut live: Option<Value> = None;
    let mut differences = Vec::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let kinds = Kinds::new(
            line["apiVersion"].as_str().unwrap(),
            line["kind"].as_str().unwrap(),
        );
        if line["sequence"] != sequence {
            sequence = line["sequence"].clone();
            live = None;
        }
        count += 1;
        let ours = run(&kinds, live.as_ref(), &line);
        let difference = compared(&ours, &line);
        if let Some(difference) = difference {
            let write = line.get("update").unwrap_or(&line["apply"]);
            differences.push(format!(
                "line {}: {} {write}\nlive   {}\n{difference}",
                number + 1,
                line["manager"],
                live.as_ref().unwrap_or(&Value::Null),
            ));
        }
        if let Some(result) = line.get("result") {
            live = Some(match kinds.custom {
                Some(_) => result.clone(),
                None => kinds.decode(result),
            });
        }
    }
    none_differ(&differences, count)
}

/// Fails with the first differences, or if nothing was compared; returns the count of what was.
fn none_differ(differences: &[String], count: usize) -> usize {
    assert!(count > 0, "there are no cases");
    let shown: Vec<&String> = differences.iter().take(3).collect();
    assert!(
        differences.is_empty(),
        "{} of {count} differ: {shown:#?}",
        differences.len()
    );
    count
}

#[test]
fn writes_end_as_in_kubernetes() {
    let count = compare_all(include_str!("../../../testdata/apply.jsonl"));
    assert!(count > 100);
}

#[test]
fn more_writes_end_as_in_kubernetes() {
    if let Ok(file) = std::env::var("STELE_APPLY_CASES") {
        println!("{} cases", compare_all(&fs::read_to_string(file).unwrap()));
    }
}

/// A generator that fails leaves an empty file.
#[test]
#[should_panic(expected = "there are no cases")]
fn an_empty_file_shows_nothing() {
    compare_all("");
}

/// Kubernetes looks no further in a map: it never names two of its fields.
#[test]
fn one_undeclared_field_of_a_map_is_named() {
    let message = schema::kind("apps", "v1", "Deployment").unwrap().message();
    let object = json!({"more": 1, "other": 2, "spec": {"more": 1, "other": 2, "replicas": true}});
    let misfits = check::check(message, &object, false).unwrap_err();
    assert_eq!(misfits.to_string(), ".more: field not declared in schema");
    let object = json!({"spec": {"more": 1, "other": 2, "paused": "no"}, "status": {"more": 1}});
    let misfits = check::check(message, &object, false).unwrap_err();
    let named: Vec<&str> = misfits.told.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(named, [".spec.more", ".status.more"]);
}
