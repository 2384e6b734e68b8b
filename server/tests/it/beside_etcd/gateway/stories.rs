//! The requests of well-known gateway users, in their order, over one kept connection.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Server, Tools};

use super::cases::Case;
use super::http::Connection;
use super::{both, settled};
use crate::harness::subject;

/// The examples of etcd's guide, as they stand there.
#[test]
fn curl_says_the_same_as_to_etcd() {
    let Some(tools) = Tools::or_skip("curl beside etcd") else {
        return;
    };
    if !testkit::has_or_skip("curl", &["--version"], "curl beside etcd") {
        return;
    }
    let (etcd, stele) = both(&tools, &[]);
    let examples = [
        ("kv/put", r#"{"key": "Zm9v", "value": "YmFy"}"#),
        ("kv/range", r#"{"key": "Zm9v"}"#),
        ("kv/range", r#"{"key": "Zm9v", "range_end": "Zm9w"}"#),
        (
            "kv/txn",
            r#"{"compare":[{"target":"CREATE","key":"Zm9v","createRevision":"2"}],"success":[{"requestPut":{"key":"Zm9v","value":"YmFy"}}]}"#,
        ),
        (
            "kv/txn",
            r#"{"compare":[{"version":"4","result":"EQUAL","target":"VERSION","key":"Zm9v"}],"success":[{"requestRange":{"key":"Zm9v"}}]}"#,
        ),
        ("auth/user/add", r#"{"name": "root", "password": "pass"}"#),
        ("auth/role/add", r#"{"name": "root"}"#),
        ("auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("auth/enable", "{}"),
        (
            "auth/authenticate",
            r#"{"name": "root", "password": "pass"}"#,
        ),
    ];
    for (path, body) in examples {
        let [etcd, stele] = [&etcd, &stele].map(|server| {
            let url = format!("{}/v3/{path}", server.url());
            let curl = Command::new("curl")
                .args(["-sS", "-L", &url, "-X", "POST", "-d", body])
                .output()
                .unwrap();
            assert!(curl.status.success(), "{curl:?}");
            settled(&String::from_utf8(curl.stdout).unwrap())
        });
        assert_eq!(stele, etcd, "{path} {body}");
    }
}

#[test]
fn patroni_elects_a_leader() {
    let server = subject::launch().start().unwrap();
    let mut patroni = Client::new(&server);
    let version = patroni.connection.ask(&Case::new("GET", "/version"));
    assert!(
        version.json()["etcdserver"]
            .as_str()
            .unwrap()
            .starts_with("3.7.")
    );
    let members = patroni.post("/v3/cluster/member/list", json!({}));
    let urls = members["members"][0]["clientURLs"].as_array().unwrap();
    assert!(urls[0].as_str().unwrap().starts_with("http://"), "{urls:?}");
    // "/service/batman/leader", its prefix, and the prefix' end.
    let leader = "L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==";
    let (prefix, end) = ("L3NlcnZpY2UvYmF0bWFuLw==", "L3NlcnZpY2UvYmF0bWFuMA==");
    let all = json!({"key": prefix, "range_end": end});
    let before = patroni.post("/v3/kv/range", all.clone());
    let revision: i64 = before["header"]["revision"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let mut watch = Client::new(&server);
    let started = watch.connection.begin(&Case::post(
        "/v3/watch",
        json!({"create_request": {
            "key": prefix, "range_end": end, "start_revision": (revision + 1).to_string()
        }})
        .to_string(),
    ));
    assert_eq!(started.headers["transfer-encoding"], "chunked");
    assert_eq!(watch.connection.json_line()["result"]["created"], true);
    let lease = patroni.post("/v3/lease/grant", json!({"TTL": 30}));
    let lease = lease["ID"].as_str().unwrap().to_owned();
    let alive = patroni.post("/v3/lease/keepalive", json!({"ID": lease}));
    assert_eq!(alive["result"]["TTL"], "30");
    let take = |name: &str| {
        json!({
            "compare": [{"key": leader, "target": "CREATE", "create_revision": "0"}],
            "success": [{"request_put": {"key": leader, "value": name, "lease": lease}}],
        })
    };
    assert_eq!(patroni.post("/v3/kv/txn", take("b25l"))["succeeded"], true);
    assert!(
        patroni
            .post("/v3/kv/txn", take("dHdv"))
            .get("succeeded")
            .is_none()
    );
    let seen = watch.connection.json_line();
    let kv = &seen["result"]["events"][0]["kv"];
    assert_eq!(
        (&kv["value"], &kv["lease"]),
        (&json!("b25l"), &json!(lease))
    );
    let found = patroni.post("/v3/kv/range", all);
    assert_eq!(found["count"], "1");
    let gone = json!({
        "compare": [{"key": leader, "target": "MOD",
                     "mod_revision": found["kvs"][0]["mod_revision"]}],
        "success": [{"request_delete_range": {"key": leader}}],
    });
    assert_eq!(patroni.post("/v3/kv/txn", gone)["succeeded"], true);
    let seen = watch.connection.json_line();
    assert_eq!(seen["result"]["events"][0]["type"], "DELETE");
    // Without users it is told so, and goes on without a token.
    let login = json!({"name": "root", "password": "x"}).to_string();
    let refused = patroni
        .connection
        .ask(&Case::post("/v3/auth/authenticate", login));
    if refused.status != 501 {
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!(9)));
    }
}

#[test]
fn apisix_follows_its_routes() {
    let server = subject::launch().start().unwrap();
    let mut apisix = Client::new(&server);
    // "/apisix/routes/" and its end.
    let (prefix, end) = ("L2FwaXNpeC9yb3V0ZXMv", "L2FwaXNpeC9yb3V0ZXMw");
    // "/apisix/routes/1" and "/apisix/routes/2".
    let keys = ["L2FwaXNpeC9yb3V0ZXMvMQ==", "L2FwaXNpeC9yb3V0ZXMvMg=="];
    let lease = apisix.post("/v3/lease/grant", json!({"TTL": 60, "ID": 0}));
    let lease = lease["ID"].clone();
    let put = json!({"key": keys[0], "value": "eyJ1cmkiOiIvIn0=", "lease": lease});
    let put = apisix.post("/v3/kv/put", put);
    let revision: i64 = put["header"]["revision"].as_str().unwrap().parse().unwrap();
    let range = json!({
        "key": prefix, "range_end": end, "limit": 0, "revision": 0, "sort_order": "NONE",
        "sort_target": "KEY", "serializable": false, "keys_only": false, "count_only": false,
    });
    let found = apisix.post("/v3/kv/range", range.clone());
    assert_eq!(found["kvs"][0]["value"], "eyJ1cmkiOiIvIn0=");
    let mut watch = Client::new(&server);
    watch.connection.begin(&Case::post(
        "/v3/watch",
        json!({"create_request": {
            "key": prefix, "range_end": end, "start_revision": revision, "prev_kv": false,
            "progress_notify": true, "fragment": false,
        }})
        .to_string(),
    ));
    assert_eq!(watch.connection.json_line()["result"]["created"], true);
    let first = watch.connection.json_line();
    assert_eq!(first["result"]["events"][0]["kv"]["key"], keys[0]);
    apisix.post("/v3/kv/put", json!({"key": keys[1], "value": "e30="}));
    let second = watch.connection.json_line();
    assert_eq!(second["result"]["events"][0]["kv"]["key"], keys[1]);
    assert!(second["result"]["events"][0].get("type").is_none());
    let left = apisix.post("/v3/lease/timetolive", json!({"ID": lease, "keys": true}));
    assert_eq!(left["keys"], json!([keys[0]]));
    apisix.post("/v3/lease/revoke", json!({"ID": lease}));
    let gone = watch.connection.json_line();
    assert_eq!(gone["result"]["events"][0]["type"], "DELETE");
    assert_eq!(apisix.post("/v3/kv/range", range)["count"], "1");
    // A revision that is gone: one line says from where on, and it starts again.
    apisix.post("/v3/kv/compaction", json!({"revision": revision + 1}));
    let mut late = Client::new(&server);
    late.connection.begin(&Case::post(
        "/v3/watch",
        json!({"create_request": {"key": prefix, "start_revision": 1}}).to_string(),
    ));
    assert_eq!(late.connection.json_line()["result"]["created"], true);
    let cancelled = late.connection.json_line();
    assert_eq!(cancelled["result"]["canceled"], true);
    assert_eq!(
        cancelled["result"]["compact_revision"],
        (revision + 1).to_string()
    );
}

struct Client {
    connection: Connection,
}

impl Client {
    fn new(server: &Server) -> Client {
        Client {
            connection: Connection::open(server.client_port()),
        }
    }

    /// What answers 200.
    fn post(&mut self, path: &str, body: Value) -> Value {
        let case = Case::post(path, body.to_string()).with("Content-Type", "application/json");
        let answer = self.connection.ask(&case);
        assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
        answer.json()
    }
}
