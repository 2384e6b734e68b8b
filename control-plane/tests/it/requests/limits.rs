//! Load that no correct client causes: memory stays bounded, nothing leaks, and malformed tokens
//! get another error than expired ones.

use etcd_api::etcdserverpb::CompactionRequest;
use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, WITHIN};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BODY_BYTES_MAX: usize = 3 << 20;
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The number of watchers, from the server's metrics.
fn watchers(cluster: &Cluster) -> usize {
    let answer = cluster.get("/metrics");
    let text = String::from_utf8(answer.body).unwrap();
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix("apiserver_registered_watchers "));
    found.unwrap().parse().unwrap()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WITHIN, "waited in vain until {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn watchers_that_vanish_leave_nothing() {
    const WATCHES: usize = 50;
    /// The server's own watches; it may have begun with only some of them.
    const OWN: usize = 10;
    let cluster = Cluster::start();
    let are_gone = || watchers(&cluster) <= OWN;
    assert!(are_gone());
    for _ in 0..3 {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=0");
        let watches: Vec<_> = (0..WATCHES)
            .map(|_| cluster.call("GET", &path).stream())
            .collect();
        assert!(watchers(&cluster) >= WATCHES);
        drop(watches);
        until("the watches are gone", are_gone);
    }
    // Watches that end by timeout are removed too.
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0");
    let mut watches: Vec<_> = (0..WATCHES)
        .map(|_| cluster.call("GET", &path).stream())
        .collect();
    for watch in &mut watches {
        while watch.next().is_some() {}
    }
    until("the watches are gone", are_gone);
}

#[test]
fn bodies_of_any_shape_and_size_take_bounded_memory() {
    /// Four requests at a time; each may hold its body, the decoded object and the response.
    const MEMORY_BYTES_MAX: u64 = 1 << 30;
    let cluster = Cluster::start();
    let many = |unit: &dyn Fn(usize) -> String, begin: &str, end: &str| {
        let mut text = begin.to_owned();
        for at in 0.. {
            let unit = unit(at);
            if text.len() + unit.len() + end.len() + 1 > BODY_BYTES_MAX {
                break;
            }
            if at > 0 {
                text.push(',');
            }
            text.push_str(&unit);
        }
        text + end
    };
    let head = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}"#;
    let empty = |_| "{}".to_owned();
    let json = |path: &str, body: String| (path.to_owned(), "application/json", body.into_bytes());
    let maps = |body| json(MAPS, body);
    let namespaced = "namespaces/default";
    let pods = format!("/api/v1/{namespaced}/pods");
    let pod = |inner: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"x"}},"spec":{{{inner}["#)
    };
    let revisions = format!("/apis/apps/v1/{namespaced}/controllerrevisions");
    let slices = format!("/apis/discovery.k8s.io/v1/{namespaced}/endpointslices");
    let slice = r#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"x"},"addressType":"IPv4","endpoints":["#;
    let revision = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"x"},"revision":1,"data":{"x":["#;
    // Empty messages, and one-byte numbers: fields 2.2 and 2.14.7 of a pod.
    let wide = sized(&[0x12], &[0x12, 0].repeat(BODY_BYTES_MAX / 2 - 64));
    let packed = sized(&[0x72], &sized(&[0x22], &vec![1; BODY_BYTES_MAX - 64]));
    let wire = |raw: &[u8]| (pods.clone(), PROTOBUF, envelope("v1", "Pod", raw));
    let bodies = [
        maps(many(&|at| format!("\"f{at}\":1"), &format!("{head},"), "}")),
        maps(many(&|_| "[]".into(), &format!("{head},\"x\":["), "]}")),
        maps(many(&empty, &format!("{head},\"data\":["), "]}")),
        maps(many(
            &|_| "\"d\":\"\"".into(),
            &format!("{head},\"data\":{{"),
            "}}",
        )),
        maps(many(
            &|at| format!("\"k{at}\":\"\""),
            &format!("{head},\"data\":{{"),
            "}}",
        )),
        // Each of them violates four rules.
        maps(many(
            &empty,
            &format!("{head},\"metadata\":{{\"ownerReferences\":["),
            "]}}",
        )),
        json(&pods, many(&empty, &pod("\"containers\":"), "]}}")),
        json(
            &pods,
            many(&empty, &pod("\"containers\":[{\"env\":"), "]}]}}"),
        ),
        json(&pods, many(&empty, &pod("\"tolerations\":"), "]}}")),
        json(&slices, many(&empty, slice, "]}")),
        json(&revisions, many(&|_| "{\"a\":{}}".into(), revision, "]}}")),
        json(&revisions, many(&|_| "[1]".into(), revision, "]}}")),
        wire(&wide),
        wire(&sized(&[0x12], &packed)),
    ];
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (cluster, bodies) = (&cluster, &bodies);
            scope.spawn(move || {
                for at in 0..bodies.len() {
                    let (path, media_type, body) = &bodies[(at + worker) % bodies.len()];
                    let path = format!("{path}?dryRun=All&fieldValidation=Warn");
                    let call = cluster.call("POST", &path);
                    let answer = call.body(media_type, body.clone()).send();
                    assert!(answer.code < 500, "{}", answer.code);
                    assert!(answer.head.len() < 64 << 10, "{}", answer.head.len());
                    // An object, and who owns its fields.
                    assert!(
                        answer.body.len() < 3 * BODY_BYTES_MAX,
                        "{}",
                        answer.body.len()
                    );
                }
            });
        }
    });
    let held = cluster.memory_peak_bytes();
    assert!(held < MEMORY_BYTES_MAX, "{held} bytes");
    assert_eq!(cluster.get("/readyz").code, 200);
}

#[test]
fn nesting_has_an_end_in_every_encoding() {
    let cluster = Cluster::start();
    cluster.post(MAPS, &map("a")).expect(201);
    let deep = |open: &str, close: &str, levels| open.repeat(levels) + "1" + &close.repeat(levels);
    let patch = |media_type: &str, body: String| {
        let call = cluster.call("PATCH", &format!("{MAPS}/a"));
        call.body(media_type, body).send()
    };
    for levels in [150, 5_000, 200_000] {
        for media_type in [MERGE, STRATEGIC] {
            let answer = patch(media_type, deep("{\"x\":", "}", levels));
            answer.refuses(400, "BadRequest", "");
        }
        let value = deep("[", "]", levels);
        let body = format!("[{{\"op\":\"add\",\"path\":\"/data\",\"value\":{value}}}]");
        patch(JSON_PATCH, body).refuses(400, "BadRequest", "");
        let post = |path: &str, body: Vec<u8>| {
            let call = cluster.call("POST", path);
            call.body(PROTOBUF, body).send()
        };
        // A schema may contain a schema in `not`: field 28.
        let mut schema: Vec<u8> = Vec::new();
        for _ in 0..levels.min(2_000) {
            schema = sized(&[0xe2, 0x01], &schema);
        }
        let tags = [0x0a, 0x22, 0x3a, 0x12];
        let definition = tags
            .iter()
            .fold(schema, |inner, tag| sized(&[*tag], &inner));
        let name = "customresourcedefinitions";
        let path = format!("/apis/apiextensions.k8s.io/v1/{name}");
        let body = envelope(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &definition,
        );
        let code = post(&path, body).code;
        assert!((400..500).contains(&code), "{code}");
    }
    // The number of operations that double the object is limited.
    let mut operations = vec![json!({"op": "add", "path": "/data", "value": {"k": "x"}})];
    operations.extend(
        (0..60).map(|at| json!({"op": "copy", "from": "/data", "path": format!("/data/x{at}")})),
    );
    let answer = patch(JSON_PATCH, Value::from(operations).to_string());
    answer.refuses(400, "BadRequest", "copies");
    assert_eq!(cluster.get(&format!("{MAPS}/a")).code, 200);
}

fn length(out: &mut Vec<u8>, mut length: usize) {
    while length > 127 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
}

fn sized(tag: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = tag.to_vec();
    length(&mut out, body.len());
    out.extend(body);
    out
}

/// The envelope of Kubernetes' protobuf encoding.
fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [
        sized(&[0x0a], version.as_bytes()),
        sized(&[0x12], kind.as_bytes()),
    ]
    .concat();
    [
        b"k8s\0".to_vec(),
        sized(&[0x0a], &meta),
        sized(&[0x12], raw),
    ]
    .concat()
}

#[test]
fn what_a_selector_or_a_token_cannot_mean_is_refused() {
    let cluster = Cluster::start();
    for selector in [
        "a%20in",
        "a%20in%20(",
        "a%20in%20(b",
        "!",
        "%3Da",
        "a%3Db%3Dc",
        "a%3E%3Db",
        "%2Fx",
        "a%3D%24",
        "a%20notin%20()x",
    ] {
        let path = format!("{MAPS}?labelSelector={selector}");
        cluster.get(&path).refuses(400, "BadRequest", "");
        let watch = format!("{path}&watch=1");
        cluster.get(&watch).refuses(400, "BadRequest", "");
    }
    for selector in [
        "a",
        "metadata.name",
        "metadata.name%3Ea",
        "spec.x%3D1",
        "metadata.name%3Da%5C",
    ] {
        let path = format!("{MAPS}?fieldSelector={selector}");
        cluster.get(&path).refuses(400, "BadRequest", "");
    }
    // `{}`; an unknown version; a revision of 0; no start key; invalid JSON; invalid base64.
    for token in [
        "e30",
        "eyJ2IjoidjAiLCJydiI6MSwic3RhcnQiOiJhIn0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ",
        "bm8",
        "%25%25",
    ] {
        let path = format!("{MAPS}?limit=1&continue={token}");
        cluster
            .get(&path)
            .refuses(400, "BadRequest", "continue key is not valid");
    }
    for query in [
        "limit=x",
        "timeoutSeconds=x&watch=1",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999",
    ] {
        let code = cluster.get(&format!("{MAPS}?{query}")).code;
        assert!([400, 422].contains(&code), "{query}: {code}");
    }
    let pod = machinery::protobuf::encode(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
    .unwrap();
    let send = |path: &str, body: Vec<u8>| cluster.call("POST", path).body(PROTOBUF, body).send();
    send(MAPS, pod.clone()).refuses(400, "BadRequest", "cannot be handled as a ConfigMap");
    let pods = "/api/v1/namespaces/default/pods";
    // The pod is followed by two empty fields; without them it is still complete.
    for cut in 1..pod.len() - 4 {
        let code = send(&format!("{pods}?dryRun=All"), pod[..cut].to_vec()).code;
        assert!((400..500).contains(&code), "{cut}: {code}");
    }
    send(pods, pod).expect(201);
}

#[test]
fn what_was_forgotten_is_gone_and_a_list_may_go_on_without_it() {
    let cluster = Cluster::start();
    for name in ["a", "b", "c"] {
        cluster.post(MAPS, &map(name)).expect(201);
    }
    let page = cluster.get(&format!("{MAPS}?limit=1")).expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let version = page["metadata"]["resourceVersion"].as_str().unwrap();
    let newest = cluster.post(MAPS, &map("d")).expect(201);
    let newest = newest["metadata"]["resourceVersion"].as_str().unwrap();
    compact(&cluster, newest.parse().unwrap());
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={version}");
    cluster.get(&exact).refuses(410, "Expired", "");
    let late = cluster.get(&format!("{MAPS}?limit=1&continue={token}"));
    late.refuses(410, "Expired", "The provided continue parameter is too old");
    let token = late.object()["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    let rest = cluster
        .get(&format!("{MAPS}?limit=9&continue={token}"))
        .expect(200);
    let names: Vec<_> = rest["items"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["b", "c", "d"]);
}

fn compact(cluster: &Cluster, revision: i64) {
    cluster.in_store(async |client| {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        client.kv().compact(request).await.unwrap();
    });
}

#[test]
fn a_deletion_says_of_which_object_and_state_it_speaks() {
    let cluster = Cluster::start();
    let made = cluster.post(MAPS, &map("a")).expect(201);
    let delete = |preconditions: Value| {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        cluster
            .call("DELETE", &format!("{MAPS}/a"))
            .json(&options)
            .send()
    };
    let (uid, version) = (
        &made["metadata"]["uid"],
        &made["metadata"]["resourceVersion"],
    );
    delete(json!({"uid": "other"})).refuses(409, "Conflict", "does not match the UID in record");
    delete(json!({"resourceVersion": "1"})).refuses(
        409,
        "Conflict",
        "ResourceVersion in the precondition (1)",
    );
    delete(json!({"uid": uid, "resourceVersion": version})).expect(200);
    delete(json!({"uid": uid})).refuses(404, "NotFound", "configmaps \"a\" not found");
}

#[test]
fn an_object_that_the_store_cannot_hold_is_refused() {
    let cluster = Cluster::start();
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "big"}, "data": {"x": "y".repeat(2 << 20)}});
    let answer = cluster.post(path, &object);
    let told = answer.expect(answer.code);
    assert!([413, 500].contains(&answer.code), "{}", answer.code);
    assert_eq!(told["kind"], "Status");
    assert_eq!(cluster.get(&format!("{path}/big")).code, 404);
    cluster.post(MAPS, &map("small")).expect(201);
}
