//! The listening sockets: unix sockets, both address families, and the limit on connections.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes reads files and the clock"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Tools;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::harness::fleet::{self, Process, ctl};
use crate::harness::subject;

const PATIENCE: Duration = Duration::from_secs(60);
/// Between two requests on one connection.
const AGAIN: Duration = Duration::from_millis(100);

/// As Kubernetes' own tests start their store.
#[test]
fn a_unix_socket_may_be_the_only_place_for_clients() {
    let Some(tools) = Tools::or_skip("etcdctl over a unix socket") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("etcd.sock");
    // Left behind by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let url = format!("unix://{}", socket.display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_stele"))
        .current_dir(dir.path())
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .args(["--listen-client-urls", &url])
        .args(["--advertise-client-urls", "http://127.0.0.111:0"])
        .args(["--listen-peer-urls", "http://127.0.0.1:0"])
        .args(["-log-level", "warn"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while ctl(&tools, &url, dir.path(), &["put", "a", "b"]).is_none() {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none());
    }
    let read = ctl(
        &tools,
        &url,
        dir.path(),
        &["get", "a", "--print-value-only"],
    );
    assert_eq!(read.as_deref(), Some("b\n"));
    let mut page = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    page.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"health\":\"true\""), "{answer}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(!socket.exists(), "the name of the socket is left behind");
}

/// Relative paths, as etcd's tests have them, for clients and for members.
#[test]
fn members_reach_each_other_over_unix_sockets() {
    let Some(tools) = Tools::or_skip("etcdctl on a cluster over unix sockets") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let member = |i: usize| {
        let mut member = Process::new(env!("CARGO_BIN_EXE_stele"), dir.path(), &format!("m{i}"));
        let peer_url = format!("unix://{}/peer{i}.sock", dir.path().display());
        member.flag(format!("--listen-peer-urls={peer_url}"));
        member.advertise(peer_url);
        member
    };
    let mut members: Vec<Process> = (0..3).map(member).collect();
    fleet::start_all(&mut members, &[]);
    for member in &members {
        let put = || ctl(&tools, &member.url, dir.path(), &["put", "a", "b"]).is_some();
        fleet::wait("a put", put, || member.log());
    }
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let port = testkit::free_port();
    let _server = subject::launch()
        .flag(format!("--listen-client-urls=http://0.0.0.0:{port}"))
        .start()
        .unwrap();
    for address in ["127.0.0.1", "::1"] {
        let mut stream = TcpStream::connect((address, port)).unwrap();
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("200 OK"), "{address}: {answer}");
    }
}

/// A client that opens all connections there are to open takes nothing from the log, from health,
/// or from those who were there before.
#[tokio::test]
async fn a_client_cannot_use_up_the_servers_descriptors() {
    const LIMIT: usize = 256;
    /// What clients get under so low a limit.
    const CLIENTS: usize = 50;
    let dir = tempfile::tempdir().unwrap();
    let mut server = Process::new(env!("CARGO_BIN_EXE_stele"), dir.path(), "m0");
    let metrics = testkit::free_port();
    server.launched_by(vec![
        "prlimit".to_owned(),
        format!("--nofile={LIMIT}:{LIMIT}"),
        "--".to_owned(),
    ]);
    server.flag(format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"));
    let mut servers = [server];
    fleet::start_all(&mut servers, &[]);
    let [server] = &mut servers;
    fleet::wait(
        "the start",
        || server.log().contains(testkit::READY_LINE),
        || server.log(),
    );
    let client = Client::connect(server.url.clone()).await.unwrap();
    put(&client, 1).await;
    let address = server.url.trim_start_matches("http://");
    let greedy: Vec<TcpStream> = (0..LIMIT)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let paused = "too many open connections";
    fleet::wait(
        "the pause",
        || server.log().contains(paused),
        || server.log(),
    );
    // Enough for several new segments of the log.
    let last_segment = || {
        let files = fs::read_dir(server.dir.join("member/log")).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| !name.contains("ing-") && !name.contains("spare-"))
            .max()
    };
    for _ in 0..3 {
        let before = last_segment();
        while last_segment() == before {
            put(&client, 1 << 20).await;
        }
    }
    let mut stream = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .unwrap()
        .count();
    assert!(open < LIMIT, "{open} are open");
    let lines = server.log().matches(paused).count();
    assert_eq!(lines, 1, "{}", server.log());
    assert!(open > CLIENTS, "only {open} are open");
    drop(greedy);
    // Others get in again.
    let other = Client::connect(server.url.clone()).await.unwrap();
    put(&other, 1).await;
}

/// A follower asks the leader about each renewal. However many clients renew leases, it opens few
/// connections to ask over, and its log gets the files that it wants.
#[tokio::test]
async fn renewals_at_a_follower_use_up_no_descriptors() {
    const LIMIT: usize = 256;
    /// Renewals at once: as many connections would be too many for both members.
    const STREAMS: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let member = |name: &str| {
        let mut member = Process::new(env!("CARGO_BIN_EXE_stele"), dir.path(), name);
        member.launched_by(vec![
            "prlimit".to_owned(),
            format!("--nofile={LIMIT}:{LIMIT}"),
            "--".to_owned(),
        ]);
        member
    };
    let mut members = ["m0", "m1", "m2"].map(member);
    fleet::start_all(&mut members, &[]);
    let logs = || members.iter().map(Process::log).collect::<String>();
    let ready = || {
        let mut members = members.iter();
        members.all(|m| m.log().contains(testkit::READY_LINE))
    };
    fleet::wait("the start", ready, logs);
    let client = Client::connect(members[0].url.clone()).await.unwrap();
    let status = client.maintenance().status(pb::StatusRequest {}).await;
    let status = status.unwrap().into_inner();
    let follower = usize::from(status.leader == status.header.unwrap().member_id);
    let client = Client::connect(members[follower].url.clone())
        .await
        .unwrap();
    let grant = pb::LeaseGrantRequest { ttl: 600, id: 7 };
    client.lease().lease_grant(grant).await.unwrap();
    let renewing = (0..STREAMS).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: 7 }; 20]);
            let mut lease = client.lease();
            let mut answers = lease.lease_keep_alive(renewals).await.unwrap().into_inner();
            while let Some(answer) = answers.message().await.unwrap() {
                assert_eq!(answer.ttl, 600);
            }
        })
    });
    let renewing: Vec<_> = renewing.collect();
    // Its log goes through several files meanwhile.
    while renewing.iter().any(|task| !task.is_finished()) {
        put(&client, 1 << 20).await;
    }
    for task in renewing {
        task.await.unwrap();
    }
    for word in ["too many open connections", "Too many open files"] {
        assert!(!logs().contains(word), "{}", logs());
    }
    for member in &members {
        let open = fs::read_dir(format!("/proc/{}/fd", member.pid())).unwrap();
        let open = open.count();
        assert!(open < LIMIT / 2, "{open} are open");
    }
}

/// A host that takes all places and keeps them busy is refused more, and loses some to other hosts.
#[tokio::test]
async fn one_host_does_not_keep_others_from_the_peer_port() {
    /// More than there are places.
    const TRIES: usize = 400;
    const OTHERS: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let mut servers = [Process::new(env!("CARGO_BIN_EXE_stele"), dir.path(), "m0")];
    fleet::start_all(&mut servers, &[]);
    let [server] = &servers;
    fleet::wait(
        "the start",
        || server.log().contains(testkit::READY_LINE),
        || server.log(),
    );
    let address = server.peer_url.trim_start_matches("http://");
    let address: SocketAddr = address.parse().unwrap();
    let connect = async |host: u8| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        socket.connect(address).await.unwrap()
    };
    let mut asking = Vec::new();
    while let Some(stream) = answered(connect(2).await).await {
        assert!(asking.len() < TRIES, "nothing is refused");
        asking.push(tokio::spawn(keep_asking(stream)));
    }
    fleet::wait(
        "the warning",
        || server.log().contains("too many open connections"),
        || server.log(),
    );
    for _ in 0..OTHERS {
        let stream = answered(connect(3).await).await;
        let stream = stream.expect("another host gets a place");
        asking.push(tokio::spawn(keep_asking(stream)));
    }
    // All places were taken when a connection was refused, so as many were lost since.
    let lost = async {
        while asking.iter().filter(|task| task.is_finished()).count() < OTHERS {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, lost).await.unwrap();
}

/// The connection, once a request on it is answered; `None` if it is closed instead.
async fn answered(mut stream: tokio::net::TcpStream) -> Option<tokio::net::TcpStream> {
    let mut answer = [0; 4096];
    let asked = async {
        let request = b"GET /raft/probing HTTP/1.1\r\nHost: a\r\n\r\n";
        stream.write_all(request).await?;
        stream.read(&mut answer).await
    };
    let read = tokio::time::timeout(PATIENCE, asked).await;
    match read.expect("it is neither answered nor closed") {
        Ok(1..) => Some(stream),
        Ok(0) | Err(_) => None,
    }
}

/// Keeps a connection from being closed because nothing is asked on it.
async fn keep_asking(mut stream: tokio::net::TcpStream) {
    while let Some(open) = answered(stream).await {
        tokio::time::sleep(AGAIN).await;
        stream = open;
    }
}

async fn put(client: &Client, bytes: usize) {
    let request = pb::PutRequest {
        key: "key".into(),
        value: vec![7; bytes].into(),
        ..Default::default()
    };
    client.kv().put(request).await.unwrap();
}

/// A shell gives programs 1,024 descriptors unless they ask for what is allowed.
#[test]
fn the_server_takes_all_the_descriptors_it_may_have() {
    const ALLOWED: usize = 700;
    let dir = tempfile::tempdir().unwrap();
    let mut server = Process::new(env!("CARGO_BIN_EXE_stele"), dir.path(), "m0");
    server.launched_by(vec![
        "prlimit".to_owned(),
        format!("--nofile=256:{ALLOWED}"),
        "--".to_owned(),
    ]);
    let mut servers = [server];
    fleet::start_all(&mut servers, &[]);
    let [server] = &mut servers;
    fleet::wait(
        "the start",
        || server.log().contains(testkit::READY_LINE),
        || server.log(),
    );
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<&str> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, [ALLOWED.to_string(), ALLOWED.to_string()]);
}
