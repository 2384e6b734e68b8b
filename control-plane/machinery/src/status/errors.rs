//! The errors that the API answers with, with the texts of Kubernetes.

use super::Status;
use super::cause::{Cause, told_together};

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

    /// An eviction would break a disruption budget; `why` is the cause.
    pub fn disruption_budget(why: String) -> Status {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut status = Status::new(429, "TooManyRequests", text);
        status.details.causes.push(Cause {
            reason: "DisruptionBudget",
            message: why,
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

fn qualified(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}
