//! Versions of groups that another server serves: when requests are passed on to it, and as whom.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::Config;
use apiserver::auth::authorize::{Mode, Modes};
use apiserver::setup::Configured;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::admission::webhooks::server::{Hook, Reply};
use crate::admission::webhooks::world::World;
use crate::harness::cluster::WITHIN;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const ONE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.metrics.test";
const VERSION: &str = "/apis/metrics.test/v1";
const NODES: &str = "/apis/metrics.test/v1/nodes";

/// A world in which roles decide, and a server for the group `metrics.test` behind a service.
async fn world() -> World {
    let hook = Hook::start(&["metrics.default.svc"]).await;
    hook.on(VERSION, |_| {
        let list = json!({"kind": "APIResourceList", "groupVersion": "metrics.test/v1",
            "resources": [{"name": "nodes", "singularName": "", "namespaced": false,
                "kind": "NodeMetrics", "verbs": ["get", "list"]}]});
        Reply::Raw(200, list.to_string())
    });
    hook.on(NODES, |_| Reply::Raw(200, json!({"items": []}).to_string()));
    let config = Config {
        authorizer: Arc::new(Modes::new(&[Configured::Builtin(Mode::Rbac)]).unwrap()),
        ..Config::default()
    };
    World::configured(hook, config).await
}

fn api_service(world: &World) -> Value {
    json!({"kind": "APIService", "metadata": {"name": "v1.metrics.test"}, "spec": {
        "group": "metrics.test", "version": "v1", "groupPriorityMinimum": 100,
        "versionPriority": 100, "caBundle": world.hook.bundle,
        "service": {"namespace": "default", "name": "metrics", "port": world.hook.address.port()}}})
}

/// Waits until the APIService is available for this reason, or is not.
async fn reason(world: &World, wanted: &str) -> Value {
    let begun = Instant::now();
    loop {
        let service = world.ask("GET", ONE, &Value::Null).await.body;
        let condition = &service["status"]["conditions"][0];
        if condition["reason"] == wanted {
            return condition.clone();
        }
        assert!(begun.elapsed() < WITHIN, "{service}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The service of the other server. Endpoints may not be on loopback; a name outside may.
async fn serve(world: &World) {
    let service = json!({"kind": "Service", "metadata": {"name": "metrics"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    world
        .given("/api/v1/namespaces/default/services", &service)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_passed_on_once_the_other_server_is_there() {
    let world = world().await;
    assert_eq!(world.ask("GET", NODES, &Value::Null).await.code, 404);
    world.given(SERVICES, &api_service(&world)).await;
    let condition = reason(&world, "ServiceNotFound").await;
    assert_eq!(condition["status"], "False");
    let early = world.ask("GET", NODES, &Value::Null).await;
    assert_eq!(
        (early.code, &early.body),
        (503, &json!("service unavailable\n"))
    );

    serve(&world).await;
    assert_eq!(reason(&world, "Passed").await["status"], "True");
    world.hook.users();
    let passed = world.ask("GET", NODES, &Value::Null).await;
    assert_eq!((passed.code, passed.body), (200, json!({"items": []})));
    let users = world.hook.users();
    assert!(users.iter().any(|one| one == "system:admin"), "{users:?}");

    let groups = world.ask("GET", "/apis", &Value::Null).await.body;
    let mut groups = groups["groups"].as_array().unwrap().iter();
    assert!(groups.any(|one| one["name"] == "metrics.test"));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let header = ("Accept", accept);
    let all = world.ask_with("GET", "/apis", header, &Value::Null).await;
    let mut items = all.body["items"].as_array().unwrap().iter();
    let group = items.find(|one| one["metadata"]["name"] == "metrics.test");
    let version = &group.unwrap()["versions"][0];
    assert_eq!(version["freshness"], "Current");
    assert_eq!(version["resources"][0]["resource"], "nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_other_server_is_in_the_index_and_passed_on() {
    let world = world().await;
    let (index, place) = ("/openapi/v3", "apis/metrics.test/v1");
    let url = format!("{index}/{place}?hash=A1");
    let theirs = json!({"paths": {
        place: {"serverRelativeURL": url},
        // Nobody asked this server about other groups.
        "apis/other.test/v1": {"serverRelativeURL": "/openapi/v3/apis/other.test/v1"},
    }});
    world
        .hook
        .on(index, move |_| Reply::Raw(200, theirs.to_string()));
    let document = json!({"openapi": "3.0.0"});
    let sent = document.to_string();
    let path = format!("{index}/{place}");
    world.hook.on(&path, move |_| Reply::Raw(200, sent.clone()));
    serve(&world).await;
    let paths = |index: &Value| index["paths"].as_object().unwrap().clone();
    let before = world.ask("GET", index, &Value::Null).await.body;
    assert!(!paths(&before).contains_key(place));
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    let after = paths(&world.ask("GET", index, &Value::Null).await.body);
    assert_eq!(after[place]["serverRelativeURL"], url);
    assert!(!after.contains_key("apis/other.test/v1"));
    let passed = world.ask("GET", &url, &Value::Null).await;
    assert_eq!((passed.code, passed.body), (200, document));
    let refused = world.ask("POST", &url, &Value::Null).await;
    assert_eq!(refused.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reaches_the_other_server_without_the_right() {
    let world = world().await;
    serve(&world).await;
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    world.hook.users();
    for (method, path) in [
        ("GET", NODES.to_owned()),
        ("GET", format!("{NODES}?watch=true")),
        ("DELETE", format!("{NODES}/n")),
        ("GET", format!("{VERSION}/namespaces/default/pods/p/log")),
        ("GET", VERSION.to_owned()),
        ("GET", format!("{VERSION}/..")),
    ] {
        let refused = world.ask_as("jane", method, &path, &Value::Null).await;
        assert_eq!(refused.code, 403, "{path}: {}", refused.body);
    }
    let outside = format!("{NODES}/..");
    assert_eq!(world.ask("GET", &outside, &Value::Null).await.code, 400);
    let users = world.hook.users();
    let looks = |one: &String| one == "system:kube-aggregator";
    assert!(users.iter().all(looks), "{users:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_vouch_for_alone_is_not_believed() {
    let world = world().await;
    serve(&world).await;
    let mut service = api_service(&world);
    let other = Hook::start(&["metrics.default.svc"]).await;
    service["spec"]["caBundle"] = other.bundle.clone().into();
    world.given(SERVICES, &service).await;
    let condition = reason(&world, "FailedDiscoveryCheck").await;
    let why = condition["message"].as_str().unwrap();
    assert!(why.contains("unknown authority"), "{why}");
    assert_eq!(world.ask("GET", NODES, &Value::Null).await.code, 503);
    let spec = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    let changed = world.ask("PATCH", ONE, &spec).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    reason(&world, "Passed").await;
    assert_eq!(world.ask("GET", NODES, &Value::Null).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_something_else_than_its_name_is_refused() {
    let world = world().await;
    let good = api_service(&world);
    for (path, value, words) in [
        ("/metadata/name", json!("v1.other"), "must be `spec.version"),
        ("/spec/version", json!("1"), "spec.version"),
        (
            "/spec/groupPriorityMinimum",
            json!(20_001),
            "must be positive and less than 20000",
        ),
        (
            "/spec/versionPriority",
            json!(0),
            "must be positive and less than 1000",
        ),
        (
            "/spec/insecureSkipTLSVerify",
            json!(true),
            "may not be true if caBundle is present",
        ),
        (
            "/spec/service/name",
            json!(""),
            "spec.service.name: Required value",
        ),
        (
            "/spec/service",
            Value::Null,
            "local APIServices may not have a caBundle",
        ),
    ] {
        let mut bad = good.clone();
        if path == "/spec/insecureSkipTLSVerify" {
            bad["spec"]["insecureSkipTLSVerify"] = value;
        } else {
            *bad.pointer_mut(path).unwrap() = value;
        }
        let refused = world.post(SERVICES, &bad).await;
        assert_eq!(refused.code, 422, "{path}");
        assert!(refused.message().contains(words), "{}", refused.message());
    }
}

/// Asks for another protocol; returns the head of the answer, and the connection.
async fn upgrade(world: &World, path: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(world.listen().await).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         Impersonate-User: root\r\nX-Remote-User: root\r\nX-Remote-Group: roots\r\n\
         Authorization: Bearer secret\r\n\
         Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0, channel\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap(), stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_become_another_protocol() {
    let world = world().await;
    let exec = format!("{VERSION}/namespaces/default/nodes/n/exec");
    world.hook.on(&exec, |_| Reply::Echo("SPDY/3.1"));
    serve(&world).await;
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    let refused = world.ask_as("jane", "GET", &exec, &Value::Null).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    world.hook.users();
    let (head, mut stream) = upgrade(&world, &exec).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let shown = head.to_ascii_lowercase();
    assert!(shown.contains("upgrade: spdy/3.1"), "{head}");
    // The server names its user, and the client's word counts for nothing.
    let users = world.hook.users();
    let is_known = |user: &String| user == "system:admin" || user == "system:kube-aggregator";
    assert!(users.iter().all(is_known), "{users:?}");
    assert!(users.iter().any(|user| user == "system:admin"), "{users:?}");
    let headers = world.hook.headers();
    for name in ["authorization", "impersonate-user"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    let mut groups = headers.get_all("x-remote-group").iter();
    assert!(groups.all(|group| group != "roots"));
    assert_eq!(headers["sec-websocket-protocol"], "channel");
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
    // What lasts as long as both ends like ends with this server.
    world.stop();
    assert!(!matches!(stream.read(&mut back).await, Ok(1..)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_refuse_another_protocol() {
    let world = world().await;
    serve(&world).await;
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    let (head, mut stream) = upgrade(&world, NODES).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut body = vec![0; json!({"items": []}).to_string().len()];
    stream.read_exact(&mut body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_document_has_what_the_other_server_says() {
    let world = world().await;
    let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    let theirs = json!({"swagger": "2.0", "paths": {
        NODES: {"get": {"operationId": "listNodes", "responses": {"200": {"description": "OK",
            "schema": reference("test.metrics.NodeMetrics")}}}},
        "/apis/other.test/v1/things": {"get": {}},
        "/version": {"get": {}},
    },
    "definitions": {
        "test.metrics.NodeMetrics": {"type": "object", "properties": {
            "metadata": reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")}},
        // Not what this server calls so.
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "theirs"},
    }});
    world
        .hook
        .on("/openapi/v2", move |_| Reply::Raw(200, theirs.to_string()));
    serve(&world).await;
    let before = world.ask("GET", "/openapi/v2", &Value::Null).await.body;
    assert_eq!(before["paths"].get(NODES), None);
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    let begun = Instant::now();
    let merged = loop {
        let merged = world.ask("GET", "/openapi/v2", &Value::Null).await.body;
        if merged["paths"].get(NODES).is_some() {
            break merged;
        }
        assert!(begun.elapsed() < WITHIN);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(merged["paths"][NODES]["get"]["operationId"], "listNodes");
    assert_eq!(merged["paths"].get("/apis/other.test/v1/things"), None);
    assert_eq!(merged["paths"]["/version"], before["paths"]["/version"]);
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(merged["definitions"][meta], before["definitions"][meta]);
    let renamed = format!("{meta}_v2");
    assert_eq!(merged["definitions"][&renamed]["description"], "theirs");
    let metrics = &merged["definitions"]["test.metrics.NodeMetrics"];
    assert_eq!(metrics["properties"]["metadata"], reference(&renamed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_a_document_of_v2_alone_gets_one_of_v3() {
    let world = world().await;
    let reference = |place: &str| json!({"$ref": format!("#/{place}/test.metrics.NodeMetrics")});
    let theirs = json!({"swagger": "2.0", "paths": {
        NODES: {"get": {"produces": ["application/json"], "responses": {
            "200": {"description": "OK", "schema": reference("definitions")}}}},
        "/apis/other.test/v1/things": {"get": {}},
    },
    "definitions": {"test.metrics.NodeMetrics": {"type": "object"}}});
    world
        .hook
        .on("/openapi/v2", move |_| Reply::Raw(200, theirs.to_string()));
    serve(&world).await;
    world.given(SERVICES, &api_service(&world)).await;
    reason(&world, "Passed").await;
    let begun = Instant::now();
    let url = loop {
        let index = world.ask("GET", "/openapi/v3", &Value::Null).await.body;
        let place = &index["paths"]["apis/metrics.test/v1"];
        if let Some(url) = place["serverRelativeURL"].as_str() {
            break url.to_owned();
        }
        assert!(begun.elapsed() < WITHIN);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let made = world.ask("GET", &url, &Value::Null).await;
    assert_eq!(made.code, 200, "{}", made.body);
    let paths = &made.body["paths"];
    let content = json!({"application/json": {"schema": reference("components/schemas")}});
    assert_eq!(paths[NODES]["get"]["responses"]["200"]["content"], content);
    assert_eq!(paths.get("/apis/other.test/v1/things"), None);
    let schemas = &made.body["components"]["schemas"];
    assert_eq!(
        schemas["test.metrics.NodeMetrics"],
        json!({"type": "object"})
    );
}
