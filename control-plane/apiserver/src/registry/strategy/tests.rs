use std::collections::BTreeSet;

use machinery::schema::{Names, Scope};

use super::*;
use crate::resources::catalogue::all;

#[test]
fn each_row_is_of_a_resource_and_no_resource_has_two() {
    let known: BTreeSet<_> = all()
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
fn a_kind_of_another_group_is_not_taken_for_ours() {
    for row in core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::ROWS)
    {
        let names = Names {
            kind: "Theirs".into(),
            list_kind: "TheirsList".into(),
            plural: row.resource.into(),
            singular: "theirs".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
        };
        let group = "example.com".to_owned();
        let theirs = Kind::custom(group, "v1".into(), names, Scope::Namespaced);
        let theirs = of_kind(&theirs);
        assert!(!theirs.allow_create_on_update && theirs.allow_unconditional_update);
        assert_eq!(theirs.generation, Generation::Never);
        assert_eq!(theirs.deletion, Deletion::AtOnce);
        assert!(!theirs.keeps_status_on_create && !theirs.returns_deleted_object);
        assert!(!theirs.allocates && !theirs.expires && !theirs.binds_pods);
    }
}
