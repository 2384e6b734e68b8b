//! The cost of calls and the storage use of keys, by prefix and by client: the numbers are exact,
//! and the number of series is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::usage::PrefixRequest;
use prost::Message;
use testkit::{Launch, Server};
use tonic::{Code, Request, Status};

use crate::usual::pages::samples;

const STELE: &str = env!("CARGO_BIN_EXE_stele");

/// Prefixes and clients with counters of their own, and the rest.
const SERIES_MAX: usize = 65;

fn put(key: &str, bytes: usize) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: vec![b'v'; bytes].into(),
        ..Default::default()
    }
}

fn range(prefix: &str) -> pb::RangeRequest {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    pb::RangeRequest {
        key: prefix.to_owned().into(),
        range_end: end.into(),
        ..Default::default()
    }
}

fn cost(samples: &BTreeMap<String, f64>, what: &str, of: (&str, &str), operation: &str) -> u64 {
    let (label, name) = of;
    let series =
        format!("stele_{label}_{what}_total{{{label}=\"{name}\",operation=\"{operation}\"}}");
    samples.get(&series).copied().unwrap_or_default() as u64
}

/// Keys and bytes as the metrics have them.
fn shown(samples: &BTreeMap<String, f64>, prefix: &str) -> (u64, u64) {
    let value = |what: &str| samples[&format!("stele_prefix_{what}{{prefix=\"{prefix}\"}}")] as u64;
    (value("keys"), value("bytes"))
}

/// And as the call has them.
async fn usage(client: &Client, prefix: &str, token: Option<&str>) -> Result<(u64, u64), Status> {
    let mut request = Request::new(PrefixRequest {
        prefix: prefix.to_owned().into(),
        serializable: false,
    });
    if let Some(token) = token {
        request
            .metadata_mut()
            .insert("token", token.parse().unwrap());
    }
    let found = client.usage().prefix(request).await?.into_inner();
    assert!(found.header.unwrap().revision > 1);
    Ok((found.keys as u64, found.bytes as u64))
}

async fn start() -> (Server, Client) {
    let server = Launch::program(STELE).start();
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    (server, client)
}

#[tokio::test]
async fn calls_are_counted_by_the_prefix_of_their_key_and_by_client() {
    let (server, client) = start().await;
    let mut kv = client.kv();
    let puts = [
        put("/registry/pods/default/web", 100),
        put("/registry/pods/default/db", 5000),
        put("/registry/leases/one", 7),
        put("plain", 1),
    ];
    let (mut received, mut sent) = (0, 0);
    for put in &puts[..2] {
        received += put.encoded_len();
        sent += kv
            .put(put.clone())
            .await
            .unwrap()
            .into_inner()
            .encoded_len();
    }
    for put in &puts[2..] {
        kv.put(put.clone()).await.unwrap();
    }
    let pods = range("/registry/pods/");
    let found = kv.range(pods.clone()).await.unwrap().into_inner();
    let operation = pb::RequestOp {
        request: Some(pb::request_op::Request::RequestPut(puts[0].clone())),
    };
    let compare = pb::Compare {
        key: puts[0].key.clone(),
        ..Default::default()
    };
    let txn = pb::TxnRequest {
        compare: vec![compare],
        success: vec![operation],
        ..Default::default()
    };
    kv.txn(txn).await.unwrap();
    let moved = samples(&server);
    let prefix = ("prefix", "/registry/pods/");
    assert_eq!(cost(&moved, "requests", prefix, "put"), 2);
    assert_eq!(
        cost(&moved, "received_bytes", prefix, "put"),
        received as u64
    );
    assert_eq!(cost(&moved, "sent_bytes", prefix, "put"), sent as u64);
    assert_eq!(cost(&moved, "requests", prefix, "txn"), 1);
    assert_eq!(cost(&moved, "requests", prefix, "range"), 1);
    assert_eq!(
        cost(&moved, "received_bytes", prefix, "range"),
        pods.encoded_len() as u64
    );
    assert_eq!(
        cost(&moved, "sent_bytes", prefix, "range"),
        found.encoded_len() as u64
    );
    assert_eq!(
        cost(&moved, "requests", ("prefix", "/registry/leases/"), "put"),
        1
    );
    assert_eq!(cost(&moved, "requests", ("prefix", "none"), "put"), 1);
    let host = ("client", "127.0.0.1");
    assert_eq!(cost(&moved, "requests", host, "put"), 4);
    assert_eq!(
        cost(&moved, "sent_bytes", host, "range"),
        found.encoded_len() as u64
    );
    // However many there are.
    for i in 0..2 * SERIES_MAX {
        kv.range(range(&format!("/many/{i}/"))).await.unwrap();
    }
    let moved = samples(&server);
    let names: BTreeSet<&str> = moved
        .keys()
        .filter_map(|series| {
            let rest = series.strip_prefix("stele_prefix_requests_total{prefix=\"")?;
            rest.split('"').next()
        })
        .collect();
    assert!(names.len() <= SERIES_MAX, "{names:?}");
    let other = cost(&moved, "requests", ("prefix", "other"), "range");
    assert_eq!(other as usize, 2 * SERIES_MAX - (SERIES_MAX - 1 - 3));
}

#[tokio::test]
async fn keys_and_bytes_of_prefixes_are_told_to_those_who_may_read_them() {
    let (mut server, client) = start().await;
    let mut kv = client.kv();
    let sizes = |puts: &[pb::PutRequest]| -> (u64, u64) {
        let sizes = puts.iter().map(|put| put.key.len() + put.value.len());
        (puts.len() as u64, sizes.sum::<usize>() as u64)
    };
    let key = |i: usize| format!("/registry/pods/default/web-{i}");
    let mut pods: Vec<_> = (0..300).map(|i| put(&key(i), 7 * i)).collect();
    let others = [
        put("/registry/leases/one", 7),
        put("plain", 1),
        put("service/a/b", 9),
    ];
    for put in pods.iter().chain(&others) {
        kv.put(put.clone()).await.unwrap();
    }
    // Another size, and gone.
    pods[5] = put(&key(5), 100_000);
    kv.put(pods[5].clone()).await.unwrap();
    for gone in pods.drain(100..130).collect::<Vec<_>>() {
        let delete = pb::DeleteRangeRequest {
            key: gone.key,
            ..Default::default()
        };
        kv.delete_range(delete).await.unwrap();
    }
    let expected = sizes(&pods);
    let all = [&pods[..], &others[..]].concat();
    let moved = samples(&server);
    assert_eq!(shown(&moved, "/registry/pods/"), expected);
    assert_eq!(shown(&moved, "/registry/leases/"), sizes(&others[..1]));
    assert_eq!(shown(&moved, "other"), sizes(&others[1..2]));
    assert_eq!(
        usage(&client, "/registry/pods/", None).await.unwrap(),
        expected
    );
    assert_eq!(usage(&client, "", None).await.unwrap(), sizes(&all));
    assert_eq!(usage(&client, "nothing", None).await.unwrap(), (0, 0));
    let web_29 = pods
        .iter()
        .filter(|put| put.key.starts_with(key(29).as_bytes()));
    let web_29: Vec<_> = web_29.cloned().collect();
    assert_eq!(
        usage(&client, &key(29), None).await.unwrap(),
        sizes(&web_29)
    );
    // From the log, and from a checkpoint.
    server.kill();
    server.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    assert_eq!(
        usage(&client, "/registry/pods/", None).await.unwrap(),
        expected
    );
    server.terminate();
    server.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    assert_eq!(
        usage(&client, "/registry/pods/", None).await.unwrap(),
        expected
    );

    let answer = post(
        &server,
        "/v3/stele/usage/prefix",
        r#"{"serializable":true}"#,
    );
    let (keys, bytes) = sizes(&all);
    assert!(
        answer.contains(&format!(r#""keys":"{keys}","bytes":"{bytes}""#)),
        "{answer}"
    );

    let token = enable_auth(&client).await;
    assert_eq!(
        usage(&client, "/registry/pods/", Some(&token))
            .await
            .unwrap(),
        expected
    );
    for (prefix, token) in [
        ("/registry/", Some(token.as_str())),
        ("", Some(&token)),
        ("/registry/pods/", None),
    ] {
        let refused = usage(&client, prefix, token).await.unwrap_err();
        let code = match token {
            Some(_) => Code::PermissionDenied,
            None => Code::InvalidArgument,
        };
        assert_eq!(refused.code(), code, "{prefix}: {refused}");
    }
    let moved = samples(&server);
    assert_eq!(cost(&moved, "requests", ("client", "alice"), "else"), 3);
    let refused = post(&server, "/v3/stele/usage/prefix", r#"{"prefix":"YQ=="}"#);
    assert!(refused.contains("user name is empty"), "{refused}");
}

/// All of the answer.
fn post(server: &Server, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.client_port())).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Alice may read `/registry/pods/`. Returns her token.
async fn enable_auth(client: &Client) -> String {
    let mut auth = client.auth();
    for name in ["root", "alice"] {
        let user = pb::AuthUserAddRequest {
            name: name.into(),
            password: "secret".into(),
            ..Default::default()
        };
        auth.user_add(user).await.unwrap();
        let role = pb::AuthRoleAddRequest { name: name.into() };
        auth.role_add(role).await.unwrap();
        let grant = pb::AuthUserGrantRoleRequest {
            user: name.into(),
            role: name.into(),
        };
        auth.user_grant_role(grant).await.unwrap();
    }
    let grant = pb::AuthRoleGrantPermissionRequest {
        name: "alice".into(),
        perm: Some(etcd_api::authpb::Permission {
            perm_type: etcd_api::authpb::permission::Type::Read as i32,
            key: "/registry/pods/".into(),
            range_end: "/registry/pods0".into(),
        }),
    };
    auth.role_grant_permission(grant).await.unwrap();
    auth.auth_enable(pb::AuthEnableRequest::default())
        .await
        .unwrap();
    let login = pb::AuthenticateRequest {
        name: "alice".into(),
        password: "secret".into(),
    };
    auth.authenticate(login).await.unwrap().into_inner().token
}
