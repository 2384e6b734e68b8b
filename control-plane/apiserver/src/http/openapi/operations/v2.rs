//! Operations as OpenAPI v2 writes them.

use serde_json::{Value, json};

use super::parameters::Parameter;
use super::{Form, Operation};
use crate::http::openapi::OF_V2;
use crate::http::openapi::texts::Texts;

pub(in crate::http::openapi) const FORM: Form = Form {
    operation: write,
    parameter,
};

fn write(operation: &Operation, own: &[Parameter], texts: &Texts) -> Value {
    let mut parameters: Vec<Value> = own.iter().map(|one| parameter(one, texts)).collect();
    if let Some((schema, required)) = &operation.body {
        let mut body = json!({"name": "body", "in": "body", "schema": reference_to(schema)});
        if *required {
            body["required"] = true.into();
        }
        // All are in the order of their names.
        let before = own.partition_point(|one| one.name < "body");
        parameters.insert(before, body);
    }
    let mut written = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "schemes": ["https"],
        "produces": operation.produces,
        "responses": operation.responses(reference_to, |description, schema| {
            json!({"description": description, "schema": schema})
        }),
    });
    if !operation.consumes.is_empty() {
        written["consumes"] = json!(operation.consumes);
    }
    if !parameters.is_empty() {
        written["parameters"] = parameters.into();
    }
    operation.add_subject(&mut written);
    written
}

fn parameter(parameter: &Parameter, texts: &Texts) -> Value {
    let mut written = parameter.written(texts);
    written["type"] = parameter.kind.into();
    written["uniqueItems"] = true.into();
    written
}

/// A reference to a definition.
fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("{OF_V2}{name}")})
}
