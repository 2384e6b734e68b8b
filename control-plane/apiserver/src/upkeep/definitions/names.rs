//! Which names a definition gets. Within a group no two kinds are called alike: plurals, singulars
//! and short names are one set of names, kinds and kinds of lists another.

use std::collections::HashMap;
use std::sync::Arc;

use machinery::object;
use serde_json::{Map, Value};

use crate::registry::definition::{Condition, NAMES_ACCEPTED};
use crate::registry::strategy::builtin;

/// The names that have been accepted, by the definition that has them.
pub(super) struct Taken {
    /// `status.acceptedNames`, by the name of the definition.
    accepted: HashMap<String, (String, Value)>,
}

/// The field with a name, and the reason of a conflict about it.
const RESOURCES: [(&str, &str); 2] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
];
const KINDS: [(&str, &str); 2] = [("kind", "KindConflict"), ("listKind", "ListKindConflict")];
const SHORT: &str = "shortNames";

impl Taken {
    pub(super) fn new(definitions: &[Arc<Value>]) -> Taken {
        let accepted = definitions.iter().map(|one| {
            let names = accepted_names(one).clone();
            let group = object::text(one, &["spec", "group"]).to_owned();
            (object::name(one).to_owned(), (group, names))
        });
        Taken {
            accepted: accepted.collect(),
        }
    }

    /// Gives a definition the names that are free, in its status; a name that is not keeps the one
    /// accepted before. Returns whether all were free; of several conflicts it tells the last.
    pub(super) fn accept(&mut self, definition: &mut Value) -> Condition {
        let group = object::text(definition, &["spec", "group"]).to_owned();
        let mut result = Condition {
            kind: NAMES_ACCEPTED,
            holds: true,
            reason: "NoConflicts",
            message: "no conflicts found".into(),
        };
        let spec = definition["spec"]["names"].clone();
        let asked = |key: &str| object::text(&spec, &[key]);
        let before = accepted_names(definition).clone();
        let mut names = before.as_object().cloned().unwrap_or_default();
        let mut refuse = |reason, wrong: Vec<String>| {
            result.holds = false;
            result.reason = reason;
            result.message = told(&wrong);
        };
        for (key, reason) in RESOURCES {
            let own = object::text(&before, &[key]);
            if asked(key) != own && self.has_resource(&group, asked(key)) {
                refuse(reason, vec![in_use(asked(key))]);
            } else {
                put(&mut names, key, asked(key).into());
            }
        }
        let own = object::items(&before, &[SHORT]);
        let short = object::items(&spec, &[SHORT]).iter();
        let fresh = short
            .filter(|name| !own.contains(name))
            .filter_map(Value::as_str);
        let wrong: Vec<String> = fresh
            .filter(|name| self.has_resource(&group, name))
            .map(in_use)
            .collect();
        if wrong.is_empty() {
            put(&mut names, SHORT, spec[SHORT].clone());
        } else {
            refuse("ShortNamesConflict", wrong);
        }
        for (key, reason) in KINDS {
            let own = object::text(&before, &[key]);
            if asked(key) != own && self.has_kind(&group, asked(key)) {
                refuse(reason, vec![in_use(asked(key))]);
            } else {
                put(&mut names, key, asked(key).into());
            }
        }
        put(&mut names, "categories", spec["categories"].clone());
        // Both are there even if none was accepted, as Go writes them.
        for key in ["plural", "kind"] {
            names.entry(key).or_insert_with(|| "".into());
        }
        let names = Value::from(names);
        let name = object::name(definition).to_owned();
        self.accepted.insert(name, (group, names.clone()));
        object::set(definition, &["status", "acceptedNames"], names);
        result
    }

    fn has_resource(&self, group: &str, name: &str) -> bool {
        let ours = || builtin().iter().filter(|one| one.kind.group() == group);
        let is_ours = ours().any(|one| {
            let kind = &one.kind;
            let mut short = kind.short_names().iter();
            kind.plural() == name || kind.singular() == name || short.any(|one| one == name)
        });
        is_ours
            || self.of(group).any(|names| {
                let is = |key| object::text(names, &[key]) == name;
                let short = object::items(names, &[SHORT]);
                is("plural") || is("singular") || short.iter().any(|one| one == name)
            })
    }

    fn has_kind(&self, group: &str, name: &str) -> bool {
        let mut ours = builtin().iter().filter(|one| one.kind.group() == group);
        ours.any(|one| one.kind.kind() == name || one.kind.list_kind() == name)
            || self.of(group).any(|names| {
                let is = |key| object::text(names, &[key]) == name;
                is("kind") || is("listKind")
            })
    }

    /// The names accepted in a group, those of the definition itself included: it may not be
    /// called the same in two ways either, unless it was before.
    fn of(&self, group: &str) -> impl Iterator<Item = &Value> {
        let all = self.accepted.values();
        all.filter(move |(of, _)| of == group)
            .map(|(_, names)| names)
    }
}

fn accepted_names(definition: &Value) -> &Value {
    &definition["status"]["acceptedNames"]
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

/// Several errors as Go joins them.
fn told(wrong: &[String]) -> String {
    match wrong {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// Sets a name; an empty one is left out.
fn put(names: &mut Map<String, Value>, key: &str, value: Value) {
    let is_empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if is_empty {
        names.remove(key);
    } else {
        names.insert(key.to_owned(), value);
    }
}
