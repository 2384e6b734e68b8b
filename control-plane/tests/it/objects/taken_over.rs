//! A store that Kubernetes' own apiserver has written: some kinds are in it in another version than
//! the one that is served. `taken_over/golden.txt` has such values, each with its key, its path, and
//! Kubernetes' answer to a get. Those in protobuf are in base64. `taken_over/older.txt` has values in
//! versions that older releases stored, as Kubernetes v1.36 reads them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use machinery::{object, protobuf, schema};
use serde_json::{Value, json};
use testkit::Launch;

use super::MAPS;
use crate::harness::cluster::{BINARY, Cluster};

const GOLDEN: &str = include_str!("taken_over/golden.txt");
const OLDER: &str = include_str!("taken_over/older.txt");
/// Kinds whose status an apiserver writes by itself.
const RENEWED: [&str; 3] = [
    "/flowschemas/",
    "/servicecidrs/",
    "/validatingadmissionpolicies/",
];
const MERGE: &str = "application/merge-patch+json";

struct Taken {
    key: &'static str,
    path: &'static str,
    value: Vec<u8>,
    answer: Value,
}

fn taken(golden: &'static str) -> Vec<Taken> {
    let all = golden.split("\n\n").map(|one| {
        let mut lines = one.lines();
        let mut next = || lines.next().unwrap();
        let (key, path, value) = (next(), next(), next());
        Taken {
            key,
            path,
            value: BASE64_STANDARD
                .decode(value)
                .unwrap_or_else(|_| value.into()),
            answer: serde_json::from_str(next()).unwrap(),
        }
    });
    all.collect()
}

/// An apiserver on a store with these values.
fn take_over(all: &[Taken]) -> Cluster {
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = etcd_api::Client::connect(store.url()).await.unwrap();
        for one in all {
            let put = PutRequest {
                key: one.key.into(),
                value: one.value.clone().into(),
                ..Default::default()
            };
            client.kv().put(put).await.unwrap();
        }
    });
    Cluster::on(store)
}

fn value_of(cluster: &Cluster, key: &'static str) -> Vec<u8> {
    cluster.in_store(async |client| {
        let range = RangeRequest {
            key: key.into(),
            ..Default::default()
        };
        let found = client.kv().range(range).await.unwrap().into_inner();
        found.kvs[0].value.to_vec()
    })
}

/// A value of the store as JSON. Both versions of the kinds in protobuf have the same fields.
fn read(value: &[u8], kind: &Value) -> Value {
    if !value.starts_with(&protobuf::MAGIC) {
        return serde_json::from_slice(value).unwrap();
    }
    let (group, version) = schema::split_api_version(object::api_version(kind));
    let kind = schema::kind(group, version, object::kind(kind)).unwrap();
    protobuf::decode_as(value, kind.message()).unwrap()
}

fn without_revision(mut object: Value) -> Value {
    object::metadata_mut(&mut object).remove("resourceVersion");
    object
}

#[test]
fn what_kubernetes_stores_in_another_version_is_read_in_the_served_one() {
    let all = taken(GOLDEN);
    let cluster = take_over(&all);
    for one in &all {
        let answer = without_revision(one.answer.clone());
        let get = cluster.get(one.path).expect(200);
        assert_eq!(without_revision(get), answer);
        let (collection, name) = one.path.rsplit_once('/').unwrap();
        let selected = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        let list = cluster.get(&selected).expect(200);
        assert_eq!(without_revision(list["items"][0].clone()), answer);
        let watch = format!(
            "{selected}&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        );
        let mut watch = cluster.call("GET", &watch).stream();
        let event = watch.next().unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(without_revision(event["object"].clone()), answer);
        // In protobuf, too.
        let media = protobuf::MEDIA_TYPE;
        let get = cluster.call("GET", one.path).header("Accept", media).send();
        let get = protobuf::decode(&get.body).unwrap();
        assert_eq!(get["apiVersion"], answer["apiVersion"]);
        assert_eq!(get["spec"], answer["spec"]);
    }
}

#[test]
fn what_was_stored_in_another_version_takes_effect() {
    let cluster = take_over(&taken(GOLDEN));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let made = cluster.post(MAPS, &map).expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"taken": "over"}));
    for version in ["v1", "v1beta1"] {
        let api_version = format!("shop.example.com/{version}");
        let widget = json!({"apiVersion": api_version, "kind": "Widget", "spec": {"mode": "m"},
            "metadata": {"name": version}});
        let path = format!("/apis/{api_version}/namespaces/default/widgets");
        let made = cluster.post(&path, &widget).expect(201);
        assert_eq!(made["spec"], json!({"mode": "m", "size": 3}));
    }
}

#[test]
fn a_write_keeps_the_version_that_kubernetes_stores() {
    let all = taken(GOLDEN);
    let cluster = take_over(&all);
    for one in &all {
        // A change of nothing writes nothing.
        let before = cluster.get(one.path).expect(200);
        let patch = |body: &str| {
            cluster
                .call("PATCH", one.path)
                .body(MERGE, body)
                .send()
                .expect(200)
        };
        assert_eq!(patch("{}"), before);
        patch(r#"{"metadata":{"labels":{"changed":"yes"}}}"#);
        let (old, new) = (&one.value, value_of(&cluster, one.key));
        let (old, new) = (read(old, &one.answer), read(&new, &one.answer));
        assert_eq!(new["metadata"]["labels"]["changed"], "yes");
        for key in ["apiVersion", "kind", "spec", "status"] {
            assert_eq!(new[key], old[key], "{key} of {}", one.key);
        }
        let deleted = cluster.call("DELETE", one.path).send();
        assert_eq!(deleted.code, 200);
    }
}

/// The values of older versions. If `encode`, those that the file has as JSON are in protobuf, in which
/// Kubernetes has stored them.
fn older(encode: bool) -> Vec<Taken> {
    let mut all = taken(OLDER);
    for one in all
        .iter_mut()
        .filter(|one| encode && one.value.starts_with(b"{"))
    {
        let object: Value = serde_json::from_slice(&one.value).unwrap();
        let (group, version) = schema::split_api_version(object::api_version(&object));
        let (of_now, now) = schema::split_api_version(object::api_version(&one.answer));
        let kind = object::kind(&object);
        // Most versions have the fields of the present one.
        let message =
            schema::body(group, version, kind).or_else(|| schema::body(of_now, now, kind));
        let encoded = protobuf::encode_as(&object, message.unwrap()).unwrap();
        // Some fields have another name in JSON, and an empty list has no bytes.
        if protobuf::decode_as(&encoded, message.unwrap()).unwrap() == object {
            one.value = encoded;
        }
    }
    all
}

#[test]
fn versions_that_older_releases_stored_are_read_as_kubernetes_reads_them() {
    for encode in [false, true] {
        let all = older(encode);
        let cluster = take_over(&all);
        let mut wrong = Vec::new();
        for one in &all {
            let mut answer = without_revision(one.answer.clone());
            let mut get = without_revision(cluster.get(one.path).object());
            if RENEWED.iter().any(|plural| one.path.contains(plural)) {
                object::remove(&mut answer, &["status"]);
                object::remove(&mut get, &["status"]);
            }
            if get != answer {
                let key = one.key;
                wrong.push(format!("{key}, encoded: {encode}\nis {get}\nnot {answer}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let claim = all.iter().find(|one| one.path.ends_with("/stored-claim"));
        let claim = claim.unwrap();
        // A write of nothing writes it in the present version.
        let patch = cluster.call("PATCH", claim.path).body(MERGE, "{}");
        patch.send().expect(200);
        let written = protobuf::decode_type(&value_of(&cluster, claim.key)).unwrap();
        assert_eq!(written.0, "resource.k8s.io/v1");
    }
}

#[test]
fn a_version_that_nobody_knows_is_refused() {
    let mut one = taken(OLDER).swap_remove(0);
    let mut object: Value = serde_json::from_slice(&one.value).unwrap();
    object["apiVersion"] = "apps/v1beta9".into();
    one.value = object.to_string().into();
    let cluster = take_over(std::slice::from_ref(&one));
    let refused = cluster.get(one.path);
    let why = "no kind \"Deployment\" is registered for version \"apps/v1beta9\"";
    refused.refuses(500, "InternalError", why);
}
