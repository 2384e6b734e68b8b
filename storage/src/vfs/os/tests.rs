use std::os::unix::fs::PermissionsExt;

use super::*;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn written_bytes_come_back_by_read_and_by_a_map_taken_before_the_file_grew() {
    let dir = dir();
    let file = OsVfs.open(&dir.path().join("a"), Open::New).unwrap();
    let map = file.map(1 << 20).unwrap();
    assert_eq!(
        map.read(0, 1).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    file.write_at(b"hello", 4096).unwrap();
    assert_eq!(file.len().unwrap(), 4101);
    assert_eq!(&*map.read(4096, 5).unwrap(), b"hello");
    assert!(map.read(4097, 5).is_err());
    let mut buf = [1; 5];
    file.read_at(&mut buf, 4096).unwrap();
    assert_eq!(&buf, b"hello");
    assert_eq!(
        file.read_at(&mut buf, 4097).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
}

#[test]
fn growing_reads_as_zeros_and_shrinking_is_seen_by_maps() {
    let dir = dir();
    let file = OsVfs.open(&dir.path().join("a"), Open::New).unwrap();
    file.set_len(10_000).unwrap();
    let map = file.map(20_000).unwrap();
    assert!(map.read(0, 10_000).unwrap().iter().all(|b| *b == 0));
    file.set_len(100).unwrap();
    assert!(map.read(0, 100).is_ok());
    assert!(map.read(0, 101).is_err());
    file.sync_data().unwrap();
}

#[test]
fn what_is_reserved_does_not_count_as_length_and_is_never_cut_off() {
    let dir = dir();
    let file = OsVfs.open(&dir.path().join("a"), Open::New).unwrap();
    file.reserve(0, 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    file.write_at(b"hello", 0).unwrap();
    file.reserve(0, 2).unwrap();
    assert_eq!(file.len().unwrap(), 5);
    let space = OsVfs.space(dir.path()).unwrap();
    assert!(space.total > space.available, "{space:?}");
}

#[test]
fn a_reservation_that_a_signal_interrupts_is_made_again() {
    let mut answers = [Err(Errno::INTR), Err(Errno::INTR), Ok(())].into_iter();
    assert!(reserved_by(|| answers.next().unwrap()).unwrap());
    assert!(!reserved_by(|| Err(Errno::OPNOTSUPP)).unwrap());
    let full = reserved_by(|| Err(Errno::NOSPC)).unwrap_err();
    assert!(crate::vfs::is_full(&full));
}

#[test]
fn a_directory_is_durable_even_if_a_killed_process_created_it() {
    let dir = dir();
    let (outer, inner) = (dir.path().join("x"), dir.path().join("x/y"));
    let mut synced = Vec::new();
    let mut sync = |dir: &Path| {
        synced.push(dir.to_owned());
        Ok(())
    };
    create_dir_all(&inner, &mut sync).unwrap();
    // Killed before it could sync, the process is started again.
    create_dir_all(&inner, &mut sync).unwrap();
    let above = dir.path().parent().unwrap();
    assert_eq!(synced, [above, dir.path(), &outer, &outer]);

    let mut fail = |_: &Path| Err(io::Error::from_raw_os_error(libc::EIO));
    assert!(create_dir_all(&inner, &mut fail).is_err());
    // A mount point in a directory that another user owns.
    let mut refuse = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
    create_dir_all(&inner, &mut refuse).unwrap();
    assert!(create_dir_all(&inner.join("z"), &mut refuse).is_err());
}

#[test]
fn files_and_directories_are_the_owners_alone() {
    let dir = dir();
    let inner = dir.path().join("x/y");
    OsVfs.create_dir_all(&inner).unwrap();
    OsVfs.create_dir_all(&inner).unwrap();
    OsVfs.open(&inner.join("f"), Open::New).unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    assert_eq!(mode(&inner.join("f")), 0o600);
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name);
    OsVfs.open(&at("b"), Open::New).unwrap();
    OsVfs.open(&at("a"), Open::New).unwrap();
    OsVfs.create_dir_all(&at("d")).unwrap();
    assert_eq!(OsVfs.list(dir.path()).unwrap(), ["a", "b"]);
    assert!(OsVfs.open(&at("a"), Open::New).is_err());
    OsVfs.rename(&at("a"), &at("c")).unwrap();
    assert!(!OsVfs.exists(&at("a")).unwrap());
    OsVfs.remove(&at("b")).unwrap();
    OsVfs.sync_dir(dir.path()).unwrap();
    assert_eq!(OsVfs.list(dir.path()).unwrap(), ["c"]);
    let missing = OsVfs.open(&at("b"), Open::Existing).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_lock_has_one_holder_until_it_is_dropped() {
    let dir = dir();
    let path = dir.path().join("lock");
    let held = OsVfs.lock(&path).unwrap();
    let refused = OsVfs.lock(&path).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    OsVfs.lock(&path).unwrap();
}

/// Set for the process that must end.
const BUS_ERROR: &str = "STELE_TEST_BUS_ERROR";

#[test]
fn a_bus_error_under_a_map_ends_the_process_with_path_and_offset() {
    if let Some(how) = std::env::var_os(BUS_ERROR) {
        return read_what_is_gone(Path::new(&how));
    }
    let dir = dir();
    // As the system names it.
    let path = dir.path().canonicalize().unwrap();
    let (own, foreign) = (path.join("own"), path.join("foreign"));
    for path in [&own, &foreign] {
        let name = "vfs::os::tests::a_bus_error_under_a_map_ends_the_process_with_path_and_offset";
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(BUS_ERROR, path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert_eq!(signal, Some(libc::SIGBUS), "{said}");
        let expected = format!("memory map of {} at byte 8192:", own.display());
        assert_eq!(said.contains(&expected), *path == own, "{said}");
    }
}

/// Bytes that another process cut off a file are as unreadable as a bad sector.
fn read_what_is_gone(path: &Path) {
    // As a store that was received, and then installed.
    let before = path.with_extension("incoming");
    let file = OsVfs.open(&before, Open::New).unwrap();
    file.set_len(16 << 10).unwrap();
    let map = file.map(1 << 20).unwrap();
    OsVfs.rename(&before, path).unwrap();
    let bytes = map.read(8192, 4096).unwrap();
    let handle = rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap();
    // A map that is not registered with the handler.
    // SAFETY: its bytes are read once, which ends the process.
    let foreign = unsafe { Mmap::map(&handle) }.unwrap();
    rustix::fs::ftruncate(&handle, 0).unwrap();
    let seen = if path.ends_with("own") {
        bytes[50]
    } else {
        foreign[50]
    };
    panic!("{seen} was read from nowhere");
}
