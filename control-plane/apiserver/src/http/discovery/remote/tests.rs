use std::sync::Arc;

use super::*;

fn remote(group: &str, version: &str, is_fresh: bool) -> Remote {
    let resources = json!({"resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics",
            "verbs": ["get", "list"], "shortNames": ["p"]},
        {"name": "pods/scale", "singularName": "", "namespaced": true, "kind": "Scale",
            "group": "autoscaling", "version": "v1", "verbs": ["get"]},
        {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics",
            "verbs": ["get"]},
    ]});
    Remote {
        group: group.to_owned(),
        version: version.to_owned(),
        group_priority: 100,
        version_priority: 100,
        is_available: true,
        resources: Some((Arc::new(resources), is_fresh)),
        old_document: None,
        document: None,
    }
}

#[test]
fn versions_of_others_come_after_ours() {
    let all = [
        remote("a", "v2", true),
        remote("m", "v1", true),
        remote("m", "v0", true),
    ];
    let ours = json!({"groupVersion": "a/v1", "version": "v1"});
    let mut list = json!({"groups": [
        {"name": "a", "versions": [ours], "preferredVersion": ours},
    ]});
    add_groups(&mut list, &all);
    let (a, m) = (&list["groups"][0], &list["groups"][1]);
    assert_eq!(a["versions"][1]["groupVersion"], "a/v2");
    assert_eq!(a["preferredVersion"]["version"], "v1");
    assert_eq!(m["versions"].as_array().unwrap().len(), 2);
    assert_eq!(m["preferredVersion"]["version"], "v1");
    let group = with_versions(None, "m", &all).unwrap();
    assert_eq!(
        (&group["kind"], &group["name"]),
        (&json!("APIGroup"), &json!("m"))
    );
    assert_eq!(with_versions(None, "none", &all), None);
}

#[test]
fn resources_of_others_are_told_in_the_new_form() {
    let mut list = json!({"items": []});
    let unseen = Remote {
        resources: None,
        ..remote("u", "v1", true)
    };
    add_aggregated(
        &mut list,
        &[remote("m", "v1", true), remote("m", "v0", false), unseen],
    );
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    let versions = &items[0]["versions"];
    assert_eq!(versions[0]["freshness"], "Current");
    assert_eq!(versions[1]["freshness"], "Stale");
    let pods = &versions[0]["resources"][0];
    assert_eq!(pods["scope"], "Namespaced");
    let kind = json!({"group": "m", "version": "v1", "kind": "PodMetrics"});
    assert_eq!(pods["responseKind"], kind);
    assert_eq!(pods["shortNames"], json!(["p"]));
    let scale = &pods["subresources"][0];
    assert_eq!(scale["subresource"], "scale");
    assert_eq!(scale["responseKind"]["group"], "autoscaling");
    assert_eq!(versions[0]["resources"][1]["scope"], "Cluster");
}
