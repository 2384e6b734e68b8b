//! Schemas as OpenAPI documents show them: v3 as the author wrote them, v2 without what it, or
//! kubectl's reader of it, cannot express.

use serde_json::{Map, Value, json};

use crate::custom::structural::Schema;

/// Where OpenAPI documents have the schema of an object's metadata.
const METADATA_REF: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// Keywords that OpenAPI v2 has no place for.
const ONLY_V3: [&str; 8] = [
    "$schema",
    "allOf",
    "anyOf",
    "example",
    "externalDocs",
    "id",
    "not",
    "oneOf",
];

/// What a document says of the fields that every object has.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommonTexts<'a> {
    /// Of `apiVersion`.
    pub api_version: &'a str,
    /// Of `kind`.
    pub kind: &'a str,
    /// Of `metadata`.
    pub metadata: &'a str,
}

impl Schema {
    /// The schema of the whole object for an OpenAPI v3 document: with its type and metadata, and
    /// with all descriptions.
    pub fn openapi(&self, texts: CommonTexts<'_>) -> Value {
        let mut document = self.document.clone();
        show_embedded(&mut document, texts, true, |_| true);
        document
    }

    /// The same for an OpenAPI v2 document, with references as in v3. It says nothing about an
    /// object that may have any fields: kubectl would refuse those that it does not name.
    pub fn openapi_v2(&self, texts: CommonTexts<'_>) -> Value {
        if is_set(&self.document, PRESERVE) {
            return json!({"type": "object"});
        }
        let mut document = self.document.clone();
        reduce(&mut document);
        show_embedded(&mut document, texts, true, |schema| {
            !is_set(schema, PRESERVE)
        });
        document
    }
}

/// Removes what OpenAPI v2 cannot say from a schema and those in it.
fn reduce(schema: &mut Value) {
    let (nullable, open) = (is_set(schema, "nullable"), is_set(schema, PRESERVE));
    let Value::Object(fields) = schema else {
        return;
    };
    for keyword in ONLY_V3 {
        fields.remove(keyword);
    }
    fields.remove("nullable");
    // A value that may be null has no type, and kubectl takes no fields or items without one.
    if nullable || open {
        fields.remove("properties");
        fields.remove("items");
    }
    let kind = fields.get("type").and_then(Value::as_str);
    let goes = match kind {
        Some("array") => !fields.contains_key("items"),
        Some("object") => open,
        _ => false,
    };
    if nullable || goes {
        fields.remove("type");
    }
    require_less(fields);
    for_each_inner(fields, reduce);
}

/// Takes the fields that may be null from those that are required.
fn require_less(fields: &mut Map<String, Value>) {
    let nullable = |inner: Option<&Value>| inner.is_some_and(|inner| is_set(inner, "nullable"));
    let Some(Value::Array(mut required)) = fields.remove("required") else {
        return;
    };
    let properties = fields.get("properties");
    required.retain(|name| {
        let property = properties.and_then(|all| all.get(name.as_str()?));
        !nullable(property)
    });
    if !required.is_empty() && !nullable(fields.get("additionalProperties")) {
        fields.insert("required".into(), required.into());
    }
}

/// Adds the fields that every object has to the schemas of whole objects, where it is wanted.
fn show_embedded(
    schema: &mut Value,
    texts: CommonTexts<'_>,
    is_root: bool,
    wanted: fn(&Value) -> bool,
) {
    let shown = is_root || is_set(schema, EMBEDDED) && wanted(schema);
    let Value::Object(schema) = schema else {
        return;
    };
    for_each_inner(schema, |inner| show_embedded(inner, texts, false, wanted));
    if !shown {
        return;
    }
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    properties["apiVersion"] = json!({
        "type": "string",
        "description": texts.api_version,
    });
    properties["kind"] = json!({
        "type": "string",
        "description": texts.kind,
    });
    properties["metadata"] = json!({
        "description": texts.metadata,
        "allOf": [{"$ref": METADATA_REF}],
    });
    if !is_root {
        require(schema, &["kind", "apiVersion"]);
    }
}

fn for_each_inner(schema: &mut Map<String, Value>, change: impl Fn(&mut Value)) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(&change);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            change(inner);
        }
    }
}

fn require(schema: &mut Map<String, Value>, fields: &[&str]) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for field in fields {
            if !required.iter().any(|one| one == field) {
                required.push((*field).into());
            }
        }
    }
}

fn is_set(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}
