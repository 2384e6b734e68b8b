//! Limit ranges and resource quotas: what admission sets, refuses and counts.
//!
//! No loop runs here: the tests write the status of a quota themselves.

use std::time::Duration;

use apiserver::{Config, Server};
use axum::body::{Body, to_bytes};
use http::Request;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::Launch;
use tower::ServiceExt as _;

use crate::harness::cluster::BINARY;

const CORE: &str = "/api/v1/namespaces/default";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Apiservers on one store.
struct World {
    store: testkit::Server,
    servers: Vec<Server>,
}

impl World {
    async fn start() -> World {
        World::of(&[Config::default()]).await
    }

    async fn of(configs: &[Config]) -> World {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let mut servers = Vec::new();
        for config in configs {
            let client = etcd_api::Client::connect(store.url()).await.unwrap();
            let server = Server::new(client, config.clone());
            server.ready().await;
            servers.push(server);
        }
        World { store, servers }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(self.servers[0].router(), method, path, body).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, body).await
    }

    /// Creates what the test needs.
    async fn given(&self, path: &str, body: &Value) -> Value {
        let (code, object) = self.post(path, body).await;
        assert_eq!(code, 201, "{path}: {object}");
        object
    }

    /// A quota `q` of which nothing is used.
    async fn quota(&self, hard: Value, more: Value) {
        let mut spec = json!({"hard": hard});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let quota = json!({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
        self.given(&format!("{CORE}/resourcequotas"), &quota).await;
        let names = hard.as_object().unwrap().keys();
        let used: Value = names.map(|name| (name.clone(), json!("0"))).collect();
        self.report(json!({"hard": hard, "used": used})).await;
        // A quota counts by its status, and each server judges by what it has heard of: as in
        // Kubernetes, one that has heard of the quota alone admits everything. A list waits for the
        // newest.
        for server in &self.servers {
            let path = format!("{CORE}/resourcequotas");
            let (_, list) = ask(server.router(), "GET", &path, &Value::Null).await;
            assert_eq!(list["items"][0]["status"]["hard"], hard, "{list}");
        }
    }

    async fn report(&self, status: Value) {
        let path = format!("{CORE}/resourcequotas/q/status");
        let (code, told) = self.ask("PATCH", &path, &json!({"status": status})).await;
        assert_eq!(code, 200, "{told}");
    }

    async fn used(&self) -> Value {
        let path = format!("{CORE}/resourcequotas/q");
        let (_, quota) = self.ask("GET", &path, &Value::Null).await;
        quota["status"]["used"].clone()
    }
}

async fn ask(router: axum::Router, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let media_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("Content-Type", media_type);
    let response = router.oneshot(request.body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    // A path that is not served is answered in plain text.
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn message((code, told): (u16, Value)) -> String {
    assert_eq!(code, 403, "{told}");
    told["message"].as_str().unwrap().to_owned()
}

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}})
}

fn pod(name: &str, resources: Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": resources});
    json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_range_sets_defaults_and_refuses_what_is_out_of_bounds() {
    let world = World::start().await;
    let limits = json!([
        {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"},
            "min": {"cpu": "500m"}, "maxLimitRequestRatio": {"cpu": "2"}},
        {"type": "Pod", "max": {"memory": "1Gi"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
    ]);
    let range =
        json!({"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}});
    world.given(&format!("{CORE}/limitranges"), &range).await;
    let pods = format!("{CORE}/pods");
    let memory = |memory: &str| json!({"limits": {"memory": memory}});
    let made = world.given(&pods, &pod("good", memory("1Gi"))).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let mut wrong = memory("2Gi");
    wrong["requests"] = json!({"cpu": "250m"});
    assert_eq!(
        message(world.post(&pods, &pod("bad", wrong)).await),
        "pods \"bad\" is forbidden: [minimum cpu usage per Container is 500m, but request is 250m, \
         cpu max limit to request ratio per Container is 2, but provided ratio is 8.000000, \
         maximum memory usage per Pod is 1Gi, but limit is 2Gi]"
    );
    let claim = |name: &str, storage: &str| {
        json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}},
        }})
    };
    let claims = format!("{CORE}/persistentvolumeclaims");
    assert_eq!(
        message(world.post(&claims, &claim("c", "6Gi")).await),
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per \
         PersistentVolumeClaim is 5Gi, but request is 6Gi"
    );
    world.given(&claims, &claim("c", "5Gi")).await;
    // A pod that is there keeps what it has when the range changes.
    let one = format!("{CORE}/limitranges/l");
    let tighter = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    assert_eq!(world.ask("PATCH", &one, &tighter).await.0, 200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        world.ask("PATCH", &format!("{pods}/good"), &label).await.0,
        200
    );
    assert_eq!(world.post(&pods, &pod("late", memory("1Gi"))).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_writes_at_once_through_two_servers_no_more_than_fit_get_through() {
    const WRITES: usize = 200;
    const FIT: usize = 99;
    let world = World::of(&[Config::default(), Config::default()]).await;
    let hard = json!({"count/configmaps": FIT.to_string(), "configmaps": "1k"});
    world.quota(hard, json!({})).await;
    let writes = (0..WRITES).map(|at| {
        let router = world.servers[at % 2].router();
        tokio::spawn(async move {
            let path = format!("{CORE}/configmaps");
            ask(router, "POST", &path, &map(&format!("m{at}"))).await
        })
    });
    let mut made = 0;
    for write in writes.collect::<Vec<_>>() {
        let answer = write.await.unwrap();
        if answer.0 == 201 {
            made += 1;
        } else {
            let why = "is forbidden: exceeded quota: q, requested: count/configmaps=1, used: \
                       count/configmaps=99, limited: count/configmaps=99";
            let message = message(answer);
            assert!(message.ends_with(why), "{message}");
        }
    }
    assert_eq!(made, FIT);
    assert_eq!(
        world.used().await,
        json!({"count/configmaps": FIT.to_string(), "configmaps": FIT.to_string()})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_stored_is_charged() {
    let world = World::start().await;
    let maps = format!("{CORE}/configmaps");
    world.quota(json!({"configmaps": "2"}), json!({})).await;
    let charged = async || world.used().await["configmaps"].clone();
    assert_eq!(
        world.post(&format!("{maps}?dryRun=All"), &map("a")).await.0,
        201
    );
    assert_eq!(charged().await, "0");
    // Policies refuse before quotas charge.
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"],
        "resources": ["configmaps"]});
    let policy = json!({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'refused'"}],
    }});
    world.given(POLICIES, &policy).await;
    let binding = json!({"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    world
        .given(&POLICIES.replace("policies", "policybindings"), &binding)
        .await;
    assert_eq!(world.post(&maps, &map("refused")).await.0, 422);
    assert_eq!(charged().await, "0");
    world.given(&maps, &map("a")).await;
    assert_eq!(charged().await, "1");
    let changed = json!({"data": {"k": "v"}});
    assert_eq!(
        world.ask("PATCH", &format!("{maps}/a"), &changed).await.0,
        200
    );
    assert_eq!(charged().await, "1");
    // Less is counted by the loop alone.
    assert_eq!(
        world
            .ask("DELETE", &format!("{maps}/a"), &Value::Null)
            .await
            .0,
        200
    );
    world.given(&maps, &map("b")).await;
    assert_eq!(
        world.post(&format!("{maps}?dryRun=All"), &map("c")).await.0,
        403
    );
    world.report(json!({"used": {"configmaps": "1"}})).await;
    world.given(&maps, &map("c")).await;
    assert_eq!(charged().await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_services_and_custom_resources_are_counted() {
    let world = World::start().await;
    let hard = json!({"pods": "5", "requests.cpu": "1", "services.nodeports": "1",
        "count/carts.shop.io": "1"});
    world.quota(hard, json!({})).await;
    let pods = format!("{CORE}/pods");
    let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
    world.given(&pods, &pod("a", cpu("600m"))).await;
    assert_eq!(
        message(world.post(&pods, &pod("b", cpu("500m"))).await),
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: \
         requests.cpu=600m, limited: requests.cpu=1"
    );
    assert_eq!(
        message(world.post(&pods, &pod("b", json!({}))).await),
        "pods \"b\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let service = |ports: u16| {
        let ports = (1..=ports).map(|port| json!({"name": format!("p{port}"), "port": port}));
        json!({"kind": "Service", "metadata": {"name": "s"},
            "spec": {"type": "NodePort", "ports": ports.collect::<Vec<_>>()}})
    };
    world.given(&format!("{CORE}/services"), &service(1)).await;
    let path = format!("{CORE}/services/s");
    assert_eq!(
        message(world.ask("PATCH", &path, &service(2)).await),
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: \
         services.nodeports=1, limited: services.nodeports=1"
    );
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"kind": "CustomResourceDefinition",
    "metadata": {"name": "carts.shop.io"}, "spec": {
        "group": "shop.io", "scope": "Namespaced",
        "names": {"plural": "carts", "kind": "Cart"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": any}}],
    }});
    world.given(DEFINITIONS, &definition).await;
    let carts = "/apis/shop.io/v1/namespaces/default/carts";
    let cart = |name: &str| json!({"apiVersion": "shop.io/v1", "kind": "Cart", "metadata": {"name": name}});
    while world.ask("GET", carts, &Value::Null).await.0 == 404 {
        tokio::task::yield_now().await;
    }
    world.given(carts, &cart("a")).await;
    assert_eq!(
        message(world.post(carts, &cart("b")).await),
        "carts.shop.io \"b\" is forbidden: exceeded quota: q, requested: count/carts.shop.io=1, \
         used: count/carts.shop.io=1, limited: count/carts.shop.io=1"
    );
    let used = json!({"pods": "1", "requests.cpu": "600m", "services.nodeports": "1",
        "count/carts.shop.io": "1"});
    assert_eq!(world.used().await, used);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_counts_what_is_in_its_scopes() {
    let world = World::start().await;
    let selector = json!({"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
    ]});
    let class = json!({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5});
    world
        .given("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
        .await;
    let scopes = json!({"scopes": ["NotTerminating"], "scopeSelector": selector});
    world.quota(json!({"pods": "1"}), scopes).await;
    let pods = format!("{CORE}/pods");
    let mut important = pod("a", json!({}));
    important["spec"]["priorityClassName"] = "high".into();
    world.given(&pods, &pod("any", json!({}))).await;
    world.given(&pods, &important).await;
    important["metadata"]["name"] = "b".into();
    assert_eq!(world.post(&pods, &important).await.0, 403);
    important["spec"]["activeDeadlineSeconds"] = 60.into();
    world.given(&pods, &important).await;
    assert_eq!(world.used().await, json!({"pods": "1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_are_switched_off_are_not_asked() {
    let off = ["LimitRanger", "ResourceQuota"].map(str::to_owned).to_vec();
    let world = World::of(&[Config {
        disabled_plugins: off,
        ..Config::default()
    }])
    .await;
    world.quota(json!({"pods": "0"}), json!({})).await;
    let range = json!({"kind": "LimitRange", "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    world.given(&format!("{CORE}/limitranges"), &range).await;
    let made = world
        .given(&format!("{CORE}/pods"), &pod("p", json!({})))
        .await;
    assert_eq!(made["spec"]["containers"][0]["resources"], json!({}));
    assert_eq!(world.used().await, json!({"pods": "0"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_devices_are_counted_as_they_get_them() {
    let world = World::start().await;
    let resource = "gpu.deviceclass.resource.k8s.io/devices";
    world.quota(json!({ resource: "2" }), json!({})).await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let claim = |name: &str, exactly: Value| {
        let requests = json!([{"name": "r", "exactly": exactly}]);
        json!({"kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": requests}}})
    };
    let plain = json!({"deviceClassName": "gpu"});
    let made = world.given(claims, &claim("plain", plain.clone())).await;
    let exactly = &made["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(exactly["allocationMode"], "ExactCount");
    assert_eq!(exactly["count"], 1);
    assert_eq!(world.used().await, json!({ resource: "1" }));

    let owed = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": -5});
    let (code, told) = world.post(claims, &claim("owed", owed)).await;
    assert_eq!(code, 422, "{told}");
    let mut more = made.clone();
    more["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2.into();
    let (code, told) = world.ask("PUT", &format!("{claims}/plain"), &more).await;
    assert_eq!(code, 422, "{told}");

    world.given(claims, &claim("second", plain.clone())).await;
    let refused = message(world.post(claims, &claim("third", plain)).await);
    assert!(refused.contains("exceeded quota: q"), "{refused}");
}

/// Caches that are empty because nobody has filled them yet say nothing about a write.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_just_started_knows_the_quotas() {
    let world = World::start().await;
    world.quota(json!({"configmaps": "0"}), json!({})).await;
    let client = etcd_api::Client::connect(world.store.url()).await.unwrap();
    world.store.signal(Signal::STOP);
    let started = Server::new(client, Config::default());
    let router = started.router();
    let body = map("early");
    let asked = tokio::spawn(async move {
        let path = format!("{CORE}/configmaps");
        ask(router, "POST", &path, &body).await
    });
    // Long enough for the request to reach admission, if nothing holds it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.store.signal(Signal::CONT);
    let refused = message(asked.await.unwrap());
    assert!(refused.contains("exceeded quota: q"), "{refused}");
}
