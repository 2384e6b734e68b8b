//! The versions of groups that other servers serve, in discovery. Of a group that this server
//! serves, too, they come after its own; the groups are in the order of their priorities, whoever
//! serves them.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;

use machinery::object;
use serde_json::{Value, json};

use super::documents::{
    AllGroups, Group, GroupList, GroupVersion, Part, ResponseKind, WholeGroup, WholeResource,
    WholeVersion,
};
use crate::http::aggregation::Remote;
use crate::registry::api_service::GROUP;
use crate::resources::catalogue::Catalogue;

/// The priorities of groups.
struct Priorities<'a>(HashMap<&'a str, i64>);

/// Adds them to `GET /apis` in the old form. As in Kubernetes, of two groups with one priority the
/// names of their APIServices decide here, which begin with the version.
pub(crate) fn add_groups(list: &mut GroupList, catalogue: &Catalogue, all: &[Remote]) {
    for one in all {
        let version = GroupVersion::new(&one.group, &one.version);
        match list.groups.iter_mut().find(|group| group.name == one.group) {
            Some(group) => group.versions.push(version),
            None => list.groups.push(Group::new(&one.group, version)),
        }
    }
    let priorities = Priorities::of(catalogue, all);
    list.groups.sort_by_cached_key(|group| {
        let versions = group.versions.iter();
        let services = versions.map(|one| format!("{}.{}", one.version, group.name));
        (Reverse(priorities.rank(&group.name)), services.min())
    });
}

/// Adds them to `GET /apis/{group}`; `None` if nobody serves the group.
pub(crate) fn with_versions(ours: Option<Group>, group: &str, all: &[Remote]) -> Option<Group> {
    let mut found = ours;
    for one in all.iter().filter(|one| one.group == group) {
        let version = GroupVersion::new(&one.group, &one.version);
        match &mut found {
            Some(group) => group.versions.push(version),
            None => found = Some(Group::new(&one.group, version)),
        }
    }
    found.map(Group::alone)
}

/// Adds them to `GET /apis` in the new form. A version whose resources were never seen is stale: of
/// one that is left out, clients believe that it has none.
pub(crate) fn add_aggregated(list: &mut AllGroups, catalogue: &Catalogue, all: &[Remote]) {
    for one in all {
        let (resources, is_fresh) = match &one.resources {
            Some((resources, is_fresh)) => (aggregated(resources), *is_fresh),
            None => (Vec::new(), false),
        };
        let version = WholeVersion {
            version: one.version.clone(),
            resources,
            freshness: if is_fresh && one.is_available {
                "Current"
            } else {
                "Stale"
            },
        };
        let mut groups = list.content.items.iter_mut();
        match groups.find(|group| group.metadata.name == one.group) {
            Some(group) => group.versions.push(version),
            None => list
                .content
                .items
                .push(WholeGroup::new(&one.group, vec![version])),
        }
    }
    // Without others, the groups are in their order.
    if !all.is_empty() {
        let priorities = Priorities::of(catalogue, all);
        list.content.items.sort_by_cached_key(|group| {
            let name = group.metadata.name.clone();
            (Reverse(priorities.rank(&name)), name)
        });
    }
}

impl<'a> Priorities<'a> {
    /// Those of all groups: each is as important as its most important version.
    fn of(catalogue: &'a Catalogue, all: &'a [Remote]) -> Priorities<'a> {
        let ours = catalogue.resources().iter().map(|one| &one.kind);
        let ours = ours.map(|kind| (kind.group(), i64::from(kind.priority())));
        let theirs = all
            .iter()
            .map(|one| (one.group.as_str(), one.group_priority));
        let mut priorities = HashMap::new();
        for (group, priority) in ours.chain(theirs) {
            let known = priorities.entry(group).or_insert(priority);
            *known = priority.max(*known);
        }
        Priorities(priorities)
    }

    /// The rank of a group; the greater, the earlier. As in Kubernetes, that of APIServices itself
    /// is the first.
    fn rank(&self, group: &str) -> (bool, Option<i64>) {
        (group == GROUP, self.0.get(group).copied())
    }
}

/// Adds their documents to the index of OpenAPI v3.
pub(crate) fn add_documents(index: &mut Value, all: &[Remote]) {
    for one in all.iter().filter(|one| one.is_available) {
        if let Some(url) = &one.document {
            let place = format!("apis/{}/{}", one.group, one.version);
            index["paths"][place] = json!({"serverRelativeURL": url});
        }
    }
}

/// A list of resources of the old form in the new one, in which subresources are parts. As in
/// Kubernetes, one whose resource is not listed gets a resource without verbs around it: custom
/// metrics are listed so.
fn aggregated(list: &Value) -> Vec<WholeResource> {
    let all = object::items(list, &["resources"]).iter();
    let all = all.map(|one| (object::text(one, &["name"]), one));
    let (parts, whole): (Vec<_>, Vec<_>) = all.partition(|(name, _)| name.contains('/'));
    let mut resources: Vec<WholeResource> = Vec::new();
    let mut places = HashMap::new();
    for (name, resource) in whole {
        places.insert(name, resources.len());
        resources.push(WholeResource {
            response_kind: response_kind(resource),
            singular_resource: object::text(resource, &["singularName"]).to_owned(),
            verbs: texts(resource, "verbs"),
            short_names: texts(resource, "shortNames"),
            categories: texts(resource, "categories"),
            ..unlisted(name, resource)
        });
    }
    for (name, part) in parts {
        let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
        let at = *places.entry(plural).or_insert_with(|| {
            resources.push(unlisted(plural, part));
            resources.len() - 1
        });
        resources[at].subresources.push(Part {
            subresource: subresource.to_owned(),
            response_kind: response_kind(part),
            verbs: texts(part, "verbs"),
        });
    }
    resources
}

/// A resource about which no more is known than its name and scope.
fn unlisted(name: &str, entry: &Value) -> WholeResource {
    let is_namespaced = entry["namespaced"] == true;
    WholeResource {
        resource: name.to_owned(),
        response_kind: response_kind(&Value::Null),
        scope: if is_namespaced {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: String::new(),
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    }
}

fn response_kind(entry: &Value) -> ResponseKind {
    let text = |key: &str| object::text(entry, &[key]).to_owned();
    ResponseKind {
        group: text("group"),
        version: text("version"),
        kind: text("kind"),
    }
}

fn texts(entry: &Value, key: &str) -> Vec<String> {
    let all = object::items(entry, &[key]).iter();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}
