//! The way of one object through the apiserver: made, read in every version, listed, watched, put,
//! applied, shown, deleted.

use serde_json::{Value, json};

use super::account::Account;
use super::fit::{Cause, Fitting};
use super::sample::Extent;
use crate::requests::http::{Answer, Call};

/// Causes of an object that is wrong on purpose that are in the account as text.
const CAUSES_SHOWN: usize = 3;

/// A served version of a custom resource.
pub(super) struct Resource {
    pub(super) group: String,
    pub(super) version: String,
    /// All served versions.
    pub(super) versions: Vec<String>,
    pub(super) plural: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    pub(super) schema: Value,
    pub(super) subresources: Value,
}

impl Resource {
    /// The served versions of a CustomResourceDefinition.
    pub(super) fn of(crd: &Value) -> Vec<Resource> {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().into_iter().flatten();
        let served: Vec<&Value> = versions.filter(|one| one["served"] == true).collect();
        let names: Vec<String> = served.iter().map(|one| text(&one["name"])).collect();
        let resource = |version: &&Value| Resource {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            versions: names.clone(),
            plural: text(&spec["names"]["plural"]),
            kind: text(&spec["names"]["kind"]),
            namespaced: spec["scope"] == "Namespaced",
            schema: version["schema"]["openAPIV3Schema"].clone(),
            subresources: version["subresources"].clone(),
        };
        served.iter().map(resource).collect()
    }

    /// The path of all its objects in a version.
    pub(super) fn path(&self, version: &str) -> String {
        let within = if self.namespaced {
            "namespaces/default/"
        } else {
            ""
        };
        format!("/apis/{}/{version}/{within}{}", self.group, self.plural)
    }

    fn object(&self, name: &str, extent: Extent) -> Value {
        let mut fields = extent.fields(&self.schema);
        let api_version = format!("{}/{}", self.group, self.version);
        fields.insert("apiVersion".into(), api_version.into());
        fields.insert("kind".into(), self.kind.as_str().into());
        fields.insert("metadata".into(), json!({"name": name}));
        fields.into()
    }
}

/// Objects of one version of a resource on one apiserver.
pub(super) struct Trip<'a> {
    pub(super) address: &'a str,
    pub(super) resource: &'a Resource,
    pub(super) account: &'a mut Account,
}

impl Trip<'_> {
    pub(super) fn run(mut self) {
        let Resource {
            kind,
            group,
            version,
            ..
        } = self.resource;
        let title = format!("{kind} {group}/{version}");
        for (extent, name) in [(Extent::Least, "least"), (Extent::Full, "full")] {
            self.account.begin(format!("{title} {name}"));
            let sample = self.resource.object(name, extent);
            self.account.value("sample", &sample);
            if let Some(object) = self.fitted(&sample, extent) {
                self.account.changes("fitted", &sample, &object);
                self.travel(name, &object, extent);
                if extent == Extent::Full {
                    self.refuse(&object);
                }
            }
        }
    }

    fn fitted(&mut self, sample: &Value, extent: Extent) -> Option<Value> {
        let path = format!("{}?dryRun=All", self.resource.path(&self.resource.version));
        let address = self.address;
        let send = |object: &Value| Call::new(address, "POST", &path).json(object).send();
        let fitting = Fitting {
            schema: &self.resource.schema,
            extent,
            send: &send,
        };
        fitting.fitted(sample.clone(), self.account)
    }

    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path)
    }

    fn travel(&mut self, name: &str, object: &Value, extent: Extent) {
        let all = self.resource.path(&self.resource.version);
        let path = format!("{all}/{name}");
        let before = self.call("GET", &all).send().object();
        let from = &before["metadata"]["resourceVersion"];
        let from = from.as_str().unwrap_or_default();
        let create = format!("{all}?fieldManager=first");
        let answer = self.call("POST", &create).json(object).send();
        for line in answer.head.lines() {
            if let Some((name, value)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("warning")
            {
                self.account.line(&format!("warning {value}"));
            }
        }
        let stored = answer.object();
        self.step("created", &answer, object, &stored);
        self.managers(&stored);

        for version in &self.resource.versions {
            let path = format!("{}/{name}", self.resource.path(version));
            let answer = self.call("GET", &path).send();
            let label = format!("read in {version}");
            self.step(&label, &answer, &stored, &answer.object());
        }
        let answer = self.call("GET", &all).send();
        self.step("listed", &answer, &stored, &answer.object()["items"][0]);
        let watch = format!("{all}?watch=true&resourceVersion={from}&timeoutSeconds=60");
        let event = self.call("GET", &watch).stream().next().unwrap_or_default();
        let label = format!("watched: {}", event["type"]);
        self.account.changes(&label, &stored, &event["object"]);

        let replace = format!("{path}?fieldManager=first");
        let answer = self.call("PUT", &replace).json(&stored).send();
        self.step("put again", &answer, &stored, &answer.object());
        self.apply(&path, object);
        self.subresources(&path, extent);
        let answer = { self.call("GET", &path) }
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .send();
        self.table(&answer.object());
        let deleted = self.call("DELETE", &path).send().code;
        let then = self.call("GET", &path).send().code;
        self.account
            .line(&format!("deleted: {deleted}, then {then}"));
    }

    /// Applies the object, twice, as another manager.
    fn apply(&mut self, path: &str, object: &Value) {
        let mut last = self.call("GET", path).send().object();
        let path = format!("{path}?fieldManager=second");
        for label in ["applied", "applied again"] {
            let apply = self.call("PATCH", &path);
            let apply = apply.body("application/apply-patch+yaml", object.to_string());
            let answer = apply.send();
            let applied = answer.object();
            self.step(label, &answer, &last, &applied);
            if answer.code < 300 {
                self.managers(&applied);
                last = applied;
            }
        }
    }

    fn subresources(&mut self, path: &str, extent: Extent) {
        let subresources = self.resource.subresources.clone();
        if subresources["scale"].is_object() {
            let answer = self.call("GET", &format!("{path}/scale")).send();
            self.step("scale", &answer, &json!({}), &answer.object());
        }
        let schema = &self.resource.schema["properties"]["status"];
        if !subresources["status"].is_object() || schema.is_null() {
            return;
        }
        let mut current = self.call("GET", path).send().object();
        let sample = json!({"status": extent.value(schema, 0, 0)});
        let address = self.address;
        let try_path = format!("{path}/status?dryRun=All");
        let send = |object: &Value| {
            let mut whole = current.clone();
            whole["status"] = object["status"].clone();
            Call::new(address, "PUT", &try_path).json(&whole).send()
        };
        let fitting = Fitting {
            schema: &self.resource.schema,
            extent,
            send: &send,
        };
        let Some(fitted) = fitting.fitted(sample.clone(), self.account) else {
            return;
        };
        self.account.changes("status fitted", &sample, &fitted);
        current["status"] = fitted["status"].clone();
        let answer = { self.call("PUT", &format!("{path}/status?fieldManager=status")) }
            .json(&current)
            .send();
        let stored = answer.object();
        self.step("status put", &answer, &current, &stored);
        self.managers(&stored);
    }

    /// Sends forms of an accepted object that are wrong on purpose.
    fn refuse(&mut self, object: &Value) {
        let path = format!("{}?dryRun=All", self.resource.path(&self.resource.version));
        for (label, wrong) in [
            ("other types", other_type as fn(&mut Value)),
            ("other values", other_value),
        ] {
            let mut object = object.clone();
            let fields = object.as_object_mut().into_iter().flatten();
            let fields = fields
                .filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            fields.for_each(|(_, value)| wrong(value));
            let answer = self.call("POST", &path).json(&object).send();
            let causes = Cause::of(&answer);
            let texts: Vec<String> = causes.iter().map(Cause::text).collect();
            self.account.line(&format!(
                "{label}: {} with {} causes",
                answer.code,
                texts.len()
            ));
            for text in texts.iter().take(CAUSES_SHOWN) {
                self.account.line(&format!("  {text}"));
            }
            self.account.value(label, &json!(texts));
        }
    }

    /// Records a response: how its object differs from another, or its causes.
    fn step(&mut self, label: &str, answer: &Answer, from: &Value, to: &Value) {
        let mut label = format!("{label}: {}", answer.code);
        if answer.code < 300 {
            let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
            if from["metadata"].is_object() && revision(from) != revision(to) {
                label.push_str(", new revision");
            }
            self.account.changes(&label, &bare(from), &bare(to));
        } else {
            self.account.line(&label);
            for cause in Cause::of(answer) {
                self.account.line(&format!("  {}", cause.text()));
            }
        }
        self.account.whole(&format!("{:#}", answer.object()));
    }

    fn managers(&mut self, object: &Value) {
        let mut managers = object["metadata"]["managedFields"].clone();
        for manager in managers.as_array_mut().into_iter().flatten() {
            manager.as_object_mut().expect("an object").remove("time");
        }
        self.account.value("managers", &managers);
    }

    fn table(&mut self, table: &Value) {
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
        let shown = columns.zip(cells).map(|(column, cell)| {
            // An age changes with time.
            let is_age = column["type"] == "date" || column["name"] == "Age";
            let name = column["name"].as_str().unwrap_or_default();
            if is_age && *cell != Value::Null {
                format!("{name}=AGE")
            } else {
                format!("{name}={cell}")
            }
        });
        let shown: Vec<String> = shown.collect();
        self.account.line(&format!("table: {}", shown.join(", ")));
    }
}

/// An object without what differs between two runs.
pub(super) fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(name);
        }
    }
    object
}

fn other_type(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(other_type),
        Value::Array(list) => list.iter_mut().for_each(other_type),
        Value::String(_) => *value = json!(7),
        _ => *value = json!("x"),
    }
}

fn other_value(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(other_value),
        Value::Array(list) => list.iter_mut().for_each(other_value),
        Value::String(text) if text.len() > 4 => *value = json!(""),
        Value::String(_) => *value = json!("Odd value!"),
        Value::Number(_) => *value = json!(-7),
        _ => {}
    }
}
