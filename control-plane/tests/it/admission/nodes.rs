//! What a pod's node decides about the pod: its place, and how large it may become.

use serde_json::{Value, json};

use super::webhooks::world::{World, pod};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A world with this node, which the caches know.
async fn world(node: &Value) -> World {
    let world = World::start().await;
    world.given(NODES, node).await;
    // A list is answered when the cache has all that was written before it.
    let nodes = world.ask("GET", NODES, &Value::Null).await;
    assert_eq!(nodes.body["items"].as_array().unwrap().len(), 1);
    world
}

fn node(labels: &Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": "n", "labels": labels},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})
}

/// A pod on a node that asks for so much CPU.
fn sized(name: &str, node: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_the_zone_and_the_region_of_its_node() {
    let zone = "topology.kubernetes.io/zone";
    let world = world(&node(&json!({
        zone: "east-1", "topology.kubernetes.io/region": "east", "disk": "fast"})))
    .await;
    let expected = json!({zone: "east-1", "topology.kubernetes.io/region": "east", "app": "web"});
    let mut waiting = pod("waiting");
    waiting["metadata"]["labels"] = json!({"app": "web", zone: "own"});
    world.given(PODS, &waiting).await;
    let labels = async |name: &str| {
        let pod = world
            .ask("GET", &format!("{PODS}/{name}"), &Value::Null)
            .await;
        pod.body["metadata"]["labels"].clone()
    };
    assert_eq!(labels("waiting").await, waiting["metadata"]["labels"]);
    let binding = json!({"kind": "Binding", "metadata": {"name": "waiting"},
        "target": {"kind": "Node", "name": "n"}});
    world
        .given(&format!("{PODS}/waiting/binding"), &binding)
        .await;
    assert_eq!(labels("waiting").await, expected);

    let mut placed = waiting;
    placed["metadata"]["name"] = "placed".into();
    placed["spec"]["nodeName"] = "n".into();
    world.given(PODS, &placed).await;
    assert_eq!(labels("placed").await, expected);
    // A node that is not there yet has no place.
    placed["metadata"]["name"] = "early".into();
    placed["spec"]["nodeName"] = "m".into();
    world.given(PODS, &placed).await;
    assert_eq!(labels("early").await, json!({"app": "web", zone: "own"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_not_resized_to_more_than_its_node_has() {
    let world = world(&node(&json!({}))).await;
    for pod in [
        sized("p", "n", "1"),
        sized("free", "", "1"),
        sized("lost", "m", "1"),
    ] {
        world.given(PODS, &pod).await;
    }
    let resize = async |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = format!("{PODS}/{name}/resize");
        world.ask("PATCH", &path, pod).await
    };
    let fits = resize(&sized("p", "n", "2")).await;
    assert_eq!(fits.code, 200, "{}", fits.body);
    let refused = resize(&sized("p", "n", "2500m")).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert_eq!(
        refused.message(),
        "pods \"p\" is forbidden: node didn't have enough allocatable resources: \
         cpu, requested: 2500, allocatable: 2000"
    );
    assert_eq!(
        refused.body["details"]["causes"],
        json!([{"reason": "NodeCapacity"}])
    );
    // Without a node nothing limits it yet.
    assert_eq!(resize(&sized("free", "", "9")).await.code, 200);
    let lost = resize(&sized("lost", "m", "2")).await;
    assert_eq!(
        lost.message(),
        "pods \"lost\" is forbidden: node \"m\" not found"
    );
    // A resize that changes nothing needs no node.
    assert_eq!(resize(&sized("lost", "m", "1")).await.code, 200);
}
