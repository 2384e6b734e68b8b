//! Managers that work in different versions of one kind: `testdata/versions.jsonl`, and any larger
//! file that `STELE_VERSIONS_CASES` names.

use std::collections::BTreeMap;

use super::check::UNDECLARED;
use super::*;
use crate::custom::structural::Schema;
use crate::object::conversion::{autoscaler, event};

/// A kind in all its versions, and the version of a request.
struct Family {
    api_version: String,
    kind: String,
    /// The versions of a custom resource.
    schemas: BTreeMap<String, Schema>,
}

impl Family {
    fn of(line: &Value) -> Family {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let kind = text("kind");
        let schemas = match kind.as_str() {
            "Gadget" | "Widget" => schemas(),
            _ => BTreeMap::new(),
        };
        Family {
            api_version: text("apiVersion"),
            kind,
            schemas,
        }
    }

    fn is_custom(&self) -> bool {
        !self.schemas.is_empty()
    }

    fn message(&self, api_version: &str) -> Option<&'static schema::Message> {
        let (group, version) = schema::split_api_version(api_version);
        let (same, _) = schema::split_api_version(&self.api_version);
        let found = schema::kind(group, version, &self.kind).filter(|_| group == same);
        found.map(|kind| kind.message())
    }

    fn with_defaults(&self, mut object: Value) -> Value {
        let api_version = object::api_version(&object).to_owned();
        if self.is_custom() {
            let schema = &self.schemas[&api_version];
            schema.prune(&mut object);
            schema.default(&mut object);
            return object;
        }
        let (group, version) = schema::split_api_version(&api_version);
        let message = schema::kind(group, version, &self.kind).unwrap().message();
        let mut decoded = strict::prune(&object, message).unwrap().object;
        defaults::apply(group, &self.kind, &mut decoded);
        object::set_type(&mut decoded, &api_version, &self.kind);
        if api_version == "autoscaling/v1" {
            // What annotations say is read and written anew.
            decoded = self.converted(&decoded, "autoscaling/v2");
            decoded = self.converted(&decoded, "autoscaling/v1");
        }
        decoded
    }

    /// What a request reads of an object of the store.
    fn load(&self, stored: &Value) -> Result<Value, String> {
        let stored = self.with_defaults(stored.clone());
        if !self.is_custom() {
            return Ok(self.converted(&stored, &self.api_version));
        }
        let mut object = self.convert_custom(&stored, &self.api_version)?;
        self.schemas[&self.api_version].coerce(&mut object);
        Ok(object)
    }

    /// A built-in object in another version, as Go shows it.
    fn converted(&self, object: &Value, to: &str) -> Value {
        let mut object = object.clone();
        match (object::api_version(&object), to) {
            ("autoscaling/v1", "autoscaling/v2") => autoscaler::to_v2(&mut object),
            ("autoscaling/v2", "autoscaling/v1") => autoscaler::to_v1(&mut object),
            ("v1", "events.k8s.io/v1") => event::to_events(&mut object),
            (from, to) => assert_eq!(from, to),
        }
        let (group, version) = schema::split_api_version(to);
        let message = schema::kind(group, version, &self.kind).unwrap().message();
        let mut object = strict::prune(&object, message).unwrap().object;
        object::set_type(&mut object, to, &self.kind);
        object
    }

    /// What the oracle's converter of custom resources does.
    fn convert_custom(&self, object: &Value, to: &str) -> Result<Value, String> {
        let from = object::api_version(object);
        for (word, version) in [("to", to), ("from", from)] {
            if !self.schemas.contains_key(version) {
                return Err(format!(
                    "request to convert CR {word} an invalid group/version: {version}"
                ));
            }
        }
        let mut object = object.clone();
        if from == to {
            return Ok(object);
        }
        let from = object::api_version(&object).to_owned();
        if self.kind == "Widget" {
            if object::text(&object, &["spec", "note"]) == "fails" {
                return Err(format!(
                    "conversion webhook for {from}, Kind=Widget failed: the note says so"
                ));
            }
            let names = match (from.ends_with("v2"), to.ends_with("v2")) {
                (false, true) => Some(("size", "length")),
                (true, false) => Some(("length", "size")),
                _ => None,
            };
            if let Some((before, after)) = names
                && let Some(value) = object::remove(&mut object, &["spec", before])
            {
                object::set(&mut object, &["spec", after], value);
            }
        }
        object::set_type(&mut object, to, &self.kind);
        Ok(object)
    }
}

impl Versions for Family {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        if self.is_custom() {
            return Some(self.schemas.get(api_version)?.typing());
        }
        self.message(api_version).map(|message| message as _)
    }

    fn empty(&self) -> Value {
        let mut empty = match self.message(&self.api_version) {
            Some(message) => strict::prune(&json!({}), message).unwrap().object,
            None => json!({}),
        };
        object::set_type(&mut empty, &self.api_version, &self.kind);
        empty
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        if !self.is_custom() {
            self.message(api_version).ok_or(Unconverted::Unknown)?;
            return Ok(self.converted(object, api_version));
        }
        self.convert_custom(object, &self.api_version)
            .and_then(|object| self.convert_custom(&object, api_version))
            .map_err(Unconverted::Failed)
    }

    fn resets(&self, api_version: &str) -> bool {
        !self.is_custom() || api_version == self.api_version
    }
}

/// The schemas of the custom resources, as the oracle has them.
fn schemas() -> BTreeMap<String, Schema> {
    let source = include_str!("../../../../generate/versions.go");
    let begin = source.find("`{\"apiVersion\":\"apiextensions").unwrap() + 1;
    let end = begin + source[begin..].find('`').unwrap();
    let definition: Value = serde_json::from_str(&source[begin..end]).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let each = versions.iter().map(|version| {
        let name = format!("example.com/{}", version["name"].as_str().unwrap());
        let schema = Schema::parse(&version["schema"]["openAPIV3Schema"]).unwrap();
        (name, schema)
    });
    each.collect()
}

fn write(family: &Family, live: Option<&Value>, line: &Value) -> Result<Value, Error> {
    let reset = match family.kind.as_str() {
        "Event" => Reset::of(&[]),
        _ => Reset::of(&[&["status"]]),
    };
    let write = Write {
        versions: family,
        api_version: &family.api_version,
        subresource: "",
        reset: &reset,
        manager: line["manager"].as_str().unwrap(),
        now: NOW,
    };
    let empty = family.empty();
    let live = live.unwrap_or(&empty);
    let mut new = match line.get("update") {
        Some(update) => {
            let mut new = family.with_defaults(update.clone());
            write.update(live, &mut new)?;
            new
        }
        None => {
            let applied = write.apply(live, &line["apply"], line["force"] == true)?;
            family.with_defaults(applied)
        }
    };
    finish(&mut new);
    Ok(new)
}

/// How one write differs from Kubernetes'; `None` if it does not.
fn difference(line: &Value) -> Option<String> {
    let family = Family::of(line);
    let live = match &line["stored"] {
        Value::Null => None,
        stored => Some(family.load(stored)),
    };
    if let Some(theirs) = line["unreadable"].as_str() {
        let ours = live.and_then(Result::err);
        return (ours.as_deref() != Some(theirs)).then(|| format!("{ours:?}, theirs {theirs}"));
    }
    let live = live.transpose().unwrap();
    let ours = write(&family, live.as_ref(), line);
    if let (Err(ours), Some(theirs)) = (&ours, line["error"].as_str())
        && is_by_chance(&ours.to_string(), theirs)
    {
        return None;
    }
    compared(&ours, line)
}

/// True for errors of conversions at the same place. Which of several versions fails first is chance
/// in Kubernetes, and so is which undeclared field it finds first, and what it does not look at then.
fn is_by_chance(ours: &str, theirs: &str) -> bool {
    if ours.contains(UNDECLARED) && theirs.contains(UNDECLARED) {
        // Only what it says before the first path is no chance.
        let before = |text: &str| {
            let place = text.split_once('.').map_or(text, |(place, _)| place);
            place.replace("errors:\n  ", "")
        };
        // Messages of several errors are sorted by the oracle.
        let place = before(ours);
        return theirs.contains(place.trim_end());
    }
    const PLACES: [&str; 3] = [
        "failed to prune fields: failed add back owned items",
        "failed to convert new object",
        "failed to convert old object",
    ];
    // Messages of several errors are sorted by the oracle.
    let mut places = PLACES.iter();
    places.any(|place| ours.starts_with(place) && theirs.contains(place))
}

fn compare_all(text: &str) -> usize {
    let mut differences = Vec::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        count += 1;
        if let Some(difference) = difference(&line) {
            let write = line.get("update").unwrap_or(&line["apply"]);
            let (version, manager, stored) =
                (&line["apiVersion"], &line["manager"], &line["stored"]);
            differences.push(format!(
                "line {}: {version} {manager} {write}\nstored {stored}\n{difference}",
                number + 1,
            ));
        }
    }
    none_differ(&differences, count)
}

#[test]
fn managers_of_other_versions_end_as_in_kubernetes() {
    let count = compare_all(include_str!("../../../../testdata/versions.jsonl"));
    assert!(count > 200);
}

/// Autoscalers of v2 have null where they have no metrics, and those of v1 have them in annotations, of
/// which the manager owned another.
#[test]
fn what_a_conversion_shows_as_null_is_not_taken_away() {
    compare_all(include_str!("../../../../testdata/nulls.jsonl"));
}

#[test]
fn more_managers_of_other_versions_end_as_in_kubernetes() {
    if let Ok(file) = std::env::var("STELE_VERSIONS_CASES") {
        println!("{} cases", compare_all(&fs::read_to_string(file).unwrap()));
    }
}
