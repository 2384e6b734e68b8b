//! The way from client-side apply to server-side apply: kubectl keeps the configuration that it
//! applied last in an annotation.

use serde_json::Value;

use super::Write;
use crate::edit::apply::Error;
use crate::edit::apply::check::check;
use crate::edit::apply::compare::compare;
use crate::edit::apply::fields::Set;
use crate::edit::apply::managers::Managers;
use crate::edit::apply::prune::fields_of;
use crate::object;
use crate::values::go_json;

/// The manager that the annotation belongs to.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Upper bound of all annotations of an object, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// Applies a configuration. A conflict about a field that client-side apply set is none, and the
/// annotation follows what is applied.
pub(super) fn apply(
    write: &Write<'_>,
    live: &Value,
    config: &Value,
    managers: &Managers,
    force: bool,
) -> Result<Value, Error> {
    let applied = write.attempt(live, config, managers, force);
    if write.manager != KUBECTL {
        return applied;
    }
    let mut object = match applied {
        Err(Error::Conflicts(conflicts)) => {
            let Some(allowed) = set_by_client(write, live) else {
                return Err(Error::Conflicts(conflicts));
            };
            let conflicts = conflicts.without(&allowed);
            if !conflicts.is_empty() {
                return Err(Error::Conflicts(conflicts));
            }
            write.attempt(live, config, managers, true)?
        }
        other => other?,
    };
    if object::annotation(&object, ANNOTATION).is_some_and(|text| !text.is_empty()) {
        annotate(&mut object, config);
    }
    Ok(object)
}

/// The fields that client-side apply set and nobody changed since; `None` if it never did.
fn set_by_client(write: &Write<'_>, live: &Value) -> Option<Set> {
    let text = object::annotation(live, ANNOTATION).filter(|text| !text.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    if object::api_version(&last) != write.api_version {
        return None;
    }
    let typing = write.versions.typing(write.api_version)?;
    check(typing, live, false).ok()?;
    check(typing, &last, false).ok()?;
    let set = fields_of(typing, &last).ok()?;
    let found = compare(typing, &last, live).ok()?;
    let set = set.difference(&found.modified);
    Some(set.difference(&found.added).difference(&found.removed))
}

fn annotate(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    object::remove(&mut config, &["metadata", "annotations", ANNOTATION]);
    // Go ends what it encodes with a line feed.
    let text = go_json::escaped(config.to_string()) + "\n";
    let path = ["metadata", "annotations", ANNOTATION];
    object::set(object, &path, text.into());
    let all = object::annotations(object).into_iter().flatten();
    let bytes: usize = all
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        object::remove(object, &path);
    }
}
