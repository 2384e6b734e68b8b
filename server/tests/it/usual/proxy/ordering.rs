//! `--experimental-serializable-ordering`. Two servers that know nothing of each other stand for two
//! members of which one lags for ever.

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::request_op::Request;
use testkit::Server;
use tonic::{Code, Status};

use super::process::Proxy;
use super::{get, put, range, server};
use crate::harness::subject;

const ALL_LAG: &str =
    "etcdclient: no cluster members have a revision higher than the previously received revision";

const READS: usize = 20;

/// A server at revision 4 and one at revision 2, which call themselves "new" and "old".
async fn servers() -> (Server, Server) {
    let (new, old) = (server(), server());
    let direct = Client::connect(new.url()).await.unwrap();
    for value in ["older", "old", "new"] {
        put(&direct, "a", value).await;
    }
    let direct = Client::connect(old.url()).await.unwrap();
    put(&direct, "a", "old").await;
    (new, old)
}

async fn before(new: &Server, old: &Server, flags: &[&str]) -> (Proxy, Client) {
    let (new, old) = (new.client_port(), old.client_port());
    let endpoints = format!("--endpoints=127.0.0.1:{new},127.0.0.1:{old}");
    let proxy = Proxy::start(&[&[endpoints.as_str()], flags].concat());
    let client = Client::connect(proxy.url()).await.unwrap();
    (proxy, client)
}

/// A serializable read that no cache can answer.
fn serializable(number: usize) -> pb::RangeRequest {
    pb::RangeRequest {
        serializable: true,
        limit: 10 + i64::try_from(number).unwrap(),
        ..range("a")
    }
}

async fn txn(client: &Client, request: pb::RangeRequest) -> Result<i64, Status> {
    let txn = pb::TxnRequest {
        success: vec![pb::RequestOp {
            request: Some(Request::RequestRange(request)),
        }],
        ..pb::TxnRequest::default()
    };
    let answer = client.kv().txn(txn).await?.into_inner();
    Ok(answer.header.unwrap().revision)
}

/// Reads linearizably until a server has answered.
async fn see(client: &Client, server: &str) {
    while get(client, range("a")).await.unwrap().unwrap() != server {}
}

#[tokio::test]
async fn serializable_reads_do_not_go_back_in_time() {
    if subject::is_etcd() {
        // etcd's proxy takes a way around its own order.
        return;
    }
    let (mut new, old) = servers().await;
    let (_plain, client) = before(&new, &old, &[]).await;
    see(&client, "new").await;
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..READS {
        seen.extend(get(&client, serializable(number)).await.unwrap());
    }
    assert_eq!(seen.len(), 2, "a proxy without order reads from both");

    let flag = "--experimental-serializable-ordering";
    let (proxy, client) = before(&new, &old, &[flag]).await;
    assert!(proxy.log().contains("to recover ordering"));
    // A cached answer of the old server is not given either, once the new one has answered.
    get(&client, serializable(READS)).await.unwrap();
    see(&client, "new").await;
    for number in 0..=READS {
        let read = get(&client, serializable(number)).await.unwrap();
        assert_eq!(read.unwrap(), "new");
        assert_eq!(txn(&client, serializable(number)).await.unwrap(), 4);
    }
    new.kill();
    let request = || pb::RangeRequest {
        min_create_revision: 1,
        ..serializable(0)
    };
    let refusals = [
        get(&client, request()).await.unwrap_err(),
        txn(&client, request()).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::Unknown, ALL_LAG)
        );
    }
    // Who wants the present is not held up by the past.
    assert_eq!(get(&client, range("a")).await.unwrap().unwrap(), "old");
}

#[tokio::test]
async fn a_write_through_the_proxy_is_seen_by_later_reads() {
    if subject::is_etcd() {
        return;
    }
    let (new, old) = servers().await;
    let direct = Client::connect(old.url()).await.unwrap();
    while put(&direct, "a", "old").await < 4 {}
    let flag = "--experimental-serializable-ordering";
    let (_proxy, client) = before(&new, &old, &[flag]).await;
    see(&client, "new").await;
    see(&client, "old").await;
    // Both are at revision 4, and one of them gets this.
    assert_eq!(put(&client, "b", "").await, 5);
    for number in 0..READS {
        assert_eq!(txn(&client, serializable(number)).await.unwrap(), 5);
    }
}

#[tokio::test]
async fn a_cluster_with_users_does_not_stop_the_proxy() {
    if subject::is_etcd() {
        return;
    }
    let server = server();
    let direct = Client::connect(server.url()).await.unwrap();
    let root = pb::AuthUserAddRequest {
        name: "root".to_owned(),
        password: "x".to_owned(),
        ..pb::AuthUserAddRequest::default()
    };
    direct.auth().user_add(root).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest {
        user: "root".to_owned(),
        role: "root".to_owned(),
    };
    direct.auth().user_grant_role(grant).await.unwrap();
    let enable = pb::AuthEnableRequest {};
    direct.auth().auth_enable(enable).await.unwrap();
    let endpoints = format!("--endpoints=127.0.0.1:{}", server.client_port());
    let proxy = Proxy::start(&[&endpoints, "--experimental-serializable-ordering"]);
    assert!(
        proxy.log().contains("user name is empty"),
        "{}",
        proxy.log()
    );
}
