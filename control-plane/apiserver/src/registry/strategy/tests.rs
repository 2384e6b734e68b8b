use std::collections::BTreeSet;

use super::*;
use crate::resources::catalogue::{all, resource};

#[test]
fn each_row_is_of_a_resource_and_no_resource_has_two() {
    let known: BTreeSet<_> = all()
        .iter()
        .map(|one| (one.kind.group, one.kind.plural))
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
fn a_kind_of_another_group_is_not_taken_for_ours() {
    for row in core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::ROWS)
    {
        let like = resource("", "v1", "services").unwrap();
        let theirs = Kind {
            group: "example.com",
            version: "v1",
            kind: "Theirs",
            plural: row.resource,
            singular: "theirs",
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: like.kind.scope,
            verbs: Vec::new(),
            subresources: Vec::new(),
            priority: 0,
            message: like.kind.message,
        };
        let theirs = of_kind(&theirs);
        assert!(!theirs.allow_create_on_update && theirs.allow_unconditional_update);
        assert_eq!(theirs.generation, Generation::Never);
        assert_eq!(theirs.deletion, Deletion::AtOnce);
        assert!(!theirs.keeps_status_on_create && !theirs.returns_deleted_object);
        assert!(!theirs.allocates && !theirs.expires && !theirs.binds_pods);
    }
}
