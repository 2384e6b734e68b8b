//! Changes an object until the apiserver accepts it: the schema alone does not say what rules in
//! CEL and between fields demand.

use std::collections::BTreeSet;

use serde_json::Value;

use super::account::{Account, digest};
use super::sample::Extent;
use crate::requests::http::Answer;

/// Upper bound of the requests for one object.
const ATTEMPTS: usize = 150;

/// Why an object was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    field: String,
    reason: String,
    message: String,
}

impl Cause {
    /// The causes of a response, sorted: Kubernetes goes through maps in random order.
    pub(super) fn of(answer: &Answer) -> Vec<Cause> {
        if answer.code < 300 {
            return Vec::new();
        }
        let status = answer.object();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut causes: Vec<Cause> = { status["details"]["causes"].as_array() }
            .into_iter()
            .flatten()
            .map(|cause| Cause {
                field: text(&cause["field"]),
                reason: text(&cause["reason"]),
                message: text(&cause["message"]),
            })
            .collect();
        if causes.is_empty() {
            causes.push(Cause {
                field: String::new(),
                reason: text(&status["reason"]),
                message: text(&status["message"]),
            });
        }
        causes.iter_mut().for_each(Cause::settle);
        causes.sort();
        causes
    }

    /// Removes what Kubernetes reports in random order.
    fn settle(&mut self) {
        // Of several errors in embedded objects it reports the one that it finds first.
        if let Some((before, _)) = self.message.split_once(" cannot be handled as a ") {
            self.message = format!("{before} cannot be handled ...");
        }
        if let Some((before, errors)) = self.message.split_once(" errors:\n") {
            let mut errors: Vec<&str> = errors.lines().map(str::trim).collect();
            errors.sort_unstable();
            self.message = format!("{before} errors: {}", errors.join("; "));
        }
    }

    pub(super) fn text(&self) -> String {
        format!("{} {}: {}", self.field, self.reason, self.message)
    }

    fn is_beside(&self, other: &Cause) -> bool {
        self.field == other.field && self.reason == other.reason
    }
}

/// Sends an object in several forms, until one is accepted.
pub(super) struct Fitting<'a> {
    pub(super) schema: &'a Value,
    pub(super) extent: Extent,
    pub(super) send: &'a dyn Fn(&Value) -> Answer,
}

impl Fitting<'_> {
    /// The form that is accepted. What was refused first is in the account in full; the later
    /// attempts are there as a digest.
    pub(super) fn fitted(&self, mut object: Value, account: &mut Account) -> Option<Value> {
        let mut causes = Cause::of(&(self.send)(&object));
        for cause in &causes {
            account.line(&format!("  {}", cause.text()));
        }
        let mut seen = BTreeSet::from([object.to_string()]);
        let mut told = String::new();
        while !causes.is_empty() {
            let forms = causes.iter().flat_map(|cause| {
                let forms = self.forms(&object, cause).into_iter();
                forms.map(move |form| (cause, form))
            });
            let mut found = None;
            for (cause, form) in forms {
                if seen.len() >= ATTEMPTS || !seen.insert(form.to_string()) {
                    continue;
                }
                let after = Cause::of(&(self.send)(&form));
                let texts: Vec<String> = after.iter().map(Cause::text).collect();
                let texts = format!("attempt {}:\n    {}", seen.len(), texts.join("\n    "));
                account.whole(&texts);
                told += &texts;
                let count = |causes: &[Cause]| {
                    let same = causes.iter().filter(|other| other.is_beside(cause));
                    same.count()
                };
                if count(&after) < count(&causes) {
                    found = Some((form, after));
                    break;
                }
            }
            let Some(next) = found else {
                account.line(&format!("  unfit after {}: {}", seen.len(), digest(&told)));
                return None;
            };
            (object, causes) = next;
        }
        if seen.len() > 1 {
            account.line(&format!("  fits after {}: {}", seen.len(), digest(&told)));
        }
        Some(object)
    }

    /// Forms of an object that may not have a cause any more; the smallest changes are first.
    fn forms(&self, object: &Value, cause: &Cause) -> Vec<Value> {
        let path = segments(&cause.field);
        let known = (0..=path.len()).rev();
        let known = known.filter(|len| at(object, &path[..*len]).is_some());
        let depth = known.into_iter().next().unwrap_or_default();
        let node = &path[..depth];
        let mut forms = Vec::new();
        let mut without = object.clone();
        if depth == path.len() {
            for child in self.optional(object, node).into_iter().rev() {
                let child = [node, &[child]].concat();
                forms.push(removed(object, &child));
                without = removed(&without, &child);
            }
        }
        forms.extend(self.additions(object, node));
        for len in (1..=depth).rev() {
            let (parent, name) = (&path[..len - 1], &path[len - 1]);
            if self.optional(object, parent).contains(name) {
                forms.push(removed(object, &path[..len]));
                break;
            }
        }
        forms.push(without);
        for len in (1..depth).rev() {
            let (parent, name) = (&path[..len - 1], &path[len - 1]);
            if self.optional(object, parent).contains(name) {
                forms.push(removed(object, &path[..len]));
            }
        }
        forms
    }

    /// The children of a node that its schema does not require.
    fn optional(&self, object: &Value, path: &[String]) -> Vec<String> {
        let schema = self.schema_at(path);
        match at(object, path) {
            Some(Value::Object(map)) => {
                let required = schema.and_then(|schema| schema["required"].as_array());
                let fixed = |name: &&String| {
                    let required = required.into_iter().flatten();
                    let basic = path.is_empty()
                        && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
                    basic || required.into_iter().any(|one| one == name.as_str())
                };
                let names = map.keys().filter(|name| !fixed(name));
                names.cloned().collect()
            }
            Some(Value::Array(list)) => (0..list.len()).map(|at| at.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    /// The object with one more field in a node.
    fn additions(&self, object: &Value, path: &[String]) -> Vec<Value> {
        let properties = self.schema_at(path).map(|schema| &schema["properties"]);
        let Some(Value::Object(node)) = at(object, path) else {
            return Vec::new();
        };
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let absent = properties.filter(|(name, _)| !node.contains_key(*name));
        let added = absent.map(|(name, schema)| {
            let mut more = object.clone();
            let pointer = pointer(path);
            let node = more.pointer_mut(&pointer).expect("the node is there");
            node[name] = self.extent.value(schema, path.len(), 0);
            more
        });
        added.collect()
    }

    fn schema_at(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(self.schema, |schema, name| {
            let parts = [
                schema["properties"].get(name),
                schema.get("items"),
                schema.get("additionalProperties"),
            ];
            parts.into_iter().flatten().next()
        })
    }
}

fn pointer(path: &[String]) -> String {
    let parts = path.iter();
    let parts = parts.map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")));
    parts.collect()
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    object.pointer(&pointer(path))
}

fn removed(object: &Value, path: &[String]) -> Value {
    let mut object = object.clone();
    let Some((name, parent)) = path.split_last() else {
        return object;
    };
    match object.pointer_mut(&pointer(parent)) {
        Some(Value::Object(map)) => {
            map.remove(name);
        }
        Some(Value::Array(list)) => {
            if let Ok(at) = name.parse::<usize>()
                && at < list.len()
            {
                list.remove(at);
            }
        }
        _ => {}
    }
    object
}

/// The parts of a field's path as errors name it: `spec.list[0].map[key]`.
fn segments(field: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut in_key = false;
    for c in field.chars() {
        match c {
            '.' if !in_key => parts.push(std::mem::take(&mut part)),
            '[' if !in_key => {
                in_key = true;
                parts.push(std::mem::take(&mut part));
            }
            ']' if in_key => {
                in_key = false;
                parts.push(std::mem::take(&mut part));
            }
            c => part.push(c),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty() && part != "<nil>");
    parts
}

#[test]
fn paths_of_errors_are_split() {
    let parts = segments("spec.rules[0].labels[a.b/c].d");
    assert_eq!(parts, ["spec", "rules", "0", "labels", "a.b/c", "d"]);
    assert!(segments("<nil>").is_empty());
}
