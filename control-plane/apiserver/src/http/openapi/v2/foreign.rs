//! What other servers say in OpenAPI v2, within this server's document. A schema of the same name and
//! another content gets another name, as in Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::http::openapi::{OF_V2, TYPE, fields};

const PARAMETERS: &str = "#/parameters/";
/// Upper bound of the parameters of a version that are written where they are used, in bytes: a
/// small document may use a large one very often.
const SHARED_BYTES_MAX: usize = 8 << 20;

/// Paths in their order.
pub(super) type Paths = BTreeMap<String, Value>;

/// Parameters that paths share.
struct Shared {
    /// By name, with the lengths of their texts.
    parameters: BTreeMap<String, (Value, usize)>,
    bytes_left: usize,
}

/// What a document says about itself, and about one version of a group: its paths, and their
/// schemas. Parameters that paths share are written where they are used, as in this server's
/// document. The error is the limit that these are beyond.
pub(crate) fn about(mut document: Value, group: &str, version: &str) -> Result<Value, usize> {
    let mut take = |key: &str| {
        let value = document.get_mut(key).map(Value::take);
        fields(value.unwrap_or_default())
    };
    let info = take("info");
    let parameters = take("parameters");
    let mut paths = take("paths");
    let mut definitions = take("definitions");
    let before = used(paths.values().chain(parameters.values()), &definitions);
    let prefix = format!("/apis/{group}/{version}/");
    paths.retain(|path, _| path.starts_with(&prefix));
    // What other paths share is not written, and counts for no limit.
    let mut shared = Shared::of(parameters);
    if !paths.values_mut().all(|path| shared.write_into(path)) {
        return Err(SHARED_BYTES_MAX);
    }
    let after = used(paths.values(), &definitions);
    definitions.retain(|name, _| after.contains(name) || !before.contains(name));
    Ok(serde_json::json!({"info": info, "paths": paths, "definitions": definitions}))
}

/// Adds the paths and the schemas of a document of [`about`].
pub(super) fn merge(document: &[u8], definitions: &mut Map<String, Value>, paths: &mut Paths) {
    // What was written as JSON before can be read.
    let mut document: Value = serde_json::from_slice(document).unwrap_or_default();
    let renamed = renames(&document["definitions"], definitions);
    if !renamed.is_empty() {
        rename(&mut document, &renamed);
    }
    if let Value::Object(theirs) = document["definitions"].take() {
        for (name, schema) in theirs {
            let name = renamed.get(&name).cloned().unwrap_or(name);
            match definitions.get_mut(&name) {
                None => drop(definitions.insert(name, schema)),
                Some(ours) => add_types(ours, &schema),
            }
        }
    }
    if let Value::Object(theirs) = document["paths"].take() {
        for (path, item) in theirs {
            paths.entry(path).or_insert(item);
        }
    }
}

/// Both kinds of paths in one order. Of two for one path, ours is taken.
pub(super) fn in_order(
    ours: impl Iterator<Item = (String, Value)>,
    theirs: Paths,
) -> impl Iterator<Item = (String, Value)> {
    let (mut ours, mut theirs) = (ours.peekable(), theirs.into_iter().peekable());
    std::iter::from_fn(move || {
        while let (Some((our, _)), Some((their, _))) = (ours.peek(), theirs.peek()) {
            if our != their {
                break;
            }
            theirs.next();
        }
        match (ours.peek(), theirs.peek()) {
            (Some((our, _)), Some((their, _))) if their < our => theirs.next(),
            (Some(_), _) => ours.next(),
            (None, _) => theirs.next(),
        }
    })
}

impl Shared {
    fn of(parameters: Map<String, Value>) -> Shared {
        let parameters = parameters.into_iter().map(|(name, parameter)| {
            let bytes = parameter.to_string().len();
            (name, (parameter, bytes))
        });
        Shared {
            parameters: parameters.collect(),
            bytes_left: SHARED_BYTES_MAX,
        }
    }

    /// Writes parameters in the place of references to them; false if they are too many.
    fn write_into(&mut self, value: &mut Value) -> bool {
        let referred = value.get("$ref").and_then(Value::as_str);
        let named = referred.and_then(|text| text.strip_prefix(PARAMETERS));
        if let Some((parameter, bytes)) = named.and_then(|name| self.parameters.get(name)) {
            let Some(left) = self.bytes_left.checked_sub(*bytes) else {
                return false;
            };
            self.bytes_left = left;
            *value = parameter.clone();
            return true;
        }
        match value {
            Value::Object(fields) => fields.values_mut().all(|value| self.write_into(value)),
            Value::Array(items) => items.iter_mut().all(|value| self.write_into(value)),
            _ => true,
        }
    }
}

/// Other names for schemas that differ from those that there are.
fn renames(theirs: &Value, ours: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut renamed = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let all = theirs.as_object();
    for (name, schema) in all.into_iter().flatten() {
        let differs = |name: &str| ours.get(name).map(|one| !is_same(one, schema));
        if differs(name) != Some(true) {
            continue;
        }
        let is_theirs = |name: &str| all.is_some_and(|all| all.contains_key(name));
        // The first name that is free, or that means the same.
        let names = (2..).map(|number| format!("{name}_v{number}"));
        let mut free = names.filter(|name| match differs(name) {
            Some(differs) => !differs,
            None => !taken.contains(name) && !is_theirs(name),
        });
        if let Some(free) = free.next() {
            taken.insert(free.clone());
            renamed.insert(name.clone(), free);
        }
    }
    renamed
}

/// True if two schemas are equal but for the kinds that they are of.
fn is_same(one: &Value, other: &Value) -> bool {
    let fields = |schema: &Value| {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove(TYPE);
        }
        schema
    };
    one == other || fields(one) == fields(other)
}

/// Adds the kinds that the same schema is of elsewhere.
fn add_types(ours: &mut Value, theirs: &Value) {
    let (Some(ours), Some(more)) = (ours.as_object_mut(), theirs[TYPE].as_array()) else {
        return;
    };
    let types = ours.entry(TYPE).or_insert_with(|| Value::Array(Vec::new()));
    let Some(types) = types.as_array_mut() else {
        return;
    };
    let before = types.len();
    for one in more {
        if !types.contains(one) {
            types.push(one.clone());
        }
    }
    if types.len() > before {
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        types.sort_by_cached_key(|one| {
            let (group, version, kind) =
                (text(one, "group"), text(one, "version"), text(one, "kind"));
            format!("{group}/{version}.{kind}")
        });
    }
}

/// The schemas that values refer to, directly and by way of other schemas.
fn used<'a>(
    values: impl Iterator<Item = &'a Value>,
    definitions: &'a Map<String, Value>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = values.collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                let referred = fields.get("$ref").and_then(Value::as_str);
                if let Some(name) = referred.and_then(|text| text.strip_prefix(OF_V2))
                    && found.insert(name.to_owned())
                {
                    open.extend(definitions.get(name));
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}

fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(OF_V2)
                && let Some(other) = renamed.get(name)
            {
                *reference = format!("{OF_V2}{other}");
            }
            fields.values_mut().for_each(|value| rename(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, renamed)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference(name: &str) -> Value {
        json!({"$ref": format!("{OF_V2}{name}")})
    }

    fn document() -> Value {
        json!({
            "paths": {
                "/apis/a.test/v1/": {"get": {"schema": reference("List")}},
                "/apis/a.test/v1/things": {
                    "parameters": [{"$ref": "#/parameters/pretty"}],
                    "get": {"schema": reference("Thing")},
                },
                "/apis/a.test/v2/things": {"get": {"schema": reference("Later")}},
                "/version": {"get": {"schema": reference("Version")}},
            },
            "definitions": {
                "List": {"type": "object"},
                "Thing": {"properties": {"inner": reference("Inner")},
                    TYPE: [{"group": "a.test", "version": "v1", "kind": "Thing"}]},
                "Inner": {"type": "string"},
                "Later": {"type": "object"},
                "Version": {"type": "object"},
                "Unused": {"type": "object"},
            },
            "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string"}},
        })
    }

    #[test]
    fn only_one_version_of_a_document_is_taken() {
        let about = about(document(), "a.test", "v1").unwrap();
        let names = |key: &str| -> Vec<String> {
            about[key].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(
            names("paths"),
            ["/apis/a.test/v1/", "/apis/a.test/v1/things"]
        );
        assert_eq!(names("definitions"), ["Inner", "List", "Thing", "Unused"]);
        let parameter = &about["paths"]["/apis/a.test/v1/things"]["parameters"][0];
        assert_eq!(parameter["name"], "pretty");
    }

    #[test]
    fn shared_parameters_are_not_written_without_end() {
        let about = |times: usize| {
            let used = vec![json!({"$ref": "#/parameters/long"}); times];
            let document = json!({
                "paths": {"/apis/a.test/v1/things": {"parameters": used}},
                "parameters": {"long": {"description": "d".repeat(1 << 20)}},
            });
            about(document, "a.test", "v1").map(|about| about.to_string().len())
        };
        assert!(about(2).unwrap() > 2 << 20);
        assert_eq!(about(10_000), Err(SHARED_BYTES_MAX));
    }

    #[test]
    fn what_other_versions_share_counts_for_no_limit() {
        let used = vec![json!({"$ref": "#/parameters/long"}); 10_000];
        let document = json!({
            "paths": {
                "/apis/a.test/v1/things": {"parameters": [{"$ref": "#/parameters/body"}]},
                "/apis/a.test/v2/things": {"parameters": used},
            },
            "parameters": {
                "body": {"schema": reference("Thing")},
                "long": {"description": "d".repeat(1 << 20), "schema": reference("Later")},
            },
            "definitions": {"Thing": {"type": "object"}, "Later": {"type": "object"}},
        });
        let thing = json!({"type": "object"});
        let about = about(document, "a.test", "v1").unwrap();
        assert_eq!(about["definitions"], json!({"Thing": thing}));
        let parameter = &about["paths"]["/apis/a.test/v1/things"]["parameters"][0];
        assert_eq!(parameter["schema"], reference("Thing"));
    }

    #[test]
    fn schemas_that_differ_get_other_names() {
        let about = about(document(), "a.test", "v1").unwrap();
        let text = about.to_string().into_bytes();
        let ours = json!({
            "Inner": {"type": "integer"},
            "Inner_v2": {"type": "boolean"},
            "List": {"type": "object", TYPE: [{"group": "z.test", "version": "v1", "kind": "List"}]},
            "Thing": {"properties": {"inner": reference("Inner")},
                TYPE: [{"group": "b.test", "version": "v1", "kind": "Thing"}]},
        });
        let mut definitions = ours.as_object().unwrap().clone();
        let mut paths = Paths::new();
        merge(&text, &mut definitions, &mut paths);
        assert_eq!(definitions["Inner"], ours["Inner"]);
        assert_eq!(definitions["Inner_v3"], json!({"type": "string"}));
        assert_eq!(definitions["List"], ours["List"]);
        // The schemas are compared before references to others are changed.
        let groups: Vec<&Value> = definitions["Thing"][TYPE]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["group"])
            .collect();
        assert_eq!(groups, ["a.test", "b.test"]);
        assert_eq!(paths.len(), 2);
        merge(&text, &mut definitions, &mut paths);
        assert!(!definitions.contains_key("Inner_v4"), "{definitions:?}");
    }

    #[test]
    fn paths_are_in_one_order() {
        let all = |names: &[&str]| -> Vec<(String, Value)> {
            names
                .iter()
                .map(|name| ((*name).to_owned(), json!(1)))
                .collect()
        };
        let theirs: Paths = [("/b", 2), ("/c", 2), ("/z", 2)]
            .map(|(path, of)| (path.to_owned(), json!(of)))
            .into();
        let merged: Vec<(String, Value)> =
            in_order(all(&["/a", "/c", "/d"]).into_iter(), theirs).collect();
        let expected = [("/a", 1), ("/b", 2), ("/c", 1), ("/d", 1), ("/z", 2)];
        let expected = expected.map(|(path, of)| (path.to_owned(), json!(of)));
        assert_eq!(merged, expected);
    }
}
