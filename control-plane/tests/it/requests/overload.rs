//! A client that requests too much is refused, and no other client is.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{Config, Limits, Server};
use serde_json::json;
use testkit::Launch;
use tokio::net::TcpListener;

use crate::harness::cluster::{BINARY, WITHIN};
use crate::requests::http::Call;
use crate::users::security::Guarded;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// More requests than the server works on or lets wait for one user.
const MANY: usize = 800;
/// Upper bound of the connections to a small server.
const FEW: usize = 8;

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

/// An apiserver in this process that takes few connections.
struct Small {
    _store: testkit::Server,
    _server: Arc<Server>,
    address: String,
}

impl Small {
    async fn start() -> Small {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let client = etcd_api::Client::connect(store.url()).await.unwrap();
        let limits = Limits {
            connections: FEW,
            ..Limits::default()
        };
        let config = Config {
            limits,
            ..Config::default()
        };
        let server = Arc::new(Server::new(client, config));
        server.ready().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = Arc::clone(&server);
        tokio::spawn(async move { serving.serve(listener).await });
        Small {
            _store: store,
            _server: server,
            address,
        }
    }

    /// Takes all places with requests that do not end; each has begun when this returns.
    fn fill(&self, head: &str, body: &str, begins: &str) -> Vec<TcpStream> {
        let begun = (0..FEW).map(|_| {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            stream.set_read_timeout(Some(WITHIN)).unwrap();
            write!(stream, "{head}\r\nHost: localhost\r\n\r\n{body}").unwrap();
            let mut told = vec![0; begins.len()];
            stream.read_exact(&mut told).unwrap();
            assert_eq!(String::from_utf8_lossy(&told), begins);
            stream
        });
        begun.collect()
    }

    fn probe(&self) {
        for path in ["/livez", "/readyz", "/healthz"] {
            let answer = Call::new(&self.address, "GET", path).send();
            assert_eq!(answer.code, 200, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_gets_the_place_of_the_oldest_watch() {
    let small = Small::start().await;
    let head = format!("GET {MAPS}?watch=1 HTTP/1.1");
    let mut watches = small.fill(&head, "", "HTTP/1.1 200 OK\r\n");
    small.probe();
    let mut rest = Vec::new();
    // A reset ends the connection, too.
    let _ = watches[0].read_to_end(&mut rest);
    for one in &mut watches[1..] {
        one.set_nonblocking(true).unwrap();
        let mut rest = [0; 4096];
        let open = loop {
            match one.read(&mut rest) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        assert!(open, "one place was needed at a time");
    }
    let metrics = Call::new(&small.address, "GET", "/metrics").send();
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let counted = "stele_apiserver_ended_connections_total{doing=\"watches\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_gets_the_place_of_a_slow_body() {
    let small = Small::start().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let head = format!(
        "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\
         Expect: 100-continue"
    );
    let slow = small.fill(&head, "{", "HTTP/1.1 100 Continue\r\n");
    small.probe();
    drop(slow);
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
