//! For the fuzzer: what arrives on the peer port, and in the streams that this member reads.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::{Builder, Runtime};

use super::codec::{Decoder, Encoder, Frame};
use super::lease::{KEEP_ALIVE_PATH, TIME_TO_LIVE_PATH};
use super::page::PeerResponse;
use super::transfer::{NUMBER_HEADER, OFFSET_HEADER};
use super::*;
use crate::member::event::LeaseCall;
use crate::member::event::inbox::{Inbox, inbox};
use crate::net::tls::Security;
use crate::state::snapshot::rows;

const CLUSTER: u64 = 0xc;
const ME: u64 = 2;
const PEER: u64 = 1;
const REMOVED: u64 = 3;
/// No member knows it.
const STRANGER: u64 = 9;
const STORE: &str = "/store";

/// Uses the bytes as a stream of another member: reading ends without a panic, and every message
/// that passes the guard survives encoding and decoding.
pub(crate) fn any_stream(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let kind = match first % 2 {
        0 => Kind::Message,
        _ => Kind::MsgApp,
    };
    let (mut decoder, mut passed) = (Decoder::new(kind, PEER, ME), Vec::new());
    for piece in bytes.chunks(usize::from(first / 2).max(1)) {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next() {
            if let Frame::Message(message) = frame
                && guard::refusal(&message, ME, Some(PEER), |_| Standing::Member).is_none()
            {
                passed.push(message);
            }
        }
    }
    passed.iter().for_each(assert_survives);
}

/// Uses the bytes as requests on the peer port: for each a byte for what is asked, the length of
/// the body in two bytes, and the body. Only what passed the guard gets to Raft, and nothing of a
/// state that did not come whole stays on the disk.
pub(crate) fn any_requests(mut data: &[u8]) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let port = Port::new();
    while let Some(([choice, low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        data = rest;
        runtime.block_on(port.connection(*choice, body));
        port.look_at_what_was_delivered();
    }
    runtime.block_on(port.peers.0.arrivals.drop_broken(true));
    let files = port.vfs.list(Path::new(STORE));
    assert_eq!(files.expect("a disk without faults"), [""; 0]);
}

/// Uses the bytes as the body of a question between members, or of the answer to one: the first byte
/// says which. What can be read survives being written and read again.
pub(crate) fn any_answer(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    match choice % 8 {
        0 => assert_members_survive(body),
        1 => {
            let versions = join::version::Versions::of(&body);
            versions.map(|versions| [versions.etcdserver, versions.etcdcluster].map(minor_of));
        }
        2 => {
            if let Some(LeaseCall::KeepAlive { id }) = lease::call_of(KEEP_ALIVE_PATH, body) {
                let (path, again) = lease::keep_alive(id);
                let again = lease::call_of(path, again);
                assert!(matches!(again, Some(LeaseCall::KeepAlive { id: same }) if same == id));
            }
        }
        3 => {
            let call = lease::call_of(TIME_TO_LIVE_PATH, body);
            if let Some(LeaseCall::TimeToLive { id, keys }) = call {
                let (path, again) = lease::time_to_live(id, keys);
                let again = format!("{:?}", lease::call_of(path, again));
                assert_eq!(again, format!("{call:?}"));
            }
        }
        // An answer is a number and, of a lease, its keys: whatever can be read is one.
        4 => drop(lease::lease_answer(&LeaseCall::KeepAlive { id: 7 }, body)),
        5 => {
            let (id, keys) = (7, true);
            drop(lease::lease_answer(
                &LeaseCall::TimeToLive { id, keys },
                body,
            ));
        }
        6 => {
            hash::revision_of(&body);
            if let Ok(found) = hash::read(&body) {
                assert_eq!(hash::read(&hash::answer(&found).into()), Ok(found));
            }
        }
        _ => {
            if let Some(bytes) = transfer::held_bytes(&body) {
                assert_eq!(
                    transfer::held_bytes(bytes.to_string().as_bytes()),
                    Some(bytes)
                );
            }
        }
    }
}

fn minor_of(version: String) -> Option<(u64, u64)> {
    join::minor(&version)
}

/// The answer of `/members` and `/members/promote`, after the cluster's id and a zero byte.
fn assert_members_survive(body: Bytes) {
    let mut parts = body.splitn(2, |byte| *byte == 0);
    let (id, list) = (parts.next().unwrap_or_default(), parts.next());
    let answer = |cluster_id: &str, body: Vec<u8>| PeerAnswer {
        status: 200,
        cluster_id: cluster_id.to_owned(),
        body: body.into(),
    };
    let told = answer(
        &String::from_utf8_lossy(id),
        list.unwrap_or_default().to_vec(),
    );
    if let Ok((id, members)) = join::listed(&told) {
        let list = serde_json::to_vec(&members).expect("plain data");
        let again = answer(&format!("{id:x}"), list);
        assert_eq!(join::listed(&again), Ok((id, members)));
    }
}

/// A member that one peer is known to and another was removed from, without a Raft behind it.
struct Port {
    peers: Peers,
    delivered: Inbox<ConsensusEvent>,
    vfs: Arc<SimVfs>,
    /// Nobody drives it, so that nobody is dialled.
    _idle: Runtime,
}

impl Port {
    fn new() -> Port {
        let idle = Builder::new_current_thread().enable_all().build();
        let idle = idle.expect("a runtime");
        let vfs = Arc::new(SimVfs::new(1));
        let made = vfs.create_dir_all(Path::new(STORE));
        made.expect("a disk without faults");
        let receiver = Receiver::new(Arc::clone(&vfs) as _, STORE.into(), Default::default());
        let config = crate::config::parse(&[], &[], &|_| Ok(String::new()));
        let security = Security::prepare(&config.expect("the defaults"));
        let ((consensus, delivered), (apply, _)) = (inbox(), inbox());
        let peers = Peers(Arc::new(Inner {
            me: Introduction {
                member_id: ME,
                cluster_id: CLUSTER,
                peer_urls: Vec::new(),
            },
            consensus,
            apply,
            all_are_ours: AtomicBool::new(false),
            runtime: idle.handle().clone(),
            clock: Clock::start(),
            metrics: Arc::default(),
            dialer: Dialer::new(&security.expect("no files are named")),
            peers: RwLock::default(),
            receiver: receiver.expect("a disk without faults"),
            arrivals: Arrivals::default(),
            removed: RwLock::default(),
            logged: LogOnce::default(),
            posts: Arc::new(Semaphore::new(POSTS_OF_STRANGERS_MAX)),
            gone: watch::channel(false).0,
        }));
        let peer = MemberInfo {
            id: PEER,
            ..Default::default()
        };
        peers.set_members(&[peer], &[REMOVED]);
        Port {
            peers,
            delivered,
            vfs,
            _idle: idle,
        }
    }

    /// Sends one request and waits for the end of the connection.
    async fn connection(&self, choice: u8, body: &[u8]) {
        let (bytes, is_whole) = request(choice, body);
        let (mut client, server) = tokio::io::duplex(bytes.len().max(1));
        client.write_all(&bytes).await.expect("room for all");
        if !is_whole {
            client.shutdown().await.expect("an open pipe");
        }
        let mut answer = Vec::new();
        // How the client's end closes does not matter either.
        let _ = tokio::join!(self.serve(server), client.read_to_end(&mut answer));
    }

    /// Answers on a connection until it ends.
    async fn serve(&self, connection: DuplexStream) {
        let service = service_fn(|request| async { Ok::<_, String>(self.answer(request).await) });
        // The fuzzer checks that it ends, not how.
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(connection), service)
            .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> PeerResponse {
        let peers = &self.peers;
        match request.uri().path() {
            "/raft" => serve::raft(peers, request).await,
            "/raft/snapshot" => serve::snapshot(peers, request).await,
            "/raft/snapshot/held" => serve::held(peers, &request),
            path => {
                let path = path.trim_start_matches("/raft/stream/").to_owned();
                serve::stream(peers, &path, &request)
            }
        }
    }

    fn look_at_what_was_delivered(&self) {
        let mut events = Vec::new();
        self.delivered.receive(Some(Duration::ZERO), &mut events);
        for event in events {
            match event {
                ConsensusEvent::Receive(message) => {
                    assert!(self.peers.check(&message, None).is_ok(), "{message:?}");
                    assert_survives(&message);
                }
                ConsensusEvent::SnapshotReceived { message, received } => {
                    assert!(self.peers.check(&message, None).is_ok(), "{message:?}");
                    received.discard().expect("a disk without faults");
                }
                event => unreachable!("{event:?}"),
            }
        }
    }
}

impl Drop for Port {
    /// Peers know each of their peers, and each of these knows them: the circle has to be cut.
    fn drop(&mut self) {
        self.peers.0.peers.write().clear();
    }
}

/// The bytes of a request, and whether they are all of it.
fn request(choice: u8, body: &[u8]) -> (Vec<u8>, bool) {
    let (what, detail) = (choice % 8, choice / 8);
    let number = format!("{NUMBER_HEADER}: 7\r\n");
    let rows = format!("{}: {}\r\n{number}", rows::HEADER, rows::FORM);
    let (line, headers) = match what {
        0 => return (body.to_vec(), false),
        1 => ("POST /raft", String::new()),
        2 => ("POST /raft/snapshot", String::new()),
        3 | 4 => ("POST /raft/snapshot", rows),
        5 => {
            let offset = format!("{OFFSET_HEADER}: {}\r\n", u32::from(detail) * 8);
            ("POST /raft/snapshot", rows + &offset)
        }
        6 => ("GET /raft/snapshot/held", number),
        _ => ("GET /raft/stream/message/1", "X-Raft-To: 2\r\n".to_owned()),
    };
    let from = match detail {
        30 => REMOVED,
        31 => STRANGER,
        _ => PEER,
    };
    // The fourth breaks off, and so does a stream, which has no end of its own.
    let is_whole = !matches!(what, 4 | 7);
    let missing = usize::from(what == 4);
    let head = format!(
        "{line} HTTP/1.1\r\nHost: peer\r\nConnection: close\r\nContent-Length: {}\r\n\
         X-Server-Version: 3.7.0\r\nX-Min-Cluster-Version: 3.0.0\r\nX-Server-From: {from:x}\r\n\
         X-Etcd-Cluster-ID: {CLUSTER:x}\r\nX-PeerURLs: http://127.0.0.1:2380\r\n{headers}\r\n",
        body.len() + missing
    );
    ([head.as_bytes(), body].concat(), is_whole)
}

fn assert_survives(message: &Message) {
    let (mut encoder, mut bytes) = (Encoder::new(Kind::Message), Vec::new());
    encoder.message(message, &mut bytes);
    let mut decoder = Decoder::new(Kind::Message, message.from, message.to);
    decoder.push(&bytes);
    assert_eq!(decoder.next(), Ok(Some(Frame::Message(message.clone()))));
}
