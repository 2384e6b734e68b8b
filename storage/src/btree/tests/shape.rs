//! The shape of the trees after typical work, and its cost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::btree::checkpoint::output::SYNC_BYTES;
use crate::btree::node::image::{Image, round_up};
use crate::btree::node::page::{at, u32_at, validate};
use crate::btree::node::{Link, Node};
use crate::vfs;
use crate::vfs::sim::rng::Rng;

fn pages_of(bench: &mut Bench) -> u64 {
    bench.checkpoint(b"").unwrap();
    let stats = bench.file.stats();
    stats.used_bytes / 4096
}

#[test]
fn rows_that_come_in_order_fill_their_pages() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    for i in 0..20_000u64 {
        bench.insert(1, &i.to_be_bytes(), &[7; 300]);
    }
    let tight = 20_000 * (300 + 8 + 8) / 4096;
    let pages = pages_of(&mut bench);
    assert!(pages < tight * 106 / 100, "{pages} pages for {tight}");
    let tree = &bench.trees[1];
    let leaf_pages = tree.leaf_bytes(bench.file.pages()).unwrap() / 4096;
    assert!((tight * 9 / 10..tight * 12 / 10).contains(&leaf_pages));
}

/// Hundredths of what the leaves of tree 2 would take if all were full.
fn leaf_percent(bench: &Bench, rows: u64, row_bytes: u64) -> u64 {
    let bytes = bench.trees[2].leaf_bytes(bench.file.pages()).unwrap();
    bytes * 100 / (rows * (row_bytes + 12))
}

#[test]
fn leaves_share_entries_with_those_beside_them_before_there_are_more() {
    const ROWS: u64 = 20_000;
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let mut rng = Rng(3);
    for _ in 0..ROWS {
        bench.insert(2, &rng.next().to_be_bytes(), &[7; 32]);
    }
    let random = leaf_percent(&bench, ROWS, 8 + 32);
    assert!(random < 130, "{random}");
    bench.check().unwrap();

    let (mut bench, _) = Bench::open(&disk()).unwrap();
    bench.insert(2, &u64::MAX.to_be_bytes(), &[7; 32]);
    for i in 0..ROWS {
        bench.insert(2, &i.to_be_bytes(), &[7; 32]);
    }
    let in_order = leaf_percent(&bench, ROWS, 8 + 32);
    assert!(in_order < 115, "{in_order}");
    bench.check().unwrap();
}

#[test]
fn a_leaf_that_is_split_leaves_those_alone_that_no_checkpoint_writes() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    for i in 0..20_000u64 {
        bench.insert(2, &(i * 8).to_be_bytes(), &[7; 32]);
    }
    bench.checkpoint(b"").unwrap();
    let path = |bench: &mut Bench, key: u64| {
        let before = bench.file.stats().dirty_bytes;
        bench.insert(2, &key.to_be_bytes(), &[7; 32]);
        bench.file.stats().dirty_bytes - before
    };
    // Every leaf is full.
    let first = path(&mut bench, 80_001);
    let branches = first - 2 * 4096;
    assert!(branches <= 3 * 4096, "{first} bytes");
    let beside: u64 = (2..6).map(|i| path(&mut bench, 80_000 + i)).sum();
    assert_eq!(beside, 0);
    bench.check().unwrap();
}

#[test]
fn removing_most_rows_gives_their_pages_back() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    for i in 0..20_000u64 {
        bench.insert(1, &i.to_be_bytes(), &[7; 300]);
    }
    let full = pages_of(&mut bench);
    for i in (0..20_000u64).filter(|i| i % 4 != 0) {
        bench.remove(1, &i.to_be_bytes());
    }
    let sparse = pages_of(&mut bench);
    assert!(sparse < full * 45 / 100, "{sparse} pages of {full}");
    (0..20_000u64)
        .step_by(4)
        .for_each(|i| assert!(bench.remove(1, &i.to_be_bytes())));
    assert!(bench.trees[1].len() == 0 && bench.trees[1].root.is_none());
    // Two metas must be replaced; two more for the last free list at the old end of the file.
    for _ in 0..8 {
        bench.checkpoint(b"").unwrap();
    }
    assert!(
        bench.file.stats().file_bytes < 300_000,
        "{:?}",
        bench.file.stats()
    );
    bench.check().unwrap();
}

#[test]
fn what_is_removed_from_the_front_goes_by_whole_leaves() {
    const ROWS: u64 = 60_000;
    let filled = || {
        let (mut bench, _) = Bench::open(&disk()).unwrap();
        for i in 0..ROWS {
            bench.insert(2, &i.to_be_bytes(), &[7; 60]);
        }
        bench.checkpoint(b"").unwrap();
        bench.release(3);
        bench
    };
    for rows in [7, 1_000, 25_000] {
        let mut bench = filled();
        for first in (0..ROWS).step_by(rows) {
            let left = ROWS - first;
            let through = (first + left.min(rows as u64) - 1).to_be_bytes();
            let removed = bench.remove_through(2, &through).unwrap();
            assert_eq!(removed, left.min(rows as u64));
            assert_eq!(bench.trees[2].len(), left - removed);
            // The way to the first leaf, whatever went before it.
            let dirty = bench.file.stats().dirty_bytes;
            assert!(dirty <= 4 * 8192, "{dirty} bytes");
            if first % 5_000 < rows as u64 {
                bench.check().unwrap();
            }
        }
        assert!(bench.trees[2].root.is_none());
        bench.check().unwrap();
    }
}

#[test]
fn overwriting_the_same_keys_does_not_grow_the_file() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let mut longest = 0;
    for round in 0..30u64 {
        for i in 0..2000u64 {
            bench.insert(2, &(i * 7919 % 2000).to_be_bytes(), &[round as u8; 60]);
        }
        bench.checkpoint(b"").unwrap();
        bench.release(100);
        if round == 6 {
            longest = bench.file.stats().file_bytes;
        }
    }
    assert!(
        bench.file.stats().file_bytes <= longest,
        "{:?}",
        bench.file.stats()
    );
    bench.check().unwrap();
}

#[test]
fn huge_keys_and_values_live_beside_small_ones() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let huge = |i: u8, len: usize| vec![i; len];
    for i in 1..6u8 {
        bench.insert(2, &[i, 0], b"small");
        bench.insert(2, &huge(i, 1_500_000), b"huge key");
        bench.insert(2, &[i, 255], &huge(i, 3_000_000));
        bench.insert(0, &huge(i, 100_000), &huge(i, 100_000));
    }
    bench.checkpoint(b"").unwrap();
    bench.release(5);
    bench.check().unwrap();
    let pages = bench.file.pages().clone();
    for i in 1..6u8 {
        let found = bench.trees[2]
            .get(&pages, &huge(i, 1_500_000))
            .unwrap()
            .unwrap();
        assert_eq!(&*found, b"huge key");
        let found = bench.trees[2].get(&pages, &[i, 255]).unwrap().unwrap();
        assert!(*found == huge(i, 3_000_000));
    }
    // A small neighbour must not carry a big one along.
    let before = bench.file.stats().dirty_bytes;
    bench.insert(2, &[3, 254], b"small");
    let cost = bench.file.stats().dirty_bytes - before;
    assert!(cost < 8_000_000, "{cost} bytes dirty");
    for i in 1..6u8 {
        assert!(bench.remove(2, &huge(i, 1_500_000)) && bench.remove(2, &[i, 255]));
        assert!(bench.remove(0, &huge(i, 100_000)));
    }
    bench.checkpoint(b"").unwrap();
    bench.check().unwrap();
}

#[test]
fn nothing_is_dirty_after_a_checkpoint_and_nothing_in_memory_after_release() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    for i in 0..5000u64 {
        bench.insert(2, &i.to_be_bytes(), &[1; 60]);
    }
    assert!(bench.file.stats().dirty_bytes > 300_000);
    let job = bench.begin(b"");
    bench.insert(2, b"meanwhile", b"");
    let done = job.run().unwrap();
    bench.file.finish_checkpoint(done);
    let stats = bench.file.stats();
    assert!(
        stats.dirty_bytes < 20_000 && stats.memory_bytes > 300_000,
        "{stats:?}"
    );
    bench.release(3);
    let stats = bench.file.stats();
    assert_eq!(stats.memory_bytes, stats.dirty_bytes);
    assert!(bench.file.take_retired().is_some());
    bench.check().unwrap();
    assert_eq!(bench.trees[2].len(), 5001);
}

#[test]
fn a_checkpoint_lets_go_of_what_was_replaced_meanwhile() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let overwrite = |bench: &mut Bench, keys: std::ops::Range<u64>, value: u8| {
        for i in keys {
            bench.insert(2, &i.to_be_bytes(), &[value; 60]);
        }
    };
    overwrite(&mut bench, 0..20_000, 1);
    let job = bench.begin(b"");
    let before = nodes_in(&job.trees[2]);
    overwrite(&mut bench, 0..10_000, 2);
    let done = job.run().unwrap();
    // It holds the nodes that are not replaced, which the tree shares, and the paths to them.
    let after = nodes_in(&done.trees[2]);
    assert!(after < before * 55 / 100, "{after} of {before} nodes");
    bench.file.finish_checkpoint(done);
    bench.checkpoint(b"").unwrap();
    bench.check().unwrap();
    let rows = entries(&bench.trees[2], bench.file.pages()).unwrap();
    assert!(rows[..10_000].iter().all(|(_, value)| value == &[2; 60]));
    assert!(rows[10_000..].iter().all(|(_, value)| value == &[1; 60]));
}

#[test]
fn a_checkpoint_rests_between_its_pieces_and_while_the_file_is_shortened() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    let rests_of_one = |bench: &mut Bench, piece_bytes: usize| {
        let rests = Arc::new(AtomicUsize::new(0));
        let count = rests.clone();
        let job = bench.begin(b"").resting(move || {
            count.fetch_add(1, Ordering::Relaxed);
            piece_bytes
        });
        bench.file.finish_checkpoint(job.run().unwrap());
        rests.load(Ordering::Relaxed)
    };
    let value = [1; 1000];
    for i in 0..10_000u64 {
        bench.insert(2, &i.to_be_bytes(), &value);
    }
    let rests = rests_of_one(&mut bench, SYNC_BYTES);
    let bytes = 10_000 * value.len();
    assert!(rests >= bytes / SYNC_BYTES, "{rests}");
    for i in 0..10_000u64 {
        bench.insert(2, &i.to_be_bytes(), &[2; 1000]);
    }
    // Larger pieces, as on a fast disk; the first one has the usual size.
    let larger = rests_of_one(&mut bench, 8 * SYNC_BYTES);
    assert!(
        (bytes / SYNC_BYTES / 8..rests / 4).contains(&larger),
        "{larger}"
    );
    for i in 0..10_000u64 {
        bench.remove(2, &i.to_be_bytes());
    }
    // The third checkpoint frees the places that were given up; then the file can be cut.
    let rests: usize = (0..6).map(|_| rests_of_one(&mut bench, SYNC_BYTES)).sum();
    let step = vfs::SHORTENING_STEP_BYTES as usize;
    assert!(rests >= bytes / step, "{rests}");
    let stats = bench.file.stats();
    assert!(stats.file_bytes < 100_000, "{stats:?}");
}

#[test]
fn a_checkpoint_cuts_the_file_as_far_as_it_may_and_a_later_one_the_rest() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    for i in 0..10_000u64 {
        bench.insert(2, &i.to_be_bytes(), &[1; 1000]);
    }
    bench.checkpoint(b"").unwrap();
    for i in 0..10_000u64 {
        bench.remove(2, &i.to_be_bytes());
    }
    // The length of the file after a checkpoint that makes so many steps, and that which is needed.
    let mut length_after = |steps: usize| {
        let made = AtomicUsize::new(0);
        let may_cut = move || made.fetch_add(1, Ordering::Relaxed) < steps;
        let job = bench.begin(b"").cutting_while(may_cut);
        let done = job.run().unwrap();
        assert_eq!(done.was_cut, steps > 0, "what is reserved behind the end");
        bench.file.finish_checkpoint(done);
        let length = vfs.contents(Path::new(PATH)).unwrap().len() as u64;
        (length, bench.file.stats().file_bytes)
    };
    let lengths: Vec<(u64, u64)> = (0..6).map(|_| length_after(0)).collect();
    let (whole, needed) = lengths[5];
    assert!(whole > 10_000_000 && needed < 100_000, "{lengths:?}");
    let (length, _) = length_after(1);
    assert_eq!(length, whole - vfs::SHORTENING_STEP_BYTES);
    let (length, needed) = length_after(usize::MAX);
    assert_eq!(length, needed);
    bench.check().unwrap();
}

fn nodes_in(tree: &Tree) -> usize {
    fn below(node: &Node) -> usize {
        1 + node
            .children
            .iter()
            .flatten()
            .map(|child| below(child))
            .sum::<usize>()
    }
    match &tree.root {
        Some(Link::Memory(node)) => below(node),
        _ => 0,
    }
}

#[test]
fn what_is_appended_leaves_memory_before_a_checkpoint_and_is_found_after_one() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let append = |bench: &mut Bench, range: std::ops::Range<u64>| {
        for i in range {
            bench.insert(1, &i.to_be_bytes(), &[3; 300]);
            bench.spill(16_384).unwrap();
        }
    };
    append(&mut bench, 0..5000);
    let stats = bench.file.stats();
    assert!(stats.dirty_bytes < 60_000, "{stats:?}");
    assert!(stats.file_bytes > 5000 * 300, "{stats:?}");
    bench.check().unwrap();
    // Entries appended during a checkpoint follow after it.
    let job = bench.begin(b"");
    append(&mut bench, 5000..8000);
    assert!(bench.file.stats().dirty_bytes > 3000 * 300);
    bench.file.finish_checkpoint(job.run().unwrap());
    append(&mut bench, 8000..8100);
    let stats = bench.file.stats();
    assert!(stats.dirty_bytes < 60_000, "{stats:?}");
    // Spilled, and given up again before any checkpoint refers to it.
    for i in 7000..8050u64 {
        assert!(bench.remove(1, &i.to_be_bytes()));
    }
    bench.check().unwrap();
    bench.checkpoint(b"").unwrap();
    bench.check().unwrap();
    assert_eq!(bench.trees[1].len(), 7050);
    let rows = entries(&bench.trees[1], bench.file.pages()).unwrap();
    let keys = (0..7000).chain(8050..8100).map(u64::to_be_bytes);
    assert!(rows.iter().map(|(key, _)| key.as_slice()).eq(keys));
}

#[test]
fn view_keeps_its_pages_until_it_is_dropped() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    for i in 0..1000u64 {
        bench.insert(2, &i.to_be_bytes(), &[1; 60]);
    }
    bench.checkpoint(b"").unwrap();
    bench.release(100);
    let view = (bench.trees[2].clone(), bench.file.pages().clone());
    for round in 2..8u8 {
        overwrite(&mut bench, round);
    }
    let rows = entries(&view.0, &view.1).unwrap();
    assert!(rows.len() == 1000 && rows.iter().all(|(_, value)| value[0] == 1));
    let held = bench.file.stats();
    drop(view);
    for round in 0..8u8 {
        overwrite(&mut bench, round);
    }
    let after = bench.file.stats();
    assert!(after.file_bytes <= held.file_bytes, "{after:?} {held:?}");
    assert!(held.viewed_bytes > 0 && after.viewed_bytes == 0);
    bench.check().unwrap();
}

#[test]
fn a_walk_announces_the_pages_it_comes_to_once_and_again_only_those_dropped() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    for i in 0..40_000u64 {
        bench.insert(1, &i.to_be_bytes(), &[1; 60]);
    }
    bench.checkpoint(b"").unwrap();
    drop(bench);
    let vfs = vfs.process_killed();
    let (bench, _) = Bench::open(&vfs).unwrap();
    // One entry, or two adjacent ones, are no walk.
    let mut cursor = bench.trees[1].cursor(bench.file.pages());
    cursor.seek(&7u64.to_be_bytes()).unwrap();
    cursor.next().unwrap();
    assert_eq!(vfs.announced(), []);
    let reads = vfs.reads();
    let rows = entries(&bench.trees[1], bench.file.pages()).unwrap();
    assert_eq!(rows.len(), 40_000);
    let pages = vfs.reads() - reads;
    let announced = vfs.announced();
    let bytes: u64 = announced.iter().map(|(_, len)| len).sum();
    // Nearly all of them, in few calls, none of them longer than any system takes, and none twice.
    let used = bench.file.stats().used_bytes;
    assert!(bytes <= used && bytes > used / 10 * 9, "{bytes} of {used}");
    assert!(announced.len() as u64 * 4 < pages, "{announced:?}");
    let longest = announced.iter().map(|(_, len)| *len).max();
    assert_eq!(longest, Some(128 << 10));
    entries(&bench.trees[1], bench.file.pages()).unwrap();
    assert_eq!(vfs.announced().len(), announced.len());
    // A file larger than the memory for it: what was read before is on the disk alone.
    vfs.set_cold(true);
    entries(&bench.trees[1], bench.file.pages()).unwrap();
    let again = vfs.announced().split_off(announced.len());
    assert!(units(&again) * 4096 > used / 10 * 9, "{again:?} of {used}");
}

#[test]
fn a_start_announces_a_long_list_of_free_places_before_it_reads_it() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    // Each has a leaf of one unit.
    for i in 0..6000u64 {
        bench.insert(2, &i.to_be_bytes(), &[1; 3000]);
    }
    bench.checkpoint(b"").unwrap();
    for i in (0..6000u64).step_by(2) {
        assert!(bench.remove(2, &i.to_be_bytes()));
    }
    for _ in 0..RECORD_LIMITS.records {
        bench.checkpoint(b"").unwrap();
    }
    for i in (1..6000u64).step_by(4) {
        assert!(bench.remove(2, &i.to_be_bytes()));
    }
    bench.checkpoint(b"").unwrap();
    let records = bench.file.space.as_ref().unwrap().records().to_vec();
    let [list, changes] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert!(list.units > 1 && changes.units == 1, "{records:?}");
    let vfs = vfs.process_killed();
    drop(Bench::open(&vfs).unwrap());
    let place = (list.id * 4096, u64::from(list.units) * 4096);
    assert_eq!(vfs.announced(), [place]);
}

/// The number of units in these ranges, each counted once.
fn units(ranges: &[(u64, u64)]) -> u64 {
    let units = ranges.iter();
    let units = units.flat_map(|(start, len)| start / 4096..(start + len) / 4096);
    units.collect::<BTreeSet<u64>>().len() as u64
}

/// Pages born and given up after a view are invisible to it, and are reused at once.
#[test]
fn views_keep_what_they_can_see_and_the_file_does_not_grow_while_they_are_held() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let mut views = Vec::new();
    let mut lengths = Vec::new();
    for round in 0..60u8 {
        overwrite(&mut bench, round);
        // Two that stay, and one that goes.
        if [1, 10, 20].contains(&round) {
            let view = (bench.trees[2].clone(), bench.file.pages().clone());
            views.push((round, view));
        }
        if round == 25 {
            views.remove(1);
        }
        if round > 35 {
            lengths.push(bench.file.stats().file_bytes);
        }
    }
    assert!(lengths.iter().all(|len| *len <= lengths[0]), "{lengths:?}");
    for (round, (tree, pages)) in &views {
        let rows = entries(tree, pages).unwrap();
        assert!(rows.len() == 1000 && rows.iter().all(|(_, value)| value[0] == *round));
    }
    let held = bench.file.stats();
    // Each of them holds the size of the tree, and no more.
    let tree = held.used_bytes;
    assert!((tree..3 * tree).contains(&held.viewed_bytes), "{held:?}");
    views.clear();
    for round in 0..3u8 {
        overwrite(&mut bench, round);
    }
    assert_eq!(bench.file.stats().viewed_bytes, 0);
    bench.check().unwrap();
}

fn overwrite(bench: &mut Bench, round: u8) {
    for i in 0..1000u64 {
        bench.insert(2, &i.to_be_bytes(), &[round; 60]);
    }
    bench.checkpoint(b"").unwrap();
    bench.release(100);
}

/// A key of 500 bytes that differs from others in its last ones.
fn long_key(i: u64) -> Vec<u8> {
    format!("/registry/{i:0>490}").into_bytes()
}

#[test]
fn what_all_keys_of_a_page_begin_with_is_stored_once() {
    let keys = 20_000u64;
    for in_order in [true, false] {
        let (mut bench, _) = Bench::open(&disk()).unwrap();
        for i in 0..keys {
            let i = if in_order { i } else { i * 7919 % keys };
            bench.insert(2, &long_key(i), &[1; 40]);
        }
        let pages = pages_of(&mut bench);
        let without_prefixes = keys * (500 + 40) / 4096;
        assert!(pages < without_prefixes / 5, "{pages} pages");
        bench.check().unwrap();
    }
}

#[test]
fn keys_that_begin_otherwise_get_pages_of_their_own_and_leave_again() {
    let (mut bench, _) = Bench::open(&disk()).unwrap();
    let strangers = [
        &b""[..],
        b"/",
        b"/registry/00",
        b"/registry/1",
        b"/s",
        b"\xff\xff",
    ];
    for round in 0..3u64 {
        for i in 0..2000 {
            bench.insert(2, &long_key(i), &[1; 40]);
        }
        for key in strangers {
            bench.insert(2, key, &[3; 1000]);
        }
        bench.checkpoint(b"").unwrap();
        bench.check().unwrap();
        let pages = bench.file.pages().clone();
        for key in strangers {
            assert_eq!(
                *bench.trees[2].get(&pages, key).unwrap().unwrap(),
                [3; 1000]
            );
        }
        let mut cursor = bench.trees[2].cursor(&pages);
        assert!(cursor.seek(&long_key(1000)).unwrap());
        for i in 1000..2000 {
            assert_eq!(cursor.key(), long_key(i));
            cursor.next().unwrap();
        }
        assert_eq!(cursor.key(), strangers[3]);
        drop(cursor);
        for key in strangers {
            assert!(bench.remove(2, key));
        }
        let odd = (0..2000).filter(|i| i % 2 == round % 2);
        odd.for_each(|i| assert!(bench.remove(2, &long_key(i))));
        bench.check().unwrap();
    }
}

#[test]
fn a_prefix_that_cannot_be_is_refused() {
    let keys = [long_key(1), long_key(2), long_key(3)];
    let entries = keys.iter().map(|key| (key.as_slice().into(), &b"v"[..]));
    let image = Image::of(&KINDS[2], 0, entries, round_up);
    let page = image.bytes();
    assert_eq!(validate(page, &KINDS[2], 0), Ok(()));
    let end = page.len() - 4;
    let (length, skip) = (u32_at(page, end), u32_at(page, at::SKIP));
    assert_eq!((length, skip), (499, 499));
    let with = |place: usize, value: u32| {
        let mut page = page.to_vec();
        page[place..place + 4].copy_from_slice(&value.to_le_bytes());
        page
    };
    for length in [0, 1, 498, 500, 4096, u32::MAX] {
        assert!(validate(&with(end, length), &KINDS[2], 0).is_err());
    }
    for skip in [0, 498, 500] {
        assert!(validate(&with(at::SKIP, skip), &KINDS[2], 0).is_err());
    }
    // Earlier versions have none.
    let mut older = page.to_vec();
    older[at::VERSION] = 3;
    let flaw = "prefix in a page of a version without";
    assert_eq!(validate(&older, &KINDS[2], 0), Err((at::ORDER, flaw)));
}
