//! Lists and watches, which informers rely on.

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"l": label}}})
}

fn event(verb: &str, name: &str) -> (String, String) {
    (verb.to_owned(), name.to_owned())
}

#[test]
fn a_watch_list_tells_the_state_then_a_bookmark_then_changes() {
    let cluster = Cluster::start();
    cluster.post(MAPS, &map("a", "x")).expect(201);
    cluster.post(MAPS, &map("b", "y")).expect(201);
    let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60";
    let mut watch = cluster.call("GET", &format!("{MAPS}?{query}")).stream();
    assert_eq!(watch.event(), event("ADDED", "a"));
    assert_eq!(watch.event(), event("ADDED", "b"));
    let bookmark = watch.next().unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let object = &bookmark["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&"ConfigMap".into(), &"v1".into())
    );
    assert_eq!(
        object["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    let told: i64 = object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let made = cluster.post(MAPS, &map("c", "x")).expect(201);
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    assert!(version.parse::<i64>().unwrap() > told);
    let added = watch.next().unwrap();
    assert_eq!((&added["type"], &added["object"]), (&"ADDED".into(), &made));
    cluster
        .call("DELETE", &format!("{MAPS}/c"))
        .send()
        .expect(200);
    let deleted = watch.next().unwrap();
    assert_eq!(deleted["type"], "DELETED");
    let last = deleted["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap();
    assert!(last.parse::<i64>().unwrap() > version.parse::<i64>().unwrap());
}

#[test]
fn a_selecting_watch_tells_who_enters_and_who_leaves() {
    let cluster = Cluster::start();
    let list = cluster.get(MAPS).expect(200);
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=1&labelSelector=l%3Dx&resourceVersion={from}");
    let mut watch = cluster.call("GET", &path).stream();
    cluster.post(MAPS, &map("a", "y")).expect(201);
    let relabel = |label: &str| {
        let body = json!({"metadata": {"labels": {"l": label}}}).to_string();
        let call = cluster.call("PATCH", &format!("{MAPS}/a"));
        call.body("application/merge-patch+json", body)
            .send()
            .expect(200)
    };
    relabel("x");
    assert_eq!(watch.event(), event("ADDED", "a"));
    let body = r#"{"data":{"k":"v"}}"#;
    let call = cluster.call("PATCH", &format!("{MAPS}/a"));
    call.body("application/merge-patch+json", body)
        .send()
        .expect(200);
    assert_eq!(watch.event(), event("MODIFIED", "a"));
    let left = relabel("z");
    let told = watch.next().unwrap();
    assert_eq!(told["type"], "DELETED");
    assert_eq!(told["object"]["metadata"]["labels"]["l"], "x");
    assert_eq!(
        told["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
}

#[test]
fn a_watch_ends_when_it_said_it_would() {
    let cluster = Cluster::start();
    let path = format!("{MAPS}?watch=1&timeoutSeconds=3&allowWatchBookmarks=true");
    let mut watch = cluster.call("GET", &path).stream();
    // The bookmark comes two seconds before the end.
    assert_eq!(watch.next().unwrap()["type"], "BOOKMARK");
    assert!(watch.next().is_none());
}

#[test]
fn no_bookmark_is_older_than_what_the_client_has_seen() {
    let cluster = Cluster::start();
    let list = cluster.get(MAPS).expect(200);
    let now = list["metadata"]["resourceVersion"].as_str().unwrap();
    let seen = now.parse::<i64>().unwrap() + 1000;
    let query = format!("watch=1&resourceVersion={seen}&timeoutSeconds=3&allowWatchBookmarks=true");
    let mut watch = cluster.call("GET", &format!("{MAPS}?{query}")).stream();
    assert!(watch.next().is_none());
}

#[test]
fn lists_are_told_in_parts_of_one_state() {
    let cluster = Cluster::start();
    for at in 0..7 {
        cluster.post(MAPS, &map(&format!("m{at}"), "x")).expect(201);
    }
    let mut path = format!("{MAPS}?limit=3");
    let mut names = Vec::new();
    let mut versions = Vec::new();
    loop {
        let page = cluster.get(&path).expect(200);
        let items = page["items"].as_array().unwrap();
        names.extend(
            items
                .iter()
                .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        versions.push(page["metadata"]["resourceVersion"].clone());
        let left = page["metadata"]["remainingItemCount"].as_i64();
        assert_eq!(left, (names.len() < 7).then_some(7 - names.len() as i64));
        let Some(token) = page["metadata"]["continue"].as_str() else {
            break;
        };
        path = format!("{MAPS}?limit=3&continue={token}");
        // This object is not part of the state that the list returns.
        cluster
            .post(MAPS, &map(&format!("z{}", names.len()), "x"))
            .expect(201);
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    versions.dedup();
    assert_eq!(versions.len(), 1);
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion=");
    let version = versions[0].as_str().unwrap();
    let exact = cluster.get(&format!("{exact}{version}")).expect(200);
    assert_eq!(exact["items"].as_array().unwrap().len(), 7);
    let selected = cluster
        .get(&format!("{MAPS}?fieldSelector=metadata.name%3Dm3"))
        .expect(200);
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_list_shows_what_was_just_written() {
    let cluster = Cluster::start();
    for at in 0..20 {
        cluster.post(MAPS, &map(&format!("m{at}"), "x")).expect(201);
        let list = cluster.get(MAPS).expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), at + 1);
    }
}

#[test]
fn protobuf_and_tables_and_metadata_are_answered_where_asked() {
    let cluster = Cluster::start();
    let made = cluster.post(MAPS, &map("a", "x")).expect(201);
    let protobuf = "application/vnd.kubernetes.protobuf";
    let get = |accept: &str| {
        cluster
            .call("GET", &format!("{MAPS}/a"))
            .header("Accept", accept)
            .send()
    };
    let answer = get(protobuf);
    assert_eq!(machinery::protobuf::decode(&answer.body).unwrap(), made);
    let list = cluster.call("GET", MAPS).header("Accept", protobuf).send();
    let list = machinery::protobuf::decode(&list.body).unwrap();
    assert_eq!(
        (&list["kind"], &list["items"][0]["metadata"]),
        (&"ConfigMapList".into(), &made["metadata"])
    );
    let body = machinery::protobuf::encode(&map("b", "x")).unwrap();
    let posted = cluster
        .call("POST", MAPS)
        .body(protobuf, body)
        .send()
        .expect(201);
    assert_eq!(posted["metadata"]["name"], "b");
    let missing = cluster
        .call("GET", &format!("{MAPS}/zz"))
        .header("Accept", protobuf)
        .send();
    assert_eq!(
        machinery::protobuf::decode(&missing.body).unwrap()["reason"],
        "NotFound"
    );
    let partial = get("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").object();
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert_eq!(partial["metadata"], made["metadata"]);
    let table = get("application/json;as=Table;v=v1;g=meta.k8s.io").object();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[test]
fn two_versions_of_a_kind_are_one_object() {
    let cluster = Cluster::start();
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let made = cluster.post(path, &v1).expect(201);
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(made["spec"]["minReplicas"], 1);
    let v2 = cluster.get(&path.replace("/v1/", "/v2/")).expect(200);
    let metric = &v2["items"][0]["spec"]["metrics"][0]["resource"];
    assert_eq!(metric["target"]["averageUtilization"], 50);
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r",
        "type": "Normal", "note": "said",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}});
    cluster.post(events, &event).expect(201);
    let core = cluster
        .get("/api/v1/namespaces/default/events/e")
        .expect(200);
    assert_eq!(
        (&core["message"], &core["involvedObject"]["name"]),
        (&"said".into(), &"p".into())
    );
    let about = "/api/v1/events?fieldSelector=involvedObject.name%3Dp";
    assert_eq!(
        cluster.get(about).expect(200)["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_watcher_that_does_not_read_holds_nobody_up() {
    /// Together far more than socket buffers hold, so the watcher that does not read is stuck.
    const CHANGES: usize = 200;
    const VALUE_BYTES: usize = 100_000;
    let cluster = Cluster::start();
    let list = cluster.get(MAPS).expect(200);
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}");
    let silent: Vec<_> = (0..3)
        .map(|_| cluster.call("GET", &path).stream())
        .collect();
    let mut reading = cluster.call("GET", &path).stream();
    cluster.post(MAPS, &map("m", "x")).expect(201);
    assert_eq!(reading.event(), event("ADDED", "m"));
    for at in 0..CHANGES {
        let value = format!("{at}{}", "x".repeat(VALUE_BYTES));
        let body = json!({"data": {"k": value}}).to_string();
        let call = cluster.call("PATCH", &format!("{MAPS}/m"));
        call.body("application/merge-patch+json", body)
            .send()
            .expect(200);
        let told: Value = reading.next().unwrap();
        assert_eq!(told["object"]["data"]["k"].as_str().unwrap(), value);
    }
    drop(silent);
    assert_eq!(cluster.get(&format!("{MAPS}/m")).code, 200);
}
