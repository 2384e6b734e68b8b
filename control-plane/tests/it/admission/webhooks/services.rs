//! Webhooks that are asked about services, which get addresses and ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::server::{Reply, allow};
use super::world::{World, rule};
use crate::harness::cluster::WITHIN;

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// A webhook may itself write services while it is asked about one.
#[tokio::test(flavor = "multi_thread")]
async fn services_do_not_wait_for_the_webhooks_of_others() {
    let world = World::start().await;
    let (asked, said) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    for path in ["/m", "/v"] {
        let (heard, later) = (Arc::clone(&asked), Arc::clone(&said));
        world.hook.on(path, move |request| match &request["name"] {
            name if *name == path[1..] => {
                heard.notify_one();
                Reply::Later(Arc::clone(&later))
            }
            _ => allow(request),
        });
    }
    let services = json!({"rules": [rule("*", "services")]});
    world
        .configure("Mutating", "m", "/m", services.clone())
        .await;
    world.configure("Validating", "v", "/v", services).await;
    let changed = json!({"metadata": {"labels": {"a": "b"}}});
    // The one is slow to change a service, the other to validate one.
    for name in ["m", "v"] {
        let (made, slow) = (service(name), format!("{SERVICES}/{name}"));
        for (method, path, body) in [("POST", SERVICES, &made), ("PATCH", &slow, &changed)] {
            let other = async {
                asked.notified().await;
                let other = service(&format!("{name}-{}", method.to_lowercase()));
                world.given(SERVICES, &other).await;
                said.notify_one();
            };
            let (answer, ()) = tokio::join!(world.ask(method, path, body), other);
            assert!(answer.code < 300, "{}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validating_webhook_sees_addresses_and_ports_and_what_it_refuses_is_free_again() {
    let world = World::start().await;
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuses);
    world.hook.on("/v", move |request| {
        if refusing.load(Ordering::SeqCst) {
            return Reply::Review(json!({"allowed": false}));
        }
        allow(request)
    });
    let services = json!({"rules": [rule("*", "services")]});
    world.configure("Validating", "v", "/v", services).await;
    let refused = world.post(SERVICES, &service("a")).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    let (_, request) = world.hook.calls().pop().unwrap();
    let spec = request["object"]["spec"].clone();
    let (address, port) = (&spec["clusterIP"], &spec["ports"][0]["nodePort"]);
    assert!(address.is_string() && port.is_i64(), "{spec}");
    let reserved = format!(
        "/apis/networking.k8s.io/v1/ipaddresses/{}",
        address.as_str().unwrap()
    );
    assert_eq!(world.ask("GET", &reserved, &Value::Null).await.code, 404);
    refuses.store(false, Ordering::SeqCst);
    // Another service may have both.
    let mut other = service("b");
    other["spec"]["clusterIP"] = address.clone();
    other["spec"]["ports"][0]["nodePort"] = port.clone();
    world.given(SERVICES, &other).await;
    assert_eq!(world.ask("GET", &reserved, &Value::Null).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_has_before_it_is_stored_is_free_again_when_its_client_goes() {
    let world = World::start().await;
    let asked = Arc::new(Notify::new());
    let heard = Arc::clone(&asked);
    world.hook.on("/v", move |_| {
        heard.notify_one();
        Reply::Silence
    });
    let services = json!({"rules": [rule("*", "services")]});
    world.configure("Validating", "v", "/v", services).await;
    let made = service("a");
    tokio::select! {
        answer = world.post(SERVICES, &made) => panic!("{}", answer.body),
        () = asked.notified() => {}
    }
    let (_, request) = world.hook.calls().pop().unwrap();
    let spec = request["object"]["spec"].clone();
    let (address, port) = (&spec["clusterIP"], &spec["ports"][0]["nodePort"]);
    let reserved = format!(
        "/apis/networking.k8s.io/v1/ipaddresses/{}",
        address.as_str().unwrap()
    );
    // The repair waits until an address without a service is older than this limit.
    let begun = Instant::now();
    while world.ask("GET", &reserved, &Value::Null).await.code != 404 {
        assert!(begun.elapsed() < WITHIN, "{reserved}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.hook.on("/v", allow);
    let mut other = service("b");
    other["spec"]["clusterIP"] = address.clone();
    other["spec"]["ports"][0]["nodePort"] = port.clone();
    world.given(SERVICES, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_services_made_at_once_one_gets_the_port_that_all_ask_for() {
    let world = World::start().await;
    let (asked, said) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (heard, later) = (Arc::clone(&asked), Arc::clone(&said));
    world.hook.on("/v", move |_| {
        heard.notify_one();
        Reply::Later(Arc::clone(&later))
    });
    let services = json!({"rules": [rule("CREATE", "services")]});
    world.configure("Validating", "v", "/v", services).await;
    let asking = |name: &str, port: i64| {
        let mut asking = service(name);
        asking["spec"]["ports"][0]["nodePort"] = port.into();
        asking
    };
    let (first, second) = (asking("first", 30_080), asking("second", 30_080));
    let first = async { world.post(SERVICES, &first).await };
    let others = async {
        // The first has its port, and is not stored.
        asked.notified().await;
        let second = world.post(SERVICES, &second).await;
        said.notify_one();
        second
    };
    let (first, second) = tokio::join!(first, others);
    assert_eq!(first.code, 201, "{}", first.body);
    assert_eq!(second.code, 422, "{}", second.body);
    assert!(
        second
            .message()
            .contains("provided port is already allocated")
    );
}

fn service(name: &str) -> Value {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    json!({"kind": "Service", "metadata": {"name": name}, "spec": spec})
}
