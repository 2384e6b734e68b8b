//! The listeners for the other members: Raft's traffic goes to the peers, and the other requests of
//! members are answered by the server.

use std::convert::Infallible;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::serve::Door;
use super::version;
use crate::basics::error::Error;
use crate::member::cluster::peer::lease::{
    KEEP_ALIVE_PATH, TIME_TO_LIVE_PATH, TimeToLiveResponse, call_of,
};
use crate::member::cluster::peer::page::{
    PeerResponse, body_of, header_of, json, message, page, text,
};
use crate::member::cluster::peer::{Peers, hash, serve};
use crate::member::event::{LeaseAnswer, LeaseCall};
use crate::net::shares::Shares;
use crate::net::socket::Socket;
use crate::net::tls::Acceptor;
use crate::runtime::etcd_server::EtcdServer;
use crate::runtime::etcd_server::members::{NOT_FOUND, NOT_LEARNER};

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEADER_PATIENCE: Duration = Duration::from_secs(5);
/// Limit for the body of a request that carries no Raft message.
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// Limit for that body to arrive. Anybody may ask, and each holds one of the connections that are
/// there for the members.
const QUESTION_PATIENCE: Duration = HEADER_PATIENCE;

/// Serves the other members on `doors` until the process ends.
pub(crate) fn listen(doors: Vec<Door>, peers: &Peers, server: &EtcdServer) {
    let shares = Shares::for_peers();
    for door in doors {
        let shares = shares.clone();
        peers.spawn(accept(door, shares, peers.clone(), server.clone()));
    }
}

async fn accept(door: Door, shares: Shares, peers: Peers, server: EtcdServer) {
    let Door {
        bound, tls, quota, ..
    } = door;
    let listener = match bound.listen() {
        Ok(listener) => listener,
        Err(error) => crate::telemetry::fatal("failed to listen to peers", &error),
    };
    loop {
        match listener.accept().await {
            Ok(socket) => {
                let Some(place) = shares.enter(socket.remote()) else {
                    continue;
                };
                // At once, unless several that lost their places have not gone yet.
                let permit = quota.admit().await;
                let served = serve_socket(socket, tls.clone(), peers.clone(), server.clone());
                tokio::spawn(async move {
                    let _permit = permit;
                    place.hold(served).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a peer's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_socket(socket: Socket, tls: Option<Acceptor>, peers: Peers, server: EtcdServer) {
    match tls {
        None => connection(socket, peers, server).await,
        Some(acceptor) => {
            if let Some(stream) = acceptor.accept_there(socket).await {
                connection(stream, peers, server).await;
            }
        }
    }
}

async fn connection<S>(stream: S, peers: Peers, server: EtcdServer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let (peers, server) = (peers.clone(), server.clone());
        async move { Ok::<_, Infallible>(answer(&peers, &server, request).await) }
    });
    // The stream on this connection reports how it ends.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(peers: &Peers, server: &EtcdServer, request: Request<Incoming>) -> PeerResponse {
    let path = request.uri().path().to_owned();
    let promoted = path.strip_prefix("/members/promote/");
    let posted = [
        "/raft",
        "/raft/snapshot",
        KEEP_ALIVE_PATH,
        TIME_TO_LIVE_PATH,
    ];
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
        "/version" => json(version::versions(server)),
        "/members" => match server.members() {
            Ok(members) => json_of(&members),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        "/members/hashkv" => hash_kv(peers, server, request).await,
        "/downgrade/enabled" => downgrade(server).await,
        "/raft/probing" => json(format!("{{\"OK\":true,\"Now\":\"{}\"}}", now_text())),
        "/raft" => serve::raft(peers, request).await,
        "/raft/snapshot" => serve::snapshot(peers, request).await,
        "/raft/snapshot/held" => serve::held(peers, &request),
        KEEP_ALIVE_PATH | TIME_TO_LIVE_PATH => leases(server, &path, request).await,
        path => match (path.strip_prefix("/raft/stream/"), promoted) {
            (Some(rest), _) => serve::stream(peers, rest, &request),
            (_, Some(id)) => promote(server, id).await,
            _ => text(StatusCode::NOT_FOUND, "404 page not found"),
        },
    };
    serve::introduce(peers, &mut response);
    response
}

/// Promotes a learner on request of a follower, which forwards the call to the leader.
async fn promote(server: &EtcdServer, id: &str) -> PeerResponse {
    let Ok(number) = id.parse::<u64>() else {
        let what = format!("member {id} not found in cluster");
        return text(StatusCode::NOT_FOUND, &what);
    };
    let error = match server.promote_member(number).await {
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

async fn hash_kv(peers: &Peers, server: &EtcdServer, request: Request<Incoming>) -> PeerResponse {
    let cluster = format!("{:x}", peers.me().cluster_id);
    let theirs = header_of(&request, "X-Etcd-Cluster-ID").unwrap_or_default();
    if !theirs.is_empty() && theirs != cluster {
        return text(StatusCode::PRECONDITION_FAILED, "cluster ID mismatch");
    }
    let body = match body_of(request, QUESTION_BYTES_MAX, QUESTION_PATIENCE).await {
        Ok(body) => body,
        Err(_) => return text(StatusCode::BAD_REQUEST, "error reading body"),
    };
    let Some(revision) = hash::revision_of(&body) else {
        return text(StatusCode::BAD_REQUEST, "error unmarshalling request");
    };
    match server.hash_kv(revision).await {
        Ok(found) => json(hash::answer(&found)),
        Err(error) => text(StatusCode::BAD_REQUEST, &hash::refusal(&error)),
    }
}

async fn downgrade(server: &EtcdServer) -> PeerResponse {
    match server.linearizable().await {
        Ok(()) => match server.downgrade_info() {
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

async fn leases(server: &EtcdServer, path: &str, request: Request<Incoming>) -> PeerResponse {
    let body = match body_of(request, QUESTION_BYTES_MAX, QUESTION_PATIENCE).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let Some(call) = call_of(path, body) else {
        return text(StatusCode::BAD_REQUEST, "error unmarshalling request");
    };
    if !server.is_leader() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "not the leader");
    }
    match (server.lease(call.clone()).await, call) {
        (Ok((answer, _)), LeaseCall::KeepAlive { id }) if answer.ttl > 0 => {
            let (header, ttl) = (Some(server.header_now()), answer.ttl);
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
                header: Some(server.header(revision)),
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

fn protobuf(message: &impl prost::Message) -> PeerResponse {
    let body = message.encode_to_vec();
    page(StatusCode::OK, "application/protobuf", body.into())
}

fn json_of(value: &impl serde::Serialize) -> PeerResponse {
    match serde_json::to_string(value) {
        Ok(body) => json(body + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Current time as RFC 3339, in whole seconds.
fn now_text() -> String {
    let seconds = i64::try_from(crate::basics::clock::unix_time().as_secs()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.0}")
}
