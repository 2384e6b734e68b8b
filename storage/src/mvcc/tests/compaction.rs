use super::*;

#[test]
fn compaction_hides_at_once_what_it_removes_later() {
    let mut fixture = Fixture::new();
    fixture.put("a", "1"); // 2
    fixture.put("b", "1");
    fixture.put("a", "2"); // 4
    fixture.delete("b");
    fixture.put("c", "1"); // 6
    fixture.write().compact(5).unwrap();
    let mut seen = Vec::new();
    loop {
        let root = fixture.store.root();
        seen.push((
            history(root, 0, 6),
            value_at(root, "a", 5),
            root.previous(b"a", 5, |item| item.mod_revision).unwrap(),
            root.previous(b"a", 6, |item| item.mod_revision).unwrap(),
        ));
        if fixture.store.compact_step(1).unwrap().done {
            break;
        }
    }
    let expected = (
        "4.0+a 5.0-b 6.0+c".to_owned(),
        Some("2".to_owned()),
        None,
        Some(4),
    );
    assert!(seen.len() > 2);
    assert!(seen.iter().all(|seen| *seen == expected), "{seen:?}");
    assert_eq!(fixture.store.root().revisions.len(), 3);
}

#[test]
fn tombstone_at_the_compacted_revision_stays_until_the_next_compaction() {
    let mut fixture = Fixture::new();
    fixture.put("k", "");
    fixture.delete("k"); // 3
    fixture.put("other", "");
    fixture.write().compact(3).unwrap();
    fixture.finish_compaction();
    assert_eq!(history(fixture.store.root(), 3, 4), "3.0-k 4.0+other");
    fixture.write().compact(4).unwrap();
    assert_eq!(history(fixture.store.root(), 3, 4), "4.0+other");
    fixture.finish_compaction();
    assert_eq!(fixture.store.root().versions().unwrap(), 1);
}

#[test]
fn a_hash_pauses_after_many_rows_and_after_large_ones() {
    let mut fixture = Fixture::new();
    let pauses = |fixture: &Fixture| {
        let (mut pauses, root) = (0, fixture.store.root());
        let mut pause = || {
            pauses += 1;
            ControlFlow::Continue(())
        };
        let rows = root.hash_rows(0, &mut pause).unwrap().unwrap();
        let visited = rows.visit(Revision::default(), &mut |_| (), &mut pause);
        assert!(visited.unwrap().is_continue());
        pauses
    };
    for key in 0..300 {
        fixture.put(&format!("small {key}"), "v");
    }
    assert_eq!(pauses(&fixture), 1);
    let large = "v".repeat(1 << 20);
    for key in 0..4 {
        fixture.put(&format!("large {key}"), &large);
    }
    assert_eq!(pauses(&fixture), 5);
}

#[test]
fn never_compacted_store_takes_a_compaction_at_zero() {
    let mut fixture = Fixture::new();
    fixture.write().compact(0).unwrap();
    assert_eq!(fixture.store.root().compacted(), 0);
    fixture.finish_compaction();
    fixture.put("k", "");
    assert_eq!(history(fixture.store.root(), 1, 2), "2.0+k");
}

#[test]
fn interrupted_compaction_goes_on_after_a_restart() {
    let mut fixture = Fixture::new();
    for i in 0..50 {
        fixture.put("k", &i.to_string());
    }
    fixture.write().compact(41).unwrap();
    // All versions are looked at, then some of what is superseded is removed.
    fixture.store.batch_bytes_max = usize::MAX;
    assert!(!fixture.store.compact_step(20).unwrap().done);
    fixture.checkpoint();
    fixture.reopen();
    let left = fixture.store.root().versions().unwrap();
    assert!(left < 50);
    assert_eq!(fixture.store.root().compacted(), 41);
    fixture.finish_compaction();
    assert_eq!(fixture.store.root().versions().unwrap(), 11);
    fixture.store.check().unwrap();
}

#[test]
fn a_step_ends_with_the_rows_of_one_compaction_though_another_came_meanwhile() {
    let mut fixture = Fixture::new();
    for i in 0..10 {
        fixture.put("k", &i.to_string());
    }
    fixture.write().compact(6).unwrap();
    fixture.store.batch_bytes_max = usize::MAX;
    let step = fixture.store.compact_step(1).unwrap();
    assert_eq!((step.done, step.through), (false, None));
    fixture.write().compact(9).unwrap();
    let step = fixture.store.compact_step(usize::MAX).unwrap();
    assert_eq!(
        (step.done, step.through, step.removed),
        (false, Some(6), 4),
        "what came since is another removal's"
    );
    let step = fixture.store.compact_step(usize::MAX).unwrap();
    assert_eq!((step.done, step.through, step.removed), (true, Some(9), 3));
    let step = fixture.store.compact_step(usize::MAX).unwrap();
    assert_eq!((step.done, step.through, step.removed), (true, Some(9), 0));
    fixture.store.check().unwrap();
}

#[test]
fn compaction_does_work_in_proportion_to_the_change_not_to_the_store() {
    let mut fixture = Fixture::new();
    let mut write = fixture.write();
    for i in 0..2000 {
        write.put(format!("k{i}").as_bytes(), b"", 0).unwrap();
    }
    drop(write);
    fixture.write().compact(2).unwrap();
    fixture.finish_compaction();
    fixture.put("k7", "");
    fixture.put("k8", "");
    fixture.write().compact(4).unwrap();
    // The 2000 at the old compacted revision are checked once more for tombstones.
    let step = fixture.store.compact_step(2002 + 2).unwrap();
    assert_eq!((step.done, step.removed), (true, 2));
}

#[test]
fn a_walk_over_the_keys_and_one_over_the_changes_remove_the_same() {
    // Keys of one version, of several, deleted, made again, and one with more than a batch holds;
    // compacted twice, the second time with all that the first one kept.
    for batch_bytes_max in [1, 24, usize::MAX] {
        let mut fixture = Fixture::new();
        fixture.store.batch_bytes_max = batch_bytes_max;
        for i in 0..240 {
            match i % 12 {
                0 => fixture.put(&format!("once-{i}"), ""),
                1..6 => fixture.put("often", &i.to_string()),
                6 => fixture.delete("often"),
                7 | 8 => fixture.put(&format!("twice-{}", i / 24), &i.to_string()),
                9 => fixture.delete(&format!("twice-{}", i / 24)),
                _ => fixture.put(&format!("few-{}", i % 7), &i.to_string()),
            }
        }
        for at in [fixture.store.root().revision() / 2, 236] {
            fixture.write().compact(at).unwrap();
            let kept = history(fixture.store.root(), 0, i64::MAX);
            let mut steps = 0;
            while !fixture.store.compact_step(1).unwrap().done {
                steps += 1;
            }
            assert!(steps > 9);
            let root = fixture.store.root();
            assert_eq!(history(root, 0, i64::MAX), kept);
            assert_eq!(root.versions().unwrap(), root.revisions.len());
            assert_eq!(kept.split(' ').count() as u64, root.revisions.len());
        }
        fixture.store.check().unwrap();
    }
}

#[test]
fn a_walk_over_the_keys_goes_on_where_it_was_while_keys_change() {
    let mut fixture = Fixture::new();
    fixture.store.batch_bytes_max = usize::MAX;
    for i in 0..200 {
        fixture.put(&format!("key-{}", i % 20), "");
    }
    fixture.write().compact(201).unwrap();
    for i in 0..200 {
        // Each step passes a part of the versions of a key, and new ones come before and behind.
        assert!(!fixture.store.compact_step(1).unwrap().done);
        fixture.put(&format!("key-{}", i % 25), "");
    }
    fixture.finish_compaction();
    let root = fixture.store.root();
    assert_eq!(root.revisions.len(), 20 + 200);
    assert_eq!(history(root, 0, 201).split(' ').count(), 20);
    fixture.store.check().unwrap();
}
