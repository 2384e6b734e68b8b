//! `kubectl apply` and related commands: files against existing objects.

use crate::harness::cluster::{Cluster, kubectl_or_skip};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'nginx:1', ports: [{containerPort: 80}]}
      - {name: side, image: 'envoy:1', env: [{name: A, value: '1'}, {name: B, value: '2'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
";

#[test]
fn kubectl_applies_a_file_again_and_again() {
    if !kubectl_or_skip("kubectl apply") {
        return;
    }
    let cluster = Cluster::start();
    let file = cluster.file("web.yaml", DEPLOYMENT);
    let differs = cluster.kubectl(&["diff", "-f", &file]).output().unwrap();
    assert_eq!(differs.status.code(), Some(1), "everything is new");
    let first = cluster.run(&["apply", "-f", &file]);
    assert_eq!(first, "deployment.apps/web created\nservice/web created\n");
    let again = cluster.run(&["apply", "-f", &file]);
    assert_eq!(
        again,
        "deployment.apps/web unchanged\nservice/web unchanged\n"
    );
    cluster.run(&["diff", "-f", &file]);

    cluster.run(&["scale", "deploy", "web", "--replicas=7"]);
    let changed = DEPLOYMENT
        .replace("nginx:1", "nginx:2")
        .replace("{name: A, value: '1'}, ", "")
        .replace("  replicas: 2\n", "");
    let file = cluster.file("web.yaml", &changed);
    let changed = cluster.run(&["apply", "-f", &file]);
    assert_eq!(
        changed,
        "deployment.apps/web configured\nservice/web unchanged\n"
    );
    let path = "{.spec.template.spec.containers[*].image} {.spec.template.spec.containers[1].env}";
    let shown = cluster.run(&["get", "deploy", "web", "-o", &format!("jsonpath={path}")]);
    assert_eq!(shown, r#"nginx:2 envoy:1 [{"name":"B","value":"2"}]"#);

    let dry = cluster.run(&["apply", "-f", &file, "--dry-run=server"]);
    assert!(dry.contains("(server dry run)"), "{dry}");
    cluster.run(&["replace", "-f", &file]);
    cluster.run(&["delete", "-f", &file]);
    let gone = cluster.run(&["get", "deploy,svc", "-o", "name"]);
    assert_eq!(gone, "service/kubernetes\n");
}

#[test]
fn kubectl_tells_what_is_wrong_with_a_file() {
    if !kubectl_or_skip("kubectl and a wrong file") {
        return;
    }
    let cluster = Cluster::start();
    let apply = |text: &str| cluster.refused(&["apply", "-f", &cluster.file("bad.yaml", text)]);
    let unknown = apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nfoo: 1\n");
    assert!(unknown.contains("unknown field \"foo\""), "{unknown}");
    let unmatched = apply(&DEPLOYMENT.replace("matchLabels: {app: web}", "matchLabels: {app: x}"));
    assert!(
        unmatched.contains("`selector` does not match template `labels`"),
        "{unmatched}"
    );
    let unnamed = apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n");
    assert!(
        unnamed.contains("a lowercase RFC 1123 subdomain"),
        "{unnamed}"
    );
    let empty = apply("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n");
    assert!(empty.contains("spec.containers: Required value"), "{empty}");
}
