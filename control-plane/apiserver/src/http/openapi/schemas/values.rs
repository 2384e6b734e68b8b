//! What schemas say of single values: their types, defaults, and how they merge.

use machinery::schema::{Field, ListType, Type};
use serde_json::{Map, Value, json};

const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
pub(in crate::http::openapi) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
pub(in crate::http::openapi) const INT_OR_STRING: &str =
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const SCHEMA_OR_ARRAY: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const SCHEMA_OR_BOOL: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const SCHEMA_OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";
/// Maps that are said to be what maps are anyway. No other fields have these names.
const GRANULAR: [&str; 2] = ["allocatedResourceStatuses", "claimRef"];

/// What a property says besides its type.
pub(super) fn extensions(field: &Field) -> Map<String, Value> {
    let mut extensions = Map::new();
    let strategies = [
        (field.patch.merge, "merge"),
        (field.patch.replace, "replace"),
        (field.patch.retain_keys, "retainKeys"),
    ];
    let strategies = strategies.iter().filter(|(is_set, _)| *is_set);
    let strategies: Vec<&str> = strategies.map(|(_, strategy)| *strategy).collect();
    if !strategies.is_empty() {
        let strategy = strategies.join(",");
        extensions.insert("x-kubernetes-patch-strategy".into(), strategy.into());
    }
    if !field.patch.merge_key.is_empty() {
        extensions.insert(
            "x-kubernetes-patch-merge-key".into(),
            field.patch.merge_key.into(),
        );
    }
    let list = match field.list {
        ListType::Unset => None,
        ListType::Atomic => Some("atomic"),
        ListType::Set => Some("set"),
        ListType::Map => Some("map"),
    };
    if let Some(list) = list {
        let key = match field.kind {
            Type::List(_) | Type::Bytes => "x-kubernetes-list-type",
            _ => "x-kubernetes-map-type",
        };
        extensions.insert(key.into(), list.into());
    }
    if !field.list_keys.is_empty() {
        extensions.insert("x-kubernetes-list-map-keys".into(), json!(field.list_keys));
    }
    if let Some(default) = field.default.clone().or_else(|| zero(field)) {
        extensions.insert("default".into(), default);
    }
    if GRANULAR.contains(&field.name) {
        extensions.insert("x-kubernetes-map-type".into(), "granular".into());
    }
    extensions
}

pub(super) fn name_of_scalar(kind: &Type) -> Option<&'static str> {
    Some(match kind {
        Type::Time => TIME,
        Type::MicroTime => MICRO_TIME,
        Type::Quantity => QUANTITY,
        Type::IntOrString => INT_OR_STRING,
        Type::Raw => RAW,
        Type::Fields => FIELDS,
        Type::Json => JSON,
        Type::SchemaOrArray => SCHEMA_OR_ARRAY,
        Type::SchemaOrBool => SCHEMA_OR_BOOL,
        Type::SchemaOrStrings => SCHEMA_OR_STRINGS,
        _ => return None,
    })
}

/// A reference with anything beside it is written as one of one.
pub(in crate::http::openapi) fn wrapped(mut schema: Value) -> Value {
    match schema.as_object_mut() {
        Some(fields) if fields.len() > 1 => {
            if let Some(reference) = fields.remove("$ref") {
                fields.insert("allOf".into(), json!([{ "$ref": reference }]));
            }
            schema
        }
        _ => schema,
    }
}

/// The value of a field that is not given, where its type has such a value.
fn zero(field: &Field) -> Option<Value> {
    match &field.kind {
        _ if field.pointer => None,
        Type::Message(id) if !id.get().list => Some(json!({})),
        _ if field.omit_empty => None,
        kind => zero_of(kind),
    }
}

pub(super) fn zero_of(kind: &Type) -> Option<Value> {
    match kind {
        Type::String(_) => Some(json!("")),
        Type::Bool => Some(json!(false)),
        Type::Int32 | Type::Int64 | Type::Float64 => Some(json!(0)),
        Type::Message(id) if !id.get().list => Some(json!({})),
        _ => None,
    }
}

/// The schema of a type with a name that is no message: a scalar, which `kubectl explain` shows as its
/// type, or what may have any fields or any type.
pub(super) fn scalar(kind: &Type) -> Option<(&'static str, Value)> {
    let name = name_of_scalar(kind)?;
    let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
    let schema = match kind {
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Quantity => json!({"oneOf": [text, number]}),
        Type::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, text]})
        }
        Type::Raw | Type::Fields => json!({"type": "object"}),
        _ => json!({}),
    };
    Some((name, schema))
}
