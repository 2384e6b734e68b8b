//! What a webhook is asked, and what it answers.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use super::super::matching::Matched;
use super::super::{Attributes, request};
use crate::basics::clock;

/// The versions of reviews, the newest first.
pub(super) const V1: &str = "admission.k8s.io/v1";
pub(super) const V1BETA1: &str = "admission.k8s.io/v1beta1";

const JSON_PATCH: &str = "JSONPatch";

/// A review on its way to a webhook.
pub(super) struct Question {
    version: &'static str,
    uid: String,
    pub(super) review: Value,
}

/// A valid answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) warnings: Vec<String>,
    /// What the audit log is to say, by key.
    pub(super) annotations: Vec<(String, String)>,
    /// The status of a write that is refused, which may be null.
    pub(super) refusal: Option<Value>,
    /// A JSON patch; empty if the object stays.
    pub(super) patch: Vec<u8>,
}

impl Question {
    pub(super) fn new(
        version: &'static str,
        attributes: &Attributes<'_>,
        matched: &Matched,
        (shown, old): (&Value, Value),
    ) -> Question {
        let uid = clock::uid();
        let mut request = request::of(attributes, &matched.resource.kind);
        request["uid"] = uid.as_str().into();
        request["object"] = shown.clone();
        request["oldObject"] = old;
        Question {
            version,
            uid,
            review: json!({"kind": "AdmissionReview", "apiVersion": version, "request": request}),
        }
    }

    /// Reads the answer; the error says why it is invalid, in Kubernetes' words.
    pub(super) fn read(&self, review: &Value, mutates: bool) -> Result<Answer, String> {
        let response = review.get("response").filter(|one| one.is_object());
        let response = response.ok_or("webhook response was absent")?;
        let strict = self.version == V1;
        if strict {
            self.check_identity(review, response)?;
        }
        let given = |key: &str| response.get(key).filter(|value| !value.is_null());
        let patch = match given("patch") {
            None => Vec::new(),
            Some(patch) => {
                let text = patch.as_str().ok_or("response.patch is no text")?;
                STANDARD.decode(text).map_err(|error| error.to_string())?
            }
        };
        if strict {
            check_patch(&patch, given("patchType"), mutates)?;
        }
        let allowed = given("allowed") == Some(&Value::Bool(true));
        let warnings = object::items(response, &["warnings"]).iter();
        let annotations = given("auditAnnotations").and_then(Value::as_object);
        let annotations = annotations.into_iter().flatten();
        Ok(Answer {
            warnings: warnings
                .filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect(),
            annotations: annotations
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            refusal: (!allowed).then(|| given("status").cloned().unwrap_or_default()),
            patch: if mutates { patch } else { Vec::new() },
        })
    }

    fn check_identity(&self, review: &Value, response: &Value) -> Result<(), String> {
        let uid = object::text(response, &["uid"]);
        if uid != self.uid {
            return Err(format!("expected response.uid={:?}, got {uid:?}", self.uid));
        }
        let (version, kind) = (object::api_version(review), object::kind(review));
        if (version, kind) != (self.version, "AdmissionReview") {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            return Err(format!(
                "expected webhook response of {V1}, Kind=AdmissionReview, \
                 got {group}/{version}, Kind={kind}"
            ));
        }
        Ok(())
    }
}

/// Patch and type come together, and only from webhooks that may change objects.
fn check_patch(patch: &[u8], patch_type: Option<&Value>, mutates: bool) -> Result<(), String> {
    let why = match (patch.is_empty(), patch_type, mutates) {
        (false, _, false) => "validating webhook may not return response.patch",
        (true, Some(_), false) => "validating webhook may not return response.patchType",
        (false, None, true) => "webhook returned response.patch but not response.patchType",
        (true, Some(_), true) => "webhook returned response.patchType but not response.patch",
        (false, Some(given), true) if *given == "" => {
            "webhook returned invalid response.patchType of \"\""
        }
        (false, Some(given), true) if *given != JSON_PATCH => {
            return Err(format!("unsupported patch type {given}"));
        }
        _ => return Ok(()),
    };
    Err(why.into())
}

/// The error for a write that a webhook refuses, with the code and the reason of its status.
pub(super) fn refused(webhook: &str, status: &Value) -> Status {
    let text = |key: &str| object::text(status, &[key]);
    let refused = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{refused} without explanation"),
        ("", why) | (why, _) => format!("{refused}: {why}"),
    };
    let code = object::integer(status, &["code"]).filter(|code| *code >= 400);
    let code = code.and_then(|code| u16::try_from(code).ok());
    Status::relayed(code.unwrap_or(400), &message, status)
}
