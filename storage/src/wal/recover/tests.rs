//! At least one test for each letter of the decision table.

use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::vfs::sim::SimVfs;
use crate::wal::segment::Name;
use crate::wal::{Recovery, Wal};

const DIR: &str = "log";
const SECTOR: usize = SECTOR_BYTES;
const OPTIONS: Options = Options {
    segment_bytes: 4096,
    seed: 3,
    data_keys: None,
    from: 0,
};

/// The indexes returned, and the letters; or the refusal.
type Outcome = std::result::Result<(Vec<u64>, String), Error>;

fn open(vfs: &SimVfs) -> std::result::Result<(Wal, Vec<u64>, Recovery), Error> {
    let mut seen = Vec::new();
    let vfs = Arc::new(vfs.clone());
    let (wal, recovery) = Wal::open(vfs, Path::new(DIR), OPTIONS, &mut |record| {
        if !record.repeated {
            seen.push(record.index);
        }
        Ok(())
    })?;
    Ok((wal, seen, recovery))
}

fn outcome(vfs: &SimVfs) -> Outcome {
    let (_, seen, recovery) = open(vfs)?;
    let letters = recovery.removed.into_iter().chain([recovery.end]);
    Ok((seen, letters.collect()))
}

#[track_caller]
fn opens(vfs: &SimVfs, records: u64, letters: &str) {
    let expected = ((1..=records).collect(), letters.to_owned());
    assert_eq!(outcome(vfs).unwrap(), expected);
    // A second recovery finds the same, except removed segments.
    let (seen, again) = outcome(&vfs.power_cut(1)).unwrap();
    assert_eq!(seen, expected.0);
    assert_eq!(again, letters.trim_start_matches(['L', 'M']));
}

/// Refused with this letter; the error names this file and an offset inside it.
#[track_caller]
fn refused(vfs: &SimVfs, letter: char, file: &Path) -> (u64, String) {
    let before: Vec<_> = files(vfs).iter().map(|path| vfs.contents(path)).collect();
    let Err(Error::Corrupt { path, offset, what }) = outcome(vfs) else {
        panic!("not refused: {:?}", outcome(vfs));
    };
    assert!(what.contains(&format!("case {letter}")), "{what}");
    assert_eq!(path, file);
    let after: Vec<_> = files(vfs).iter().map(|path| vfs.contents(path)).collect();
    assert!(before == after, "a refused log is left as it is");
    (offset, what)
}

fn files(vfs: &SimVfs) -> Vec<PathBuf> {
    let names = vfs.list(Path::new(DIR)).unwrap();
    names.iter().map(|name| Path::new(DIR).join(name)).collect()
}

fn segments(vfs: &SimVfs) -> Vec<PathBuf> {
    let mut all = files(vfs);
    all.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        matches!(Name::parse(name), Some(Name::Segment { .. }))
    });
    all
}

fn edit(vfs: &SimVfs, path: &Path, f: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = vfs.contents(path).unwrap();
    f(&mut bytes);
    vfs.install(path, &bytes);
}

fn blank(vfs: &SimVfs, path: &Path, sectors: std::ops::Range<usize>) {
    edit(vfs, path, |bytes| {
        bytes[sectors.start * SECTOR..sectors.end * SECTOR].fill(0);
    });
}

/// Edits a sector and makes its checksum fit: damage that no sector checksum shows.
fn forge(vfs: &SimVfs, path: &Path, sector: usize, f: impl FnOnce(&mut [u8])) {
    edit(vfs, path, |bytes| {
        let bytes = &mut bytes[sector * SECTOR..(sector + 1) * SECTOR];
        f(bytes);
        sector::set_checksum(bytes);
    });
}

/// Records 1..=3, synced, of 40 bytes in the stream; then 4..=8 of 632 bytes in one write:
/// 4 in sectors 1 and 2, 5 in 2 and 3, 6 in 3 and 4, 7 in 5 and 6, 8 in 6 and 7.
fn one_segment() -> (SimVfs, PathBuf) {
    let vfs = SimVfs::new(1);
    let (mut wal, _, _) = open(&vfs).unwrap();
    (1..=3).for_each(|n| wal.append(1, n, &[&[n as u8; 8]]));
    wal.write().unwrap();
    wal.sync().unwrap();
    (4..=8).for_each(|n| wal.append(1, n, &[&[n as u8; 600]]));
    wal.write().unwrap();
    let path = segments(&vfs).remove(0);
    (vfs.process_killed(), path)
}

/// Five records of 1000 bytes per segment, each synced.
fn many_segments(records: u64) -> (SimVfs, Vec<PathBuf>) {
    let vfs = SimVfs::new(1);
    let (mut wal, _, _) = open(&vfs).unwrap();
    for n in 1..=records {
        wal.append(1, n, &[&[n as u8; 1000]]);
        wal.write().unwrap();
        wal.sync().unwrap();
    }
    let paths = segments(&vfs);
    (vfs.process_killed(), paths)
}

/// An intermediate state of a roll-over: the segment has its name, but nothing was written.
fn name_a_blank_segment(vfs: &SimVfs, sequence: u64) -> PathBuf {
    let name = Name::Segment {
        sequence,
        bytes: 4096,
    };
    let path = name.path(Path::new(DIR));
    vfs.install(&path, &[0; 4096]);
    path
}

#[test]
fn case_a_clean_end_before_blank_sectors_opens() {
    let (vfs, _) = one_segment();
    opens(&vfs, 8, "A");
    let (vfs, _) = many_segments(11);
    opens(&vfs, 11, "A");
}

#[test]
fn case_a_zeroed_tail_of_whole_records_is_a_shorter_log() {
    let (vfs, path) = one_segment();
    blank(&vfs, &path, 5..8);
    opens(&vfs, 6, "A");
}

#[test]
fn case_b_stale_sectors_of_a_recycled_file_are_never_taken_for_records() {
    let vfs = SimVfs::new(1);
    let (mut wal, _, _) = open(&vfs).unwrap();
    for n in 1..=20 {
        wal.append(1, n, &[&[7; 1000]]);
        wal.write().unwrap();
        wal.sync().unwrap();
        wal.drop_before(n).unwrap();
        wal.finish_drop()
            .map_or(Ok(()), |job| job.run(|| ()))
            .unwrap();
        let (seen, end) = outcome(&vfs.power_cut(n)).unwrap();
        assert_eq!(seen.last(), Some(&n));
        // Two fresh files are used before the first recycled one.
        let recycled = n > 9 && n % 3 != 0;
        assert!(end == "B" || !recycled, "{n}: {end}");
    }
}

#[test]
fn case_c_torn_last_record_is_cut() {
    let (vfs, path) = one_segment();
    blank(&vfs, &path, 7..8);
    opens(&vfs, 7, "C");
    // Its head is lost, its end exists: sector 6 as it was before the last write.
    let (vfs, path) = one_segment();
    edit(&vfs, &path, |bytes| {
        let stream = sector::file_offset(2648) as usize;
        bytes[stream..7 * SECTOR - 8].fill(0);
    });
    forge(&vfs, &path, 6, |_| {});
    opens(&vfs, 7, "C");
}

#[test]
fn case_c_torn_record_and_a_headless_one_behind_it_are_cut() {
    let (vfs, path) = one_segment();
    blank(&vfs, &path, 6..7);
    opens(&vfs, 6, "C");
}

#[test]
fn case_c_half_of_a_first_record_is_cut() {
    let (vfs, path) = one_segment();
    blank(&vfs, &path, 2..8);
    opens(&vfs, 3, "C");
}

#[test]
fn case_d_gap_in_an_unsynced_batch_is_cut_and_what_lies_behind_is_left_there() {
    for sector in 2..=5 {
        let (vfs, path) = one_segment();
        blank(&vfs, &path, sector..sector + 1);
        let whole = [3, 4, 5, 6][sector - 2];
        let before = vfs.contents(&path);
        opens(&vfs, whole, "D");
        assert_eq!(vfs.contents(&path), before);
    }
}

#[test]
fn case_d_records_behind_the_gap_do_not_come_back_when_the_log_grows_up_to_them() {
    let (vfs, path) = one_segment();
    blank(&vfs, &path, 2..3);
    let (mut wal, seen, _) = open(&vfs).unwrap();
    assert_eq!(seen, [1, 2, 3]);
    // As long as the lost record: in the same segment the next record would follow.
    wal.append(1, 4, &[&[9; 600]]);
    wal.write().unwrap();
    wal.sync().unwrap();
    drop(wal);
    opens(&vfs, 4, "A");
}

#[test]
fn case_e_gap_that_was_durable_is_refused() {
    let (vfs, path) = one_segment();
    let (mut wal, _, _) = open(&vfs).unwrap();
    wal.append(1, 9, &[b"witness"]);
    wal.write().unwrap();
    wal.sync().unwrap();
    drop(wal);
    let vfs = vfs.process_killed();
    for sectors in [1..2, 2..3, 3..7, 5..6] {
        let vfs = vfs.power_cut(0);
        blank(&vfs, &path, sectors.clone());
        let (offset, _) = refused(&vfs, 'E', &path);
        assert!(offset < (sectors.end * SECTOR) as u64);
    }
}

#[test]
fn case_f_any_flipped_bit_is_refused_at_its_sector() {
    let (vfs, path) = one_segment();
    for bit in (0..4096 * 8).step_by(37) {
        let vfs = vfs.power_cut(0);
        vfs.flip(&path, bit);
        let (offset, _) = refused(&vfs, 'F', &path);
        assert_eq!(offset, bit / 8 / 512 * 512);
    }
}

#[test]
fn case_f_flipped_bits_in_older_segments_and_in_the_last_record_are_refused() {
    let (vfs, paths) = many_segments(8);
    for (path, byte) in [(&paths[0], 600), (&paths[1], 2000), (&paths[2], 700)] {
        let vfs = vfs.power_cut(0);
        vfs.flip(path, byte * 8);
        refused(&vfs, 'F', path);
    }
}

#[test]
fn case_g_impossible_record_in_intact_sectors_is_refused() {
    let changes: [(usize, u8, &str); 5] = [
        (5, 0x80, "flags"),
        (6, 1, "reserved"),
        (11, 0xff, "longer"),
        (12, 1, "does not follow"),
        (32, 1, "checksum"),
    ];
    for (at, flip, what) in changes {
        let (vfs, path) = one_segment();
        forge(&vfs, &path, 1, |sector| sector[80 + at] ^= flip);
        let (offset, said) = refused(&vfs, 'G', &path);
        assert!(said.contains(what), "{said}");
        assert_eq!(offset, 512 + 80);
    }
}

#[test]
fn case_h_segment_that_ends_before_the_next_one_says_is_refused() {
    let (vfs, paths) = many_segments(8);
    for sectors in [1..2, 3..4, 4..7, 1..8] {
        let vfs = vfs.power_cut(0);
        blank(&vfs, &paths[0], sectors);
        refused(&vfs, 'H', &paths[0]);
    }
}

#[test]
fn case_h_segment_that_cannot_hold_what_the_next_one_says_is_refused() {
    let (vfs, paths) = many_segments(8);
    for end in [u64::MAX, u64::MAX - 7, 1 << 40] {
        let vfs = vfs.power_cut(0);
        forge(&vfs, &paths[1], 0, |sector| {
            sector[24..32].copy_from_slice(&end.to_le_bytes());
        });
        let (_, said) = refused(&vfs, 'H', &paths[0]);
        assert!(said.contains("more than fit"), "{said}");
    }
}

#[test]
fn case_i_missing_segment_is_refused() {
    let (vfs, paths) = many_segments(15);
    assert!(paths.len() >= 4);
    vfs.remove(&paths[1]).unwrap();
    let (_, what) = refused(&vfs, 'I', &paths[2]);
    assert!(what.contains("missing"), "{what}");
}

#[test]
fn case_j_duplicate_segment_is_refused() {
    let (vfs, paths) = many_segments(8);
    let copy = Name::Segment {
        sequence: 2,
        bytes: 8192,
    };
    let copy = copy.path(Path::new(DIR));
    vfs.install(&copy, &vfs.contents(&paths[1]).unwrap());
    refused(&vfs, 'J', &copy);
}

#[test]
fn case_k_segment_shorter_than_its_name_promises_is_refused() {
    let (vfs, paths) = many_segments(8);
    for path in &paths {
        for len in [0, 1, 512, 4095] {
            let vfs = vfs.power_cut(0);
            edit(&vfs, path, |bytes| bytes.truncate(len));
            refused(&vfs, 'K', path);
        }
    }
    edit(&vfs, &paths[0], |bytes| bytes.push(0));
    refused(&vfs, 'K', &paths[0]);
}

#[test]
fn case_l_named_but_never_written_segment_is_removed() {
    let (vfs, paths) = many_segments(8);
    let next = paths.len() as u64 + 1;
    let path = name_a_blank_segment(&vfs, next);
    opens(&vfs, 8, "LA");
    // The same with a recycled file, which has the header of its earlier life.
    vfs.install(&path, &vfs.contents(&paths[0]).unwrap());
    opens(&vfs, 8, "LA");
    assert!(vfs.contents(&path).is_none());
}

#[test]
fn case_l_new_log_interrupted_before_its_first_write_is_new() {
    let vfs = SimVfs::new(1);
    name_a_blank_segment(&vfs, 1);
    opens(&vfs, 0, "LQ");
}

#[test]
fn case_m_half_written_new_segment_without_header_is_removed() {
    let vfs = SimVfs::new(1);
    let (mut wal, _, _) = open(&vfs).unwrap();
    // One batch over two segments; the second is never synced.
    (1..=6).for_each(|n| wal.append(1, n, &[&[n as u8; 1000]]));
    wal.write().unwrap();
    let vfs = vfs.process_killed();
    let paths = segments(&vfs);
    blank(&vfs, &paths[1], 0..1);
    opens(&vfs, 3, "MA");
}

#[test]
fn case_n_lost_header_of_a_durable_segment_is_refused() {
    let (vfs, paths) = many_segments(8);
    let last = paths.last().unwrap();
    blank(&vfs, last, 0..1);
    refused(&vfs, 'N', last);
}

#[test]
fn case_o_header_that_cannot_be_is_refused() {
    let (vfs, paths) = many_segments(8);
    let changes: [(usize, &str); 5] = [
        (0, "not a segment of the log"),
        (8, "log format 3"),
        (16, "says segment"),
        (32, "says index"),
        (52, "reserved bytes"),
    ];
    for (at, what) in changes {
        let vfs = vfs.power_cut(0);
        forge(&vfs, &paths[1], 0, |sector| sector[at] ^= 1);
        let (offset, said) = refused(&vfs, 'O', &paths[1]);
        assert!(said.contains(what), "{said}");
        assert_eq!(offset, at as u64);
    }
}

#[test]
fn case_p_segment_without_header_in_the_middle_or_alone_is_refused() {
    let (vfs, paths) = many_segments(8);
    blank(&vfs, &paths[1], 0..8);
    refused(&vfs, 'P', &paths[1]);
    let vfs = SimVfs::new(1);
    let path = name_a_blank_segment(&vfs, 5);
    refused(&vfs, 'P', &path);
}

#[test]
fn case_q_no_segment_is_a_new_log_and_leftovers_of_preparing_go() {
    let vfs = SimVfs::new(1);
    let preparing = Name::Preparing(4).path(Path::new(DIR));
    let stranger = Path::new(DIR).join("README");
    vfs.install(&preparing, &[0; 100]);
    vfs.install(&stranger, b"mine");
    opens(&vfs, 0, "Q");
    assert!(vfs.contents(&preparing).is_none());
    assert!(vfs.contents(&stranger).is_some());
}

#[test]
fn a_log_whose_oldest_segments_were_dropped_opens() {
    let (vfs, _) = many_segments(15);
    let (mut wal, _, _) = open(&vfs).unwrap();
    wal.drop_before(8).unwrap();
    wal.finish_drop().unwrap().run(|| ()).unwrap();
    drop(wal);
    let (seen, _) = outcome(&vfs).unwrap();
    assert_eq!(seen, (7..=15).collect::<Vec<_>>());
}
