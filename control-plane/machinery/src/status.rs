//! The API's errors: Status objects with the reasons and messages that clients check.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

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

/// One error of several.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The field, such as `spec.replicas`; may be empty.
    pub field: String,
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

impl Cause {
    fn to_object(&self) -> Value {
        let mut cause = json!({});
        let texts = [
            ("reason", self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ];
        for (key, text) in texts {
            if !text.is_empty() {
                cause[key] = text.into();
            }
        }
        cause
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

/// Constructors, one for each error.
impl Status {
    /// The object does not exist.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Status::new(404, "NotFound", message).about(group, resource, name)
    }

    /// No such resource is served.
    pub fn unknown_path() -> Status {
        Status::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .generic()
    }

    /// An object with this name exists.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Status::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// The operation conflicts with another.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Status {
        let resource_in_group = qualified(group, resource);
        let message =
            format!("Operation cannot be fulfilled on {resource_in_group} {name:?}: {why}");
        Status::new(409, "Conflict", message).about(group, resource, name)
    }

    /// The object changed since the caller read it.
    pub fn stale(group: &str, resource: &str, name: &str) -> Status {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(group, resource, name, why)
    }

    /// The request itself is wrong.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    /// No credentials, or a bad token.
    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    /// Not allowed; `why` is the end of the message.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Status {
        let subject = qualified(group, resource);
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{subject} is forbidden: {why}"),
            _ => format!("{subject} {name:?} is forbidden: {why}"),
        };
        let mut status = Status::new(403, "Forbidden", message).about(group, resource, name);
        status.details.shown = true;
        status
    }

    /// The namespace of a new object is being deleted.
    pub fn namespace_terminating(group: &str, resource: &str, name: &str, ns: &str) -> Status {
        let why = format!(
            "unable to create new content in namespace {ns} because it is being terminated"
        );
        let message = format!("namespace {ns} is being terminated");
        let mut status = Status::forbidden(group, resource, name, &why);
        status.details.causes.push(Cause {
            reason: "NamespaceTerminating",
            message,
            field: "metadata.namespace".into(),
        });
        status
    }

    /// The object violates the rules of its kind.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Status {
        let errors = told_together(&causes);
        let kind_in_group = qualified(group, kind);
        let message = format!("{kind_in_group} {name:?} is invalid: {errors}");
        let mut status = Status::new(422, "Invalid", message).about(group, kind, name);
        status.details.causes = causes;
        status.details.shown = true;
        status
    }

    /// An eviction would break a disruption budget.
    pub fn disruption_budget(budget: &str, healthy: i64, desired: i64) -> Status {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut status = Status::new(429, "TooManyRequests", text);
        status.details.causes.push(Cause {
            reason: "DisruptionBudget",
            message: format!(
                "The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
            ),
            field: String::new(),
        });
        status
    }

    /// Too many requests; retry after the given seconds.
    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Status {
        let mut status = Status::new(429, "TooManyRequests", message);
        status.details.retry_after_seconds = retry_after_seconds;
        status
    }

    /// The requested resource version is newer than the store's.
    pub fn future_version(asked: i64, current: i64) -> Status {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut status = Status::new(504, "Timeout", format!("Timeout: {message}"));
        status.details.retry_after_seconds = 1;
        status.details.causes.push(Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        });
        status
    }

    /// The requested resource version is compacted.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }

    /// The body's media type is not supported.
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::new(415, "UnsupportedMediaType", message)
    }

    /// The media type is not one of a patch.
    pub fn unsupported_patch() -> Status {
        let text = "415: Unsupported Media Type";
        Status::new(415, "UnsupportedMediaType", text).generic()
    }

    /// A patch does not fit the object. Go gives no reason.
    pub fn unprocessable() -> Status {
        let message = "the server rejected our request due to an error in our request";
        Status::new(422, "Invalid", message).generic()
    }

    /// The client accepts none of the available media types.
    pub fn none_acceptable(there_are: &[&str]) -> Status {
        let list = there_are.join(", ");
        let message = format!("406: Not Acceptable\n\nAvailable representations: {list}");
        Status::new(406, "NotAcceptable", message).generic()
    }

    /// The media type is available, but not in the form the client accepts.
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let message = format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        );
        Status::new(406, "NotAcceptable", message)
    }

    /// The resource does not support this verb.
    pub fn method_not_allowed() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::new(405, "MethodNotAllowed", message).generic()
    }

    /// The body is larger than the limit, in bytes.
    pub fn too_large(limit: usize) -> Status {
        let message = format!("Request entity too large: limit is {limit}");
        Status::new(413, "RequestEntityTooLarge", message)
    }

    /// The server failed.
    pub fn internal(why: &str) -> Status {
        let mut status = Status::new(
            500,
            "InternalError",
            format!("Internal error occurred: {why}"),
        );
        status.details.causes.push(Cause {
            reason: "",
            message: why.into(),
            field: String::new(),
        });
        status
    }

    /// The server could not finish in time; the client may retry after the given seconds.
    pub fn server_timeout(
        group: &str,
        resource: &str,
        verb: &str,
        retry_after_seconds: u32,
    ) -> Status {
        let subject = qualified(group, resource);
        let message = format!(
            "The {verb} operation against {subject} could not be completed at this time, please try again."
        );
        let mut status = Status::new(500, "ServerTimeout", message).about(group, resource, "");
        status.details.retry_after_seconds = retry_after_seconds;
        status
    }

    /// The server cannot answer at the moment.
    pub fn unavailable(why: impl Into<String>) -> Status {
        Status::new(503, "ServiceUnavailable", why)
    }

    /// Marks an error of Go's HTTP layer, which does not know objects.
    fn generic(mut self) -> Status {
        self.details.shown = true;
        self
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Status {
        self.details.group = group.into();
        self.details.kind = kind.into();
        self.details.name = name.into();
        self
    }
}

/// Validation errors, with the texts of Kubernetes' field errors.
impl Cause {
    /// A value that is not allowed. Texts are shown in quotes, other values as JSON.
    pub fn invalid(field: &str, value: &Value, why: &str) -> Cause {
        Cause::invalid_shown(field, &value.to_string(), why)
    }

    /// Like `invalid`, with the value already as text: Go shows a struct's fields in the order of
    /// their declaration. `why` may be empty.
    pub fn invalid_shown(field: &str, shown: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueInvalid",
            message: join(&format!("Invalid value: {shown}"), why),
            field: field.into(),
        }
    }

    /// Like `invalid`, about several fields, so that no value is shown.
    pub fn invalid_together(field: &str, why: &str) -> Cause {
        Cause::invalid_shown(field, why, "")
    }

    /// A required value is missing; `why` may be empty.
    pub fn required(field: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueRequired",
            message: join("Required value", why),
            field: field.into(),
        }
    }

    /// A value that must not be set; `why` may be empty.
    pub fn forbidden(field: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueForbidden",
            message: join("Forbidden", why),
            field: field.into(),
        }
    }

    /// A value that occurs twice.
    pub fn duplicate(field: &str, value: &Value) -> Cause {
        Cause::duplicate_shown(field, &value.to_string(), "")
    }

    /// Like `duplicate`, with the value already as text; `why` may be empty.
    pub fn duplicate_shown(field: &str, shown: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueDuplicate",
            message: join(&format!("Duplicate value: {shown}"), why),
            field: field.into(),
        }
    }

    /// A value that is not one of the supported ones.
    pub fn not_supported(field: &str, value: &Value, supported: &[&str]) -> Cause {
        Cause::not_supported_shown(field, &value.to_string(), supported)
    }

    /// Like `not_supported`, with the value already as text.
    pub fn not_supported_shown(field: &str, shown: &str, supported: &[&str]) -> Cause {
        let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        Cause {
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {shown}: supported values: {}",
                quoted.join(", ")
            ),
            field: field.into(),
        }
    }

    /// A reference to something that does not exist.
    pub fn not_found(field: &str, value: &Value) -> Cause {
        Cause {
            reason: "FieldValueNotFound",
            message: format!("Not found: {value}"),
            field: field.into(),
        }
    }

    /// A list with too many items.
    pub fn too_many(field: &str, has: usize, limit: usize) -> Cause {
        Cause {
            reason: "FieldValueTooMany",
            message: format!("Too many: {has}: must have at most {limit} items"),
            field: field.into(),
        }
    }

    /// A value longer than `limit` bytes.
    pub fn too_long(field: &str, limit: usize) -> Cause {
        Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {limit} bytes"),
            field: field.into(),
        }
    }
}

/// The errors joined into one text, without repetitions.
pub fn told_together(causes: &[Cause]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = match cause.field.as_str() {
            "" => cause.message.clone(),
            field => format!("{field}: {}", cause.message),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [text] => text.clone(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

fn join(what: &str, why: &str) -> String {
    match why {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    }
}

fn qualified(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}
