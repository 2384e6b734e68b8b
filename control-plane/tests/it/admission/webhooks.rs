//! Admission webhooks: which writes they are asked about, what they may do to them, and what
//! happens when they fail.

pub(crate) mod server;
mod services;
pub(crate) mod world;

use serde_json::{Value, json};

use server::{Hook, Reply, allow, patch};
use world::{Answer, GROUP, World, label, map, pod, rule};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_asked_as_kubernetes_asks() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    world
        .configure("Validating", "v", "/v", json!({"timeoutSeconds": 7}))
        .await;
    world
        .given(&format!("{MAPS}?fieldManager=me"), &map("a"))
        .await;
    let (path, request) = world.hook.calls().pop().unwrap();
    assert_eq!(path, "/v?timeout=7s");
    let created = &request["object"];
    assert!(created["metadata"]["uid"].is_string(), "{created}");
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let mut expected = json!({
        "uid": request["uid"], "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": "a", "namespace": "default", "operation": "CREATE",
        "userInfo": request["userInfo"], "object": created, "oldObject": null, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    });
    assert_eq!(request, expected);
    assert!(request["userInfo"]["username"].is_string(), "{request}");

    let one = format!("{MAPS}/a");
    let created = created.clone();
    let change = json!({"data": {"k": "v"}});
    let changed = world.ask("PATCH", &one, &change).await.body;
    let calls = world.hook.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let request = &calls[0].1;
    assert_eq!(request["operation"], "UPDATE");
    assert_eq!(request["object"]["data"], change["data"]);
    assert_eq!(
        request["oldObject"]["metadata"]["uid"],
        created["metadata"]["uid"]
    );
    assert!(request["oldObject"].get("data").is_none());
    assert_eq!(request["options"]["kind"], "PatchOptions");

    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 5,
        "preconditions": {"uid": changed["metadata"]["uid"]}});
    world.ask("DELETE", &one, &options).await;
    let (_, request) = world.hook.calls().pop().unwrap();
    assert_eq!(
        (&request["operation"], &request["object"]),
        (&json!("DELETE"), &Value::Null)
    );
    assert_eq!(request["oldObject"]["metadata"], changed["metadata"]);
    let preconditions = json!({"uid": changed["metadata"]["uid"]});
    expected = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
        "gracePeriodSeconds": 5, "preconditions": preconditions});
    assert_eq!(request["options"], expected);
    assert_eq!(world.hook.connections(), 1, "the connection is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_is_shown_to_the_webhooks() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    let all = json!({"rules": [rule("*", "*/*")]});
    world.configure("Validating", "v", "/v", all).await;
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let set = json!({"kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": spec});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let node = json!({"kind": "Node", "metadata": {"name": "n"}});
    let space = json!({"kind": "Namespace", "metadata": {"name": "x"}});
    let binding = json!({"kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}});
    let eviction = json!({"kind": "Eviction", "metadata": {"name": "p"}});
    let running = json!({"status": {"phase": "Running"}});
    let replicas = json!({"spec": {"replicas": 2}});
    let (one, none) = (format!("{PODS}/p"), Value::Null);
    for (method, path, body, expected) in [
        (
            "POST",
            "/api/v1/nodes".to_owned(),
            &node,
            "CREATE Node n in ",
        ),
        (
            "POST",
            "/api/v1/namespaces".to_owned(),
            &space,
            "CREATE Namespace x in x",
        ),
        (
            "POST",
            PODS.to_owned(),
            &pod("p"),
            "CREATE Pod p in default",
        ),
        (
            "POST",
            format!("{one}/binding"),
            &binding,
            "CREATE Binding p in default",
        ),
        (
            "PATCH",
            format!("{one}/status"),
            &running,
            "UPDATE Pod p in default",
        ),
        (
            "POST",
            sets.to_owned(),
            &set,
            "CREATE ReplicaSet s in default",
        ),
        (
            "PATCH",
            format!("{sets}/s/scale"),
            &replicas,
            "UPDATE Scale s in default",
        ),
        (
            "POST",
            format!("{one}/eviction"),
            &eviction,
            "CREATE Eviction p in default",
        ),
        (
            "DELETE",
            format!("{sets}/s"),
            &none,
            "DELETE ReplicaSet s in default",
        ),
        ("DELETE", PODS.to_owned(), &none, "DELETE Pod p in default"),
        (
            "DELETE",
            "/api/v1/namespaces/x".to_owned(),
            &none,
            "DELETE Namespace x in x",
        ),
    ] {
        world.hook.calls();
        let answer = world.ask(method, &path, body).await;
        assert!(
            (200..300).contains(&answer.code),
            "{method} {path}: {}",
            answer.body
        );
        let calls = world.hook.calls();
        let mut seen: Vec<_> = calls.iter().map(|(_, request)| told(request)).collect();
        // An attempt that began with an older state from the cache is made again.
        seen.dedup();
        assert_eq!(seen, [expected], "{method} {path}");
    }
    // Nobody is asked about configurations: they would lock themselves in.
    world.configure("Mutating", "m", "/m", json!({})).await;
    assert_eq!(world.hook.paths(), [""; 0]);
}

fn told(request: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [operation, kind, name, namespace] = [
        &request["operation"],
        &request["kind"]["kind"],
        &request["name"],
        &request["namespace"],
    ]
    .map(text);
    format!("{operation} {kind} {name} in {namespace}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patched_object_is_completed_and_validated() {
    let world = World::start().await;
    world.hook.on("/pods", |request| {
        assert!(
            request["object"]["metadata"].get("uid").is_none(),
            "{request}"
        );
        let name = request["name"].as_str().unwrap();
        patch(&match name {
            "sidecar" => json!([{"op": "add", "path": "/spec/containers/-",
                "value": {"name": "side", "image": "s", "noSuchField": 1}}]),
            "invalid" => json!([{"op": "add", "path": "/spec/containers/-",
                "value": {"name": "Wrong Name", "image": "s"}}]),
            "mistyped" => json!([{"op": "replace", "path": "/spec/containers", "value": 5}]),
            "elsewhere" => json!([{"op": "add", "path": "/metadata/namespace", "value": "x"}]),
            "forger" => json!([
                {"op": "add", "path": "/metadata/uid", "value": "mine"},
                {"op": "add", "path": "/metadata/creationTimestamp",
                    "value": "2001-01-01T00:00:00Z"},
                {"op": "add", "path": "/status", "value": {"phase": "Running"}},
            ]),
            "unfit" => json!([{"op": "remove", "path": "/spec/missing"}]),
            _ => json!([]),
        })
    });
    let pods = json!({"rules": [rule("CREATE", "pods")]});
    world.configure("Mutating", "m", "/pods", pods).await;

    let made = world.post(PODS, &pod("sidecar")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let side = &made.body["spec"]["containers"][1];
    assert_eq!(side["imagePullPolicy"], "Always", "a default");
    assert_eq!(side["terminationMessagePath"], "/dev/termination-log");
    assert!(side.get("noSuchField").is_none(), "{side}");

    let invalid = world.post(PODS, &pod("invalid")).await;
    assert_eq!(invalid.code, 422, "{}", invalid.body);
    assert_eq!(
        invalid.body["details"]["causes"][0]["field"],
        "spec.containers[1].name"
    );

    for name in ["mistyped", "unfit"] {
        let answer = world.post(PODS, &pod(name)).await;
        assert_eq!(
            (answer.code, answer.body["reason"].as_str()),
            (500, Some("InternalError"))
        );
    }
    let elsewhere = world.post(PODS, &pod("elsewhere")).await;
    assert_eq!(elsewhere.code, 400, "{}", elsewhere.body);

    let forger = world.post(PODS, &pod("forger")).await.body;
    assert_ne!(forger["metadata"]["uid"], "mine");
    assert_ne!(
        forger["metadata"]["creationTimestamp"],
        "2001-01-01T00:00:00Z"
    );
    assert_eq!(forger["status"]["phase"], "Pending");

    let plain = world.post(PODS, &pod("plain")).await;
    assert_eq!(
        plain.code, 201,
        "a patch without operations changes nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_has_no_object_to_patch() {
    let world = World::start().await;
    world.given(MAPS, &map("a")).await;
    world.hook.on("/m", |_| patch(&label("x")));
    world.configure("Mutating", "m", "/m", json!({})).await;
    let answer = world
        .ask("DELETE", &format!("{MAPS}/a"), &Value::Null)
        .await;
    assert_eq!(answer.code, 500);
    let why = "admission webhook \"m.example.com\" attempted to modify the object, \
               which is not supported for this operation";
    assert!(answer.message().ends_with(why), "{}", answer.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_the_code_and_the_words_of_the_webhook() {
    let world = World::start().await;
    world.hook.on("/v", |request| {
        let refuse = |status: Value| {
            Reply::Review(json!({"allowed": false, "status": status, "warnings": ["beware"]}))
        };
        match request["name"].as_str().unwrap() {
            "teapot" => refuse(json!({"code": 418, "reason": "Teapot", "message": "no coffee"})),
            "silent" => Reply::Review(json!({"allowed": false})),
            _ => Reply::Review(json!({"allowed": true, "warnings": ["careful", "\"quoted\""]})),
        }
    });
    world.configure("Validating", "v", "/v", json!({})).await;
    let teapot = world.post(MAPS, &map("teapot")).await;
    assert_eq!(
        (teapot.code, &teapot.body["reason"]),
        (418, &json!("Teapot"))
    );
    let denied = "admission webhook \"v.example.com\" denied the request";
    assert_eq!(teapot.message(), format!("{denied}: no coffee"));
    assert_eq!(teapot.warnings(), ["299 - \"beware\""]);
    let silent = world.post(MAPS, &map("silent")).await;
    assert_eq!(silent.code, 400);
    assert_eq!(silent.message(), format!("{denied} without explanation"));
    let fine = world.post(MAPS, &map("fine")).await;
    assert_eq!(fine.code, 201);
    assert_eq!(
        fine.warnings(),
        ["299 - \"careful\"", "299 - \"\\\"quoted\\\"\""]
    );
    assert_eq!(
        world
            .ask("GET", &format!("{MAPS}/teapot"), &Value::Null)
            .await
            .code,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_fails_the_write_or_is_ignored() {
    let world = World::start().await;
    let at = world.hook.address;
    world
        .hook
        .on("/broken", |_| Reply::Raw(500, "it broke".into()));
    world.hook.on("/other", |_| {
        Reply::Review(json!({"uid": "another", "allowed": true}))
    });
    world.hook.on("/noise", |_| Reply::Raw(200, "hello".into()));
    world.hook.on("/silent", |_| Reply::Silence);
    let nobody = {
        // Bound and given back: nobody listens on it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let stranger = Hook::start(&["127.0.0.1"]).await;
    let untrusted = json!({"url": format!("https://{at}/x"), "caBundle": stranger.bundle});
    let refused = json!({"url": format!("https://{nobody}/x"), "caBundle": stranger.bundle});
    let service = json!({"service": {"namespace": "default", "name": "none", "path": "/x"}});
    for (path, client, why) in [
        (
            "/broken",
            None,
            "an error on the server (\"it broke\") has prevented the request from succeeding"
                .to_owned(),
        ),
        (
            "/gone",
            None,
            "the server could not find the requested resource".to_owned(),
        ),
        (
            "/noise",
            None,
            "couldn't get version/kind; json parse error".to_owned(),
        ),
        ("/other", None, "expected response.uid=".to_owned()),
        (
            "/silent",
            None,
            format!("Post \"https://{at}/silent?timeout=1s\": context deadline exceeded"),
        ),
        (
            "/x",
            Some(refused),
            format!(
                "Post \"https://{nobody}/x?timeout=1s\": dial tcp {nobody}: connect: connection refused"
            ),
        ),
        (
            "/x",
            Some(untrusted),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                .to_owned(),
        ),
        (
            "/x",
            Some(service),
            "Post \"https://none.default.svc:443/x?timeout=1s\": service \"none\" not found"
                .to_owned(),
        ),
    ] {
        for (policy, kind) in [
            ("Fail", "Validating"),
            ("Ignore", "Validating"),
            ("Fail", "Mutating"),
        ] {
            let mut more = json!({"failurePolicy": policy, "timeoutSeconds": 1});
            if let Some(client) = &client {
                more["clientConfig"] = client.clone();
            }
            world.configure(kind, "v", path, more).await;
            let answer = world.post(&format!("{MAPS}?dryRun=All"), &map("a")).await;
            if policy == "Fail" {
                assert_eq!(answer.code, 500, "{path}");
                let told = answer.message();
                let begin = "Internal error occurred: failed calling webhook \"v.example.com\": ";
                assert!(
                    told.starts_with(begin) && told.contains(&why),
                    "{path}: {told}"
                );
            } else {
                assert_eq!(answer.code, 201, "{path}: {}", answer.body);
            }
            let path = format!("{GROUP}/{}webhookconfigurations/v", kind.to_lowercase());
            assert_eq!(world.ask("DELETE", &path, &Value::Null).await.code, 200);
        }
    }
    let gone = world.post(MAPS, &map("a")).await;
    assert_eq!(gone.code, 201, "without configurations nobody is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_and_versions_decide_whom_a_webhook_is_asked_about() {
    let world = World::start().await;
    for path in ["/namespaces", "/objects", "/exact", "/equivalent"] {
        world.hook.on(path, allow);
    }
    let mut space = json!({"kind": "Namespace", "metadata": {"name": "x", "labels": {"a": "b"}}});
    let labelled = json!({"matchLabels": {"a": "b"}});
    let of_namespaces = json!({"namespaceSelector": labelled, "rules": [
        rule("*", "configmaps"), rule("*", "namespaces"), rule("*", "nodes")]});
    world
        .configure("Validating", "a", "/namespaces", of_namespaces)
        .await;
    let of_objects = json!({"objectSelector": labelled});
    world
        .configure("Validating", "b", "/objects", of_objects)
        .await;
    let scaler = |policy: &str| {
        let mut rule = rule("*", "horizontalpodautoscalers");
        rule["apiVersions"] = json!(["v2"]);
        json!({"matchPolicy": policy, "rules": [rule]})
    };
    world
        .configure("Validating", "c", "/exact", scaler("Exact"))
        .await;
    world
        .configure("Mutating", "d", "/equivalent", scaler("Equivalent"))
        .await;

    world.given("/api/v1/namespaces", &space).await;
    assert_eq!(world.hook.paths(), ["/namespaces"], "by its own labels");
    space["metadata"] = json!({"name": "y"});
    world.given("/api/v1/namespaces", &space).await;
    assert_eq!(world.hook.paths(), [""; 0]);
    world
        .given("/api/v1/namespaces/x/configmaps", &map("m"))
        .await;
    assert_eq!(world.hook.paths(), ["/namespaces"]);
    world.given(MAPS, &map("m")).await;
    assert_eq!(world.hook.paths(), [""; 0]);
    let node = json!({"kind": "Node", "metadata": {"name": "n"}});
    world.given("/api/v1/nodes", &node).await;
    assert_eq!(
        world.hook.paths(),
        ["/namespaces"],
        "selectors exempt nothing without namespace"
    );

    let change = |label: Value| json!({"metadata": {"labels": {"a": label}}});
    for label in [json!("b"), Value::Null] {
        world
            .ask("PATCH", &format!("{MAPS}/m"), &change(label))
            .await;
        assert_eq!(
            world.hook.paths(),
            ["/objects"],
            "by the new state or by the old one"
        );
    }

    let scaler = json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    world.hook.on("/equivalent", |request| {
        assert_eq!(
            request["object"]["apiVersion"], "autoscaling/v2",
            "{request}"
        );
        assert_eq!(request["object"]["spec"]["metrics"][0]["type"], "Resource");
        patch(&json!([{"op": "replace", "path": "/spec/maxReplicas", "value": 5}]))
    });
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let made = world.post(path, &scaler).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(
        (&made.body["apiVersion"], &made.body["spec"]["maxReplicas"]),
        (&json!("autoscaling/v1"), &json!(5))
    );
    assert_eq!(made.body["spec"]["targetCPUUtilizationPercentage"], 70);
    let calls = world.hook.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let request = &calls[0].1;
    assert_eq!(request["resource"]["version"], "v2");
    assert_eq!(request["requestResource"]["version"], "v1");
    assert_eq!(request["requestKind"]["version"], "v1");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_change_objects_in_order_and_again_after_others() {
    let world = World::start().await;
    let add = |key: &'static str| {
        move |request: &Value| {
            let labels = &request["object"]["metadata"]["labels"];
            if labels.get(key).is_some() {
                return allow(request);
            }
            let mut labels = labels.as_object().cloned().unwrap_or_default();
            labels.insert(key.into(), labels.len().to_string().into());
            patch(&json!([{"op": "add", "path": "/metadata/labels", "value": labels}]))
        }
    };
    for (path, key) in [("/a", "a"), ("/b", "b"), ("/c", "c")] {
        world.hook.on(path, add(key));
    }
    world.hook.on("/v", allow);
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    world.configure("Mutating", "b", "/b", json!({})).await;
    world.configure("Mutating", "a", "/a", again.clone()).await;
    world.configure("Mutating", "c", "/c", again).await;
    world.configure("Validating", "a", "/v", json!({})).await;
    let made = world.post(MAPS, &map("m")).await;
    assert_eq!(
        made.body["metadata"]["labels"],
        json!({"a": "0", "b": "1", "c": "2"})
    );
    assert_eq!(world.hook.paths(), ["/a", "/b", "/c", "/a", "/v"]);
    world
        .ask("PATCH", &format!("{MAPS}/m"), &json!({"data": {"k": "v"}}))
        .await;
    assert_eq!(
        world.hook.paths(),
        ["/a", "/b", "/c", "/v"],
        "nothing to see again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_told_to_the_webhook() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    let more = json!({"sideEffects": "NoneOnDryRun"});
    world.configure("Validating", "v", "/v", more).await;
    let made = world.post(&format!("{MAPS}?dryRun=All"), &map("a")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let (_, request) = world.hook.calls().pop().unwrap();
    assert_eq!(
        (&request["dryRun"], &request["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
    world.given(MAPS, &map("a")).await;
    world.hook.calls();
    let path = format!("{MAPS}/a?dryRun=All");
    world.ask("DELETE", &path, &Value::Null).await;
    assert_eq!(world.hook.calls().pop().unwrap().1["dryRun"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_counts_from_the_next_request_on() {
    let world = World::start().await;
    world
        .hook
        .on("/v", |_| Reply::Review(json!({"allowed": false})));
    let one = format!("{GROUP}/validatingwebhookconfigurations/v");
    for _ in 0..5 {
        world.configure("Validating", "v", "/v", json!({})).await;
        assert_eq!(world.post(MAPS, &map("a")).await.code, 400);
        let mut changed = world.ask("GET", &one, &Value::Null).await.body;
        changed["webhooks"][0]["rules"] = json!([rule("*", "pods")]);
        assert_eq!(world.ask("PUT", &one, &changed).await.code, 200);
        world.given(MAPS, &map("a")).await;
        assert_eq!(world.post(PODS, &pod("p")).await.code, 400);
        assert_eq!(world.ask("DELETE", &one, &Value::Null).await.code, 200);
        assert_eq!(
            world
                .ask("DELETE", &format!("{MAPS}/a"), &Value::Null)
                .await
                .code,
            200
        );
    }
    assert_eq!(world.post(PODS, &pod("p")).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_called_at_its_endpoints_by_its_name() {
    let world = World::with(Hook::start(&["hook.ops.svc"]).await).await;
    world
        .hook
        .on("/v", |_| Reply::Review(json!({"allowed": false})));
    let port = world.hook.address.port();
    let service = json!({"kind": "Service", "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]}});
    world
        .given("/api/v1/namespaces/default/services", &service)
        .await;
    let reference = json!({"namespace": "default", "name": "hook", "path": "/v"});
    let client = json!({"service": reference, "caBundle": world.hook.bundle});
    let more = json!({ "clientConfig": client });
    world.configure("Validating", "v", "/v", more).await;
    let answer = world.post(MAPS, &map("a")).await;
    let why = "no endpoints available for service \"hook\"";
    assert!(answer.message().ends_with(why), "{}", answer.message());
    // Endpoints may not be on loopback. A name outside may.
    let outside = json!({"kind": "Service", "metadata": {"name": "hook", "namespace": "ops"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let space = json!({"kind": "Namespace", "metadata": {"name": "ops"}});
    let path = format!("{GROUP}/validatingwebhookconfigurations/v");
    assert_eq!(world.ask("DELETE", &path, &Value::Null).await.code, 200);
    world.given("/api/v1/namespaces", &space).await;
    world
        .given("/api/v1/namespaces/ops/services", &outside)
        .await;
    let reference = json!({"namespace": "ops", "name": "hook", "path": "/v", "port": port});
    let client = json!({"service": reference, "caBundle": world.hook.bundle});
    let more = json!({ "clientConfig": client });
    world.configure("Validating", "v", "/v", more).await;
    let answer = world.post(MAPS, &map("a")).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    assert_eq!(world.hook.paths(), ["/v"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_in_the_bundle_itself_is_trusted() {
    let world = World::with(Hook::self_signed(&["127.0.0.1"]).await).await;
    world
        .hook
        .on("/v", |_| Reply::Review(json!({"allowed": false})));
    world.configure("Validating", "v", "/v", json!({})).await;
    let answer = world.post(MAPS, &map("a")).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    let misnamed = World::with(Hook::self_signed(&["elsewhere.example"]).await).await;
    misnamed.configure("Validating", "v", "/v", json!({})).await;
    let answer = misnamed.post(MAPS, &map("a")).await;
    assert_eq!(answer.code, 500, "{}", answer.body);
    assert!(
        answer
            .message()
            .contains("tls: failed to verify certificate"),
        "{}",
        answer.message()
    );
}

/// Whether a webhook with these conditions is asked about a new map `a` with data `k: v`, and the
/// answer to the request.
async fn asked(world: &World, expressions: &[&str], failure_policy: &str) -> (bool, Answer) {
    let conditions = expressions.iter().enumerate().map(|(at, expression)| {
        let name = format!("c{at}");
        json!({"name": name, "expression": expression})
    });
    let more = json!({"matchConditions": Value::from_iter(conditions),
        "failurePolicy": failure_policy});
    world.configure("Validating", "v", "/v", more).await;
    world.hook.calls();
    let mut object = map("a");
    object["data"] = json!({"k": "v"});
    let answer = world.post(&format!("{MAPS}?dryRun=All"), &object).await;
    let path = format!("{GROUP}/validatingwebhookconfigurations/v");
    assert_eq!(world.ask("DELETE", &path, &Value::Null).await.code, 200);
    (!world.hook.calls().is_empty(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_asked_only_if_all_its_conditions_are_true() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    for (expressions, expected) in [
        (&["object.data.k == 'v'"][..], true),
        (&["object.data.k == 'w'"], false),
        (&["true", "request.operation == 'UPDATE'"], false),
        (&["oldObject == null", "namespaceObject == null"], true),
        (&["request.namespace == 'default'", "request.dryRun"], true),
        (&["request.userInfo.username == 'system:admin'"], true),
        (
            &["authorizer.requestResource.check('create').allowed()"],
            true,
        ),
        (
            &["authorizer.path('/x').check('get').allowed() && !true"],
            false,
        ),
        // One that is false decides, whatever else fails.
        (&["object.data.missing == 'v'", "false"], false),
    ] {
        let (was_asked, answer) = asked(&world, expressions, "Fail").await;
        assert_eq!(answer.code, 201, "{expressions:?}: {}", answer.body);
        assert_eq!(was_asked, expected, "{expressions:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_policy_decides_about_a_condition_that_fails() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    let fails = &["true", "object.data.missing == 'v'"];
    let (was_asked, answer) = asked(&world, fails, "Ignore").await;
    assert_eq!((was_asked, answer.code), (false, 201), "{}", answer.body);
    let (was_asked, answer) = asked(&world, fails, "Fail").await;
    assert_eq!((was_asked, answer.code), (false, 403));
    let why = "configmaps \"a\" is forbidden: expression 'object.data.missing == 'v'' resulted in \
               error: no such key: missing";
    assert_eq!(answer.message(), why);
    let round = "[0,1,2,3,4,5,6,7,8,9].all(x, ";
    let costly = format!("{}true{}", round.repeat(6), ")".repeat(6));
    let all = [costly.as_str(); 4];
    let (was_asked, answer) = asked(&world, &all, "Fail").await;
    assert_eq!((was_asked, answer.code), (false, 403));
    assert!(
        answer
            .message()
            .ends_with("running out of cost budget, no further validation rules will be run"),
        "{}",
        answer.message()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_follows_the_rules_of_its_kind() {
    let world = World::start().await;
    for (more, field) in [
        (json!({"name": "short"}), "webhooks[0].name"),
        (json!({"sideEffects": "Some"}), "webhooks[0].sideEffects"),
        (json!({"timeoutSeconds": 60}), "webhooks[0].timeoutSeconds"),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.x +"}]}),
            "webhooks[0].matchConditions[0].expression",
        ),
        (
            json!({"clientConfig": {"url": "http://h"}}),
            "webhooks[0].clientConfig.url",
        ),
    ] {
        for kind in ["Mutating", "Validating"] {
            let answer = world.try_configure(kind, "c", "/c", more.clone()).await;
            assert_eq!(answer.code, 422, "{}", answer.body);
            assert_eq!(answer.body["details"]["causes"][0]["field"], field);
        }
    }
    world.configure("Mutating", "c", "/c", json!({})).await;
    let path = format!("{GROUP}/mutatingwebhookconfigurations/c");
    let made = world.ask("GET", &path, &Value::Null).await.body;
    let webhook = &made["webhooks"][0];
    for (key, default) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("reinvocationPolicy", json!("Never")),
        ("timeoutSeconds", json!(10)),
        ("namespaceSelector", json!({})),
    ] {
        assert_eq!(webhook[key], default, "{key}");
    }
}
