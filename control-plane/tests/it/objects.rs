//! The life of objects from creation to deletion, over plain HTTP.

pub(crate) mod conversion;
pub(crate) mod custom;
pub(crate) mod definitions;
pub(crate) mod managed;
pub(crate) mod prepared;
mod services;
mod taken_over;
mod versions;

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;
use crate::requests::http::Answer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    })
}

#[test]
fn a_pod_is_bound_and_ends_when_its_node_says_so() {
    let cluster = Cluster::start();
    let made = cluster.post(PODS, &pod("p")).expect(201);
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert_eq!(made["metadata"]["generation"], 1);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    });
    let bind = || cluster.post(&format!("{PODS}/p/binding"), &binding);
    assert_eq!(bind().expect(201)["status"], "Success");
    bind().refuses(409, "Conflict", "pod p is already assigned to node \"n1\"");
    let bound = cluster.get(&format!("{PODS}/p")).expect(200);
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");

    let deleting = cluster
        .call("DELETE", &format!("{PODS}/p"))
        .send()
        .expect(200);
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = format!("{PODS}/p?gracePeriodSeconds=5");
    let shorter = cluster.call("DELETE", &shorter).send().expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = format!("{PODS}/p?gracePeriodSeconds=50");
    let longer = cluster.call("DELETE", &longer).send().expect(200);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "someone-else"}});
    let wrong = cluster
        .call("DELETE", &format!("{PODS}/p"))
        .json(&options)
        .send();
    wrong.refuses(
        409,
        "Conflict",
        "the UID in the precondition (someone-else)",
    );
    let now = format!("{PODS}/p?gracePeriodSeconds=0");
    cluster.call("DELETE", &now).send().expect(200);
    assert_eq!(cluster.get(&format!("{PODS}/p")).code, 404);
}

#[test]
fn finalizers_keep_a_deleted_object_until_the_last_is_gone() {
    let cluster = Cluster::start();
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    cluster.post(MAPS, &object).expect(201);
    let kept = cluster
        .call("DELETE", &format!("{MAPS}/m"))
        .send()
        .expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    let patch = |body: &str| {
        let call = cluster.call("PATCH", &format!("{MAPS}/m"));
        call.body("application/merge-patch+json", body).send()
    };
    let added = r#"{"metadata":{"finalizers":["example.com/keep","example.com/more"]}}"#;
    patch(added).refuses(422, "Invalid", "no new finalizers can be added");
    assert_eq!(patch(r#"{"metadata":{"finalizers":null}}"#).code, 200);
    assert_eq!(cluster.get(&format!("{MAPS}/m")).code, 404);
}

#[test]
fn propagation_becomes_finalizers() {
    let cluster = Cluster::start();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"generateName": "m-"}});
        let made = cluster.post(MAPS, &object).expect(201);
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("m-") && name.len() == 7, "{name}");
        let path = format!("{MAPS}/{name}?propagationPolicy={policy}");
        let kept = cluster.call("DELETE", &path).send().expect(200);
        assert_eq!(kept["metadata"]["finalizers"], json!([finalizer]));
    }
}

#[test]
fn a_namespace_goes_when_its_content_is_gone() {
    let cluster = Cluster::start();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = cluster.post("/api/v1/namespaces", &namespace).expect(201);
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    let mut ending = cluster
        .call("DELETE", "/api/v1/namespaces/n")
        .send()
        .expect(200);
    assert_eq!(ending["status"]["phase"], "Terminating");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let late = cluster.post("/api/v1/namespaces/n/configmaps", &map);
    late.refuses(403, "Forbidden", "because it is being terminated");
    assert_eq!(
        late.object()["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    ending["spec"] = json!({});
    cluster
        .call("PUT", "/api/v1/namespaces/n/finalize")
        .json(&ending)
        .send()
        .expect(200);
    assert_eq!(cluster.get("/api/v1/namespaces/n").code, 404);
    let immortal = cluster.call("DELETE", "/api/v1/namespaces/default").send();
    immortal.refuses(403, "Forbidden", "this namespace may not be deleted");
}

#[test]
fn status_and_the_rest_are_written_apart() {
    let cluster = Cluster::start();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
        "status": {"replicas": 9},
    });
    let mut object = cluster.post(path, &deployment).expect(201);
    assert_eq!(object["status"], json!({}));
    let path = format!("{path}/d");
    object["status"] = json!({"replicas": 1});
    object["spec"]["replicas"] = 3.into();
    let object = cluster.call("PUT", &path).json(&object).send().expect(200);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(object["status"], json!({}));
    let again = cluster.call("PUT", &path).json(&object).send().expect(200);
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(
        version(&again),
        version(&object),
        "nothing changed, so nothing was written"
    );
    let mut status = again;
    status["spec"]["replicas"] = 7.into();
    status["status"] = json!({"replicas": 2, "observedGeneration": 2});
    let put = cluster
        .call("PUT", &format!("{path}/status"))
        .json(&status)
        .send()
        .expect(200);
    assert_eq!(
        (&put["spec"]["replicas"], &put["status"]["replicas"]),
        (&3.into(), &2.into())
    );
    assert_eq!(put["metadata"]["generation"], 2);
    // A changed annotation raises a deployment's generation, because its replica sets inherit it,
    // except when a controller writes it with the status.
    let mut annotated = put;
    annotated["metadata"]["annotations"]["revision"] = "1".into();
    let annotated = cluster
        .call("PUT", &format!("{path}/status"))
        .json(&annotated)
        .send()
        .expect(200);
    assert_eq!(annotated["metadata"]["annotations"]["revision"], "1");
    assert_eq!(annotated["metadata"]["generation"], 2);
    let note = cluster.call("PATCH", &path).body(
        "application/merge-patch+json",
        r#"{"metadata":{"annotations":{"note":"a"}}}"#,
    );
    assert_eq!(note.send().expect(200)["metadata"]["generation"], 3);
    let scale = cluster.get(&format!("{path}/scale")).expect(200);
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
    let scaled = cluster.call("PATCH", &format!("{path}/scale"));
    let scaled = scaled.body("application/merge-patch+json", r#"{"spec":{"replicas":0}}"#);
    assert_eq!(scaled.send().expect(200)["spec"], json!({}));
    assert_eq!(cluster.get(&path).expect(200)["spec"]["replicas"], 0);
}

#[test]
fn a_dry_run_answers_and_stores_nothing() {
    let cluster = Cluster::start();
    cluster
        .post(&format!("{PODS}?dryRun=All"), &pod("p"))
        .expect(201);
    assert_eq!(cluster.get(&format!("{PODS}/p")).code, 404);
    cluster.post(PODS, &pod("p")).expect(201);
    cluster
        .post(&format!("{PODS}?dryRun=All"), &pod("p"))
        .refuses(409, "AlreadyExists", "");
    cluster
        .call("DELETE", &format!("{PODS}/p?dryRun=All"))
        .send()
        .expect(200);
    assert_eq!(cluster.get(&format!("{PODS}/p")).code, 200);
    cluster
        .post(&format!("{PODS}?dryRun=Some"), &pod("q"))
        .refuses(422, "Invalid", "dryRun");
}

#[test]
fn services_get_addresses_and_ports_of_their_own() {
    let cluster = Cluster::start();
    let path = "/api/v1/namespaces/default/services";
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80}]);
    let a = cluster
        .post(
            path,
            &service("a", json!({"type": "NodePort", "ports": ports})),
        )
        .expect(201);
    let address = a["spec"]["clusterIP"].as_str().unwrap();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(a["spec"]["clusterIPs"], json!([address]));
    let port = a["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    // Those before are for services that name theirs.
    assert!((30_086..=32_767).contains(&port), "{port}");
    let taken = service("b", json!({"clusterIP": address, "ports": ports}));
    cluster
        .post(path, &taken)
        .refuses(422, "Invalid", "provided IP is already allocated");
    let taken = service(
        "b",
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}),
    );
    cluster
        .post(path, &taken)
        .refuses(422, "Invalid", "provided port is already allocated");
    let headless = service("c", json!({"clusterIP": "None", "ports": ports}));
    assert_eq!(
        cluster.post(path, &headless).expect(201)["spec"]["clusterIP"],
        "None"
    );
    let mut kept = service("a", json!({"ports": [{"port": 81}]}));
    kept["metadata"]["resourceVersion"] = a["metadata"]["resourceVersion"].clone();
    let kept = cluster
        .call("PUT", &format!("{path}/a"))
        .json(&kept)
        .send()
        .expect(200);
    assert_eq!(kept["spec"]["clusterIP"], address);
    assert_eq!(kept["spec"]["ports"][0].get("nodePort"), None);
    cluster
        .call("DELETE", &format!("{path}/a"))
        .send()
        .expect(200);
    let again = service("b", json!({"clusterIP": address, "ports": ports}));
    cluster.post(path, &again).expect(201);
}

#[test]
fn a_service_of_another_type_sheds_what_it_had() {
    let cluster = Cluster::start();
    let path = "/api/v1/namespaces/default/services";
    let balancer = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    let made = cluster.post(path, &balancer).expect(201);
    let port = |key: &str| made.pointer(key).and_then(Value::as_i64).unwrap();
    let (own, health) = (
        port("/spec/ports/0/nodePort"),
        port("/spec/healthCheckNodePort"),
    );
    assert!((30_000..=32_767).contains(&health) && own != health);
    let patch = |body: Value| {
        let call = cluster.call("PATCH", &format!("{path}/a"));
        let media_type = "application/merge-patch+json";
        call.body(media_type, body.to_string()).send()
    };
    let elsewhere = json!({"spec": {"clusterIP": "10.96.7.8"}});
    patch(elsewhere).refuses(422, "Invalid", "may not change once set");
    let other = json!({"spec": {"healthCheckNodePort": own}});
    patch(other).refuses(422, "Invalid", "field is immutable");
    let inside = patch(json!({"spec": {"type": "ClusterIP"}})).expect(200);
    for key in [
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "allocateLoadBalancerNodePorts",
    ] {
        assert_eq!(inside["spec"].get(key), None, "{key}");
    }
    assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(inside["spec"]["clusterIP"], "10.96.7.7");
    patch(json!({"spec": {"type": "NodePort"}})).expect(200);
    let outside = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}});
    let outside = patch(outside).expect(200);
    assert_eq!(outside["spec"].get("clusterIP"), None);
    assert_eq!(outside["spec"]["ports"][0].get("nodePort"), None);
    let mut heir = balancer;
    heir["metadata"]["name"] = "b".into();
    cluster.post(path, &heir).expect(201);
    let taken = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.7.7"}});
    patch(taken).refuses(422, "Invalid", "provided IP is already allocated");
    // What a refused update has allocated is free again.
    let invalid = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.7.9",
        "ports": [{"port": 0}]}});
    patch(invalid).refuses(422, "Invalid", "must be between 1 and 65535");
    heir["metadata"]["name"] = "c".into();
    heir["spec"]["clusterIP"] = "10.96.7.9".into();
    cluster.post(path, &heir).expect(201);
}

#[test]
fn an_eviction_pays_its_budget() {
    let cluster = Cluster::start();
    let mut running = pod("p");
    running["metadata"]["labels"] = json!({"app": "x"});
    let mut running = cluster.post(PODS, &running).expect(201);
    running["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    cluster
        .call("PUT", &format!("{PODS}/p/status"))
        .json(&running)
        .send()
        .expect(200);
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    let mut budget = cluster.post(path, &budget).expect(201);
    budget["status"] = json!({"observedGeneration": 1, "disruptionsAllowed": 0,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    let put = |budget: &Value| {
        let call = cluster
            .call("PUT", &format!("{path}/b/status"))
            .json(budget);
        call.send().expect(200)
    };
    let mut budget = put(&budget);
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let evict = || cluster.post(&format!("{PODS}/p/eviction"), &eviction);
    evict().refuses(
        429,
        "TooManyRequests",
        "it would violate the pod's disruption budget",
    );
    budget["status"]["disruptionsAllowed"] = 1.into();
    put(&budget);
    assert_eq!(evict().expect(201)["status"], "Success");
    assert_eq!(cluster.get(&format!("{PODS}/p")).code, 404);
    let paid = cluster.get(&format!("{path}/b")).expect(200);
    assert_eq!(paid["status"]["disruptionsAllowed"], 0);
    assert_eq!(
        paid["status"]["conditions"][0]["reason"],
        "InsufficientPods"
    );
    assert!(paid["status"]["disruptedPods"]["p"].is_string());
}

#[test]
fn an_eviction_is_of_the_pod_that_its_client_has_seen() {
    let cluster = Cluster::start();
    let made = cluster.post(PODS, &pod("p")).expect(201);
    let mut started = made.clone();
    started["status"] = json!({"phase": "Running"});
    let status = format!("{PODS}/p/status");
    let status = cluster.call("PUT", &status).json(&started);
    let seen = status.send().expect(200);
    let evict = |pod: &Value| {
        let version = &pod["metadata"]["resourceVersion"];
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": "p"},
            "deleteOptions": {"preconditions": {"resourceVersion": version}}});
        cluster.post(&format!("{PODS}/p/eviction"), &eviction)
    };
    evict(&made).refuses(
        409,
        "Conflict",
        "does not match the ResourceVersion in record",
    );
    // Nothing was said of an eviction that did not happen.
    let left = cluster.get(&format!("{PODS}/p")).expect(200);
    assert_eq!(
        left["metadata"]["resourceVersion"],
        seen["metadata"]["resourceVersion"]
    );
    assert_eq!(evict(&left).expect(201)["status"], "Success");
    assert_eq!(cluster.get(&format!("{PODS}/p")).code, 404);
}

#[test]
fn an_owner_named_twice_is_kept_once_with_a_warning() {
    let cluster = Cluster::start();
    let owner = |uid: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid,
            "blockOwnerDeletion": false})
    };
    let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m",
        "ownerReferences": [owner("a"), owner("b"), owner("a"), owner("b")]}});
    let warning = |when: &str| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: a, b"
        )
    };
    fn warnings(answer: &Answer) -> Vec<&str> {
        let lines = answer.head.lines();
        let said = lines.filter_map(|line| line.split_once("299 - \""));
        said.map(|(_, said)| said.trim_end_matches('"')).collect()
    }
    let once = json!([owner("a"), owner("b")]);
    let one = format!("{MAPS}/m");
    for put in [false, true] {
        let told = if put {
            cluster.call("PUT", &one).json(&owned).send()
        } else {
            cluster.post(MAPS, &owned)
        };
        assert_eq!(warnings(&told), [warning("")]);
        let told = told.expect(if put { 200 } else { 201 });
        assert_eq!(told["metadata"]["ownerReferences"], once);
    }
    // Patches are looked at after admission alone.
    let owners = &owned["metadata"]["ownerReferences"];
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let merge = "application/merge-patch+json";
    let told = cluster.call("PATCH", &one).body(merge, patch.to_string());
    let told = told.send();
    assert_eq!(
        warnings(&told),
        [warning(" after mutating admission happens")]
    );
    assert_eq!(told.expect(200)["metadata"]["ownerReferences"], once);
}

#[test]
fn a_dry_run_is_about_the_newest_state() {
    let cluster = Cluster::start();
    let object = |round: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
            "data": {"round": round.to_string()}})
    };
    let mut before = cluster.post(MAPS, &object(0)).expect(201);
    let one = format!("{MAPS}/m");
    for round in 1..200 {
        let put = cluster.call("PUT", &one).json(&object(round));
        let after = put.send().expect(200);
        before["data"]["round"] = "dry".into();
        let dry = cluster.call("PUT", &format!("{one}?dryRun=All"));
        let told = dry.json(&before).send();
        told.refuses(409, "Conflict", "the object has been modified");
        before = after;
    }
}

#[test]
fn the_store_holds_what_kubernetes_would_put_there() {
    let cluster = Cluster::start();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"k": "v"}});
    let made = cluster.post(MAPS, &object).expect(201);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kv = runtime.block_on(async {
        let client = etcd_api::Client::connect(cluster.store.url())
            .await
            .unwrap();
        let request = etcd_api::etcdserverpb::RangeRequest {
            key: b"/registry/configmaps/default/m".to_vec().into(),
            ..Default::default()
        };
        client
            .kv()
            .range(request)
            .await
            .unwrap()
            .into_inner()
            .kvs
            .remove(0)
    });
    assert!(kv.value.starts_with(b"k8s\0"));
    assert_eq!(
        made["metadata"]["resourceVersion"],
        kv.mod_revision.to_string()
    );
    let stored = machinery::protobuf::decode(&kv.value).unwrap();
    assert_eq!(stored["data"], json!({"k": "v"}));
    assert_eq!(stored["metadata"].get("resourceVersion"), None);
}

#[test]
fn what_is_built_in_comes_back() {
    let cluster = Cluster::start();
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let first = cluster.get(path).expect(200);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!(
        "/api/v1/services?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Dkubernetes"
    );
    let mut watch = cluster.call("GET", &watch).stream();
    cluster.call("DELETE", path).send().expect(200);
    assert_eq!(watch.event().0, "DELETED");
    assert_eq!(watch.event().0, "ADDED");
    let again = cluster.get(path).expect(200);
    assert_eq!(again["spec"]["clusterIP"], "10.96.0.1");
}

#[test]
fn of_many_writers_each_gets_through_once() {
    let cluster = Cluster::start();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    cluster.post(MAPS, &object).expect(201);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                for at in 0..10 {
                    let body = json!({"data": {format!("k{writer}.{at}"): "v"}}).to_string();
                    let call = cluster.call("PATCH", &format!("{MAPS}/m"));
                    let call = call.body("application/merge-patch+json", body);
                    call.send().expect(200);
                }
            });
        }
    });
    let object = cluster.get(&format!("{MAPS}/m")).expect(200);
    assert_eq!(object["data"].as_object().unwrap().len(), 40);
}

#[test]
fn objects_outlive_the_store_and_the_server() {
    let mut cluster = Cluster::start();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let made = cluster.post(MAPS, &object).expect(201);
    cluster.store.kill_and_restart();
    // The server reconnects to its store by itself; until then it reports that it cannot answer.
    let found = (0..600).any(|_| {
        let answer = cluster.get(&format!("{MAPS}/m"));
        if answer.code == 200 {
            assert_eq!(answer.object(), made);
            return true;
        }
        // Or the request ends first, which waits for an answer of the store.
        assert!([500, 504].contains(&answer.code), "{}", answer.code);
        std::thread::sleep(std::time::Duration::from_millis(100));
        false
    });
    assert!(found, "the server does not find its store again");
    let list = cluster.get(&format!("{MAPS}?limit=5")).expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    cluster.restart_apiserver();
    assert_eq!(cluster.get(&format!("{MAPS}/m")).expect(200), made);
}

#[test]
fn the_same_runs_on_real_etcd() {
    let Some(tools) = testkit::Tools::or_skip("the apiserver on real etcd") else {
        return;
    };
    let cluster = Cluster::on(testkit::Server::start_etcd(&tools, &[]));
    let made = cluster.post(PODS, &pod("p")).expect(201);
    assert_eq!(cluster.get(&format!("{PODS}/p")).expect(200), made);
    let list = cluster.get(PODS).expect(200);
    assert_eq!(list["items"], json!([made]));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = cluster.call("GET", &format!("{PODS}?watch=1&resourceVersion={version}"));
    watch = watch.header("Accept", "application/json");
    let mut watch = watch.stream();
    cluster
        .call("DELETE", &format!("{PODS}/p"))
        .send()
        .expect(200);
    assert_eq!(watch.event().0, "DELETED");
}
