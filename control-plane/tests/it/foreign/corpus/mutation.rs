//! A change of one field of an object.

use serde_json::{Value, json};

use super::draw;

/// Each further change of one field is this much less likely to be drawn, so that all fields are
/// changed once before one is changed twice.
const FURTHER: f64 = 0.3;
/// Fields of a template's pod are less likely to be drawn: pods have them, too.
const IN_TEMPLATE: f64 = 1.1;

/// A field's path in JSON and its new value; `None` removes it.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub(super) path: Vec<Step>,
    pub(super) value: Option<Value>,
    /// How many changes of the same field come before this one.
    pub(super) rank: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Mutation {
    /// A change at a path of keys, separated by spaces.
    pub(super) fn at(path: &str, value: Value) -> Mutation {
        Mutation {
            value: Some(value),
            ..Mutation::without(path)
        }
    }

    /// A removal at such a path.
    pub(super) fn without(path: &str) -> Mutation {
        let path = path.split(' ').map(|key| Step::Key(key.to_owned()));
        Mutation {
            path: path.collect(),
            value: None,
            rank: 0,
        }
    }

    pub(super) fn apply(&self, object: &mut Value) {
        let Some((last, parents)) = self.path.split_last() else {
            return;
        };
        let mut at = object;
        for step in parents {
            let next = match step {
                Step::Key(key) if at.is_object() || at.is_null() => Some(&mut at[key.as_str()]),
                Step::Index(index) => at.get_mut(*index),
                Step::Key(_) => None,
            };
            // The other change of a pair has removed what this one is in.
            let Some(next) = next else { return };
            at = next;
        }
        match (last, &self.value) {
            (Step::Key(key), Some(value)) if at.is_object() || at.is_null() => {
                at[key.as_str()] = value.clone();
            }
            (Step::Key(key), None) => drop(at.as_object_mut().map(|map| map.remove(key))),
            (Step::Index(index), Some(value)) => {
                if let Some(item) = at.get_mut(*index) {
                    *item = value.clone();
                }
            }
            _ => {}
        }
    }

    /// How it is written in golden files.
    pub(super) fn name(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={}", self.path(), draw::short(&value.to_string())),
            None => format!("-{}", self.path()),
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => path.push_str(&format!(".{key}")),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Those with the least are drawn.
    pub(super) fn score(&self, salt: &str) -> f64 {
        let path = self.path();
        let far = if path.contains("emplate.spec.") {
            IN_TEMPLATE
        } else {
            0.0
        };
        draw::fraction(&[salt, &self.name()]) + FURTHER * f64::from(self.rank) + far
    }

    /// The merge patch that makes the change, if one can: it does not reach into lists.
    pub(super) fn merge_patch(&self) -> Option<Value> {
        let mut patch = self.value.clone().unwrap_or_default();
        for step in self.path.iter().rev() {
            let Step::Key(key) = step else {
                return None;
            };
            patch = json!({key: patch});
        }
        Some(patch)
    }

    /// The JSON patch that makes the change.
    pub(super) fn json_patch(&self) -> Value {
        let mut pointer = String::new();
        for step in &self.path {
            let step = match step {
                Step::Key(key) => key.replace('~', "~0").replace('/', "~1"),
                Step::Index(index) => index.to_string(),
            };
            pointer.push('/');
            pointer.push_str(&step);
        }
        match &self.value {
            Some(value) => json!([{"op": "add", "path": pointer, "value": value}]),
            None => json!([{"op": "remove", "path": pointer}]),
        }
    }
}
