//! The JSON gateway compared with etcd's: both get the same requests and must give the same
//! answers, byte for byte except for values that must differ.

mod cases;
mod http;
mod socket;
mod stories;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use testkit::{Launch, Server, Tools};

use cases::Case;
use http::{Answer, Connection, ask};

use crate::harness::fleet::wait;
use crate::harness::subject;

/// Headers that say when, or how the body is cut, which is the server's own affair.
const OWN_HEADERS: [&str; 4] = ["date", "content-length", "transfer-encoding", "connection"];

/// Members whose values differ between any two servers.
const VOLATILE: [&str; 13] = [
    "cluster_id",
    "member_id",
    "raft_term",
    "raftTerm",
    "raftIndex",
    "raftAppliedIndex",
    "dbSize",
    "dbSizeInUse",
    "dbSizeQuota",
    "leader",
    "hash",
    "compact_revision_of_hash",
    "token",
];

#[test]
fn the_same_requests_get_the_same_answers() {
    let Some(tools) = Tools::or_skip("the gateway beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &[]);
    compare(&etcd, &stele, cases::plain());
    // Longer where the machine is so busy that the time is over before the watch has begun.
    let timeouts = ["100m", "1S", "10S"].into_iter();
    let created = timeouts.map(cases::watch_for).any(|case| {
        let answers = [&etcd, &stele].map(|server| ask(server.client_port(), &case));
        let begun = answers.iter().all(|answer| answer.status == 200);
        begun && {
            same(&case, &answers[0], &answers[1]);
            true
        }
    });
    assert!(created);
}

#[test]
fn users_are_asked_for_in_the_same_words() {
    let Some(tools) = Tools::or_skip("users at the gateway beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &[]);
    compare(&etcd, &stele, cases::before_users());
    // Each has a token of its own.
    let tokens = [&etcd, &stele].map(|server| {
        let body = r#"{"name":"root","password":"secret"}"#;
        let answer = ask(
            server.client_port(),
            &Case::post("/v3/auth/authenticate", body),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["token"].as_str().unwrap().to_owned()
    });
    compare(&etcd, &stele, cases::without_token());
    for case in 0..cases::with_token("").len() {
        let [one, other] = [0, 1].map(|side| {
            let server = [&etcd, &stele][side];
            ask(
                server.client_port(),
                &cases::with_token(&tokens[side])[case],
            )
        });
        same(&cases::with_token("TOKEN")[case], &one, &other);
    }
}

#[test]
fn locks_and_elections_are_served() {
    let Some(tools) = Tools::or_skip("locks at the gateway beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &[]);
    compare(&etcd, &stele, cases::recipes());
}

#[test]
fn health_is_told_in_the_same_words() {
    let Some(tools) = Tools::or_skip("the pages of health beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &[]);
    compare(&etcd, &stele, cases::health());
}

#[test]
fn what_the_flags_say_holds() {
    let Some(tools) = Tools::or_skip("the gateway's flags beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &["--enable-grpc-gateway=false"]);
    compare(&etcd, &stele, cases::switched_off());
    let flags = [
        "--cors=http://a.test:80,http://b.test:80",
        "--host-whitelist=good.test",
    ];
    let (etcd, stele) = both(&tools, &flags);
    wait_for_storage_version(&etcd);
    compare(&etcd, &stele, cases::guarded());
}

#[test]
fn variables_have_the_same_names() {
    let Some(tools) = Tools::or_skip("/debug/vars beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &[]);
    let [etcd, stele] = [&etcd, &stele].map(|server| {
        let page = ask(server.client_port(), &Case::new("GET", "/debug/vars")).json();
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let raft = &page["raft.status"];
        assert_eq!(raft["raftState"], "StateLeader");
        let own = &raft["progress"][raft["id"].as_str().unwrap()];
        assert_eq!(own["state"], "StateReplicate");
        assert_eq!(own["match"], raft["commit"]);
        assert!(page["memstats"]["Sys"].as_u64().unwrap() > 0);
        assert!(page["file_descriptor_limit"].as_u64().unwrap() > 0);
        (
            names(&page),
            names(&page["memstats"]),
            names(raft),
            names(own),
        )
    });
    assert_eq!(stele, etcd);
}

/// `--max-concurrent-streams` holds for all of the gateway together: what is over it waits.
#[test]
fn a_call_waits_while_streams_take_all_there_is() {
    let Some(tools) = Tools::or_skip("the limit of streams beside etcd's") else {
        return;
    };
    let (etcd, stele) = both(&tools, &["--max-concurrent-streams=2"]);
    let range = Case::post("/v3/kv/range", r#"{"key":"Zm9v"}"#);
    let hurried = range.clone().with("Grpc-Timeout", "300m");
    let [etcd, stele] = [&etcd, &stele].map(|server| {
        let port = server.client_port();
        let watch = Case::post("/v3/watch", r#"{"create_request":{"key":"Zm9v"}}"#);
        let watches = [0, 1].map(|_| {
            let mut watch_connection = Connection::open(port);
            watch_connection.begin(&watch);
            assert_eq!(watch_connection.json_line()["result"]["created"], true);
            watch_connection
        });
        let refused = ask(port, &hurried);
        drop(watches);
        assert_eq!(ask(port, &range).status, 200);
        refused
    });
    same(&hurried, &etcd, &stele);
    assert_eq!(stele.status, 504);
}

/// Where HTTP has URLs of its own, the gateway is there, and the other port speaks gRPC alone.
#[test]
fn the_gateway_is_where_http_is() {
    let Some(tools) = Tools::or_skip("URLs for HTTP beside etcd's") else {
        return;
    };
    let range = Case::post("/v3/kv/range", r#"{"key":"Zm9v"}"#);
    let [etcd, stele] = [Launch::etcd(&tools), subject::launch()].map(|launch| {
        let port = testkit::free_port();
        let flag = format!("--listen-client-http-urls=http://127.0.0.1:{port}");
        let server = launch.flag(flag).start().unwrap();
        let mut other = TcpStream::connect(("127.0.0.1", server.client_port())).unwrap();
        other
            .write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut said = Vec::new();
        // That it is cut off is an answer too.
        let _ = other.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP/1.1"), "{said:?}");
        ask(port, &range)
    });
    same(&range, &etcd, &stele);
    assert_eq!(stele.status, 200);
}

fn both(tools: &Tools, flags: &[&str]) -> (Server, Server) {
    let etcd = Launch::etcd(tools).flags(flags).start().unwrap();
    let stele = subject::launch().flags(flags).start().unwrap();
    (etcd, stele)
}

/// etcd's new store says that it is of 3.5 until a monitor has looked at it, seconds after the start.
fn wait_for_storage_version(etcd: &Server) {
    let version = Case::new("GET", "/version").with("Host", "good.test");
    let storage = || ask(etcd.client_port(), &version).json()["storage"].clone();
    let what = "etcd's storage version";
    wait(what, || storage() == "3.7.0", || etcd.log());
}

fn compare(etcd: &Server, stele: &Server, cases: Vec<Case>) {
    let differ = cases.iter().filter_map(|case| {
        let [one, other] = [etcd, stele].map(|server| ask(server.client_port(), case));
        difference(case, &one, &other)
    });
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{}", differ.join("\n\n"));
}

fn same(case: &Case, etcd: &Answer, stele: &Answer) {
    let difference = difference(case, etcd, stele);
    assert_eq!(difference, None);
}

fn difference(case: &Case, etcd: &Answer, stele: &Answer) -> Option<String> {
    let [etcd, stele] = [etcd, stele].map(|answer| {
        let headers: BTreeMap<_, _> = answer
            .headers
            .iter()
            .filter(|(name, _)| !OWN_HEADERS.contains(&name.as_str()))
            .collect();
        let body = settled(&String::from_utf8_lossy(&answer.body));
        format!("{} {headers:?}\n{body}", answer.status)
    });
    (etcd != stele).then(|| format!("{case:?}\netcd: {etcd}\nStele: {stele}"))
}

/// JSON without what differs for no reason: Go's library puts blanks after commas, and a wide one
/// before its errors, in some builds.
fn settled(body: &str) -> String {
    let body = body.replace("proto:\u{a0}", "proto: ");
    // Both sides of etcd's own connection watch the time, and either may be first.
    let reset = "stream terminated by RST_STREAM with error code: CANCEL";
    let body = body.replace(reset, "context deadline exceeded");
    let (mut out, mut text, mut escaped) = (String::new(), false, false);
    for c in body.chars() {
        if c == ' ' && !text && out.ends_with(',') {
            continue;
        }
        if c == '"' && !escaped {
            text = !text;
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    for name in VOLATILE {
        let start = format!("\"{name}\":");
        let mut parts = out.split(&start);
        let mut settled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = match part.strip_prefix('"') {
                Some(text) => text.split_once('"').map_or("", |(_, rest)| rest),
                None => part.trim_start_matches(|c: char| c.is_ascii_digit()),
            };
            settled.push_str(&format!("{start}*{rest}"));
        }
        out = settled;
    }
    // Of a lease of 600 seconds some are over.
    (590..600).fold(out, |out, left| {
        out.replace(&format!("\"TTL\":\"{left}\""), "\"TTL\":\"59*\"")
    })
}
