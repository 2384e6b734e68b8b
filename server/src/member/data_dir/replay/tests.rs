use std::path::PathBuf;

use etcd_api::etcdserverpb as pb;
use raft::Write;
use storage::vfs::sim::SimVfs;

use super::*;
use crate::config::{self, Config};
use crate::member::data_dir::{DataDir, Found};

const PUTS: u64 = 100;

fn open(disk: &SimVfs, config: &Config, at_once: u64) -> Found {
    let vfs = Arc::new(disk.clone());
    DataDir::find_alone(vfs, config, None, Options::default(), at_once).unwrap()
}

fn normal(index: u64, request: &Request) -> Entry {
    Entry {
        term: 1,
        index,
        kind: EntryKind::Normal,
        data: request.encode(index),
    }
}

/// A member whose log has puts, their deletion, and another put.
fn with_a_deletion(config: &Config) -> SimVfs {
    let disk = SimVfs::new(1);
    let Found::Empty(empty) = open(&disk, config, u64::MAX) else {
        panic!("the disk is empty");
    };
    let mut data = empty.found(config).unwrap();
    let put = |index: u64| {
        let key = format!("{index:04}").into_bytes().into();
        let put = pb::PutRequest {
            key,
            ..Default::default()
        };
        normal(index, &Request::Put(put))
    };
    let delete = Request::DeleteRange(pb::DeleteRangeRequest {
        key: b"\0"[..].into(),
        range_end: b"\0"[..].into(),
        ..Default::default()
    });
    let deleted_at = PUTS + 2;
    let puts = (2..deleted_at).map(put);
    let mut entries: Vec<Entry> = puts.chain([normal(deleted_at, &delete)]).collect();
    entries.push(put(deleted_at + 1));
    let commit = deleted_at + 1;
    let write = Write {
        entries,
        hard_state: Some(raft::HardState {
            commit,
            ..data.recovered.hard_state
        }),
        ..Write::default()
    };
    data.log.append(&write).unwrap();
    data.log.sync().unwrap();
    disk
}

#[test]
fn tombstones_of_a_large_deletion_are_left_to_the_applier() {
    let mut config = config::parse(&[], &[], &|_| Err(std::io::ErrorKind::NotFound.into()));
    let config = config.as_mut().unwrap();
    config.data_dir = PathBuf::from("/data");
    let disk = with_a_deletion(config);
    for (at_once, unwritten) in [(u64::MAX, 0), (10, PUTS)] {
        let Found::Used(data) = open(&disk, config, at_once) else {
            panic!("the disk is a member's");
        };
        let root = data.state.store.root();
        assert_eq!(root.unwritten_deletes(), unwritten);
        assert_eq!(root.live_keys(), 1);
        assert_eq!(root.revision(), PUTS as i64 + 3);
    }
}
