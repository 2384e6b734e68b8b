//! Reads configuration files in YAML or JSON as strictly as Kubernetes: a field that it does not
//! know is an error.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::options::Options;

/// The API group of configuration files.
pub(crate) const GROUP: &str = "apiserver.config.k8s.io";

/// What a file may say.
pub(crate) enum Known {
    Anything,
    Fields(&'static [(&'static str, Known)]),
}

/// Reads a file of a kind in one of these versions of the API group. `known` are its fields besides
/// `kind` and `apiVersion`.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    kind: &str,
    versions: &[&str],
    known: &'static [(&'static str, Known)],
) -> Result<T, String> {
    let mut options = Options::default();
    // A snippet could show a secret.
    options.with_snippet = false;
    let mut value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    check_type(&value, kind, versions)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    let mut unknown = Vec::new();
    find_unknown(&value, known, "", &mut unknown);
    if !unknown.is_empty() {
        return Err(format!("strict decoding error: {}", unknown.join(", ")));
    }
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(|error| format!("failed decoding: {error}"))
}

fn check_type(value: &Value, wanted: &str, versions: &[&str]) -> Result<(), String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    for (name, given) in [("Kind", kind), ("apiVersion", version)] {
        if given.is_empty() {
            return Err(format!("Object '{name}' is missing"));
        }
    }
    let in_group = version
        .split_once('/')
        .is_some_and(|(group, version)| group == GROUP && versions.contains(&version));
    if kind != wanted || !in_group {
        return Err(format!(
            "no kind {kind:?} is registered for version {version:?}: it must be {wanted} of \
             {GROUP}/{}",
            versions.join(" or ")
        ));
    }
    Ok(())
}

fn find_unknown(
    value: &Value,
    known: &'static [(&'static str, Known)],
    place: &str,
    found: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = match place {
                    "" => name.clone(),
                    place => format!("{place}.{name}"),
                };
                match known.iter().find(|(known, _)| known == name) {
                    None => found.push(format!("unknown field {path:?}")),
                    Some((_, Known::Anything)) => {}
                    Some((_, Known::Fields(known))) => find_unknown(inner, known, &path, found),
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                find_unknown(item, known, &format!("{place}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// As in Go, what is null is not there.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[(&str, Known)] = &[
        ("name", Known::Anything),
        ("parts", Known::Fields(&[("size", Known::Anything)])),
    ];

    fn read_(text: &str) -> Result<Value, String> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: Test\n";
        read(&format!("{head}{text}"), "Test", &["v1", "v1beta1"], FIELDS)
    }

    #[test]
    fn fields_that_nobody_knows_are_errors() {
        let value = read_("name: a\nparts: [{size: 1}, {size: null}]").unwrap();
        assert_eq!(
            value,
            serde_json::json!({"name": "a", "parts": [{"size": 1}, {}]})
        );
        let why = read_("parts: [{size: 1}, {weight: 2}]\nNAME: b").unwrap_err();
        assert_eq!(
            why,
            "strict decoding error: unknown field \"NAME\", unknown field \"parts[1].weight\""
        );
        assert!(read_("name: a\nname: b").is_err());
    }

    #[test]
    fn a_file_is_of_its_kind() {
        let of = |text: &str| read::<Value>(text, "Test", &["v1"], FIELDS).unwrap_err();
        assert_eq!(of("kind: Test"), "Object 'apiVersion' is missing");
        assert_eq!(
            of("apiVersion: apiserver.config.k8s.io/v1"),
            "Object 'Kind' is missing"
        );
        for other in [
            "{kind: Other, apiVersion: apiserver.config.k8s.io/v1}",
            "{kind: Test, apiVersion: apiserver.config.k8s.io/v2}",
            "{kind: Test, apiVersion: v1}",
        ] {
            assert!(of(other).starts_with("no kind "), "{other}");
        }
    }
}
