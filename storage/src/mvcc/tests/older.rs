//! A store written before branches had sums of bytes: 300 keys put, every third one twice, five
//! deleted.

use super::*;
use crate::mvcc::keys::DeltaLimits;

const FILE: &[u8] = include_bytes!("version-1.pages");

fn key(i: u64) -> String {
    format!("key-{i:04}-{}", "x".repeat(20))
}

/// The usage of the keys `range` in the file.
fn expected(range: std::ops::Range<u64>) -> Usage {
    let live = range.filter(|i| !(290..295).contains(i));
    let sizes = live.map(|i| key(i).len() as u64 + if i % 3 == 0 { i % 11 } else { i % 7 });
    let sizes: Vec<u64> = sizes.collect();
    Usage {
        keys: sizes.len() as u64,
        bytes: sizes.iter().sum(),
    }
}

fn usage(store: &Store, range: std::ops::Range<u64>) -> Usage {
    let (start, end) = (key(range.start), key(range.end));
    let range = KeyRange::from_wire(start.as_bytes(), end.as_bytes());
    store.root().usage(range).unwrap()
}

#[test]
fn an_older_store_is_read_and_learns_the_sizes_of_its_values() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    vfs.install(&Path::new(DIR).join("pages"), FILE);
    let mut fixture = Fixture {
        store: run::open(&vfs).unwrap(),
        vfs,
    };
    fixture.store.check().unwrap();
    assert!(fixture.store.lacks_sizes());
    let all = expected(0..300);
    let found = usage(&fixture.store, 0..300);
    assert_eq!((found.keys, found.bytes), (all.keys, 0));
    // Old and new rows side by side, and one that replaces an old one.
    fixture.put(&key(300), "new");
    fixture.put(&key(7), "replaced");
    let found = usage(&fixture.store, 0..301);
    let new = (key(300).len() + 3 + key(7).len() + 8) as u64;
    assert_eq!((found.keys, found.bytes), (all.keys + 1, new));
    fixture.checkpoint();
    fixture.store.check().unwrap();

    assert!(fixture.store.learn_sizes().unwrap());
    assert!(!fixture.store.lacks_sizes());
    for range in [0..7, 8..9, 100..300, 250..251] {
        assert_eq!(usage(&fixture.store, range.clone()), expected(range));
    }
    let whole = usage(&fixture.store, 0..301);
    // The value of key 7 is empty in the file.
    assert_eq!(
        (whole.keys, whole.bytes),
        (all.keys + 1, all.bytes + new - key(7).len() as u64)
    );
    fixture.checkpoint();
    fixture.store.check().unwrap();
    let store = run::open(&fixture.vfs).unwrap();
    store.check().unwrap();
    assert!(!store.lacks_sizes());
    assert_eq!(usage(&store, 0..301), whole);
}

/// As on a disk that was too full to learn the sizes at the start: the store is used, and large enough
/// for deltas.
#[test]
fn an_older_store_that_does_not_know_its_sizes_yet_gets_no_deltas_from_a_compaction() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    vfs.install(&Path::new(DIR).join("pages"), FILE);
    let mut fixture = Fixture {
        store: run::open(&vfs).unwrap(),
        vfs,
    };
    fixture.store.delta_limits = LIMITS;
    fixture.put(&key(7), "replaced");
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    fixture.finish_compaction();
    assert!(!fixture.store.stats().has_deltas);
    assert_eq!(fixture.store.root().versions().unwrap(), 295);
    fixture.checkpoint();
    fixture.reopen();
    assert!(fixture.store.learn_sizes().unwrap());
    assert_eq!(usage(&fixture.store, 0..300).keys, 295);
    fixture.store.check().unwrap();
}

/// Of format 2, whose checksums are CRC-32C.
const FILE_OF_FORMAT_2: &[u8] =
    include_bytes!("../../../../server/testdata/frozen/format-2/store/pages");

#[test]
fn a_store_with_older_checksums_is_read_and_goes_on_with_newer_ones() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join("pages");
    vfs.install(&path, FILE_OF_FORMAT_2);
    let mut fixture = Fixture {
        store: run::open(&vfs).unwrap(),
        vfs,
    };
    fixture.store.check().unwrap();
    let keys = fixture.store.root().live_keys();
    assert!(keys > 0);
    // Two checkpoints, so that both meta pages are new; pages that nobody changed are the old ones.
    for round in 0..2 {
        fixture.put(&format!("new-{round}"), "value");
        fixture.checkpoint();
    }
    fixture.store.check().unwrap();
    let store = run::open(&fixture.vfs).unwrap();
    store.check().unwrap();
    assert_eq!(store.root().live_keys(), keys + 2);
    let file = fixture.vfs.contents(&path).unwrap();
    for unit in [0, 1] {
        assert_eq!(file[unit * 4096 + 12..][..4], 3u32.to_le_bytes());
    }
    // A flipped bit of an old page that is in use is found. Those that are free are not read.
    let mut found = 0;
    for place in (0..file.len()).step_by(4096) {
        if file[place..place + 5] == *b"StlP\x02" {
            let mut damaged = file.clone();
            damaged[place + 4000] ^= 1;
            fixture.vfs.install(&path, &damaged);
            let checked = run::open(&fixture.vfs).and_then(|store| store.check());
            found += u32::from(checked.is_err());
        }
    }
    assert!(found > 0, "no page is as it was");
}

/// Of format 4 of this module's part of the meta page, with deltas in every role. `FREEZE` writes
/// it, as that of another format.
const FILE_WITH_DELTAS: &[u8] = include_bytes!("deltas-4.pages");

const LIMITS: DeltaLimits = DeltaLimits {
    direct_bytes: 0,
    close_parts: 1,
    close_bytes: 4000,
    close_bytes_max: 4000,
    merge_trees: 2,
    base_entries: u64::MAX,
    merge_trees_max: 2,
    merge_every: 8,
    merge_entries: 4,
};

/// The key and the value of the put that makes this revision.
fn put_of(revision: i64) -> (String, String) {
    (
        format!("key-{:03}", revision * 7 % 400),
        revision.to_string(),
    )
}

fn put_some(fixture: &mut Fixture, count: i64) {
    for _ in 0..count {
        let (key, value) = put_of(fixture.store.root().revision() + 1);
        fixture.put(&key, &value);
    }
    fixture.checkpoint();
}

/// Every revision is there, and the newest version of every key.
fn holds_all_puts(root: &Root) {
    let newest = root.revision();
    for revision in 2..=newest {
        let (key, value) = put_of(revision);
        assert_eq!(value_at(root, &key, revision), Some(value));
    }
    assert_eq!(root.count(KeyRange::ALL, 0).unwrap(), 400);
    assert_eq!(root.versions().unwrap(), newest as u64 - 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "writes the sample that it keeps")]
fn a_store_with_deltas_of_an_earlier_version_is_read_and_merges_them() {
    let path = Path::new(DIR).join("pages");
    if std::env::var_os("FREEZE").is_some() {
        let mut fixture = Fixture::new();
        fixture.store.delta_limits = LIMITS;
        put_some(&mut fixture, 600);
        while deltas::roles(fixture.store.root()).len() < 3 {
            put_some(&mut fixture, 20);
        }
        let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mvcc/tests/deltas-4.pages");
        std::fs::write(to, fixture.vfs.contents(&path).unwrap()).unwrap();
        return;
    }
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    vfs.install(&path, FILE_WITH_DELTAS);
    let mut fixture = Fixture {
        store: run::open(&vfs).unwrap(),
        vfs,
    };
    let root = fixture.store.root();
    assert_eq!(deltas::roles(root).len(), 3);
    let (all, with_key) = root.keys.delta_trees_of(b"no such key");
    assert!(all >= 3 && with_key == 0, "{with_key} of {all}");
    holds_all_puts(root);
    fixture.store.check().unwrap();
    fixture.store.delta_limits = LIMITS;
    (0..40).for_each(|_| put_some(&mut fixture, 20));
    holds_all_puts(fixture.store.root());
    fixture.store.check().unwrap();
}
