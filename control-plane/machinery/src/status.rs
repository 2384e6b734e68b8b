//! The API's errors: Status objects with the reasons and messages that clients check.

mod cause;
mod errors;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use cause::{Cause, told_together};

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; may be empty.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
    /// The object or request that the error is about.
    ///
    /// Boxed, because results carry errors by value.
    pub details: Box<Details>,
    /// `metadata.continue` of an expired list, where the client can continue; may be empty.
    pub resume: Box<str>,
    /// `metadata`, `reason` and `details` of a Status that another server wrote, as they are.
    pub relayed: Option<Box<Map<String, Value>>>,
    /// The store may have carried out the write although it failed. Clients do not see this.
    pub may_be_written: bool,
}

/// The object or request that an error is about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The object's group.
    pub group: String,
    /// Its resource, or its kind for [`Status::invalid`].
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The single errors.
    pub causes: Vec<Cause>,
    /// Seconds to wait before a retry; 0 means not set.
    pub retry_after_seconds: u32,
    /// Write `details` even when all of it is empty, as Go's HTTP layer does.
    pub shown: bool,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    /// An error with this code, reason and message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            resume: Box::default(),
            relayed: None,
            may_be_written: false,
        }
    }

    /// An error that another server found, with this code and message, and the reason and the
    /// details of the other's Status. They may be any.
    pub fn relayed(code: u16, message: &str, status: &Value) -> Status {
        let kept = ["metadata", "reason", "details"]
            .into_iter()
            .filter_map(|key| {
                let value = status.get(key).filter(|value| !value.is_null())?;
                Some((key.to_owned(), value.clone()))
            });
        let mut relayed = Status::new(code, "", message);
        relayed.relayed = Some(Box::new(kept.collect()));
        let seconds = status
            .pointer("/details/retryAfterSeconds")
            .and_then(Value::as_u64);
        let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
        relayed.details.retry_after_seconds = seconds.unwrap_or_default();
        relayed
    }

    /// True if a request was refused because the object is another, or has another version, than it
    /// expected. A conflict without these words is of another one who refuses, such as a webhook.
    pub fn is_of_another(&self) -> bool {
        const SAID: [&str; 2] = ["in the precondition", "in precondition: "];
        self.reason == "Conflict" && SAID.iter().any(|said| self.message.contains(*said))
    }

    /// The Status object for the response body.
    pub fn to_object(&self) -> Value {
        let mut object = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            object["reason"] = self.reason.into();
        }
        if *self.details != Details::default() {
            object["details"] = self.details.to_object();
        }
        if !self.resume.is_empty() {
            object["metadata"]["continue"] = (*self.resume).into();
        }
        object["code"] = self.code.into();
        for (key, value) in self.relayed.iter().flat_map(|relayed| relayed.iter()) {
            object[key] = value.clone();
        }
        object
    }
}

impl Details {
    fn to_object(&self) -> Value {
        let mut details = json!({});
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        for (key, text) in texts {
            if !text.is_empty() {
                details[key] = text.as_str().into();
            }
        }
        if !self.causes.is_empty() {
            details["causes"] = self.causes.iter().map(Cause::to_object).collect();
        }
        if self.retry_after_seconds > 0 {
            details["retryAfterSeconds"] = self.retry_after_seconds.into();
        }
        details
    }
}

/// The response to a call that succeeded and has no object to return.
pub fn success(group: &str, resource: &str, name: &str, uid: &str) -> Value {
    let details = Details {
        name: name.into(),
        group: group.into(),
        kind: resource.into(),
        uid: uid.into(),
        ..Details::default()
    };
    let mut object = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
    });
    if details != Details::default() {
        object["details"] = details.to_object();
    }
    object
}
