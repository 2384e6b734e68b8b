//! Watches and keep-alives through a proxy: what clients ask alike is asked once.

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::{Proxy, SOON, proxied, put, server};
use crate::harness::fleet;

/// A client's stream of watches.
struct Watching {
    requests: mpsc::Sender<pb::WatchRequest>,
    answers: Streaming<pb::WatchResponse>,
}

fn wish(key: &str, start_revision: i64) -> pb::WatchCreateRequest {
    pb::WatchCreateRequest {
        key: key.to_owned().into(),
        start_revision,
        ..pb::WatchCreateRequest::default()
    }
}

fn create(wish: pb::WatchCreateRequest) -> pb::WatchRequest {
    pb::WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(wish)),
    }
}

impl Watching {
    /// A stream with one watch, which has begun.
    async fn begin(client: &Client, wish: pb::WatchCreateRequest) -> Watching {
        let (requests, sent) = mpsc::channel(8);
        requests.send(create(wish)).await.unwrap();
        let answers = client.watch().watch(ReceiverStream::new(sent)).await;
        let answers = answers.unwrap().into_inner();
        let mut watching = Watching { requests, answers };
        let created = watching.next().await;
        assert!(created.created && !created.canceled, "{created:?}");
        watching
    }

    async fn next(&mut self) -> pb::WatchResponse {
        let next = timeout(SOON, self.answers.message()).await;
        next.expect("an answer in time").unwrap().unwrap()
    }

    /// Keys and values of the next events.
    async fn events(&mut self) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let events = self.next().await.events.into_iter();
        let kvs = events.map(|event| event.kv.unwrap());
        kvs.map(|kv| (text(&kv.key), text(&kv.value))).collect()
    }
}

fn pair(key: &str, value: &str) -> Vec<(String, String)> {
    vec![(key.to_owned(), value.to_owned())]
}

fn watchers(proxy: &Proxy) -> f64 {
    proxy.metric("etcd_grpc_proxy_watchers_coalescing_total")
}

/// The test waits on one thread while another ends the streams that were dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_a_key_share_one_of_the_cluster() {
    let server = server();
    let (proxy, client) = proxied(&server, &[]).await;
    let first = put(&client, "a", "0").await;
    let mut watching = Vec::new();
    for _ in 0..4 {
        let other = Client::connect(proxy.url()).await.unwrap();
        watching.push(Watching::begin(&other, wish("a", 0)).await);
    }
    // They are counted after they are told.
    fleet::wait("all four", || watchers(&proxy) == 3.0, || proxy.log());
    let (_, members) = super::process::page(&server.url(), "/metrics");
    // One for the clients, and one by which the proxy notices that there is no leader.
    assert!(
        members.contains("etcd_debugging_mvcc_watcher_total 2"),
        "{members}"
    );

    let mut past = Watching::begin(&client, wish("a", first)).await;
    assert_eq!(past.events().await, pair("a", "0"));
    put(&client, "a", "1").await;
    for watching in watching.iter_mut().chain([&mut past]) {
        assert_eq!(watching.events().await, pair("a", "1"));
    }
    assert!(proxy.metric("etcd_grpc_proxy_events_coalescing_total") >= 3.0);
    // It has caught up, and shares the others' from now on.
    fleet::wait("the merge", || watchers(&proxy) == 4.0, || proxy.log());

    let cancel = pb::WatchCancelRequest { watch_id: 0 };
    let request = pb::WatchRequest {
        request_union: Some(RequestUnion::CancelRequest(cancel)),
    };
    past.requests.send(request).await.unwrap();
    let canceled = past.next().await;
    assert!(canceled.canceled && canceled.watch_id == 0, "{canceled:?}");
    watching.truncate(1);
    fleet::wait(
        "those that left",
        || watchers(&proxy) == 0.0,
        || proxy.log(),
    );
    put(&client, "a", "2").await;
    assert_eq!(watching[0].events().await, pair("a", "2"));
}

#[tokio::test]
async fn streams_go_on_when_the_server_has_restarted() {
    let mut server = server();
    let (_proxy, client) = proxied(&server, &["--namespace=n/"]).await;
    let lease = pb::LeaseGrantRequest { ttl: 600, id: 7 };
    client.lease().lease_grant(lease).await.unwrap();
    let (renew, renewals) = mpsc::channel(8);
    renew
        .send(pb::LeaseKeepAliveRequest { id: 7 })
        .await
        .unwrap();
    let renewals = ReceiverStream::new(renewals);
    let answers = client.lease().lease_keep_alive(renewals).await;
    let mut answers = answers.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().ttl, 600);
    let mut watching = Watching::begin(&client, wish("a", 0)).await;
    put(&client, "a", "1").await;
    assert_eq!(watching.events().await, pair("a", "1"));
    for round in ["2", "3"] {
        server.kill_and_restart();
        put(&client, "a", round).await;
        assert_eq!(watching.events().await, pair("a", round));
        renew
            .send(pb::LeaseKeepAliveRequest { id: 7 })
            .await
            .unwrap();
        let answer = timeout(SOON, answers.message()).await;
        assert_eq!(answer.unwrap().unwrap().unwrap().ttl, 600);
    }
}

#[tokio::test]
async fn a_lease_that_is_gone_is_told_so() {
    let server = server();
    let (_proxy, client) = proxied(&server, &[]).await;
    let renewals = tokio_stream::iter([7, 8].map(|id| pb::LeaseKeepAliveRequest { id }));
    let answers = client.lease().lease_keep_alive(renewals).await;
    let mut answers = answers.unwrap().into_inner();
    for id in [7, 8] {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!((answer.id, answer.ttl), (id, 0));
    }
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test]
async fn watches_that_cannot_be_are_refused() {
    let server = server();
    let (_proxy, client) = proxied(&server, &[]).await;
    for value in ["1", "2", "3"] {
        put(&client, "a", value).await;
    }
    let compact = pb::CompactionRequest {
        revision: 3,
        physical: false,
    };
    client.kv().compact(compact).await.unwrap();
    let mut watching = Watching::begin(&client, wish("a", 2)).await;
    let canceled = watching.next().await;
    assert_eq!((canceled.canceled, canceled.compact_revision), (true, 3));
    let empty = pb::WatchCreateRequest {
        range_end: "a".into(),
        ..wish("b", 0)
    };
    watching.requests.send(create(empty)).await.unwrap();
    let refused = watching.next().await;
    assert_eq!(
        (refused.watch_id, refused.created, refused.canceled),
        (-1, true, true)
    );
}

/// Users are told apart, though their streams are shared.
#[tokio::test]
async fn nobody_watches_or_reads_what_belongs_to_others() {
    let server = server();
    let (_proxy, client) = proxied(&server, &[]).await;
    put(&client, "a", "secret").await;
    enable_users(&client).await;
    let (root, other) = (token(&client, "root").await, token(&client, "other").await);
    let read = async |token: &str| {
        let request = pb::RangeRequest {
            key: "a".into(),
            serializable: true,
            ..pb::RangeRequest::default()
        };
        client.kv().range(with_token(request, token)).await
    };
    for _ in 0..2 {
        assert_eq!(read(&root).await.unwrap().into_inner().kvs.len(), 1);
        let refused = read(&other).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
    let watch = async |token: &str| {
        let (requests, sent) = mpsc::channel(8);
        requests.send(create(wish("a", 0))).await.unwrap();
        let request = with_token(ReceiverStream::new(sent), token);
        let answers = client.watch().watch(request).await.unwrap().into_inner();
        Watching { requests, answers }
    };
    let mut allowed = watch(&root).await;
    assert!(!allowed.next().await.canceled);
    let refused = watch(&other).await.next().await;
    assert!(refused.canceled, "{refused:?}");
    assert_eq!(refused.cancel_reason, "etcdserver: permission denied");
    // A right that is taken away ends with the call that takes it, whatever has been read.
    let user = pb::AuthUserAddRequest {
        name: "root2".into(),
        password: "root2".into(),
        ..pb::AuthUserAddRequest::default()
    };
    client
        .auth()
        .user_add(with_token(user, &root))
        .await
        .unwrap();
    let grant = pb::AuthUserGrantRoleRequest {
        user: "root2".into(),
        role: "root".into(),
    };
    client
        .auth()
        .user_grant_role(with_token(grant, &root))
        .await
        .unwrap();
    let second = token(&client, "root2").await;
    for _ in 0..2 {
        assert_eq!(read(&second).await.unwrap().into_inner().kvs.len(), 1);
    }
    let revoke = pb::AuthUserRevokeRoleRequest {
        name: "root2".into(),
        role: "root".into(),
    };
    client
        .auth()
        .user_revoke_role(with_token(revoke, &root))
        .await
        .unwrap();
    read(&second).await.unwrap_err();
}

/// A refusal ends the stream to the cluster, which all clients of the user share.
#[tokio::test]
async fn a_renewal_that_is_refused_ends_no_other() {
    let server = server();
    let (_proxy, client) = proxied(&server, &[]).await;
    for id in [7, 8] {
        let lease = pb::LeaseGrantRequest { ttl: 600, id };
        client.lease().lease_grant(lease).await.unwrap();
    }
    let attach = pb::PutRequest {
        key: "a".into(),
        lease: 8,
        ..pb::PutRequest::default()
    };
    client.kv().put(attach).await.unwrap();
    enable_users(&client).await;
    let other = token(&client, "other").await;
    let refusals = async {
        for _ in 0..50 {
            let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: 8 }]);
            let renewals = with_token(renewals, &other);
            let refused = match client.lease().lease_keep_alive(renewals).await {
                Ok(answers) => answers.into_inner().message().await.unwrap_err(),
                Err(refused) => refused,
            };
            assert_eq!(refused.code(), Code::PermissionDenied);
        }
    };
    let renewals = async {
        let (renew, sent) = mpsc::channel(8);
        renew
            .send(pb::LeaseKeepAliveRequest { id: 7 })
            .await
            .unwrap();
        let sent = with_token(ReceiverStream::new(sent), &other);
        let answers = client.lease().lease_keep_alive(sent).await;
        let mut answers = answers.unwrap().into_inner();
        for _ in 0..500 {
            assert_eq!(answers.message().await.unwrap().unwrap().ttl, 600);
            renew
                .send(pb::LeaseKeepAliveRequest { id: 7 })
                .await
                .unwrap();
        }
    };
    tokio::join!(refusals, renewals);
}

/// Turns authentication on, with the users `root` and `other`, who may do nothing.
async fn enable_users(client: &Client) {
    for name in ["root", "other"] {
        let user = pb::AuthUserAddRequest {
            name: name.into(),
            password: name.into(),
            ..pb::AuthUserAddRequest::default()
        };
        client.auth().user_add(user).await.unwrap();
    }
    let role = pb::AuthRoleAddRequest {
        name: "root".into(),
    };
    client.auth().role_add(role).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest {
        user: "root".into(),
        role: "root".into(),
    };
    client.auth().user_grant_role(grant).await.unwrap();
    client
        .auth()
        .auth_enable(pb::AuthEnableRequest {})
        .await
        .unwrap();
}

/// The token of a user whose password is its name.
async fn token(client: &Client, name: &str) -> String {
    let request = pb::AuthenticateRequest {
        name: name.into(),
        password: name.into(),
    };
    let answer = client.auth().authenticate(request).await.unwrap();
    answer.into_inner().token
}

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let token = token.parse().unwrap();
    request.metadata_mut().insert("token", token);
    request
}

/// A stream whose client wants a leader ends without one, though others share it.
#[tokio::test]
async fn streams_that_require_a_leader_end_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = fleet::found(env!("CARGO_BIN_EXE_stele"), dir.path(), 2, &[]);
    let ready = |members: &[fleet::Process]| {
        members
            .iter()
            .all(|member| member.log().contains(testkit::READY_LINE))
    };
    fleet::wait("the start", || ready(&members), String::new);
    let endpoints = format!("--endpoints={}", members[0].url);
    let proxy = Proxy::start(&[&endpoints]);
    let client = Client::connect(proxy.url()).await.unwrap();
    let mut patient = Watching::begin(&client, wish("a", 0)).await;
    let (requests, sent) = mpsc::channel(8);
    requests.send(create(wish("a", 0))).await.unwrap();
    let mut request = tonic::Request::new(ReceiverStream::new(sent));
    request
        .metadata_mut()
        .insert("hasleader", "true".parse().unwrap());
    let mut answers = client.watch().watch(request).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().unwrap().created);
    members[1].kill();
    let ended = timeout(SOON, answers.message())
        .await
        .expect("an end in time");
    let error = ended.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::Unavailable, "etcdserver: no leader")
    );
    let nothing = timeout(Duration::from_millis(100), patient.answers.message()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}
