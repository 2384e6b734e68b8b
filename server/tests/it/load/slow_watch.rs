//! A watching client that does not read. It must not slow down others, and when it reads again it
//! gets every event, in order.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use testkit::Server;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::harness::subject;

/// Far more than the windows, sockets and queues between server and client hold.
const PUTS: usize = 1_500;
const VALUE_BYTES: usize = 32 << 10;
const KEYS: usize = 50;
const PUTTERS: usize = 4;
/// For all of the slow client's backlog to arrive.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(60);
/// A put beside a client that does not read is as quick as any: this is far above that, and far
/// below the time the slow client stays away.
const PUT_WITHIN: Duration = Duration::from_secs(60);
/// What the server may hold for a client that does not read, beside the data itself.
const HELD_BYTES_MAX: u64 = 48 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_costs_nobody_anything_and_misses_nothing() {
    let server = subject::launch()
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    // One connection of its own: a window shared with others would stall them by HTTP/2's rules.
    let mut slow = Watching::open(&server, &[("slow", ""), ("b", "c"), ("b", "\0")]).await;
    let mut same_connection = slow.another().await;
    let mut quick = Watching::open(&server, &[("b", "\0")]).await;
    let reader = tokio::spawn(async move {
        let events = quick.read(PUTS).await;
        (quick, events)
    });
    let resident = server.usage().unwrap().anonymous_bytes;
    let putters: Vec<_> = (0..PUTTERS)
        .map(|n| tokio::spawn(put_all(server.url(), n)))
        .collect();
    for putter in putters {
        putter.await.unwrap();
    }
    // The quick watch has all of it while the slow one has read nothing.
    let (_quick, expected) = reader.await.unwrap();
    if !subject::is_etcd() {
        // Everything put, at most twice (tree and log on their way), and little for the watcher.
        let grown = server
            .usage()
            .unwrap()
            .anonymous_bytes
            .saturating_sub(resident);
        let data = (PUTS * VALUE_BYTES) as u64;
        assert!(
            grown < 2 * data + HELD_BYTES_MAX,
            "the server grew by {grown} for {data}"
        );
    }
    let read = tokio::time::timeout(CAUGHT_UP_WITHIN, slow.read(2 * PUTS)).await;
    let read = read.expect("the slow client catches up");
    for watch in [1, 2] {
        let of_watch: Vec<_> = read
            .iter()
            .filter(|e| e.watch == watch)
            .map(Seen::event)
            .collect();
        let expected: Vec<_> = expected.iter().map(Seen::event).collect();
        assert_eq!(of_watch.len(), PUTS);
        assert!(
            of_watch == expected,
            "watch {watch} differs from the quick reader's"
        );
    }
    let revisions: Vec<i64> = expected.iter().map(|seen| seen.revision).collect();
    assert!(
        revisions.is_sorted_by(|a, b| a < b),
        "revisions are out of order: {revisions:?}"
    );
    assert_eq!(same_connection.read(PUTS).await.len(), PUTS);
}

async fn put_all(url: String, putter: usize) {
    let client = Client::connect(url).await.unwrap();
    for number in (putter..PUTS).step_by(PUTTERS) {
        let mut value = vec![number as u8; VALUE_BYTES];
        value[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let key = format!("b/{}", number % KEYS).into();
        let put = pb::PutRequest {
            key,
            value: value.into(),
            ..Default::default()
        };
        let done = tokio::time::timeout(PUT_WITHIN, client.kv().put(put)).await;
        done.expect("a put waits for no watcher").unwrap();
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    watch: i64,
    revision: i64,
    key: Bytes,
    /// The put's number, from the start of its value.
    number: Bytes,
}

impl Seen {
    fn event(&self) -> (i64, &Bytes, &Bytes) {
        (self.revision, &self.key, &self.number)
    }
}

/// One stream with some watches on it; nothing is read unless asked for.
struct Watching {
    client: Client,
    _requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
}

impl Watching {
    async fn open(server: &Server, ranges: &[(&str, &str)]) -> Watching {
        Watching::on(Client::connect(server.url()).await.unwrap(), ranges).await
    }

    /// One more stream on the same connection.
    async fn another(&self) -> Watching {
        Watching::on(self.client.clone(), &[("b", "\0")]).await
    }

    async fn on(client: Client, ranges: &[(&str, &str)]) -> Watching {
        let (requests, receiver) = mpsc::channel(ranges.len());
        for (key, end) in ranges {
            let create = pb::WatchCreateRequest {
                key: Bytes::copy_from_slice(key.as_bytes()),
                range_end: Bytes::copy_from_slice(end.as_bytes()),
                ..Default::default()
            };
            let request_union = Some(RequestUnion::CreateRequest(create));
            requests
                .send(pb::WatchRequest { request_union })
                .await
                .unwrap();
        }
        let responses = client
            .watch()
            .watch(ReceiverStream::new(receiver))
            .await
            .unwrap();
        let mut watching = Watching {
            client,
            _requests: requests,
            responses: responses.into_inner(),
        };
        for _ in ranges {
            let created = watching.responses.message().await.unwrap().unwrap();
            assert!(created.created && !created.canceled, "{created:?}");
        }
        watching
    }

    async fn read(&mut self, count: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let response = self.responses.message().await.unwrap().unwrap();
            assert!(!response.canceled, "{response:?}");
            for event in response.events {
                let kv = event.kv.unwrap();
                let (revision, number) = (kv.mod_revision, Bytes::copy_from_slice(&kv.value[..8]));
                seen.push(Seen {
                    watch: response.watch_id,
                    revision,
                    key: kv.key,
                    number,
                });
            }
        }
        seen
    }
}
