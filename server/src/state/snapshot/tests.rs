mod receive;
mod rows;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use etcd_files::bbolt::read::Database;
use storage::mvcc::{Applied, Bucket, KeyRange, Options, Root, Store};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::load::{Plan, load};
use super::*;
use crate::state::hashes::Hashes;
use crate::state::{LeaseRow, MemberInfo};

const DIR: &str = "/data/member/store";

fn open(vfs: &SimVfs) -> Store {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    Store::open(vfs, Path::new(DIR), Options::default()).unwrap()
}

/// Versions, transactions, deletions, leases, an alarm, members, and an unfinished compaction.
fn sample() -> Store {
    let mut store = open(&SimVfs::new(1));
    let mut index = 0;
    let mut apply = |store: &mut Store, f: &dyn Fn(&mut storage::mvcc::Write<'_>)| {
        index += 1;
        f(&mut store.write(Applied { index, term: 7 }));
    };
    for round in 0..20u8 {
        apply(&mut store, &|write| {
            for key in 0..30 {
                let lease = if key == 3 { 77 } else { 0 };
                let key = format!("key{key}");
                let value = vec![round; 50 * usize::from(round)];
                write.put(key.as_bytes(), &value, lease).unwrap();
            }
        });
        let doomed = format!("key{round}");
        apply(&mut store, &|write| {
            let range = KeyRange::from_wire(doomed.as_bytes(), b"");
            write.delete_range(range).unwrap();
        });
    }
    apply(&mut store, &|write| {
        let row = LeaseRow {
            id: 77,
            granted_ttl: 600,
            remaining_ttl: 20,
        };
        let (key, value) = crate::state::lease_row(&row);
        write.set(Bucket::Lease, &key, &value).unwrap();
        let alarm = crate::state::alarm_key(u64::MAX, 1);
        write.set(Bucket::Alarm, &alarm, b"").unwrap();
        let member = MemberInfo {
            id: 0x0abc,
            name: "one".into(),
            ..Default::default()
        };
        let (key, row) = crate::state::member_row(&member);
        write.set(Bucket::Members, key.as_bytes(), &row).unwrap();
        write
            .set(Bucket::Cluster, b"clusterVersion", b"3.7.0")
            .unwrap();
    });
    apply(&mut store, &|write| write.compact(15).unwrap());
    store.compact_step(40).unwrap();
    store.publish();
    store
}

fn written(store: &Store) -> Vec<u8> {
    let snapshot = Snapshot::of(store.reader().view()).unwrap();
    let mut file = Vec::new();
    snapshot.write(&mut file).unwrap();
    assert_eq!(file.len() as u64, snapshot.file_bytes());
    assert_eq!(snapshot.version(), "3.7.0");
    file
}

fn side(root: &Root, bucket: Bucket) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    root.side_scan(bucket, b"", &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    rows
}

#[test]
fn what_is_written_is_loaded_with_the_same_hash_at_every_revision() {
    let store = sample();
    let file = written(&store);
    let database = Database::open(&file[..]).unwrap();
    database.check().unwrap();
    let vfs = SimVfs::new(2);
    let plan = Plan::default();
    let incoming = load(Arc::new(vfs.clone()), Path::new(DIR), &database, &plan);
    let loaded = incoming.unwrap().install().unwrap();
    let (one, other) = (store.root(), loaded.root());
    assert_eq!(one.revision(), other.revision());
    assert_eq!(one.compacted(), other.compacted());
    assert_eq!(one.applied(), other.applied());
    let hashes = Hashes::default();
    for revision in one.compacted()..=one.revision() {
        assert_eq!(hashes.at(one, revision), hashes.at(other, revision));
    }
    for bucket in [
        Bucket::Lease,
        Bucket::LeaseKeys,
        Bucket::Alarm,
        Bucket::Members,
        Bucket::Cluster,
    ] {
        assert_eq!(side(one, bucket), side(other, bucket), "{bucket:?}");
        assert!(!side(one, bucket).is_empty(), "{bucket:?}");
    }
    assert_eq!(written(&loaded), file, "the same content is the same file");
}

#[test]
fn a_plan_replaces_members_position_and_revision() {
    let file = written(&sample());
    let database = Database::open(&file[..]).unwrap();
    let member = MemberInfo {
        id: 5,
        ..Default::default()
    };
    let plan = Plan {
        members: Some(vec![member.clone()]),
        applied: Some(Applied { index: 1, term: 1 }),
        bump_revision: 1000,
        ..Plan::default()
    };
    let vfs = Arc::new(SimVfs::new(2));
    let incoming = load(vfs, Path::new(DIR), &database, &plan).unwrap();
    let mut store = incoming.install().unwrap();
    let revision = sample().root().revision() + 1000;
    assert_eq!(store.root().revision(), revision);
    assert_eq!(store.root().compacted(), revision);
    assert_eq!(store.root().applied().index, 1);
    assert_eq!(crate::state::members(store.root()).unwrap(), [member]);
    while !store.compact_step(1000).unwrap().done {}
    store.check().unwrap();
}

#[test]
fn damage_is_refused_with_its_place() {
    let mut file = written(&sample());
    file[2 * 4096 + 16 + 7] = 0xff;
    let database = Database::open(&file[..]).unwrap();
    let vfs = Arc::new(SimVfs::new(2));
    let error = load(vfs, Path::new(DIR), &database, &Plan::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("page 2 (byte 8208): "), "{text}");
}

#[test]
fn content_other_than_measured_is_no_fault_of_the_reader() {
    let mut store = sample();
    let layout = Snapshot::of(store.reader().view()).unwrap().layout;
    let next = Applied {
        index: 1000,
        term: 7,
    };
    store.write(next).put(b"more", &[7; 100_000], 0).unwrap();
    store.publish();
    let mut snapshot = Snapshot::of(store.reader().view()).unwrap();
    snapshot.layout = layout;
    let error = snapshot.write(&mut Vec::new()).unwrap_err();
    let WriteError::Data(Error::Other(Code::Unknown, text)) = error else {
        panic!("{error:?}");
    };
    assert!(text.starts_with("the content changed"), "{text}");
}

#[test]
fn what_nobody_wants_any_more_is_not_measured_to_its_end() {
    let store = sample();
    let asked = std::cell::Cell::new(0);
    let is_wanted = || {
        asked.set(asked.get() + 1);
        asked.get() < 5
    };
    let error = Snapshot::of_while(store.reader().view(), &is_wanted).unwrap_err();
    assert!(matches!(error, WriteError::Sink(_)), "{error:?}");
    assert_eq!(asked.get(), 5);
}

#[test]
fn large_values_are_read_once_and_measured_by_the_trees_of_keys() {
    const KEYS: u64 = 1000;
    let vfs = SimVfs::new(1);
    let mut store = open(&vfs);
    for index in 1..=KEYS {
        let mut write = store.write(Applied { index, term: 1 });
        write.put(&index.to_be_bytes(), &[7; 4096], 0).unwrap();
    }
    let saved = store.begin_checkpoint().unwrap().run().unwrap();
    store.finish_checkpoint(saved);
    drop(store);
    let store = open(&vfs);
    let mut reads = vfs.reads();
    let mut reads_since = || vfs.reads() - std::mem::replace(&mut reads, vfs.reads());
    let snapshot = Snapshot::of(store.reader().view()).unwrap();
    let measuring = reads_since();
    let mut file = Vec::new();
    snapshot.write(&mut file).unwrap();
    let writing = reads_since();
    assert_eq!(file.len() as u64, snapshot.file_bytes());
    assert!(writing > KEYS / 4, "three rows in a leaf: {writing}");
    assert!(measuring < writing / 4, "{measuring} of {writing}");
}
