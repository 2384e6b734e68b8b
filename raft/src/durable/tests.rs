use std::path::Path;
use std::sync::Arc;

use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::*;
use crate::message::Term;
use crate::state::rng::Rng;

const DIR: &str = "/member/log";

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        ..Options::default()
    }
}

fn open_with(
    vfs: &SimVfs,
    term: Term,
    index: Index,
    options: Options,
) -> Result<(LogWriter, Opened)> {
    let applied = Position { term, index };
    LogWriter::open(Arc::new(vfs.clone()), Path::new(DIR), applied, options)
}

fn open(vfs: &SimVfs, term: Term, index: Index) -> (LogWriter, Opened) {
    open_with(vfs, term, index, options()).unwrap()
}

fn entries(term: Term, indexes: std::ops::RangeInclusive<Index>) -> Vec<Entry> {
    let entry = |index| Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: format!("{term}/{index}").into(),
    };
    indexes.map(entry).collect()
}

fn write(entries: Vec<Entry>, term: Term, commit: Index) -> Write {
    Write {
        entries,
        hard_state: Some(HardState {
            term,
            vote: 3,
            commit,
        }),
        ..Write::default()
    }
}

/// The recovered positions, the base first.
fn positions(opened: &Opened) -> Vec<(Term, Index)> {
    let base = [opened.recovered.base];
    let rest = opened.recovered.entries.iter().map(Entry::position);
    base.into_iter()
        .chain(rest)
        .map(|at| (at.term, at.index))
        .collect()
}

#[test]
fn an_empty_directory_is_an_empty_log() {
    let (_, opened) = open(&SimVfs::new(1), 0, 0);
    assert_eq!(opened.metadata, None);
    assert_eq!(opened.recovered.hard_state, HardState::default());
    assert_eq!(positions(&opened), [(0, 0)]);
}

#[test]
fn the_largest_entry_is_recovered() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    let mut largest = entries(1, 1..=1);
    largest[0].data = vec![7; ENTRY_BYTES_MAX].into();
    log.append(&write(largest.clone(), 1, 0)).unwrap();
    log.sync().unwrap();
    drop(log);
    let (_, opened) = open(&vfs.power_cut(1), 0, 0);
    assert!(opened.recovered.entries == largest);
}

#[test]
fn what_was_synced_is_recovered_after_the_applied_position() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.set_metadata(b"node 1");
    log.append(&write(entries(1, 1..=3), 1, 0)).unwrap();
    log.append(&write(entries(2, 4..=5), 2, 4)).unwrap();
    log.sync().unwrap();
    let (_, opened) = open(&vfs.power_cut(1), 1, 2);
    assert_eq!(opened.metadata.as_deref(), Some(&b"node 1"[..]));
    let state = HardState {
        term: 2,
        vote: 3,
        commit: 4,
    };
    assert_eq!(opened.recovered.hard_state, state);
    assert_eq!(opened.recovered.applied, 2);
    assert_eq!(
        positions(&opened),
        [(0, 0), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    );
    assert_eq!(opened.recovered.entries[2].data, "1/3");
}

#[test]
fn a_later_entry_replaces_all_from_its_index_on() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=6), 1, 0)).unwrap();
    log.append(&write(entries(3, 3..=4), 3, 2)).unwrap();
    log.sync().unwrap();
    let (mut log, opened) = open(&vfs, 0, 0);
    assert_eq!(positions(&opened), [(0, 0), (1, 1), (1, 2), (3, 3), (3, 4)]);
    // The log continues after it.
    log.append(&write(entries(3, 5..=5), 3, 4)).unwrap();
    log.sync().unwrap();
    assert_eq!(positions(&open(&vfs, 3, 4).1).last(), Some(&(3, 5)));
}

#[test]
fn a_bootstrapped_log_starts_with_its_members() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    let first = founding();
    log.begin_anew(b"whose", &first).unwrap();
    let (_, opened) = open(&vfs.power_cut(7), 0, 0);
    assert_eq!(opened.metadata.as_deref(), Some(&b"whose"[..]));
    assert_eq!(opened.recovered.entries, first.entries);
    assert_eq!(Some(opened.recovered.hard_state), first.hard_state);
}

/// The first write of a cluster whose members' descriptions fill several sectors.
fn founding() -> Write {
    let member = |id| (id, Bytes::from(vec![id as u8; 700]));
    let first = crate::bootstrap(&[1, 2, 3].map(member));
    Write {
        entries: first.entries,
        hard_state: Some(first.hard_state),
        ..Write::default()
    }
}

/// A power cut at every call of a founding, and of the one after it, which may be another.
#[test]
fn a_log_with_metadata_begins_with_the_whole_first_write_and_one_without_begins_anew() {
    let joining = Write {
        hard_state: Some(HardState::default()),
        ..Write::default()
    };
    let whole = |opened: &Opened, first: &Write| {
        let found = &opened.recovered;
        found.entries == first.entries && Some(found.hard_state) == first.hard_state
    };
    let (mut begun, mut nameless) = (0, 0);
    for second in [founding(), joining] {
        for calls in 0..20 * 20 {
            let vfs = SimVfs::new(calls);
            vfs.fail_after(calls % 20);
            let begin = |vfs: &SimVfs, first: &Write| -> Result<()> {
                let (mut log, _) = open_with(vfs, 0, 0, options())?;
                log.begin_anew(b"whose", first)
            };
            let _ = begin(&vfs, &founding());
            let vfs = vfs.power_cut(calls);
            let (applied, opened) = open_and_apply(&vfs, Position::default());
            if opened.metadata.is_some() {
                assert!(whole(&opened, &founding()), "{calls}: {opened:?}");
                begun += 1;
                continue;
            }
            assert_eq!(applied, [], "{calls}");
            nameless += usize::from(!opened.recovered.entries.is_empty());
            let image = vfs.power_cut(0);
            image.fail_after(calls / 20);
            let finished = begin(&image, &second).is_ok();
            let (applied, opened) = open_and_apply(&image.power_cut(calls), Position::default());
            match &opened.metadata {
                Some(_) => assert!(whole(&opened, &second), "{calls}: {opened:?}"),
                None => assert!(applied.is_empty() && !finished, "{calls}"),
            }
        }
    }
    assert!(begun > 0 && nameless > 0, "{begun}, {nameless}");
}

#[test]
fn only_the_newest_applied_entries_are_kept() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=100), 1, 90)).unwrap();
    log.sync().unwrap();
    let few = Options {
        kept_entries: 5,
        ..options()
    };
    let (_, opened) = open_with(&vfs, 1, 80, few).unwrap();
    let kept: Vec<(Term, Index)> = (74..=100).map(|index| (1, index)).collect();
    assert_eq!(positions(&opened), kept);
    let few = Options {
        kept_bytes: 12,
        ..options()
    };
    let (_, opened) = open_with(&vfs, 1, 80, few).unwrap();
    let kept: Vec<(Term, Index)> = (77..=100).map(|index| (1, index)).collect();
    assert_eq!(positions(&opened), kept);
}

#[test]
fn a_long_tail_replaced_below_what_is_kept_leaves_no_trace() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=60), 1, 5)).unwrap();
    log.append(&write(entries(4, 10..=50), 4, 50)).unwrap();
    log.sync().unwrap();
    let few = Options {
        kept_entries: 3,
        ..options()
    };
    for applied in 45..=50 {
        let (_, opened) = open_with(&vfs, 4, applied, few.clone()).unwrap();
        let kept: Vec<(Term, Index)> = (applied - 4..=50).map(|index| (4, index)).collect();
        assert_eq!(positions(&opened), kept);
    }
}

#[test]
fn case_b_a_log_that_begins_right_after_the_store_continues_it() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 5, 100);
    log.append(&write(entries(5, 101..=103), 5, 100)).unwrap();
    log.sync().unwrap();
    assert_eq!(
        positions(&open(&vfs, 5, 100).1),
        [(5, 100), (5, 101), (5, 102), (5, 103)]
    );
}

#[test]
fn case_c_a_store_ahead_of_the_log_voids_it() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=50), 1, 20)).unwrap();
    log.sync().unwrap();
    // Too short; then long enough, but another log.
    for index in [60, 40] {
        let vfs = vfs.process_killed();
        let (mut log, opened) = open(&vfs, 3, index);
        assert_eq!(positions(&opened), [(3, index)]);
        let voided = opened.voided.unwrap();
        assert_eq!((voided.last, voided.commit), (50, 20));
        assert!(!voided.lost_writes());
        let state = HardState {
            term: 3,
            vote: 0,
            commit: index,
        };
        assert_eq!(opened.recovered.hard_state, state);
        log.append(&write(entries(3, index + 1..=index + 2), 3, index))
            .unwrap();
        log.sync().unwrap();
        let (_, opened) = open(&vfs.power_cut(1), 3, index);
        assert_eq!(
            positions(&opened),
            [(3, index), (3, index + 1), (3, index + 2)]
        );
    }
}

#[test]
fn case_c_a_log_that_lacks_what_it_knew_to_be_committed_has_lost_writes() {
    let vfs = SimVfs::new(1);
    let (mut log, opened) = open(&vfs, 0, 0);
    assert_eq!(opened.voided, None);
    log.append(&write(entries(1, 1..=3), 1, 9)).unwrap();
    log.sync().unwrap();
    let (_, opened) = open(&vfs.process_killed(), 1, 9);
    let voided = Voided {
        applied: Position { term: 1, index: 9 },
        last: 3,
        commit: 9,
    };
    assert_eq!(opened.voided, Some(voided));
    assert!(voided.lost_writes());
    // A snapshot may be that of the next entry.
    let (_, opened) = open(&vfs.process_killed(), 1, 10);
    assert!(!opened.voided.unwrap().lost_writes());
    // It is told once: the reset is in the log.
    let (log, _) = open(&vfs, 1, 9);
    drop(log);
    let (_, opened) = open(&vfs, 1, 9);
    assert_eq!(opened.voided, None);
}

#[test]
fn case_c_a_tail_of_an_earlier_term_right_behind_a_snapshot_is_void() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 1, 100);
    log.append(&write(entries(1, 101..=103), 1, 100)).unwrap();
    log.sync().unwrap();
    assert_eq!(
        positions(&open(&vfs, 1, 100).1).len(),
        4,
        "it continues the store"
    );
    assert_eq!(positions(&open(&vfs, 4, 100).1), [(4, 100)]);
}

#[test]
fn a_reset_voids_all_before_it() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=50), 2, 20)).unwrap();
    let reset = Some(Position { term: 2, index: 30 });
    log.append(&Write {
        reset,
        ..write(entries(2, 31..=32), 2, 30)
    })
    .unwrap();
    log.sync().unwrap();
    assert_eq!(positions(&open(&vfs, 2, 30).1), [(2, 30), (2, 31), (2, 32)]);
    assert_eq!(positions(&open(&vfs, 2, 31).1), [(2, 30), (2, 31), (2, 32)]);
}

#[test]
fn case_d_a_log_that_begins_after_what_the_store_needs_is_refused() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 5, 100);
    log.append(&write(entries(5, 101..=103), 5, 100)).unwrap();
    log.sync().unwrap();
    let error = open_with(&vfs, 5, 98, options()).unwrap_err().to_string();
    assert!(
        error.contains("begins with entry 101, the store needs 99"),
        "{error}"
    );
}

#[test]
fn case_e_a_log_shorter_than_its_commit_index_is_refused() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=3), 1, 9)).unwrap();
    log.sync().unwrap();
    assert!(open_with(&vfs, 1, 2, options()).is_err());
}

#[test]
fn dropped_segments_take_no_state_with_them() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.set_metadata(b"whose");
    for index in 1..=2000 {
        let mut next = write(entries(1, index..=index), 1, index - 1);
        if index > 1 {
            next.hard_state = None;
        }
        log.append(&next).unwrap();
    }
    log.sync().unwrap();
    log.drop_before(1900).unwrap();
    log.finish_drop().unwrap().run(|| ()).unwrap();
    let (_, opened) = open(&vfs.power_cut(3), 1, 1950);
    assert_eq!(opened.metadata.as_deref(), Some(&b"whose"[..]));
    assert_eq!(opened.recovered.hard_state.term, 1);
    let first = opened.recovered.base.index;
    assert!(first > 1000 && first < 1950, "{first}");
    assert_eq!(opened.recovered.entries.last().unwrap().index, 2000);
    assert!(open_with(&vfs, 1, 10, options()).is_err());
}

#[test]
fn what_a_reset_made_void_is_not_kept_for_followers() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.set_metadata(b"whose");
    log.append(&write(entries(1, 1..=900), 1, 900)).unwrap();
    let files = || {
        let files = vfs.list(Path::new(DIR)).unwrap();
        files
            .iter()
            .filter(|name| !name.starts_with("spare"))
            .count()
    };
    let keep = Keep {
        bytes: u64::MAX,
        ..Keep::default()
    };
    let drop_before = |log: &mut LogWriter, index| {
        log.drop_but(index, keep).unwrap();
        if let Some(job) = log.finish_drop() {
            job.run(|| ()).unwrap();
        }
    };
    let before = files();
    drop_before(&mut log, 900);
    assert_eq!(files(), before, "all are kept");
    let reset = Position {
        term: 2,
        index: 1000,
    };
    let installed = Write {
        reset: Some(reset),
        ..write(entries(2, 1001..=1900), 2, 1000)
    };
    log.append(&installed).unwrap();
    log.sync().unwrap();
    let both = files();
    drop_before(&mut log, 950);
    // The log's own files begin with the one that has the reset.
    let left = files();
    assert!(left + before / 2 < both, "{before}, {both}, {left}");
    drop_before(&mut log, 1900);
    assert_eq!(files(), left, "these are kept");
    let (_, opened) = open(&vfs.power_cut(1), 2, 1000);
    assert_eq!(opened.metadata.as_deref(), Some(&b"whose"[..]));
    assert_eq!(opened.recovered.entries.len(), 900);
}

/// The log is opened behind a snapshot that it does not know of: most of it is not even read.
#[test]
fn a_void_log_is_dropped_after_a_start_too() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.append(&write(entries(1, 1..=900), 1, 900)).unwrap();
    log.sync().unwrap();
    drop(log);
    let files = |vfs: &SimVfs| vfs.list(Path::new(DIR)).unwrap().len();
    let before = files(&vfs);
    // The second time the reset is read.
    for first in [1001, 1002] {
        let (mut log, _) = open(&vfs, 2, 1000);
        log.append(&write(entries(2, first..=first), 2, 1000))
            .unwrap();
        log.sync().unwrap();
    }
    let vfs = vfs.process_killed();
    let (mut log, _) = open(&vfs, 2, 1000);
    let keep = Keep {
        bytes: u64::MAX,
        ..Keep::default()
    };
    log.drop_but(1001, keep).unwrap();
    log.finish_drop().unwrap().run(|| ()).unwrap();
    assert!(files(&vfs) < before);
    assert_eq!(
        positions(&open(&vfs, 2, 1000).1),
        [(2, 1000), (2, 1001), (2, 1002)]
    );
}

/// Opens like a server; returns the positions applied on the way, and the rest.
fn open_and_apply(vfs: &SimVfs, applied: Position) -> (Vec<(Term, Index)>, Opened) {
    let mut seen = Vec::new();
    let vfs = Arc::new(vfs.clone());
    let (_, opened) =
        LogWriter::open_and_apply(vfs, Path::new(DIR), applied, options(), &mut |entry| {
            seen.push((entry.term, entry.index));
            Ok(())
        })
        .unwrap();
    (seen, opened)
}

#[test]
fn committed_entries_are_applied_as_they_are_read_and_only_in_the_version_committed() {
    let vfs = SimVfs::new(1);
    let (mut log, _) = open(&vfs, 0, 0);
    log.set_metadata(b"whose");
    log.append(&write(entries(1, 1..=9), 1, 3)).unwrap();
    log.append(&write(entries(2, 5..=8), 2, 4)).unwrap();
    log.append(&write(entries(2, 9..=9), 2, 7)).unwrap();
    log.sync().unwrap();
    let (applied, opened) = open_and_apply(&vfs, Position { term: 1, index: 2 });
    assert_eq!(applied, [(1, 3), (1, 4), (2, 5), (2, 6), (2, 7)]);
    assert_eq!(opened.recovered.applied, 7);
    assert_eq!(positions(&opened)[7..], [(2, 7), (2, 8), (2, 9)]);
    // A store that is ahead of the log, or of another log, takes nothing from it.
    for position in [(2, 7), (1, 6), (3, 20)] {
        let (term, index) = position;
        let (applied, opened) = open_and_apply(&vfs.process_killed(), Position { term, index });
        assert_eq!(applied, []);
        assert_eq!(opened.recovered.applied, index);
    }
}

#[test]
fn applying_on_the_way_finds_what_opening_alone_finds() {
    for seed in 0..40 {
        let vfs = SimVfs::new(seed);
        let mut rng = Rng::new(seed);
        let (mut log, _) = open(&vfs, 0, 0);
        log.set_metadata(b"whose");
        let (mut last, mut commit) = (0, 0);
        for term in 1..30 {
            let first = last + 1 - rng.below(last + 1 - commit);
            last = first + rng.below(20);
            commit += rng.below(last + 1 - commit);
            log.append(&write(entries(term, first..=last), term, commit))
                .unwrap();
        }
        log.sync().unwrap();
        drop(log);
        let vfs = vfs.power_cut(0);
        let (_, whole) = open(&vfs, 0, 0);
        let (applied, opened) = open_and_apply(&vfs, Position::default());
        assert_eq!(opened.recovered.applied, commit);
        assert_eq!(opened.recovered.hard_state, whole.recovered.hard_state);
        let rest = opened.recovered.entries.iter().map(Entry::position);
        let rest = rest.filter(|at| at.index > commit);
        let found = applied
            .into_iter()
            .chain(rest.map(|at| (at.term, at.index)));
        assert!(found.eq(positions(&whole).into_iter().skip(1)), "{seed}");
    }
}

/// Random writes, truncations, resets and syncs, with a power cut at every call. The log found is a
/// state that the log had at or after the last successful sync.
#[test]
fn any_power_cut_keeps_all_that_was_synced() {
    for seed in 0..6 {
        for calls in 0.. {
            let vfs = SimVfs::new(seed);
            vfs.fail_after(calls);
            let mut states = vec![(Vec::new(), 0)];
            let finished = scribble(&vfs, seed, &mut states).is_ok();
            for cut in 0..3 {
                let found = open(&vfs.power_cut(cut), 0, 0).1.recovered;
                let held = states.iter().any(|(entries, term)| {
                    let newest = entries.last().map_or(0, |entry| entry.term);
                    found.entries == *entries && found.hard_state.term == newest.max(*term)
                });
                assert!(
                    held,
                    "seed {seed}, call {calls}, cut {cut}: {found:?} of {states:?}"
                );
            }
            if finished {
                break;
            }
        }
    }
}

/// `states`: what the log may hold afterwards, beginning with what is known to be durable: the
/// entries, and the term of the hard state, which comes after its entries and may be torn off.
fn scribble(
    vfs: &SimVfs,
    seed: u64,
    states: &mut Vec<(Vec<Entry>, Term)>,
) -> std::result::Result<(), storage::Error> {
    let mut rng = Rng::new(seed);
    let (mut log, _) = open_with(vfs, 0, 0, options())?;
    let mut model: Vec<Entry> = Vec::new();
    for term in 1..12 {
        let keep = (model.len() as u64).saturating_sub(rng.below(4));
        let added = entries(term, keep + 1..=keep + 1 + rng.below(12));
        model.truncate(keep as usize);
        // Any prefix of a write may reach the disk.
        for entry in &added {
            model.push(entry.clone());
            states.push((model.clone(), term - 1));
        }
        states.push((model.clone(), term));
        log.append(&write(added, term, 0))?;
        if rng.below(2) == 0 {
            log.sync()?;
            states.drain(..states.len() - 1);
        }
    }
    Ok(())
}
