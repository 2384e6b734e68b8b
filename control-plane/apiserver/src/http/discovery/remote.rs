//! The versions of groups that other servers serve, in discovery. As in Kubernetes, groups and
//! their versions are in the order of their priorities, whoever serves them.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;

use machinery::{name, object};
use serde_json::{Value, json};

use super::documents::{
    AllGroups, Group, GroupList, GroupVersion, Part, ResponseKind, WholeGroup, WholeResource,
    WholeVersion,
};
use crate::http::aggregation::Remote;
use crate::registry::api_service::{GROUP, version_priority};
use crate::resources::catalogue::Catalogue;

/// The priorities of groups, and of versions within their groups.
struct Priorities<'a> {
    groups: HashMap<&'a str, i64>,
    versions: HashMap<(&'a str, &'a str), i64>,
}

/// Adds them to `GET /apis` in the old form. As in Kubernetes, of two groups with one priority the
/// names of their APIServices decide here, which begin with the version.
pub(crate) fn add_groups(list: &mut GroupList, catalogue: &Catalogue, all: &[Remote]) {
    let priorities = Priorities::of(catalogue, all);
    for one in all {
        match list.groups.iter_mut().find(|group| group.name == one.group) {
            Some(group) => priorities.add(group, one),
            None => list.groups.push(group_of(one)),
        }
    }
    list.groups.sort_by_cached_key(|group| {
        let versions = group.versions.iter();
        let services = versions.map(|one| format!("{}.{}", one.version, group.name));
        (Reverse(priorities.rank(&group.name)), services.min())
    });
}

/// Adds them to `GET /apis/{group}`; `None` if nobody serves the group.
pub(crate) fn with_versions(
    ours: Option<Group>,
    group: &str,
    catalogue: &Catalogue,
    all: &[Remote],
) -> Option<Group> {
    let priorities = Priorities::of(catalogue, all);
    let mut found = ours;
    for one in all.iter().filter(|one| one.group == group) {
        match &mut found {
            Some(group) => priorities.add(group, one),
            None => found = Some(group_of(one)),
        }
    }
    found.map(Group::alone)
}

/// Adds them to `GET /apis` in the new form. A version whose resources were never seen is stale: of
/// one that is left out, clients believe that it has none.
pub(crate) fn add_aggregated(list: &mut AllGroups, catalogue: &Catalogue, all: &[Remote]) {
    let priorities = Priorities::of(catalogue, all);
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
            Some(group) => {
                let versions = group.versions.iter().map(|has| &*has.version);
                let at = priorities.place(one, versions);
                group.versions.insert(at, version);
            }
            None => list
                .content
                .items
                .push(WholeGroup::new(&one.group, vec![version])),
        }
    }
    // Without others, the groups are in their order.
    if !all.is_empty() {
        list.content.items.sort_by_cached_key(|group| {
            let name = group.metadata.name.clone();
            (Reverse(priorities.rank(&name)), name)
        });
    }
}

impl<'a> Priorities<'a> {
    /// Those of all groups: each is as important as its most important version.
    fn of(catalogue: &'a Catalogue, all: &'a [Remote]) -> Priorities<'a> {
        let ours = catalogue.resources().iter().map(|one| {
            let (group, version) = (one.kind.priority(), version_priority(one));
            let names = (one.kind.group(), one.kind.version());
            (names, i64::from(group), i64::from(version))
        });
        let theirs = all.iter().map(|one| {
            let names = (one.group.as_str(), one.version.as_str());
            (names, one.group_priority, one.version_priority)
        });
        let (mut groups, mut versions) = (HashMap::new(), HashMap::new());
        for (names, of_group, of_version) in ours.chain(theirs) {
            let known = groups.entry(names.0).or_insert(of_group);
            *known = of_group.max(*known);
            versions.insert(names, of_version);
        }
        Priorities { groups, versions }
    }

    /// Adds a version to its group. The first one is preferred.
    fn add(&self, group: &mut Group, one: &Remote) {
        let versions = group.versions.iter().map(|has| &*has.version);
        let at = self.place(one, versions);
        let version = GroupVersion::new(&one.group, &one.version);
        if at == 0 {
            group.preferred_version = version.clone();
        }
        group.versions.insert(at, version);
    }

    /// The place of a version among those of its group. Of two with one priority, the newer comes
    /// first.
    fn place<'b>(&self, one: &Remote, versions: impl Iterator<Item = &'b str>) -> usize {
        let before = versions.take_while(|has| {
            let priority = self.versions.get(&(one.group.as_str(), *has));
            let by_priority = priority.cmp(&Some(&one.version_priority));
            let ordered = by_priority.then_with(|| name::compare_versions(has, &one.version));
            ordered.is_gt()
        });
        before.count()
    }

    /// The rank of a group; the greater, the earlier. As in Kubernetes, that of APIServices itself
    /// is the first.
    fn rank(&self, group: &str) -> (bool, Option<i64>) {
        (group == GROUP, self.groups.get(group).copied())
    }
}

/// The group of a version of another server, with that version.
fn group_of(one: &Remote) -> Group {
    Group::new(&one.group, GroupVersion::new(&one.group, &one.version))
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
