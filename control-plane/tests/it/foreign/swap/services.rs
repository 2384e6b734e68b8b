//! Replication controllers, the endpoints of services, autoscalers and aggregating roles: our loops
//! must leave the objects that Kubernetes' loops leave.

use serde_json::Value;

use super::world::World;
use super::{Scenario, compare, listed};

const NAMESPACE: &str = "services";
/// The kinds that are compared in the namespace.
const WITHIN: &str = "replicationcontrollers,pods,services,endpoints,endpointslices,\
     horizontalpodautoscalers,events";
/// The cluster roles that are compared.
const ROLES: &str = "kind=compared";

const SCENARIO: Scenario = Scenario {
    steps: &[
        ("a controller behind two services", |world| {
            world.run(&["create", "namespace", NAMESPACE]);
            world.create(include_str!("services/web.yaml"));
            ready(world, "2");
        }),
        ("three replicas", |world| {
            within(world, &["scale", "rc/web", "--replicas=3"]);
            ready(world, "3");
        }),
        ("a pod that is let go", |world| {
            let pods = within(world, &["get", "pods", "-l", "app=web", "-o", "name"]);
            let pod = pods.lines().next().unwrap();
            within(world, &["label", pod, "app=other", "--overwrite"]);
            ready(world, "3");
        }),
        ("another port", |world| {
            let port = r#"{"spec": {"ports": [{"name": "http", "port": 81, "targetPort": 8081}]}}"#;
            within(
                world,
                &["patch", "service", "web", "--type=merge", "--patch", port],
            );
        }),
        ("endpoints by hand", |world| {
            world.create(include_str!("services/hand.yaml"));
        }),
        ("other endpoints by hand", |world| {
            let fewer = r#"{"subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "main", "port": 80}]}]}"#;
            let patch = [
                "patch",
                "endpoints",
                "hand",
                "--type=merge",
                "--patch",
                fewer,
            ];
            within(world, &patch);
        }),
        ("an autoscaler without metrics", |world| {
            world.create(include_str!("services/autoscaler.yaml"));
            let inactive = ["--for=condition=ScalingActive=False", "--timeout=180s"];
            within(world, &[&["wait", "hpa/web"], &inactive[..]].concat());
        }),
        ("one for what is not there", |world| {
            world.create(include_str!("services/lost.yaml"));
            let unable = ["--for=condition=AbleToScale=False", "--timeout=180s"];
            within(world, &[&["wait", "hpa/lost"], &unable[..]].concat());
        }),
        ("more than may be", |world| {
            let fewer = r#"{"spec": {"maxReplicas": 2}}"#;
            within(world, &["patch", "hpa", "web", "--patch", fewer]);
            ready(world, "2");
        }),
        ("roles in one", |world| {
            world.create(include_str!("services/roles.yaml"));
        }),
        ("a role less", |world| {
            world.run(&["delete", "clusterrole", "compared-b"]);
        }),
        ("the services gone", |world| {
            within(world, &["delete", "hpa", "--all"]);
            within(world, &["delete", "service", "web", "hand"]);
        }),
        ("the controller gone, its pods left", |world| {
            within(world, &["delete", "rc", "web", "--cascade=orphan"]);
        }),
        ("the pods taken over", |world| {
            let all = include_str!("services/web.yaml");
            world.create(all.split("---").next().unwrap());
            ready(world, "2");
        }),
    ],
    objects,
};

#[test]
fn our_services_and_their_sizes_are_those_of_kubernetes() {
    compare("services", "services/golden.txt", &SCENARIO, |_, _| {});
}

fn within(world: &World, args: &[&str]) -> String {
    world.run(&[&["-n", NAMESPACE], args].concat())
}

fn ready(world: &World, replicas: &str) {
    let reached = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
    within(world, &["wait", "rc/web", &reached, "--timeout=180s"]);
}

/// All objects that are compared. The nodes are among them for their names, which pods have.
fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 3] = [
        &["nodes"],
        &["clusterroles", "-l", ROLES],
        &["-n", NAMESPACE, WITHIN],
    ];
    listed(world, &gets, &[])
}
