use std::sync::Arc;

use super::*;
use crate::http::discovery::documents::{Empty, Groups};
use crate::http::discovery::{self, Latest};
use crate::registry::strategy;
use crate::resources::custom::Definition;

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

fn written(document: &impl serde::Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn a_group_may_be_of_others_alone() {
    let all = [remote("m", "v1", true), remote("m", "v1beta1", true)];
    let catalogue = Catalogue::default();
    let mut list = discovery::groups(&catalogue);
    add_groups(&mut list, &catalogue, &all);
    let list = written(&list);
    let m = &list["groups"][0];
    assert_eq!(m["versions"].as_array().unwrap().len(), 2);
    assert_eq!(m["preferredVersion"]["version"], "v1");
    let group = written(&with_versions(None, "m", &catalogue, &all).unwrap());
    assert_eq!(
        (&group["kind"], &group["name"]),
        (&json!("APIGroup"), &json!("m"))
    );
    assert_eq!(group["versions"], m["versions"]);
    assert!(with_versions(None, "none", &catalogue, &all).is_none());
}

#[test]
fn versions_are_in_the_order_of_their_priorities_whoever_serves_them() {
    let group = "example.com";
    let catalogue = Catalogue::new(Definition::widgets().resources(None).unwrap());
    let with_priority = |version: &str, version_priority: i64| Remote {
        version_priority,
        ..remote(group, version, true)
    };
    // That of this server is v1, and has 100.
    let all = [
        with_priority("v1alpha1", 200),
        with_priority("v2", 100),
        with_priority("v1beta1", 100),
        with_priority("v3", 50),
    ];
    let expected = ["v1alpha1", "v2", "v1", "v1beta1", "v3"];
    let mut list = discovery::groups(&catalogue);
    add_groups(&mut list, &catalogue, &all);
    let ours = discovery::group(&catalogue, group);
    let alone = with_versions(ours, group, &catalogue, &all).unwrap();
    for group in [&list.groups[0], &alone] {
        let versions = group.versions.iter().map(|one| one.version.as_str());
        assert!(versions.eq(expected));
        assert_eq!(group.preferred_version.version, "v1alpha1");
    }
    let mut list = discovery::aggregated(&catalogue, false);
    add_aggregated(&mut list, &catalogue, &all);
    let versions = list.content.items[0].versions.iter();
    assert!(versions.map(|one| one.version.as_str()).eq(expected));
    // One that is less important leaves the preferred version.
    let ours = discovery::group(&catalogue, group);
    let alone = with_versions(ours, group, &catalogue, &all[2..]).unwrap();
    assert_eq!(alone.preferred_version.version, "v1");
}

#[test]
fn resources_of_others_are_told_in_the_new_form() {
    let mut list = AllGroups {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        content: Groups {
            metadata: Empty {},
            items: Vec::new(),
        },
    };
    let unseen = Remote {
        resources: None,
        ..remote("u", "v1", true)
    };
    add_aggregated(
        &mut list,
        &Catalogue::default(),
        &[remote("m", "v1", true), remote("m", "v0", false), unseen],
    );
    let list = written(&list);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{items:?}");
    let unseen = json!({"version": "v1", "freshness": "Stale"});
    assert_eq!(items[1]["metadata"]["name"], "u");
    assert_eq!(items[1]["versions"], json!([unseen]));
    let versions = &items[0]["versions"];
    assert_eq!(versions[0]["freshness"], "Current");
    assert_eq!(versions[1]["freshness"], "Stale");
    let pods = &versions[0]["resources"][0];
    assert_eq!(pods["scope"], "Namespaced");
    // Group and version as the other server told them.
    let kind = json!({"group": "", "version": "", "kind": "PodMetrics"});
    assert_eq!(pods["responseKind"], kind);
    assert_eq!(pods["shortNames"], json!(["p"]));
    let scale = &pods["subresources"][0];
    assert_eq!(scale["subresource"], "scale");
    assert_eq!(scale["responseKind"]["group"], "autoscaling");
    assert_eq!(versions[0]["resources"][1]["scope"], "Cluster");
}

#[test]
fn groups_are_in_the_order_of_their_priorities_whoever_serves_them() {
    let mut widgets = Definition::widgets();
    widgets.group = "m.example.com".into();
    let custom = widgets.resources(None).unwrap();
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned().chain(custom));
    let with_priority = |group: &str, group_priority: i64| Remote {
        group_priority,
        ..remote(group, "v1", true)
    };
    let all = [
        with_priority("first.test", 20_000),
        with_priority("early.test", 2_000),
        with_priority("a.test", 1_000),
        with_priority("z.test", 1_000),
        with_priority("late.test", 100),
    ];
    let mut list = discovery::groups(&catalogue);
    add_groups(&mut list, &catalogue, &all);
    let old: Vec<&str> = list.groups.iter().map(|one| one.name.as_str()).collect();
    let mut list = discovery::aggregated(&catalogue, false);
    add_aggregated(&mut list, &catalogue, &all);
    let groups = list.content.items.iter();
    let new: Vec<&str> = groups.map(|one| one.metadata.name.as_str()).collect();
    assert_eq!(old, new);
    assert_eq!(old[..3], [GROUP, "first.test", "apps"]);
    let last = [
        "early.test",
        "a.test",
        "m.example.com",
        "z.test",
        "late.test",
    ];
    assert!(old.ends_with(&last), "{old:?}");
    // What this server serves alone is in the same order as without others.
    let alone = discovery::groups(&catalogue).groups;
    let alone = alone.iter().map(|one| one.name.as_str());
    let ours = old.iter().copied().filter(|one| !one.ends_with(".test"));
    assert!(ours.eq(alone), "{old:?}");
}

#[test]
fn of_two_groups_with_one_priority_the_names_decide() {
    let resources = |group: &str, version: &str| {
        let mut widgets = Definition::widgets();
        widgets.group = group.into();
        widgets.versions[0].name = version.into();
        widgets.resources(None).unwrap()
    };
    let later = resources("a.example.com", "v1beta1");
    let earlier = resources("z.example.com", "v1");
    let catalogue = Catalogue::new([later, earlier].concat());
    let mut list = discovery::groups(&catalogue);
    add_groups(&mut list, &catalogue, &[]);
    let old: Vec<&str> = list.groups.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(old, ["z.example.com", "a.example.com"]);
    for others in [vec![], vec![remote("m", "v1", true)]] {
        let mut list = discovery::aggregated(&catalogue, false);
        add_aggregated(&mut list, &catalogue, &others);
        let groups = list.content.items.iter();
        let new: Vec<&str> = groups.map(|one| one.metadata.name.as_str()).collect();
        assert_eq!(new[..2], ["a.example.com", "z.example.com"]);
    }
}

#[test]
fn the_document_in_the_new_form_follows_other_servers() {
    let (latest, catalogue) = (Latest::default(), Arc::default());
    let of = |is_fresh| {
        let remotes = vec![remote("m", "v1", is_fresh)];
        latest.named(&catalogue, remotes).unwrap()
    };
    let first = of(true);
    // The list was fetched again, and is the same.
    assert!(Arc::ptr_eq(&first, &of(true)));
    assert_ne!(first.tag, of(false).tag);
}

#[test]
fn a_subresource_is_told_without_its_resource() {
    let list = json!({"resources": [
        {"name": "pods/cpu", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        {"name": "services/hits", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        {"name": "pods/hits", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        {"name": "nodes/status", "namespaced": false, "kind": "Node", "verbs": ["get"]},
        {"name": "nodes", "namespaced": false, "kind": "Node", "verbs": ["list"]},
    ]});
    let resources = written(&aggregated(&list));
    let told: Vec<(&str, usize)> = resources
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let parts = object::items(one, &["subresources"]);
            (object::text(one, &["resource"]), parts.len())
        })
        .collect();
    assert_eq!(told, [("nodes", 1), ("pods", 2), ("services", 1)]);
    assert_eq!(resources[1]["scope"], "Namespaced");
    assert_eq!(resources[1]["verbs"], json!([]));
    assert_eq!(resources[0]["verbs"], json!(["list"]));
}
