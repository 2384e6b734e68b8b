//! Daemon sets: our loop must leave the objects that Kubernetes' leaves.

use serde_json::Value;

use super::world::World;
use super::{Scenario, Step, compare, listed};

const NAMESPACE: &str = "daemons";
/// The kinds that are compared in the namespace.
const WITHIN: &str = "daemonsets,controllerrevisions,pods,events";
/// The label of pods and revisions, whose value is a hash of the template.
const HASH: &str = "controller-revision-hash";
/// The annotation of a template by which `kubectl rollout restart` changes it.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

const SCENARIO: Scenario = Scenario {
    steps: &STEPS,
    objects,
};

#[test]
fn our_daemon_sets_leave_the_objects_that_those_of_kubernetes_leave() {
    compare("daemon sets", "daemons.txt", &SCENARIO, |_, _| {});
}

const STEPS: [Step; 17] = [
    ("a namespace, and a pod on a node", |world| {
        world.run(&["create", "namespace", NAMESPACE]);
        let account = ["get", "serviceaccount", "default", "-o", "name"];
        world.wait_for_text(&[&["-n", NAMESPACE], &account[..]].concat());
        world.create(EARLY);
        within(
            world,
            &[
                "wait",
                "pod/early",
                "--for=condition=Ready",
                "--timeout=180s",
            ],
        );
    }),
    ("a daemon on every node, and one on no node", |world| {
        world.create(AGENT);
        world.create(PICKY);
        rolled_out(world);
    }),
    ("a node for the other one", |world| {
        world.run(&["label", "node", "node-1", "zone=west"]);
    }),
    ("another image", |world| {
        within(world, &["set", "image", "daemonset/agent", "main=agent:2"]);
        rolled_out(world);
    }),
    ("the image before", |world| {
        within(world, &["rollout", "undo", "daemonset/agent"]);
        rolled_out(world);
        let history = in_namespace(world, &["rollout", "history", "daemonset/agent"]);
        let numbers = history.lines().filter(|line| line.ends_with("<none>"));
        let numbers: Vec<&str> = numbers.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(numbers, ["2", "3"]);
    }),
    ("the set gone, its pods left", |world| {
        within(world, &["delete", "daemonset", "agent", "--cascade=orphan"]);
    }),
    (
        "its pods and revisions taken over by the same set",
        |world| {
            world.create(AGENT);
            rolled_out(world);
        },
    ),
    ("all pods restarted", |world| {
        within(world, &["rollout", "restart", "daemonset/agent"]);
        rolled_out(world);
    }),
    ("another image for pods to come", |world| {
        let patch = r#"{"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}"#;
        within(world, &["patch", "daemonset/agent", "--patch", patch]);
        within(world, &["set", "image", "daemonset/agent", "main=agent:3"]);
    }),
    ("a pod deleted", |world| {
        delete_on(world, "node-0");
    }),
    (
        "the other pods replaced, each beside its successor",
        |world| {
            let patch = r#"{"spec": {"updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}"#;
            within(world, &["patch", "daemonset/agent", "--patch", patch]);
            rolled_out(world);
        },
    ),
    ("a pod that failed", |world| {
        let pod = pod_on(world, "node-1");
        let failed = r#"{"status": {"phase": "Failed"}}"#;
        let patch = ["patch", &pod, "--subresource=status", "--patch", failed];
        within(world, &patch);
        let gone = format!("--for=delete {pod}");
        let gone: Vec<&str> = gone.split(' ').collect();
        within(world, &[&["wait", "--timeout=180s"], &gone[..]].concat());
    }),
    ("a pod deleted on a node that takes no more", |world| {
        world.run(&["taint", "node", "node-0", "stele.test/wet=yes:NoSchedule"]);
        delete_on(world, "node-0");
    }),
    ("the node takes pods again, another is drained", |world| {
        world.run(&["taint", "node", "node-0", "stele.test/wet-"]);
        world.run(&["drain", "node-2", "--ignore-daemonsets", "--timeout=180s"]);
        delete_on(world, "node-2");
    }),
    ("no history, and no node for the other one", |world| {
        world.run(&["uncordon", "node-2"]);
        world.run(&["label", "node", "node-1", "zone-"]);
        let patch = r#"{"spec": {"revisionHistoryLimit": 0}}"#;
        within(world, &["patch", "daemonset/agent", "--patch", patch]);
    }),
    ("the set gone after its pods", |world| {
        let foreground = ["daemonset", "agent", "--cascade=foreground"];
        within(world, &[&["delete"], &foreground[..]].concat());
    }),
    ("the namespace gone", |world| {
        world.run(&["delete", "namespace", NAMESPACE, "--timeout=180s"]);
    }),
];

fn within(world: &World, args: &[&str]) {
    in_namespace(world, args);
}

fn in_namespace(world: &World, args: &[&str]) -> String {
    world.run(&[&["-n", NAMESPACE], args].concat())
}

fn rolled_out(world: &World) {
    let status = ["rollout", "status", "daemonset/agent", "--timeout=180s"];
    within(world, &status);
}

/// The pod of the set `agent` on a node.
fn pod_on(world: &World, node: &str) -> String {
    let on = format!("--field-selector=spec.nodeName={node}");
    let pods = ["get", "pods", "-l", "app=agent", &on, "-o", "name"];
    in_namespace(world, &pods).trim().to_owned()
}

fn delete_on(world: &World, node: &str) {
    within(world, &["delete", &pod_on(world, node)]);
}

/// All objects that are compared.
fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 2] = [&["nodes"], &["-n", NAMESPACE, WITHIN]];
    // How often the scheduler looks for a node depends on timing.
    without_hashes(&listed(world, &gets, &["FailedScheduling"]))
}

/// Replaces the hashes of templates, which Kubernetes computes from Go's own names of the fields.
fn without_hashes(objects: &[Value]) -> Vec<Value> {
    let mut text = serde_json::to_string(objects).unwrap();
    for one in objects
        .iter()
        .filter(|one| one["kind"] == "ControllerRevision")
    {
        let template = &one["data"]["spec"]["template"];
        let image = template["spec"]["containers"][0]["image"].as_str();
        let again = template["metadata"]["annotations"].get(RESTARTED);
        let again = again.map_or("", |_| " restarted");
        let stands = format!("<{}{again}>", image.unwrap_or_default());
        let hash = one["metadata"]["labels"][HASH].as_str();
        text = text.replace(hash.unwrap(), &stands);
    }
    serde_json::from_str(&text).unwrap()
}

const EARLY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: early, namespace: daemons, labels: {app: agent}}
spec:
  nodeName: node-0
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: 'agent:0'}]
";

const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: daemons, labels: {app: agent}}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
      annotations: {template: note}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: agent:1
        ports: [{name: http, containerPort: 80}]
        resources: {requests: {cpu: 100m}}
";

const PICKY: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: picky, namespace: daemons, annotations: {note: hello}}
spec:
  selector: {matchLabels: {app: picky}}
  minReadySeconds: 2
  template:
    metadata: {labels: {app: picky}}
    spec:
      terminationGracePeriodSeconds: 1
      hostNetwork: true
      nodeSelector: {zone: west}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: kubernetes.io/os, operator: In, values: [linux]}
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers: [{name: main, image: 'picky:1'}]
";
