//! The messages of Kubernetes' store for an object that is not the one that a request expects.

/// What all keys of the store begin with.
const PREFIX: &str = "/registry";

/// A key as an error tells it: a dry run ends before Kubernetes' store adds its prefix.
pub(crate) fn told_key(key: &str, dry: bool) -> &str {
    let without = key.strip_prefix(PREFIX).filter(|_| dry);
    without.unwrap_or(key)
}

/// The message of Kubernetes' store for an object other than the expected one.
pub(crate) fn precondition_failed(key: &str, what: &str, asked: &str, has: &str) -> String {
    format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: {}",
        precondition(what, asked, has)
    )
}

/// What differs from the expectation of a request.
pub(crate) fn precondition(what: &str, asked: &str, has: &str) -> String {
    format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {has}")
}
