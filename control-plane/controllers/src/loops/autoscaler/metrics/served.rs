//! What discovery says of kinds and versions that metrics are about.

use machinery::schema::split_api_version;

use crate::kinds::Kinds;
use crate::loops::autoscaler::readings::CUSTOM;

/// The versions of the API for custom metrics that the loop knows.
const KNOWN: [&str; 2] = ["v1beta2", "v1beta1"];

/// The version in which custom metrics are read.
pub(super) fn version(kinds: &Kinds) -> Result<&str, String> {
    let versions = kinds.versions(CUSTOM);
    if versions.is_empty() {
        return Err(format!("no custom metrics API ({CUSTOM}) registered"));
    }
    let mut known = versions.iter().filter(|one| KNOWN.contains(&&***one));
    let first = known.next().map(String::as_str);
    first.ok_or_else(|| "no known available metric versions found".to_owned())
}

/// The group of an `apiVersion`.
pub(super) fn group(api_version: Option<&str>) -> &str {
    split_api_version(api_version.unwrap_or_default()).0
}

/// The plural of a kind, with its group.
pub(super) fn resource(kinds: &Kinds, group: &str, kind: &str) -> Result<String, String> {
    let with_group = |name: &str| match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    };
    match kinds.of_group(group, kind) {
        Some(found) => Ok(with_group(found.plural())),
        None => {
            let of = with_group(kind);
            Err(format!(
                "unable to map kind {of} to resource: no matches for kind {kind:?} in group \
                 {group:?}"
            ))
        }
    }
}
