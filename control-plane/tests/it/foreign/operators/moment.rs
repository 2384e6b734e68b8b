//! The objects of one moment as texts, without what differs between runs.

use std::collections::{BTreeMap, BTreeSet};

use machinery::time::Timestamp;
use serde_json::{Map, Value};

/// Remembers the uids that it saw: an object that was made again has another.
#[derive(Default)]
pub(super) struct Moments {
    /// What replaces each uid.
    uids: BTreeMap<String, String>,
    /// The number of uids per kind and name.
    made: BTreeMap<String, usize>,
}

impl Moments {
    /// The objects as sorted texts.
    pub(super) fn take(&mut self, mut objects: Vec<Value>) -> BTreeSet<String> {
        // The apiserver's service for itself differs in what starts it.
        objects.retain(|object| object["metadata"]["name"] != "kubernetes");
        for object in &objects {
            self.learn(object);
        }
        let texts = objects.into_iter().map(|object| self.text(object));
        texts.collect()
    }

    fn learn(&mut self, object: &Value) {
        let uid = text(&object["metadata"]["uid"]);
        if self.uids.contains_key(uid) {
            return;
        }
        let name = name(object);
        let made = self.made.entry(name.clone()).or_default();
        *made += 1;
        let stands = format!("<uid {made} of {name}>");
        self.uids.insert(uid.to_owned(), stands);
    }

    fn text(&self, mut object: Value) -> String {
        let name = name(&object);
        let mut managers = Vec::new();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let fields = metadata.remove("managedFields").unwrap_or_default();
            let entries = fields.as_array().into_iter().flatten();
            managers.extend(entries.map(manager));
        }
        if object["kind"] == "Event" {
            unname(&mut object);
        }
        managers.sort();
        let object = serde_json::to_string_pretty(&self.value("", object)).unwrap();
        let mut managers = managers.concat();
        for (uid, stands) in &self.uids {
            managers = managers.replace(uid, stands);
        }
        format!("--- {name}\n{object}\n{managers}")
    }

    fn value(&self, key: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.string(key, text)),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.value(key, item));
                Value::Array(items.collect())
            }
            Value::Object(fields) => {
                // Go writes some unset times as null, which means unset.
                let fields = fields
                    .into_iter()
                    .filter(|(key, field)| key != "resourceVersion" && !field.is_null());
                let fields = fields.map(|(key, field)| {
                    let field = self.value(&key, field);
                    (key, field)
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn string(&self, key: &str, text: String) -> String {
        if key == "uid" {
            let known = self.uids.get(&text);
            return known.map_or("<uid of none>", String::as_str).to_owned();
        }
        if Timestamp::parse(&text).is_some() {
            return "<time>".into();
        }
        // The ranges of services differ.
        match text.parse::<std::net::IpAddr>() {
            Ok(_) => "<address>".into(),
            Err(_) => text,
        }
    }
}

/// Removes an event's name and the machine that reported it.
fn unname(event: &mut Value) {
    for (part, field) in [
        ("/metadata", "name"),
        ("/metadata", "generateName"),
        ("/metadata", "uid"),
        ("/source", "host"),
        ("", "reportingInstance"),
    ] {
        let part = event.pointer_mut(part);
        if let Some(part) = part.and_then(Value::as_object_mut) {
            part.remove(field);
        }
    }
}

/// One entry of the managed fields on one line.
fn manager(entry: &Value) -> String {
    format!(
        "{} of {} {} {}: {}\n",
        text(&entry["operation"]),
        text(&entry["manager"]),
        text(&entry["apiVersion"]),
        text(&entry["subresource"]),
        entry["fieldsV1"],
    )
}

/// The kind and the name, or for an event the reason, because its name is random.
fn name(object: &Value) -> String {
    let kind = text(&object["kind"]);
    match kind {
        "Event" => format!(
            "Event/{}/{}",
            text(&object["involvedObject"]["name"]),
            text(&object["reason"])
        ),
        _ => format!("{kind}/{}", text(&object["metadata"]["name"])),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
