//! What nodes may do: the mode of authorization for them, and the plugin NodeRestriction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::Config;
use apiserver::admission::plugins::node_restriction::NodeRestriction;
use apiserver::auth::authenticate::jwt::Key;
use apiserver::auth::authenticate::token::Issuer;
use apiserver::auth::authorize::config::Configured;
use apiserver::auth::authorize::{Mode, Modes};
use apiserver::auth::pki::Pki;
use machinery::time::Timestamp;
use serde_json::{Value, json};
use testkit::Launch;

use crate::admission::webhooks::world::{Answer, World, pod};
use crate::harness::cluster::{BINARY, apiserver_with, kubectl_or_skip, told};

const NODES: &str = "/api/v1/nodes";
const CORE: &str = "/api/v1/namespaces/default";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NULL: Value = Value::Null;
/// How long caches may take to see a deletion on a busy machine.
const CACHES_MAX: Duration = Duration::from_secs(30);
const UNRELATED: &str = "no relationship found between node 'm' and this object";

/// A world with the nodes `n` and `m`, and a pod `p` on `n`.
async fn world(modes: &[Mode]) -> World {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let name = "https://kubernetes.default.svc".to_owned();
    let issuer = Issuer::new(name.clone(), vec![name], Key::from_pem(&key).unwrap());
    let chain: Vec<_> = modes.iter().copied().map(Configured::Builtin).collect();
    let world = World::set_up(Config {
        authorizer: Arc::new(Modes::new(&chain).unwrap()),
        issuer: Some(Arc::new(issuer)),
        plugins: vec![Arc::new(NodeRestriction)],
        ..Config::default()
    })
    .await;
    for node in ["n", "m"] {
        let node = json!({"kind": "Node", "metadata": {"name": node}});
        world.given(NODES, &node).await;
    }
    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = format!("{CORE}/serviceaccounts");
    world.given(&accounts, &account).await;
    world.given(&pods(), &running("p", "n")).await;
    world
}

fn pods() -> String {
    format!("{CORE}/pods")
}

/// A pod that uses an account, a secret and a claim.
fn running(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod["spec"]["serviceAccountName"] = "robot".into();
    pod["spec"]["volumes"] = json!([
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "t", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
    ]);
    pod
}

fn mirror(node: &str, owner: Value) -> Value {
    let mut pod = pod("mirror");
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod["spec"]["nodeName"] = node.into();
    pod
}

#[track_caller]
fn refused(answer: &Answer, why: &str) {
    assert_eq!(answer.code, 403, "{}", answer.body);
    assert!(answer.message().ends_with(why), "{}", answer.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_what_their_pods_use() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let read = async |node: &str, path: &str| world.ask_as_node(node, "GET", path, &NULL).await;
    let secrets = format!("{CORE}/secrets");
    for name in ["s", "other"] {
        let secret = json!({"kind": "Secret", "metadata": {"name": name}});
        world.given(&secrets, &secret).await;
    }
    let path = format!("{secrets}/s");
    assert_eq!(read("n", &path).await.code, 200);
    let selected = format!("{secrets}?fieldSelector=metadata.name%3Ds");
    assert_eq!(read("n", &selected).await.code, 200);
    assert_eq!(
        read("m", &path).await.message(),
        format!(
            "secrets \"s\" is forbidden: User \"system:node:m\" cannot get resource \"secrets\" in \
             API group \"\" in the namespace \"default\": {UNRELATED}"
        )
    );
    let other = read("n", &format!("{secrets}/other")).await;
    refused(&other, &UNRELATED.replace("'m'", "'n'"));
    refused(&read("n", &secrets).await, "No Object name found");

    let selected = "/api/v1/pods?fieldSelector=spec.nodeName%3D";
    let own = read("n", &format!("{selected}n")).await;
    assert_eq!(own.body["items"].as_array().unwrap().len(), 1);
    let why = "can only list/watch pods with spec.nodeName field selector";
    refused(&read("n", &format!("{selected}m")).await, why);

    // A pod that comes opens its secret at once; when the caches see that it is gone, it opens
    // nothing.
    world.given(&pods(), &running("q", "m")).await;
    assert_eq!(read("m", &path).await.code, 200);
    let gone = format!("{CORE}/pods/q?gracePeriodSeconds=0");
    assert_eq!(world.ask("DELETE", &gone, &NULL).await.code, 200);
    let end = Instant::now() + CACHES_MAX;
    let mut last = read("m", &path).await;
    while last.code == 200 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
        last = read("m", &path).await;
    }
    refused(&last, UNRELATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_add_to_what_nodes_may_and_reviews_show_it() {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let review = |selected: &str| {
        json!({"kind": "SubjectAccessReview", "spec": {"user": "system:node:n",
            "groups": ["system:nodes"], "resourceAttributes": {"verb": "list",
            "resource": "pods", "fieldSelector": {"requirements": [
                {"key": "spec.nodeName", "operator": "In", "values": [selected]}]}}}})
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let own = world.post(path, &review("n")).await;
    assert_eq!(own.body["status"], json!({"allowed": true}));
    let other = world.post(path, &review("m")).await;
    let why = "can only list/watch pods with spec.nodeName field selector";
    assert_eq!(
        other.body["status"],
        json!({"allowed": false, "reason": why})
    );
    let rules = json!({"kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = world.ask_as_node("n", "POST", path, &rules).await;
    assert_eq!(rules.body["status"]["incomplete"], true);
    assert_eq!(
        rules.body["status"]["evaluationError"],
        "node authorizer does not support user rule resolution"
    );

    let before = world.ask_as_node("n", "GET", NAMESPACES, &NULL).await;
    assert_eq!(before.code, 403);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}]});
    let path = format!("/apis/{group}/v1/clusterrolebindings");
    world.given(&path, &binding).await;
    let after = world.ask_as_node("n", "GET", NAMESPACES, &NULL).await;
    assert_eq!(after.code, 200, "{}", after.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_mode_a_node_has_what_roles_give() {
    let roles = world(&[Mode::Rbac]).await;
    let path = format!("{NODES}/n");
    let own = roles.ask_as_node("n", "GET", &path, &NULL).await;
    refused(&own, "at the cluster scope");
    let nothing = world(&[Mode::AlwaysDeny]).await;
    let denied = nothing.ask_as("jane", "GET", NODES, &NULL).await;
    refused(&denied, "at the cluster scope: Everything is forbidden.");
    // The owner is in the group that may do everything.
    assert_eq!(nothing.ask("GET", NODES, &NULL).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_write_only_themselves() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let own = format!("{NODES}/n");
    let labels = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "m", "uid": "u"});
    let slice = json!({"driver": "d", "nodeName": "m",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
    let named = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name}});
    let with = |mut object: Value, spec: Value| {
        object["spec"] = spec;
        object
    };
    let signed = "kubernetes.io/kubelet-serving";
    for (method, path, body, expected) in [
        ("PATCH", own.as_str(), labels("app"), ""),
        ("PATCH", &own, labels("kubernetes.io/hostname"), ""),
        (
            "PATCH",
            &own,
            labels("node-role.kubernetes.io/infra"),
            "is not allowed to modify labels: node-role.kubernetes.io/infra",
        ),
        (
            "PATCH",
            &own,
            json!({"spec": {"taints": []}}),
            "node \"n\" is not allowed to modify taints",
        ),
        (
            "PATCH",
            &own,
            json!({"metadata": {"ownerReferences": [owner]}}),
            "node \"n\" is not allowed to modify ownerReferences",
        ),
        (
            "PATCH",
            "/api/v1/nodes/m",
            labels("app"),
            "node \"n\" is not allowed to modify node \"m\"",
        ),
        (
            "POST",
            NODES,
            named("Node", "o"),
            "node \"n\" is not allowed to modify node \"o\"",
        ),
        (
            "PATCH",
            "/api/v1/nodes/n/status",
            json!({"status": {"phase": "Running"}}),
            "",
        ),
        ("POST", LEASES, named("Lease", "n"), ""),
        (
            "POST",
            LEASES,
            named("Lease", "m"),
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "POST",
            "/apis/storage.k8s.io/v1/csinodes",
            with(named("CSINode", "m"), json!({"drivers": []})),
            "can only access CSINode with the same name as the requesting node",
        ),
        (
            "POST",
            "/apis/resource.k8s.io/v1/resourceslices",
            with(named("ResourceSlice", "r"), slice),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            "POST",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            crate::users::security::signing_request("r", "system:nodes", signed),
            "can only create a node CSR with CN=system:node:n",
        ),
    ] {
        let answer = world.ask_as_node("n", method, path, &body).await;
        if expected.is_empty() {
            assert!(answer.code < 300, "{path}: {}", answer.body);
        } else {
            refused(&answer, expected);
        }
    }
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |node: &str| {
        let spec = json!({"nodeName": node, "driver": "gpu.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
        with(named("ResourceSlice", "own"), spec)
    };
    let made = world.ask_as_node("n", "POST", slices, &slice("n")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let mut given_away = made.body;
    given_away["spec"]["nodeName"] = "m".into();
    let path = format!("{slices}/own");
    let answer = world.ask_as_node("n", "PUT", &path, &given_away).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    let new = json!({"kind": "Node", "metadata": {"name": "o",
        "labels": {"kubernetes.io/os": "linux", "k8s.io/b": "", "kubernetes.io/a": ""}}});
    refused(
        &world.ask_as_node("o", "POST", NODES, &new).await,
        "node \"o\" is not allowed to set the following labels: k8s.io/b, kubernetes.io/a",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_create_mirror_pods_alone() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let path = format!("{NODES}/n");
    let node = world.ask("GET", &path, &NULL).await;
    let uid = node.body["metadata"]["uid"].clone();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true});
    let only = |what: &str| format!("node \"n\" can only create pods with {what} set to itself");
    let mut account = mirror("n", owner("n"));
    account["spec"]["serviceAccountName"] = "robot".into();
    let mut other_uid = owner("n");
    other_uid["uid"] = "other".into();
    let uid = uid.as_str().unwrap();
    for (pod, why) in [
        (
            pod("plain"),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods".to_owned(),
        ),
        (mirror("m", owner("n")), only("spec.nodeName")),
        (mirror("n", owner("m")), only("an owner reference")),
        (
            mirror("n", other_uid),
            format!("node n UID mismatch: expected other got {uid}"),
        ),
        (
            account,
            "node \"n\" can not create pods that reference serviceaccounts".to_owned(),
        ),
    ] {
        let answer = world.ask_as_node("n", "POST", &pods(), &pod).await;
        refused(&answer, &why);
    }
    let good = mirror("n", owner("n"));
    let made = world.ask_as_node("n", "POST", &pods(), &good).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_report_and_remove_the_pods_bound_to_them() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let status = json!({"status": {"phase": "Running"}});
    let path = format!("{CORE}/pods/p/status");
    let reported = world.ask_as_node("n", "PATCH", &path, &status).await;
    assert_eq!(reported.code, 200, "{}", reported.body);
    refused(
        &world.ask_as_node("m", "PATCH", &path, &status).await,
        "node \"m\" can only update pod status for pods with spec.nodeName set to itself",
    );
    let claims = json!({"status": {"resourceClaimStatuses": [{"name": "r"}]}});
    refused(
        &world.ask_as_node("n", "PATCH", &path, &claims).await,
        "node \"n\" cannot update resource claim statues",
    );
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    refused(
        &world.ask_as_node("n", "PATCH", &path, &labels).await,
        "node \"n\" cannot update labels through pod status",
    );
    let eviction = json!({"kind": "Eviction", "metadata": {"name": "p"}});
    let path = format!("{CORE}/pods/p/eviction");
    refused(
        &world.ask_as_node("m", "POST", &path, &eviction).await,
        "node m can only evict pods with spec.nodeName set to itself",
    );
    let path = format!("{CORE}/pods/p?gracePeriodSeconds=0");
    refused(
        &world.ask_as_node("m", "DELETE", &path, &NULL).await,
        "node \"m\" can only delete pods with spec.nodeName set to itself",
    );
    let gone = world.ask_as_node("n", "DELETE", &path, &NULL).await;
    assert_eq!(gone.code, 200, "{}", gone.body);
    let missing = world.ask_as_node("n", "DELETE", &path, &NULL).await;
    assert_eq!(missing.code, 404, "{}", missing.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_get_tokens_for_the_pods_bound_to_them() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let path = format!("{CORE}/pods/p");
    let pod = world.ask("GET", &path, &NULL).await;
    let uid = pod.body["metadata"]["uid"].clone();
    let path = format!("{CORE}/serviceaccounts/robot/token");
    let request = |audience: &str, bound: &Value| json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": [audience], "boundObjectRef": bound}});
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let asked = request("vault", &bound);
    let given = world.ask_as_node("n", "POST", &path, &asked).await;
    assert_eq!(given.code, 201, "{}", given.body);
    let without_uid = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let mut other_uid = bound.clone();
    other_uid["uid"] = "x".into();
    for (bound, why) in [
        (NULL, "node requested token not bound to a pod"),
        (
            without_uid,
            "node requested token with a pod binding without a uid",
        ),
        (
            other_uid,
            "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ] {
        let asked = request("vault", &bound);
        let answer = world.ask_as_node("n", "POST", &path, &asked).await;
        refused(&answer, why);
    }
    world.given(&pods(), &running("q", "m")).await;
    refused(
        &world.ask_as_node("m", "POST", &path, &asked).await,
        "node requested token bound to a pod scheduled on a different node",
    );
    // The pod's claim is missing, so it is unknown which driver mounts it.
    let asked = request("other", &bound);
    refused(
        &world.ask_as_node("n", "POST", &path, &asked).await,
        "error validating audience \"other\": persistentvolumeclaims \"c\" not found",
    );
    let several = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "spec": {"audiences": ["vault", "other"], "boundObjectRef": bound}});
    refused(
        &world.ask_as_node("n", "POST", &path, &several).await,
        "node may only request 0 or 1 audiences",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audiences_come_from_drivers_and_from_roles_too() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let driver = json!({"kind": "CSIDriver", "metadata": {"name": "d.example"},
        "spec": {"tokenRequests": [{"audience": "store"}]}});
    world
        .given("/apis/storage.k8s.io/v1/csidrivers", &driver)
        .await;
    let mut pod = pod("mounts");
    pod["spec"]["nodeName"] = "n".into();
    pod["spec"]["serviceAccountName"] = "robot".into();
    pod["spec"]["volumes"] = json!([{"name": "v", "csi": {"driver": "d.example"}}]);
    let made = world.post(&pods(), &pod).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let path = format!("{CORE}/serviceaccounts/robot/token");
    let request = |audience: &str| {
        let uid = &made.body["metadata"]["uid"];
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "mounts", "uid": uid});
        json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": [audience], "boundObjectRef": bound}})
    };
    let given = world
        .ask_as_node("n", "POST", &path, &request("store"))
        .await;
    assert_eq!(given.code, 201, "{}", given.body);
    let other = request("other");
    refused(
        &world.ask_as_node("n", "POST", &path, &other).await,
        "audience \"other\" not found in pod spec volume, system:node:n is not authorized to request tokens for this audience",
    );
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["other"],
        "verbs": ["request-serviceaccounts-token-audience"]}]);
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules});
    world
        .given(&format!("/apis/{group}/v1/clusterroles"), &role)
        .await;
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:node:n"}]});
    let path_of_bindings = format!("/apis/{group}/v1/clusterrolebindings");
    world.given(&path_of_bindings, &binding).await;
    let given = world.ask_as_node("n", "POST", &path, &other).await;
    assert_eq!(given.code, 201, "{}", given.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_report_the_size_of_claims() {
    let world = world(&[Mode::Node, Mode::Rbac]).await;
    let claims = format!("{CORE}/persistentvolumeclaims");
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec});
    world.given(&claims, &claim).await;
    let path = format!("{claims}/c/status");
    let capacity = json!({"status": {"capacity": {"storage": "2Gi"}}});
    let reported = world.ask_as_node("n", "PATCH", &path, &capacity).await;
    assert_eq!(reported.code, 200, "{}", reported.body);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    refused(
        &world.ask_as_node("n", "PATCH", &path, &labelled).await,
        "node \"n\" is not allowed to update fields other than status.quantity and status.conditions: metadata.labels",
    );
    let other = world.ask_as_node("m", "PATCH", &path, &capacity).await;
    refused(&other, UNRELATED);
}

#[test]
fn a_kubelet_is_known_by_its_certificate() {
    if !kubectl_or_skip("nodes with certificates") {
        return;
    }
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let now = Timestamp {
        seconds: since.as_secs().try_into().unwrap(),
        nanos: 0,
    };
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name).display().to_string();
    let pki = Pki::open(home.path(), &[], now).unwrap();
    let kubelet = pki.client("system:node:n", "system:nodes", now).unwrap();
    std::fs::write(file("kubelet.crt"), kubelet.certificate).unwrap();
    std::fs::write(file("kubelet.key"), kubelet.key).unwrap();
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let (mut child, address) = apiserver_with(
        &store.url(),
        &[
            &format!("--tls-cert-file={}", file("apiserver.crt")),
            &format!("--tls-private-key-file={}", file("apiserver.key")),
            &format!("--client-ca-file={}", file("ca.crt")),
            &format!("--service-account-signing-key-file={}", file("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--advertise-address=127.0.0.1",
        ],
    );
    let kubectl = |args: &[&str]| {
        let output = std::process::Command::new("kubectl")
            .arg(format!("--server=https://{address}"))
            .arg(format!("--certificate-authority={}", file("ca.crt")))
            .arg(format!("--client-certificate={}", file("kubelet.crt")))
            .arg(format!("--client-key={}", file("kubelet.key")))
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", home.path())
            .output()
            .unwrap();
        (output.status.success(), told(&output))
    };
    for node in ["n", "m"] {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        std::fs::write(file(node), object.to_string()).unwrap();
    }
    let (done, text) = kubectl(&["create", "-f", &file("n")]);
    assert!(done, "{text}");
    let (done, text) = kubectl(&["create", "-f", &file("m")]);
    let why = "node \"n\" is not allowed to modify node \"m\"";
    assert!(!done && text.contains(why), "{text}");
    let (done, text) = kubectl(&["get", "node", "n"]);
    assert!(done, "{text}");
    let (done, text) = kubectl(&["get", "nodes"]);
    let why = "node 'n' cannot read all nodes, only its own Node object";
    assert!(!done && text.contains(why), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
}
