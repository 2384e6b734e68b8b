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

fn put(index: u64, key: &str, value: Vec<u8>) -> Entry {
    let put = pb::PutRequest {
        key: key.to_owned().into_bytes().into(),
        value: value.into(),
        ..Default::default()
    };
    normal(index, &Request::Put(put))
}

fn delete(index: u64, key: &'static [u8], range_end: &'static [u8]) -> Entry {
    let delete = pb::DeleteRangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    };
    normal(index, &Request::DeleteRange(delete))
}

/// A member that has committed these entries, and has applied none of them.
fn with_log(config: &Config, entries: Vec<Entry>) -> SimVfs {
    let disk = SimVfs::new(1);
    let Found::Empty(empty) = open(&disk, config, u64::MAX) else {
        panic!("the disk is empty");
    };
    let mut data = empty.found(config).unwrap();
    commit(&mut data, entries);
    disk
}

/// Writes committed entries to the log, and applies none of them.
fn commit(data: &mut DataDir, entries: Vec<Entry>) {
    let commit = entries.last().unwrap().index;
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
}

fn config() -> Config {
    let config = config::parse(&[], &[], &|_| Err(std::io::ErrorKind::NotFound.into()));
    let mut config = config.unwrap();
    config.data_dir = PathBuf::from("/data");
    config
}

#[test]
fn tombstones_of_a_large_deletion_are_left_to_the_applier() {
    let config = &config();
    let deleted_at = PUTS + 2;
    let puts = (2..deleted_at).map(|index| put(index, &format!("{index:04}"), Vec::new()));
    let mut entries: Vec<Entry> = puts.chain([delete(deleted_at, b"\0", b"\0")]).collect();
    entries.push(put(deleted_at + 1, "one more", Vec::new()));
    let disk = with_log(config, entries);
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

/// More is changed behind it than may stay in memory.
#[test]
fn a_large_deletion_in_the_way_of_a_checkpoint_is_left_to_the_applier_too() {
    const BUDGET: u64 = 16 << 20;
    const KEY_BYTES: usize = 1000;
    let mut config = config();
    config.memory_budget_bytes = Some(BUDGET);
    let deleted_at = PUTS + 2;
    let puts = (2..deleted_at).map(|index| put(index, &format!("{index:04}"), Vec::new()));
    let mut entries: Vec<Entry> = puts.chain([delete(deleted_at, b"0", b"1")]).collect();
    let others = 2 * BUDGET / KEY_BYTES as u64;
    entries.extend((1..=others).map(|at| {
        let key = format!("x{:0KEY_BYTES$}", at * 7919 % others);
        put(deleted_at + at, &key, Vec::new())
    }));
    let disk = with_log(&config, entries);
    let Found::Used(data) = open(&disk, &config, 10) else {
        panic!("the disk is a member's");
    };
    let root = data.state.store.root();
    assert_eq!(root.unwritten_deletes(), PUTS);
    assert_eq!(root.live_keys(), others);
    let dirty = data.state.store.stats().dirty_bytes;
    assert!(dirty < BUDGET, "{dirty}");
    // The member goes on with the same.
    assert_eq!(data.pace.dirty_bytes_max, BUDGET);
}

/// Each checkpoint of a replay gives up all leaves of the one before. Those that the store had at
/// the start must not wait for the end of the replay: the file would be longer by all of them.
#[test]
fn what_a_replay_gives_up_is_reused_while_it_goes_on() {
    const KEYS: u64 = 4_000;
    const KEY_BYTES: usize = 1_000;
    const ROUNDS: u64 = 6;
    const DIRTY_BYTES_MAX: u64 = 64 << 10;
    let config = &config();
    let key = |at: u64| format!("{at:04}{:x<KEY_BYTES$}", "");
    let round = |from: u64| (0..KEYS).map(move |at| put(from + at, &key(at), Vec::new()));
    let disk = with_log(config, round(2).collect());
    let Found::Used(mut data) = open(&disk, config, u64::MAX) else {
        panic!("the disk is a member's");
    };
    let store = &mut data.state.store;
    let job = store.begin_checkpoint().expect("the puts were replayed");
    let _ = store.finish_checkpoint(job.run().unwrap());
    let rounds = (1..=ROUNDS).flat_map(|at| round(2 + at * KEYS));
    commit(&mut data, rounds.collect());
    let store_dir = data.store_dir.clone();
    drop(data);

    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let store = Store::open(Arc::clone(&vfs), &store_dir, Default::default()).unwrap();
    let mut state = State::new(store, 1).unwrap();
    let (log_dir, options) = (config.log_dir(), Options::default());
    let most = DIRTY_BYTES_MAX;
    let replayed = open_log(vfs, &log_dir, &mut state, options, Threads::One, most);
    let (_, _, replayed) = replayed.unwrap();
    assert_eq!(replayed.entries, ROUNDS * KEYS);
    assert!(replayed.unsaved.entries < KEYS, "there were checkpoints");
    let held = state.store.stats().viewed_bytes;
    assert!(held < KEYS * KEY_BYTES as u64 / 4, "{held}");
}

/// Batches are looked up by several threads, and applied in the order of the log all the same.
#[test]
fn with_several_threads_a_replay_keeps_the_order_of_the_log() {
    const VALUE_BYTES: usize = 1 << 20;
    const ENTRIES: u64 = 60;
    let entry = |index: u64| match index % 23 {
        // Makes a batch of its own.
        0 => delete(index, b"other", b""),
        _ => put(index, "key", vec![index as u8; VALUE_BYTES]),
    };
    let config = &config();
    let disk = with_log(config, (2..2 + ENTRIES).map(entry).collect());
    let Found::Used(data) = DataDir::find(Arc::new(disk), config, 1).unwrap() else {
        panic!("the disk is a member's");
    };
    let (root, mut version) = (data.state.store.root(), 0);
    for index in (2..2 + ENTRIES).filter(|index| index % 23 != 0) {
        version += 1;
        let found = root.get(b"key", version + 1, |item| (item.version, item.value[0]));
        assert_eq!(found.unwrap(), Some((version, index as u8)), "{index}");
    }
    assert_eq!(root.revision(), version + 1);
    assert_eq!(root.applied().index, ENTRIES + 1);
}

/// An alarm of a kind that this version does not know refuses no change: not when it is applied, and
/// not when it is applied again.
#[test]
fn puts_behind_an_alarm_of_an_unknown_kind_are_replayed() {
    let alarm = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id: 1,
        alarm: 7,
    };
    let config = &config();
    let entries = vec![
        normal(2, &Request::Alarm(alarm)),
        put(3, "replayed", Vec::new()),
    ];
    let disk = with_log(config, entries);
    let Found::Used(mut data) = open(&disk, config, u64::MAX) else {
        panic!("the disk is a member's");
    };
    let live = put(4, "live", Vec::new());
    let applied = Applied { index: 4, term: 1 };
    let request = entry::request(&live).unwrap();
    let (by, mut effects) = (Default::default(), Effects::default());
    let state = &mut data.state;
    let outcome = state.apply(applied, &request, &by, AnswerFor::Client, &mut effects);
    assert!(outcome.is_ok());
    let root = data.state.store.root();
    for key in ["replayed", "live"] {
        let found = root.get(key.as_bytes(), 0, |_| ()).unwrap();
        assert!(found.is_some(), "{key}");
    }
}

/// What a deletion answers with may be more than fits in memory. After a crash over that, its
/// replay must not gather it again.
#[test]
fn rows_of_answers_are_not_read_by_a_replay() {
    let config = &config();
    // Each value takes a page.
    let puts = (2..2 + PUTS).map(|index| put(index, &format!("{index:04}"), vec![7; 5_000]));
    let disk = with_log(config, puts.collect());
    let used = |disk: &SimVfs| match open(disk, config, u64::MAX) {
        Found::Used(data) => data,
        Found::Empty(_) => panic!("the disk is a member's"),
    };
    let mut data = used(&disk);
    let store = &mut data.state.store;
    let job = store.begin_checkpoint().expect("the puts were replayed");
    let _ = store.finish_checkpoint(job.run().unwrap());
    drop(data);
    let reads = |prev_kv| {
        let disk = disk.process_killed();
        let mut data = used(&disk);
        let delete = pb::DeleteRangeRequest {
            key: b"\0"[..].into(),
            range_end: b"\0"[..].into(),
            prev_kv,
        };
        let delete = normal(PUTS + 2, &Request::DeleteRange(delete));
        commit(&mut data, vec![delete]);
        drop(data);
        let disk = disk.process_killed();
        let before = disk.reads();
        let data = used(&disk);
        assert_eq!(data.state.store.root().live_keys(), 0);
        disk.reads() - before
    };
    let (without, with) = (reads(false), reads(true));
    assert!(with < without + PUTS, "{without} and {with} reads");
}
