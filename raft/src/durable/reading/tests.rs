use std::path::Path;
use std::sync::Arc;

use storage::vfs::sim::SimVfs;

use crate::durable::{Keep, LogWriter, Options};
use crate::message::{Entry, EntryKind, HardState, Index, Position, Term};
use crate::state::rng::Rng;
use crate::{Fetch, LogPart, Write};

const DIR: &str = "/member/log";

fn open(vfs: &SimVfs, applied: (Term, Index)) -> LogWriter {
    let (term, index) = applied;
    let options = Options {
        segment_bytes: 4096,
        ..Options::default()
    };
    let applied = Position { term, index };
    LogWriter::open(Arc::new(vfs.clone()), Path::new(DIR), applied, options)
        .unwrap()
        .0
}

fn keep(bytes: u64) -> Keep {
    Keep {
        bytes,
        ..Keep::default()
    }
}

fn entry(term: Term, index: Index) -> Entry {
    Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: format!("{term}/{index}").into(),
    }
}

/// Writes entries, and the commit index as it was then; durable on return.
fn append(
    log: &mut LogWriter,
    term: Term,
    indexes: std::ops::RangeInclusive<Index>,
    commit: Index,
) {
    log.append(&Write {
        entries: indexes.map(|index| entry(term, index)).collect(),
        hard_state: Some(HardState {
            term,
            vote: 0,
            commit,
        }),
        ..Write::default()
    })
    .unwrap();
    log.sync().unwrap();
}

fn fetch(from: Index, through: Index, bytes: usize) -> Fetch {
    Fetch {
        peer: 2,
        term: 9,
        from,
        through,
        bytes,
    }
}

fn find(log: &LogWriter, from: Index, through: Index, bytes: usize) -> Option<LogPart> {
    log.fetch(fetch(from, through, bytes)).run().unwrap()
}

fn positions(part: Option<LogPart>) -> Vec<(Term, Index)> {
    let Some(part) = part else {
        return Vec::new();
    };
    let rest = part.entries.iter().map(Entry::position);
    let all = std::iter::once(part.prev).chain(rest);
    all.map(|at| (at.term, at.index)).collect()
}

#[test]
fn entries_come_with_the_position_before_them_and_no_more_than_asked_for() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    append(&mut log, 1, 1..=3, 2);
    append(&mut log, 2, 4..=9, 9);
    let all = |log: &LogWriter| positions(find(log, 1, 9, 1 << 20));
    let expected = [
        (0, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 4),
        (2, 5),
        (2, 6),
        (2, 7),
        (2, 8),
        (2, 9),
    ];
    assert_eq!(all(&log), expected);
    assert_eq!(positions(find(&log, 4, 6, 1 << 20)), expected[3..7]);
    assert_eq!(
        positions(find(&log, 4, 9, 1)),
        expected[3..5],
        "one at least"
    );
    assert_eq!(positions(find(&log, 4, 9, 140)), expected[3..6]);
    assert_eq!(find(&log, 10, 12, 1 << 20), None);
    assert_eq!(find(&log, 11, 12, 1 << 20), None);
    let found = find(&log, 5, 5, 1).unwrap();
    assert_eq!(found.entries, [entry(2, 5)]);
}

#[test]
fn of_several_versions_only_the_last_is_found() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    append(&mut log, 1, 1..=200, 4);
    append(&mut log, 2, 100..=150, 99);
    append(&mut log, 3, 120..=400, 130);
    append(&mut log, 3, 401..=401, 400);
    for bytes in [1, 200, 1000, 1 << 20] {
        let (mut from, mut found) = (1, vec![(0, 0)]);
        while from <= 400 {
            let part = find(&log, from, 400, bytes).unwrap();
            assert_eq!((part.prev.term, part.prev.index), *found.last().unwrap());
            found.extend(positions(Some(part)).into_iter().skip(1));
            from = found.last().unwrap().1 + 1;
        }
        for (term, index) in &found[1..] {
            let expected = match index {
                1..=99 => 1,
                100..=119 => 2,
                _ => 3,
            };
            assert_eq!(*term, expected, "{index}");
        }
        assert_eq!(found.len(), 401);
    }
    // A fetch that begins anywhere, and no earlier one has been there.
    for from in 2..=400 {
        let part = find(&open(&vfs, (3, 400)), from, 400, 1).unwrap();
        let term = |index| match index {
            0..=99 => 1,
            100..=119 => 2,
            _ => 3,
        };
        assert_eq!(
            positions(Some(part)),
            [(term(from - 1), from - 1), (term(from), from)]
        );
    }
}

#[test]
fn what_a_follower_is_being_fed_stays_beyond_the_usual_limit_but_not_beyond_its_own() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    for index in 1..=500 {
        append(&mut log, 1, index..=index, index - 1);
    }
    let feeding = |after, fed_bytes| Keep {
        feeding_after: Some(after),
        fed_bytes,
        ..keep(4096)
    };
    log.drop_but(450, feeding(200, u64::MAX)).unwrap();
    assert!(find(&log, 201, 500, 1).is_some());
    assert_eq!(find(&log, 100, 500, 1), None, "nobody needs it");
    let kept = log.kept_bytes();
    assert!(kept > 2 * 4096, "{kept}");
    log.shrink_to(feeding(460, u64::MAX)).unwrap();
    assert!(log.kept_bytes() <= 4096, "it has gone on");
    // One that needs more than there is room for needs a snapshot anyhow.
    for index in 501..=900 {
        append(&mut log, 1, index..=index, index - 1);
    }
    log.drop_but(890, feeding(520, 3 * 4096)).unwrap();
    assert!(log.kept_bytes() <= 4096);
    // One that is fed from before where the log begins, too.
    log.drop_but(890, feeding(0, u64::MAX)).unwrap();
    assert!(log.kept_bytes() <= 4096);
}

#[test]
fn what_was_dropped_or_reset_is_not_found_and_the_rest_is() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    for index in 1..=500 {
        append(&mut log, 1, index..=index, index - 1);
    }
    let job = log.fetch(fetch(2, 500, 500));
    assert_eq!(log.kept_bytes(), 0, "nobody has said what may go");
    log.drop_but(450, keep(6 * 4096)).unwrap();
    assert!(log.finish_drop().is_none(), "a fetch is to come");
    assert_eq!(positions(job.run().unwrap())[..2], [(1, 1), (1, 2)]);
    log.drop_but(450, keep(6 * 4096)).unwrap();
    log.finish_drop().unwrap().run(|| ()).unwrap();
    let kept = log.kept_bytes();
    assert!(kept > 3 * 4096 && kept <= 6 * 4096, "{kept}");
    assert_eq!(find(&log, 3, 500, 500), None);
    assert_eq!(positions(find(&log, 440, 500, 1)), [(1, 439), (1, 440)]);
    let from = (2..500)
        .find(|from| find(&log, *from, 500, 1).is_some())
        .unwrap();
    assert!(from > 100 && from < 430, "{from}");
    // Each one from there on.
    for from in from..500 {
        assert_eq!(
            positions(find(&log, from, 500, 1)),
            [(1, from - 1), (1, from)]
        );
    }
    log.shrink_to(keep(0)).unwrap();
    assert_eq!(log.kept_bytes(), 0);
    log.append(&Write {
        reset: Some(Position {
            term: 4,
            index: 900,
        }),
        entries: vec![entry(4, 901)],
        hard_state: Some(HardState {
            term: 4,
            vote: 0,
            commit: 901,
        }),
        ..Write::default()
    })
    .unwrap();
    log.sync().unwrap();
    assert_eq!(find(&log, 500, 900, 1), None, "it was not committed");
    assert_eq!(positions(find(&log, 901, 901, 1)), [(4, 900), (4, 901)]);
}

#[test]
fn a_start_reads_only_what_the_store_needs_and_fetches_find_the_rest() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    log.set_metadata(b"whose");
    for index in 1..=500 {
        append(&mut log, 1, index..=index, index - 1);
    }
    drop(log);
    let applied = Position {
        term: 1,
        index: 480,
    };
    let options = Options {
        segment_bytes: 4096,
        ..Options::default()
    };
    let opened = LogWriter::open(Arc::new(vfs.power_cut(1)), Path::new(DIR), applied, options);
    let (log, opened) = opened.unwrap();
    assert_eq!(opened.metadata.as_deref(), Some(&b"whose"[..]));
    let first = opened.recovered.base.index;
    assert!(first > 400 && first <= 480, "{first}");
    assert_eq!(opened.recovered.entries.last().unwrap().index, 500);
    for from in [1, 2, 100, first] {
        assert_eq!(find(&log, from, 480, 1).unwrap().prev.index, from - 1);
    }
}

#[test]
fn damage_is_an_error() {
    let vfs = SimVfs::new(1);
    let mut log = open(&vfs, (0, 0));
    append(&mut log, 1, 1..=200, 199);
    let names = storage::vfs::Vfs::list(&vfs, Path::new(DIR)).unwrap();
    let first = names.iter().find(|name| name.starts_with('0')).unwrap();
    let path = Path::new(DIR).join(first);
    let mut bytes = vfs.contents(&path).unwrap();
    bytes[2000] ^= 1;
    vfs.install(&path, &bytes);
    assert!(log.fetch(fetch(1, 200, 1 << 20)).run().is_err());
    // What lies before the damage is found where an earlier fetch has come to.
    assert!(find(&log, 200, 200, 1).is_some());
}

/// Against a plain list of entries: appends, other leaders, checkpoints, restarts.
#[test]
fn whatever_happened_to_the_log_a_fetch_finds_what_is_committed() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut vfs = SimVfs::new(seed);
        let mut log = open(&vfs, (0, 0));
        let (mut model, mut commit, mut term) = (vec![entry(0, 0)], 0, 1);
        let mut found = 0;
        for _ in 0..200 {
            let last = model.len() as Index - 1;
            match rng.below(12) {
                0 => {
                    term += 1;
                    let from = commit + 1 + rng.below(last - commit + 1);
                    model.truncate(from as usize);
                }
                1 => log
                    .drop_but(
                        commit.saturating_sub(rng.below(50)),
                        keep(4096 * rng.below(9)),
                    )
                    .unwrap(),
                2 => drop(log.finish_drop().map(|job| job.run(|| ()).unwrap())),
                3 => {
                    drop(log);
                    vfs = vfs.process_killed();
                    log = open(&vfs, (model[commit as usize].term, commit));
                    // What was not committed may be of another leader next.
                    term += 1;
                }
                4..8 if commit > 0 => {
                    let from = 1 + rng.below(commit);
                    let bytes = 1 + rng.below(3000) as usize;
                    let Some(part) = find(&log, from, commit, bytes) else {
                        continue;
                    };
                    let expected = &model[from as usize..];
                    assert_eq!(
                        part.prev,
                        model[from as usize - 1].position(),
                        "seed {seed}"
                    );
                    assert_eq!(
                        part.entries[..],
                        expected[..part.entries.len()],
                        "seed {seed}"
                    );
                    assert!(part.entries.last().unwrap().index <= commit);
                    found += 1;
                }
                _ => {
                    let count = 1 + rng.below(20);
                    let next = model.len() as Index;
                    model.extend((next..next + count).map(|index| entry(term, index)));
                    append(&mut log, term, next..=next + count - 1, commit);
                    commit += rng.below(model.len() as Index - commit);
                }
            }
        }
        assert!(found > 5, "seed {seed}: {found}");
    }
}
