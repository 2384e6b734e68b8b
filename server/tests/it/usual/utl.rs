//! `stele utl` as scripts call it: what a restore says, `migrate`, and scripts for shells.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes looks at their files"
)]

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Launch;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
/// The options of `migrate` that have to be given.
const DIR: &str = "--data-dir";
const TARGET: &str = "--target-version";

fn utl(arguments: &[&str]) -> Command {
    let mut command = Command::new(STELE);
    command.arg("utl").args(arguments);
    command
}

/// Runs it, and returns whether it succeeded and all that it said.
fn run(mut command: Command) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = [stdout, stderr].concat();
    (
        status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Saves a snapshot of a server with one key.
async fn save(file: &Path) {
    let server = Launch::program(STELE).start();
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    let put = pb::PutRequest {
        key: "a".into(),
        value: "b".into(),
        ..Default::default()
    };
    client.kv().put(put).await.unwrap();
    let request = pb::SnapshotRequest::default();
    let mut pieces = client.maintenance().snapshot(request).await;
    let pieces = pieces.as_mut().unwrap().get_mut();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        bytes.extend_from_slice(&piece.blob);
    }
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn a_restore_tells_of_each_member_and_what_it_leaves_needs_no_migration() {
    let place = tempfile::tempdir().unwrap();
    let (file, dir) = (place.path().join("saved"), place.path().join("restored"));
    save(&file).await;
    let (one, two) = ("http://127.0.0.1:23801", "http://127.0.0.1:23802");
    let mut restore = utl(&["snapshot", "restore", "--name=one"]);
    restore.arg(&file).arg(DIR).arg(&dir);
    restore.arg(format!("--initial-cluster=one={one},two={two}"));
    restore.arg(format!("--initial-advertise-peer-urls={one}"));
    let (restored, said) = run(restore);
    assert!(restored, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let told = |line: &str, what: &str| line.contains(&format!("\t{what}\t{{"));
    assert!(told(lines[0], "restoring snapshot"), "{said}");
    assert!(told(lines[lines.len() - 1], "restored snapshot"), "{said}");
    let added = lines.iter().filter(|line| told(line, "added member"));
    let urls = added.map(|line| {
        let fields = line.rsplit('\t').next().unwrap();
        let fields: serde_json::Value = serde_json::from_str(fields).unwrap();
        fields["added-peer-peer-urls"][0]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let mut urls: Vec<String> = urls.collect();
    urls.sort();
    assert_eq!(urls, [one, two], "{said}");

    let dir = dir.to_str().unwrap();
    for (arguments, succeeds, text) in [
        (vec![DIR, dir, TARGET, "3.6"], true, "nothing to migrate"),
        (vec![DIR, dir, TARGET, "3.9"], false, "is not supported"),
        (vec![DIR, dir, TARGET, "3.4"], false, "Minimal \"3.5\""),
        (vec![DIR, dir, TARGET, "3"], false, "expected \"X.Y\""),
        (vec![DIR, dir], false, "\"target-version\" not set"),
        (
            vec![DIR, "/nowhere", TARGET, "3.6"],
            false,
            "no such file or directory",
        ),
    ] {
        let mut migrate = utl(&["migrate"]);
        migrate.args(&arguments);
        let (migrated, said) = run(migrate);
        assert_eq!(migrated, succeeds, "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

#[test]
fn there_is_a_script_for_each_shell_that_etcdutl_knows() {
    for shell in ["bash", "fish", "powershell", "zsh"] {
        let (made, script) = run(utl(&["completion", shell]));
        assert!(made, "{script}");
        for word in ["stele", "snapshot", "migrate"] {
            assert!(script.contains(word), "{shell}: {script}");
        }
    }
    let (made, said) = run(utl(&["completion", "elvish"]));
    assert!(
        !made && said.contains("invalid argument \"elvish\""),
        "{said}"
    );
}

#[test]
fn a_script_that_nobody_reads_to_the_end_is_no_crash() {
    // Closed before the start: a short script fits into a pipe.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = utl(&["completion", "bash"]);
    let command = command.stdout(writer).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(!said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_restore_puts_the_log_where_it_is_told_and_a_server_takes_it_from_there() {
    let place = tempfile::tempdir().unwrap();
    let [file, dir, log] = ["saved", "restored", "log"].map(|name| place.path().join(name));
    save(&file).await;
    let log_at = format!("--wal-dir={}", log.display());
    let mut restore = utl(&["snapshot", "restore", &log_at]);
    restore.arg(&file).arg(DIR).arg(&dir);
    let (restored, said) = run(restore);
    assert!(restored, "{said}");
    assert!(std::fs::read_dir(&log).unwrap().count() > 0, "{said}");
    assert!(!dir.join("member/log").exists(), "{said}");
    let server = Launch::program(STELE).data_dir(&dir).flag(log_at).start();
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    let request = pb::RangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    let found = client.kv().range(request).await.unwrap().into_inner();
    assert_eq!(found.kvs[0].value, "b");
}
