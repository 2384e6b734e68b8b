//! Requests and replies between bytes and structs: what every call pays before and after the work.

#![expect(clippy::unwrap_used, reason = "a bench that fails has nothing to time")]

use std::hint::black_box;

use benches::workload::{Checksum, Keys, value};
use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    Compare, InternalRaftRequest, PutRequest, RangeRequest, RangeResponse, RequestHeader,
    RequestOp, ResponseHeader, TxnRequest,
};
use etcd_api::mvccpb::KeyValue;
use etcd_api::raw;
use prost::Message;

/// Key-values in the reply that is encoded.
const PAGE: usize = 500;

fn put_request() -> PutRequest {
    PutRequest {
        key: Keys::new(1, 1_000_000).next_key().to_vec().into(),
        value: value(1).to_vec().into(),
        ..PutRequest::default()
    }
}

/// The shape of an update by an API server: put if unchanged, else read.
fn txn_request() -> TxnRequest {
    let put = put_request();
    TxnRequest {
        compare: vec![Compare {
            target: CompareTarget::Mod.into(),
            key: put.key.clone(),
            target_union: Some(TargetUnion::ModRevision(1_000_000)),
            ..Compare::default()
        }],
        failure: vec![RequestOp {
            request: Some(Request::RequestRange(RangeRequest {
                key: put.key.clone(),
                ..RangeRequest::default()
            })),
        }],
        success: vec![RequestOp {
            request: Some(Request::RequestPut(put)),
        }],
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    let put: Bytes = put_request().encode_to_vec().into();
    group.throughput(Throughput::Bytes(put.len() as u64));
    group.bench_function("put", |b| {
        b.iter(|| PutRequest::decode(black_box(put.clone())).unwrap());
    });
    let txn: Bytes = txn_request().encode_to_vec().into();
    group.throughput(Throughput::Bytes(txn.len() as u64));
    group.bench_function("txn", |b| {
        b.iter(|| TxnRequest::decode(black_box(txn.clone())).unwrap());
    });
    let entry = InternalRaftRequest {
        header: Some(RequestHeader {
            id: u64::MAX,
            ..RequestHeader::default()
        }),
        put: Some(put_request()),
        ..InternalRaftRequest::default()
    };
    let entry: Bytes = entry.encode_to_vec().into();
    group.throughput(Throughput::Bytes(entry.len() as u64));
    group.bench_function("log entry", |b| {
        b.iter(|| InternalRaftRequest::decode(black_box(entry.clone())).unwrap());
    });
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut keys = Keys::new(1, 1_000_000);
    let key_values: Vec<KeyValue> = (0..PAGE as i64)
        .map(|revision| KeyValue {
            key: keys.next_key().to_vec().into(),
            value: value(1).to_vec().into(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
        })
        .collect();
    let header = Some(ResponseHeader {
        cluster_id: u64::MAX,
        member_id: u64::MAX,
        revision: 1_000_000,
        raft_term: 2,
    });
    let encoded = key_values.iter().map(|pair| pair.encode_to_vec().into());
    let raw = raw::RangeResponse {
        header,
        kvs: encoded.collect(),
        more: false,
        count: PAGE as i64,
    };
    let typed = RangeResponse {
        header,
        kvs: key_values,
        more: false,
        count: PAGE as i64,
    };
    let mut checksum = Checksum::default();
    checksum.add(&raw.encode_to_vec());

    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Elements(PAGE as u64));
    let mut out = BytesMut::with_capacity(typed.encoded_len());
    group.bench_function("range of 500", |b| {
        b.iter(|| {
            out.clear();
            black_box(&typed).encode(&mut out).unwrap();
        });
    });
    group.bench_function("range of 500, encoded before", |b| {
        b.iter(|| {
            out.clear();
            black_box(&raw).encode(&mut out).unwrap();
        });
    });
    group.finish();
    eprintln!("request: checksum {:016x}", checksum.number());
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
