//! Events, in their stored version, the older of the two.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

const WORDS_MAX: usize = 128;
const NOTE_MAX: usize = 1024;
const MISPLACED: &str = "does not match event.namespace";
/// Fields that must not change, in the order of errors, with Go's names.
const FIXED: [(&str, &str); 14] = [
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];
/// Those of them that are texts, which Go shows as empty if they are missing.
const TEXTS: [&str; 6] = [
    "reason",
    "message",
    "type",
    "action",
    "reportingComponent",
    "reportingInstance",
];

/// Checks an event; `strict` is true for the newer version, which has more rules.
pub(crate) fn check(object: &Value, strict: bool) -> Causes {
    let mut causes = Causes::default();
    let event = FieldValue::new("", object);
    let namespace = object::namespace(object);
    let about = object::text(object, &["involvedObject", "namespace"]);
    let at_home = match (about, event.has("eventTime")) {
        // Events about cluster-scoped objects are in the default namespace, newer ones also in this
        // one.
        ("", true) => ["default", "kube-system"].contains(&namespace),
        ("", false) => namespace == "default",
        (_, true) => true,
        (about, false) => about == namespace,
    };
    if !at_home {
        let field = "involvedObject.namespace";
        causes.push(Cause::invalid(field, &about.into(), MISPLACED));
    }
    if event.has("eventTime") {
        complete(&event, strict, &mut causes);
    }
    let wrong = name::dns1123_subdomain(namespace);
    causes.extend(named("namespace", namespace, wrong));
    causes
}

/// Further checks of a new event in the newer version.
pub(crate) fn new(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let event = FieldValue::new("", object);
    series(&event, &mut causes);
    if !event.has("eventTime") {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = event.text("type");
    if !["Normal", "Warning"].contains(&kind) {
        let why = format!("has invalid value: {kind}");
        causes.push(Cause::invalid("type", &"".into(), &why));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count"] {
        if event.has(key) && event.get(key) != Some(&0.into()) {
            causes.push(Cause::invalid(key, &"".into(), "needs to be unset"));
        }
    }
    let source = |key| object::text(object, &["source", key]);
    if !(source("component").is_empty() && source("host").is_empty()) {
        causes.push(Cause::invalid("source", &"".into(), "needs to be unset"));
    }
    causes
}

/// Checks an update in the newer version.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if old.get("series") != new.get("series") {
        series(&FieldValue::new("", new), &mut causes);
    }
    for (key, called) in FIXED {
        if old.get(key) != new.get(key) {
            let missing = match key {
                "count" => 0.into(),
                key if TEXTS.contains(&key) => "".into(),
                _ => Value::Null,
            };
            let shown = new.get(key).cloned().unwrap_or(missing);
            causes.push(Cause::invalid(called, &shown, "field is immutable"));
        }
    }
    causes
}

/// Reporter, action and reason, which events with an `eventTime` must have.
fn complete(event: &FieldValue, strict: bool, causes: &mut Causes) {
    let reporter = if strict {
        "reportingController"
    } else {
        "reportingComponent"
    };
    let who = event.text("reportingComponent");
    if who.is_empty() {
        causes.push(Cause::required(reporter, ""));
    }
    causes.extend(named(reporter, who, name::qualified_name(who)));
    for (key, most) in [
        ("reportingInstance", WORDS_MAX),
        ("action", WORDS_MAX),
        ("reason", WORDS_MAX),
        ("message", NOTE_MAX),
    ] {
        let text = event.text(key);
        if text.is_empty() && key != "message" {
            causes.push(Cause::required(key, ""));
        }
        if text.len() > most {
            let why = format!("can have at most {most} characters");
            causes.push(Cause::invalid(key, &"".into(), &why));
        }
    }
}

fn series(event: &FieldValue, causes: &mut Causes) {
    causes.below(event, "series", |causes, series| {
        if series.number("count") < 2 {
            let field = series.path_of("count");
            causes.push(Cause::invalid(&field, &"".into(), "should be at least 2"));
        }
        causes.required(series, "lastObservedTime");
    });
}
