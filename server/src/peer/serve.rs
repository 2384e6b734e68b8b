//! The answering end: streams that peers read from us, and their requests.

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
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
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Peers;
use super::codec::{Encoder, FRAME_BYTES_MAX, Kind};
use super::lease::{TimeToLiveRequest, TimeToLiveResponse};
use super::transfer;
use crate::config::{CLUSTER_VERSION, ETCD_VERSION};
use crate::event::{LeaseAnswer, LeaseCall};
use crate::node::Node;
use crate::snapshot::rows;

/// etcd's: a third of what readers put up with.
const LINK_HEARTBEAT: Duration = Duration::from_millis(1667);
/// Bytes gathered for one write.
const WRITE_BYTES: usize = 256 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEADER_PATIENCE: Duration = Duration::from_secs(5);

type Answer = Response<Either<Full<Bytes>, Stream>>;

pub(super) async fn accept(listener: TcpListener, peers: Peers, node: Node) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => crate::runtime::fatal("failed to listen to peers", &error),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, peers.clone(), node.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a peer's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peers: Peers, node: Node) {
    // It only tunes.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (peers, node) = (peers.clone(), node.clone());
        async move { Ok::<_, Infallible>(answer(&peers, &node, request).await) }
    });
    // How a connection ends is told by the stream that ends with it.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(peers: &Peers, node: &Node, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let get = request.method() == Method::GET;
    let posted = ["/raft", "/raft/snapshot", "/leases", "/leases/internal"];
    let wanted = !posted.contains(&path.as_str());
    if get != wanted {
        return text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    }
    let mut response = match path.as_str() {
        "/version" => version(node),
        "/members" => members(node),
        "/raft/probing" => json(format!("{{\"OK\":true,\"Now\":\"{}\"}}", now_text())),
        "/raft" => raft(peers, request).await,
        "/raft/snapshot" => snapshot(peers, request).await,
        "/leases" | "/leases/internal" => leases(node, &path, request).await,
        path => match path.strip_prefix("/raft/stream/") {
            Some(rest) => stream(peers, rest, &request),
            None => text(StatusCode::NOT_FOUND, "404 page not found"),
        },
    };
    if let Ok(id) = format!("{:x}", peers.me().cluster_id).parse() {
        response.headers_mut().insert("X-Etcd-Cluster-ID", id);
    }
    let form = http::HeaderValue::from_static(rows::FORM);
    response.headers_mut().insert(rows::HEADER, form);
    response
}

/// What is wrong with who asks, in etcd's words.
fn refuse_stranger<B>(peers: &Peers, request: &Request<B>) -> Option<Answer> {
    let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok());
    let cluster = format!("{:x}", peers.me().cluster_id);
    match header("X-Etcd-Cluster-ID") {
        Some(theirs) if theirs != cluster => {
            Some(text(StatusCode::PRECONDITION_FAILED, "cluster ID mismatch"))
        }
        _ => None,
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
    let to = request
        .headers()
        .get("X-Raft-To")
        .and_then(|to| to.to_str().ok());
    if to != Some(format!("{:x}", peers.me().member_id).as_str()) {
        return text(StatusCode::PRECONDITION_FAILED, "to field mismatch");
    }
    let Some(messages) = peers.attach(from, kind) else {
        return text(StatusCode::NOT_FOUND, "error sender not found");
    };
    let mut beat = interval(LINK_HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = Stream {
        messages,
        encoder: Encoder::new(kind),
        beat,
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
    let body = match body_of(request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match raft::wire::decode_message(&body) {
        Ok(message) if message.to != peers.me().member_id => {
            text(StatusCode::FORBIDDEN, "to field mismatch")
        }
        Ok(message) => {
            peers.receive(message);
            page(StatusCode::NO_CONTENT, "text/plain", Bytes::new())
        }
        Err(_) => text(StatusCode::BAD_REQUEST, "error unmarshalling raft message"),
    }
}

async fn snapshot(peers: &Peers, request: Request<Incoming>) -> Answer {
    if let Some(refusal) = refuse_stranger(peers, &request) {
        return refusal;
    }
    let Some(receiving) = peers.0.receiver.begin() else {
        let what = "another snapshot is being received";
        return text(StatusCode::SERVICE_UNAVAILABLE, what);
    };
    let form = transfer::form_of(request.headers());
    tracing::info!(form = ?form, "receiving database snapshot");
    match transfer::receive(receiving, form, request.into_body()).await {
        Ok((message, _)) if message.to != peers.me().member_id => {
            text(StatusCode::FORBIDDEN, "to field mismatch")
        }
        Ok((message, received)) => {
            let index = received.applied().index;
            tracing::info!("snapshot-index" = index, "received database snapshot");
            peers.receive_snapshot(message, received);
            page(StatusCode::NO_CONTENT, "text/plain", Bytes::new())
        }
        Err(error) => {
            tracing::warn!(%error, "failed to receive a database snapshot");
            text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

async fn body_of(request: Request<Incoming>) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), FRAME_BYTES_MAX as usize);
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(_) => Err(text(StatusCode::BAD_REQUEST, "error reading raft message")),
    }
}

async fn leases(node: &Node, path: &str, request: Request<Incoming>) -> Answer {
    let body = match body_of(request).await {
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

fn members(node: &Node) -> Answer {
    let members = node.members().unwrap_or_default();
    match serde_json::to_string(&members) {
        Ok(body) => json(body + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// RFC 3339, to the second.
fn now_text() -> String {
    let seconds = crate::runtime::unix_time().as_secs();
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days to a date, by eras of 400 years that begin in March.
    let z = days + 719_468;
    let (era, day) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
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

/// A body that ends only when the peer reads anew, or is a peer no more.
pub(super) struct Stream {
    messages: Receiver<Message>,
    encoder: Encoder,
    beat: Interval,
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
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}
