//! Objects made from the schema of a custom resource. The same schema always gives the same object.

use serde_json::{Map, Value, json};

use super::pattern::matching;

/// Optional fields are set down to this depth below `spec` and `status`.
const DEPTH: usize = 2;

/// Which fields an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only `spec` and the fields that the schema requires.
    Least,
    /// Optional fields, too.
    Full,
}

impl Extent {
    /// All fields of an object below its metadata.
    pub(super) fn fields(self, schema: &Value) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, of_field) in schema["properties"].as_object().into_iter().flatten() {
            if ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            if self == Extent::Full || name == "spec" || requires(schema, name) {
                fields.insert(name.clone(), self.value(of_field, 0, 0));
            }
        }
        fields
    }

    /// A value for a schema. `salt` tells the items of a list apart.
    pub(super) fn value(self, schema: &Value, depth: usize, salt: usize) -> Value {
        let full = self == Extent::Full;
        if let Some(choices) = schema["enum"].as_array().filter(|all| !all.is_empty()) {
            let last = choices.len() - 1;
            let at = salt % choices.len();
            return choices[if full { last - at } else { at }].clone();
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return match schema["pattern"].as_str() {
                Some(pattern) if full => matching(pattern, 1).into(),
                _ if full => "50%".into(),
                _ => (salt + 1).into(),
            };
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => text(schema, salt).into(),
            Some("integer") => integer(schema, salt).into(),
            Some("number") => match schema["minimum"].as_f64() {
                Some(minimum) => json!(minimum),
                None => json!(0.5),
            },
            Some("boolean") => json!(full != (salt % 2 == 1)),
            _ if full => json!({"any": [1, "x", null, {"deep": true}]}),
            _ => "x".into(),
        }
    }

    fn object(self, schema: &Value, depth: usize) -> Value {
        let full = self == Extent::Full;
        let mut object = Map::new();
        if schema["x-kubernetes-embedded-resource"] == true {
            object.insert("apiVersion".into(), "v1".into());
            object.insert("kind".into(), "ConfigMap".into());
            object.insert("metadata".into(), json!({"name": "embedded"}));
        }
        let (needed, excluded) = self.alternatives(schema);
        let most = schema["maxProperties"].as_u64().unwrap_or(u64::MAX);
        let properties = schema["properties"].as_object();
        for (name, of_field) in properties.into_iter().flatten() {
            let room = (object.len() as u64) < most;
            let optional = full && depth < DEPTH && room && !excluded.contains(name);
            let required = requires(schema, name) || needed.contains(name);
            if (required || optional) && !object.contains_key(name) {
                object.insert(name.clone(), self.value(of_field, depth + 1, 0));
            }
        }
        let least = schema["minProperties"].as_u64().unwrap_or_default();
        let more = &schema["additionalProperties"];
        if more.is_object() || *more == true {
            let count = least.max(u64::from(full));
            for at in 0..count {
                let value = self.value(more, depth + 1, at as usize);
                object.insert(format!("key{at}"), value);
            }
        } else if schema["x-kubernetes-preserve-unknown-fields"] == true && full {
            object.insert("unknown".into(), json!({"deep": [1, "x", null, true]}));
        } else if (object.len() as u64) < least {
            for (name, of_field) in properties.into_iter().flatten().take(least as usize) {
                let value = self.value(of_field, depth + 1, 0);
                object.entry(name.clone()).or_insert(value);
            }
        }
        object.into()
    }

    /// The fields that a chosen alternative (`oneOf`, `anyOf`) requires, and those of the others.
    fn alternatives(self, schema: &Value) -> (Vec<String>, Vec<String>) {
        let names = |part: &Value| -> Vec<String> {
            let names = part["required"].as_array().into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for key in ["oneOf", "anyOf"] {
            let parts = schema[key].as_array().into_iter().flatten();
            let parts: Vec<Vec<String>> = parts.map(names).collect();
            let chosen = match self {
                Extent::Least => parts.first(),
                Extent::Full => parts.last(),
            };
            if let Some(chosen) = chosen {
                let others = parts.concat().into_iter();
                let others = others.filter(|name| key == "oneOf" && !chosen.contains(name));
                return (chosen.clone(), others.collect());
            }
        }
        (Vec::new(), Vec::new())
    }

    fn array(self, schema: &Value, depth: usize) -> Value {
        let bound = |key: &str| schema[key].as_u64().map(|bound| bound as usize);
        let items = &schema["items"];
        let distinct = items["type"] == "string" || schema["x-kubernetes-list-type"] == "map";
        let wanted = match (self, distinct) {
            (Extent::Least, _) => 0,
            (Extent::Full, false) => 1,
            (Extent::Full, true) => 2,
        };
        let count = wanted.min(bound("maxItems").unwrap_or(usize::MAX));
        let count = count.max(bound("minItems").unwrap_or_default());
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let items = (0..count).map(|salt| {
            let mut item = self.value(items, depth, salt);
            for key in keys.into_iter().flatten().filter_map(Value::as_str) {
                item[key] = self.value(&items["properties"][key], depth, salt);
            }
            item
        });
        items.collect()
    }
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.iter().any(|one| one == name))
}

fn text(schema: &Value, salt: usize) -> String {
    let bound = |key: &str| schema[key].as_u64().map(|bound| bound as usize);
    let min = bound("minLength").unwrap_or_default();
    let all = schema["allOf"].as_array().into_iter().flatten();
    let mut patterns = std::iter::once(schema).chain(all);
    if let Some(pattern) = patterns.find_map(|part| part["pattern"].as_str()) {
        return matching(pattern, min.max(salt + 1));
    }
    let text = match schema["format"].as_str() {
        Some("date-time") => "2024-02-03T04:05:06Z".to_owned(),
        Some("date") => "2024-02-03".to_owned(),
        Some("duration") => "90s".to_owned(),
        Some("byte") => "YQ==".to_owned(),
        Some("ipv4") => "192.0.2.1".to_owned(),
        Some("ipv6") => "2001:db8::1".to_owned(),
        Some("cidr") => "192.0.2.0/24".to_owned(),
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000".to_owned(),
        Some("email") => "a@example.com".to_owned(),
        Some("uri") => "https://example.com/a".to_owned(),
        Some("hostname") => "example.com".to_owned(),
        _ => format!("text{salt}"),
    };
    let text = format!("{text:x<min$}");
    let most = bound("maxLength").unwrap_or(usize::MAX);
    text.chars().take(most).collect()
}

fn integer(schema: &Value, salt: usize) -> i64 {
    let whole = |key: &str| schema[key].as_f64().map(|bound| bound as i64);
    let least = whole("minimum").map(|least| {
        let exclusive = schema["exclusiveMinimum"] == true;
        least + i64::from(exclusive)
    });
    let step = whole("multipleOf").unwrap_or(1).max(1);
    let wanted = least.unwrap_or(1).max(1) + salt as i64;
    let wanted = wanted + (step - wanted.rem_euclid(step)) % step;
    wanted.min(whole("maximum").unwrap_or(i64::MAX))
}

#[test]
fn objects_keep_the_bounds_of_their_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "required": ["ports"],
        "properties": {
            "ports": {
                "type": "array", "minItems": 1, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "pattern": "^[a-z]+$"},
                    "port": {"type": "integer", "minimum": 5, "maximum": 6},
                }},
            },
            "kind": {"type": "string", "enum": ["A", "B"]},
            "cpu": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+m$"},
        },
    }}});
    let least = Extent::Least.value(&schema["properties"]["spec"], 0, 0);
    assert_eq!(least, json!({"ports": [{"name": "a"}]}));
    let full = Extent::Full.fields(&schema);
    let expected = json!({
        "cpu": "1m", "kind": "B",
        "ports": [{"name": "a", "port": 5}, {"name": "aa", "port": 5}],
    });
    assert_eq!(full["spec"], expected);
}
