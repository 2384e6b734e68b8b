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

    /// The field is at another path than it is called by.
    fn at(self, path: &'static str) -> Field {
        let path = path.split('.').map(Cow::Borrowed).collect();
        Field { path, ..self }
    }

    /// The field is here if it is not there.
    fn or(self, path: &'static str) -> Field {
        let or = path.split('.').map(Cow::Borrowed).collect();
        Field { or, ..self }
    }

    /// What the field is if an object does not have it.
    fn missing(self, missing: &'static str) -> Field {
        Field { missing, ..self }
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

/// The selectable fields of a built-in resource.
pub(crate) fn of(group: &str, plural: &str) -> Selectable {
    let labels = labels(group, plural).iter();
    labels.map(|label| builtin(label)).collect()
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

fn builtin(label: &'static str) -> Field {
    let field = Field::new(label);
    match label {
        // Newer senders of events say who they are in another field.
        "source" => field.at("source.component").or("reportingComponent"),
        "status.podIPs" => field.at("status.podIP"),
        "status.successful" => field.at("status.succeeded").missing("0"),
        "status.replicas" => field.missing("0"),
        "spec.unschedulable" | "spec.hostNetwork" => field.missing("false"),
        _ => field,
    }
}

fn labels(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}
