//! The attributes of a request for authorization, from its method, path and query, by the rules of
//! Kubernetes' RequestInfo.
//!
//! The router takes its target from the same result, so the authorized object is the served one.

#[cfg(test)]
mod tests;

use http::Method;
use machinery::selector::{FieldSelector, LabelSelector};

use super::Query;
use crate::auth::Attributes;

/// Verbs that a path may begin with, an older form of parameters.
const PATH_VERBS: [&str; 2] = ["proxy", "watch"];
/// Segments below a namespace that are its subresources, not resources in it.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// A request as authorization sees it, before authentication.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// All attributes except the user.
    pub(crate) attributes: Attributes,
    pub(crate) version: String,
    /// The name in the path. A list may be authorized by a name that only its selector has.
    pub(crate) name: String,
    /// True if the path itself asks for a watch.
    pub(crate) watch_path: bool,
    /// Number of segments after the subresource.
    pub(crate) deeper: usize,
}

impl Info {
    /// Reads a request; `path` is its decoded path, and `segments` are those of it.
    pub(crate) fn read(method: &Method, path: &str, segments: &[String], query: &Query) -> Info {
        let mut info = Info::default();
        info.attributes.path = path.to_owned();
        info.attributes.verb = method.as_str().to_ascii_lowercase();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, version, rest),
            _ => return info,
        };
        info.attributes.of_resource = true;
        info.attributes.api_group = group.to_owned();
        info.attributes.api_version = (*version).to_owned();
        info.version = (*version).to_owned();
        let (by_path, verb, rest) = match rest {
            [first, inner @ ..] if PATH_VERBS.contains(first) => (true, *first, inner),
            rest => (false, verb(method), rest),
        };
        if rest.is_empty() {
            return info;
        }
        info.attributes.verb = verb.to_owned();
        info.watch_path = by_path && verb == "watch";
        info.place(rest);
        if !by_path && info.name.is_empty() {
            info.select(query);
        }
        info
    }

    /// True if the request is about objects.
    pub(crate) fn is_resource(&self) -> bool {
        self.attributes.is_resource()
    }

    /// Reads what follows the version: `namespaces/{namespace}/{resource}/{name}/{subresource}`.
    fn place(&mut self, rest: &[&str]) {
        let asked = &mut self.attributes;
        let rest = match rest {
            ["namespaces", namespace, inner @ ..] => {
                asked.namespace = (*namespace).to_owned();
                match inner {
                    [] => rest,
                    [first, ..] if OF_NAMESPACES.contains(first) => rest,
                    inner => inner,
                }
            }
            rest => rest,
        };
        let word = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        asked.resource = word(0);
        asked.name = word(1);
        if asked.verb != "proxy" {
            asked.subresource = word(2);
        }
        self.name = asked.name.clone();
        self.deeper = rest.len().saturating_sub(3);
    }

    /// Changes the verb of a request without a name to that of a collection. A user who may see one
    /// object may also list and watch it by its name. For other verbs, a name in a selector has no
    /// meaning.
    fn select(&mut self, query: &Query) {
        let asked = &mut self.attributes;
        match asked.verb.as_str() {
            "delete" => {
                asked.verb = "deletecollection".into();
                asked.fields = selected_fields(query);
                asked.labels = selected_labels(query);
            }
            "get" => {
                let watch = query.flag("watch");
                asked.verb = if watch { "watch" } else { "list" }.into();
                asked.name = selected_name(query).unwrap_or_default();
                asked.fields = selected_fields(query);
                asked.labels = selected_labels(query);
            }
            _ => {}
        }
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The field selector of a request. An invalid one selects nothing in particular.
fn selected_fields(query: &Query) -> FieldSelector {
    FieldSelector::parse(query.text("fieldSelector")).unwrap_or_default()
}

/// The label selector of a request. An invalid one selects nothing in particular.
fn selected_labels(query: &Query) -> LabelSelector {
    LabelSelector::parse(query.text("labelSelector")).unwrap_or_default()
}

/// The only name that the parameters of a list select. Invalid parameters select no name.
fn selected_name(query: &Query) -> Option<String> {
    for key in ["limit", "timeoutSeconds"] {
        if let Some(number) = query.given(key) {
            number.parse::<i64>().ok()?;
        }
    }
    LabelSelector::parse(query.text("labelSelector")).ok()?;
    let fields = FieldSelector::parse(query.text("fieldSelector")).ok()?;
    let name = fields.exact("metadata.name")?;
    let segment = ![".", ".."].contains(&name) && !name.contains(['/', '%']);
    segment.then(|| name.to_owned())
}
