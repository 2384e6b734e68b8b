//! Files as lumberjack would leave them.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_full_file_is_renamed_and_every_line_is_in_one_of_the_files() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("logs/audit.log");
    let mut file = Rotated::open(&path, Some(100), Keep::default()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let lines: Vec<String> = (0..10).map(|number| format!("{number:039}\n")).collect();
    for line in &lines {
        file.add(line.as_bytes()).unwrap();
    }
    file.flush().unwrap();
    let names = names(path.parent().unwrap());
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(
        names
            .iter()
            .all(|name| name.len() == 9 || time_of(&path, name).is_some())
    );
    // The times sort the old files; the present one comes last.
    let all: String = names
        .iter()
        .map(|name| text(&path.with_file_name(name)))
        .collect();
    assert_eq!(all, lines.concat());
    let long = file.add(&[b'x'; 101]).unwrap_err().to_string();
    assert_eq!(long, "write length 101 exceeds maximum file size 100");
}

#[test]
fn a_file_that_is_there_is_continued_until_it_is_full() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit");
    fs::write(&path, "old\n").unwrap();
    let mut file = Rotated::open(&path, Some(10), Keep::default()).unwrap();
    file.add(b"new\n").unwrap();
    file.flush().unwrap();
    assert_eq!(text(&path), "old\nnew\n");
    let mut file = Rotated::open(&path, Some(10), Keep::default()).unwrap();
    file.add(b"x\n").unwrap();
    file.flush().unwrap();
    assert_eq!(text(&path), "x\n");
    assert_eq!(names(home.path()).len(), 2);
    let mut endless = Rotated::open(&path, None, Keep::default()).unwrap();
    endless.add(&[b'y'; 1000]).unwrap();
    endless.flush().unwrap();
    assert_eq!(text(&path).len(), 1002);
}

#[test]
fn a_file_that_somebody_moved_away_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let mut file = Rotated::open(&path, Some(10), Keep::default()).unwrap();
    file.add(b"12345678\n").unwrap();
    file.flush().unwrap();
    fs::remove_file(&path).unwrap();
    file.add(b"abc\n").unwrap();
    file.flush().unwrap();
    assert_eq!(text(&path), "abc\n");
}

#[test]
fn old_files_are_removed_by_number_and_age_and_compressed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let old = |day: u32| format!("audit-2026-01-{day:02}T03-04-05.678.log");
    for day in 1..=5 {
        fs::write(home.path().join(old(day)), format!("{day}")).unwrap();
    }
    let others = ["audit-2026-01-01.log", "audit-x.log", "other.log"];
    for name in others {
        fs::write(home.path().join(name), "").unwrap();
    }
    let now = Timestamp::parse("2026-01-06T03:04:06Z").unwrap();
    let keep = |age_days, files, compress| Keep {
        age_days,
        files,
        compress,
    };
    tidy_up(&path, keep(0, 0, false), now).unwrap();
    assert_eq!(names(home.path()).len(), 8);
    tidy_up(&path, keep(4, 0, false), now).unwrap();
    assert!(!home.path().join(old(1)).exists() && home.path().join(old(3)).exists());
    tidy_up(&path, keep(0, 2, true), now).unwrap();
    let mut expected = others.map(str::to_owned).to_vec();
    expected.extend([4, 5].map(|day| format!("{}.gz", old(day))));
    expected.sort_unstable();
    assert_eq!(names(home.path()), expected);
    let packed = File::open(home.path().join(format!("{}.gz", old(5)))).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    assert_eq!(text, "5");
    tidy_up(&path, keep(0, 1, true), now).unwrap();
    assert_eq!(names(home.path()).len(), 4);
}
