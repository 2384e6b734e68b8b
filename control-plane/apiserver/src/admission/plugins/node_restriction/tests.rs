use serde_json::json;

use super::nodes::{changed_fields, forbidden_labels};
use super::pods::named_object;
use super::*;

#[test]
fn labels_that_steer_pods_are_forbidden() {
    let old = json!({"metadata": {"labels": {
        "kubernetes.io/removed": "1", "kubernetes.io/kept": "1", "kubernetes.io/hostname": "a"}}});
    let new = json!({"metadata": {"labels": {
        "kubernetes.io/kept": "1",
        "kubernetes.io/hostname": "b",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/control-plane": "",
        "x.node-restriction.kubernetes.io/y": "",
        "node-restriction.kubernetes.io/z": "",
        "k8s.io/any": "",
        "kubelet.kubernetes.io/own": "",
        "sub.node.kubernetes.io/own": "",
        "notnode.kubernetes.io/x": "",
        "mykubernetes.io/free": "",
        "app": "free",
    }}});
    assert_eq!(
        forbidden_labels(&new, &old),
        [
            "k8s.io/any",
            "kubernetes.io/removed",
            "node-restriction.kubernetes.io/z",
            "node-role.kubernetes.io/control-plane",
            "notnode.kubernetes.io/x",
            "x.node-restriction.kubernetes.io/y",
        ]
    );
}

#[test]
fn mirror_pods_name_no_objects() {
    let projected = |source: Value| {
        json!({"volumes": [{"name": "v", "projected": {"sources": [
            {"downwardAPI": {}}, source]}}]})
    };
    for (spec, expected) in [
        (
            json!({"volumes": [{"name": "v", "hostPath": {}}]}),
            Ok(None),
        ),
        (projected(json!({"downwardAPI": {}})), Ok(None)),
        (
            json!({"serviceAccountName": "a"}),
            Ok(Some("serviceaccounts")),
        ),
        (
            json!({"imagePullSecrets": [{"name": "s"}]}),
            Ok(Some("secrets")),
        ),
        (
            json!({"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}),
            Ok(Some("configmaps")),
        ),
        (
            json!({"resourceClaims": [{"name": "r"}]}),
            Ok(Some("resourceclaims")),
        ),
        (
            json!({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}),
            Ok(Some("csidrivers (via CSI volumes)")),
        ),
        (
            projected(json!({"serviceAccountToken": {}})),
            Ok(Some("serviceaccounts (via projected volumes)")),
        ),
        (
            projected(json!({"new": {}})),
            Err("unknown source for projected volume \"v\"".to_owned()),
        ),
        (
            json!({"volumes": [{"name": "v", "new": {}}]}),
            Err("unknown volume type for volume  \"v\"".to_owned()),
        ),
    ] {
        assert_eq!(named_object(&json!({"spec": spec})), expected, "{spec}");
    }
}

#[test]
fn changed_fields_are_named() {
    let old = json!({"metadata": {"labels": {"a": "b"}, "finalizers": []},
        "spec": {"volumeName": "v"}, "status": {}});
    let new = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"volumeName": "v"}});
    assert_eq!(changed_fields(&old, &new), ["metadata.labels"]);
}
