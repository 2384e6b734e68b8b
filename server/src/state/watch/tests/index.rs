use std::collections::{BTreeMap, BTreeSet};

use storage::mvcc::KeyRange;

use crate::state::watch::index::{Index, Span};

#[test]
fn the_empty_key_stands_for_the_smallest_one() {
    assert_eq!(Span::from_wire(b"", b""), Some(Span::Key((*b"\0").into())));
    assert_eq!(
        Span::from_wire(b"", b"\0"),
        Some(Span::From((*b"\0").into()))
    );
}

#[test]
fn a_range_that_no_key_can_lie_in_is_no_span() {
    assert_eq!(Span::from_wire(b"b", b"b"), None);
    assert_eq!(Span::from_wire(b"b", b"a"), None);
    assert!(Span::from_wire(b"b", b"b\0").is_some());
}

#[test]
fn the_index_finds_what_comparing_with_each_watcher_finds() {
    arbtest::arbtest(|u| {
        let mut index = Index::default();
        let mut model: BTreeMap<u32, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
        for _ in 0..u.int_in_range(1..=400)? {
            let member = u.int_in_range(0..=200)?;
            match model.remove(&member) {
                Some(_) => index.remove(member),
                None => {
                    let key = word(u)?;
                    let end = match u.int_in_range(0..=3)? {
                        0 => vec![],
                        1 => vec![0],
                        _ => word(u)?,
                    };
                    if let Some(span) = Span::from_wire(&key, &end) {
                        index.insert(member, &span);
                        model.insert(member, (key, end));
                    }
                }
            }
            let key = word(u)?;
            let mut found = Vec::new();
            index.find(&key, |member| found.push(member));
            let expected: BTreeSet<u32> = model
                .iter()
                .filter(|(_, (start, end))| KeyRange::from_wire(start, end).contains(&key))
                .map(|(member, _)| *member)
                .collect();
            assert_eq!(found.len(), expected.len(), "each is found once");
            assert_eq!(BTreeSet::from_iter(found), expected);
            assert_eq!(index.len(), model.len());
        }
        Ok(())
    });
}

/// From few letters, so that spans overlap.
fn word(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<Vec<u8>> {
    let len = u.int_in_range(1..=3)?;
    (0..len).map(|_| u.int_in_range(b'a'..=b'e')).collect()
}
