//! The dialing side: streams read from a peer, and requests sent to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use raft::Message;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::codec::{Decoder, Frame, Kind};
use super::dialer::{ANSWER_BYTES_MAX, Dialer};
use super::link::Link;
use super::{Introduction, MAKE_HEADER, Peers};
use crate::member::event::ConsensusEvent;

/// A stream without a byte for this long is dead; each side sends a heartbeat three times as often.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Limit for the rest of a refusal, and for the answer to a probe.
const DIAL_PATIENCE: Duration = Duration::from_secs(1);
/// etcd's error for a removed member.
pub(crate) const REMOVED: &str = "the member has been permanently removed from the cluster";
/// Interval between measurements of the round trip to a peer, as in etcd.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// Pause before reconnecting to a peer that sent an invalid message.
const NONSENSE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two attempts, as in etcd.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Target {
    pub id: u64,
    pub urls: Vec<String>,
    pub link: Arc<Link>,
    pub peers: Peers,
}

impl Target {
    pub(super) fn me(&self) -> &Introduction {
        self.peers.me()
    }

    /// Its URLs in turn; `None` if it has none.
    fn url(&self, turn: usize) -> Option<&str> {
        let count = self.urls.len().max(1);
        self.urls.get(turn % count).map(String::as_str)
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.peers.0.dialer
    }

    /// Returns false if the member has stopped.
    fn tell(&self, event: ConsensusEvent) -> bool {
        self.peers.0.consensus.send(event).is_ok()
    }

    fn note_up(&self) {
        if self.link.up() {
            tracing::info!("peer-id" = format!("{:x}", self.id), "peer became active");
        }
    }

    fn note_sign_of_life(&self, kind: Kind) {
        self.peers
            .0
            .metrics
            .network
            .sign_of_life(kind.heartbeat_bytes());
    }

    fn note_down(&self, action: &str, source: &str, error: &io::Error) {
        if self.link.down() {
            let id = format!("{:x}", self.id);
            let error = format!("failed to {action} {id} on {source} ({error})");
            tracing::warn!(
                "peer-id" = id,
                error,
                "peer became inactive (message send to peer failed)"
            );
        }
    }
}

/// Reads one kind of stream from the peer, for ever.
pub(super) async fn follow(target: Target, kind: Kind) {
    let mut turn = 0;
    loop {
        let Some(url) = target.url(turn) else {
            return;
        };
        turn += 1;
        match open(&target, url, kind).await {
            Ok(body) => {
                let id = format!("{:x}", target.id);
                target.note_up();
                let ended = read(&target, body, kind).await;
                target.note_down("read", kind.path(), &ended);
                if ended.kind() == io::ErrorKind::InvalidData {
                    tokio::time::sleep(NONSENSE_PAUSE).await;
                    continue;
                }
                let gone = ended.kind() != io::ErrorKind::TimedOut;
                tracing::warn!(
                    "remote-peer-id" = id,
                    stream = kind.path(),
                    error = %ended,
                    "lost TCP streaming connection with remote peer"
                );
                if gone {
                    target.tell(ConsensusEvent::Disconnected { peer: target.id });
                }
            }
            Err(error) => {
                target.note_down("dial", kind.path(), &error);
                tracing::debug!(%error, url, "failed to dial a peer");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn open(target: &Target, url: &str, kind: Kind) -> io::Result<Incoming> {
    let me = target.me();
    let path = format!("/raft/stream/{}/{:x}", kind.path(), me.member_id);
    let request = me
        .request("GET", &path)
        .header("X-Raft-To", format!("{:x}", target.id))
        .body(Full::default())
        .map_err(io::Error::other)?;
    let response = target.dialer().send_soon(url, request).await?;
    match response.status().as_u16() {
        200 if is_of_another_cluster(&response, me) => {
            Err(io::Error::other("it is of another cluster"))
        }
        200 => {
            let is_ours = response.headers().contains_key(MAKE_HEADER);
            target.peers.note_make(target.id, is_ours);
            Ok(response.into_body())
        }
        410 => {
            target.peers.leave();
            Err(io::Error::other(REMOVED))
        }
        404 => Err(io::Error::other(format!(
            "peer {:x} failed to find local node {:x}",
            target.id, me.member_id
        ))),
        412 => {
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            let body = timeout(DIAL_PATIENCE, body.collect()).await?;
            let body = body.map_err(io::Error::other)?.to_bytes();
            Err(io::Error::other(
                String::from_utf8_lossy(&body).trim_end().to_owned(),
            ))
        }
        status => Err(io::Error::other(format!("unexpected http status {status}"))),
    }
}

fn is_of_another_cluster<B>(response: &http::Response<B>, me: &Introduction) -> bool {
    let theirs = response.headers().get("X-Etcd-Cluster-ID");
    theirs.is_some_and(|theirs| theirs.as_bytes() != format!("{:x}", me.cluster_id).as_bytes())
}

/// Reads a stream to its end; returns why it ended.
async fn read(target: &Target, mut body: Incoming, kind: Kind) -> io::Error {
    let mut decoder = Decoder::new(kind, target.id, target.me().member_id);
    let traffic = &target.link.traffic;
    loop {
        let data = match timeout(SILENCE_MAX, body.frame()).await {
            Err(silence) => return silence.into(),
            Ok(None) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(Some(Err(error))) => return io::Error::other(error),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        traffic.received_bytes.add(data.len() as u64);
        decoder.push(&data);
        loop {
            match decoder.next() {
                Ok(Some(Frame::Message(message))) => {
                    match target.peers.receive(message, Some(target.id)) {
                        // After a refused message, the rest of the stream may still be valid.
                        Ok(true) | Err(_) => {}
                        Ok(false) => return io::ErrorKind::TimedOut.into(),
                    }
                }
                Ok(Some(Frame::LinkHeartbeat)) => target.note_sign_of_life(kind),
                Ok(None) => break,
                Err(error) => {
                    target.peers.note_refusal(target.id, &error.to_string());
                    return io::Error::new(io::ErrorKind::InvalidData, error.to_string());
                }
            }
        }
    }
}

/// Sends messages that found no stream, one POST after the other.
pub(super) async fn pipeline(target: Target, mut messages: Receiver<Message>) {
    let mut turn = 0;
    while let Some(message) = messages.recv().await {
        let Some(url) = target.url(turn) else {
            return;
        };
        let mut bytes = Vec::new();
        raft::wire::encode_message(&message, &mut bytes);
        let length = bytes.len() as u64;
        let sent = target
            .dialer()
            .ask(target.me(), url, "/raft", bytes.into())
            .await;
        let failed = match sent {
            Ok(answer) if answer.status == 204 => {
                target.note_up();
                target.link.traffic.sent_bytes.add(length);
                continue;
            }
            Ok(answer) if answer.status == 403 => {
                target.peers.leave();
                io::Error::other(REMOVED)
            }
            Ok(answer) => io::Error::other(format!("unexpected http status {}", answer.status)),
            Err(error) => error,
        };
        turn += 1;
        target.link.traffic.sent_failures.inc();
        target.note_down("post", "pipeline", &failed);
        target.tell(ConsensusEvent::Unreachable { peer: target.id });
    }
}

/// Measures the round trip to the peer, for ever.
pub(super) async fn probe(target: Target) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let Some(url) = target.urls.first() else {
            return;
        };
        let clock = target.peers.0.clock;
        let began = clock.now();
        if let Ok(answer) = target
            .dialer()
            .get(url, "/raft/probing", DIAL_PATIENCE)
            .await
            && answer.status == 200
        {
            let took = clock.now().saturating_sub(began);
            target.link.traffic.round_trip.observe(took);
        }
    }
}
