//! Requests to the gateway, in the order in which both servers get them.

/// One request.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) verb: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Of an answer without an end.
    pub(super) lines: Option<usize>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = &self.body[..self.body.len().min(200)];
        let body = String::from_utf8_lossy(start);
        write!(f, "{} {} {:?} {body}", self.verb, self.path, self.headers)
    }
}

impl Case {
    pub(super) fn new(verb: &'static str, path: &str) -> Case {
        Case {
            verb,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            lines: None,
        }
    }

    pub(super) fn post(path: &str, body: impl AsRef<[u8]>) -> Case {
        Case {
            body: body.as_ref().to_vec(),
            ..Case::new("POST", path)
        }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Case {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Reads no more of the answer.
    pub(super) fn lines(mut self, lines: usize) -> Case {
        self.lines = Some(lines);
        self
    }
}

fn posts(pairs: &[(&str, &str)]) -> Vec<Case> {
    let posts = pairs.iter().map(|(path, body)| Case::post(path, body));
    posts.collect()
}

/// What needs nobody's name.
pub(super) fn plain() -> Vec<Case> {
    let mut cases = keys();
    cases.extend(json());
    cases.extend(wrong());
    cases.extend(services());
    cases.extend(heads());
    cases.extend(streams());
    cases.extend(large());
    cases
}

/// `foo` is `Zm9v`, `bar` is `YmFy`.
fn keys() -> Vec<Case> {
    posts(&[
        ("/v3/kv/range", r#"{"key":"Zm9v"}"#),
        ("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#),
        (
            "/v3/kv/put",
            r#"{"key":"Zm9v","value":"YmFy","prev_kv":true}"#,
        ),
        (
            "/v3/kv/put",
            r#"{"key":"Zm9v","value":"YmFy","prevKv":true}"#,
        ),
        ("/v3/kv/put", r#"{"key":"Zm9x","value":""}"#),
        ("/v3/kv/put", r#"{"key":"Zm9y","ignore_value":true}"#),
        (
            "/v3/kv/put",
            r#"{"key":"Zm9v","value":"YmFy","ignoreValue":true}"#,
        ),
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":"99"}"#),
        ("/v3/kv/put", r#"{}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","range_end":"Zm9z"}"#),
        (
            "/v3/kv/range",
            r#"{"key":"AA==","rangeEnd":"AA==","limit":"1"}"#,
        ),
        (
            "/v3/kv/range",
            r#"{"key":"AA==","range_end":"AA==","count_only":true}"#,
        ),
        (
            "/v3/kv/range",
            r#"{"key":"AA==","range_end":"AA==","keysOnly":true}"#,
        ),
        (
            "/v3/kv/range",
            r#"{"key":"AA==","range_end":"AA==","sort_order":"DESCEND","sort_target":"KEY"}"#,
        ),
        (
            "/v3/kv/range",
            r#"{"key":"AA==","range_end":"AA==","sort_order":2,"sort_target":"MOD"}"#,
        ),
        ("/v3/kv/range", r#"{"key":"Zm9v","sort_order":"SIDEWAYS"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","sort_order":7}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","sort_order":"1"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","revision":"2"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","revision":2}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","revision":"99"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","revision":"-1"}"#),
        (
            "/v3/kv/range",
            r#"{"key":"Zm9v","min_mod_revision":3,"max_mod_revision":"4"}"#,
        ),
        ("/v3/kv/range", r#"{"key":"Zm9v","serializable":true}"#),
        ("/v3/kv/txn", r#"{}"#),
        (
            "/v3/kv/txn",
            r#"{"compare":[{"target":"VALUE","key":"Zm9v","value":"YmFy"}],
                "success":[{"request_put":{"key":"Zm9v","value":"YmF6"}}]}"#,
        ),
        (
            "/v3/kv/txn",
            r#"{"compare":[{"result":"EQUAL","target":"CREATE","key":"Zm9v","createRevision":"0"}],
                "success":[{"requestPut":{"key":"YQ==","value":"YQ=="}}],
                "failure":[{"requestRange":{"key":"Zm9v"}},
                           {"requestDeleteRange":{"key":"Zm9x","prev_kv":true}},
                           {"request_txn":{"success":[{"request_range":{"key":"Zm9v"}}]}},
                           {"request_txn":{}}]}"#,
        ),
        (
            "/v3/kv/txn",
            r#"{"compare":[{"key":"Zm9v","version":"1","mod_revision":"2"}]}"#,
        ),
        (
            "/v3/kv/txn",
            r#"{"compare":[{"key":"Zm9v","version":null,"mod_revision":"2"}]}"#,
        ),
        (
            "/v3/kv/txn",
            r#"{"compare":[{"key":"Zm9v","target":"MOD","result":3,"version":0}]}"#,
        ),
        ("/v3/kv/txn", r#"{"success":[{}]}"#),
        ("/v3/kv/txn", r#"{"success":[null]}"#),
        ("/v3/kv/txn", r#"{"success":{}}"#),
        (
            "/v3/kv/txn",
            r#"{"success":[{"request_put":{"key":"YQ=="}},{"request_put":{"key":"YQ=="}}]}"#,
        ),
        ("/v3/kv/deleterange", r#"{"key":"YQ==","prev_kv":true}"#),
        ("/v3/kv/deleterange", r#"{"key":"Zm9v","prev_kv":true}"#),
        ("/v3/kv/deleterange", r#"{}"#),
        ("/v3/kv/compaction", r#"{"revision":"3"}"#),
        ("/v3/kv/compaction", r#"{"revision":"3"}"#),
        ("/v3/kv/compaction", r#"{"revision":"999"}"#),
        ("/v3/kv/range", r#"{"key":"Zm9v","revision":"2"}"#),
        ("/v3beta/kv/range", r#"{"key":"Zm9v"}"#),
        ("/v3alpha/kv/range", r#"{"key":"Zm9v"}"#),
    ])
}

/// The ways to write the same, and what is almost the same.
fn json() -> Vec<Case> {
    let bodies = [
        // Bytes.
        r#"{"key":"Zm9v"}"#,
        r#"{"key":"_-8="}"#,
        r#"{"key":"_-8"}"#,
        r#"{"key":"/+8="}"#,
        r#"{"key":"/-8="}"#,
        r#"{"key":"Zm8"}"#,
        r#"{"key":"Zm8="}"#,
        r#"{"key":"Zm9="}"#,
        r#"{"key":"Zg="}"#,
        r#"{"key":"Zm9v\n"}"#,
        r#"{"key":"Zm\n9vYQ\r=="}"#,
        r#"{"key":"Zm9v "}"#,
        r#"{"key":"Zm9\u0076"}"#,
        r#"{"key":"\u005am9v"}"#,
        // Integers.
        r#"{"key":"Zm9v","limit":1}"#,
        r#"{"key":"Zm9v","limit":"1"}"#,
        r#"{"key":"Zm9v","limit":1.0}"#,
        r#"{"key":"Zm9v","limit":1e1}"#,
        r#"{"key":"Zm9v","limit":"1e1"}"#,
        r#"{"key":"Zm9v","limit":"1 2"}"#,
        r#"{"key":"Zm9v","limit":" 1"}"#,
        r#"{"key":"Zm9v","limit":""}"#,
        r#"{"key":"Zm9v","limit":1.5}"#,
        r#"{"key":"Zm9v","limit":9223372036854775807}"#,
        r#"{"key":"Zm9v","limit":9223372036854775808}"#,
        r#"{"key":"Zm9v","limit":-9223372036854775808}"#,
        r#"{"key":"Zm9v","limit":1e400}"#,
        r#"{"key":"Zm9v","limit":true}"#,
        r#"{"key":"Zm9v","limit":[1]}"#,
        r#"{"key":"Zm9v","limit":{}}"#,
        r#"{"key":"Zm9v","limit":null}"#,
        // Booleans.
        r#"{"key":"Zm9v","serializable":"true"}"#,
        r#"{"key":"Zm9v","serializable":1}"#,
        r#"{"key":"Zm9v","serializable":false}"#,
        r#"{"key":"Zm9v","serializable":null}"#,
        // Names.
        r#"{"key":"Zm9v","key":"Zm9v"}"#,
        r#"{"key":"Zm9v","range_end":"","rangeEnd":""}"#,
        r#"{"key":null,"key":"Zm9v"}"#,
        r#"{"KEY":"Zm9v"}"#,
        r#"{"\u006bey":"Zm9v"}"#,
        r#"{"key":"Zm9v","unknown":[{"a":[1,2,{"b":null}]},"x",-1.5e3,true]}"#,
        r#"{"key":"Zm9v","unknown":"\ud83d\ude00"}"#,
        r#"{"key":"Zm9v","[x.y]":1}"#,
        r#"{"key":"Zm9v","":1}"#,
        // Around it.
        " \n\t{ \"key\" :\r\n \"Zm9v\" , \"limit\" : 1 } ",
        "{\"key\":\"Zm9v\"}{\"key\":",
        "{\"key\":\"Zm9v\"}}",
        "{\"key\":\"Zm9v\"} and more",
        "",
        " ",
        "{}",
        "null",
        "[]",
        "1",
        "\"x\"",
        "true",
        "\n\n  []",
    ];
    let cases = bodies.iter();
    cases.map(|body| Case::post("/v3/kv/range", body)).collect()
}

/// What is no JSON, or no text.
fn wrong() -> Vec<Case> {
    let bodies: [&[u8]; 39] = [
        b"{",
        b"{\"key\"",
        b"{\"key\":",
        b"{\"key\":\"Zm9v\"",
        b"{\"key\":\"Zm9v\",",
        b"{\"key\":\"Zm9v\",}",
        b"{\"key\" \"Zm9v\"}",
        b"{\"key\":\"Zm9v\" \"limit\":1}",
        b"{key:\"Zm9v\"}",
        b"{'key':'Zm9v'}",
        b"{\"key\":Zm9v}",
        b"{\"key\":\"Zm9v\\x\"}",
        b"{\"key\":\"Zm9v\n\"}",
        b"{\"key\":\"\\u00g0\"}",
        b"{\"key\":\"\\ud800\"}",
        b"{\"key\":\"\\ud800\\u0041\"}",
        b"{\"key\":\"\\udc00\",\"limit\":\"1\"}",
        b"{\"key\":\"\\ud800\xc3\xa9\xff456789\"}",
        b"{\"key\":\"\xff\"}",
        b"{\"\xff\":1}",
        b"{\"x\":\"\xff\"}",
        b"{\"key\":\"\xc3\xa9\",\"limit\":x}",
        b"{\"name\":\"\xc3\xa9\",\n\n \"limit\":[]}",
        b"{\"key\":tru}",
        b"{\"key\":nul",
        b"{\"key\":falze}",
        b"{\"key\":01}",
        b"{\"key\":-}",
        b"{\"key\":1.}",
        b"{\"key\":1e}",
        b"{\"key\":+1}",
        b"[1,]",
        b"[1 2]",
        b"]",
        b"\x00",
        b"\xff",
        b"\xc2\xa0",
        b"key=Zm9v",
        b"<html>",
    ];
    let mut cases: Vec<Case> = bodies
        .iter()
        .map(|body| Case::post("/v3/kv/range", body))
        .collect();
    let deep = |open: &str, count: usize| Case::post("/v3/kv/range", open.repeat(count));
    cases.push(deep("[", 10_000));
    cases.push(deep("[", 10_001));
    cases.push(deep("{\"a\":", 10_001));
    let unknown = "[".repeat(9_999) + &"]".repeat(9_999);
    let unknown = format!("{{\"key\":\"Zm9v\",\"x\":{unknown}}}");
    cases.push(Case::post("/v3/kv/range", unknown));
    cases
}

fn services() -> Vec<Case> {
    posts(&[
        ("/v3/lease/grant", r#"{"TTL":"600","ID":"77"}"#),
        ("/v3/lease/grant", r#"{"TTL":600,"ID":78}"#),
        ("/v3/lease/grant", r#"{"TTL":600,"ID":78}"#),
        ("/v3/lease/grant", r#"{"TTL":"99999999999"}"#),
        ("/v3/lease/grant", r#"{"ttl":600,"ID":79}"#),
        ("/v3/kv/put", r#"{"key":"bA==","value":"bA==","lease":77}"#),
        // While it has one key: etcd tells several in any order.
        ("/v3/lease/timetolive", r#"{"ID":"77","keys":true}"#),
        (
            "/v3/kv/put",
            r#"{"key":"bQ==","value":"bQ==","lease":"77"}"#,
        ),
        ("/v3/kv/lease/timetolive", r#"{"ID":"78"}"#),
        ("/v3/lease/timetolive", r#"{"ID":"1000"}"#),
        ("/v3/lease/leases", "{}"),
        ("/v3/kv/lease/leases", ""),
        ("/v3/lease/revoke", r#"{"ID":"78"}"#),
        ("/v3/kv/lease/revoke", r#"{"ID":"78"}"#),
        ("/v3/kv/lease/revoke", r#"{"ID":"77"}"#),
        ("/v3/maintenance/alarm", "{}"),
        (
            "/v3/maintenance/alarm",
            r#"{"action":"GET","alarm":"NOSPACE"}"#,
        ),
        (
            "/v3/maintenance/alarm",
            r#"{"action":"ACTIVATE","memberID":"5","alarm":"NOSPACE"}"#,
        ),
        (
            "/v3/maintenance/alarm",
            r#"{"action":2,"memberID":5,"alarm":1}"#,
        ),
        ("/v3/maintenance/status", "{}"),
        ("/v3/maintenance/hashkv", r#"{"revision":"9999"}"#),
        ("/v3/maintenance/hash", "{}"),
        ("/v3/maintenance/defragment", "{}"),
        ("/v3/maintenance/transfer-leadership", r#"{"targetID":"1"}"#),
        (
            "/v3/maintenance/downgrade",
            r#"{"action":"VALIDATE","version":"2.0"}"#,
        ),
        (
            "/v3/maintenance/downgrade",
            r#"{"action":"VALIDATE","version":"3.6.0-rc.1"}"#,
        ),
        (
            "/v3/maintenance/downgrade",
            r#"{"action":"VALIDATE","version":"+3.6"}"#,
        ),
        (
            "/v3/maintenance/downgrade",
            r#"{"action":"VALIDATE","version":"3.6.0+build"}"#,
        ),
        ("/v3/maintenance/downgrade", r#"{"action":"CANCEL"}"#),
        ("/v3/cluster/member/remove", r#"{"ID":"1"}"#),
        ("/v3/cluster/member/promote", r#"{"ID":"1"}"#),
        (
            "/v3/cluster/member/update",
            r#"{"ID":"1","peerURLs":["http://127.0.0.1:1"]}"#,
        ),
        ("/v3/cluster/member/add", r#"{"peerURLs":["x"]}"#),
        (
            "/v3/cluster/member/add",
            r#"{"peerURLs":["http://127.0.0.1:1",null]}"#,
        ),
    ])
}

/// Verbs, paths and headers.
fn heads() -> Vec<Case> {
    let range = |headers: &[(&str, &str)]| {
        let case = Case::post("/v3/kv/range", r#"{"key":"Zm9v"}"#);
        headers
            .iter()
            .fold(case, |case, (name, value)| case.with(name, value))
    };
    let form = "application/x-www-form-urlencoded";
    let mut cases = vec![
        Case::new("GET", "/v3/kv/range"),
        Case::new("HEAD", "/v3/kv/range"),
        Case::new("PUT", "/v3/kv/range"),
        Case::new("DELETE", "/v3/kv/range"),
        Case::new("PATCH", "/v3/kv/range"),
        Case::new("OPTIONS", "/v3/kv/range"),
        Case::new("OPTIONS", "/nowhere"),
        Case::new("GET", "/v3/nowhere"),
        Case::new("GET", "/v3"),
        Case::new("GET", "/v3?a=b&c"),
        Case::new("GET", "//v3/kv/range"),
        Case::new("GET", "/health/../version"),
        Case::new("GET", "/v3/"),
        Case::post("/v3", "{}"),
        Case::post("/v3/", "{}"),
        Case::post("/v3beta", "{}"),
        Case::post("/v3beta/", "{}"),
        Case::post("/v3beta/v3beta/", "{}"),
        Case::post("/v3/nowhere", "{}"),
        Case::post("/v3/kv/range/", "{}"),
        Case::post("/v3/kv/Range", "{}"),
        Case::post("/v3/kv//range", "{}"),
        Case::post("/v3/./kv/range", "{}"),
        Case::post("/v3/kv%2Frange", r#"{"key":"Zm9v"}"#),
        Case::post("/v3/kv/r%61nge", r#"{"key":"Zm9v"}"#),
        Case::post("/v3/kv/range?key=x", r#"{"key":"Zm9v"}"#),
        Case::post("/v3/kv/rangestream", "{}"),
        range(&[("Content-Type", form), ("X-HTTP-Method-Override", "get")]),
        range(&[("Content-Type", form), ("X-HTTP-Method-Override", "post")]),
        range(&[("X-HTTP-Method-Override", "get")]),
        range(&[("Content-Type", form)]),
        range(&[("Content-Type", "text/plain"), ("Accept", "text/html")]),
        range(&[("Content-Type", "application/grpc")]),
        range(&[("Authorization", "Bearer nobody")]),
        range(&[("Grpc-Metadata-Token", "nobody")]),
        range(&[("Grpc-Metadata-hasleader", "true")]),
        range(&[("Grpc-Metadata-Client-Api-Version", "3.7")]),
        range(&[("Grpc-Metadata-K-Bin", "QUI=")]),
        range(&[("Grpc-Metadata-K-Bin", "QUI")]),
        range(&[("Grpc-Metadata-K-Bin", "!!")]),
        range(&[("Grpc-Metadata-Grpc-Timeout", "1n")]),
        range(&[("TE", "trailers")]),
        Case::post("/v3/kv/range", "{}").with("TE", "trailers"),
        Case::post("/v3/kv/range", "{").with("TE", "trailers"),
        Case::post("/v3/nowhere", "{}").with("TE", "trailers"),
        range(&[("Origin", "http://a.test:80")]),
    ];
    for timeout in ["", "0S", "10S", "1H", "-1S", "1n", "x", "S", "5", "1.5S"] {
        cases.push(range(&[("Grpc-Timeout", timeout)]));
    }
    cases
}

fn streams() -> Vec<Case> {
    let watch = |body: &str, lines| Case::post("/v3/watch", body).lines(lines);
    vec![
        Case::post("/v3/kv/put", r#"{"key":"dw==","value":"PHg+Jg=="}"#),
        Case::post("/v3/kv/put", r#"{"key":"dw==","value":"dw=="}"#),
        watch(r#"{"create_request":{"key":"dw=="}}"#, 1),
        watch(
            r#"{"createRequest":{"key":"dw==","startRevision":"4","prevKv":true}}"#,
            2,
        ),
        watch(
            r#"{"create_request":{"key":"dw==","start_revision":"1"}}"#,
            2,
        ),
        watch(
            r#"{"create_request":{"key":"dw==","filters":["NOPUT",1],"watch_id":"7"}}"#,
            1,
        ),
        watch(
            r#"{"create_request":{"key":"dw==","start_revision":"-1"}}"#,
            1,
        ),
        watch(r#"{"create_request":{"key":"dw==","range_end":"YQ=="}}"#, 1),
        watch(
            r#"{"create_request":{"key":"dw=="}} {"cancel_request":{"watch_id":"0"}}"#,
            2,
        ),
        watch(
            r#"{"create_request":{"key":"dw==","watch_id":1}}{"create_request":{"watch_id":1}}"#,
            2,
        ),
        watch(r#"{"create_request":{"key":"dw=="}} nonsense"#, 1),
        watch("", 0).with("Grpc-Timeout", "1m"),
        Case::post("/v3/watch", "{}").with("Grpc-Timeout", "x"),
        Case::new("GET", "/v3/watch"),
        Case::post("/v3/lease/grant", r#"{"TTL":"600","ID":"500"}"#),
        Case::post("/v3/lease/keepalive", r#"{"ID":"500"}"#),
        Case::post(
            "/v3/lease/keepalive",
            r#"{"ID":"500"}{"ID":501} {"ID":"500"}"#,
        ),
        Case::post("/v3/lease/keepalive", r#"{"ID":"500"}{"ID":x}"#),
        Case::post("/v3/lease/keepalive", ""),
        Case::post("/v3/lease/keepalive", "{}"),
        Case::post("/v3/maintenance/snapshot", "{").lines(1),
        Case::post("/v3/maintenance/snapshot", "[]").lines(1),
    ]
}

/// A watch that is created and then ends because its client's time is over.
pub(super) fn watch_for(timeout: &str) -> Case {
    let watch = Case::post("/v3/watch", r#"{"create_request":{"key":"dw=="}}"#);
    watch.lines(3).with("Grpc-Timeout", timeout)
}

/// Over the limits.
fn large() -> Vec<Case> {
    let put = |length: usize| {
        let value = "A".repeat(length / 3 * 4);
        Case::post(
            "/v3/kv/put",
            format!("{{\"key\":\"Zm9v\",\"value\":\"{value}\"}}"),
        )
    };
    let nested = |depth: usize| {
        let open = r#"{"success":[{"request_txn":"#.repeat(depth);
        Case::post("/v3/kv/txn", format!("{open}{{}}{}", "}]}".repeat(depth)))
    };
    vec![
        put(3 << 10),
        put(1_500_000),
        put(1_572_864),
        put(2_097_120),
        put(2_100_000),
        put(3_000_000),
        nested(20),
    ]
}

/// Makes `root` and `reader`, who may read `r…`, and switches users on.
pub(super) fn before_users() -> Vec<Case> {
    posts(&[
        ("/v3/auth/authenticate", r#"{"name":"root","password":"x"}"#),
        ("/v3/auth/status", "{}"),
        ("/v3/auth/enable", "{}"),
        ("/v3/auth/role/add", r#"{"name":"root"}"#),
        ("/v3/auth/role/add", r#"{"name":"root"}"#),
        ("/v3/auth/role/add", r#"{"name":"reads"}"#),
        (
            "/v3/auth/role/grant",
            r#"{"name":"reads","perm":{"permType":"READ","key":"cg==","range_end":"cw=="}}"#,
        ),
        ("/v3/auth/role/get", r#"{"role":"reads"}"#),
        ("/v3/auth/role/list", "{}"),
        (
            "/v3/auth/user/add",
            r#"{"name":"root","password":"secret"}"#,
        ),
        (
            "/v3/auth/user/add",
            r#"{"name":"reader","password":"r<&>"}"#,
        ),
        ("/v3/auth/user/add", r#"{"name":"","password":"x"}"#),
        (
            "/v3/auth/user/add",
            r#"{"name":"bare","options":{"no_password":true}}"#,
        ),
        ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("/v3/auth/user/grant", r#"{"user":"reader","role":"reads"}"#),
        (
            "/v3/auth/user/grant",
            r#"{"user":"reader","role":"nothing"}"#,
        ),
        ("/v3/auth/user/get", r#"{"name":"reader"}"#),
        ("/v3/auth/user/list", "{}"),
        ("/v3/auth/enable", "{}"),
        ("/v3/auth/status", "{}"),
        (
            "/v3/auth/authenticate",
            r#"{"name":"root","password":"wrong"}"#,
        ),
        (
            "/v3/auth/authenticate",
            r#"{"name":"nobody","password":"x"}"#,
        ),
        (
            "/v3/auth/authenticate",
            r#"{"name":"reader","password":"r<&>"}"#,
        ),
    ])
}

pub(super) fn without_token() -> Vec<Case> {
    let mut cases = posts(&[
        ("/v3/kv/range", r#"{"key":"cg=="}"#),
        ("/v3/kv/put", r#"{"key":"cg=="}"#),
        ("/v3/kv/txn", "{}"),
        ("/v3/auth/status", "{}"),
        ("/v3/auth/user/list", "{}"),
        ("/v3/maintenance/snapshot", "{}"),
        ("/v3/maintenance/status", "{}"),
        ("/v3/lease/leases", "{}"),
    ]);
    cases.push(Case::post("/v3/watch", r#"{"create_request":{"key":"cg=="}}"#).lines(1));
    let wrong = Case::post("/v3/kv/range", r#"{"key":"cg=="}"#).with("Authorization", "wrong");
    cases.push(wrong);
    let keep_alive = Case::post("/v3/lease/keepalive", r#"{"ID":"1"}"#);
    cases.push(keep_alive.with("Authorization", "wrong"));
    cases
}

pub(super) fn with_token(token: &str) -> Vec<Case> {
    let cases = posts(&[
        ("/v3/kv/put", r#"{"key":"cg==","value":"cg=="}"#),
        ("/v3/kv/range", r#"{"key":"cg=="}"#),
        ("/v3/auth/user/list", "{}"),
        (
            "/v3/auth/user/changepw",
            r#"{"name":"reader","password":"other"}"#,
        ),
        (
            "/v3/auth/role/revoke",
            r#"{"role":"reads","key":"cg==","range_end":"cw=="}"#,
        ),
        (
            "/v3/auth/user/revoke",
            r#"{"name":"reader","role":"reads"}"#,
        ),
        ("/v3/auth/user/delete", r#"{"name":"reader"}"#),
        ("/v3/auth/role/delete", r#"{"role":"reads"}"#),
    ]);
    let cases = cases
        .into_iter()
        .map(|case| case.with("Authorization", token));
    let mut cases: Vec<Case> = cases.collect();
    let watch = Case::post("/v3/watch", r#"{"create_request":{"key":"cg=="}}"#).lines(1);
    cases.push(watch.with("Grpc-Metadata-Token", token));
    let disable = Case::post("/v3/auth/disable", "{}");
    cases.push(disable.with("Grpc-Metadata-Token", token));
    cases
}

/// Locks and elections under leases with known numbers, so that the keys are the same.
pub(super) fn recipes() -> Vec<Case> {
    let mut cases = posts(&[
        ("/v3/lease/grant", r#"{"TTL":"600","ID":"77"}"#),
        ("/v3/lock/lock", r#"{"name":"bG9jaw==","lease":"77"}"#),
        ("/v3/lock/lock", r#"{"name":"bG9jaw==","lease":"1000"}"#),
        ("/v3/lock/unlock", r#"{"key":"bG9jay80ZA=="}"#),
        ("/v3/lock/unlock", "{}"),
        ("/v3/election/leader", r#"{"name":"dm90ZQ=="}"#),
        (
            "/v3/election/campaign",
            r#"{"name":"dm90ZQ==","lease":"77","value":"dg=="}"#,
        ),
        ("/v3/election/leader", r#"{"name":"dm90ZQ=="}"#),
        ("/v3/election/proclaim", r#"{"value":"dg=="}"#),
    ]);
    cases.push(Case::post("/v3/election/observe", r#"{"name":"dm90ZQ=="}"#).lines(1));
    cases
}

/// The pages of health. etcd lists several checks in any order, so no answer lists more than one.
pub(super) fn health() -> Vec<Case> {
    let others = "exclude=non_learner&exclude=serializable_read&exclude=linearizable%5Fread";
    let alarm = |action: &str, kind: &str| {
        let body = format!(r#"{{"action":"{action}","memberID":"5","alarm":"{kind}"}}"#);
        Case::post("/v3/maintenance/alarm", body)
    };
    let get = |path: &str| Case::new("GET", path);
    let mut cases: Vec<Case> = ["HEAD", "POST"]
        .into_iter()
        .flat_map(|verb| {
            let paths = [
                "/health",
                "/livez",
                "/livez/nowhere",
                "/livez/",
                "/readyz/linearizable_read",
            ];
            paths.map(|path| Case::new(verb, path))
        })
        .collect();
    cases.extend(
        [
            "/livez",
            "/livez?verbose",
            "/livez?verbose=false",
            "/livez?exclude=serializable_read&verbose",
            "/livez?exclude=nothing&verbose",
            "/livez/serializable_read?verbose",
            "/livez/serializable_read?exclude=serializable_read&verbose",
            "/livez/linearizable_read",
            "/livez/",
            "/readyz",
            "/readyz/non_learner?verbose",
            "/readyz/linearizable_read?verbose",
        ]
        .map(get),
    );
    for kind in ["NOSPACE", "CORRUPT"] {
        cases.push(alarm("ACTIVATE", kind));
        cases.extend(["/health", "/health?serializable=true"].map(get));
        cases.push(get(&format!("/health?exclude={kind}")));
        cases.push(get(&format!("/health?exclude=X&%65xclude=&exclude={kind}")));
        cases.push(get("/readyz/data_corruption?verbose"));
        cases.push(get(&format!("/readyz?verbose&{others}")));
        cases.push(get(&format!("/readyz?exclude=data_corruption&{others}")));
        cases.push(alarm("DEACTIVATE", kind));
    }
    cases.push(get("/health?serializable=false&serializable=true"));
    cases
}

pub(super) fn switched_off() -> Vec<Case> {
    vec![
        Case::post("/v3/kv/range", r#"{"key":"Zm9v"}"#),
        Case::post("/v3/", "{}"),
        Case::post("/v3", "{}"),
        Case::new("GET", "/v3/kv/range"),
        Case::new("GET", "//version"),
        Case::new("OPTIONS", "/v3/kv/range"),
    ]
}

/// Where hosts and origins are listed.
pub(super) fn guarded() -> Vec<Case> {
    let good = |case: Case| case.with("Host", "good.test:2379");
    vec![
        Case::post("/v3/kv/range", "{}"),
        Case::post("/v3/kv/range", "{}").with("Host", "bad.test:1"),
        Case::post("/v3/kv/range", "{}").with("Host", "[::1]:1"),
        Case::post("/v3/kv/range", "{}").with("Host", ""),
        Case::new("GET", "/version").with("Host", "bad.test"),
        Case::new("OPTIONS", "/v3/kv/range").with("Host", "bad.test"),
        Case::post("/v3/kv/range", "{}").with("Host", "good.test"),
        good(Case::post("/v3/kv/range", "{}")),
        good(Case::post("/v3/kv/range", "{}")).with("Origin", "http://a.test:80"),
        good(Case::post("/v3/kv/range", "{}")).with("Origin", "http://b.test:80"),
        good(Case::post("/v3/kv/range", "{}")).with("Origin", "http://c.test:80"),
        good(Case::new("OPTIONS", "/v3/kv/range")).with("Origin", "http://a.test:80"),
        good(Case::new("GET", "/version")).with("Origin", "http://a.test:80"),
    ]
}
