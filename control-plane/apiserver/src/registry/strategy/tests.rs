use std::collections::BTreeSet;
use std::sync::Arc;

use machinery::schema::{Names, Scope};

use super::*;
use crate::resources::catalogue::builtin;
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
        .chain(cluster::ROWS)
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
        .chain(cluster::ROWS)
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
