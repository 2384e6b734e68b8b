//! Operations as OpenAPI v3 writes them.

use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::{Form, Operation};
use crate::http::openapi::reference_to;
use crate::http::openapi::texts::Texts;

pub(in crate::http::openapi) const FORM: Form = Form {
    operation: write,
    parameter,
};

fn write(operation: &Operation, own: &[Parameter], texts: &Texts) -> Value {
    let mut written = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "responses": operation.responses(reference_to, |description, schema| {
            json!({"description": description, "content": content(&operation.produces, schema)})
        }),
    });
    if !own.is_empty() {
        written["parameters"] = own.iter().map(|one| parameter(one, texts)).collect();
    }
    if let Some((schema, required)) = &operation.body {
        let content = content(operation.consumes, &reference_to(schema));
        written["requestBody"] = json!({"content": content});
        if *required {
            written["requestBody"]["required"] = true.into();
        }
    }
    operation.add_subject(&mut written);
    written
}

fn content(media_types: &[&str], schema: &Value) -> Map<String, Value> {
    let types = media_types.iter();
    types
        .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
        .collect()
}

fn parameter(parameter: &Parameter, texts: &Texts) -> Value {
    let mut written = parameter.written(texts);
    written["schema"] = json!({"type": parameter.kind, "uniqueItems": true});
    written
}
