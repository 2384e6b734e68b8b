//! The steps of the scenario; after each step everything must settle.

use serde_json::Value;

use super::world::{NODES, World};
use super::{Step, listed};

pub(super) const NAMESPACE: &str = "swap";
/// The kinds that are compared in the namespace.
const WITHIN: &str = "deployments,replicasets,pods,services,endpoints,endpointslices,configmaps,secrets,\
     serviceaccounts,poddisruptionbudgets,events";

pub(super) const STEPS: [Step; 11] = [
    ("a namespace", |world| {
        world.run(&["create", "namespace", NAMESPACE]);
    }),
    (
        "a deployment with a service, and a pod that fits nowhere",
        |world| {
            world.create(&format!("{DEPLOYMENT}{OTHERS}"));
        },
    ),
    ("another image", |world| {
        in_namespace(world, &["set", "image", "deployment/web", "main=nginx:2"]);
    }),
    ("the image before", |world| {
        in_namespace(world, &["rollout", "undo", "deployment/web"]);
    }),
    ("five replicas", |world| {
        in_namespace(world, &["scale", "deployment/web", "--replicas=5"]);
    }),
    ("a budget for its pods", |world| {
        world.create(BUDGET);
    }),
    ("the deployment paused, its template changed", |world| {
        // From here on its pods change owners, and in between their expected number is unknown.
        in_namespace(world, &["delete", "poddisruptionbudget", "web"]);
        in_namespace(world, &["rollout", "pause", "deployment/web"]);
        in_namespace(world, &["set", "image", "deployment/web", "main=nginx:2"]);
    }),
    ("the deployment gone, its pods left", |world| {
        in_namespace(world, &["delete", "deployment", "web", "--cascade=orphan"]);
    }),
    ("the pods taken over by the same deployment", |world| {
        world.create(DEPLOYMENT);
    }),
    ("the deployment gone after its pods", |world| {
        in_namespace(
            world,
            &["delete", "deployment", "web", "--cascade=foreground"],
        );
    }),
    ("the namespace gone", |world| {
        world.run(&["delete", "namespace", NAMESPACE, "--timeout=180s"]);
    }),
];

fn in_namespace(world: &World, args: &[&str]) {
    world.run(&[&["-n", NAMESPACE], args].concat());
}

/// All objects that are compared.
pub(super) fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 2] = [&["nodes,namespaces"], &["-n", NAMESPACE, WITHIN]];
    listed(world, &gets, &[])
}

/// After a restart of the apiserver: all objects exist, and the other parts reconnect.
pub(super) fn go_on(world: &World) {
    let nodes = world.run(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), NODES, "{nodes}");
    let deployment = ["create", "deployment", "after", "--image=nginx"];
    world.run(&[&deployment[..], &["--replicas=2"]].concat());
    world.run(&["rollout", "status", "deployment/after", "--timeout=180s"]);
    let bound = "jsonpath={range .items[*]}{.spec.nodeName} {end}";
    let bound = world.run(&["get", "pods", "-l", "app=after", "-o", bound]);
    assert_eq!(bound.split_whitespace().count(), 2, "{bound}");
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: swap
  labels: {app: web}
  annotations: {note: hello}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {template: note}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: nginx:1
        ports: [{name: http, containerPort: 80}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
";

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: swap}
spec:
  maxUnavailable: 30%
  selector: {matchLabels: {app: web}}
";

/// The objects that are created with the deployment.
const OTHERS: &str = "
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: swap, labels: {app: web}}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: swap}
spec:
  nodeSelector: {colour: blue}
  containers: [{name: main, image: nginx:1}]
---
apiVersion: v1
kind: Pod
metadata: {name: too-big, namespace: swap}
spec:
  containers: [{name: main, image: nginx:1, resources: {requests: {cpu: 1000}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: swap}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: swap}
stringData: {a: b}
";
