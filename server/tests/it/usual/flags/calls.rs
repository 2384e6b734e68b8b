//! Flags that change the answers to calls, or their timing.

#![expect(
    clippy::disallowed_methods,
    reason = "shows that a pause is no shorter than asked for"
)]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use testkit::{Launch, Server};
use tonic::{Code, Status};

use super::Probe;
use crate::harness::raw_http2::{GOAWAY, Http2, PING, SETTINGS};
use crate::harness::subject;

pub(super) const PROBES: &[Probe] = &[
    (&["quota-backend-bytes"], quota),
    (&["max-txn-ops", "max-request-bytes"], request_limits),
    (&["max-concurrent-streams"], streams),
    (&["grpc-keepalive-min-time"], pings_of_clients),
    (
        &["grpc-keepalive-interval", "grpc-keepalive-timeout"],
        pings_of_the_server,
    ),
    (&["watch-progress-notify-interval"], progress),
    (
        &["compaction-batch-limit", "compaction-sleep-interval"],
        compaction_steps,
    ),
    (
        &["auto-compaction-mode", "auto-compaction-retention"],
        auto_compaction,
    ),
];

fn run<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(work)
}

fn start(flags: &[&str]) -> Server {
    let launch: Launch = subject::launch().flags(flags);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

async fn put(client: &Client, key: &str, bytes: usize) -> Result<(), Status> {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: vec![b'x'; bytes].into(),
        ..Default::default()
    };
    client.kv().put(put).await.map(drop)
}

/// The refusal comes when the alarm is in place, not before.
fn quota() {
    run(async {
        let server = start(&["--quota-backend-bytes=1"]);
        let client = Client::connect(server.url()).await.unwrap();
        let refused = put(&client, "a", 1).await.unwrap_err();
        assert_eq!(
            refused.message(),
            "etcdserver: mvcc: database space exceeded"
        );
        let alarms = pb::AlarmRequest::default();
        let alarms = client
            .maintenance()
            .alarm(alarms)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(alarms.alarms.len(), 1, "the alarm is committed: {alarms:?}");
        assert_eq!(alarms.alarms[0].alarm, pb::AlarmType::Nospace as i32);
    });
}

fn request_limits() {
    run(async {
        let server = start(&["--max-txn-ops=1", "--max-request-bytes=1000"]);
        let client = Client::connect(server.url()).await.unwrap();
        let operation = || pb::RequestOp {
            request: Some(Op::RequestRange(pb::RangeRequest {
                key: "a".into(),
                ..Default::default()
            })),
        };
        let txn = |count: usize| pb::TxnRequest {
            success: (0..count).map(|_| operation()).collect(),
            ..Default::default()
        };
        client.kv().txn(txn(1)).await.unwrap();
        let refused = client.kv().txn(txn(2)).await.unwrap_err();
        assert_eq!(
            refused.message(),
            "etcdserver: too many operations in txn request"
        );
        put(&client, "a", 900).await.unwrap();
        let refused = put(&client, "a", 1001).await.unwrap_err();
        assert_eq!(refused.message(), "etcdserver: request is too large");

        // More than the log takes in one entry, whatever the flag says.
        let server = start(&["--max-request-bytes=67108864"]);
        let client = Client::connect(server.url()).await.unwrap();
        let refused = put(&client, "a", 32 << 20).await.unwrap_err();
        assert_eq!(refused.message(), "etcdserver: request is too large");
        put(&client, "a", 31 << 20).await.unwrap();
    });
}

fn streams() {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let server = start(&["--max-concurrent-streams=7"]);
    let settings = Http2::connect(server.client_port()).find(SETTINGS).unwrap();
    let value = settings.payload.chunks_exact(6).find_map(|setting| {
        let id = u16::from_be_bytes([setting[0], setting[1]]);
        (id == MAX_CONCURRENT_STREAMS).then(|| setting[5])
    });
    assert_eq!(value, Some(7));
}

/// How many pings in a row a connection with an open call survives, up to a bound.
fn survived(server: &Server) -> (usize, Http2) {
    const PINGS: usize = 20;
    let mut connection = Http2::connect(server.client_port());
    connection.call(1, "/etcdserverpb.Watch/Watch");
    let pings = (0..PINGS).take_while(|_| connection.ping().is_some());
    (pings.count(), connection)
}

fn pings_of_clients() {
    let server = start(&[]);
    let (count, _) = survived(&server);
    assert!(count < 20, "5 s between pings are the default");
    let mut connection = Http2::connect(server.client_port());
    connection.call(1, "/etcdserverpb.Watch/Watch");
    for _ in 0..8 {
        connection.send(PING, 0, 0, b"12345678");
    }
    let goaway = connection.find(GOAWAY).expect("a reason before the end");
    let code = u32::from_be_bytes(goaway.payload[4..8].try_into().unwrap());
    assert_eq!((code, &goaway.payload[8..]), (11, &b"too_many_pings"[..]));
    // The others do not notice.
    run(async {
        let client = Client::connect(server.url()).await.unwrap();
        put(&client, "a", 1).await.unwrap();
    });
    let server = start(&["--grpc-keepalive-min-time=1ns"]);
    assert_eq!(survived(&server).0, 20);
}

fn pings_of_the_server() {
    let server = start(&[
        "--grpc-keepalive-interval=1s",
        "--grpc-keepalive-timeout=1s",
    ]);
    let mut connection = Http2::connect(server.client_port());
    connection.call(1, "/etcdserverpb.Watch/Watch");
    assert!(connection.find(PING).is_some(), "the server pings");
    assert!(
        connection.find(DATA_NEVER).is_none(),
        "and gives up on who does not answer"
    );
}

/// No frame of this type is sent.
const DATA_NEVER: u8 = 0xff;

fn progress() {
    run(async {
        let server = start(&["--watch-progress-notify-interval=100ms"]);
        let client = Client::connect(server.url()).await.unwrap();
        let create = pb::WatchRequest {
            request_union: Some(pb::watch_request::RequestUnion::CreateRequest(
                pb::WatchCreateRequest {
                    key: "a".into(),
                    progress_notify: true,
                    ..Default::default()
                },
            )),
        };
        let (sender, requests) = tokio::sync::mpsc::channel(1);
        sender.send(create).await.unwrap();
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        let mut answers = client.watch().watch(requests).await.unwrap().into_inner();
        assert!(answers.message().await.unwrap().unwrap().created);
        let within = Duration::from_secs(20);
        let progress = tokio::time::timeout(within, answers.message()).await;
        let progress = progress.expect("a notification").unwrap().unwrap();
        assert!(
            progress.events.is_empty() && !progress.created,
            "{progress:?}"
        );
    });
}

fn compaction_steps() {
    const STEPS: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(100);
    run(async {
        let server = start(&[
            "--compaction-batch-limit=10",
            "--compaction-sleep-interval=100ms",
        ]);
        let client = Client::connect(server.url()).await.unwrap();
        for _ in 0..=STEPS * 10 {
            put(&client, "a", 1).await.unwrap();
        }
        let began = Instant::now();
        let request = pb::CompactionRequest {
            revision: i64::from(STEPS * 10 + 1),
            physical: true,
        };
        client.kv().compact(request).await.unwrap();
        // A pause is never shorter than asked for.
        assert!(
            began.elapsed() >= PAUSE * (STEPS - 1),
            "{:?}",
            began.elapsed()
        );
        let line = "finished scheduled compaction";
        assert!(server.wait_for_log(line, Duration::from_secs(20)));
    });
}

/// The first look is at the start: a restart on some history is compacted at once.
fn auto_compaction() {
    run(async {
        let mut server = start(&[
            "--auto-compaction-mode=revision",
            "--auto-compaction-retention=2",
        ]);
        let client = Client::connect(server.url()).await.unwrap();
        for _ in 0..10 {
            put(&client, "a", 1).await.unwrap();
        }
        drop(client);
        server.terminate();
        server.start().unwrap_or_else(|error| panic!("{error}"));
        assert!(server.wait_for_log(
            "completed auto revision compaction",
            Duration::from_secs(20)
        ));
        let client = Client::connect(server.url()).await.unwrap();
        let old = pb::RangeRequest {
            key: "a".into(),
            revision: 3,
            ..Default::default()
        };
        let refused = client.kv().range(old).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange);
    });
}
