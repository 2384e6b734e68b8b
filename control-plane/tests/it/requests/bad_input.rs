//! Requests that no correct client sends: each gets the right Status, and the server continues.

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn bodies_that_are_no_objects_are_refused() {
    let cluster = Cluster::start();
    let post =
        |media_type: &str, body: Vec<u8>| cluster.call("POST", MAPS).body(media_type, body).send();
    let json = "application/json";
    post(json, vec![b' '; (3 << 20) + 1]).refuses(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    );
    let deep = format!("{{\"data\":{}", "{\"a\":".repeat(100_000));
    post(json, deep.into_bytes()).refuses(400, "BadRequest", "must be of type ConfigMap");
    post(json, b"[1]".to_vec()).refuses(400, "BadRequest", "must be of type ConfigMap");
    post(json, b"{".to_vec()).refuses(400, "BadRequest", "unexpected end of JSON input");
    post(json, Vec::new()).refuses(400, "BadRequest", "must be of type ConfigMap");
    let media_types = "accepted media types include: application/json";
    post("text/csv", b"a,b".to_vec()).refuses(415, "UnsupportedMediaType", media_types);
    let protobuf = "application/vnd.kubernetes.protobuf";
    post(protobuf, b"k8s\0\xff\xff".to_vec()).refuses(400, "BadRequest", "");
    post(protobuf, b"nonsense".to_vec()).refuses(400, "BadRequest", "");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    cluster.post(MAPS, &pod).refuses(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a ConfigMap",
    );
    let unknown = json!({"apiVersion": "v9", "kind": "Thing", "metadata": {"name": "a"}});
    cluster
        .post(MAPS, &unknown)
        .refuses(400, "BadRequest", "no kind \"Thing\" is registered");
    assert_eq!(cluster.get(&format!("{MAPS}/a")).code, 404);
}

#[test]
fn fields_that_a_kind_does_not_have_are_told() {
    let cluster = Cluster::start();
    let mut object = map("a");
    object["foo"] = 1.into();
    let strict = cluster.post(&format!("{MAPS}?fieldValidation=Strict"), &object);
    strict.refuses(
        400,
        "BadRequest",
        "strict decoding error: unknown field \"foo\"",
    );
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#;
    let twice = cluster.call("POST", &format!("{MAPS}?fieldValidation=Strict"));
    let twice = twice.body("application/json", text).send();
    twice.refuses(400, "BadRequest", "duplicate field \"data.a\"");
    let warned = cluster.post(MAPS, &object);
    assert_eq!(warned.code, 201);
    assert!(
        warned.head.contains("299 - \"unknown field \\\"foo\\\"\""),
        "{}",
        warned.head
    );
    let wrong = cluster.post(&format!("{MAPS}?fieldValidation=Maybe"), &map("b"));
    wrong.refuses(
        422,
        "Invalid",
        "fieldValidation: Unsupported value: \"Maybe\"",
    );
}

#[test]
fn names_and_versions_that_do_not_fit_are_refused() {
    let cluster = Cluster::start();
    let invalid = cluster.post(MAPS, &map("A_b"));
    invalid.refuses(
        422,
        "Invalid",
        "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value",
    );
    assert_eq!(
        invalid.object()["details"]["causes"][0]["reason"],
        "FieldValueInvalid"
    );
    cluster
        .post(MAPS, &map(""))
        .refuses(422, "Invalid", "name or generateName is required");
    let mut elsewhere = map("a");
    elsewhere["metadata"]["namespace"] = "other".into();
    cluster
        .post(MAPS, &elsewhere)
        .refuses(400, "BadRequest", "does not match the namespace sent");
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    cluster
        .post(nowhere, &map("a"))
        .refuses(404, "NotFound", "namespaces \"nowhere\" not found");
    let made = cluster.post(MAPS, &map("a")).expect(201);
    cluster
        .post(MAPS, &map("a"))
        .refuses(409, "AlreadyExists", "configmaps \"a\" already exists");
    let mut versioned = map("b");
    versioned["metadata"]["resourceVersion"] = "7".into();
    cluster
        .post(MAPS, &versioned)
        .refuses(500, "", "resourceVersion should not be set");
    let put = |object: &Value| {
        cluster
            .call("PUT", &format!("{MAPS}/a"))
            .json(object)
            .send()
    };
    let mut newer = made.clone();
    newer["data"] = json!({"x": "1"});
    put(&newer).expect(200);
    put(&newer).refuses(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
    put(&map("c")).refuses(
        400,
        "BadRequest",
        "the name of the object (c) does not match",
    );
    let mut other = map("a");
    other["metadata"]["uid"] = "someone-else".into();
    put(&other).refuses(409, "Conflict", "Precondition failed: UID in precondition");
}

#[test]
fn versions_are_read_as_by_go() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let cluster = Cluster::start();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"});
    let expecting = |base: &Value, version: &str| {
        let mut object = base.clone();
        object["metadata"] = json!({"name": "a", "resourceVersion": version});
        object
    };
    let put = |path: &str, object: &Value| {
        let call = cluster.call("PUT", &format!("{path}/a"));
        call.json(object).send()
    };
    let parsing = |text: &str, why: &str| format!("strconv.ParseUint: parsing {text:?}: {why}");
    let (syntax, range) = ("invalid syntax", "value out of range");
    let unreadable = [
        ("+7", syntax),
        ("abc", syntax),
        ("18446744073709551616", range),
    ];
    // An update that makes the object may expect any version.
    for (text, why) in unreadable {
        put(LEASES, &expecting(&lease, text)).refuses(500, "", &parsing(text, why));
    }
    put(LEASES, &expecting(&lease, "7")).expect(201);
    for none in ["0", "00"] {
        put(LEASES, &expecting(&lease, none)).refuses(422, "Invalid", "must be specified");
    }
    let made = cluster.post(MAPS, &map("a")).expect(201);
    for (text, why) in unreadable {
        let why = parsing(text, why);
        put(MAPS, &expecting(&map("a"), text)).refuses(500, "", &why);
        cluster
            .get(&format!(
                "{MAPS}?resourceVersion={}",
                text.replace('+', "%2B")
            ))
            .refuses(400, "BadRequest", &why);
    }
    for other in ["007", "9223372036854775808", "18446744073709551615"] {
        let why = "the object has been modified";
        put(MAPS, &expecting(&map("a"), other)).refuses(409, "Conflict", why);
    }
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    for same in [format!("00{version}"), "00".to_owned()] {
        put(MAPS, &expecting(&map("a"), &same)).expect(200);
    }
}

#[test]
fn paths_and_methods_that_are_not_served_are_told_apart() {
    let cluster = Cluster::start();
    let unknown = cluster.get("/api/v1/namespaces/default/nothings");
    unknown.refuses(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
    let nowhere = cluster.get("/apis/nowhere.io/v1/things");
    assert_eq!(
        (nowhere.code, &*nowhere.body),
        (404, &b"404 page not found\n"[..])
    );
    let put = cluster.call("PUT", MAPS).json(&map("a")).send();
    put.refuses(
        405,
        "MethodNotAllowed",
        "the server does not allow this method",
    );
    // Load balancers ask for heads of probes. Kubernetes routes only some paths by method.
    for (path, code) in [
        ("/healthz", 200),
        ("/api/v1/pods", 405),
        ("/api/v1/namespaces/default", 405),
        ("/apis/apps/v1/nothing", 404),
        ("/version", 405),
        ("/api", 405),
        ("/api/v1", 405),
        ("/apis", 200),
        ("/apis/apps", 200),
        ("/apis/apps/v1", 405),
        ("/openapi/v2", 200),
        ("/nothing", 404),
    ] {
        for method in ["HEAD", "DELETE"] {
            let answer = cluster.call(method, path).send();
            let is_deletable = method == "DELETE" && path == "/api/v1/namespaces/default";
            let code = if is_deletable { 403 } else { code };
            assert_eq!(answer.code, code, "{method} {path}");
        }
    }
    let csv = cluster
        .call("GET", MAPS)
        .header("Accept", "text/csv")
        .send();
    csv.refuses(
        406,
        "NotAcceptable",
        "Available representations: application/json, application/yaml",
    );
    let patch = cluster
        .call("PATCH", &format!("{MAPS}/a"))
        .body("text/csv", "{}")
        .send();
    patch.refuses(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    cluster
        .get(&format!("{MAPS}/zz"))
        .refuses(404, "NotFound", "configmaps \"zz\" not found");
    cluster
        .get(&format!("{MAPS}?labelSelector=a%20in"))
        .refuses(400, "BadRequest", "");
    let field = cluster.get("/api/v1/pods?fieldSelector=spec.foo%3D1");
    field.refuses(400, "BadRequest", "field label not supported: spec.foo");
}

#[test]
fn versions_that_cannot_be_shown_are_told() {
    let cluster = Cluster::start();
    let future = cluster.get(&format!("{MAPS}?resourceVersion=999999999"));
    future.refuses(
        504,
        "Timeout",
        "Too large resource version: 999999999, current: ",
    );
    assert_eq!(
        future.object()["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(future.object()["details"]["retryAfterSeconds"], 1);
    // The server would wait longer.
    let impatient = cluster.get(&format!("{MAPS}?resourceVersion=999999999&timeout=1ms"));
    let why = "request did not complete within the allotted timeout";
    impatient.refuses(504, "Timeout", why);
    let why = "invalid timeout specified in the request URL - time: invalid duration \"soon\"";
    let invalid = cluster.get(&format!("{MAPS}?timeout=soon"));
    invalid.refuses(400, "BadRequest", why);
    for (query, why) in [
        (
            "resourceVersionMatch=Exact",
            "forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "is forbidden for resourceVersion",
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&sendInitialEvents=true",
            "requires setting resourceVersionMatch",
        ),
    ] {
        cluster
            .get(&format!("{MAPS}?{query}"))
            .refuses(422, "Invalid", why);
    }
    cluster.get(&format!("{MAPS}?resourceVersion=x")).refuses(
        400,
        "BadRequest",
        "strconv.ParseUint",
    );
    cluster
        .get(&format!("{MAPS}?continue=xyz"))
        .refuses(400, "BadRequest", "continue key");
}

#[test]
fn a_watch_from_what_is_no_longer_remembered_is_told_to_start_over() {
    let mut cluster = Cluster::start();
    cluster.post(MAPS, &map("a")).expect(201);
    // After the restart the server's memory is empty; the objects are only in the store.
    cluster.restart_apiserver();
    assert_eq!(cluster.get(&format!("{MAPS}/a")).code, 200);
    let path = format!("{MAPS}?watch=1&resourceVersion=1");
    let mut watch = cluster.call("GET", &path).stream();
    let told = watch.next().unwrap();
    assert_eq!(told["type"], "ERROR");
    let object = &told["object"];
    assert_eq!(
        (&object["code"], &object["reason"]),
        (&410.into(), &"Expired".into())
    );
    assert!(watch.next().is_none());
}

#[test]
fn patches_that_do_not_fit_are_refused() {
    let cluster = Cluster::start();
    cluster.post(MAPS, &map("a")).expect(201);
    let patch = |kind: &str, body: &str| {
        let media_type = format!("application/{kind}+json");
        cluster
            .call("PATCH", &format!("{MAPS}/a"))
            .body(&media_type, body)
            .send()
    };
    let test = r#"[{"op":"test","path":"/data/x","value":"1"}]"#;
    assert_eq!(patch("json-patch", test).code, 422);
    assert_eq!(patch("json-patch", "{}").code, 400);
    assert_eq!(patch("merge-patch", "[]").code, 400);
    assert_eq!(patch("merge-patch", "{").code, 400);
    assert_eq!(
        patch(
            "strategic-merge-patch",
            r#"{"metadata":{"$patch":"explode"}}"#
        )
        .code,
        500
    );
    assert_eq!(patch("merge-patch", r#"{"data":7}"#).code, 422);
    let stale = patch("merge-patch", r#"{"metadata":{"resourceVersion":"1"}}"#);
    stale.refuses(409, "Conflict", "the object has been modified");
    assert_eq!(patch("merge-patch", r#"{"data":{"x":"1"}}"#).code, 200);
}
