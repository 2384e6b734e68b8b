//! Paths of files in volumes.

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// A relative path below its start. Names that begin with `..` are reserved for the node.
pub(super) fn inside(at: &FieldValue, key: &str, causes: &mut Causes) {
    descending(at, key, causes);
    let path = at.text(key);
    if path.starts_with("..") && !path.starts_with("../") {
        causes.wrong(at, key, "must not start with '..'");
    }
}

/// A relative path below its start.
pub(super) fn descending(at: &FieldValue, key: &str, causes: &mut Causes) {
    if at.text(key).starts_with('/') {
        causes.wrong(at, key, "must be a relative path");
    }
    no_way_up(at, key, causes);
}

/// A path without `..`.
pub(super) fn no_way_up(at: &FieldValue, key: &str, causes: &mut Causes) {
    if leads_up(at.text(key)) {
        causes.wrong(at, key, "must not contain '..'");
    }
}

pub(super) fn leads_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
