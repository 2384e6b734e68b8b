//! The names of resources in a configuration.

use std::fmt;

use machinery::status::Cause;
use serde_json::json;

/// Kubernetes' stores that no REST path serves.
const WITHOUT_REST: [&str; 3] = [
    "apiserveripinfo",
    "serviceipallocations",
    "servicenodeportallocations",
];

/// A resource of a group, or `*` for all of them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupResource {
    group: String,
    resource: String,
}

impl GroupResource {
    pub(crate) fn new(group: &str, resource: &str) -> GroupResource {
        GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    /// `resource` of the core group, `resource.group`, or with `*` for either part.
    pub(crate) fn parse(text: &str) -> GroupResource {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource::new(group, resource)
    }

    /// Everything.
    pub(crate) fn all() -> GroupResource {
        GroupResource::new("*", "*")
    }

    /// Everything of the same group.
    pub(crate) fn all_of_group(&self) -> GroupResource {
        GroupResource::new(&self.group, "*")
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group.as_str(), self.resource.as_str()) {
            ("", "*") => f.write_str("*."),
            ("", resource) => f.write_str(resource),
            (group, resource) => write!(f, "{resource}.{group}"),
        }
    }
}

/// Parses and validates the resources of one entry.
pub(crate) fn read(names: &[String], field: &str, causes: &mut Vec<Cause>) -> Vec<GroupResource> {
    if names.is_empty() {
        let why = format!("at least one {field} is required");
        causes.push(Cause::required(field, &why));
    }
    let resources: Vec<_> = names.iter().map(|one| GroupResource::parse(one)).collect();
    check_overlap(names, &resources, field, causes);
    for (at, (name, resource)) in names.iter().zip(&resources).enumerate() {
        if let Some(why) = misnamed(name, resource) {
            let field = format!("{field}[{at}]");
            causes.push(Cause::invalid(&field, &name.as_str().into(), why));
        }
    }
    resources
}

fn check_overlap(
    names: &[String],
    resources: &[GroupResource],
    field: &str,
    causes: &mut Vec<Cause>,
) {
    let (mut is_duplicate, mut overlaps) = (false, false);
    for (at, one) in resources.iter().enumerate() {
        for (_, other) in resources.iter().enumerate().filter(|(i, _)| *i != at) {
            if one == other {
                is_duplicate = true;
                continue;
            }
            let wild = one.resource == "*" || other.resource == "*";
            overlaps |= *one == GroupResource::all() || one.group == other.group && wild;
        }
    }
    if is_duplicate {
        let why = "the same resource cannot be specified multiple times";
        causes.push(Cause::invalid(field, &json!(names), why));
    }
    if overlaps {
        let why = "using overlapping resources such as 'secrets' and '*.' in the same resource \
                   list is not allowed as they will be masked";
        causes.push(Cause::invalid(field, &json!(names), why));
    }
}

/// Why a resource cannot be named so.
fn misnamed(name: &str, parsed: &GroupResource) -> Option<&'static str> {
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    if name == "*" {
        return Some(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all \
             resources",
        );
    }
    if WITHOUT_REST.contains(&name) {
        return Some("resources which do not have REST API/s cannot be encrypted");
    }
    match (parsed.group.as_str(), parsed.resource.as_str()) {
        ("events.k8s.io", _) => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use \
             'events' instead in the config file",
        ),
        ("extensions", _) => {
            Some("'extensions' group has been removed and cannot be used for encryption")
        }
        ("*", resource) if resource != "*" => {
            Some("encrypting the same resource across groups is not supported")
        }
        _ => None,
    }
}
