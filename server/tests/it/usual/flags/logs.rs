//! Flags that change what is logged, its format and its outputs.

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Server;

use super::{Probe, refused};
use crate::harness::subject;

pub(super) const PROBES: &[Probe] = &[
    (&["log-format"], format),
    (&["log-level"], level),
    (&["logger"], logger),
    (&["log-outputs"], outputs),
    (
        &["enable-log-rotation", "log-rotation-config-json"],
        rotation,
    ),
    (
        &["warning-unary-request-duration", "warning-apply-duration"],
        slow,
    ),
];

const SOON: Duration = Duration::from_secs(20);

fn start(flags: &[&str]) -> Server {
    let launch = subject::launch().flags(flags);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Writes so many keys of so many bytes.
pub(super) fn write(server: &Server, count: usize, key_bytes: usize) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(async {
        let client = Client::connect(server.url()).await.unwrap();
        for _ in 0..count {
            let put = pb::PutRequest {
                key: vec![b'k'; key_bytes].into(),
                value: "secret".into(),
                ..Default::default()
            };
            client.kv().put(put).await.unwrap();
        }
    });
}

fn format() {
    let json = start(&[]).log();
    let console = start(&["--log-format=console"]).log();
    assert!(json.lines().all(|line| line.starts_with('{')), "{json}");
    assert!(
        console.lines().any(|line| line.contains("\tinfo\t")),
        "{console}"
    );
}

fn level() {
    let server = start(&["--log-level=debug"]);
    write(&server, 1, 1);
    assert!(server.wait_for_log("\"level\":\"debug\"", SOON));
    let log = server.log();
    assert!(!log.contains("secret"), "no level shows what clients store");
    for line in log.lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "{line}");
    }
}

fn logger() {
    let (code, text) = refused(&["--logger=capnslog"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("--logger=capnslog is removed in v3.5"),
        "{text}"
    );
    assert!(text.contains("failed to verify flags") && text.contains("\"level\":\"warn\""));
}

fn outputs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let mut server = start(&[&format!("--log-outputs=stderr,{}", path.display())]);
    let stderr = server.log();
    server.terminate();
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(file.starts_with(&stderr), "both get every line");
    let nowhere = format!("--log-outputs={}/none/x", dir.path().display());
    let (code, text) = refused(&[&nowhere]);
    assert_eq!(code, Some(1));
    assert!(text.contains("no such file or directory"), "{text}");
}

fn rotation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etcd.log");
    let server = start(&[
        &format!("--log-outputs=stderr,{}", path.display()),
        "--enable-log-rotation",
        "--log-rotation-config-json={\"maxsize\": 1}",
        "--warning-unary-request-duration=1ns",
        "--warning-apply-duration=1h",
    ]);
    // A line names the key: more than a megabyte of lines.
    write(&server, 40, 40_000);
    let mut left = 200;
    while std::fs::read_dir(dir.path()).unwrap().count() < 2 {
        left -= 1;
        assert!(left > 0, "the file was not rotated");
        write(&server, 1, 40_000);
    }
    assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
}

fn slow() {
    let quiet = start(&[
        "--warning-unary-request-duration=1h",
        "--warning-apply-duration=1h",
    ]);
    write(&quiet, 1, 3);
    let server = start(&[
        "--warning-unary-request-duration=1ns",
        "--warning-apply-duration=1ns",
    ]);
    write(&server, 1, 3);
    let put = r#""response type":"/etcdserverpb.KV/Put","request count":1,"request size":13,"response count":0,"#;
    assert!(server.wait_for_log(put, SOON), "{}", server.log());
    let log = server.log();
    let line = log.lines().find(|line| line.contains(put)).unwrap();
    assert!(line.contains("\"msg\":\"request stats\""), "{line}");
    assert!(line.contains("\"remote\":\"127.0.0.1:"), "{line}");
    assert!(
        line.contains(r#""request content":"key:\"kkk\" value_size:6""#),
        "{line}"
    );
    assert!(server.wait_for_log(r#"put:<key:\"kkk\" value_size:6>"#, SOON));
    assert!(log.contains("apply request took too long"));
    let log = quiet.log();
    assert!(!log.contains("request stats") && !log.contains("took too long"));
}

#[test]
fn flags_without_effect_are_named_at_the_start() {
    if subject::is_etcd() {
        return;
    }
    let named = "these flags are taken and have no effect in Stele";
    let log = start(&["--max-wals=7", "--downgrade-check-time=1s"]).log();
    let line = log.lines().find(|line| line.contains(named));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("max-wals") && line.contains("downgrade-check-time"),
        "{line}"
    );
    let log = start(&[]).log();
    assert!(!log.contains(named), "{log}");
}
