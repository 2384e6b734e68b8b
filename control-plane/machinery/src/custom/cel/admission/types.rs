//! The types of the variables of admission.
//!
//! They are the checker's alone: values are read without a schema, so an absent field is an error
//! of the evaluation.

use std::sync::Arc;

use crate::custom::cel::types::Type;
use crate::custom::cel::types::shape::Shape;

/// `request`: what is asked, without the objects.
pub(super) fn request() -> Shape {
    let kind = record(
        "kubernetes.GroupVersionKind",
        [("group", text()), ("version", text()), ("kind", text())],
    );
    let resource = record(
        "kubernetes.GroupVersionResource",
        [("group", text()), ("version", text()), ("resource", text())],
    );
    let texts = || list(text());
    let user = record(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", map(texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", Arc::clone(&kind)),
            ("resource", Arc::clone(&resource)),
            ("subResource", text()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Arc::new(Shape::boolean())),
            ("options", Arc::new(Shape::any())),
        ],
    )
}

/// `namespaceObject`: the namespace of the object.
pub(super) fn namespace() -> Shape {
    let time = || Arc::new(Shape::string("date-time", None, &[]));
    let whole = || Arc::new(Shape::integer());
    let metadata = record(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", whole()),
            ("deletionTimestamp", time()),
            ("generation", whole()),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    let spec = record("kubernetes.NamespaceSpec", [("finalizers", list(text()))]);
    let condition = record(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = record(
        "kubernetes.NamespaceStatus",
        [("conditions", list(condition)), ("phase", text())],
    );
    object(
        "kubernetes.Namespace",
        [("metadata", metadata), ("spec", spec), ("status", status)],
    )
}

/// The most levels of the type of a variable: each variable can add to those before it.
const DEPTH_MAX: usize = 32;

/// The type that other expressions see of a variable with this one.
pub(super) fn declared(found: &Type) -> Type {
    declared_within(found, DEPTH_MAX)
}

fn declared_within(found: &Type, levels: usize) -> Type {
    let Some(levels) = levels.checked_sub(1) else {
        return Type::Dyn;
    };
    let declared = |inner: &Type| declared_within(inner, levels);
    match found {
        Type::List(item) => Type::list(declared(item)),
        Type::Map(key, value) => Type::map(declared(key), declared(value)),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => found.clone(),
        _ => Type::Dyn,
    }
}

/// The name of a type in errors about results.
pub(in crate::custom::cel) fn name(found: &Type) -> String {
    match found {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(item) => format!("list({})", name(item)),
        Type::Map(key, value) => format!("map({}, {})", name(key), name(value)),
        Type::Optional(inner) => format!("optional_type({})", name(inner)),
        Type::Meta(inner) => format!("type({})", name(inner)),
        other => other.to_string(),
    }
}

pub(in crate::custom::cel) fn object<const N: usize>(
    name: &str,
    fields: [(&str, Arc<Shape>); N],
) -> Shape {
    let fields = fields.map(|(name, shape)| (name.to_owned(), shape));
    Shape::object(name, fields.into(), &|_| false)
}

pub(in crate::custom::cel) fn record<const N: usize>(
    name: &str,
    fields: [(&str, Arc<Shape>); N],
) -> Arc<Shape> {
    Arc::new(object(name, fields))
}

pub(in crate::custom::cel) fn list(items: Arc<Shape>) -> Arc<Shape> {
    Arc::new(Shape::list(
        items,
        crate::custom::cel::Identity::Atomic,
        None,
    ))
}

pub(in crate::custom::cel) fn map(values: Arc<Shape>) -> Arc<Shape> {
    Arc::new(Shape::map(values, None))
}

pub(in crate::custom::cel) fn text() -> Arc<Shape> {
    Arc::new(Shape::string("", None, &[]))
}
