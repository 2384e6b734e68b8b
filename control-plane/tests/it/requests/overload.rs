//! A client that requests too much is refused, and no other client is.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::cluster::{BINARY, WITHIN};
use crate::requests::http::Call;
use crate::users::security::Guarded;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// More requests than the server works on or lets wait for one user.
const MANY: usize = 800;

/// Sends the head of a request from user jane, and the given part of its body.
pub(crate) fn begin(cluster: &Guarded, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&cluster.address).unwrap();
    let head = format!("{head} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer jane-token\r\n");
    let length = "Content-Type: application/json\r\nContent-Length: 1000\r\n";
    let length = if body.is_empty() { "" } else { length };
    write!(stream, "{head}{length}\r\n{body}").unwrap();
    stream
}

fn may_write(flags: &[&str]) -> Guarded {
    let cluster = Guarded::start_with(flags);
    let rule = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    cluster.allow("everything", rule);
    cluster
}

#[test]
fn slow_bodies_keep_nobody_from_writing() {
    let cluster = may_write(&[]);
    let slow: Vec<_> = (0..MANY)
        .map(|_| begin(&cluster, &format!("POST {MAPS}"), "{"))
        .collect();
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        cluster.jane("POST", LEASES, &lease(name)).expect(201);
    }
    drop(slow);
}

#[test]
fn waiting_reads_keep_nobody_from_asking_for_health() {
    // With few seats, a slow client cannot send so slowly that every read is served.
    let few = [
        "--max-requests-inflight=10",
        "--max-mutating-requests-inflight=10",
    ];
    let cluster = may_write(&few);
    let future = format!("GET {MAPS}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan");
    let mut waiting: Vec<_> = (0..MANY).map(|_| begin(&cluster, &future, "")).collect();
    for path in ["/livez", "/readyz", "/healthz"] {
        let answer = Call::new(&cluster.address, "GET", path).send();
        assert_eq!(answer.code, 200, "{path}");
        let masters = cluster.ask("root", "GET", MAPS, None);
        assert_eq!(masters.code, 200, "{path}");
    }
    // There are more than may wait, so some of them are refused.
    let mut refused = 0;
    for stream in &mut waiting {
        let mut told = [0; 12];
        stream.read_exact(&mut told).unwrap();
        refused += usize::from(&told == b"HTTP/1.1 429");
    }
    assert!(refused > 0);
}

/// What runs many connections needs as many descriptors as it may have.
#[test]
fn what_serves_raises_the_limit_on_open_files() {
    let home = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", home.path().join("data").display());
    let nobody = "--etcd-servers=http://127.0.0.1:1";
    let urls = [
        "--listen-client-urls=http://127.0.0.1:0",
        "--advertise-client-urls=http://127.0.0.1:0",
        "--listen-peer-urls=http://127.0.0.1:0",
    ];
    for arguments in [
        &[
            "apiserver",
            "--plain-http",
            "--secure-port=0",
            "--bind-address=127.0.0.1",
            nobody,
        ][..],
        &[&["store", &data][..], &urls].concat(),
    ] {
        // The shell becomes the program.
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -Sn 200 && exec \"$0\" \"$@\"", BINARY])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let path = format!("/proc/{}/limits", child.id());
        let begun = Instant::now();
        loop {
            let limits = std::fs::read_to_string(&path).unwrap_or_default();
            let files = limits
                .lines()
                .find(|line| line.starts_with("Max open files"));
            let mut words = files.unwrap_or_default().split_whitespace().skip(3);
            let (soft, hard) = (words.next(), words.next());
            if soft.is_some() && soft == hard {
                break;
            }
            assert!(begun.elapsed() < WITHIN, "{arguments:?}: {limits}");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
