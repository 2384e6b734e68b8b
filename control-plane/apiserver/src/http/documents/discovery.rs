//! What is served, told in the two forms clients know: documents per group and version, and one
//! document for all.

use machinery::schema::{self, Kind, Scope, Subresource};
use serde_json::{Value, json};
use std::sync::Arc;

/// Groups by falling priority, each with its versions by preference.
pub(crate) fn versions_by_group() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut kinds: Vec<&Arc<Kind>> = schema::kinds().iter().collect();
    // Stable: within one priority the table's own order holds.
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.priority()));
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in kinds {
        let at = groups.iter().position(|(group, _)| *group == kind.group());
        let versions = match at {
            Some(at) => &mut groups[at].1,
            None => {
                groups.push((kind.group(), Vec::new()));
                let last = groups.len() - 1;
                &mut groups[last].1
            }
        };
        if !versions.contains(&kind.version()) {
            versions.push(kind.version());
        }
    }
    groups
}

/// `GET /api` in the old form.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `GET /apis` in the old form.
pub(crate) fn groups() -> Value {
    let groups = versions_by_group().into_iter();
    let named = groups.filter(|(group, _)| !group.is_empty());
    let groups: Vec<Value> = named
        .map(|(group, versions)| group_of(group, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/{group}`.
pub(crate) fn group(name: &str) -> Option<Value> {
    let mut groups = versions_by_group().into_iter();
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
pub(crate) fn resources(group: &str, version: &str) -> Value {
    let of_version = |kind: &&Arc<Kind>| kind.group() == group && kind.version() == version;
    let mut resources = Vec::new();
    for kind in schema::kinds().iter().filter(of_version) {
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
pub(crate) fn aggregated(core: bool) -> Value {
    let groups = versions_by_group().into_iter();
    let wanted = groups.filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = wanted
        .map(|(group, versions)| aggregated_group(group, &versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_group(group: &str, versions: &[&str]) -> Value {
    let one = |version: &&str| {
        let of_version = |kind: &&Arc<Kind>| kind.group() == group && kind.version() == *version;
        let resources = schema::kinds()
            .iter()
            .filter(of_version)
            .map(|kind| aggregated_resource(kind));
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
