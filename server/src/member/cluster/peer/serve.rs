//! Raft's requests of other members: streams that they read, messages and snapshots that they send.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;
use raft::Message;

use super::codec::Kind;
use super::guard::Refusal;
use super::link::Counting;
use super::page::{MessageStream, PeerResponse, body_of, header_of, message, page, text};
use super::transfer::arrival::{Arrival, Arrived, Name};
use super::{MAKE_HEADER, Peers, transfer};
use crate::config::{ETCD_VERSION, MIN_CLUSTER_VERSION};
use crate::state::snapshot::rows;

/// Limit for a message sent by POST: far above the largest entry.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Limit for that message to arrive.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn stream(peers: &Peers, rest: &str, request: &Request<Incoming>) -> PeerResponse {
    if let Some(refusal) = refuse_stranger(peers, request) {
        return refusal;
    }
    let Some((kind, id)) = rest.split_once('/') else {
        return text(StatusCode::NOT_FOUND, "invalid path");
    };
    let kind = match kind {
        "message" => Kind::Message,
        "msgapp" => Kind::MsgApp,
        _ => return text(StatusCode::NOT_FOUND, "invalid path"),
    };
    let Ok(from) = u64::from_str_radix(id, 16) else {
        return text(StatusCode::NOT_FOUND, "invalid from");
    };
    if peers.is_removed(from) {
        return text(StatusCode::GONE, "removed member");
    }
    if !peers.reads(from) {
        note_remote(peers, request, Some(from));
        return text(StatusCode::NOT_FOUND, "error sender not found");
    }
    let to = header_of(request, "X-Raft-To");
    if to != Some(format!("{:x}", peers.me().member_id).as_str()) {
        return text(StatusCode::PRECONDITION_FAILED, "to field mismatch");
    }
    let Some((messages, traffic)) = peers.attach(from, kind) else {
        return text(StatusCode::NOT_FOUND, "error sender not found");
    };
    let body = MessageStream::new(kind, messages, traffic);
    let mut response = Response::new(Either::Right(body));
    let version = http::HeaderValue::from_static(ETCD_VERSION);
    response.headers_mut().insert("X-Server-Version", version);
    response
}

pub(crate) async fn raft(peers: &Peers, request: Request<Incoming>) -> PeerResponse {
    if let Some(refusal) = refuse_stranger(peers, &request) {
        return refusal;
    }
    note_remote(peers, &request, None);
    let speaker = sender_of(&request);
    let Some(_place) = peers.place_for(speaker).await else {
        let what = "too many messages of unknown members";
        return text(StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let body = match body_of(request, MESSAGE_BYTES_MAX, MESSAGE_PATIENCE).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match raft::wire::decode_message(&body) {
        // The announced state must come by `/raft/snapshot` instead.
        Ok(sent) if matches!(sent.body, raft::Body::Snapshot(_)) => {
            peers.note_refusal(sent.from, "a snapshot's message came without the state");
            text(StatusCode::BAD_REQUEST, "error processing raft message")
        }
        Ok(sent) => {
            let from = sent.from;
            match peers.receive(sent, speaker) {
                Ok(_) => {
                    let traffic = peers.0.metrics.network.of(from);
                    traffic.received_bytes.add(body.len() as u64);
                    page(StatusCode::NO_CONTENT, "text/plain", Bytes::new())
                }
                Err(refusal @ (Refusal::Removed | Refusal::NotForUs)) => {
                    message(StatusCode::FORBIDDEN, &refusal.to_string())
                }
                Err(Refusal::Other(_)) => {
                    text(StatusCode::BAD_REQUEST, "error processing raft message")
                }
            }
        }
        Err(error) => {
            peers.note_refusal(speaker.unwrap_or_default(), &error.to_string());
            text(StatusCode::BAD_REQUEST, "error unmarshalling raft message")
        }
    }
}

pub(crate) async fn snapshot(peers: &Peers, request: Request<Incoming>) -> PeerResponse {
    if let Some(refusal) = refuse_stranger(peers, &request) {
        return refusal;
    }
    note_remote(peers, &request, None);
    let from = sender_of(&request);
    let name = Name::of(&request, from);
    let arrival = match begin_or_resume(peers, &request, name).await {
        Ok(arrival) => arrival,
        Err(refusal) => return refusal,
    };
    let traffic = peers.0.metrics.network.of(from.unwrap_or_default());
    let counting = Counting::begin(peers.0.clock, &traffic.snapshots_received);
    let (arrivals, metrics) = (&peers.0.arrivals, &peers.0.metrics);
    let read = arrivals.read(name, arrival, request.into_body(), metrics);
    match read.await {
        Ok(Ok((message, received))) => {
            let index = received.applied().index;
            tracing::info!("snapshot-index" = index, "received database snapshot");
            peers.0.metrics.snapshot_db_save.observe(counting.age());
            counting.succeeded();
            peers.receive_snapshot(message, received);
            page(StatusCode::NO_CONTENT, "text/plain", Bytes::new())
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to receive a database snapshot");
            text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
        Err((bytes, error)) => {
            tracing::warn!(%error, bytes, "a database snapshot broke off, waiting for the rest");
            if let Some(name) = name {
                let waiting = peers.clone();
                peers.spawn(async move { waiting.0.arrivals.expire(name, bytes).await });
            }
            // Nobody reads it.
            text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

/// How many bytes of the transfer that the request names are here.
pub(crate) fn held(peers: &Peers, request: &Request<Incoming>) -> PeerResponse {
    if let Some(refusal) = refuse_stranger(peers, request) {
        return refusal;
    }
    let name = Name::of(request, sender_of(request));
    match name.map_or(Arrived::Nothing, |name| peers.0.arrivals.arrived(name)) {
        Arrived::Bytes(bytes) => text(StatusCode::OK, &bytes.to_string()),
        Arrived::Reading => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the transfer is being read",
        ),
        Arrived::Nothing => text(StatusCode::NOT_FOUND, "no such transfer"),
    }
}

async fn begin_or_resume(
    peers: &Peers,
    request: &Request<Incoming>,
    name: Option<Name>,
) -> Result<Arrival, PeerResponse> {
    let arrivals = &peers.0.arrivals;
    let offset = header_of(request, transfer::OFFSET_HEADER).unwrap_or("0");
    if let (Some(name), Ok(bytes @ 1..)) = (name, offset.parse()) {
        tracing::info!(bytes, "receiving the rest of a database snapshot");
        let rest = arrivals.resume(name, bytes);
        return rest
            .ok_or_else(|| text(StatusCode::CONFLICT, "no such part of a snapshot is here"));
    }
    let from = sender_of(request);
    let is_known = from.is_some_and(|from| peers.reads(from));
    if is_known {
        arrivals.displace_stranger().await;
    }
    arrivals.drop_broken(is_known).await;
    let Some(receiving) = peers.0.receiver.begin() else {
        let what = "another snapshot is being received";
        return Err(text(StatusCode::SERVICE_UNAVAILABLE, what));
    };
    let form = transfer::form_of(request.headers());
    tracing::info!(form = ?form, "receiving database snapshot");
    let guarding = peers.clone();
    let allow = move |message: &Message| {
        let checked = guarding.check(message, from);
        checked.map_err(|refusal| refusal.to_string())
    };
    Arrival::begin(receiving, form, is_known, allow)
        .map_err(|error| text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
}

/// Sets the headers by which the peers identify themselves.
pub(crate) fn introduce(peers: &Peers, response: &mut PeerResponse) {
    let headers = response.headers_mut();
    if let Ok(id) = format!("{:x}", peers.me().cluster_id).parse() {
        headers.insert("X-Etcd-Cluster-ID", id);
    }
    let form = http::HeaderValue::from_static(rows::FORM);
    headers.insert(rows::HEADER, form);
    let version = http::HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    headers.insert(MAKE_HEADER, version);
}

/// Why the sender of a request is refused, with etcd's text.
fn refuse_stranger<B>(peers: &Peers, request: &Request<B>) -> Option<PeerResponse> {
    let header = |name| header_of(request, name);
    let refuse = |what| Some(text(StatusCode::PRECONDITION_FAILED, what));
    // Very old versions send no version headers.
    let server = minor_version(header("X-Server-Version").unwrap_or("2.0.0"));
    let oldest = minor_version(header("X-Min-Cluster-Version").unwrap_or("2.0.0"));
    let (min, own) = (
        minor_version(MIN_CLUSTER_VERSION),
        minor_version(ETCD_VERSION),
    );
    if server.is_none() || server < min || oldest.is_none() || oldest > own {
        let from = header("X-Server-From").unwrap_or_default();
        if peers.0.logged.first(from, "incompatible version") {
            tracing::warn!(
                "remote-peer-server-name" = from,
                "failed version compatibility check"
            );
        }
        return refuse("incompatible version");
    }
    let cluster = format!("{:x}", peers.me().cluster_id);
    if header("X-Etcd-Cluster-ID") != Some(cluster.as_str()) {
        let theirs = header("X-Etcd-Cluster-ID").unwrap_or_default();
        if peers.0.logged.first(theirs, "cluster ID mismatch") {
            tracing::warn!(
                "remote-peer-cluster-id" = theirs,
                "request cluster ID mismatch"
            );
        }
        return refuse("cluster ID mismatch");
    }
    None
}

/// Remembers the URLs of a peer that our log does not contain yet.
fn note_remote<B>(peers: &Peers, request: &Request<B>, from: Option<u64>) {
    if let (Some(id), Some(urls)) = (
        from.or_else(|| sender_of(request)),
        header_of(request, "X-PeerURLs"),
    ) {
        peers.add_remote(id, urls);
    }
}

fn sender_of<B>(request: &Request<B>) -> Option<u64> {
    let named = header_of(request, "X-Server-From")?;
    u64::from_str_radix(named, 16).ok()
}

/// Major and minor of a full version.
fn minor_version(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.splitn(3, '.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let patch = numbers.next()?;
    patch
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some((major, minor))
}
