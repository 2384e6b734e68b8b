//! The versions of groups that other servers serve, in discovery. They come after those that this
//! server serves.

#[cfg(test)]
mod tests;

use machinery::object;
use serde_json::{Value, json};

use crate::http::aggregation::Remote;

/// Adds them to `GET /apis` in the old form.
pub(crate) fn add_groups(list: &mut Value, all: &[Remote]) {
    let Some(groups) = list["groups"].as_array_mut() else {
        return;
    };
    for one in all {
        let version = version(one);
        let known = groups.iter_mut().find(|group| group["name"] == *one.group);
        match known.and_then(|group| group["versions"].as_array_mut()) {
            Some(versions) => versions.push(version),
            None => groups.push(json!({
                "name": one.group, "versions": [version], "preferredVersion": version,
            })),
        }
    }
}

/// Adds them to `GET /apis/{group}`; `None` if nobody serves the group.
pub(crate) fn with_versions(ours: Option<Value>, group: &str, all: &[Remote]) -> Option<Value> {
    let mut list = json!({"groups": Vec::from_iter(ours)});
    let of_group: Vec<&Remote> = all.iter().filter(|one| one.group == group).collect();
    for one in of_group {
        add_groups(&mut list, std::slice::from_ref(one));
    }
    let mut group = list["groups"].as_array_mut()?.pop()?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn version(one: &Remote) -> Value {
    let Remote { group, version, .. } = one;
    json!({"groupVersion": format!("{group}/{version}"), "version": version})
}

/// Adds them to `GET /apis` in the new form. A version whose resources were never seen is left out.
pub(crate) fn add_aggregated(list: &mut Value, all: &[Remote]) {
    let Some(groups) = list["items"].as_array_mut() else {
        return;
    };
    for one in all {
        let Some((resources, is_fresh)) = &one.resources else {
            continue;
        };
        let freshness = if *is_fresh && one.is_available {
            "Current"
        } else {
            "Stale"
        };
        let version = json!({
            "version": one.version, "freshness": freshness,
            "resources": aggregated(one, resources),
        });
        let is_it = |group: &&mut Value| group["metadata"]["name"] == *one.group;
        match groups
            .iter_mut()
            .find(is_it)
            .and_then(|group| group["versions"].as_array_mut())
        {
            Some(versions) => versions.push(version),
            None => groups.push(json!({
                "metadata": {"name": one.group, "creationTimestamp": null},
                "versions": [version],
            })),
        }
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

/// A list of resources of the old form in the new one, in which subresources are parts.
fn aggregated(one: &Remote, list: &Value) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for resource in object::items(list, &["resources"]) {
        let text = |key: &str| object::text(resource, &[key]);
        let or = |key: &str, default: &str| match text(key) {
            "" => default.to_owned(),
            given => given.to_owned(),
        };
        let kind = json!({
            "group": or("group", &one.group), "version": or("version", &one.version),
            "kind": text("kind"),
        });
        if let Some((plural, subresource)) = text("name").split_once('/') {
            let part = json!({
                "subresource": subresource, "responseKind": kind, "verbs": resource["verbs"],
            });
            let of = resources.iter_mut().find(|one| one["resource"] == plural);
            match of.map(|of| of["subresources"].as_array_mut()) {
                Some(Some(parts)) => parts.push(part),
                Some(None) => {
                    if let Some(of) = resources.iter_mut().find(|one| one["resource"] == plural) {
                        of["subresources"] = json!([part]);
                    }
                }
                None => {}
            }
            continue;
        }
        let is_namespaced = resource["namespaced"] == true;
        let mut new = json!({
            "resource": text("name"), "responseKind": kind,
            "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": text("singularName"), "verbs": resource["verbs"],
        });
        for key in ["shortNames", "categories"] {
            if let Some(given) = resource.get(key) {
                new[key] = given.clone();
            }
        }
        resources.push(new);
    }
    resources
}
