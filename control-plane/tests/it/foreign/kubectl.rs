//! The real `kubectl`, command by command.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::harness::cluster::{Cluster, kubectl_or_skip};

#[test]
fn kubectl_finds_out_what_is_served() {
    if !kubectl_or_skip("kubectl's discovery") {
        return;
    }
    let cluster = Cluster::start();
    assert!(cluster.run(&["version"]).contains("Server Version: v1.36"));
    let resources = cluster.run(&["api-resources"]);
    for line in [
        "deployments",
        "deploy",
        "apps/v1",
        "Deployment",
        "componentstatuses",
    ] {
        assert!(resources.contains(line), "{resources}");
    }
    let versions = cluster.run(&["api-versions"]);
    assert!(
        versions.lines().any(|line| line == "autoscaling/v1"),
        "{versions}"
    );
    let explained = cluster.run(&["explain", "deployment.spec.replicas"]);
    assert!(
        explained.contains("FIELD: replicas <integer>"),
        "{explained}"
    );
    let explained = cluster.run(&["explain", "pod.spec.containers.ports"]);
    assert!(
        explained.contains("FIELD: ports <[]ContainerPort>"),
        "{explained}"
    );
    assert!(cluster.run(&["get", "--raw", "/readyz"]).contains("ok"));
    assert!(cluster.run(&["get", "ns"]).contains("kube-node-lease"));
    let service = cluster.run(&["get", "svc", "kubernetes"]);
    assert!(service.contains("10.96.0.1"), "{service}");
    assert!(
        cluster
            .run(&["get", "all", "-A"])
            .contains("service/kubernetes")
    );
}

#[test]
fn kubectl_walks_a_deployment_from_creation_to_its_end() {
    if !kubectl_or_skip("kubectl and a deployment") {
        return;
    }
    let cluster = Cluster::start();
    cluster.run(&[
        "create",
        "deployment",
        "web",
        "--image=nginx:1",
        "--replicas=2",
    ]);
    let listed = cluster.run(&["get", "deploy", "web"]);
    assert!(listed.contains("0/2"), "{listed}");
    let wide = cluster.run(&["get", "deploy", "-o", "wide"]);
    assert!(
        wide.contains("nginx:1") && wide.contains("app=web"),
        "{wide}"
    );
    let yaml = cluster.run(&["get", "deploy", "web", "-o", "yaml"]);
    assert!(yaml.contains("progressDeadlineSeconds: 600"), "{yaml}");
    assert!(
        cluster
            .run(&["get", "deploy", "-l", "app=web"])
            .contains("web")
    );
    assert!(
        !cluster
            .run(&["get", "deploy", "-l", "app!=web"])
            .contains("web")
    );
    let by_field = [
        "get",
        "deploy",
        "--field-selector",
        "metadata.name=web",
        "-o",
        "name",
    ];
    assert_eq!(cluster.run(&by_field), "deployment.apps/web\n");
    let described = cluster.run(&["describe", "deploy", "web"]);
    assert!(
        described.contains("StrategyType:           RollingUpdate"),
        "{described}"
    );

    cluster.run(&["label", "deploy", "web", "tier=front"]);
    cluster.run(&["annotate", "deploy", "web", "note=hello"]);
    cluster.run(&["scale", "deploy", "web", "--replicas=5"]);
    cluster.run(&["set", "image", "deploy/web", "nginx=nginx:2"]);
    cluster.run(&["set", "env", "deploy/web", "A=1"]);
    cluster.run(&["rollout", "restart", "deploy/web"]);
    cluster.run(&["rollout", "pause", "deploy/web"]);
    cluster.run(&["rollout", "resume", "deploy/web"]);
    let patch = r#"[{"op":"add","path":"/spec/minReadySeconds","value":3}]"#;
    cluster.run(&["patch", "deploy", "web", "--type=json", "-p", patch]);
    cluster.run(&[
        "patch",
        "deploy",
        "web",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":4}}"#,
    ]);
    let text = cluster.run(&["get", "deploy", "web", "-o", "json"]);
    let object: Value = serde_json::from_str(&text).unwrap();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:2");
    assert_eq!(container["env"][0]["name"], "A");
    assert_eq!(object["spec"]["replicas"], 4);
    assert_eq!(object["spec"]["minReadySeconds"], 3);
    assert_eq!(object["metadata"]["labels"]["tier"], "front");

    finish_rollout(&cluster, &object);
    let done = cluster.run(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    assert!(done.contains("successfully rolled out"), "{done}");
    cluster.run(&[
        "wait",
        "--for=condition=Available",
        "deploy/web",
        "--timeout=60s",
    ]);
    cluster.run(&["expose", "deploy", "web", "--port=80"]);
    assert!(cluster.run(&["get", "svc", "web"]).contains("80/TCP"));
    cluster.run(&["autoscale", "deploy", "web", "--max=9"]);
    assert!(cluster.run(&["get", "hpa"]).contains("Deployment/web"));
    cluster.run(&["delete", "deploy", "web"]);
    let missing = cluster.refused(&["get", "deploy", "web"]);
    assert!(
        missing.contains("(NotFound): deployments.apps \"web\" not found"),
        "{missing}"
    );
}

/// Writes the status that the deployment controller would write when all pods are ready.
fn finish_rollout(cluster: &Cluster, object: &Value) {
    let status = serde_json::json!({"status": {
        "observedGeneration": object["metadata"]["generation"], "replicas": 4,
        "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
    }});
    let patch = status.to_string();
    cluster.run(&[
        "patch",
        "deploy",
        "web",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ]);
}

#[test]
fn kubectl_makes_one_of_each() {
    if !kubectl_or_skip("kubectl create") {
        return;
    }
    let cluster = Cluster::start();
    let create = |words: &str| {
        let mut args = vec!["create"];
        args.extend(words.split(' '));
        cluster.run(&args)
    };
    create("ns n");
    create("configmap c --from-literal=a=b");
    create("secret generic s --from-literal=a=b");
    create("serviceaccount a");
    create("service clusterip v --tcp=80:8080");
    create("service nodeport w --tcp=80:8080");
    create("role r --verb=get --resource=pods");
    create("rolebinding b --role=r --serviceaccount=default:a");
    create("clusterrole r --verb=get --resource=pods");
    create("clusterrolebinding b --clusterrole=r --user=u");
    create("job j --image=busybox");
    create("cronjob k --image=busybox --schedule=@hourly");
    create("quota q --hard=pods=3");
    create("poddisruptionbudget p --selector=a=b --min-available=1");
    create("priorityclass x --value=5");
    create("ingress i --rule=h.example/=v:80");
    cluster.run(&["run", "pod", "--image=nginx", "--port=80"]);
    let all = cluster.run(&[
        "get", "cm,secret,sa,svc,role,rolebinding,clusterrole,clusterrolebinding,job,cj,quota,pdb,pc,ing,pod",
    ]);
    for name in [
        "configmap/c",
        "secret/s",
        "job.batch/j",
        "ingress.networking.k8s.io/i",
        "pod/pod",
    ] {
        assert!(all.contains(name), "{all}");
    }
    for name in [
        "pod/pod", "svc/v", "cm/c", "job/j", "ing/i", "quota/q", "ns/n",
    ] {
        assert!(cluster.run(&["describe", name]).contains("Name:"), "{name}");
    }
    cluster.run(&["delete", "pod", "pod", "--now"]);
    cluster.run(&["delete", "cm", "--all"]);
    assert!(
        !cluster
            .run(&["get", "cm", "-o", "name"])
            .contains("configmap/c")
    );
    let twice = cluster.refused(&["create", "ns", "default"]);
    assert!(
        twice.contains("namespaces \"default\" already exists"),
        "{twice}"
    );
}

#[test]
fn kubectl_creates_a_policy_that_refuses_pods() {
    if !kubectl_or_skip("kubectl and a policy") {
        return;
    }
    let cluster = Cluster::start();
    let file = cluster.file("policy.yaml", include_str!("kubectl/policy.yaml"));
    let made = cluster.run(&["create", "-f", &file]);
    let expected = "validatingadmissionpolicy.admissionregistration.k8s.io/images created\n\
                    validatingadmissionpolicybinding.admissionregistration.k8s.io/images created\n";
    assert_eq!(made, expected);
    let refused = cluster.refused(&["run", "p", "--image=docker.example/i"]);
    let expected = "The pods \"p\" is invalid: : ValidatingAdmissionPolicy 'images' with binding \
                    'images' denied request: no image from elsewhere: docker.example/i\n";
    assert_eq!(refused, expected);
    cluster.run(&["run", "p", "--image=registry.example/i"]);
    cluster.run(&["run", "q", "--image=docker.example/i", "-n", "kube-system"]);
    let policies = cluster.run(&["get", "validatingadmissionpolicies"]);
    assert!(
        policies.starts_with("NAME     VALIDATIONS   PARAMKIND   AGE"),
        "{policies}"
    );
}

#[test]
fn kubectl_watches_what_happens() {
    if !kubectl_or_skip("kubectl get -w") {
        return;
    }
    let cluster = Cluster::start();
    cluster.run(&["create", "configmap", "first"]);
    let mut watch = cluster
        .kubectl(&["get", "configmaps", "-w", "--output-watch-events"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("EVENT"));
    assert!(next().starts_with("ADDED      first"));
    cluster.run(&["create", "configmap", "second", "--from-literal=a=b"]);
    let line = next();
    assert!(line.starts_with("ADDED      second"), "{line}");
    cluster.run(&["label", "configmap", "second", "a=b"]);
    assert!(next().starts_with("MODIFIED   second"));
    cluster.run(&["delete", "configmap", "second"]);
    assert!(next().starts_with("DELETED    second"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    changes_only(&cluster);
}

/// Checks that the watch reports only changes, not existing objects.
fn changes_only(cluster: &Cluster) {
    let mut watch = cluster
        .kubectl(&["get", "cm", "--watch-only", "-l", "seen", "-o", "name"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cluster.run(&["create", "configmap", "third"]);
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (say, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| say.send(line))
    });
    // kubectl does not report the start of its watch, so change the object until a change shows.
    let line = (0..600).find_map(|at| {
        let label = format!("seen=n{at}");
        cluster.run(&["label", "--overwrite", "configmap", "third", &label]);
        told.recv_timeout(std::time::Duration::from_millis(100))
            .ok()
    });
    assert_eq!(line.as_deref(), Some("configmap/third"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    drop(told);
    let _ = reader.join();
}
