//! What the loops make of objects that users write.

use crate::harness::cluster::kubectl_or_skip;
use crate::harness::parts::Parts;

const CONTROLLER: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: nginx}]
";

#[test]
fn a_replication_controller_has_its_pods_and_says_so() {
    if !kubectl_or_skip("a_replication_controller_has_its_pods_and_says_so") {
        return;
    }
    let mut parts = Parts::with_nodes(2);
    parts.begin(&["controller-manager"]);
    parts.run(&["create", "-f", &parts.file("old.yaml", CONTROLLER)]);
    parts.wait("rc/old", &["--for=jsonpath={.status.availableReplicas}=2"]);
    assert_eq!(
        parts.field("pods", ".items[*].metadata.ownerReferences[0].kind"),
        "ReplicationController ReplicationController"
    );
    parts.until("the Events are there", |parts| {
        parts
            .notes("SuccessfulCreate")
            .matches("Created pod: old-")
            .count()
            == 2
    });
    parts.run(&["scale", "rc/old", "--replicas=1"]);
    parts.wait("rc/old", &["--for=jsonpath={.status.replicas}=1"]);
    parts.run(&["expose", "rc/old", "--port=80"]);
    assert_eq!(parts.field("service/old", ".spec.selector.app"), "old");
    parts.run(&["delete", "rc/old", "--timeout=120s"]);
    parts.until("its pods are gone", |parts| {
        parts.run(&["get", "pods", "-o", "name"]).is_empty()
    });
}

const SUM: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sum}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {into: sum}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: one, labels: {into: sum}}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
";

#[test]
fn an_aggregating_role_shows_the_rules_of_the_roles_that_it_selects() {
    if !kubectl_or_skip("an_aggregating_role_shows_the_rules_of_the_roles_that_it_selects") {
        return;
    }
    let mut parts = Parts::none();
    parts.begin(&["controller-manager"]);
    parts.run(&["create", "-f", &parts.file("roles.yaml", SUM)]);
    let resources = |parts: &Parts| parts.field("clusterrole/sum", ".rules[*].resources[*]");
    parts.until("the rule is there", |parts| resources(parts) == "pods");
    let managers = ".metadata.managedFields[?(@.operation==\"Apply\")].manager";
    assert_eq!(
        parts.field("clusterrole/sum", managers),
        "clusterrole-aggregation-controller"
    );
    let two = ["create", "clusterrole", "two", "--verb=list"];
    parts.run(&[&two[..], &["--resource=secrets"]].concat());
    parts.run(&["label", "clusterrole/two", "into=sum"]);
    parts.until("the second rule is there", |parts| {
        resources(parts) == "pods secrets"
    });
    parts.run(&["delete", "clusterrole/one", "clusterrole/two"]);
    parts.until("the rules are gone", |parts| resources(parts).is_empty());
}
