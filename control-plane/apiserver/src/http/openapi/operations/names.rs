//! How operations name groups and kinds.

use std::borrow::Cow;

use machinery::schema::Kind;

use crate::http::openapi::capital;

pub(super) fn tag_of(kind: &Kind) -> String {
    format!("{}_{}", group_of(kind), kind.version())
}

/// A group as the names of operations have it: `rbac.authorization.k8s.io` is `rbacAuthorization`.
pub(super) fn group_of(kind: &Kind) -> String {
    named_group(kind.group())
}

/// The same by the group's name.
pub(in crate::http::openapi) fn named_group(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let words = group.trim_end_matches(".k8s.io").split('.').enumerate();
    let words = words.map(|(at, word)| match at {
        0 => Cow::Borrowed(word),
        _ => Cow::Owned(capital(word)),
    });
    words.collect()
}

/// A kind with its indefinite article. Plurals, such as `Endpoints`, have none.
pub(super) fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let first = kind.to_ascii_lowercase();
    if first.starts_with(['a', 'e', 'i', 'o', 'u']) {
        format!("an {kind}")
    } else {
        format!("a {kind}")
    }
}
