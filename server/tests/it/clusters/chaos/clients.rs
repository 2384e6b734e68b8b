//! Clients that record their requests and answers: registers for the linearizability checker, and
//! separate keys to check that acknowledged writes are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::{request_op, response_op};
use testkit::history::{Key, Operation, Outcome, Record, Step, Value};

use crate::harness::rng::Rng;

/// Then the client takes it that no answer will come.
const CALL_PATIENCE: Duration = Duration::from_secs(3);
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Registers of a partition are used for so long; the search for an order stays short.
const PARTITION_TIME: Duration = Duration::from_millis(1500);
/// So many partitions are in use at once.
const PARTITIONS: usize = 4;
const KEYS: usize = 3;
/// A client's own keys; after that it writes them anew.
const OWN_KEYS: u32 = 400;

/// What all clients know.
pub(super) struct Common {
    pub(super) urls: Vec<String>,
    pub(super) began: Instant,
    pub(super) stop: AtomicBool,
    pub(super) values: AtomicU32,
}

impl Common {
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn fresh_value(&self) -> Value {
        self.values.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// An acknowledged write.
pub(super) struct Written {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) revision: i64,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) history: Vec<Record>,
    pub(super) written: Vec<Written>,
    pub(super) unanswered: usize,
}

/// Until told to stop.
pub(super) async fn run(common: Arc<Common>, number: usize, mut rng: Rng) -> Log {
    let mut record = Log::default();
    let mut own = 0;
    let mut connected: Option<Client> = None;
    while !common.stop.load(Ordering::Relaxed) {
        let Some(client) = &connected else {
            let url = rng.pick(&common.urls);
            let connecting = tokio::time::timeout(CONNECT_PATIENCE, Client::connect(url)).await;
            connected = connecting.ok().and_then(Result::ok);
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let answered = if rng.percent(30) {
            own += 1;
            let key = format!("own/{number}/{}", own % OWN_KEYS);
            write_own(&common, client, key, &mut record).await
        } else {
            use_registers(&common, client, number, &mut rng, &mut record).await
        };
        // A client whose call failed tries elsewhere; others move now and then.
        if !answered || rng.percent(1) {
            record.unanswered += usize::from(!answered);
            connected = None;
        }
        tokio::time::sleep(Duration::from_micros(rng.below(6000) as u64)).await;
    }
    record
}

async fn write_own(common: &Common, client: &Client, key: String, record: &mut Log) -> bool {
    let value = common.fresh_value();
    let step = Operation::of(Step::Put(0, value));
    let Some((_, revision)) = perform(client, &step, |_| key.clone()).await else {
        return false;
    };
    record.written.push(Written {
        key,
        value,
        revision,
    });
    true
}

async fn use_registers(
    common: &Common,
    client: &Client,
    number: usize,
    rng: &mut Rng,
    record: &mut Log,
) -> bool {
    let called_at = common.nanos();
    let era = (common.began.elapsed().as_millis() / PARTITION_TIME.as_millis()) as usize;
    let partition = era * PARTITIONS + rng.below(PARTITIONS);
    let operation = choose(common, rng);
    let answer = perform(client, &operation, |key| register(partition, key)).await;
    let answered = answer.is_some();
    // What was only read and never answered says nothing.
    if answered || !operation.is_read() {
        let (outcome, revision) = answer.unzip();
        record.history.push(Record {
            client: number,
            partition,
            operation,
            called_at,
            returned_at: if answered { common.nanos() } else { u64::MAX },
            outcome,
            revision,
        });
    }
    answered
}

pub(super) fn register(partition: usize, key: Key) -> String {
    format!("r/{partition:06}/{key}")
}

fn choose(common: &Common, rng: &mut Rng) -> Operation {
    let key = rng.below(KEYS);
    match rng.below(10) {
        0..4 => Operation::of(Step::Get(key)),
        4..7 => Operation::of(Step::Put(key, common.fresh_value())),
        7 => Operation::of(Step::Delete(key)),
        8 => Operation {
            // Now and then it holds: the value of whoever drew a number just before.
            when: vec![(
                key,
                common
                    .values
                    .load(Ordering::Relaxed)
                    .saturating_sub(rng.below(3) as u32),
            )],
            then: vec![
                Step::Put(key, common.fresh_value()),
                Step::Get((key + 1) % KEYS),
            ],
            otherwise: vec![Step::Get(key)],
        },
        _ => Operation {
            when: vec![(key, 0)],
            then: vec![
                Step::Put(key, common.fresh_value()),
                Step::Put((key + 1) % KEYS, common.fresh_value()),
            ],
            otherwise: (0..KEYS).map(Step::Get).collect(),
        },
    }
}

/// The answer and its revision; `None` when there was none in time, or an error.
async fn perform(
    client: &Client,
    operation: &Operation,
    name: impl Fn(Key) -> String,
) -> Option<(Outcome, i64)> {
    let mut kv = client.kv();
    let lone = match (operation.when.is_empty(), operation.then.as_slice()) {
        (true, [step]) => Some(*step),
        _ => None,
    };
    let call = async {
        Some(match lone {
            Some(Step::Get(key)) => {
                let answer = kv.range(get(name(key))).await.ok()?.into_inner();
                (of(vec![value(&answer)]), answer.header?.revision)
            }
            Some(Step::Put(key, value)) => {
                let answer = kv.put(put(name(key), value)).await.ok()?.into_inner();
                (of(vec![0]), answer.header?.revision)
            }
            Some(Step::Delete(key)) => {
                let answer = kv.delete_range(delete(name(key))).await.ok()?.into_inner();
                let header = answer.header?;
                (of(vec![answer.deleted as Value]), header.revision)
            }
            None => {
                let request = transaction(operation, name);
                let answer = kv.txn(request).await.ok()?.into_inner();
                let outcome = Outcome {
                    succeeded: answer.succeeded,
                    results: answer.responses.iter().map(result).collect(),
                };
                (outcome, answer.header?.revision)
            }
        })
    };
    tokio::time::timeout(CALL_PATIENCE, call).await.ok()?
}

fn of(results: Vec<Value>) -> Outcome {
    Outcome {
        succeeded: true,
        results,
    }
}

fn transaction(operation: &Operation, name: impl Fn(Key) -> String) -> pb::TxnRequest {
    let compare = |(key, value): &(Key, Value)| {
        let (target, union) = match value {
            0 => (CompareTarget::Version, TargetUnion::Version(0)),
            value => (
                CompareTarget::Value,
                TargetUnion::Value(value.to_string().into()),
            ),
        };
        pb::Compare {
            result: CompareResult::Equal as i32,
            target: target as i32,
            key: name(*key).into(),
            target_union: Some(union),
            ..Default::default()
        }
    };
    let step = |step: &Step| pb::RequestOp {
        request: Some(match *step {
            Step::Get(key) => request_op::Request::RequestRange(get(name(key))),
            Step::Put(key, value) => request_op::Request::RequestPut(put(name(key), value)),
            Step::Delete(key) => request_op::Request::RequestDeleteRange(delete(name(key))),
        }),
    };
    pb::TxnRequest {
        compare: operation.when.iter().map(compare).collect(),
        success: operation.then.iter().map(step).collect(),
        failure: operation.otherwise.iter().map(step).collect(),
    }
}

fn result(response: &pb::ResponseOp) -> Value {
    match &response.response {
        Some(response_op::Response::ResponseRange(range)) => value(range),
        Some(response_op::Response::ResponseDeleteRange(deleted)) => deleted.deleted as Value,
        _ => 0,
    }
}

fn value(answer: &pb::RangeResponse) -> Value {
    let kv = answer.kvs.first();
    kv.map_or(0, |kv| parse(&kv.value))
}

pub(super) fn parse(value: &[u8]) -> Value {
    let text = std::str::from_utf8(value).unwrap();
    text.parse().unwrap()
}

fn get(key: String) -> pb::RangeRequest {
    pb::RangeRequest {
        key: key.into(),
        ..Default::default()
    }
}

fn put(key: String, value: Value) -> pb::PutRequest {
    pb::PutRequest {
        key: key.into(),
        value: value.to_string().into(),
        ..Default::default()
    }
}

fn delete(key: String) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key.into(),
        ..Default::default()
    }
}
