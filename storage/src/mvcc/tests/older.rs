//! A store written before branches had sums of bytes: 300 keys put, every third one twice, five
//! deleted.

use super::*;

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
