//! Fields that selectors may name, besides name and namespace.

use std::borrow::Cow;
use std::sync::Arc;

use machinery::object;
use serde_json::Value;

/// The selectable fields of a resource.
pub(crate) type Selectable = Arc<[Field]>;

/// A field that selectors may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// What selectors call it, such as `status.phase`.
    pub(crate) label: Cow<'static, str>,
    /// Where it is in an object.
    path: Vec<Cow<'static, str>>,
    /// Where it is if it is not there.
    or: Vec<Cow<'static, str>>,
    /// What it is if it is nowhere.
    missing: &'static str,
}

/// A selectable field of a built-in resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    label: &'static str,
    path: &'static str,
    or: &'static str,
    missing: &'static str,
}

/// A field at the path that it is called by.
pub(crate) const fn field(label: &'static str) -> Row {
    Row {
        label,
        path: label,
        or: "",
        missing: "",
    }
}

impl Row {
    /// The field is at another path than it is called by.
    pub(crate) const fn at(self, path: &'static str) -> Row {
        Row { path, ..self }
    }

    /// The field is here if it is not there.
    pub(crate) const fn or(self, or: &'static str) -> Row {
        Row { or, ..self }
    }

    /// What the field is if an object does not have it.
    pub(crate) const fn missing(self, missing: &'static str) -> Row {
        Row { missing, ..self }
    }
}

impl From<&Row> for Field {
    fn from(row: &Row) -> Field {
        let keys = |path: &'static str| {
            let keys = path.split('.').filter(|key| !key.is_empty());
            keys.map(Cow::Borrowed).collect()
        };
        Field {
            label: row.label.into(),
            path: keys(row.path),
            or: keys(row.or),
            missing: row.missing,
        }
    }
}

impl Field {
    /// A field at the path that it is called by.
    pub(crate) fn new(label: impl Into<Cow<'static, str>>) -> Field {
        let label = label.into();
        Field {
            path: label.split('.').map(|key| key.to_owned().into()).collect(),
            or: Vec::new(),
            missing: "",
            label,
        }
    }

    /// The paths that its text depends on.
    pub(crate) fn paths(&self) -> impl Iterator<Item = Vec<&str>> {
        let all = [&self.path, &self.or].into_iter();
        all.filter(|path| !path.is_empty())
            .map(|path| path.iter().map(AsRef::as_ref).collect())
    }

    /// Its text in an object whose values `value` finds.
    pub(crate) fn text(
        &self,
        mut value: impl FnMut(&[&str]) -> Option<Value>,
    ) -> Cow<'static, str> {
        let mut found = self.paths().filter_map(|path| plain(value(&path)?));
        found.next().unwrap_or(self.missing.into())
    }
}

/// The field that selectors call so.
pub(crate) fn named<'a>(all: &'a Selectable, label: &str) -> Option<&'a Field> {
    all.iter().find(|field| field.label == label)
}

/// The text of a field in an object whose values `value` finds, `metadata.name` and
/// `metadata.namespace` included; empty for a field that selectors may not name.
pub(crate) fn text(
    all: &Selectable,
    label: &str,
    mut value: impl FnMut(&[&str]) -> Option<Value>,
) -> Cow<'static, str> {
    match label {
        "metadata.name" => value(&["metadata", "name"]).and_then(plain),
        "metadata.namespace" => value(&["metadata", "namespace"]).and_then(plain),
        label => named(all, label).map(|field| field.text(value)),
    }
    .unwrap_or_default()
}

/// A value that a selector can be compared with.
pub(crate) fn is_plain(value: &Value) -> bool {
    !(value.is_object() || value.is_array())
}

/// The part of an object that the text of these fields depends on, with name and namespace.
pub(crate) fn head(all: &Selectable, object: &Value) -> Value {
    let mut head = Value::default();
    for key in ["name", "namespace", "labels"] {
        if let Some(value) = object::at(object, &["metadata", key]) {
            object::set(&mut head, &["metadata", key], value.clone());
        }
    }
    for path in all.iter().flat_map(Field::paths) {
        if let Some(value) = object::at(object, &path).filter(|value| is_plain(value)) {
            object::set(&mut head, &path, value.clone());
        }
    }
    head
}

fn plain(value: Value) -> Option<Cow<'static, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    }
}
