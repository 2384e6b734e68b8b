//! Encryption at rest from outside: keys in a file, a server that is killed, keys that change while
//! it runs, and a search for plain text in all files of the data directory.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at files as anybody could who has the disk"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Server;

use crate::harness::subject;

const WITHIN: Duration = Duration::from_secs(60);
const DONE: &str = "re-sealed everything";
const SECRET: &str = "very-secret";

fn key(id: u32) -> String {
    format!("{id} {}\n", format!("{:02x}", id + 160).repeat(32))
}

async fn put(server: &Server, count: usize) {
    let client = Client::connect(server.url()).await.unwrap();
    for i in 0..count {
        let request = pb::PutRequest {
            key: format!("{SECRET}/key/{i:04}").into(),
            value: format!("{SECRET} value {i} ").repeat(20).into(),
            ..Default::default()
        };
        client.kv().put(request).await.unwrap();
    }
}

async fn count(server: &Server) -> i64 {
    let client = Client::connect(server.url()).await.unwrap();
    let request = pb::RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..Default::default()
    };
    let answer = client.kv().range(request).await.unwrap().into_inner();
    let values = answer.kvs.iter().filter(|kv| {
        let value = String::from_utf8_lossy(&kv.value);
        value.starts_with(SECRET)
    });
    assert_eq!(values.count() as i64, answer.count);
    answer.count
}

fn utl(args: &[&str], data: &Path, keys: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stele"))
        .arg("utl")
        .args(args)
        .arg(data)
        .arg(format!("--encryption-key-file={}", keys.display()))
        .output()
        .unwrap()
}

/// Exit code and all that is said.
fn inspect(data: &Path, keys: &Path) -> (Option<i32>, String) {
    let output = utl(&["inspect"], data, keys);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// What `etcdctl snapshot save` writes.
async fn save(server: &Server, path: &Path) {
    let client = Client::connect(server.url()).await.unwrap();
    let request = pb::SnapshotRequest::default();
    let mut stream = client.maintenance().snapshot(request).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.get_mut().message().await.unwrap() {
        bytes.extend_from_slice(&piece.blob);
    }
    fs::write(path, bytes).unwrap();
}

/// Files below `dir` that hold the secret.
fn leaks(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        // A file of the log may be dropped in the meantime.
        let bytes = fs::read(&path).unwrap_or_default();
        let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes());
        if holds(&bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_turned_on_rotated_and_refused_and_no_file_tells_a_secret() {
    if subject::is_etcd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, keys) = (dir.path().join("data"), dir.path().join("keys"));
    let with_keys = || {
        let flag = format!("--encryption-key-file={}", keys.display());
        subject::launch().data_dir(&data).flag(flag)
    };

    // Clear first.
    let mut server = subject::launch().data_dir(&data).start().unwrap();
    put(&server, 200).await;
    server.kill();
    assert!(!leaks(&data).is_empty());

    // Turned on for what is there.
    fs::write(&keys, key(1)).unwrap();
    let mut server = with_keys().start().unwrap();
    assert!(server.wait_for_log(DONE, WITHIN), "{}", server.log());
    assert_eq!(leaks(&data), Vec::<String>::new());
    put(&server, 300).await;
    assert_eq!(count(&server).await, 300);
    server.kill();
    assert_eq!(leaks(&data), Vec::<String>::new());

    // Rotated while it runs, and killed in the middle of that or not.
    let mut server = with_keys().start().unwrap();
    fs::write(&keys, key(2) + &key(1)).unwrap();
    assert!(server.wait_for_log("for new data has changed", WITHIN));
    put(&server, 10).await;
    server.kill();
    let was_done = server.log().contains(DONE);
    let mut server = with_keys().start().unwrap();
    assert_eq!(count(&server).await, 300);
    assert!(
        was_done || server.wait_for_log(DONE, WITHIN),
        "{}",
        server.log()
    );
    assert_eq!(leaks(&data), Vec::<String>::new());
    server.kill();
    let (code, text) = inspect(&data, &keys);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("new data under key 2; older data perhaps under no key"),
        "{text}"
    );
    assert!(text.contains("verified: all of it is whole"), "{text}");
    let pages = data.join("member/store/pages");
    let whole = fs::read(&pages).unwrap();
    let mut rotten = whole.clone();
    rotten[100] ^= 1;
    rotten[4196] ^= 1;
    fs::write(&pages, &rotten).unwrap();
    let (code, text) = inspect(&data, &keys);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("pages is damaged at byte 0"), "{text}");
    fs::write(&pages, &whole).unwrap();

    // Key 1 is superfluous, key 2 is not.
    let before = fs::read(data.join("member/keys")).unwrap();
    for (text, says) in [
        (key(1), "data is sealed under key 2, which"),
        (key(3), "data is sealed under key 2, which"),
        (
            key(2).replace('a', "b"),
            "data is sealed under another key 2 than that of",
        ),
        ("2 abc".to_owned(), "line 1: a key is 32 bytes"),
    ] {
        fs::write(&keys, &text).unwrap();
        let error = with_keys().start().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let error = subject::launch().data_dir(&data).start().map(|_| ());
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("sealed under key 2, and no keys are given"),
        "{error}"
    );
    assert_eq!(fs::read(data.join("member/keys")).unwrap(), before);
    fs::write(&keys, key(2)).unwrap();
    let server = with_keys().start().unwrap();
    assert_eq!(count(&server).await, 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_restored_with_keys_is_sealed_before_any_server_runs_on_it() {
    if subject::is_etcd() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [snapshot, data, keys] = ["snapshot", "restored", "keys"].map(|name| dir.path().join(name));
    let source = subject::launch().start().unwrap();
    put(&source, 200).await;
    save(&source, &snapshot).await;
    drop(source);

    fs::write(&keys, "1 abc").unwrap();
    let file = snapshot.display().to_string();
    let restore = ["snapshot", "restore", &file, "--data-dir"];
    let refused = utl(&restore, &data, &keys);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!data.exists(), "refused before anything is made");

    fs::write(&keys, key(1)).unwrap();
    let restored = utl(&restore, &data, &keys);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(leaks(&data), Vec::<String>::new());
    let (code, text) = inspect(&data, &keys);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("new data under key 1; older data perhaps under no key\n"),
        "{text}"
    );
    let error = subject::launch().data_dir(&data).start().map(|_| ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no keys are given"), "{error}");
    let flag = format!("--encryption-key-file={}", keys.display());
    let server = subject::launch().data_dir(&data).flag(flag);
    assert_eq!(count(&server.start().unwrap()).await, 200);
    assert_eq!(leaks(&data), Vec::<String>::new());
}
