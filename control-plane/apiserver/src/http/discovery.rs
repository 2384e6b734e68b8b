//! Discovery in both of its forms: documents per group and version, and one document for all.

pub(crate) mod remote;

use std::collections::HashMap;

use machinery::schema::{Kind, Scope, Subresource};
use serde_json::{Value, json};

use crate::resources::catalogue::Catalogue;

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
        }
    }
    groups
}

/// The kinds of a version of a group.
fn kinds<'a>(
    catalogue: &'a Catalogue,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Kind> {
    let kinds = catalogue.resources().iter().map(|one| &*one.kind);
    kinds.filter(move |kind| kind.group() == group && kind.version() == version)
}

/// `GET /api` in the old form.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `GET /apis` in the old form.
pub(crate) fn groups(catalogue: &Catalogue) -> Value {
    let groups = versions_by_group(catalogue).into_iter();
    let named = groups.filter(|(group, _)| !group.is_empty());
    let groups: Vec<Value> = named
        .map(|(group, versions)| group_of(group, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/{group}`.
pub(crate) fn group(catalogue: &Catalogue, name: &str) -> Option<Value> {
    let mut groups = versions_by_group(catalogue).into_iter();
    let (group, versions) = groups.find(|(group, _)| *group == name && !name.is_empty())?;
    let mut value = group_of(group, &versions);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn group_of(group: &str, versions: &[&str]) -> Value {
    let one =
        |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(one).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

/// `GET /api/v1` and `/apis/{group}/{version}`.
pub(crate) fn resources(catalogue: &Catalogue, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for kind in kinds(catalogue, group, version) {
        let mut resource = json!({
            "name": kind.plural(), "singularName": kind.singular(), "namespaced": kind.namespaced(),
            "kind": kind.kind(), "verbs": kind.verbs(),
        });
        add_names(&mut resource, kind);
        resources.push(resource);
        for sub in kind.subresources() {
            let mut resource = json!({
                "name": format!("{}/{}", kind.plural(), sub.name), "singularName": "",
                "namespaced": kind.namespaced(), "kind": sub.kind(), "verbs": sub.verbs,
            });
            if (sub.group(), sub.version()) != (group, version) {
                resource["group"] = sub.group().into();
                resource["version"] = sub.version().into();
            }
            resources.push(resource);
        }
    }
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources,
    })
}

fn add_names(resource: &mut Value, kind: &Kind) {
    if !kind.short_names().is_empty() {
        resource["shortNames"] = json!(kind.short_names());
    }
    if !kind.categories().is_empty() {
        resource["categories"] = json!(kind.categories());
    }
}

/// `GET /api` and `/apis` in the new form, one document with everything.
pub(crate) fn aggregated(catalogue: &Catalogue, core: bool) -> Value {
    let groups = versions_by_group(catalogue).into_iter();
    let wanted = groups.filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = wanted
        .map(|(group, versions)| aggregated_group(catalogue, group, &versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_group(catalogue: &Catalogue, group: &str, versions: &[&str]) -> Value {
    let one = |version: &&str| {
        let resources = kinds(catalogue, group, version).map(aggregated_resource);
        json!({
            "version": version, "freshness": "Current",
            "resources": resources.collect::<Vec<_>>(),
        })
    };
    let versions: Vec<Value> = versions.iter().map(one).collect();
    let metadata = match group {
        "" => json!({"creationTimestamp": null}),
        name => json!({"name": name, "creationTimestamp": null}),
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "resource": kind.plural(),
        "responseKind": {"group": kind.group(), "version": kind.version(), "kind": kind.kind()},
        "scope": match kind.scope() { Scope::Namespaced => "Namespaced", Scope::Cluster => "Cluster" },
        "singularResource": kind.singular(), "verbs": kind.verbs(),
    });
    add_names(&mut resource, kind);
    if !kind.subresources().is_empty() {
        let one = |sub: &Subresource| {
            json!({
                "subresource": sub.name, "verbs": sub.verbs,
                "responseKind": {"group": sub.group(), "version": sub.version(), "kind": sub.kind()},
            })
        };
        resource["subresources"] = kind.subresources().iter().map(one).collect();
    }
    resource
}
