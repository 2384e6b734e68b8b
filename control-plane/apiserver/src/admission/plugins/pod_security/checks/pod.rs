//! A pod as the checks see it, and the words in which they report its parts.

use machinery::object;
use serde_json::{Map, Value};

use super::{Run, Violation};

/// A pod, or the template of pods.
#[derive(Clone, Copy)]
pub(in super::super) struct Pod<'a> {
    metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// The pod in a value with `metadata` and `spec`.
    pub(in super::super) fn of(value: &'a Value) -> Pod<'a> {
        Pod {
            metadata: value.get("metadata").unwrap_or(&Value::Null),
            spec: value.get("spec").unwrap_or(&Value::Null),
        }
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let all = self.metadata.get("annotations").and_then(Value::as_object);
        let all = all.into_iter().flatten();
        all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    /// All containers: first those that initialize the pod, last those for debugging.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists
            .into_iter()
            .flat_map(|list| object::items(spec, &[list]))
    }

    /// The names of the containers that a check finds wrong.
    pub(super) fn containers_where(
        &self,
        mut wrong: impl FnMut(&'a Value) -> bool,
    ) -> Vec<&'a str> {
        self.containers()
            .filter(|container| wrong(container))
            .map(name)
            .collect()
    }

    /// Who sets something in a security context that a check finds wrong: the pod, or containers.
    pub(super) fn setters_where(&self, mut wrong: impl FnMut(&'a Value) -> bool) -> Vec<String> {
        let mut setters = Vec::new();
        if context(self.spec).is_some_and(&mut wrong) {
            setters.push("pod".to_owned());
        }
        let containers = self.containers_where(|one| context(one).is_some_and(&mut wrong));
        if !containers.is_empty() {
            setters.push(containers_named(&containers));
        }
        setters
    }

    /// Runs a check, unless the pod says that it is for Windows, where the fields mean nothing.
    pub(super) fn unless_windows(&self, check: Run) -> Option<Violation> {
        if object::text(self.spec, &["os", "name"]) == "windows" {
            None
        } else {
            check(self)
        }
    }

    /// Runs a check, unless the users of the pod are not those of the host.
    pub(super) fn unless_user_namespace(&self, check: Run) -> Option<Violation> {
        if self.spec.get("hostUsers") == Some(&Value::Bool(false)) {
            None
        } else {
            check(self)
        }
    }
}

/// The security context of a pod's spec or of a container.
pub(super) fn context(of: &Value) -> Option<&Value> {
    present(of, "securityContext")
}

/// The value at a key; `None` if it is null.
pub(super) fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// True if the flag at a key is set to true.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}

/// The name of a container or a volume.
pub(super) fn name(value: &Value) -> &str {
    object::text(value, &["name"])
}

/// The first key of a map that has a value, of those given.
pub(super) fn first_key<'a>(value: &Value, keys: &[&'a str]) -> Option<&'a str> {
    let map: &Map<String, Value> = value.as_object()?;
    let has = |key: &&&str| map.get(**key).is_some_and(|value| !value.is_null());
    keys.iter().find(has).copied()
}

/// Such as `containers "a", "b"`.
pub(super) fn containers_named(names: &[&str]) -> String {
    let what = plural(names.len(), "container", "containers");
    format!("{what} {}", quoted(names))
}

/// Texts in quotes, with commas between them.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts = texts
        .into_iter()
        .map(|text| format!("\"{}\"", text.as_ref()));
    texts.collect::<Vec<_>>().join(", ")
}

/// The word for one, or for any other number.
pub(super) fn plural(count: usize, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}
