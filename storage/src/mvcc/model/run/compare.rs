//! Asks the store and the model the same questions and compares the answers.

use std::ops::ControlFlow;

use super::Input;
use crate::Result;
use crate::mvcc::model::{Model, Row, Version};
use crate::mvcc::{Bucket, Change, HashRows, KeyRange, Revision, Root, Usage, Want};

/// Compares all answers of both about `at`.
pub(crate) fn compare(root: &Root, model: &Model, at: i64, input: &mut Input<'_>) {
    compare_all(root, model, at, input).expect("reading does not fail");
}

fn compare_all(root: &Root, model: &Model, at: i64, input: &mut Input<'_>) -> Result<()> {
    assert_eq!(root.revision(), model.revision());
    assert_eq!(root.compacted(), model.compacted());
    let then = if at == 0 { model.revision() } else { at };
    let (key, end) = input.range();
    for range in [KeyRange::ALL, KeyRange::from_wire(&key, &end)] {
        compare_range(root, model, at, then, range)?;
    }
    for key in [input.key(), key] {
        assert_eq!(
            root.get(&key, at, |item| Version::from(item))?,
            model.live(&key, then)
        );
        let previous = root.previous(&key, then, |item| Version::from(item))?;
        assert_eq!(previous, model.previous(&key, then));
    }
    let (first, last) = (model.compacted().max(0), model.revision());
    for (from, through) in [(then, then), (first, then), (then, last)] {
        let mut rows = Vec::new();
        root.changes(from, through, &mut |change| {
            rows.push(Row::from(change));
            Ok(ControlFlow::Continue(()))
        })?;
        assert_eq!(
            rows,
            model.changes(from, through),
            "changes {from}..={through}"
        );
    }
    compare_hash_rows(root, model, at, then)?;
    compare_lengths(root)?;
    for bucket in [Bucket::Lease, Bucket::LeaseKeys, Bucket::Meta] {
        let mut rows = Vec::new();
        root.side_scan(bucket, b"", &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        assert_eq!(rows, model.bucket(bucket));
        for (key, value) in rows {
            assert_eq!(root.side_get(bucket, &key)?, Some(value));
        }
    }
    compare_attached(root, &model.bucket(Bucket::LeaseKeys))
}

/// Finds the keys of each lease one by one.
fn compare_attached(root: &Root, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let last = rows.last().and_then(|(row, _)| row.first_chunk::<8>());
    let last = last.map_or(0, |lease| i64::from_be_bytes(*lease));
    // Leases without keys, too: all of one's may be taken.
    for lease in 1..=last + 1 {
        let head = lease.to_be_bytes();
        let expected = rows.iter().filter_map(|(row, _)| row.strip_prefix(&head));
        let (mut found, mut from) = (Vec::new(), Vec::new());
        while let Some(key) = root.first_attached(lease, &from)? {
            from = [&key[..], &[0]].concat();
            found.push(key);
        }
        assert!(found.iter().eq(expected), "the keys of lease {lease}");
    }
    Ok(())
}

fn compare_hash_rows(root: &Root, model: &Model, at: i64, then: i64) -> Result<()> {
    let go_on = &mut || ControlFlow::Continue(());
    let mut all = |hashed: Option<HashRows<'_>>| -> Result<Vec<Row>> {
        let (mut rows, hashed) = (Vec::new(), hashed.expect("nothing breaks it off"));
        let mut push = |change: Change<'_>| rows.push(Row::from(change));
        let flow = hashed.visit(Revision::default(), &mut push, go_on)?;
        assert!(flow.is_continue());
        Ok(rows)
    };
    let go_on = &mut || ControlFlow::Continue(());
    let rows = all(root.hash_rows(at, go_on)?)?;
    assert_eq!(rows, model.hash_rows(then), "hash at {then}");
    let looked_up = root.hash_rows(at, go_on)?.map(HashRows::looked_up);
    assert_eq!(all(looked_up)?, rows, "hash at {then}, looked up");
    if then > model.compacted() {
        let rows = all(root.hash_rows_at_compaction(then, go_on)?)?;
        let looked_up = root.hash_rows_at_compaction(then, go_on)?;
        let looked_up = all(looked_up.map(HashRows::looked_up))?;
        assert_eq!(looked_up, rows, "hash of a compaction at {then}, looked up");
    }
    Ok(())
}

/// The trees of keys know as much of the rows as history does, except the values.
fn compare_lengths(root: &Root) -> Result<()> {
    let measure = |change: &Change<'_>, value: u64| match change {
        Change::Put { revision, item } => {
            let key = item.key.len() as i64;
            let numbers = [item.create_revision, item.version, item.lease, key];
            let all = numbers.into_iter().chain([revision.main, revision.sub]);
            all.fold(value as u32, |sum, n| {
                sum.wrapping_mul(31).wrapping_add(n as u32)
            })
        }
        Change::Delete { revision, key } => key.len() as u32 ^ revision.main as u32,
    };
    let mut expected = Vec::new();
    root.changes(0, i64::MAX, &mut |change| {
        let value = match change {
            Change::Put { item, .. } => item.value.len() as u64,
            Change::Delete { .. } => 0,
        };
        expected.push(measure(&change, value));
        Ok(ControlFlow::Continue(()))
    })?;
    let mut found = Vec::new();
    let mut push = |measured: u32| -> ControlFlow<()> {
        found.push(measured);
        ControlFlow::Continue(())
    };
    if root.is_deleting() {
        assert!(!root.measure_changes(&measure, &mut push)?);
        return Ok(());
    }
    let rows_per_walk = expected.len() / 3 + 1;
    assert!(root.measure_in_walks(rows_per_walk, &measure, &mut push)?);
    assert_eq!(found, expected, "lengths of changes");
    Ok(())
}

fn compare_range(
    root: &Root,
    model: &Model,
    at: i64,
    then: i64,
    range: KeyRange<'_>,
) -> Result<()> {
    let expected = model.range(range, then);
    assert_eq!(
        root.count(range, at)?,
        expected.len() as u64,
        "count of {range:?} at {then}"
    );
    if then == root.revision() {
        let sizes = expected
            .iter()
            .map(|it| (it.key.len() + it.value.len()) as u64);
        let expected = Usage {
            keys: expected.len() as u64,
            bytes: sizes.sum(),
        };
        assert_eq!(root.usage(range)?, expected, "usage of {range:?}");
    }
    let mut found = Vec::new();
    root.range(range, at, Want::Values, &mut |item| {
        found.push(Version::from(item));
        ControlFlow::Continue(())
    })?;
    assert_eq!(found, expected, "{range:?} at {then}");
    let limit = expected.len().div_ceil(2).max(1);
    let mut found = Vec::new();
    root.range(range, at, Want::KeysOnly, &mut |item| {
        found.push(Version::from(item));
        if found.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let keys_only = expected.into_iter().take(limit).map(|version| Version {
        value: Vec::new(),
        ..version
    });
    assert!(found.into_iter().eq(keys_only));
    Ok(())
}
