use machinery::selector::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

use super::*;
use crate::auth::User;
use crate::auth::follow::View;

/// A request of node `n`: verb, group, resource with its subresource, namespace and name; `-` is
/// empty.
fn asked(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    let word = |at: usize| match words[at] {
        "-" => String::new(),
        word => word.to_owned(),
    };
    let resource = word(2);
    let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
    Attributes {
        user: User {
            name: "system:node:n".to_owned(),
            groups: vec!["system:nodes".to_owned()],
            ..User::default()
        },
        verb: word(0),
        api_group: word(1),
        api_version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: word(3),
        name: word(4),
        path: String::new(),
        of_resource: true,
        labels: LabelSelector::default(),
        fields: words.get(5).map_or_else(FieldSelector::default, |fields| {
            FieldSelector::parse(fields).unwrap()
        }),
    }
}

/// What a verdict says, in one line.
fn shown(text: &str) -> String {
    match verdict("n", &asked(text)) {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Refused(why) => why,
        Verdict::IfRelated(_) => "if related".to_owned(),
    }
}

/// Requests, and what is said of them before the graph is asked.
const VERDICTS: &str = r#"
get - secrets a s | if related
watch - configmaps a c | if related
list - secrets a - | No Object name found
list - secrets - s | can only read namespaced object of this type
create - secrets a s | can only read resources of this type
get - secrets/x a s | cannot read subresource
get - persistentvolumeclaims a c | if related
list - persistentvolumeclaims a c | can only get individual resources of this type
patch - persistentvolumeclaims/status a c | if related
get - persistentvolumeclaims/status a c | can only get/update/patch this type
get - persistentvolumes - v | if related
get resource.k8s.io resourceclaims a c | if related
list storage.k8s.io volumeattachments - v | can only get individual resources of this type
get - serviceaccounts a s | if related
create - serviceaccounts/token a s | if related
create - serviceaccounts a s | can only create token subresource of serviceaccount
create - serviceaccounts/token a - | can only create tokens for individual service accounts
create coordination.k8s.io leases kube-node-lease - | allowed
update coordination.k8s.io leases kube-node-lease n | allowed
update coordination.k8s.io leases kube-node-lease m | can only access node lease with the same name as the requesting node
update coordination.k8s.io leases kube-system n | can only access leases in the "kube-node-lease" system namespace
list coordination.k8s.io leases kube-node-lease n | can only get, create, update, patch, or delete a node lease
delete storage.k8s.io csinodes - n | allowed
delete storage.k8s.io csinodes - m | can only access CSINode with the same name as the requesting node
create resource.k8s.io resourceslices - - | allowed
delete resource.k8s.io resourceslices - s | if related
list resource.k8s.io resourceslices - - | can only list/watch/deletecollection resourceslices with nodeName field selector
list resource.k8s.io resourceslices - - spec.nodeName=n | allowed
get - nodes - n | allowed
get - nodes - m | node 'n' cannot read 'm', only its own Node object
list - nodes - - | node 'n' cannot read all nodes, only its own Node object
patch - nodes/status - m | allowed
delete - nodes - n |
get - pods a p | if related
list - pods - - | can only list/watch pods with spec.nodeName field selector
list - pods - - spec.nodeName=m | can only list/watch pods with spec.nodeName field selector
list - pods - - spec.nodeName!=n | can only list/watch pods with spec.nodeName field selector
watch - pods - - spec.nodeName=n,status.phase=Running | allowed
watch - pods a p | if related
delete - pods a p | allowed
update - pods a p |
update - pods/status a p | allowed
create - pods/eviction a p | allowed
create - pods/exec a p |
create certificates.k8s.io podcertificaterequests a - |
list - services - - | allowed
create certificates.k8s.io certificatesigningrequests - - | allowed
create - events a - | allowed
list rbac.authorization.k8s.io clusterroles - - |
"#;

#[test]
fn requests_are_decided_by_verbs_names_and_selectors() {
    for line in VERDICTS.trim().lines() {
        let (request, expected) = line.split_once(" |").unwrap();
        assert_eq!(shown(request), expected.trim(), "{request}");
    }
}

fn pod(name: &str, node: &str, more: Value) -> Value {
    let mut spec = more;
    spec["nodeName"] = node.into();
    json!({"metadata": {"namespace": "a", "name": name}, "spec": spec})
}

fn belongs(graph: &Graph, sort: Sort, name: &str, node: &str) -> bool {
    let namespace = if sort == Sort::Volume { "" } else { "a" };
    graph.belongs_to(&Vertex::new(sort, namespace, name), node)
}

#[test]
fn what_a_pod_names_belongs_to_its_node() {
    let mut graph = Graph::default();
    let spec = json!({
        "serviceAccountName": "account",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "whole"}}]}],
        "containers": [{"env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
            {"name": "B", "value": "plain"},
        ]}],
        "volumes": [
            {"name": "v1", "secret": {"secretName": "mounted"}},
            {"name": "v2", "projected": {"sources": [{"configMap": {"name": "root"}}]}},
            {"name": "v3", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "v4", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
        "resourceClaims": [
            {"name": "r1", "resourceClaimName": "direct"},
            {"name": "r2", "resourceClaimTemplateName": "template"},
            {"name": "r3", "resourceClaimTemplateName": "template"},
        ],
    });
    let mut one = pod("p", "n", spec);
    one["status"] = json!({"resourceClaimStatuses": [{"name": "r2", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"}});
    graph.put("Pod", &one);
    let all = [
        (Sort::Pod, "p"),
        (Sort::ServiceAccount, "account"),
        (Sort::Secret, "pull"),
        (Sort::Secret, "key"),
        (Sort::Secret, "mounted"),
        (Sort::ConfigMap, "whole"),
        (Sort::ConfigMap, "root"),
        (Sort::Claim, "claim"),
        (Sort::Claim, "p-v4"),
        (Sort::ResourceClaim, "direct"),
        (Sort::ResourceClaim, "made"),
        (Sort::ResourceClaim, "extended"),
    ];
    for (sort, name) in all {
        assert!(belongs(&graph, sort, name, "n"), "{name}");
        assert!(!belongs(&graph, sort, name, "m"), "{name}");
    }
    assert!(!belongs(&graph, Sort::Secret, "", "n"));
    assert!(!graph.belongs_to(&Vertex::new(Sort::Secret, "b", "key"), "n"));
    // Another pod of the same node uses some of it, too.
    graph.put(
        "Pod",
        &pod("q", "n", json!({"serviceAccountName": "account"})),
    );
    graph.remove("Pod", "a", "p");
    assert!(belongs(&graph, Sort::ServiceAccount, "account", "n"));
    assert!(!belongs(&graph, Sort::Secret, "key", "n"));
    graph.remove("Pod", "a", "q");
    assert!(graph.is_empty(), "{graph:?}");
}

#[test]
fn volumes_and_their_secrets_belong_to_the_nodes_of_the_claim() {
    let mut graph = Graph::default();
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "claimRef": {"namespace": "a", "name": "claim"},
        "csi": {"nodePublishSecretRef": {"namespace": "a", "name": "publish"},
            "controllerPublishSecretRef": {"namespace": "a", "name": "controller"}}}});
    graph.put("PersistentVolume", &volume);
    assert!(!belongs(&graph, Sort::Volume, "v", "n"));
    let spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]});
    graph.put("Pod", &pod("p", "n", spec));
    assert!(belongs(&graph, Sort::Volume, "v", "n"));
    assert!(belongs(&graph, Sort::Secret, "publish", "n"));
    assert!(!belongs(&graph, Sort::Secret, "publish", "m"));
    assert!(!belongs(&graph, Sort::Secret, "controller", "n"));
    let nfs = json!({"metadata": {"name": "w"}, "spec": {
        "claimRef": {"namespace": "a", "name": "claim"},
        "rbd": {"secretRef": {"name": "beside"}}}});
    graph.put("PersistentVolume", &nfs);
    assert!(belongs(&graph, Sort::Secret, "beside", "n"));
    let released = json!({"metadata": {"name": "v"}, "spec": {"csi": {}}});
    graph.put("PersistentVolume", &released);
    assert!(!belongs(&graph, Sort::Volume, "v", "n"));
    assert!(!belongs(&graph, Sort::Secret, "publish", "n"));
}

#[test]
fn pods_without_a_node_and_mirror_pods_open_nothing() {
    let mut graph = Graph::default();
    let spec = json!({"imagePullSecrets": [{"name": "s"}]});
    graph.put("Pod", &pod("unbound", "", spec.clone()));
    assert!(!belongs(&graph, Sort::Secret, "s", ""));
    let mut mirror = pod("mirror", "n", spec.clone());
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
    graph.put("Pod", &mirror);
    assert!(belongs(&graph, Sort::Pod, "mirror", "n"));
    assert!(!belongs(&graph, Sort::Secret, "s", "n"));
    graph.put("Pod", &pod("unbound", "n", spec));
    assert!(belongs(&graph, Sort::Secret, "s", "n"));
}
