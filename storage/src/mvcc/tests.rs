mod cold;
mod compaction;
mod cuts;
mod deletion;
mod deltas;
mod large_entry;
mod older;

use std::ops::ControlFlow;
use std::path::Path;

use super::meta::Meta;
use super::model::run::{self, DIR, Input, Runner, agree, found_after};
use super::model::{Row, Version};
use super::*;
use crate::vfs::Vfs;
use crate::vfs::sim::SimVfs;

/// Bytes that are the same in every run.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

struct Fixture {
    vfs: SimVfs,
    store: Store,
}

impl Fixture {
    fn new() -> Fixture {
        let vfs = SimVfs::new(1);
        let store = run::open(&vfs).unwrap();
        Fixture { vfs, store }
    }

    fn write(&mut self) -> Write<'_> {
        let applied = self.store.root().applied();
        self.store.write(Applied {
            index: applied.index + 1,
            term: 1,
        })
    }

    fn put(&mut self, key: &str, value: &str) {
        self.write()
            .put(key.as_bytes(), value.as_bytes(), 0)
            .unwrap();
    }

    fn delete(&mut self, key: &str) {
        let range = KeyRange::from_wire(key.as_bytes(), b"");
        assert_eq!(self.write().delete_range(range).unwrap(), 1);
    }

    fn checkpoint(&mut self) -> u64 {
        let done = self.store.begin_checkpoint().unwrap().run().unwrap();
        self.store.finish_checkpoint(done)
    }

    fn reopen(&mut self) {
        self.vfs = self.vfs.process_killed();
        self.store = run::open(&self.vfs).unwrap();
    }

    fn finish_compaction(&mut self) {
        while !self.store.compact_step(3).unwrap().done {}
    }
}

fn value_at(root: &Root, key: &str, at: i64) -> Option<String> {
    root.get(key.as_bytes(), at, |item| {
        String::from_utf8_lossy(item.value).into_owned()
    })
    .unwrap()
}

/// `+key` for a put, `-key` for a deletion, one word each.
fn history(root: &Root, from: i64, through: i64) -> String {
    let mut words = Vec::new();
    root.changes(from, through, &mut |change| {
        let row = Row::from(change);
        let sign = if row.put.is_some() { '+' } else { '-' };
        let key = String::from_utf8_lossy(&row.key).into_owned();
        words.push(format!(
            "{}.{}{sign}{key}",
            row.revision.main, row.revision.sub
        ));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    words.join(" ")
}

#[test]
fn empty_store_is_at_revision_one_and_never_compacted() {
    let fixture = Fixture::new();
    let root = fixture.store.root();
    assert_eq!((root.revision(), root.compacted()), (1, -1));
    assert_eq!(root.applied(), Applied::default());
    assert_eq!(root.count(KeyRange::ALL, 0).unwrap(), 0);
    assert_eq!(history(root, 0, i64::MAX), "");
}

#[test]
fn changes_of_one_entry_share_the_main_revision_and_see_each_other() {
    let mut fixture = Fixture::new();
    let mut write = fixture.write();
    assert!(!write.changed());
    write.put(b"a", b"1", 0).unwrap();
    write.put(b"b", b"1", 0).unwrap();
    assert!(write.changed());
    assert_eq!(value_at(&write, "b", 0).unwrap(), "1");
    assert_eq!(write.delete_range(KeyRange::ALL).unwrap(), 2);
    assert_eq!(write.count(KeyRange::ALL, 0).unwrap(), 0);
    drop(write);
    assert_eq!(
        history(fixture.store.root(), 2, 2),
        "2.0+a 2.1+b 2.2-a 2.3-b"
    );
}

#[test]
fn entry_without_effect_moves_the_applied_index_alone() {
    let mut fixture = Fixture::new();
    let mut write = fixture.write();
    assert_eq!(write.delete_range(KeyRange::ALL).unwrap(), 0);
    assert!(!write.changed());
    drop(write);
    assert_eq!(fixture.store.root().revision(), 1);
    assert_eq!(fixture.store.root().applied().index, 1);
}

#[test]
fn version_and_create_revision_start_over_after_a_deletion() {
    let mut fixture = Fixture::new();
    fixture.put("k", "1");
    fixture.put("k", "2");
    fixture.delete("k");
    fixture.put("k", "3");
    let root = fixture.store.root();
    let numbers = |at| {
        root.get(b"k", at, |item| {
            (item.create_revision, item.mod_revision, item.version)
        })
        .unwrap()
    };
    assert_eq!(
        [3, 4, 5].map(numbers),
        [Some((2, 3, 2)), None, Some((5, 5, 1))]
    );
}

#[test]
fn deletion_of_more_keys_than_a_chunk_takes_them_all_in_order() {
    let mut fixture = Fixture::new();
    let mut write = fixture.write();
    for i in 0..1500 {
        write.put(format!("k{i:04}").as_bytes(), b"", 7).unwrap();
    }
    drop(write);
    let range = KeyRange::from_wire(b"k0100", b"k1400");
    assert_eq!(fixture.write().delete_range(range).unwrap(), 1300);
    let root = fixture.store.root();
    let mut expected = 100;
    root.changes(3, 3, &mut |change| {
        let Change::Delete { revision, key } = change else {
            panic!("only deletions");
        };
        assert_eq!(key, format!("k{expected:04}").as_bytes());
        assert_eq!(revision.sub, expected - 100);
        expected += 1;
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    assert_eq!(expected, 1400);
    assert_eq!(root.count(KeyRange::ALL, 0).unwrap(), 200);
    assert_eq!(root.count(KeyRange::ALL, 2).unwrap(), 1500);
}

#[test]
fn key_moves_from_lease_to_lease_and_leaves_the_last_when_it_is_deleted() {
    let mut fixture = Fixture::new();
    let keys_of = |root: &Root, lease: i64| {
        let mut count = 0;
        let prefix = lease.to_be_bytes();
        root.side_scan(Bucket::LeaseKeys, &prefix, &mut |key, _| {
            assert_eq!(&key[8..], b"k");
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        count
    };
    let mut step = |lease: Option<i64>| {
        let mut write = fixture.write();
        match lease {
            Some(lease) => write.put(b"k", b"", lease).unwrap(),
            None => assert_eq!(write.delete_range(KeyRange::ALL).unwrap(), 1),
        }
        [7, 8].map(|lease| keys_of(&write, lease))
    };
    assert_eq!(step(Some(7)), [1, 0]);
    assert_eq!(step(Some(8)), [0, 1]);
    assert_eq!(step(Some(8)), [0, 1]);
    assert_eq!(step(Some(0)), [0, 0]);
    assert_eq!(step(Some(7)), [1, 0]);
    assert_eq!(step(None), [0, 0]);
}

#[test]
fn key_with_thousands_of_versions_does_not_hide_its_neighbours() {
    let mut fixture = Fixture::new();
    fixture.put("a", "");
    for i in 0..3000 {
        fixture.put("b", &i.to_string());
    }
    fixture.put("c", "");
    let root = fixture.store.root();
    for (at, expected) in [
        (2, "a="),
        (3, "a= b=0"),
        (1502, "a= b=1499"),
        (0, "a= b=2999 c="),
    ] {
        let mut found = Vec::new();
        root.range(KeyRange::ALL, at, Want::Values, &mut |item| {
            let version = Version::from(item);
            let text = |bytes| String::from_utf8(bytes).unwrap();
            found.push(format!("{}={}", text(version.key), text(version.value)));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found.join(" "), expected);
    }
}

#[test]
fn view_stays_as_it_was_and_sees_nothing_unpublished() {
    let mut fixture = Fixture::new();
    let reader = fixture.store.reader();
    fixture.put("k", "1");
    assert_eq!(reader.view().revision(), 1);
    fixture.store.publish();
    let view = reader.view();
    fixture.put("k", "2");
    fixture.delete("k");
    fixture.store.publish();
    assert_eq!(value_at(&view, "k", 0).unwrap(), "1");
    assert_eq!(view.count(KeyRange::ALL, 0).unwrap(), 1);
    assert_eq!(value_at(&reader.view(), "k", 0), None);
    assert_eq!(fixture.store.stats().views, 1);
    drop(view);
    assert_eq!(fixture.store.stats().views, 0);
}

#[test]
fn checkpoint_brings_everything_back_and_names_the_older_index() {
    let mut fixture = Fixture::new();
    fixture.put("a", "1");
    assert_eq!(fixture.checkpoint(), 0);
    assert_eq!(fixture.checkpoint(), 1, "nothing has changed since");
    assert!(
        fixture.store.begin_checkpoint().is_none(),
        "and both have it"
    );
    fixture.put("b", "1");
    fixture.write().set(Bucket::Auth, b"enabled", b"1").unwrap();
    assert_eq!(fixture.checkpoint(), 1);
    fixture.put("lost", "the log has it");
    fixture.reopen();
    let root = fixture.store.root();
    assert_eq!((root.applied().index, root.revision()), (3, 3));
    assert_eq!(value_at(root, "b", 0).unwrap(), "1");
    assert_eq!(value_at(root, "lost", 0), None);
    assert_eq!(
        root.side_get(Bucket::Auth, b"enabled").unwrap().unwrap(),
        b"1"
    );
    assert_eq!(fixture.store.unusable_meta(), None);
}

#[test]
fn hash_of_a_store_whose_keys_are_all_gone_covers_what_compaction_left() {
    let mut fixture = Fixture::new();
    fixture.put("k", "");
    fixture.write().compact(2).unwrap();
    fixture.delete("k");
    let rows = |root: &Root, at| {
        let mut rows = Vec::new();
        let hashed = root.hash_rows(at, &mut go_on).unwrap().unwrap();
        let mut push = |change: Change<'_>| rows.push(Row::from(change).revision.main);
        let _ = hashed.visit(Revision::default(), &mut push, &mut go_on);
        rows
    };
    // Nothing is kept at 3, which switches etcd's filter off.
    assert_eq!(rows(fixture.store.root(), 3), [2, 3]);
    fixture.put("other", "");
    // One live key switches it on again.
    assert_eq!(rows(fixture.store.root(), 4), [3, 4]);
}

#[test]
fn a_compaction_at_the_revision_that_emptied_the_store_hashes_its_tombstones_alone() {
    let mut fixture = Fixture::new();
    fixture.put("k", "");
    fixture.write().compact(2).unwrap();
    fixture.delete("k");
    fixture.put("other", "");
    let rows = |at| {
        let mut rows = Vec::new();
        let root = fixture.store.root();
        let hashed = root.hash_rows_at_compaction(at, &mut go_on);
        let mut push = |change: Change<'_>| rows.push(Row::from(change).revision.main);
        let hashed = hashed.unwrap().unwrap();
        let _ = hashed.visit(Revision::default(), &mut push, &mut go_on);
        rows
    };
    // The tombstone at 3 counts as kept, so the filter stays on, unlike for a hash at 3.
    assert_eq!(rows(3), [3]);
    assert_eq!(rows(4), [3, 4]);
}

#[test]
fn store_agrees_with_the_naive_history() {
    let mut overlaps = [0, 0];
    for seed in 0..60 {
        let of_one = agree(&noise(seed, 3000));
        overlaps = [0, 1].map(|kind| overlaps[kind] + of_one[kind]);
    }
    println!("overlapping deletions, of leases and of ranges: {overlaps:?}");
    assert!(overlaps.iter().all(|kind| *kind > 20), "{overlaps:?}");
}

#[test]
fn store_agrees_with_the_naive_history_on_arbitrary_programs() {
    arbtest::arbtest(|u| {
        agree(u.bytes(u.len())?);
        Ok(())
    })
    .size_max(4096)
    .budget_ms(2000);
}

#[test]
fn any_power_cut_leaves_the_state_of_one_of_the_last_two_checkpoints() {
    const PROGRAMS: u64 = 3;
    const SURVIVALS: u64 = 3;
    for program in 0..PROGRAMS {
        let bytes = noise(1000 + program, 4000);
        for calls in 0.. {
            let vfs = SimVfs::new(program);
            vfs.fail_after(calls);
            let mut runner = Runner::new(vfs.clone(), false);
            let finished = runner.run(&mut Input(&bytes)).is_ok();
            for survival in 0..SURVIVALS {
                found_after(&vfs.power_cut(survival), &runner, calls);
            }
            if finished {
                println!("program {program}: {calls} calls");
                assert!(calls > 20, "the program wrote next to nothing");
                break;
            }
        }
    }
}

#[test]
fn store_survives_a_power_cut_in_arbitrary_programs() {
    arbtest::arbtest(|u| {
        run::survive(u.bytes(u.len())?);
        Ok(())
    })
    .size_max(4096)
    .budget_ms(2000);
}

#[test]
fn meta_of_another_format_version_is_refused() {
    let mut bytes = Meta::EMPTY.encode();
    assert!(Meta::decode(&bytes).is_some());
    bytes[0] = 9;
    assert!(Meta::decode(&bytes).is_none());
    assert!(Path::new(DIR).is_absolute());
}

#[test]
fn meta_of_an_older_version_has_no_deltas_and_an_impossible_ring_is_refused() {
    let newest = Meta::EMPTY.encode();
    let with_ring = newest.len() - size_of::<keys::PlaceSet>();
    for (version, len) in [
        (1, with_ring - keys::RING_BYTES),
        (2, with_ring - keys::RING_BYTES),
        (3, with_ring),
    ] {
        let mut older = newest[..len].to_vec();
        older[0] = version;
        let meta = Meta::decode(&older).unwrap();
        assert_eq!((meta.ring, meta.filters), (keys::Ring::NONE, 0));
        older.push(0);
        assert!(Meta::decode(&older).is_none(), "longer than it was");
    }
    let places = keys::DELTA_TREES as u8;
    for ring in [[places, 0, 0], [0, places, 0], [0, 1, 2]] {
        let mut bytes = newest;
        bytes[with_ring - keys::RING_BYTES..with_ring].copy_from_slice(&ring);
        assert!(Meta::decode(&bytes).is_none(), "{ring:?}");
    }
    assert!(Meta::decode(&newest[..newest.len() - 1]).is_none());
}

#[test]
fn the_end_of_the_file_is_given_back_after_most_was_deleted() {
    let mut fixture = Fixture::new();
    // What is not merged holds pages of the base back until more changes come.
    fixture.store.delta_limits = keys::DeltaLimits::default();
    let value = noise(1, 400);
    for i in 0..20_000u32 {
        let key = format!("key-{:05}", i.wrapping_mul(7919) % 20_000);
        fixture.write().put(key.as_bytes(), &value, 0).unwrap();
        if i % 64 == 0 {
            fixture.store.spill().unwrap();
        }
    }
    fixture.checkpoint();
    for i in (0..20_000).filter(|i| i % 10 != 0) {
        fixture.delete(&format!("key-{i:05}"));
    }
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    fixture.finish_compaction();
    let settle = |fixture: &mut Fixture| {
        for _ in 0..4 {
            fixture.store.settle_space();
            fixture.checkpoint();
            fixture.store.publish();
            while !fixture.store.release_step(usize::MAX) {}
        }
    };
    settle(&mut fixture);
    let long = fixture.store.stats();
    assert!(long.file_bytes > 6_000_000, "{long:?}");
    assert!(fixture.store.surplus_bytes().unwrap() > 4_000_000);
    let mut steps = 1;
    while !fixture.store.relocate_step(512 << 10).unwrap() {
        steps += 1;
    }
    assert!(steps > 2, "all at once is no step");
    settle(&mut fixture);
    let short = fixture.store.stats();
    assert!(short.file_bytes < 2 * 2000 * 420 + (1 << 20), "{short:?}");
    fixture.store.check().unwrap();
    fixture.reopen();
    let all = fixture.store.root().count(KeyRange::ALL, 0).unwrap();
    assert_eq!(all, 2000);
    let kept = fixture
        .store
        .root()
        .get(b"key-00010", 0, |item| item.value == value);
    assert_eq!(kept.unwrap(), Some(true));
}

#[test]
fn a_disk_full_at_any_call_does_no_harm() {
    let bytes = noise(2000, 3000);
    for calls in 0.. {
        let vfs = SimVfs::new(calls);
        // Made beforehand: a failed creation leaves no store to check.
        drop(run::open(&vfs).unwrap());
        vfs.full_after(calls, 1 + calls % 4);
        let mut runner = Runner::new(vfs.clone(), false);
        runner
            .run(&mut Input(&bytes))
            .unwrap_or_else(|e| panic!("full at call {calls}: {e}"));
        let times = vfs.times_full();
        found_after(&vfs.power_cut(calls), &runner, calls);
        found_after(&vfs.process_killed(), &runner, calls);
        vfs.full_after(0, 0);
        runner.finish();
        if times == 0 {
            assert!(calls > 20, "the program wrote next to nothing");
            break;
        }
    }
}

fn nth_key(root: &Root, n: usize) -> Vec<u8> {
    let (mut found, mut left) = (Vec::new(), n);
    root.range(KeyRange::ALL, 0, Want::KeysOnly, &mut |item| {
        found = item.key.to_vec();
        left -= 1;
        match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })
    .unwrap();
    found
}

/// Deletes what was put and compacts it away, on a disk without a free byte.
#[test]
fn a_disk_filled_to_the_last_byte_still_takes_deletes_compactions_and_checkpoints() {
    let mut fixture = Fixture::new();
    fixture.vfs.set_capacity(32 << 20);
    let value = noise(3, 900);
    let mut keys = 0..;
    fixture.store.reserve(true).unwrap();
    while !fixture.store.stats().is_short {
        for i in keys.by_ref().take(100) {
            let key = format!("key-{:06}", (i as u32).wrapping_mul(7919) % 1_000_000);
            fixture.write().put(key.as_bytes(), &value, 0).unwrap();
        }
        fixture.store.spill().unwrap();
        fixture.store.reserve(false).unwrap();
        if fixture.store.stats().dirty_bytes > 2 << 20 {
            fixture.checkpoint();
            fixture.store.publish();
            while !fixture.store.release_step(usize::MAX) {}
        }
    }
    let (full, put) = (fixture.store.stats(), keys.next().unwrap());
    assert!(put > 10_000, "{put} keys fill the disk");
    // Another process takes the rest.
    let space = fixture.vfs.space(Path::new(DIR)).unwrap();
    fixture.vfs.set_capacity(space.total - space.available);
    while fixture.store.root().count(KeyRange::ALL, 0).unwrap() > 500 {
        let end = nth_key(fixture.store.root(), 500);
        let range = KeyRange::from_wire(b"key", &end);
        fixture.write().delete_range(range).unwrap();
        let revision = fixture.store.root().revision();
        fixture.write().compact(revision).unwrap();
        loop {
            let done = fixture.store.compact_step(16).unwrap().done;
            if done || fixture.store.stats().dirty_bytes > 1 << 20 {
                let job = fixture.store.begin_checkpoint();
                let done = job.expect("what was set aside will do").run().unwrap();
                fixture.store.finish_checkpoint(done);
                fixture.store.publish();
                while !fixture.store.release_step(usize::MAX) {}
            }
            if done {
                break;
            }
        }
    }
    for _ in 0..3 {
        while !fixture.store.relocate_step(512 << 10).unwrap() {}
        for _ in 0..4 {
            fixture.store.settle_space();
            fixture.checkpoint();
            fixture.store.publish();
            while !fixture.store.release_step(usize::MAX) {}
        }
    }
    fixture.store.reserve(true).unwrap();
    let now = fixture.store.stats();
    assert!(
        !now.is_short && now.file_bytes < full.file_bytes / 4,
        "{now:?}"
    );
    fixture.store.check().unwrap();
    fixture.reopen();
    let left = fixture.store.root().count(KeyRange::ALL, 0).unwrap();
    assert!((1..=500).contains(&left), "{left}");
}

/// Number of keys with a kilobyte each.
const BIG: usize = 2000;

/// Puts each of the big keys once, in random order, and writes history as a server does.
fn put_all_big(fixture: &mut Fixture) {
    let value = noise(1, 1000);
    for i in 0..BIG {
        let key = format!("key-{:04}", i * 7919 % BIG);
        fixture.write().put(key.as_bytes(), &value, 0).unwrap();
        if i % 64 == 0 {
            fixture.store.spill().unwrap();
        }
    }
}

fn save(fixture: &mut Fixture) {
    fixture.checkpoint();
    fixture.store.publish();
    while !fixture.store.release_step(usize::MAX) {}
}

#[test]
fn places_that_a_great_checkpoint_gave_up_are_written_again_after_a_small_one() {
    let mut fixture = Fixture::new();
    let mut longest = Vec::new();
    for _ in 0..6 {
        put_all_big(&mut fixture);
        let revision = fixture.store.root().revision();
        fixture.write().compact(revision).unwrap();
        fixture.finish_compaction();
        save(&mut fixture);
        let waiting = fixture.store.stats().waiting_bytes;
        if !longest.is_empty() {
            assert!(waiting > BIG as u64 * 1000, "{waiting}");
        }
        fixture.put("one", "more");
        save(&mut fixture);
        let waiting = fixture.store.stats().waiting_bytes;
        assert!(waiting < BIG as u64 * 100, "{waiting}");
        fixture.store.check().unwrap();
        longest.push(fixture.store.stats().file_bytes);
    }
    // The old pages and the new ones, and no third copy.
    let live = BIG as u64 * 1100;
    assert!(longest.iter().all(|len| *len < 3 * live), "{longest:?}");
}

#[test]
fn views_that_hold_places_back_do_not_make_another_checkpoint_look_worthwhile() {
    let mut fixture = Fixture::new();
    put_all_big(&mut fixture);
    save(&mut fixture);
    let view = fixture.store.reader().view();
    put_all_big(&mut fixture);
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    fixture.finish_compaction();
    for _ in 0..3 {
        fixture.put("one", "more");
        save(&mut fixture);
    }
    let held = fixture.store.stats();
    assert!(held.waiting_bytes < BIG as u64 * 100, "{held:?}");
    drop(view);
    fixture.put("one", "more");
    save(&mut fixture);
    fixture.store.check().unwrap();
}

#[test]
fn a_checkpoint_amid_a_compaction_writes_no_page_of_history_that_changes_again() {
    let mut fixture = Fixture::new();
    put_all_big(&mut fixture);
    put_all_big(&mut fixture);
    save(&mut fixture);
    // Every other one of the older versions goes, in random order.
    let mut write = fixture.write();
    for i in 0..BIG / 2 {
        let key = format!("key-{:04}", (i * 3923 % (BIG / 2)) * 2);
        write.put(key.as_bytes(), b"", 0).unwrap();
    }
    drop(write);
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    fixture.store.batch_bytes_max = usize::MAX;
    let mut written = 0;
    while !fixture.store.compact_step(BIG / 4).unwrap().done {
        let dirty = fixture.store.stats().dirty_bytes;
        if dirty > 0 {
            written += dirty;
            save(&mut fixture);
        }
    }
    let all = 2 * BIG as u64 * 1100;
    assert!(written < all + all / 4, "{written} of {all}");
    fixture.store.check().unwrap();
}

#[test]
fn a_read_from_memory_refuses_what_only_the_disk_has() {
    let mut fixture = Fixture::new();
    for i in 0..2000 {
        fixture.put(&format!("key{i:04}"), "value");
    }
    while let Some(job) = fixture.store.begin_checkpoint() {
        fixture.store.finish_checkpoint(job.run().unwrap());
    }
    let store = run::open(&fixture.vfs).unwrap();
    let get = |key: &str| from_memory(|| value_at(store.root(), key, 0));
    let root = || from_memory(|| store.root().get(b"key0007", 0, |_| ()));
    fixture.vfs.set_cold(true);
    assert!(root().is_none());
    // Whoever may wait reads it. Then it is in memory, and its neighbours are.
    assert_eq!(value_at(store.root(), "key0007", 0).unwrap(), "value");
    assert_eq!(get("key0007"), Some(Some("value".to_owned())));
    assert_eq!(get("key0008"), Some(Some("value".to_owned())));
    assert!(from_memory(|| store.root().get(b"key1900", 0, |_| ())).is_none());
    fixture.vfs.set_cold(false);
    assert_eq!(get("key1900"), Some(Some("value".to_owned())));
    // A refusal is no damage, and is over with the call.
    fixture.vfs.set_cold(true);
    assert_eq!(value_at(store.root(), "key1000", 0).unwrap(), "value");
    // What was in memory need not stay there. That is noticed after some reads, and from then on at
    // each.
    fixture.vfs.set_cold(false);
    assert!((0..4096).all(|_| root().is_some()));
    let refused_once_dropped = || {
        fixture.vfs.set_cold(true);
        root().is_none()
    };
    let mut reads = 0..64;
    assert!(reads.any(|_| refused_once_dropped()), "it is never noticed");
    assert!(reads.all(|_| refused_once_dropped()));
}

#[test]
fn what_a_change_or_a_removal_reads_is_announced_where_pages_are_missing() {
    let mut fixture = Fixture::new();
    // All keys are in one tree.
    fixture.store.set_key_bytes_direct(1 << 30);
    for round in ["old", "new"] {
        for i in 0..2000 {
            fixture.put(&format!("key{i:04}"), round);
        }
    }
    while let Some(job) = fixture.store.begin_checkpoint() {
        fixture.store.finish_checkpoint(job.run().unwrap());
    }
    let store = run::open(&fixture.vfs).unwrap();
    let vfs = &fixture.vfs;
    assert_eq!(value_at(store.root(), "key0007", 0).unwrap(), "new");
    let before = vfs.announced();
    store.root().announce_change(b"key0007");
    assert_eq!(vfs.announced(), before, "nothing is missing");

    vfs.set_cold(true);
    assert!(from_memory(|| store.root().get(b"key1900", 0, |_| ())).is_none());
    assert_eq!(value_at(store.root(), "key1000", 0).unwrap(), "new");
    let before = vfs.announced().len();
    store.root().announce_change(b"key1000");
    assert_eq!(vfs.announced().len(), before, "its leaf is in memory");
    store.root().announce_change(b"key1001");
    store.root().announce_change(b"key1999");
    assert_eq!(vfs.announced().len(), before + 1);

    // Rows at both ends of the history; what is above them in the tree was read.
    let at = |main| Revision { main, sub: 0 };
    assert_eq!(
        history(store.root(), 2000, 2000).len(),
        "2000.0+key1998".len()
    );
    let before = vfs.announced().len();
    store.root().announce_rows(&[at(2), at(3), at(4001)]);
    assert_eq!(vfs.announced().len(), before + 2, "two are in one leaf");
    vfs.set_cold(false);
    store.root().announce_rows(&[at(2), at(3), at(4001)]);
    assert_eq!(vfs.announced().len(), before + 2, "they are in memory");
}
