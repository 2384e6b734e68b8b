//! Attacks on the peer port: messages that are forged, malformed, repeated, from another cluster,
//! too large, or of impossible terms. Each must be refused and logged once, must leave nothing in
//! any Raft log, and the cluster must keep serving and restart normally.
#![expect(
    clippy::disallowed_methods,
    reason = "a test plays a member and reads the others' logs"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb as pb;
use prost::Message as _;
use raft::{Body, ConfChange, ConfChangeKind, Entry, EntryKind, Message, Position, Snapshot};
use serde_json::Value;

use crate::clusters::cluster::{ask, hash, holds, put};
use crate::harness::fleet::{Process, found, wait};

/// Stands in everything that is sent here, and must not be found in any file.
const MARKED: &str = "only-strangers-write-this";
const MARK: &[u8] = MARKED.as_bytes();
const REFUSED: &str = "refused a message from a peer";
const PATIENCE: Duration = Duration::from_secs(20);
const APPLIED_WITHIN: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);
/// Far more than any entry has.
const OVERSIZE: u64 = 1 << 40;

/// A stopped member of three whose part the test plays, beside two that run.
struct Stage {
    members: Vec<Process>,
    cluster: String,
    /// Of the members, as they stand in `members`.
    ids: Vec<u64>,
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let members = found(env!("CARGO_BIN_EXE_stele"), dir.path(), 3, &[]);
        for member in &members {
            put(&member.url, &format!("before/{}", member.name)).await;
        }
        let (head, body) = say(&members[0].peer_url, &get("/members"));
        let cluster = header(&head, "X-Etcd-Cluster-ID");
        let known: Value = serde_json::from_str(&body).unwrap();
        let id = |member: &Process| {
            let known = known.as_array().unwrap().iter();
            let mut own = known.filter(|known| known["name"] == member.name.as_str());
            own.next().unwrap()["id"].as_u64().unwrap()
        };
        let ids = members.iter().map(id).collect();
        Stage {
            ids,
            members,
            cluster,
            _dir: dir,
        }
    }

    /// One member's request to another, with all the headers that members send.
    fn post(&self, from: u64, to: usize, path: &str, body: &[u8]) -> String {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Server-From: {from:x}\r\n\
             X-Server-Version: 3.7.0\r\nX-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.cluster,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let (head, _) = say(&self.members[to].peer_url, &request);
        status(&head).to_owned()
    }

    fn send(&self, message: &Message, to: usize) -> String {
        let mut bytes = Vec::new();
        raft::wire::encode_message(message, &mut bytes);
        self.post(message.from, to, "/raft", &bytes)
    }

    /// A message of the third member to the one at `to`.
    fn forged(&self, to: usize, term: u64, body: Body) -> Message {
        Message {
            from: self.ids[2],
            to: self.ids[to],
            term,
            body,
        }
    }

    /// The members that run serve, start again, agree, and have nothing foreign on their disks.
    async fn all_is_well(mut self) {
        for at in [0, 1] {
            assert!(self.members[at].is_alive(), "{}", self.members[at].log());
            put(&self.members[at].url, &format!("after/{at}")).await;
        }
        for at in [0, 1] {
            let log = self.members[at].log();
            assert!(!log.contains("panicked"), "{log}");
            // One line for each thing that was refused, not one for each time.
            let refusals = log.matches(REFUSED).count();
            assert!(refusals < 40, "{refusals} refusals told:\n{log}");
            self.members[at].kill();
            self.members[at].start();
        }
        if !self.members[2].is_alive() {
            self.members[2].kill();
            self.members[2].start();
        }
        let mut hashes = Vec::new();
        for member in &self.members {
            for at in [0, 1] {
                assert!(holds(&member.url, &format!("after/{at}")).await);
            }
            hashes.push(hash(&member.url).await);
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
        for member in &mut self.members {
            member.kill();
            assert!(!holds_text(&member.dir, MARKED), "{}", member.name);
        }
    }
}

/// Whether any file in `dir` has this text.
fn holds_text(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holds_text(&path, text)
        } else {
            let found = std::fs::read(&path).unwrap();
            String::from_utf8_lossy(&found).contains(text)
        }
    })
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Head and body of the answer.
fn say(url: &str, request: &[u8]) -> (String, String) {
    let mut connection = dial(url);
    // It may hang up before it has read all.
    let _ = connection.write_all(request);
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) => (head.to_owned(), body.to_owned()),
        None => (answer, String::new()),
    }
}

fn dial(url: &str) -> TcpStream {
    let connection = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

fn header(head: &str, name: &str) -> String {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
    found.unwrap_or_default().1.to_owned()
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn entry(kind: EntryKind, data: Vec<u8>) -> Entry {
    Entry {
        kind,
        data: data.into(),
        ..Entry::default()
    }
}

fn propose(kind: EntryKind, data: Vec<u8>) -> Body {
    let entries = vec![entry(kind, data)];
    Body::Propose { entries }
}

/// A put as a log entry has it, under the proposer's id for it.
fn put_bytes(id: u64, key: &[u8]) -> Vec<u8> {
    let put = pb::PutRequest {
        key: key.to_vec().into(),
        value: MARK.into(),
        ..Default::default()
    };
    let header = pb::RequestHeader {
        id,
        ..Default::default()
    };
    pb::InternalRaftRequest {
        header: Some(header),
        put: Some(put),
        ..Default::default()
    }
    .encode_to_vec()
}

/// Proposals that no client could have caused, and messages of terms that cannot be.
fn forgeries() -> Vec<(u64, Body)> {
    let change = |node: u64, context: &[u8]| {
        raft::wire::encode_conf_change(&ConfChange {
            id: 5,
            kind: ConfChangeKind::AddNode,
            node,
            context: context.to_vec().into(),
        })
        .to_vec()
    };
    let marked = |term, index| Entry {
        term,
        index,
        ..entry(EntryKind::Normal, put_bytes(9, b"forged"))
    };
    let append = |prev: (u64, u64), terms: &[u64]| Body::Append {
        prev: Position {
            term: prev.0,
            index: prev.1,
        },
        entries: terms
            .iter()
            .zip(prev.1 + 1..)
            .map(|(term, index)| marked(*term, index))
            .collect(),
        commit: u64::MAX,
    };
    let vote = |term| Body::Vote {
        last: Position { term, index: 99 },
        transfer: true,
    };
    let huge = 1 << 50;
    vec![
        (0, propose(EntryKind::Normal, MARK.to_vec())),
        (0, propose(EntryKind::Normal, put_bytes(3, b""))),
        (0, propose(EntryKind::ConfChange, MARK.to_vec())),
        (0, propose(EntryKind::ConfChange, change(7, MARK))),
        (0, propose(EntryKind::ConfChange, change(7, br#"{"id":8}"#))),
        (0, propose(EntryKind::ConfChangeV2, MARK.to_vec())),
        (0, vote(0)),
        (huge, vote(huge - 1)),
        (u64::MAX, vote(1)),
        (1, vote(7)),
        (huge, append((1, 1), &[1])),
        // Of no term, of a later one than the leader's, and going back.
        (0, append((1, 1), &[1])),
        (2, append((1, 1), &[1, 9])),
        (9, append((2, 3), &[3, 2])),
        (1, Body::Snapshot(Snapshot::default())),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_messages_in_requests_leave_no_trace() {
    let mut stage = Stage::new().await;
    stage.members[2].kill();
    for (term, body) in forgeries() {
        for to in [0, 1] {
            let message = stage.forged(to, term, body.clone());
            // Raft looks at terms by itself, behind the answer.
            for _ in 0..3 {
                let answer = stage.send(&message, to);
                let late = matches!(body, Body::Vote { .. } | Body::Append { .. });
                assert!(
                    answer == "400" || (late && answer == "204"),
                    "{message:?}: {answer}"
                );
            }
        }
    }
    let sound = || propose(EntryKind::Normal, put_bytes(77, b"from nobody"));
    for to in [0, 1] {
        let stranger = Message {
            from: 0xbad,
            ..stage.forged(to, 0, sound())
        };
        assert_eq!(stage.send(&stranger, to), "400");
        let astray = Message {
            to: 0xbad,
            ..stage.forged(to, 0, sound())
        };
        assert_eq!(stage.send(&astray, to), "403");
        for bytes in [
            &b""[..],
            b"\x08\x63",
            b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            MARK,
        ] {
            let answer = stage.post(stage.ids[2], to, "/raft", bytes);
            assert_eq!(answer, "400", "{bytes:?}");
        }
        let other = std::mem::replace(&mut stage.cluster, "feed".to_owned());
        assert_eq!(stage.send(&stage.forged(to, 0, sound()), to), "412");
        stage.cluster = other;
    }
    stage.all_is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_too_large_cut_off_or_of_another_kind_harm_nobody() {
    let stage = Stage::new().await;
    let url = &stage.members[0].peer_url;
    for path in [
        "/raft",
        "/raft/snapshot",
        "/leases",
        "/leases/internal",
        "/members/hashkv",
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-Server-From: {:x}\r\nX-Server-Version: 3.7.0\r\n\
             X-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: {}\r\nContent-Length: {OVERSIZE}\r\n\r\n",
            stage.ids[2], stage.cluster
        );
        let mut connection = dial(url);
        connection.write_all(head.as_bytes()).unwrap();
        let _ = connection.write_all(&vec![0xff; 1 << 20]);
        // And is gone in the middle of it.
    }
    for path in ["/leases", "/leases/internal"] {
        assert_eq!(stage.post(stage.ids[2], 0, path, MARK), "400");
    }
    for (path, wanted) in [
        ("/raft/stream/message/nobody", "404"),
        ("/raft/stream/message/bad", "404"),
        ("/raft/stream/nothing/bad", "404"),
        ("/raft/stream/message", "404"),
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Server-Version: 3.7.0\r\n\
             X-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: {}\r\nX-Raft-To: {:x}\r\n\r\n",
            stage.cluster, stage.ids[0]
        );
        assert_eq!(status(&say(url, request.as_bytes()).0), wanted, "{path}");
    }
    // A question that never ends is ended long before a message would be.
    let endless = [
        "POST /leases",
        "POST /leases/internal",
        "GET /members/hashkv",
    ]
    .map(|line| {
        let mut connection = dial(url);
        let head =
            format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        connection
    });
    for mut connection in endless {
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), "400");
    }
    stage.all_is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_snapshots_take_nobodys_place() {
    let mut stage = Stage::new().await;
    stage.members[2].kill();
    let merged = |message: &Message, state: &[u8]| {
        let mut bytes = Vec::new();
        raft::wire::encode_message(message, &mut bytes);
        [&(bytes.len() as u64).to_be_bytes()[..], &bytes, state].concat()
    };
    let snapshot = |term, index| {
        let mut snapshot = Snapshot {
            position: Position { term, index },
            ..Snapshot::default()
        };
        snapshot.conf.voters = vec![1];
        Body::Snapshot(snapshot)
    };
    let heartbeat = Body::Heartbeat {
        commit: 1,
        context: MARK.into(),
    };
    let astray = Message {
        to: 0xbad,
        ..stage.forged(0, 9, snapshot(9, 1_000_000))
    };
    for body in [
        MARK.to_vec(),
        u64::MAX.to_be_bytes().to_vec(),
        merged(&stage.forged(0, 9, heartbeat), MARK),
        merged(&astray, MARK),
        merged(&stage.forged(0, 9, snapshot(9, 1_000_000)), MARK),
        merged(&stage.forged(0, 9, snapshot(10, 1_000_000)), MARK),
        merged(&stage.forged(0, 0, snapshot(0, 0)), MARK),
    ] {
        let answer = stage.post(stage.ids[2], 0, "/raft/snapshot", &body);
        assert_eq!(answer, "500");
    }
    stage.all_is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_that_comes_again_is_applied_once() {
    let stage = Stage::new().await;
    let put = propose(EntryKind::Normal, put_bytes(0x1234_5678, b"echo"));
    for _ in 0..5 {
        for to in [0, 1, 2] {
            let message = Message {
                from: stage.ids[(to + 1) % 3],
                to: stage.ids[to],
                term: 0,
                body: put.clone(),
            };
            assert_eq!(stage.send(&message, to), "204");
        }
    }
    // Whatever was sent before is applied when this is.
    let range = || pb::RangeRequest {
        key: "echo".into(),
        ..Default::default()
    };
    let url = stage.members[0].url.clone();
    let begun = Instant::now();
    loop {
        let found = ask(
            &url,
            |client| async move { client.kv().range(range()).await },
        );
        if found.await.into_inner().count == 1 {
            break;
        }
        assert!(
            begun.elapsed() < APPLIED_WITHIN,
            "the proposal is not applied"
        );
        tokio::time::sleep(AGAIN).await;
    }
    for at in [0, 1, 2, 0, 1, 2] {
        put_through(&stage.members[at].url, at).await;
    }
    let found = ask(
        &url,
        |client| async move { client.kv().range(range()).await },
    );
    assert_eq!(found.await.into_inner().kvs[0].version, 1);
}

async fn put_through(url: &str, at: usize) {
    put(url, &format!("behind/{at}")).await;
}

/// What the played member says on its streams: nonsense, lengths that nothing has, and forgeries.
fn said_on_streams(stage_ids: &[u64], to: usize) -> Vec<(&'static str, Vec<u8>)> {
    let framed = |bytes: &[u8]| [&(bytes.len() as u64).to_be_bytes()[..], bytes].concat();
    let encoded = |term: u64, body: &Body| {
        let message = Message {
            from: stage_ids[2],
            to: stage_ids[to],
            term,
            body: body.clone(),
        };
        let mut bytes = Vec::new();
        raft::wire::encode_message(&message, &mut bytes);
        framed(&bytes)
    };
    let mut said = vec![
        ("message", MARK.to_vec()),
        ("message", u64::MAX.to_be_bytes().to_vec()),
        ("message", framed(MARK)),
        ("msgapp", vec![9; 40]),
        ("msgapp", [&[2][..], &OVERSIZE.to_be_bytes()].concat()),
        ("msgapp", [&[2][..], &framed(MARK)].concat()),
        // So many entries; and entries that continue nothing.
        ("msgapp", [&[1][..], &u64::MAX.to_be_bytes()].concat()),
        ("msgapp", short(1, 1, b"forged")),
    ];
    for (term, body) in forgeries() {
        let bytes = encoded(term, &body);
        said.push(("msgapp", [&[2][..], &bytes].concat()));
        said.push(("message", bytes));
    }
    // A sound append, and behind it in the short form an entry of a later term.
    let empty = Body::Append {
        prev: Position { term: 1, index: 1 },
        entries: Vec::new(),
        commit: 0,
    };
    let long = [&[2][..], &encoded(1, &empty)].concat();
    said.push(("msgapp", [long.clone(), short(9, 2, b"forged")].concat()));
    said.push(("msgapp", [long, short(1, 7, b"forged")].concat()));
    said
}

/// The short form with one entry.
fn short(term: u64, index: u64, key: &[u8]) -> Vec<u8> {
    let entry = Entry {
        term,
        index,
        ..entry(EntryKind::Normal, put_bytes(9, key))
    };
    let mut bytes = Vec::new();
    raft::wire::encode_entry(&entry, &mut bytes);
    let numbers = [1, bytes.len() as u64].map(u64::to_be_bytes).concat();
    [&[1][..], &numbers, &bytes, &9_u64.to_be_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_says_nonsense_on_its_streams_is_not_believed() {
    let mut stage = Stage::new().await;
    stage.members[2].kill();
    let address = stage.members[2].peer_url.trim_start_matches("http://");
    let listener = TcpListener::bind(address).unwrap();
    let (ids, cluster) = (stage.ids.clone(), stage.cluster.clone());
    let wanted = said_on_streams(&ids, 0).len();
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answered);
    // Ends with the process.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (ids, cluster, counted) = (ids.clone(), cluster.clone(), Arc::clone(&counted));
            thread::spawn(move || speak(connection.unwrap(), &ids, &cluster, &counted));
        }
    });
    let enough = || answered.load(Ordering::Relaxed) >= wanted;
    wait("the streams to be read", enough, || stage.members[0].log());
    let log = stage.members[0].log() + &stage.members[1].log();
    assert!(log.contains(REFUSED), "{log}");
    stage.all_is_well_without_third().await;
}

impl Stage {
    /// As `all_is_well`, while the test has the third member's port.
    async fn all_is_well_without_third(mut self) {
        self.members.truncate(2);
        for at in [0, 1] {
            put(&self.members[at].url, &format!("after/{at}")).await;
            assert!(!self.members[at].log().contains("panicked"));
            self.members[at].kill();
            self.members[at].start();
        }
        for member in &self.members {
            assert!(holds(&member.url, "after/1").await);
        }
        for member in &mut self.members {
            member.kill();
            assert!(!holds_text(&member.dir, MARKED), "{}", member.name);
        }
    }
}

/// Answers one request of another member: a stream with the next thing to say, all of them in turn on
/// one stream where the reader goes on.
fn speak(mut connection: TcpStream, ids: &[u64], cluster: &str, answered: &AtomicUsize) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let (mut first, mut line, mut to) = (String::new(), String::new(), 0);
    let _ = reader.read_line(&mut first);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let own = format!("{:x}", ids[1]);
        if line.to_lowercase().starts_with("x-server-from") && line.contains(&own) {
            to = 1;
        }
        line.clear();
    }
    let said = said_on_streams(ids, to);
    let Some(kind) = ["message", "msgapp"]
        .into_iter()
        .find(|kind| first.contains(&format!("/raft/stream/{kind}/")))
    else {
        let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return;
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nX-Etcd-Cluster-ID: {cluster}\r\nX-Server-Version: 3.7.0\r\nConnection: \
         close\r\n\r\n"
    );
    let _ = connection.write_all(head.as_bytes());
    // Each connection begins with another one: after what cannot be read nothing is.
    let turn = answered.fetch_add(1, Ordering::Relaxed);
    for place in 0..said.len() {
        let (of, bytes) = &said[(turn + place) % said.len()];
        if *of == kind && connection.write_all(bytes).is_err() {
            return;
        }
    }
    // What was written is read before the end is seen.
    let _ = connection.shutdown(std::net::Shutdown::Write);
    let _ = connection.read_to_end(&mut Vec::new());
}
