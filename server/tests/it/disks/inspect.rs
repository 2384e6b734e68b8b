//! `stele utl inspect` from outside: its output and exit code for a directory that is in use, that
//! is intact, and that is damaged in each of its files.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at files, and damages them, as a broken disk would"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Server;

use crate::harness::subject;

const WHOLE: i32 = 0;
const NOT_INSPECTED: i32 = 1;
const DAMAGED: i32 = 2;

const PAGE_BYTES: usize = 4096;

async fn put(server: &Server, count: u32) {
    let client = Client::connect(server.url()).await.unwrap();
    for i in 0..count {
        let request = pb::PutRequest {
            key: format!("key/{i:04}").into(),
            value: vec![i as u8; 700].into(),
            ..Default::default()
        };
        client.kv().put(request).await.unwrap();
    }
}

/// Exit code and all that is said; nothing in the directory is changed.
fn inspect(data: &Path) -> (i32, String) {
    let before = files(data);
    let output = Command::new(env!("CARGO_BIN_EXE_stele"))
        .args(["utl", "inspect"])
        .arg(data)
        .output()
        .unwrap();
    assert!(files(data) == before, "an inspector changes nothing");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code().unwrap(), text)
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).into_iter().flatten();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()))
        }
    }
    found.sort();
    found
}

/// Inspects with a change made to one file, and takes the change back.
fn with_file(data: &Path, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> (i32, String) {
    let path = data.join("member").join(file);
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    change(&mut changed);
    fs::write(&path, changed).unwrap();
    let told = inspect(data);
    fs::write(&path, whole).unwrap();
    told
}

fn without_file(data: &Path, file: &str) -> (i32, String) {
    let path = data.join("member").join(file);
    let aside = data.join("aside");
    fs::rename(&path, &aside).unwrap();
    let told = inspect(data);
    fs::rename(&aside, &path).unwrap();
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_told_to_be_whole_in_use_or_damaged_and_where() {
    if subject::is_etcd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (code, text) = inspect(&data);
    assert_eq!(code, NOT_INSPECTED, "{text}");
    assert!(text.contains("is not a data directory of Stele"), "{text}");

    let mut server = subject::launch().data_dir(&data).start().unwrap();
    put(&server, 600).await;
    let (code, text) = inspect(&data);
    assert_eq!(code, NOT_INSPECTED, "{text}");
    assert!(text.contains("is in use by a server"), "{text}");
    // Stopping well checkpoints: pages are in the file.
    server.terminate();
    let (code, text) = inspect(&data);
    assert_eq!(code, WHOLE, "{text}");
    for part in [
        "keys: none, nothing is sealed\n",
        "store: format 1, revision 601, compacted never",
        "tree keys      600 entries",
        "tree revisions 600 entries",
        "log: format 1, 1 segments",
        "verified: all of it is whole\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    damaged_pages(&data);
    damaged_log(&data);
    leftovers(&data);
    remains(&data);
}

/// Every page in turn: told with its place, unless it is free.
fn damaged_pages(data: &Path) {
    let pages = fs::read(data.join("member/store/pages")).unwrap();
    let units = pages.len() / PAGE_BYTES;
    let mut places = Vec::new();
    for unit in (0..units).step_by(units.div_ceil(40)) {
        let byte = unit * PAGE_BYTES + 300;
        let (code, text) = with_file(data, "store/pages", |bytes| bytes[byte] ^= 4);
        if code == WHOLE {
            continue;
        }
        assert_eq!(code, DAMAGED, "{text}");
        assert!(text.contains("damaged: 1 places, see below\n"), "{text}");
        assert!(text.contains("store/pages is damaged at byte "), "{text}");
        // Behind a root that both metas have, nothing can be looked at.
        if !text.contains("store: cannot be opened\n") {
            places.push(unit);
        }
    }
    assert!(places.len() > 5, "only {places:?} of {units} are in use");
    // Two pages: both are told, the second one does not hide behind the first.
    let two = [places[places.len() - 1], places[places.len() - 2]];
    let (code, text) = with_file(data, "store/pages", |bytes| {
        two.iter()
            .for_each(|unit| bytes[unit * PAGE_BYTES + 300] ^= 4);
    });
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("damaged: 2 places, see below\n"), "{text}");
    assert_eq!(text.matches("checksum does not match (page ").count(), 2);

    let (code, text) = with_file(data, "store/pages", |bytes| bytes.truncate(PAGE_BYTES));
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("store: cannot be opened\n"), "{text}");
    assert!(text.contains("file ends within its meta pages"), "{text}");
    assert!(
        text.contains("log: format 1"),
        "the log is read all the same"
    );
    let (code, text) = without_file(data, "store/pages");
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("there is no page file"), "{text}");
}

fn damaged_log(data: &Path) {
    let names = fs::read_dir(data.join("member/log")).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('0'))
        .collect();
    names.sort();
    let segment = format!("log/{}", names[0]);
    // In the middle of what was synced long ago.
    let (code, text) = with_file(data, &segment, |bytes| bytes[100_000] ^= 1);
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("log: cannot be read to its end\n"), "{text}");
    let place = format!("{} is damaged at byte ", names[0]);
    assert!(text.contains(&place), "{text}");
    assert!(text.contains("store: format 1, revision 601"), "{text}");
    let (code, text) = without_file(data, "log");
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("there is no log"), "{text}");
}

/// A ring of keys that is damaged, and files that a server has no use for.
fn leftovers(data: &Path) {
    let ring = data.join("member/keys");
    fs::write(&ring, [7; 8192]).unwrap();
    let (code, text) = inspect(data);
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("member/keys is damaged at byte "), "{text}");
    fs::remove_file(&ring).unwrap();

    let left = ["store/pages.incoming", "store/incoming.db", "log/notes.txt"];
    for file in left {
        fs::write(data.join("member").join(file), b"left").unwrap();
    }
    let (code, text) = inspect(data);
    assert_eq!(code, WHOLE, "{text}");
    for file in left {
        let line = format!("member/{file}\n");
        assert!(text.contains(&line), "{text}");
    }
    assert_eq!(text.matches("of no use, not read: ").count(), 3, "{text}");
}

/// Of a member whose store and lock are lost, the log is still read.
fn remains(data: &Path) {
    let member = data.join("member");
    fs::remove_file(member.join("lock")).unwrap();
    fs::remove_dir_all(member.join("store")).unwrap();
    let (code, text) = inspect(data);
    assert_eq!(code, DAMAGED, "{text}");
    assert!(text.contains("there is no page file"), "{text}");
    assert!(text.contains("log: format 1, 1 segments"), "{text}");
}
