//! Discovery in both of its forms: documents per group and version, and one document for all.

mod answer;
mod documents;
mod latest;
pub(crate) mod remote;

pub(crate) use answer::{Sources, answer};
pub(crate) use latest::Latest;

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::{name, schema};

use crate::resources::catalogue::{self, Catalogue};
use documents::{
    Address, AllGroups, CoreVersions, Empty, Group, GroupList, GroupVersion, Groups, Resource,
    ResourceList, WholeGroup, WholeResource, WholeVersion,
};

/// How much of a hash tells storage versions apart.
const HASH_BYTES: usize = 8;

/// Resources by group and version, in the order of discovery.
type ByVersion<'a> = HashMap<(&'a str, &'a str), Vec<&'a catalogue::Resource>>;

/// The groups in the order of discovery, each with its versions by preference.
pub(crate) fn versions_by_group(catalogue: &Catalogue) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for resource in catalogue.resources() {
        let kind = &resource.kind;
        let at = *places.entry(kind.group()).or_insert_with(|| {
            groups.push((kind.group(), Vec::new()));
            groups.len() - 1
        });
        let versions = &mut groups[at].1;
        if !versions.contains(&kind.version()) {
            versions.push(kind.version());
            // Each definition has its versions in order; those of another may belong between them.
            if resource.custom.is_some() {
                versions.sort_by(|a, b| name::compare_versions(b, a));
            }
        }
    }
    groups
}

/// The resources of a version of a group.
fn of_version<'a>(
    catalogue: &'a Catalogue,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a catalogue::Resource> {
    let all = catalogue.resources().iter().map(|one| &**one);
    all.filter(move |one| (one.kind.group(), one.kind.version()) == (group, version))
}

/// The resources of each group and version. To look for those of each in turn would take the square
/// of the time where there are thousands of definitions.
fn by_version(catalogue: &Catalogue) -> ByVersion<'_> {
    let mut all = ByVersion::new();
    for resource in catalogue.resources() {
        let of = (resource.kind.group(), resource.kind.version());
        all.entry(of).or_default().push(resource);
    }
    all
}

/// `GET /api` in the old form.
fn core_versions(address: &str) -> CoreVersions {
    CoreVersions {
        kind: "APIVersions",
        versions: ["v1"],
        addresses: [Address {
            clients: "0.0.0.0/0",
            server: address.to_owned(),
        }],
    }
}

/// `GET /apis` in the old form.
fn groups(catalogue: &Catalogue) -> GroupList {
    let groups = versions_by_group(catalogue).into_iter();
    let named = groups.filter(|(group, _)| !group.is_empty());
    GroupList {
        kind: "APIGroupList",
        api_version: "v1",
        groups: named
            .filter_map(|(group, versions)| group_of(group, &versions))
            .collect(),
    }
}

/// `GET /apis/{group}`.
fn group(catalogue: &Catalogue, name: &str) -> Option<Group> {
    let mut groups = versions_by_group(catalogue).into_iter();
    let (group, versions) = groups.find(|(group, _)| *group == name && !name.is_empty())?;
    Some(group_of(group, &versions)?.alone())
}

fn group_of(name: &str, versions: &[&str]) -> Option<Group> {
    let mut versions = versions
        .iter()
        .map(|version| GroupVersion::new(name, version));
    let mut group = Group::new(name, versions.next()?);
    group.versions.extend(versions);
    Some(group)
}

/// `GET /api/v1` and `/apis/{group}/{version}`.
fn resources(catalogue: &Catalogue, group: &str, version: &str) -> ResourceList {
    let mut resources = Vec::new();
    for one in of_version(catalogue, group, version) {
        let hash = storage_version_hash(catalogue, one);
        resources.push(Resource::of(&one.kind, hash));
        let parts = one.kind.subresources().iter();
        resources.extend(parts.map(|part| Resource::of_part(&one.kind, part)));
    }
    let (api_version, group_version) = match group {
        "" => (None, version.to_owned()),
        group => (Some("v1"), format!("{group}/{version}")),
    };
    ResourceList {
        kind: "APIResourceList",
        api_version,
        group_version,
        resources,
    }
}

/// Changes with the version that objects are stored in. Empty if none are stored, or if that version
/// is not served.
fn storage_version_hash(catalogue: &Catalogue, resource: &catalogue::Resource) -> String {
    let Some(storage) = &resource.storage else {
        return String::new();
    };
    let stored_in = storage.stored_in();
    let (group, version) = schema::split_api_version(&stored_in);
    let plural = resource.kind.plural();
    if storage.custom && catalogue.resource(group, version, plural).is_none() {
        return String::new();
    }
    let named = format!("{group}/{version}/{}", storage.kind.kind());
    let hash = digest(&SHA256, named.as_bytes());
    STANDARD.encode(&hash.as_ref()[..HASH_BYTES])
}

/// `GET /api` and `/apis` in the new form, one document with everything.
fn aggregated(catalogue: &Catalogue, core: bool) -> AllGroups {
    let resources = by_version(catalogue);
    let groups = versions_by_group(catalogue).into_iter();
    let wanted = groups.filter(|(group, _)| group.is_empty() == core);
    AllGroups {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        content: Groups {
            metadata: Empty {},
            items: wanted
                .map(|(group, versions)| whole_group(&resources, group, &versions))
                .collect(),
        },
    }
}

fn whole_group(all: &ByVersion<'_>, group: &str, versions: &[&str]) -> WholeGroup {
    let whole = |version: &&str| {
        let resources = all.get(&(group, *version)).into_iter().flatten();
        WholeVersion {
            version: (*version).to_owned(),
            resources: resources
                .map(|one| WholeResource::of(&one.kind, one.custom.is_some()))
                .collect(),
            freshness: "Current",
        }
    };
    WholeGroup::new(group, versions.iter().map(whole).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::custom::{Definition, Version};

    fn definition(plural: &'static str, group: &str) -> Definition {
        let version = |name: &str, stored: bool| Version {
            name: name.to_owned(),
            served: true,
            stored,
            ..Version::default()
        };
        let mut definition = Definition::widgets();
        definition.group = group.to_owned();
        definition.names.plural = plural.into();
        definition.versions = vec![version("v1", true), version("v2", false)];
        definition
    }

    #[test]
    fn groups_of_custom_resources_are_in_the_order_of_their_names() {
        let all = [
            definition("apples", "z.example.com"),
            definition("bears", "a.example.com"),
            definition("cats", "z.example.com"),
        ];
        let all = all.map(|one| one.resources(None).unwrap());
        let list = aggregated(&Catalogue::new(all.concat()), false);
        let told: Vec<Vec<&str>> = list
            .content
            .items
            .iter()
            .map(|group| {
                let first = &group.versions[0];
                let resources = first.resources.iter().map(|one| one.resource.as_str());
                let begin = [group.metadata.name.as_str(), first.version.as_str()];
                begin.into_iter().chain(resources).collect()
            })
            .collect();
        let expected = [
            vec!["a.example.com", "v2", "bears"],
            vec!["z.example.com", "v2", "apples", "cats"],
        ];
        assert_eq!(told, expected);
    }
}
