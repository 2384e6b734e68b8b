//! A deletion of more keys than are deleted at once, compared with etcd while its tombstones are
//! still being written: answers, watch events, hashes and leases must be equal.

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::Event;
use pb::request_op::Request as Op;
use pb::watch_request::RequestUnion;
use testkit::{Launch, Tools};
use tokio_stream::StreamExt;

/// Written in an order of their own.
const KEYS: u64 = 60_000;
const STRIDE: u64 = 7919;
const PUTS_PER_TXN: u64 = 100;
const LEASE: i64 = 7;

#[tokio::test]
async fn a_large_deletion_is_told_as_by_etcd() {
    let stele = scene(Launch::program(env!("CARGO_BIN_EXE_stele"))).await;
    let Some(tools) = Tools::or_skip("a large deletion beside etcd") else {
        return;
    };
    let etcd = scene(Launch::etcd(&tools)).await;
    for (etcd, stele) in etcd.iter().zip(&stele) {
        assert_eq!(etcd, stele);
    }
    assert_eq!(etcd.len(), stele.len());
}

async fn scene(launch: Launch) -> Vec<String> {
    let server = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    let lease = pb::LeaseGrantRequest {
        ttl: 600,
        id: LEASE,
    };
    client.lease().lease_grant(lease).await.unwrap();
    for first in (0..KEYS).step_by(PUTS_PER_TXN as usize) {
        let ops = (first..first + PUTS_PER_TXN).map(put_number).collect();
        txn(&client, ops).await;
    }
    let mut told = Vec::new();
    let answer = txn(
        &client,
        vec![
            delete(&key(1000), &key(30_000)),
            put(b"between", b"x", 0),
            delete(&key(30_500), b"\0"),
        ],
    )
    .await;
    let revision = answer.header.as_ref().unwrap().revision;
    told.push(format!("{:?}", answer.responses));
    txn(&client, vec![put(&key(2000), b"again", LEASE)]).await;
    txn(&client, vec![put(&key(50_000), b"again", 0)]).await;
    told.push(hash(&client, 0).await);
    for (revision, limit) in [(0, 0), (revision - 1, 3), (revision, 5)] {
        let request = pb::RangeRequest {
            key: key(900).into(),
            range_end: key(3100).into(),
            limit,
            revision,
            keys_only: true,
            ..Default::default()
        };
        let range = client.kv().range(request).await.unwrap().into_inner();
        told.push(format!("{} {:?}", range.count, range.kvs));
    }
    let about = pb::LeaseTimeToLiveRequest {
        id: LEASE,
        keys: true,
    };
    let about = client.lease().lease_time_to_live(about).await.unwrap();
    // etcd's have no order.
    let mut attached = about.into_inner().keys;
    attached.sort();
    told.push(format!("{attached:?}"));
    told.extend(events(&client, revision).await);
    let compaction = pb::CompactionRequest {
        revision,
        physical: true,
    };
    client.kv().compact(compaction).await.unwrap();
    for at in [0, revision, revision + 1] {
        told.push(hash(&client, at).await);
    }
    let revoke = pb::LeaseRevokeRequest { id: LEASE };
    client.lease().lease_revoke(revoke).await.unwrap();
    told.push(hash(&client, 0).await);
    told
}

/// All events from the revision on, as far as the puts behind the deletion.
async fn events(client: &Client, revision: i64) -> Vec<String> {
    let create = pb::WatchCreateRequest {
        key: b"\0"[..].into(),
        range_end: b"\0"[..].into(),
        start_revision: revision,
        prev_kv: true,
        ..Default::default()
    };
    let request = pb::WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    // The stream of requests stays open.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut answers = client.watch().watch(requests).await.unwrap().into_inner();
    let mut events = Vec::new();
    let newest = |event: &Event| event.kv.as_ref().unwrap().mod_revision;
    while events.last().map(newest) != Some(revision + 2) {
        let answer = answers.message().await.unwrap().expect("the watch goes on");
        assert!(!answer.canceled, "{answer:?}");
        events.extend(answer.events);
    }
    events.iter().map(|event| format!("{event:?}")).collect()
}

async fn txn(client: &Client, success: Vec<pb::RequestOp>) -> pb::TxnResponse {
    let request = pb::TxnRequest {
        success,
        ..Default::default()
    };
    client.kv().txn(request).await.unwrap().into_inner()
}

async fn hash(client: &Client, revision: i64) -> String {
    let request = pb::HashKvRequest { revision };
    let hash = client.maintenance().hash_kv(request).await.unwrap();
    let pb::HashKvResponse {
        hash,
        compact_revision,
        hash_revision,
        ..
    } = hash.into_inner();
    format!("{hash} at {hash_revision}, compacted at {compact_revision}")
}

fn put_number(number: u64) -> pb::RequestOp {
    let lease = if number.is_multiple_of(3) { LEASE } else { 0 };
    put(
        &key(number * STRIDE % KEYS),
        number.to_string().as_bytes(),
        lease,
    )
}

fn put(key: &[u8], value: &[u8], lease: i64) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(Op::RequestPut(pb::PutRequest {
            key: key.to_vec().into(),
            value: value.to_vec().into(),
            lease,
            ..Default::default()
        })),
    }
}

fn delete(key: &[u8], range_end: &[u8]) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(Op::RequestDeleteRange(pb::DeleteRangeRequest {
            key: key.to_vec().into(),
            range_end: range_end.to_vec().into(),
            ..Default::default()
        })),
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}
