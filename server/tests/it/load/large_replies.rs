//! Replies of many megabytes to clients that do not read them. The server's memory must stay
//! bounded, and other clients must not be affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::Client;
use etcd_api::codec::ProtoCodec;
use etcd_api::etcdserverpb as pb;
use http::uri::PathAndQuery;
use pb::request_op::Request;
use pb::response_op::Response;
use testkit::{Server, Usage};
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

use crate::harness::subject;

const VALUES: usize = 64;
const VALUE_BYTES: usize = 1 << 20;
const REPLY_BYTES: u64 = (VALUES * VALUE_BYTES) as u64;

/// The server's own: what large replies may hold together.
const BUDGET_BYTES: u64 = 256 << 20;
/// Beside them: what each connection and a reply that waits hold, and what the allocator keeps.
const BESIDE_BYTES: u64 = 32 << 20;
/// What a range stream adds, whatever its size.
const STREAM_BYTES_MAX: u64 = 32 << 20;

const CLIENTS: usize = 8;
/// So many whole replies are within the budget.
const SERVED: usize = 3;

/// Between two looks at the server's memory.
const LOOK: Duration = Duration::from_millis(2);

/// Generous: the server is slow when the machine is.
const WITHIN: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_replies_hold_no_more_than_themselves_and_their_budget() {
    if subject::is_etcd() {
        return;
    }
    let mut server = subject::launch()
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..VALUES {
        let put = pb::PutRequest {
            key: format!("big/{number}").into(),
            value: vec![number as u8; VALUE_BYTES].into(),
            ..Default::default()
        };
        client.kv().put(put).await.unwrap();
    }
    drop(client);
    // Started anew it has nothing of this in memory.
    server.terminate();
    server.start().unwrap();
    let memory = Memory::of(&server);

    // A stream that is not read, then is.
    let mut stream = open(&server, "/etcdserverpb.KV/RangeStream").await;
    let first: pb::RangeStreamResponse = stream.message().await.unwrap().unwrap();
    small_ones_pass(&server).await;
    let mut bytes = value_bytes(&first.range_response.unwrap());
    while let Some(part) = stream.message().await.unwrap() {
        bytes += value_bytes(&part.range_response.unwrap());
    }
    assert_eq!(bytes, REPLY_BYTES);
    memory.assert_peak_below(STREAM_BYTES_MAX);

    // One reply: once, not twice.
    let reply: Reply = open(&server, "/etcdserverpb.KV/Range").await;
    small_ones_pass(&server).await;
    read(reply).await;
    memory.assert_peak_below(REPLY_BYTES + BESIDE_BYTES / 2);

    // A transaction whose ranges are large together is one such reply.
    let mut reply = transaction(connect(&server).await).await;
    small_ones_pass(&server).await;
    let response = reply.message().await.unwrap().unwrap();
    let bytes = response.responses.iter().map(|op| match &op.response {
        Some(Response::ResponseRange(range)) => value_bytes(range),
        other => panic!("{other:?}"),
    });
    assert_eq!(bytes.collect::<Vec<_>>(), [REPLY_BYTES, VALUE_BYTES as u64]);
    memory.assert_peak_below(REPLY_BYTES + VALUE_BYTES as u64 + BESIDE_BYTES / 2);

    // More than there is memory for: some are ready, the others wait for those to be read.
    let (ready, mut replies) = tokio::sync::mpsc::channel(CLIENTS);
    for _ in 0..CLIENTS {
        let (ready, grpc) = (ready.clone(), connect(&server).await);
        tokio::spawn(async move {
            let reply: Reply = call(grpc, "/etcdserverpb.KV/Range").await;
            ready.send(reply).await.unwrap();
        });
    }
    let mut unread = Vec::new();
    while unread.len() < SERVED {
        unread.extend(replies.recv().await);
    }
    small_ones_pass(&server).await;
    while let Ok(reply) = replies.try_recv() {
        unread.push(reply);
    }
    // What connections hold of each may make room for some more.
    let served = unread.len();
    assert!(served < CLIENTS - 2, "the others have to wait");
    for reply in unread {
        read(reply).await;
    }
    for _ in served..CLIENTS {
        let reply = tokio::time::timeout(WITHIN, replies.recv()).await;
        read(reply.expect("its turn comes").unwrap()).await;
    }
    memory.assert_peak_below(BUDGET_BYTES + BESIDE_BYTES);
}

type Reply = Streaming<pb::RangeResponse>;

/// A connection of its own: a window shared with others would stall them by HTTP/2's rules.
async fn connect(server: &Server) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    let mut grpc = Grpc::new(endpoint.connect().await.unwrap());
    grpc = grpc.max_decoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    grpc
}

async fn open<T>(server: &Server, path: &'static str) -> Streaming<T>
where
    T: prost::Message + Default + Send + 'static,
{
    let grpc = connect(server).await;
    let opened = tokio::time::timeout(WITHIN, call(grpc, path)).await;
    opened.expect("nothing stands in its way")
}

/// Ends when the reply begins; nothing of it is read.
async fn call<T>(mut grpc: Grpc<Channel>, path: &'static str) -> Streaming<T>
where
    T: prost::Message + Default + Send + 'static,
{
    let request = tonic::Request::new(pb::RangeRequest {
        key: "big/".into(),
        range_end: "big0".into(),
        ..Default::default()
    });
    let codec = ProtoCodec::<pb::RangeRequest, T>::default();
    let path = PathAndQuery::from_static(path);
    let response = grpc.server_streaming(request, path, codec).await;
    response.unwrap().into_inner()
}

/// All values, then one of them again.
async fn transaction(mut grpc: Grpc<Channel>) -> Streaming<pb::TxnResponse> {
    let range = |limit| pb::RequestOp {
        request: Some(Request::RequestRange(pb::RangeRequest {
            key: "big/".into(),
            range_end: "big0".into(),
            limit,
            ..Default::default()
        })),
    };
    let request = tonic::Request::new(pb::TxnRequest {
        success: vec![range(0), range(1)],
        ..Default::default()
    });
    let codec = ProtoCodec::<pb::TxnRequest, pb::TxnResponse>::default();
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
    let response = grpc.server_streaming(request, path, codec).await;
    response.unwrap().into_inner()
}

async fn read(mut reply: Reply) {
    let response = reply.message().await.unwrap().unwrap();
    assert_eq!(value_bytes(&response), REPLY_BYTES);
    assert_eq!(response.count, VALUES as i64);
    assert!(reply.message().await.unwrap().is_none());
}

fn value_bytes(response: &pb::RangeResponse) -> u64 {
    response.kvs.iter().map(|kv| kv.value.len() as u64).sum()
}

/// Calls beside the large ones are answered; while they are, replies fill what there is.
async fn small_ones_pass(server: &Server) {
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..100 {
        let range = pb::RangeRequest {
            key: Bytes::from(format!("big/{}", number % 10)),
            ..Default::default()
        };
        let passed = tokio::time::timeout(WITHIN, client.kv().range(range)).await;
        let response = passed.expect("a small range waits for nobody").unwrap();
        assert_eq!(response.into_inner().kvs.len(), 1);
    }
}

/// The most memory of its own that a process has had, above what it had.
struct Memory {
    before: u64,
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Memory {
    fn of(server: &Server) -> Memory {
        let pid = server.pid();
        let memory = Memory {
            before: server.usage().unwrap().anonymous_bytes,
            peak: Arc::default(),
            over: Arc::default(),
        };
        let (peak, over) = (Arc::clone(&memory.peak), Arc::clone(&memory.over));
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                let Ok(usage) = Usage::of(pid) else { return };
                if over.load(Ordering::Relaxed) {
                    return;
                }
                peak.fetch_max(usage.anonymous_bytes, Ordering::Relaxed);
            }
        });
        memory
    }

    fn assert_peak_below(&self, bytes: u64) {
        let grown = self
            .peak
            .load(Ordering::Relaxed)
            .saturating_sub(self.before);
        assert!(grown < bytes, "{grown} bytes, not below {bytes}");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
