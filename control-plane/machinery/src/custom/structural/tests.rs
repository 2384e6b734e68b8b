mod random;
mod rules;
mod schemas;
mod values;

use serde_json::Value;

use super::Schema;
use crate::status::Cause;

/// A schema that is accepted.
fn schema(document: &Value) -> Schema {
    Schema::parse(document).unwrap_or_else(|causes| panic!("{document}: {:#?}", told(&causes)))
}

/// Causes as `field: message`.
fn told(causes: &[Cause]) -> Vec<String> {
    let each = causes.iter();
    each.map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

/// A case of a file.
struct Case<'a> {
    schema: Value,
    value: Option<&'a str>,
    errors: Vec<&'a str>,
}

/// The cases of a file; its first lines say how they are written.
fn cases(file: &str) -> Vec<Case<'_>> {
    let text = file.trim_start_matches(|c| c != '{');
    let cases = text.split("\n\n").map(|case| {
        let mut lines = case.lines();
        let schema = lines
            .next()
            .and_then(|line| serde_json::from_str(line).ok());
        let rest: Vec<&str> = lines.collect();
        let errors = rest.iter().filter_map(|line| line.strip_prefix("- "));
        Case {
            schema: schema.unwrap_or_else(|| panic!("{case}")),
            value: rest.iter().find_map(|line| line.strip_prefix("= ")),
            errors: errors.collect(),
        }
    });
    cases.collect()
}
