//! Keys through a proxy: the cache of serializable reads, and `--namespace`.

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::response_op::Response;
use tonic::Code;

use super::process::Proxy;
use super::{get, proxied, put, range, server};

fn serializable(key: &str) -> pb::RangeRequest {
    pb::RangeRequest {
        serializable: true,
        ..range(key)
    }
}

/// Hits, misses and entries of the cache.
fn counts(proxy: &Proxy) -> [f64; 3] {
    let names = ["hits", "misses", "keys"];
    names.map(|name| proxy.metric(&format!("etcd_grpc_proxy_cache_{name}_total")))
}

#[tokio::test]
async fn serializable_reads_are_answered_from_a_cache_until_a_write() {
    let server = server();
    let (proxy, client) = proxied(&server, &[]).await;
    let direct = Client::connect(server.url()).await.unwrap();
    put(&client, "a", "1").await;
    let read = async || get(&client, serializable("a")).await.unwrap().unwrap();
    assert_eq!(read().await, "1");
    assert_eq!(counts(&proxy), [0.0, 1.0, 1.0]);
    // Written elsewhere: that is what such a read is content with.
    put(&direct, "a", "2").await;
    assert_eq!(read().await, "1");
    assert_eq!(counts(&proxy), [1.0, 1.0, 1.0]);
    // A linearizable read sees it, and so do others after it.
    assert_eq!(get(&client, range("a")).await.unwrap().unwrap(), "2");
    assert_eq!(read().await, "2");
    put(&client, "a", "3").await;
    assert_eq!(counts(&proxy)[2], 0.0);
    assert_eq!(read().await, "3");
    let delete = pb::DeleteRangeRequest {
        key: "a".into(),
        range_end: "b".into(),
        prev_kv: false,
    };
    client.kv().delete_range(delete).await.unwrap();
    assert_eq!(get(&client, serializable("a")).await.unwrap(), None);

    let old = pb::RangeRequest {
        revision: 2,
        ..serializable("a")
    };
    assert_eq!(get(&client, old.clone()).await.unwrap().unwrap(), "1");
    let compact = pb::CompactionRequest {
        revision: 3,
        physical: false,
    };
    client.kv().compact(compact).await.unwrap();
    let refused = get(&client, old).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
}

#[tokio::test]
async fn a_namespace_looks_like_everything_there_is() {
    let server = server();
    let (_proxy, client) = proxied(&server, &["--namespace=n/"]).await;
    let direct = Client::connect(server.url()).await.unwrap();
    put(&client, "a", "1").await;
    put(&direct, "a", "outside").await;
    put(&direct, "o", "outside").await;
    assert_eq!(get(&direct, range("n/a")).await.unwrap().unwrap(), "1");
    assert_eq!(get(&client, range("a")).await.unwrap().unwrap(), "1");
    let everything = pb::RangeRequest {
        range_end: "\0".into(),
        ..range("\0")
    };
    let all = client.kv().range(everything).await.unwrap().into_inner();
    let keys: Vec<_> = all.kvs.iter().map(|kv| kv.key.clone()).collect();
    assert_eq!(keys, ["a"]);

    let lease = pb::LeaseGrantRequest { ttl: 60, id: 7 };
    client.lease().lease_grant(lease).await.unwrap();
    for (who, key) in [(&client, "l"), (&direct, "outside")] {
        let put = pb::PutRequest {
            key: key.into(),
            lease: 7,
            ..pb::PutRequest::default()
        };
        who.kv().put(put).await.unwrap();
    }
    let question = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
    let left = client.lease().lease_time_to_live(question).await.unwrap();
    assert_eq!(left.into_inner().keys, ["l"]);

    let txn = pb::TxnRequest {
        compare: vec![pb::Compare {
            key: "a".into(),
            target: pb::compare::CompareTarget::Version as i32,
            target_union: Some(pb::compare::TargetUnion::Version(1)),
            ..pb::Compare::default()
        }],
        success: vec![pb::RequestOp {
            request: Some(Request::RequestRange(range("a"))),
        }],
        failure: Vec::new(),
    };
    let answer = client.kv().txn(txn).await.unwrap().into_inner();
    assert!(answer.succeeded, "{answer:?}");
    let Some(Response::ResponseRange(read)) = &answer.responses[0].response else {
        panic!("{answer:?}");
    };
    assert_eq!(read.kvs[0].key, "a");
    let refused = get(&client, range("")).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: key is not provided");
}
