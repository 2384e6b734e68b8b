//! CustomResourceDefinitions: `v1beta1`, which Kubernetes stores, says once for all versions what
//! they have in common.

use serde_json::{Map, Value, json};

use crate::object;

/// The fields of `versions` that v1beta1 may have for all of them: in v1 and in v1beta1.
const OF_ALL: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    (COLUMNS, COLUMNS),
    ("selectableFields", "selectableFields"),
];
const COLUMNS: &str = "additionalPrinterColumns";
/// The path of a column in v1 and in v1beta1.
const PATH: (&str, &str) = ("jsonPath", "JSONPath");
/// The address of the conversion webhook in v1beta1.
const CLIENT: &str = "webhookClientConfig";
const REVIEWS: &str = "conversionReviewVersions";
const KEEPS_UNKNOWN: &str = "preserveUnknownFields";

/// Makes a definition of v1beta1 one of v1.
pub fn to_v1(object: &mut Value) {
    let Some(spec) = spec_of(object) else {
        return;
    };
    let name = spec.remove("version");
    if versions_of(spec).is_empty()
        && let Some(name) = name
    {
        let only = json!([{"name": name, "served": true, "storage": true}]);
        spec.insert("versions".into(), only);
    }
    for (of_one, of_all) in OF_ALL {
        let Some(common) = spec.remove(of_all) else {
            continue;
        };
        for version in versions_of(spec) {
            object::set(version, &[of_one], common.clone());
        }
    }
    for version in versions_of(spec) {
        rename_paths(version, PATH.1, PATH.0);
    }
    if spec.get(KEEPS_UNKNOWN) == Some(&false.into()) {
        spec.remove(KEEPS_UNKNOWN);
    } else {
        spec.insert(KEEPS_UNKNOWN.into(), true.into());
    }
    if let Some(conversion) = conversion_of(spec) {
        let mut webhook = Map::new();
        for (from, to) in [(CLIENT, "clientConfig"), (REVIEWS, REVIEWS)] {
            if let Some(value) = conversion.remove(from) {
                webhook.insert(to.into(), value);
            }
        }
        if !webhook.is_empty() {
            conversion.insert("webhook".into(), webhook.into());
        }
    }
}

/// Makes a definition of v1 one of v1beta1.
pub fn to_v1beta1(object: &mut Value) {
    let Some(spec) = spec_of(object) else {
        return;
    };
    for version in versions_of(spec) {
        rename_paths(version, PATH.0, PATH.1);
    }
    for (of_one, of_all) in OF_ALL {
        let versions = versions_of(spec);
        let value = |version: &Value| {
            let value = version.get(of_one);
            value
                .filter(|value| value.as_array().is_none_or(|list| !list.is_empty()))
                .cloned()
        };
        let Some(common) = versions.first().map(value) else {
            continue;
        };
        if versions.iter().any(|version| value(version) != common) {
            continue;
        }
        for version in versions {
            object::remove(version, &[of_one]);
        }
        if let Some(common) = common {
            spec.insert(of_all.into(), common);
        }
    }
    let first = versions_of(spec).first();
    if let Some(name) = first.and_then(|first| first.get("name")).cloned() {
        spec.insert("version".into(), name);
    }
    spec.entry(KEEPS_UNKNOWN).or_insert(false.into());
    if let Some(conversion) = conversion_of(spec)
        && let Some(mut webhook) = conversion.remove("webhook")
    {
        for (from, to) in [("clientConfig", CLIENT), (REVIEWS, REVIEWS)] {
            if let Some(value) = object::remove(&mut webhook, &[from]) {
                conversion.insert(to.into(), value);
            }
        }
    }
}

fn spec_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("spec")?.as_object_mut()
}

fn conversion_of(spec: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    spec.get_mut("conversion")?.as_object_mut()
}

fn versions_of(spec: &mut Map<String, Value>) -> &mut [Value] {
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    versions.map_or(&mut [], Vec::as_mut_slice)
}

/// Gives the path of each column another name.
fn rename_paths(version: &mut Value, from: &str, to: &str) {
    let columns = version.get_mut(COLUMNS).and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        if let Some(path) = object::remove(column, &[from]) {
            object::set(column, &[to], path);
        }
    }
}
