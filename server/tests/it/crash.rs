//! `kill -9` at random moments under write load: nothing acknowledged is lost, no transaction is
//! torn, revisions never go back. `STELE_CRASH_ROUNDS` rounds (5 unless told).

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use tokio::task::JoinHandle;

use crate::rng::Rng;
use crate::subject;

const WRITERS: usize = 8;
/// The kill comes this long after the writers began, at most.
const LIFE_MS_MAX: usize = 150;

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
        server.kill();
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
        let put = |key: String| pb::RequestOp {
            request: Some(Op::RequestPut(pb::PutRequest {
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
    told.written = rows;
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
