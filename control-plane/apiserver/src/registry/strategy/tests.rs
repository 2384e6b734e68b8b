use std::collections::BTreeSet;
use std::sync::Arc;

use machinery::schema::{Names, Scope};

use super::*;
use crate::resources::catalogue::Catalogue;
use crate::resources::custom::{Definition, Version};

#[test]
fn each_row_is_of_a_resource_and_no_resource_has_two() {
    let known: BTreeSet<_> = builtin()
        .iter()
        .map(|one| (one.kind.group(), one.kind.plural()))
        .collect();
    let mut seen = BTreeSet::new();
    for row in core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::rows())
    {
        let key = (row.group, row.resource);
        assert!(known.contains(&key), "{key:?}");
        assert!(seen.insert(key), "{key:?}");
    }
}

#[test]
fn a_custom_resource_is_not_taken_for_ours() {
    for row in core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::rows())
    {
        // Even in the group of ours: a definition may be of any group.
        for group in ["example.com", "storage.k8s.io", row.group] {
            if !group.contains('.') {
                continue;
            }
            for status in [false, true] {
                let theirs = theirs(group, row.resource, status);
                let strategy = of(&theirs);
                let expected = if status {
                    &custom::WITH_STATUS
                } else {
                    &custom::WHOLE
                };
                assert!(std::ptr::eq(strategy, expected));
                assert!(!expires(theirs.stored().unwrap()));
            }
        }
    }
}

fn theirs(group: &str, plural: &str, status: bool) -> Arc<Resource> {
    let definition = Definition {
        group: group.into(),
        names: Names {
            kind: "Theirs".into(),
            list_kind: "TheirsList".into(),
            plural: plural.to_owned().into(),
            singular: "theirs".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
        },
        scope: Scope::Namespaced,
        terminating: false,
        uid: String::new(),
        versions: vec![Version {
            name: "v1".into(),
            served: true,
            stored: true,
            status,
            ..Version::default()
        }],
    };
    definition.resources(None).unwrap().remove(0)
}

#[test]
fn objects_are_where_kubernetes_has_them() {
    let catalogue = Catalogue::new(builtin().iter().cloned());
    let stored = |group, version, plural| {
        let resource = catalogue.resource(group, version, plural).unwrap();
        let storage = resource.storage.as_ref()?;
        Some((storage.prefix.to_string(), storage.json))
    };
    for (group, plural, prefix, json) in [
        ("", "pods", "/registry/pods/", false),
        ("", "nodes", "/registry/minions/", false),
        ("", "services", "/registry/services/specs/", false),
        ("", "endpoints", "/registry/services/endpoints/", false),
        (
            "",
            "replicationcontrollers",
            "/registry/controllers/",
            false,
        ),
        ("", "events", "/registry/events/", false),
        ("events.k8s.io", "events", "/registry/events/", false),
        ("apps", "deployments", "/registry/deployments/", false),
        (
            "networking.k8s.io",
            "ingresses",
            "/registry/ingress/",
            false,
        ),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "/registry/apiextensions.k8s.io/customresourcedefinitions/",
            true,
        ),
        (
            "apiregistration.k8s.io",
            "apiservices",
            "/registry/apiregistration.k8s.io/apiservices/",
            true,
        ),
    ] {
        let expected = Some((prefix.to_owned(), json));
        assert_eq!(stored(group, "v1", plural), expected, "{group} {plural}");
    }
    for answered in ["componentstatuses", "bindings"] {
        assert_eq!(stored("", "v1", answered), None, "{answered}");
    }
    let autoscalers = "horizontalpodautoscalers";
    let both = ["v1", "v2"].map(|version| stored("autoscaling", version, autoscalers).unwrap());
    assert_eq!(both[0], both[1]);
    assert_eq!(catalogue.storages().count(), 58);
}
