use super::super::{Bucket, Revision};
use super::*;

fn at(main: i64, sub: i64) -> Revision {
    Revision { main, sub }
}

const STAMP: Stamp = Stamp {
    flags: HEAD,
    size: Some(70_000),
    create_revision: 3,
    version: 300,
    lease: i64::MAX,
};

#[test]
fn version_keys_of_one_key_sort_newest_first() {
    let keys = [
        VersionKey::newest_of(b"k"),
        VersionKey::new(b"k", at(i64::MAX, 0)),
        VersionKey::new(b"k", at(256, 1)),
        VersionKey::new(b"k", at(256, 0)),
        VersionKey::new(b"k", at(255, 70_000)),
        VersionKey::new(b"k", at(2, 0)),
        VersionKey::behind(b"k"),
    ];
    assert!(keys.is_sorted_by(|a, b| **a < **b));
}

#[test]
fn version_keys_come_apart_again_whether_short_or_long() {
    for len in [0, 1, INLINE_KEY_BYTES, INLINE_KEY_BYTES + 1, 5000] {
        let key = vec![0xff; len];
        let bytes = VersionKey::new(&key, at(9, 4));
        assert_eq!(split_version_key(&bytes), Some((&key[..], at(9, 4))));
    }
}

#[test]
fn revision_keys_sort_by_revision() {
    let keys = [at(0, 0), at(1, 5), at(2, 0), at(2, 256), at(3, 0)].map(revision_key);
    assert!(keys.is_sorted());
    assert_eq!(parse_revision_key(&keys[3]), Some(at(2, 256)));
}

#[test]
fn rows_and_stamps_are_read_as_they_were_written() {
    let revision = at(1000, 0);
    let bytes = StampBytes::new(&STAMP, revision);
    assert_eq!(stamp(bytes.as_ref(), revision), Some(STAMP));
    assert!(is_live_head(bytes.as_ref()));
    let whole = VersionKey::new(b"key", revision);
    let expected = Weight {
        count: 1,
        bytes: 70_003,
    };
    assert_eq!(weigh(whole.len(), bytes.as_ref()), expected);
    // As in older files.
    let unsized_stamp = Stamp {
        size: None,
        ..STAMP
    };
    let bytes = StampBytes::new(&unsized_stamp, revision);
    assert_eq!(stamp(bytes.as_ref(), revision), Some(unsized_stamp));
    let expected = Weight { count: 1, bytes: 0 };
    assert_eq!(weigh(whole.len(), bytes.as_ref()), expected);

    let mut out = Vec::new();
    row_head(&mut out, &STAMP, revision, b"key");
    out.extend_from_slice(b"value");
    let row = row(&out, revision).unwrap();
    assert_eq!((row.key, row.value), (&b"key"[..], &b"value"[..]));
    let bare = Stamp {
        flags: 0,
        size: None,
        ..STAMP
    };
    assert_eq!(row.stamp, bare);
}

#[test]
fn tombstone_weighs_nothing_and_carries_no_numbers() {
    let tombstone = Stamp {
        flags: HEAD | TOMBSTONE,
        ..Stamp::default()
    };
    let bytes = StampBytes::new(&tombstone, at(7, 0));
    assert_eq!(bytes.as_ref(), [HEAD | TOMBSTONE]);
    assert_eq!(weigh(0, bytes.as_ref()), Weight::NONE);
    assert_eq!(stamp(bytes.as_ref(), at(7, 0)), Some(tombstone));
}

#[test]
fn damaged_rows_are_refused_wherever_they_break_off() {
    let mut out = Vec::new();
    row_head(&mut out, &STAMP, at(1000, 0), b"key");
    for len in 0..out.len() {
        assert_eq!(row(&out[..len], at(1000, 0)), None, "{len} bytes");
    }
    assert_eq!(stamp(&[HEAD, 0xff, 0xff, 0xff], at(1, 0)), None);
    assert_eq!(stamp(&[0xff; 40].map(|b| b & !TOMBSTONE), at(1, 0)), None);
    assert_eq!(split_version_key(b"short"), None);
    assert_eq!(parse_revision_key(&[0; 13]), None);
}

#[test]
fn side_rows_of_a_bucket_lie_together() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    lease_key(&mut first, 7, b"k");
    side_key(
        &mut second,
        Bucket::LeaseKeys,
        &[&7i64.to_be_bytes()[..], b"k"].concat(),
    );
    assert_eq!(first, second);
    assert_eq!(first[0], Bucket::LeaseKeys as u8);
}

#[test]
fn the_head_of_a_delta_tree_weighs_the_difference_for_its_key() {
    let revision = at(1000, 0);
    let key = VersionKey::new(b"key", revision);
    let below = Weight {
        count: 1,
        bytes: 300,
    };
    let own = STAMP.weight(b"key");
    for below in [Weight::NONE, below, Weight { count: 1, bytes: 0 }] {
        let mut bytes = StampBytes::of_delta(&STAMP, revision, below)
            .as_ref()
            .to_vec();
        assert_eq!(weigh_delta(key.len(), &bytes), own - below);
        let read = delta(&bytes, revision).unwrap();
        assert_eq!((read.stamp, read.below), (STAMP, below));
        assert!(!read.is_removed);
        bytes[0] &= !HEAD;
        assert_eq!(weigh_delta(key.len(), &bytes), Weight::NONE);
        let mark = StampBytes::of_mark(Some(below));
        assert_eq!(weigh_delta(key.len(), mark.as_ref()), Weight::NONE - below);
        let read = delta(mark.as_ref(), revision).unwrap();
        assert!(read.is_removed && read.stamp.is_tombstone());
        assert_eq!(read.below, below);
    }
    let mark = StampBytes::of_mark(None);
    assert_eq!(weigh_delta(key.len(), mark.as_ref()), Weight::NONE);
    assert!(delta(mark.as_ref(), revision).unwrap().is_removed);
}

#[test]
fn damaged_deltas_are_refused_wherever_they_break_off() {
    let below = Weight {
        count: 1,
        bytes: 1 << 40,
    };
    let whole = StampBytes::of_delta(&STAMP, at(1000, 0), below);
    for len in 0..whole.as_ref().len() {
        let part = &whole.as_ref()[..len];
        assert!(delta(part, at(1000, 0)).is_none(), "{len} bytes");
        let _ = weigh_delta(5, part);
    }
}
