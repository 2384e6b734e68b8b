//! Hostile clients: each may cost the server only bounded memory, and other clients must still be
//! answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use testkit::Server;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::harness::raw_http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, HEADERS, Http2, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, call_headers, headers,
};
use crate::harness::subject;

/// What no attack here may make the server hold. It starts with some 20 MiB.
const RESIDENT_BYTES_MAX: u64 = 300 << 20;

/// No answer takes this long.
const SOON: Duration = Duration::from_secs(20);

const PUT: &str = "/etcdserverpb.KV/Put";
const CANCEL: &[u8] = &[0, 0, 0, 8];

fn start() -> Server {
    let started = subject::launch().start();
    started.unwrap_or_else(|error| panic!("{error}"))
}

/// The server holds little and answers a client that means well.
async fn is_well(server: &Server) {
    is_well_within(server, RESIDENT_BYTES_MAX).await;
}

async fn is_well_within(server: &Server, bytes: u64) {
    let client = Client::connect(server.url()).await.unwrap();
    let put = pb::PutRequest {
        key: "alive".into(),
        ..Default::default()
    };
    let answer = tokio::time::timeout(SOON, client.kv().put(put)).await;
    answer.expect("an answer").unwrap();
    let resident = server.usage().unwrap().resident_bytes;
    assert!(resident < bytes, "{resident} bytes");
}

#[tokio::test]
async fn heads_that_never_end_are_closed() {
    const CONNECTIONS: usize = 200;
    let server = start();
    let slow: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.client_port())).unwrap();
            stream
                .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nA")
                .unwrap();
            stream
        })
        .collect();
    is_well(&server).await;
    for mut stream in slow {
        // Half a minute is the limit; the first one waits for it.
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        let is_open = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_open, "a head that never ends keeps its connection");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn calls_reset_as_soon_as_they_are_made_end_their_connection() {
    let server = start();
    let mut connection = Http2::connect(server.client_port());
    let block = call_headers(PUT);
    let mut stream = 1;
    for _ in 0..100_000 {
        let sent = connection.send(HEADERS, END_HEADERS, stream, &block)
            && connection.send(RST_STREAM, 0, stream, CANCEL);
        if !sent {
            break;
        }
        stream += 2;
    }
    is_well(&server).await;
}

#[tokio::test]
async fn a_head_without_end_is_cut() {
    let server = start();
    let mut connection = Http2::connect(server.client_port());
    connection.send(HEADERS, 0, 1, &call_headers(PUT));
    let filler = headers(&[("x-filler", &"y".repeat(200))]).repeat(70);
    let sent = (0..2_000).take_while(|_| connection.send(CONTINUATION, 0, 1, &filler));
    assert!(sent.count() < 2_000, "30 MB of headers were taken");
    is_well(&server).await;
}

/// One long header put into the table, then named thousands of times by a byte each.
#[tokio::test]
async fn a_small_head_that_unfolds_to_a_large_one_is_refused() {
    let server = start();
    for _ in 0..20 {
        let mut connection = Http2::connect(server.client_port());
        let mut block = call_headers(PUT);
        // With incremental indexing; lengths above 126 go on in a second byte.
        block.extend([0x40, 1, b'x', 0x7f, 0x81, 0x1d]);
        block.extend([b'y'; 3840]);
        block.extend([0xbe; 8_000]);
        connection.send(HEADERS, END_HEADERS, 1, &block);
        let mut message = vec![0, 0, 0, 0, 3];
        message.extend(b"\x0a\x01a");
        connection.send(DATA, 1, 1, &message);
    }
    is_well(&server).await;
    let client = Client::connect(server.url()).await.unwrap();
    let range = pb::RangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    let found = client.kv().range(range).await.unwrap().into_inner();
    assert_eq!(found.count, 0, "the put under that head was carried out");
}

/// Compression was never agreed on: what claims to be compressed is not unfolded.
#[tokio::test]
async fn compressed_messages_are_refused() {
    let server = start();
    let mut connection = Http2::connect(server.client_port());
    let mut block = call_headers(PUT);
    block.extend(headers(&[("grpc-encoding", "gzip")]));
    connection.send(HEADERS, END_HEADERS, 1, &block);
    connection.send(DATA, 1, 1, &[1, 0, 0, 0, 3, 0x1f, 0x8b, 8]);
    let answer = connection.find(HEADERS);
    assert!(answer.is_some(), "an answer, if only an error");
    is_well(&server).await;
}

fn nested(depth: usize) -> pb::TxnRequest {
    (0..depth).fold(pb::TxnRequest::default(), |inner, _| pb::TxnRequest {
        success: vec![pb::RequestOp {
            request: Some(Op::RequestTxn(inner)),
        }],
        ..Default::default()
    })
}

#[tokio::test]
async fn transactions_may_be_deep_without_harm() {
    let mut server = start();
    let client = Client::connect(server.url()).await.unwrap();
    client.kv().txn(nested(3)).await.unwrap();
    // Beyond what a decoder follows.
    for depth in [50, 200, 1_000] {
        let answer = tokio::time::timeout(SOON, client.kv().txn(nested(depth))).await;
        let refused = answer.expect("an answer").err();
        assert!(refused.is_some() || depth == 50, "{depth}");
    }
    // Wide at each level: operations are counted through all of them.
    let mut wide = nested(0);
    for _ in 0..3 {
        let operation = pb::RequestOp {
            request: Some(Op::RequestTxn(wide.clone())),
        };
        wide.success = vec![operation; 40];
    }
    let answer = tokio::time::timeout(SOON, client.kv().txn(wide)).await;
    assert!(answer.is_ok(), "an answer, if only an error");
    is_well(&server).await;
    // What was taken is in the log, and is read from there.
    server.kill_and_restart();
    is_well(&server).await;
}

#[tokio::test]
async fn a_transaction_may_have_128_operations_of_the_longest_keys() {
    const KEY_BYTES: usize = 11 << 10;
    let server = start();
    let client = Client::connect(server.url()).await.unwrap();
    let txn = |bytes: usize| pb::TxnRequest {
        success: (0..128u8)
            .map(|number| pb::RequestOp {
                request: Some(Op::RequestPut(pb::PutRequest {
                    key: Bytes::from(vec![number; bytes]),
                    ..Default::default()
                })),
            })
            .collect(),
        ..Default::default()
    };
    for _ in 0..10 {
        client.kv().txn(txn(KEY_BYTES)).await.unwrap();
    }
    let refused = client.kv().txn(txn(KEY_BYTES * 2)).await.unwrap_err();
    assert!(
        matches!(
            refused.code(),
            Code::InvalidArgument | Code::ResourceExhausted
        ),
        "{refused}"
    );
    is_well(&server).await;
}

#[tokio::test]
async fn a_stream_may_have_thousands_of_watches() {
    const WATCHES: usize = 5_000;
    let server = start();
    let client = Client::connect(server.url()).await.unwrap();
    let (sender, requests) = tokio::sync::mpsc::channel(100);
    let sending = tokio::spawn(async move {
        for number in 0..WATCHES {
            let create = pb::WatchCreateRequest {
                key: format!("k{number}").into(),
                ..Default::default()
            };
            let request = pb::WatchRequest {
                request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)),
            };
            sender.send(request).await.unwrap();
        }
        sender
    });
    let answers = client.watch().watch(ReceiverStream::new(requests)).await;
    let mut answers = answers.unwrap().into_inner();
    for _ in 0..WATCHES {
        let answer = tokio::time::timeout(SOON, answers.message()).await;
        assert!(answer.expect("an answer").unwrap().unwrap().created);
    }
    let _open = sending.await.unwrap();
    let put = pb::PutRequest {
        key: "k4999".into(),
        ..Default::default()
    };
    client.kv().put(put).await.unwrap();
    let event = tokio::time::timeout(SOON, answers.message()).await;
    assert_eq!(event.expect("an event").unwrap().unwrap().events.len(), 1);
    is_well(&server).await;
}

/// The headers and the one message of a put, on a stream of its own.
fn send_put(connection: &mut Http2, stream: u32, message: &[u8]) -> bool {
    const END_STREAM: u8 = 1;
    let mut data = vec![0];
    data.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    data.extend(message);
    connection.call(stream, PUT) && connection.send(DATA, END_STREAM, stream, &data)
}

#[tokio::test]
async fn messages_that_never_end_are_refused_when_they_hold_too_much() {
    const CONNECTIONS: usize = 420;
    const ANNOUNCED: u32 = 1_500_000;
    const SENT: usize = 1_400_000;
    /// What all of them may hold, and what the server holds anyway.
    const HELD_BYTES_MAX: u64 = (512 << 20) + RESIDENT_BYTES_MAX;
    let server = start();
    let begin = || {
        let mut prefix = vec![0];
        prefix.extend(ANNOUNCED.to_be_bytes());
        let mut connection = Http2::connect(server.client_port());
        // Until both have agreed on more there is room for 64 KiB only.
        connection.find(WINDOW_UPDATE).unwrap();
        connection.send(SETTINGS, ACK, 0, b"");
        connection.call(1, PUT);
        connection.send(DATA, 0, 1, &prefix);
        connection
    };
    let open: Vec<Http2> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = begin();
            for part in vec![0; SENT].chunks(16_000) {
                connection.send(DATA, 0, 1, part);
            }
            connection
        })
        .collect();
    let resident = server.usage().unwrap().resident_bytes;
    assert!(resident < HELD_BYTES_MAX, "{resident} bytes");
    // Those that were refused gave back what they held; so a few more find room, and then none.
    let mut late = Vec::new();
    loop {
        assert!(late.len() < CONNECTIONS, "nobody is refused");
        let mut connection = begin();
        for part in vec![0; SENT].chunks(16_000) {
            connection.send(DATA, 0, 1, part);
        }
        connection.send(PING, 0, 0, b"are you?");
        let answer = std::iter::from_fn(|| connection.read())
            .find(|frame| frame.kind == HEADERS || frame.kind == PING && frame.flags == ACK);
        if answer.expect("an answer").kind == HEADERS {
            break;
        }
        late.push(connection);
    }
    drop(late);
    drop(open);
    // They go, and what they held with them.
    let client = Client::connect(server.url()).await.unwrap();
    loop {
        let put = pb::PutRequest {
            key: "after".into(),
            value: vec![b'v'; 1_000_000].into(),
            ..Default::default()
        };
        match client.kv().put(put).await {
            Ok(_) => break,
            Err(status) => assert!(status.message().contains("too many requests"), "{status}"),
        }
    }
}

/// Far more connections than there are cores, and far more requests than can be served: each is
/// answered or refused, and neither memory nor anybody else suffers for it.
#[tokio::test]
async fn thousands_of_connections_with_more_than_can_be_served_are_answered_or_refused() {
    const CONNECTIONS: usize = 5_000;
    const PUTS_EACH: u32 = 8;
    // Ours are as many as the server's.
    server::net::descriptors::raise_limit().unwrap();
    /// What a connection with calls under way may cost.
    const BYTES_EACH: u64 = 64 << 10;
    let held_max = RESIDENT_BYTES_MAX + CONNECTIONS as u64 * BYTES_EACH;
    let server = start();
    let put = pb::PutRequest {
        key: "the same key from everybody".into(),
        value: vec![b'v'; 256].into(),
        ..Default::default()
    };
    let message = prost::Message::encode_to_vec(&put);
    let mut open: Vec<Http2> = (0..CONNECTIONS)
        .map(|_| Http2::connect(server.client_port()))
        .collect();
    for number in 0..PUTS_EACH {
        for connection in &mut open {
            assert!(send_put(connection, 2 * number + 1, &message));
        }
    }
    is_well_within(&server, held_max).await;
    let answers = open.iter_mut().map(|connection| {
        let ends = std::iter::from_fn(|| connection.find(HEADERS));
        // A put that was made has headers and trailers, one that was refused has both in one.
        let mut open = PUTS_EACH;
        for frame in ends {
            const END_STREAM: u8 = 1;
            open -= u32::from(frame.flags & END_STREAM == END_STREAM);
            if open == 0 {
                break;
            }
        }
        PUTS_EACH - open
    });
    assert_eq!(answers.sum::<u32>(), PUTS_EACH * CONNECTIONS as u32);
    is_well_within(&server, held_max).await;
}
