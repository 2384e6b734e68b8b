//! Documents of OpenAPI v3 that are made of what another server says in v2 about one version of a
//! group, for servers that have none. As in Kubernetes, they say less: of the values of a parameter
//! only their type, and of an answer no headers.

use serde_json::{Map, Value, json};

use super::schemas::wrapped;
use super::{Document, OF_V2, OF_V3, fields, written};

/// The operations of a path.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// What an operation has in both versions.
const OF_OPERATIONS: [&str; 6] = [
    "description",
    "externalDocs",
    "tags",
    "summary",
    "deprecated",
    "operationId",
];
/// What a parameter has in both versions.
const OF_PARAMETERS: [&str; 5] = ["name", "description", "in", "required", "allowEmptyValue"];
/// What a parameter has in v2, and its schema in v3.
const OF_VALUES: [&str; 3] = ["type", "format", "uniqueItems"];
/// Where a schema has others.
const INNER: [&str; 7] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];
/// Upper bound of all contents of bodies and answers, in bytes: a small document may name many
/// media types, and each has the whole schema.
const CONTENT_BYTES_MAX: usize = 8 << 20;
/// What a media type takes besides its name and its schema, in bytes.
const ENTRY_BYTES: usize = 64;

/// The contents of bodies and answers that were written.
struct Contents {
    bytes_left: usize,
    /// Some contents are left out.
    is_full: bool,
}

/// The document of v3 that is made of a document of [`about`](super::v2::foreign::about). The error
/// is the limit that it is beyond.
pub(crate) fn of(about: &[u8]) -> Result<Document, usize> {
    // What was written as JSON before can be read.
    let mut about: Value = serde_json::from_slice(about).unwrap_or_default();
    let mut take = |key: &str| about.get_mut(key).map(Value::take).unwrap_or_default();
    let (info, paths, definitions) = (take("info"), take("paths"), take("definitions"));
    let mut out = written::begin(&json!({"openapi": "3.0.0", "info": fields(info)}));
    let mut contents = Contents {
        bytes_left: CONTENT_BYTES_MAX,
        is_full: false,
    };
    let paths = fields(paths).into_iter();
    let paths = paths.map(|(path, item)| (path, contents.path(item)));
    written::put_fields(&mut out, "paths", paths);
    if contents.is_full {
        return Err(CONTENT_BYTES_MAX);
    }
    let schemas = fields(definitions).into_iter();
    let schemas: Map<String, Value> = schemas
        .map(|(name, schema)| (name, of_schema(schema)))
        .collect();
    let components = [("schemas".to_owned(), Value::Object(schemas))];
    written::put_fields(&mut out, "components", components);
    Ok(Document::new(&written::end(out)))
}

impl Contents {
    fn path(&mut self, item: Value) -> Value {
        let mut written = Map::new();
        for (key, value) in fields(item) {
            let value = match key.as_str() {
                "parameters" => parameters(list(value)),
                method if METHODS.contains(&method) => self.operation(value),
                other if is_extension(other) => value,
                _ => continue,
            };
            written.insert(key, value);
        }
        written.into()
    }

    fn operation(&mut self, operation: Value) -> Value {
        let mut operation = fields(operation);
        let consumes = texts(operation.get("consumes"));
        let produces = texts(operation.get("produces"));
        let given = operation.remove("parameters").map(list).unwrap_or_default();
        let responses = operation.remove("responses");
        operation.retain(|key, _| OF_OPERATIONS.contains(&key.as_str()) || is_extension(key));
        let (bodies, others): (Vec<Value>, Vec<Value>) = given.into_iter().partition(is_body);
        for mut body in bodies {
            let mut written = Map::new();
            self.add(&mut written, body["schema"].take(), &consumes);
            operation.insert("requestBody".into(), written.into());
        }
        if !others.is_empty() {
            operation.insert("parameters".into(), parameters(others));
        }
        if let Some(responses) = responses {
            let mut written = Map::new();
            for (code, response) in fields(responses) {
                let response = if is_extension(&code) {
                    response
                } else {
                    self.response(response, &produces)
                };
                written.insert(code, response);
            }
            operation.insert("responses".into(), written.into());
        }
        operation.into()
    }

    fn response(&mut self, response: Value, produces: &[String]) -> Value {
        let mut response = fields(response);
        let schema = response.remove("schema");
        response.retain(|key, _| key == "description" || is_extension(key));
        if let Some(schema) = schema {
            self.add(&mut response, schema, produces);
        }
        response.into()
    }

    /// Adds the content of a body or an answer: the schema, in each of the media types.
    fn add(&mut self, to: &mut Map<String, Value>, schema: Value, media_types: &[String]) {
        let schema = of_schema(schema);
        let bytes = schema.to_string().len() + ENTRY_BYTES;
        let mut content = Map::new();
        for media_type in media_types {
            let Some(left) = self.bytes_left.checked_sub(bytes + media_type.len()) else {
                self.is_full = true;
                return;
            };
            self.bytes_left = left;
            content.insert(media_type.clone(), json!({"schema": schema}));
        }
        if !content.is_empty() {
            to.insert("content".into(), content.into());
        }
    }
}

fn parameters(all: Vec<Value>) -> Value {
    // A reference that is left names no parameter of the document.
    let all = all.into_iter().filter(|one| one.get("$ref").is_none());
    all.map(parameter).collect()
}

fn parameter(parameter: Value) -> Value {
    let mut parameter = fields(parameter);
    let schema = parameter.remove("schema").map(of_schema);
    let schema = schema.unwrap_or_else(|| {
        let said = OF_VALUES.iter().filter_map(|key| {
            let value = parameter.get(*key)?;
            Some(((*key).to_owned(), value.clone()))
        });
        Value::Object(said.collect())
    });
    parameter.retain(|key, _| OF_PARAMETERS.contains(&key.as_str()) || is_extension(key));
    parameter.insert("schema".into(), schema);
    parameter.into()
}

/// A schema, or a list of them, with references as v3 writes them.
fn of_schema(schema: Value) -> Value {
    let mut fields = match schema {
        Value::Object(fields) => fields,
        Value::Array(all) => return all.into_iter().map(of_schema).collect(),
        other => return other,
    };
    if let Some(Value::String(reference)) = fields.get_mut("$ref") {
        *reference = reference.replace(OF_V2, OF_V3);
    }
    for key in INNER {
        if let Some(inner) = fields.get_mut(key) {
            *inner = of_schema(inner.take());
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for property in properties.values_mut() {
            *property = of_schema(property.take());
        }
    }
    wrapped(fields.into())
}

/// True for the body of a request, which is no parameter in v3.
fn is_body(parameter: &Value) -> bool {
    parameter["name"] == "body" && parameter.get("schema").is_some()
}

fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "application/yaml";
    const JSON: &str = "application/json";

    fn converted(about: &Value) -> Result<Value, usize> {
        let document = of(about.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&document.text.text()).unwrap())
    }

    fn reference(prefix: &str) -> Value {
        json!({"$ref": format!("{prefix}Thing")})
    }

    #[test]
    fn what_v2_says_is_where_v3_has_it() {
        let schemas = |prefix: &str, spec: Value| {
            json!({"Thing": {"type": "object", "properties": {
                "spec": spec,
                "parts": {"type": "array", "items": reference(prefix)},
                "by": {"type": "object", "additionalProperties": reference(prefix)},
            }, "x-kubernetes-group-version-kind": [{"kind": "Thing"}]}})
        };
        let body = json!({"name": "body", "in": "body", "required": true,
            "schema": reference(OF_V2)});
        let old = json!({
            "info": {"title": "theirs", "version": "v7"},
            "paths": {"/apis/a.test/v1/things": {
                "parameters": [{"name": "pretty", "in": "query", "type": "string",
                    "uniqueItems": true}],
                "post": {
                    "consumes": [JSON, YAML], "produces": [JSON], "schemes": ["https"],
                    "operationId": "create", "x-kubernetes-action": "post",
                    "parameters": [body, {"name": "dryRun", "in": "query", "type": "string"}],
                    "responses": {"200": {"description": "OK", "schema": reference(OF_V2)},
                        "401": {"description": "Unauthorized"}},
                },
            }},
            "definitions": schemas(OF_V2, json!({"description": "d", "$ref": "#/definitions/Thing"})),
        });
        let content = json!({"schema": reference(OF_V3)});
        let new = json!({
            "openapi": "3.0.0",
            "info": {"title": "theirs", "version": "v7"},
            "paths": {"/apis/a.test/v1/things": {
                "parameters": [{"name": "pretty", "in": "query",
                    "schema": {"type": "string", "uniqueItems": true}}],
                "post": {
                    "operationId": "create", "x-kubernetes-action": "post",
                    "requestBody": {"content": {JSON: content, YAML: content}},
                    "parameters": [{"name": "dryRun", "in": "query",
                        "schema": {"type": "string"}}],
                    "responses": {
                        "200": {"description": "OK", "content": {JSON: content}},
                        "401": {"description": "Unauthorized"}},
                },
            }},
            "components": {"schemas":
                schemas(OF_V3, json!({"description": "d", "allOf": [reference(OF_V3)]}))},
        });
        assert_eq!(converted(&old), Ok(new));
    }

    #[test]
    fn schemas_are_not_written_without_end_for_media_types() {
        let converted = |media_types: usize| {
            let media_types = (0..media_types).map(|number| format!("application/{number}"));
            let media_types: Vec<String> = media_types.collect();
            let long = json!({"description": "d".repeat(1 << 20)});
            let answers = json!({"200": {"description": "OK", "schema": long}});
            let get = json!({"produces": media_types, "responses": answers});
            let document = json!({"paths": {"/apis/a.test/v1/things": {"get": get}}});
            converted(&document).map(|document| document.to_string().len())
        };
        assert!(converted(2).unwrap() > 2 << 20);
        assert_eq!(converted(10_000), Err(CONTENT_BYTES_MAX));
    }

    #[test]
    fn what_is_no_document_is_an_empty_one() {
        for odd in [json!(null), json!({"paths": 1, "definitions": []})] {
            let empty = json!({"openapi": "3.0.0", "info": {}, "paths": {},
                "components": {"schemas": {}}});
            assert_eq!(converted(&odd), Ok(empty), "{odd}");
        }
    }
}
