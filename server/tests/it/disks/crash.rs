//! `kill -9` at random moments under write load, and sometimes SIGTERM. No acknowledged write is
//! lost, no transaction is torn, revisions never go back, and the history is complete from the
//! first revision. Runs `STELE_CRASH_ROUNDS` rounds (default 5).

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use pb::watch_request::RequestUnion;
use tokio::task::JoinHandle;
use tonic::Code;

use crate::harness::rng::Rng;
use crate::harness::subject;

const WRITERS: usize = 8;
/// The kill comes this long after the writers began, at most.
const LIFE_MS_MAX: usize = 150;
/// One round in so many ends by SIGTERM.
const TERMINATED_EVERY: u64 = 5;
/// Every so many writes a writer takes a lease first and attaches the row to it.
const LEASE_EVERY: u64 = 16;
/// Longer than any test.
const LEASE_SECONDS: i64 = 100_000;
/// Rounds between two readings of the whole history.
const HISTORY_EVERY: u64 = 20;
/// Every transaction puts a row and both of a pair.
const EVENTS_PER_WRITE: usize = 3;
const HISTORY_WITHIN: Duration = Duration::from_secs(60);

/// What one writer was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The newest write that was acknowledged; writes count from 1.
    written: u64,
    /// The newest revision that an answer named.
    revision: i64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_by_kill_9() {
    let rounds = subject::number("STELE_CRASH_ROUNDS", 5);
    let mut rng = Rng::new(subject::number("STELE_CRASH_SEED", 1));
    let mut server = subject::launch()
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut told = [Told::default(); WRITERS];
    for round in 1..=rounds {
        let writers: Vec<JoinHandle<Told>> = told
            .iter()
            .enumerate()
            .map(|(writer, told)| tokio::spawn(write_until_killed(server.url(), writer, *told)))
            .collect();
        tokio::time::sleep(Duration::from_millis(rng.below(LIFE_MS_MAX) as u64)).await;
        if round % TERMINATED_EVERY == 0 {
            server.terminate();
        } else {
            server.kill();
        }
        for (told, writer) in told.iter_mut().zip(writers) {
            *told = writer.await.unwrap();
        }
        server
            .start()
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let client = Client::connect(server.url()).await.unwrap();
        for (writer, told) in told.iter_mut().enumerate() {
            check(&client, writer, told).await.unwrap_or_else(|wrong| {
                panic!("round {round}, writer {writer}, told {told:?}: {wrong}")
            });
        }
        if round % HISTORY_EVERY == 0 || round == rounds {
            let read = tokio::time::timeout(HISTORY_WITHIN, check_history(&client, &told));
            read.await.expect("the history comes to its end");
        }
    }
    let written: u64 = told.iter().map(|told| told.written).sum();
    println!("{rounds} rounds, {written} acknowledged writes, none lost");
    assert!(written > 0, "the writers never got to write");
}

/// Each write is one transaction: a row of the writer's own log, and a pair of keys that must
/// always be equal.
async fn write_until_killed(url: String, writer: usize, mut told: Told) -> Told {
    let Ok(client) = Client::connect(url).await else {
        return told;
    };
    let mut kv = client.kv();
    loop {
        let number = told.written + 1;
        let lease = lease_of(writer, number);
        if lease != 0 && take_lease(&client, lease).await.is_err() {
            return told;
        }
        let put = |key: String| pb::RequestOp {
            request: Some(Op::RequestPut(pb::PutRequest {
                lease: if key.starts_with("log/") { lease } else { 0 },
                key: key.into(),
                value: number.to_string().into(),
                ..Default::default()
            })),
        };
        let success = vec![
            put(format!("log/{writer}/{number:08}")),
            put(format!("pair/{writer}/a")),
            put(format!("pair/{writer}/b")),
        ];
        let Ok(answer) = kv
            .txn(pb::TxnRequest {
                success,
                ..Default::default()
            })
            .await
        else {
            return told;
        };
        told.written = number;
        told.revision = answer
            .into_inner()
            .header
            .map_or(0, |header| header.revision);
    }
}

/// The lease that a row hangs on, or 0.
fn lease_of(writer: usize, number: u64) -> i64 {
    if number.is_multiple_of(LEASE_EVERY) {
        (writer as i64 + 1) << 32 | number as i64
    } else {
        0
    }
}

async fn take_lease(client: &Client, id: i64) -> Result<(), tonic::Status> {
    let ttl = LEASE_SECONDS;
    let mut client = client.lease();
    match client.lease_grant(pb::LeaseGrantRequest { ttl, id }).await {
        // Granted before the last kill, which took the row or the answer.
        Err(status) if status.code() == Code::FailedPrecondition => Ok(()),
        answer => answer.map(drop),
    }
}

/// Reads everything that ever happened: each revision is one whole transaction, each writer's rows
/// come one after the other, and the history ends where the store does.
async fn check_history(client: &Client, told: &[Told]) {
    let create = pb::WatchCreateRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        start_revision: 1,
        ..Default::default()
    };
    let request_union = Some(RequestUnion::CreateRequest(create));
    // Kept open: a stream whose requests have ended may end.
    let (requests, receiver) = tokio::sync::mpsc::channel(1);
    let request = pb::WatchRequest { request_union };
    requests.send(request).await.unwrap();
    let receiver = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut responses = client.watch().watch(receiver).await.unwrap().into_inner();
    let end = read(client, "log/").await.unwrap();
    let end = end.header.map_or(0, |header| header.revision);
    let (mut revision, mut events, mut rows) = (1, Vec::new(), [0; WRITERS]);
    while revision < end || events.len() < EVENTS_PER_WRITE {
        let response = responses.message().await.unwrap().unwrap();
        assert!(!response.canceled, "{response:?}");
        for event in response.events {
            let kv = event.kv.unwrap();
            if kv.mod_revision != revision {
                assert!(
                    revision == 1 || events.len() == EVENTS_PER_WRITE,
                    "torn: {events:?}"
                );
                assert_eq!(kv.mod_revision, revision + 1, "a revision is missing");
                (revision, events) = (kv.mod_revision, Vec::new());
            }
            let key = String::from_utf8(kv.key.to_vec()).unwrap();
            if let Some(row) = key.strip_prefix("log/") {
                let (writer, number) = row.split_once('/').unwrap();
                let writer: usize = writer.parse().unwrap();
                rows[writer] += 1;
                assert_eq!(number, format!("{:08}", rows[writer]), "of writer {writer}");
            }
            events.push(key);
        }
    }
    for (writer, told) in told.iter().enumerate() {
        assert_eq!(rows[writer], told.written, "rows of writer {writer}");
    }
}

/// Compares what the server has with what the writer was told, and goes on from what it has: the
/// last write may have been made without an answer.
async fn check(client: &Client, writer: usize, told: &mut Told) -> Result<(), String> {
    let log = read(client, &format!("log/{writer}/")).await?;
    let rows = log.kvs.len() as u64;
    if rows < told.written || rows > told.written + 1 {
        return Err(format!("the log has {rows} rows"));
    }
    let last = log
        .kvs
        .last()
        .map(|kv| format!("log/{writer}/{rows:08}").as_bytes() == kv.key);
    if last == Some(false) {
        return Err("the log has a gap".to_owned());
    }
    let pair = read(client, &format!("pair/{writer}/")).await?;
    let values: Vec<&[u8]> = pair.kvs.iter().map(|kv| &kv.value[..]).collect();
    let expected = rows.to_string();
    if rows > 0 && values != [expected.as_bytes(), expected.as_bytes()] {
        return Err(format!("a torn transaction: {values:?} beside {rows} rows"));
    }
    let revision = pair.header.map_or(0, |header| header.revision);
    if revision < told.revision {
        return Err(format!("the revision went back to {revision}"));
    }
    check_lease(client, writer, rows).await?;
    told.written = rows;
    Ok(())
}

/// The newest row that hangs on a lease still does, and the lease knows it.
async fn check_lease(client: &Client, writer: usize, rows: u64) -> Result<(), String> {
    let number = rows - rows % LEASE_EVERY;
    if number == 0 {
        return Ok(());
    }
    let (id, key) = (
        lease_of(writer, number),
        format!("log/{writer}/{number:08}"),
    );
    let row = read(client, &key).await?;
    if row.kvs.first().map(|kv| kv.lease) != Some(id) {
        return Err(format!("row {number} lost its lease {id}: {row:?}"));
    }
    let request = pb::LeaseTimeToLiveRequest { id, keys: true };
    let lease = client.lease().lease_time_to_live(request).await;
    let lease = lease.map_err(|status| status.to_string())?.into_inner();
    if lease.ttl <= 0 || lease.granted_ttl != LEASE_SECONDS || lease.keys != [key.as_bytes()] {
        return Err(format!("lease {id} came back as {lease:?}"));
    }
    Ok(())
}

async fn read(client: &Client, prefix: &str) -> Result<pb::RangeResponse, String> {
    let mut range_end = prefix.as_bytes().to_vec();
    *range_end.last_mut().expect("a prefix") += 1;
    let request = pb::RangeRequest {
        key: prefix.to_owned().into(),
        range_end: range_end.into(),
        ..Default::default()
    };
    let answer = client
        .kv()
        .range(request)
        .await
        .map_err(|status| status.to_string())?;
    Ok(answer.into_inner())
}
