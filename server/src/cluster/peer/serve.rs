//! The serving side: streams that peers read from this member, and their requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prost::Message as _;
use raft::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Peers;
use super::codec::{Encoder, Kind};
use super::guard::Refusal;
use super::lease::{TimeToLiveRequest, TimeToLiveResponse};
use super::link::Counting;
use super::{MAKE_HEADER, hash, transfer};
use crate::api::serve::Door;
use crate::config::{CLUSTER_VERSION, ETCD_VERSION, MIN_CLUSTER_VERSION};
use crate::error::Error;
use crate::event::{LeaseAnswer, LeaseCall};
use crate::runtime::node::Node;
use crate::runtime::node::members::{NOT_FOUND, NOT_LEARNER};
use crate::state::snapshot::rows;
use crate::telemetry::metrics::Traffic;

/// As in etcd: a third of the time after which readers give up.
const LINK_HEARTBEAT: Duration = Duration::from_millis(1667);
/// Bytes collected for one write.
const WRITE_BYTES: usize = 256 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEADER_PATIENCE: Duration = Duration::from_secs(5);

/// Limit for a message sent by POST: far above the largest entry.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Limit for any other request body.
const QUESTION_BYTES_MAX: usize = 64 << 10;
const BODY_PATIENCE: Duration = Duration::from_secs(30);

type Answer = Response<Either<Full<Bytes>, Stream>>;

pub(super) async fn accept(door: Door, peers: Peers, node: Node) {
    let Door {
        bound, tls, quota, ..
    } = door;
    let listener = match bound.listen() {
        Ok(listener) => listener,
        Err(error) => crate::telemetry::fatal("failed to listen to peers", &error),
    };
    loop {
        let permit = quota.admit().await;
        match listener.accept().await {
            Ok(socket) => {
                let (peers, node, tls) = (peers.clone(), node.clone(), tls.clone());
                tokio::spawn(async move {
                    let _permit = permit;
                    match tls {
                        None => connection(socket, peers, node).await,
                        Some(acceptor) => {
                            if let Some(stream) = acceptor.accept_there(socket).await {
                                connection(stream, peers, node).await;
                            }
                        }
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a peer's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<S>(stream: S, peers: Peers, node: Node)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let (peers, node) = (peers.clone(), node.clone());
        async move { Ok::<_, Infallible>(answer(&peers, &node, request).await) }
    });
    // The stream on this connection reports how it ends.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(peers: &Peers, node: &Node, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let promoted = path.strip_prefix("/members/promote/");
    let posted = ["/raft", "/raft/snapshot", "/leases", "/leases/internal"];
    let posted = posted.contains(&path.as_str());
    let (wanted, name) = if posted || promoted.is_some() {
        (Method::POST, "POST")
    } else {
        (Method::GET, "GET")
    };
    if request.method() != wanted {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        let allowed = http::HeaderValue::from_static(name);
        refusal.headers_mut().insert(http::header::ALLOW, allowed);
        return refusal;
    }
    let mut response = match path.as_str() {
        "/version" => version(node),
        "/members" => match node.members() {
            Ok(members) => json_of(&members),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        "/members/hashkv" => hash_kv(peers, node, request).await,
        "/downgrade/enabled" => downgrade(node).await,
        "/raft/probing" => json(format!("{{\"OK\":true,\"Now\":\"{}\"}}", now_text())),
        "/raft" => raft(peers, request).await,
        "/raft/snapshot" => snapshot(peers, request).await,
        "/leases" | "/leases/internal" => leases(node, &path, request).await,
        path => match (path.strip_prefix("/raft/stream/"), promoted) {
            (Some(rest), _) => stream(peers, rest, &request),
            (_, Some(id)) => promote(node, id).await,
            _ => text(StatusCode::NOT_FOUND, "404 page not found"),
        },
    };
    if let Ok(id) = format!("{:x}", peers.me().cluster_id).parse() {
        response.headers_mut().insert("X-Etcd-Cluster-ID", id);
    }
    let form = http::HeaderValue::from_static(rows::FORM);
    response.headers_mut().insert(rows::HEADER, form);
    let version = http::HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(MAKE_HEADER, version);
    response
}

/// Why the sender of a request is refused, with etcd's text.
pub(super) fn refuse_stranger<B>(peers: &Peers, request: &Request<B>) -> Option<Answer> {
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
        if peers.0.told.first(from, "incompatible version") {
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
        if peers.0.told.first(theirs, "cluster ID mismatch") {
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
pub(super) fn note_remote<B>(peers: &Peers, request: &Request<B>, from: Option<u64>) {
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

fn header_of<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    request.headers().get(name).and_then(|v| v.to_str().ok())
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

/// Promotes a learner on request of a follower, which forwards the call to the leader.
async fn promote(node: &Node, id: &str) -> Answer {
    let Ok(number) = id.parse::<u64>() else {
        let what = format!("member {id} not found in cluster");
        return text(StatusCode::NOT_FOUND, &what);
    };
    let error = match node.promote_member(number).await {
        Ok(members) => return json_of(&members),
        Err(error) => error,
    };
    let id = format!("{number:x}");
    tracing::warn!("member-id" = id, %error, "failed to promote a member");
    match error {
        Error::MemberNotFound => text(StatusCode::NOT_FOUND, NOT_FOUND),
        Error::NotLearner => text(StatusCode::PRECONDITION_FAILED, NOT_LEARNER),
        Error::LearnerNotReady => text(StatusCode::PRECONDITION_FAILED, &error.to_string()),
        _ => message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
    }
}

async fn hash_kv(peers: &Peers, node: &Node, request: Request<Incoming>) -> Answer {
    let cluster = format!("{:x}", peers.me().cluster_id);
    let theirs = header_of(&request, "X-Etcd-Cluster-ID").unwrap_or_default();
    if !theirs.is_empty() && theirs != cluster {
        return text(StatusCode::PRECONDITION_FAILED, "cluster ID mismatch");
    }
    let body = match body_of(request, QUESTION_BYTES_MAX).await {
        Ok(body) => body,
        Err(_) => return text(StatusCode::BAD_REQUEST, "error reading body"),
    };
    let Some(revision) = hash::revision_of(&body) else {
        return text(StatusCode::BAD_REQUEST, "error unmarshalling request");
    };
    match node.hash_kv(revision).await {
        Ok(found) => json(hash::answer(&found)),
        Err(error) => text(StatusCode::BAD_REQUEST, &hash::refusal(&error)),
    }
}

async fn downgrade(node: &Node) -> Answer {
    match node.linearizable().await {
        Ok(()) => match node.downgrade_info() {
            Ok(downgrade) => {
                let enabled = downgrade.enabled.to_string();
                page(StatusCode::OK, "text/plain", enabled.into())
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        Err(error) => {
            let what = format!("failed linearized read: {error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, &what)
        }
    }
}

fn stream(peers: &Peers, rest: &str, request: &Request<Incoming>) -> Answer {
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
    let mut beat = interval(LINK_HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = Stream {
        messages,
        encoder: Encoder::new(kind),
        beat,
        traffic,
    };
    let mut response = Response::new(Either::Right(body));
    let version = http::HeaderValue::from_static(ETCD_VERSION);
    response.headers_mut().insert("X-Server-Version", version);
    response
}

async fn raft(peers: &Peers, request: Request<Incoming>) -> Answer {
    if let Some(refusal) = refuse_stranger(peers, &request) {
        return refusal;
    }
    note_remote(peers, &request, None);
    let speaker = sender_of(&request);
    // The semaphore is never closed, so this cannot fail.
    let _turn = peers.0.posts.acquire().await;
    let body = match body_of(request, MESSAGE_BYTES_MAX).await {
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

async fn snapshot(peers: &Peers, request: Request<Incoming>) -> Answer {
    if let Some(refusal) = refuse_stranger(peers, &request) {
        return refusal;
    }
    note_remote(peers, &request, None);
    let Some(receiving) = peers.0.receiver.begin() else {
        let what = "another snapshot is being received";
        return text(StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let form = transfer::form_of(request.headers());
    tracing::info!(form = ?form, "receiving database snapshot");
    let from = sender_of(&request);
    let traffic = peers.0.metrics.network.of(from.unwrap_or_default());
    let counting = Counting::begin(peers.0.clock, &traffic.snapshots_received);
    let guarding = peers.clone();
    let allow = move |message: &Message| {
        let checked = guarding.check(message, from);
        checked.map_err(|refusal| refusal.to_string())
    };
    match transfer::receive(
        receiving,
        form,
        request.into_body(),
        allow,
        &peers.0.metrics,
    )
    .await
    {
        Ok((message, received)) => {
            let index = received.applied().index;
            tracing::info!("snapshot-index" = index, "received database snapshot");
            peers.0.metrics.snapshot_db_save.observe(counting.age());
            counting.succeeded();
            peers.receive_snapshot(message, received);
            page(StatusCode::NO_CONTENT, "text/plain", Bytes::new())
        }
        Err(error) => {
            tracing::warn!(%error, "failed to receive a database snapshot");
            text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

async fn body_of(request: Request<Incoming>, bytes_max: usize) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), bytes_max);
    match tokio::time::timeout(BODY_PATIENCE, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        _ => Err(text(StatusCode::BAD_REQUEST, "error reading raft message")),
    }
}

async fn leases(node: &Node, path: &str, request: Request<Incoming>) -> Answer {
    let body = match body_of(request, QUESTION_BYTES_MAX).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let bad = || text(StatusCode::BAD_REQUEST, "error unmarshalling request");
    let call = if path == "/leases" {
        let Ok(request) = pb::LeaseKeepAliveRequest::decode(body) else {
            return bad();
        };
        LeaseCall::KeepAlive { id: request.id }
    } else {
        let Ok(TimeToLiveRequest {
            request: Some(request),
        }) = TimeToLiveRequest::decode(body)
        else {
            return bad();
        };
        let (id, keys) = (request.id, request.keys);
        LeaseCall::TimeToLive { id, keys }
    };
    if !node.is_leader() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "not the leader");
    }
    match (node.lease(call.clone()).await, call) {
        (Ok((answer, _)), LeaseCall::KeepAlive { id }) if answer.ttl > 0 => {
            let (header, ttl) = (Some(node.header_now()), answer.ttl);
            protobuf(&pb::LeaseKeepAliveResponse { header, id, ttl })
        }
        (Ok((answer, revision)), LeaseCall::TimeToLive { id, .. }) if answer.ttl >= 0 => {
            let LeaseAnswer {
                ttl,
                granted_ttl,
                keys,
                ..
            } = answer;
            let response = Some(pb::LeaseTimeToLiveResponse {
                header: Some(node.header(revision)),
                id,
                ttl,
                granted_ttl,
                keys,
            });
            protobuf(&TimeToLiveResponse { response })
        }
        (Ok(_), _) => text(StatusCode::NOT_FOUND, "lease not found"),
        (Err(error), _) => text(StatusCode::REQUEST_TIMEOUT, &error.to_string()),
    }
}

fn protobuf(message: &impl prost::Message) -> Answer {
    let body = message.encode_to_vec();
    page(StatusCode::OK, "application/protobuf", body.into())
}

fn version(node: &Node) -> Answer {
    let decided = node.cluster_version().ok().flatten();
    let cluster = decided.as_deref().unwrap_or("not_decided");
    json(format!(
        "{{\"etcdserver\":\"{ETCD_VERSION}\",\"etcdcluster\":\"{cluster}\",\"storage\":\"{CLUSTER_VERSION}\"}}"
    ))
}

fn json_of(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(body) => json(body + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// An error in the format of etcd's Raft handlers.
fn message(status: StatusCode, what: &str) -> Answer {
    let body = serde_json::json!({ "message": what }).to_string();
    page(status, "application/json", body.into())
}

/// Current time as RFC 3339, in whole seconds.
fn now_text() -> String {
    let seconds = i64::try_from(crate::clock::unix_time().as_secs()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.0}")
}

fn json(body: String) -> Answer {
    page(StatusCode::OK, "application/json", body.into())
}

fn text(status: StatusCode, body: &str) -> Answer {
    page(
        status,
        "text/plain; charset=utf-8",
        format!("{body}\n").into(),
    )
}

fn page(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    response
}

/// A body that ends only when the peer opens a new stream or is no longer a peer.
pub(super) struct Stream {
    messages: Receiver<Message>,
    encoder: Encoder,
    beat: Interval,
    traffic: Arc<Traffic>,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut out = Vec::new();
        let this = &mut *self;
        while out.len() < WRITE_BYTES {
            match this.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => this.encoder.message(&message, &mut out),
                Poll::Ready(None) if out.is_empty() => return Poll::Ready(None),
                _ => break,
            }
        }
        if out.is_empty() {
            ready!(this.beat.poll_tick(cx));
            this.encoder.heartbeat(&mut out);
        }
        this.traffic.sent_bytes.add(out.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}
