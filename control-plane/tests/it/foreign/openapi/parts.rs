//! The parts of documents that are compared: each path and each schema of OpenAPI v3, and those of each
//! group and version together in v2. What is known to differ everywhere is left out here, so that the
//! file shows the rest.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Answers;
use super::golden::hash;

/// Parameters in queries whose text is Kubernetes'.
const WITH_TEXT: [&str; 6] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
];

#[derive(Default)]
pub(super) struct Parts {
    /// Schemas that many documents have: each with the documents that have it so.
    schemas: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    others: Answers,
}

impl Parts {
    /// Adds a document of OpenAPI v3.
    pub(super) fn add_v3(&mut self, place: &str, mut document: Value) {
        normalise(&mut document);
        for (path, item) in take(&mut document, "paths") {
            let key = format!("v3 {place} {path}");
            self.others.insert(key, format!("{item:#}"));
        }
        for (name, mut schema) in take(&mut document["components"], "schemas") {
            lists(&name, &mut schema);
            let text = format!("{schema:#}");
            let known = self.schemas.entry(name).or_default();
            known.entry(text).or_default().push(place.to_owned());
        }
        self.others
            .insert(format!("v3 {place} besides"), format!("{document:#}"));
    }

    /// Adds a document of OpenAPI v2.
    pub(super) fn add_v2(&mut self, mut document: Value) {
        normalise(&mut document);
        let shared = take(&mut document, "parameters");
        let mut together: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for (path, mut item) in take(&mut document, "paths") {
            inline(&mut item, &shared);
            let words: Vec<&str> = path.split('/').skip(1).take(3).collect();
            let place = match words[0] {
                "api" => words[..2].join("/"),
                _ => words.join("/"),
            };
            let part = together.entry(format!("v2 {place}")).or_default();
            part.insert(path, item);
        }
        for (name, mut schema) in take(&mut document, "definitions") {
            lists(&name, &mut schema);
            let (package, _) = name.rsplit_once('.').unwrap();
            let part = together.entry(format!("v2 {package}")).or_default();
            part.insert(name, schema);
        }
        let together = together.into_iter();
        self.others
            .extend(together.map(|(key, part)| (key, format!("{:#}", Value::from(part)))));
        self.others
            .insert("v2 besides".into(), format!("{document:#}"));
    }

    pub(super) fn into_answers(mut self) -> Answers {
        for (name, texts) in self.schemas {
            let alone = texts.len() == 1;
            for (text, places) in texts {
                // The kinds of some schemas differ from document to document.
                let key = if alone {
                    format!("schema {name}")
                } else {
                    format!("schema {name} in {} {}", places[0], hash(&places.join(" ")))
                };
                self.others.insert(key, text);
            }
        }
        self.others
    }
}

fn take(of: &mut Value, key: &str) -> Map<String, Value> {
    let taken = of.as_object_mut().and_then(|of| of.remove(key));
    match taken {
        Some(Value::Object(taken)) => taken,
        _ => Map::new(),
    }
}

/// Leaves out what differs everywhere.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // The texts of other parameters are comments in Kubernetes' sources; ours are our own.
            let name = fields
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let is_query = fields.get("in").is_some_and(|place| place == "query");
            if is_query && !WITH_TEXT.contains(&name) {
                fields.remove("description");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = without_meanings(text);
            }
            // Kubernetes writes the version that it was built with.
            if let Some(Value::Object(info)) = fields.get_mut("info") {
                info.remove("version");
            }
            fields.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// A text without what it says of each value of an enumeration, which is in no library.
fn without_meanings(text: &str) -> String {
    let Some((text, values)) = text.split_once("Possible enum values:") else {
        return text.to_owned();
    };
    let values = values.split("\n - `").skip(1);
    let values = values.filter_map(|value| value.split('`').next());
    format!("{text}{}", values.collect::<Vec<_>>().join(" "))
}

/// Leaves out the texts of lists, which are in no library either: its schemas have no lists.
fn lists(name: &str, schema: &mut Value) {
    if !name.ends_with("List") {
        return;
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("description");
    }
    for key in ["items", "metadata"] {
        if let Some(property) = schema["properties"]
            .get_mut(key)
            .and_then(Value::as_object_mut)
        {
            property.remove("description");
        }
    }
}

/// Replaces references to shared parameters by the parameters. Kubernetes shares those that are used
/// often, to make its document smaller.
fn inline(value: &mut Value, shared: &Map<String, Value>) {
    let name = value.get("$ref").and_then(Value::as_str);
    let name = name.and_then(|text| text.strip_prefix("#/parameters/"));
    if let Some(parameter) = name.and_then(|name| shared.get(name)) {
        *value = parameter.clone();
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|one| inline(one, shared)),
        Value::Array(items) => items.iter_mut().for_each(|one| inline(one, shared)),
        _ => {}
    }
}
