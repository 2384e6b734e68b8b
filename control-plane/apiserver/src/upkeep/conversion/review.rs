//! What a conversion webhook is asked, and what it answers.

use machinery::object;
use machinery::schema::split_api_version;
use machinery::status::{Cause, told_together};
use serde_json::{Map, Value, json};

use crate::basics::clock;
use crate::validate;

/// The versions of reviews.
const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
const REVIEW: &str = "ConversionReview";

/// A review on its way to a webhook.
pub(super) struct Question {
    version: &'static str,
    uid: String,
    /// The `apiVersion` that the objects are to have.
    wanted: String,
    pub(super) review: Value,
}

/// The first version of reviews of a definition that is known here.
pub(super) fn version(versions: &[Value]) -> Option<&'static str> {
    versions.iter().find_map(|version| match version.as_str()? {
        "v1" => Some(V1),
        "v1beta1" => Some(V1BETA1),
        _ => None,
    })
}

/// What messages say that objects are: the type of the first.
pub(super) fn subject(objects: &[&Value]) -> String {
    let Some(first) = objects.first() else {
        return String::new();
    };
    shown_type(object::api_version(first), object::kind(first))
}

impl Question {
    /// Asks for objects in the wanted `apiVersion`.
    pub(super) fn new(version: &'static str, objects: &[&Value], wanted: &str) -> Question {
        let uid = clock::uid();
        let request = json!({"uid": uid, "desiredAPIVersion": wanted, "objects": objects});
        Question {
            version,
            uid,
            wanted: wanted.to_owned(),
            review: json!({"kind": REVIEW, "apiVersion": version, "request": request}),
        }
    }

    /// Reads the answer about these objects; the error is Kubernetes' message.
    pub(super) fn read(&self, objects: &[&Value], review: Value) -> Result<Vec<Value>, String> {
        let subject = format!("conversion webhook for {}", subject(objects));
        let converted = self.converted(review);
        let converted = converted.map_err(|why| format!("{subject} failed: {why}"))?;
        if converted.len() != objects.len() {
            let (given, expected) = (converted.len(), objects.len());
            return Err(format!(
                "{subject} returned {given} objects, expected {expected}"
            ));
        }
        let alone = objects.len() == 1;
        let pairs = objects.iter().zip(converted).enumerate();
        pairs
            .map(|(at, (original, mut one))| {
                let invalid = |what: &str, why: String| match what {
                    // Kubernetes names a single object in another way.
                    "type" if alone => {
                        format!("{subject} returned invalid object at index 0: {why}")
                    }
                    "object" if alone => format!("{subject} returned invalid object: {why}"),
                    "metadata" if alone => format!("{subject} returned invalid metadata: {why}"),
                    "decoding" if alone => why,
                    "metadata" => {
                        format!(
                            "{subject} returned invalid metadata in object at index {at}: {why}"
                        )
                    }
                    _ => {
                        format!("{subject} returned invalid converted object at index {at}: {why}")
                    }
                };
                check_decoded(&one).map_err(|why| invalid("decoding", why))?;
                self.check_type(original, &one)
                    .map_err(|why| invalid("type", why))?;
                check_identity(original, &one).map_err(|why| invalid("object", why))?;
                restore_metadata(original, &mut one).map_err(|why| invalid("metadata", why))?;
                Ok(one)
            })
            .collect()
    }

    /// The objects of an answer that reports success.
    fn converted(&self, mut review: Value) -> Result<Vec<Value>, String> {
        let given = (object::api_version(&review), object::kind(&review));
        // Reviews of the first version were never checked.
        let strict = self.version == V1;
        if strict && given != (V1, REVIEW) {
            return Err(format!(
                "expected webhook response of {}, got {}",
                shown_type(V1, REVIEW),
                shown_type(given.0, given.1)
            ));
        }
        let response = review.get_mut("response").map(Value::take);
        let mut response = response.unwrap_or_default();
        if !response.is_object() {
            return Err("no response provided".into());
        }
        let uid = object::text(&response, &["uid"]);
        if strict && uid != self.uid {
            return Err(format!("expected response.uid={:?}, got {uid:?}", self.uid));
        }
        match object::text(&response, &["result", "status"]) {
            "Success" => {}
            status => {
                return Err(match object::text(&response, &["result", "message"]) {
                    "" => format!("response.result.status was '{status}', not 'Success'"),
                    message => message.to_owned(),
                });
            }
        }
        Ok(match response["convertedObjects"].take() {
            Value::Array(objects) => objects,
            _ => Vec::new(),
        })
    }

    fn check_type(&self, original: &Value, converted: &Value) -> Result<(), String> {
        let version = object::api_version(converted);
        if version != self.wanted {
            let wanted = &self.wanted;
            return Err(format!(
                "invalid groupVersion (expected {wanted}, received {version})"
            ));
        }
        let (expected, given) = (object::kind(original), object::kind(converted));
        if expected != given {
            return Err(format!(
                "invalid kind (expected {expected}, received {given})"
            ));
        }
        Ok(())
    }
}

/// What is no object is refused as Kubernetes' decoder does.
fn check_decoded(object: &Value) -> Result<(), String> {
    if object::kind(object).is_empty() {
        return Err(format!("Object 'Kind' is missing in '{object}'"));
    }
    Ok(())
}

/// A conversion keeps name, namespace and uid.
fn check_identity(original: &Value, converted: &Value) -> Result<(), String> {
    for (what, of) in [
        ("name", object::name as fn(&Value) -> &str),
        ("namespace", object::namespace),
        ("UID", object::uid),
    ] {
        let (expected, given) = (of(original), of(converted));
        if expected != given {
            return Err(format!("must have the same {what}: {expected} != {given}"));
        }
    }
    Ok(())
}

/// Restores the metadata of the original. A conversion may change labels and annotations alone.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let given = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".into()),
        Some(Value::Object(given)) => given,
        Some(other) => {
            let found = go_type(&other);
            return Err(format!(
                "invalid metadata of type {found} in converted object"
            ));
        }
    };
    let mut metadata = object::metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        let map = match given.get(field) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(map)) => map,
            Some(other) => {
                let found = go_type(other);
                return Err(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                ));
            }
        };
        if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
            let found = go_type(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        if before.as_ref().and_then(Value::as_object) != Some(map) {
            check_map(field, map)?;
        }
        metadata.insert(field.to_owned(), Value::Object(map.clone()));
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

fn check_map(field: &str, map: &Map<String, Value>) -> Result<(), String> {
    let causes = match field {
        "labels" => validate::labels("metadata.labels", Some(map)),
        _ => validate::annotations("metadata.annotation", Some(map)),
    };
    let causes = Vec::<Cause>::from(causes);
    if causes.is_empty() {
        Ok(())
    } else {
        Err(told_together(&causes))
    }
}

fn shown_type(api_version: &str, kind: &str) -> String {
    let (group, version) = split_api_version(api_version);
    format!("{group}/{version}, Kind={kind}")
}

/// Go's name for the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
