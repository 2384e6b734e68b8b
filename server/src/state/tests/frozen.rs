//! Data directories written by earlier versions, in `server/testdata/frozen/`. Each must open, pass
//! its checks, and match the files next to it: the content in `seen.txt` and the HashKV in
//! `hashkv.txt`.
//!
//! A change of the format adds two directories (`FREEZE=NAME cargo test -p stele --lib frozen`,
//! once with a name that ends in `-sealed`, for a server with keys). The others stay unchanged:
//! from the first release on, every version must open the directories of all earlier versions.
#![expect(
    clippy::disallowed_methods,
    reason = "a test reads and writes the samples it keeps"
)]

use std::fs;
use std::path::{Path, PathBuf};

use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use super::power::{KEYS, LOG, STORE, apply, entry, give_keys, open, seen, work};
use crate::state::State;
use crate::state::hashes::Hashes;

/// Ends while a lease is alive, with entries after the newest checkpoint and two log segments.
const ENTRIES: u64 = 55;
/// How far a sample is carried on.
const ENTRIES_AFTER: u64 = 160;
/// Of the formats that are written today.
const LOG_VERSION: u32 = 2;
const PAGES_VERSION: u32 = 3;

#[test]
fn frozen_data_directories_open_and_hold_what_they_held() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/frozen");
    if let Some(name) = std::env::var_os("FREEZE") {
        freeze(&samples.join(name));
    }
    let mut found = 0;
    for sample in fs::read_dir(&samples).unwrap() {
        let sample = sample.unwrap().path();
        let written = fs::read_to_string(sample.join("seen.txt")).unwrap();
        let vfs = installed(&sample);
        let what = sample.display();
        let machine = open(&vfs).unwrap_or_else(|error| panic!("{what}: {error}"));
        let checked = machine.state.store.check();
        checked.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            seen(&machine.state) == written,
            "{what} holds something else"
        );
        let hash = fs::read_to_string(sample.join("hashkv.txt")).unwrap();
        assert_eq!(hash_kv(&machine.state), hash, "{what}");
        found += 1;
    }
    assert!(found > 0, "no samples in {}", samples.display());
}

/// A directory of an earlier version is written on in today's formats, and loses nothing by it.
#[test]
fn frozen_data_directories_go_on_in_the_newest_formats() {
    let mut reference = open(&SimVfs::new(1)).unwrap();
    for index in 1..=ENTRIES_AFTER {
        apply(&mut reference.state, &entry(index));
    }
    let expected = seen(&reference.state);
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/frozen");
    for sample in fs::read_dir(samples).unwrap() {
        let sample = sample.unwrap().path();
        let what = sample.display();
        let vfs = installed(&sample);
        work(&vfs, ENTRIES_AFTER, &mut 0).unwrap_or_else(|error| panic!("{what}: {error}"));
        let vfs = vfs.process_killed();
        let machine = open(&vfs).unwrap_or_else(|error| panic!("{what}: {error}"));
        let checked = machine.state.store.check();
        checked.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(machine.last, ENTRIES_AFTER, "{what}");
        assert!(seen(&machine.state) == expected, "{what} lost something");
        let segments = vfs.list(Path::new(LOG)).unwrap();
        let newest = segments.iter().filter(|name| name.starts_with("0")).max();
        let newest = vfs.contents(&Path::new(LOG).join(newest.unwrap())).unwrap();
        assert_eq!(newest[8..12], LOG_VERSION.to_le_bytes(), "{what}");
        let pages = vfs.contents(&Path::new(STORE).join("pages")).unwrap();
        for meta in pages.chunks(4096).take(2) {
            assert_eq!(meta[12..16], PAGES_VERSION.to_le_bytes(), "{what}");
        }
    }
}

/// A file system that holds the sample.
fn installed(sample: &Path) -> SimVfs {
    let vfs = SimVfs::new(1);
    for dir in [LOG, STORE] {
        vfs.create_dir_all(Path::new(dir)).unwrap();
        for file in fs::read_dir(kept(sample, dir)).unwrap() {
            let file = file.unwrap();
            let bytes = fs::read(file.path()).unwrap();
            vfs.install(&Path::new(dir).join(file.file_name()), &bytes);
        }
    }
    if let Ok(ring) = fs::read(sample.join("keys")) {
        vfs.install(Path::new(KEYS), &ring);
    }
    vfs
}

fn freeze(sample: &Path) {
    assert!(!sample.exists(), "samples are never written again");
    let vfs = SimVfs::new(1);
    let is_sealed = sample.to_string_lossy().ends_with("-sealed");
    if is_sealed {
        vfs.create_dir_all(Path::new("/member")).unwrap();
        give_keys(&vfs).unwrap();
    }
    work(&vfs, ENTRIES, &mut 0).unwrap();
    let killed = vfs.process_killed();
    for dir in [LOG, STORE] {
        let to = kept(sample, dir);
        fs::create_dir_all(&to).unwrap();
        for name in killed.list(Path::new(dir)).unwrap() {
            let bytes = killed.contents(&Path::new(dir).join(&name)).unwrap();
            fs::write(to.join(name), bytes).unwrap();
        }
    }
    if is_sealed {
        let ring = killed.contents(Path::new(KEYS)).unwrap();
        fs::write(sample.join("keys"), ring).unwrap();
    }
    let machine = open(&killed).unwrap();
    assert_eq!(machine.last, ENTRIES);
    fs::write(sample.join("seen.txt"), seen(&machine.state)).unwrap();
    fs::write(sample.join("hashkv.txt"), hash_kv(&machine.state)).unwrap();
}

/// As etcd's `HashKV` answers for the newest revision.
fn hash_kv(state: &State) -> String {
    let root = state.store.root();
    let revision = root.revision();
    let hash = Hashes::default().at(root, revision).unwrap();
    format!("revision {revision}: {}\n", hash.hash)
}

/// The place of a server directory inside the sample.
fn kept(sample: &Path, dir: &str) -> PathBuf {
    sample.join(dir.trim_start_matches("/member/"))
}
