//! Input that no well-behaved client sends. Each must get an error that names the problem, with
//! etcd's text if etcd has one, and the server must keep running.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use http::uri::PathAndQuery;
use testkit::Server;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::harness::subject;
use crate::usual::pages::samples;

const KIB: usize = 1024;
/// What gRPC takes unless told otherwise: 1.5 MiB for the request and room around it.
const MESSAGE_BYTES_MAX: usize = 2048 * KIB;
/// Idle and half-open connections held against the server at once.
const HALF_OPEN: usize = 200;
/// No answer takes this long.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Field 1 announces more bytes than there are; a varint without end; a group never closed.
const MALFORMED: [&[u8]; 4] = [
    b"\x0a\x7f",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x0b\x08",
    b"\xff\xff\xff\xff",
];

const UNARY: [&str; 10] = [
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/Put",
    "/etcdserverpb.KV/DeleteRange",
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.KV/Compact",
    "/etcdserverpb.Lease/LeaseGrant",
    "/etcdserverpb.Lease/LeaseRevoke",
    "/etcdserverpb.Cluster/MemberList",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Maintenance/HashKV",
];

const STREAMED: [&str; 3] = [
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.KV/RangeStream",
];

#[tokio::test]
async fn malformed_protobuf_is_refused_by_every_method() {
    let wire = Wire::new().await;
    for path in UNARY {
        for bytes in MALFORMED {
            let status = wire.call(path, bytes).await.unwrap_err();
            assert_eq!(status.code(), Code::Internal, "{path} {bytes:?}: {status}");
            let text = status.message();
            assert!(
                text.starts_with("grpc: error unmarshalling request: "),
                "{path}: {text}"
            );
        }
    }
    for path in STREAMED {
        let status = wire.stream(path, MALFORMED[0]).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{path}: {status}");
    }
    if !subject::is_etcd() {
        let samples = samples(&wire.server);
        for api in ["watch", "lease-keepalive"] {
            let labels = format!("{{API=\"{api}\",Type=\"receive\"}}");
            let name = format!("etcd_network_server_stream_failures_total{labels}");
            assert_eq!(samples.get(&name), Some(&1.0), "{name}");
        }
    }
    wire.lives_on().await;
}

#[tokio::test]
async fn unknown_methods_and_services_are_named() {
    let wire = Wire::new().await;
    for (path, text) in [
        (
            "/etcdserverpb.KV/Foo",
            "unknown method Foo for service etcdserverpb.KV",
        ),
        (
            "/etcdserverpb.Watch/Foo",
            "unknown method Foo for service etcdserverpb.Watch",
        ),
        (
            "/etcdserverpb.Nothing/Range",
            "unknown service etcdserverpb.Nothing",
        ),
        (
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "unknown service grpc.reflection.v1.ServerReflection",
        ),
    ] {
        let status = wire.call(path, b"").await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unimplemented, text)
        );
    }
    wire.lives_on().await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_its_size() {
    let wire = Wire::new().await;
    for size in [MESSAGE_BYTES_MAX + 1, 3 * MESSAGE_BYTES_MAX] {
        let bytes = vec![0; size];
        for path in ["/etcdserverpb.KV/Put", "/etcdserverpb.KV/Range"] {
            let status = wire.call(path, &bytes).await.unwrap_err();
            let text =
                format!("grpc: received message larger than max ({size} vs. {MESSAGE_BYTES_MAX})");
            assert_eq!(
                (status.code(), status.message()),
                (Code::ResourceExhausted, &*text)
            );
        }
        let status = wire
            .stream("/etcdserverpb.Watch/Watch", &bytes)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
    wire.lives_on().await;
}

#[tokio::test]
async fn a_request_over_the_servers_own_limit_is_refused_and_writes_nothing() {
    let wire = Wire::new().await;
    for path in [0, 1] {
        let put = pb::PutRequest {
            key: "large".into(),
            value: vec![7; 1536 * KIB].into(),
            ..Default::default()
        };
        let mut kv = wire.client.kv();
        let status = if path == 0 {
            kv.put(put).await.unwrap_err()
        } else {
            let request = Some(pb::request_op::Request::RequestPut(put));
            let success = vec![pb::RequestOp { request }];
            kv.txn(pb::TxnRequest {
                success,
                ..Default::default()
            })
            .await
            .unwrap_err()
        };
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "etcdserver: request is too large");
    }
    let range = pb::RangeRequest {
        key: "large".into(),
        ..Default::default()
    };
    assert_eq!(
        wire.client
            .kv()
            .range(range)
            .await
            .unwrap()
            .into_inner()
            .count,
        0
    );
    wire.lives_on().await;
}

/// How much is too much differs; that a client with a novel in its headers costs nobody else
/// anything does not.
#[tokio::test]
async fn a_huge_header_list_harms_only_its_sender() {
    let wire = Wire::new().await;
    let sender = Client::connect(wire.server.url()).await.unwrap();
    let mut request = Request::new(pb::RangeRequest {
        key: "a".into(),
        ..Default::default()
    });
    for number in 0..64 {
        let name = format!("novel-{number}")
            .parse::<tonic::metadata::AsciiMetadataKey>()
            .unwrap();
        let chapter = MetadataValue::try_from("x".repeat(16 * KIB)).unwrap();
        request.metadata_mut().insert(name, chapter);
    }
    let answer = tokio::time::timeout(ANSWER_WITHIN, sender.kv().range(request)).await;
    let answer = answer.expect("an answer, if only an error");
    if !subject::is_etcd() {
        answer.expect_err("a megabyte of headers is over the limit");
    }
    wire.lives_on().await;
}

#[tokio::test]
async fn half_open_connections_cost_nobody_anything() {
    let wire = Wire::new().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Settings, then a HEADERS frame that announces more than it brings.
    let cut = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x40\x01\x04\0\0\0\x01\x82";
    let begun: [&[u8]; 6] = [b"", b"P", &preface[..10], preface, cut, b"GET /health HT"];
    let mut held = Vec::new();
    for number in 0..HALF_OPEN {
        let mut connection = wire.dial();
        connection.write_all(begun[number % begun.len()]).unwrap();
        if number % 3 == 0 {
            connection.shutdown(Shutdown::Write).unwrap();
        }
        held.push(connection);
    }
    wire.lives_on().await;
    drop(held);
    wire.lives_on().await;
}

#[tokio::test]
async fn http_1_on_the_grpc_port_gets_http_1_answers() {
    let wire = Wire::new().await;
    let said = |request: &str| {
        let answer = wire.say(request.as_bytes());
        answer.lines().next().unwrap_or_default().to_owned()
    };
    let with_host = "Host: localhost\r\nConnection: close\r\n\r\n";
    let health = wire.say(format!("GET /health HTTP/1.1\r\n{with_host}").as_bytes());
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
    assert!(
        health.ends_with(r#"{"health":"true","reason":""}"#),
        "{health}"
    );
    let nothing = said(&format!("GET /no/such/page HTTP/1.1\r\n{with_host}"));
    assert_eq!(nothing, "HTTP/1.1 404 Not Found");
    // Its target is no path.
    let tunnel = said(&format!("CONNECT localhost:1 HTTP/1.1\r\n{with_host}"));
    assert_eq!(tunnel, "HTTP/1.1 404 Not Found");
    let grpc = "Content-Type: application/grpc\r\nContent-Length: 0\r\n";
    let put = said(&format!(
        "POST /etcdserverpb.KV/Put HTTP/1.1\r\n{grpc}{with_host}"
    ));
    assert_eq!(put, "HTTP/1.1 404 Not Found");
    // etcd hangs up without a word; a word is better.
    let word = if subject::is_etcd() {
        ""
    } else {
        "HTTP/1.1 400 Bad Request"
    };
    assert_eq!(said("not http at all\r\n\r\n"), word);
    wire.lives_on().await;
}

#[tokio::test]
async fn noise_behind_the_preface_ends_that_connection_only() {
    let wire = Wire::new().await;
    let mut noise = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    noise.extend((0..4096_u32).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8));
    // Whatever is said to it, it is over soon: `say` reads to the end of the connection.
    wire.say(&noise);
    wire.lives_on().await;
}

/// A running server and ways of talking to it past every generated client.
struct Wire {
    server: Server,
    client: Client,
    channel: Channel,
}

impl Wire {
    async fn new() -> Wire {
        let server = subject::launch()
            .start()
            .unwrap_or_else(|error| panic!("{error}"));
        let channel = Endpoint::from_shared(server.url())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let client = Client::new(channel.clone());
        Wire {
            server,
            client,
            channel,
        }
    }

    async fn call(&self, path: &'static str, bytes: &[u8]) -> Result<Bytes, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let request = Request::new(Bytes::copy_from_slice(bytes));
        let called = grpc.unary(request, PathAndQuery::from_static(path), Raw);
        let answer = tokio::time::timeout(ANSWER_WITHIN, called).await;
        Ok(answer.expect("an answer, if only an error")?.into_inner())
    }

    /// The first message of a streaming method's answer to one request.
    async fn stream(&self, path: &'static str, bytes: &[u8]) -> Result<Option<Bytes>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let request = Request::new(tokio_stream::iter([Bytes::copy_from_slice(bytes)]));
        let path = PathAndQuery::from_static(path);
        let answer = async {
            grpc.streaming(request, path, Raw)
                .await?
                .into_inner()
                .message()
                .await
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        answer.expect("an answer, if only an error")
    }

    fn dial(&self) -> TcpStream {
        let connection = TcpStream::connect(("127.0.0.1", self.server.client_port())).unwrap();
        connection.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        connection
    }

    /// Sends bytes and reads until the server closes the connection.
    fn say(&self, bytes: &[u8]) -> String {
        let mut connection = self.dial();
        connection.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset is an answer too.
        let end = connection.read_to_end(&mut answer);
        let timed_out = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "the connection stays open: {answer:?}");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The same process still writes and reads, on this connection and on a new one.
    async fn lives_on(&self) {
        let fresh = Client::connect(self.server.url()).await.unwrap();
        for client in [&self.client, &fresh] {
            let (key, value) = (Bytes::from_static(b"alive"), Bytes::from_static(b"yes"));
            let put = pb::PutRequest {
                key: key.clone(),
                value,
                ..Default::default()
            };
            client.kv().put(put).await.unwrap();
            let range = pb::RangeRequest {
                key,
                ..Default::default()
            };
            assert_eq!(
                client
                    .kv()
                    .range(range)
                    .await
                    .unwrap()
                    .into_inner()
                    .kvs
                    .len(),
                1
            );
        }
        let log = self.server.log();
        assert!(!log.contains("panic"), "{log}");
    }
}

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}
