use std::path::{Path, PathBuf};

use super::*;
use crate::encryption::sample;
use crate::vfs::sim::SimVfs;
use crate::wal::tests::{OLD_SEGMENTS, payload};
use crate::wal::{Options, segment::Name};

const DIR: &str = "data/log";
const ENTRY: u8 = 1;
const STATE: u8 = 2;

/// A record as read: kind, index, payload, repeated.
type Plain = (u8, u64, Vec<u8>, bool);

/// The records that opening from an index on returns, too.
fn open_from(vfs: &SimVfs, from: u64) -> (Wal, Vec<Plain>) {
    let options = Options {
        segment_bytes: 4096,
        seed: 42,
        data_keys: sample::keys_of(vfs).unwrap(),
        from,
    };
    let (vfs, mut seen) = (Arc::new(vfs.clone()), Vec::new());
    let opened = Wal::open(vfs, Path::new(DIR), options, &mut |record| {
        seen.push(plain(&record));
        Ok(())
    });
    (opened.unwrap().0, seen)
}

fn open(vfs: &SimVfs) -> Wal {
    open_from(vfs, 0).0
}

fn plain(record: &Record<'_>) -> Plain {
    let payload = record.payload.to_vec();
    (record.kind, record.index, payload, record.repeated)
}

fn append(wal: &mut Wal, indexes: std::ops::RangeInclusive<u64>) {
    for n in indexes {
        if n % 4 == 1 {
            wal.append_carried(STATE, n, &[&payload(n, 24)]);
        }
        wal.append(ENTRY, n, &[&payload(n, (n * 97 % 700) as usize)]);
        wal.write().unwrap();
        wal.sync().unwrap();
    }
}

fn rest(mut reader: Reader) -> Vec<Plain> {
    let mut found = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        found.push(plain(&record));
    }
    found
}

fn appended(all: &[Plain]) -> Vec<u64> {
    let appended = all.iter().filter(|record| !record.3 && record.0 == ENTRY);
    appended.map(|record| record.1).collect()
}

/// Without and with encryption.
fn disks() -> [SimVfs; 2] {
    let sealed = SimVfs::new(2);
    sample::give_key(&sealed);
    [SimVfs::new(1), sealed]
}

fn segments(vfs: &SimVfs) -> Vec<PathBuf> {
    let mut names = vfs.list(Path::new(DIR)).unwrap();
    names.retain(|name| matches!(Name::parse(name), Some(Name::Segment { .. })));
    names.iter().map(|name| Path::new(DIR).join(name)).collect()
}

#[test]
fn everything_durable_is_read_in_order_and_nothing_else() {
    for vfs in disks() {
        let mut wal = open(&vfs);
        append(&mut wal, 1..=60);
        wal.append(ENTRY, 61, &[b"not written"]);
        let all = rest(wal.pin(0).unwrap().reader(None));
        assert_eq!(appended(&all), (1..=60).collect::<Vec<_>>());
        wal.write().unwrap();
        assert_eq!(rest(wal.pin(0).unwrap().reader(None)), all, "not synced");
        wal.sync().unwrap();
        assert_eq!(rest(wal.pin(0).unwrap().reader(None)).len(), all.len() + 1);
        drop(wal);
        let (_, recovered) = open_from(&vfs, 0);
        assert_eq!(recovered[..all.len()], all[..]);
    }
}

#[test]
fn records_are_read_as_they_were_pinned_while_the_log_grows() {
    for vfs in disks() {
        let mut wal = open(&vfs);
        append(&mut wal, 1..=20);
        let pinned = wal.pin(0).unwrap();
        append(&mut wal, 21..=60);
        assert_eq!(
            appended(&rest(pinned.reader(None))),
            (1..=20).collect::<Vec<_>>()
        );
    }
}

#[test]
fn reading_continues_at_any_place_it_came_to() {
    for vfs in disks() {
        let mut wal = open(&vfs);
        append(&mut wal, 1..=50);
        let all = rest(wal.pin(0).unwrap().reader(None));
        let mut reader = wal.pin(0).unwrap().reader(None);
        let mut read = 0;
        while let Some(record) = reader.read().unwrap() {
            let index = record.index;
            read += 1;
            let place = reader.place();
            let again = wal.pin(index).unwrap().reader(place.as_ref());
            let (there, rest) = (&all[read..], rest(again));
            assert!(
                rest.ends_with(there) && rest.len() <= there.len() + 1,
                "{read}"
            );
        }
        assert_eq!(read, all.len());
    }
}

#[test]
fn a_pin_begins_with_the_segment_that_holds_the_index() {
    let vfs = SimVfs::new(1);
    let mut wal = open(&vfs);
    append(&mut wal, 1..=100);
    assert!(segments(&vfs).len() > 5);
    for index in 1..=100 {
        let found = appended(&rest(wal.pin(index).unwrap().reader(None)));
        let first = *found.first().unwrap();
        assert!(first <= index && index - first < 30, "{first} for {index}");
        assert_eq!(*found.last().unwrap(), 100);
    }
}

#[test]
fn a_pinned_segment_is_neither_dropped_nor_used_again() {
    for vfs in disks() {
        let mut wal = open(&vfs);
        append(&mut wal, 1..=60);
        let before = rest(wal.pin(0).unwrap().reader(None));
        let pinned = wal.pin(0).unwrap();
        let files = segments(&vfs);
        wal.drop_before(60).unwrap();
        assert!(wal.finish_drop().is_none());
        append(&mut wal, 61..=120);
        assert!(segments(&vfs).starts_with(&files));
        assert_eq!(rest(pinned.reader(None)), before);
        // The pin is gone with its reader.
        wal.drop_before(60).unwrap();
        wal.finish_drop().unwrap().run(|| ()).unwrap();
        assert!(!segments(&vfs).contains(&files[0]));
        append(&mut wal, 121..=180);
        let left = appended(&rest(wal.pin(0).unwrap().reader(None)));
        assert_eq!(*left.last().unwrap(), 180);
        assert!(left[0] > 30, "{left:?}");
    }
}

#[test]
fn as_many_segments_are_kept_as_fit() {
    let vfs = SimVfs::new(1);
    let mut wal = open(&vfs);
    append(&mut wal, 1..=200);
    let all = wal.droppable_bytes(200);
    assert!(all >= 10 * 4096, "{all}");
    wal.drop_but(200, 5 * 4096 + 100).unwrap();
    assert_eq!(wal.droppable_bytes(200), 5 * 4096);
    wal.finish_drop().unwrap().run(|| ()).unwrap();
    // What was dropped serves new records; what is kept is read.
    let spare = |vfs: &SimVfs| {
        let names = vfs.list(Path::new(DIR)).unwrap();
        names
            .into_iter()
            .filter(|name| name.starts_with("spare"))
            .count()
    };
    let spares = spare(&vfs);
    assert!(spares > 0);
    append(&mut wal, 201..=220);
    assert!(spare(&vfs) < spares);
    let kept = appended(&rest(wal.pin(0).unwrap().reader(None)));
    assert_eq!(*kept.last().unwrap(), 220);
    wal.drop_but(200, 0).unwrap();
    assert_eq!(wal.droppable_bytes(200), 0);
}

#[test]
fn segments_before_the_wanted_index_are_not_read_at_the_start_but_later() {
    for vfs in disks() {
        let mut wal = open(&vfs);
        append(&mut wal, 1..=150);
        drop(wal);
        let (wal, all) = open_from(&vfs, 0);
        let everything = rest(wal.pin(0).unwrap().reader(None));
        drop(wal);
        for from in [1, 40, 100, 149, 150, 151, 1000] {
            let (mut wal, seen) = open_from(&vfs.process_killed(), from);
            assert!(all.ends_with(&seen[1..]), "from {from}");
            let entries = appended(&seen);
            assert_eq!(*entries.last().unwrap(), 150);
            assert!(entries[0] <= from, "{} for {from}", entries[0]);
            assert!(
                from < 40 || entries[0] + 40 > from.min(150),
                "{}",
                entries[0]
            );
            // The newest state is known all the same.
            assert!(seen.iter().any(|record| record.0 == STATE));
            assert_eq!(rest(wal.pin(0).unwrap().reader(None)), everything);
            append(&mut wal, 151..=170);
            let found = appended(&rest(wal.pin(0).unwrap().reader(None)));
            assert_eq!(found, (1..=170).collect::<Vec<_>>());
            wal.drop_before(150).unwrap();
            wal.finish_drop().unwrap().run(|| ()).unwrap();
        }
    }
}

#[test]
fn a_last_segment_without_all_repeated_records_is_not_read_alone() {
    let vfs = SimVfs::new(1);
    let mut wal = open(&vfs);
    append(&mut wal, 1..=30);
    drop(wal);
    let last = segments(&vfs).pop().unwrap();
    // Only its header survives.
    let mut bytes = vfs.contents(&last).unwrap();
    bytes[SECTOR_BYTES..].fill(0);
    vfs.install(&last, &bytes);
    let (mut wal, seen) = open_from(&vfs, 1000);
    assert!(seen.iter().any(|record| record.0 == STATE));
    // The state that was lost is repeated, and durable before anything older goes.
    append(&mut wal, 1000..=1000);
    wal.drop_before(1000).unwrap();
    drop(wal.finish_drop().map(|job| job.run(|| ())));
    drop(wal);
    let (_, seen) = open_from(&vfs.power_cut(1), 1000);
    assert!(seen.iter().any(|record| record.0 == STATE));
}

#[test]
fn damage_and_loss_are_errors_and_not_the_end() {
    let vfs = SimVfs::new(1);
    let mut wal = open(&vfs);
    append(&mut wal, 1..=60);
    let files = segments(&vfs);
    for (file, path) in files.iter().enumerate() {
        let good = vfs.contents(path).unwrap();
        for sector in [0, 3] {
            let mut bytes = good.clone();
            bytes[sector * SECTOR_BYTES + 9] ^= 4;
            vfs.install(path, &bytes);
            let mut reader = wal.pin(0).unwrap().reader(None);
            let error = loop {
                match reader.read() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("file {file}, sector {sector}: nobody notices"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            // As if it had been used again: its sectors are of another segment.
            vfs.install(path, &good);
        }
        vfs.install(
            path,
            &vfs.contents(&files[(file + 1) % files.len()]).unwrap(),
        );
        let mut reader = wal.pin(0).unwrap().reader(None);
        while let Ok(found) = reader.read() {
            assert!(found.is_some(), "file {file}: nobody notices");
        }
        vfs.install(path, &good);
    }
}

#[test]
fn segments_of_the_older_format_are_read() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    for (name, bytes) in OLD_SEGMENTS {
        vfs.install(&Path::new(DIR).join(name), bytes);
    }
    let (mut wal, before) = open_from(&vfs, 0);
    let last = before.last().unwrap().1;
    append(&mut wal, last + 1..=last + 20);
    let found = rest(wal.pin(0).unwrap().reader(None));
    assert_eq!(found[..before.len()], before);
    assert_eq!(found.last().unwrap().1, last + 20);
}
