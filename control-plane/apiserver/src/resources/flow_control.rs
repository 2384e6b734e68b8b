//! The flow schemas and priority levels that every server has, as in Kubernetes 1.36.
//!
//! The mandatory ones always exist with exactly these specs. The suggested ones belong to the
//! cluster's owner, who may change them after setting their annotation [`AUTO_UPDATE`] to `false`.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use machinery::object;
use serde_json::{Value, json};

/// The API group of both kinds.
pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub(crate) const SCHEMA: &str = "FlowSchema";
pub(crate) const LEVEL: &str = "PriorityLevelConfiguration";
/// The name of the only level without limits, and of the schema of the cluster's owners.
pub(crate) const EXEMPT: &str = "exempt";
/// The name of the schema for requests that no other one matches, and of its level.
pub(crate) const CATCH_ALL: &str = "catch-all";
/// Annotation of objects that the server may update by itself.
pub(crate) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

const NODES: &str = "system:nodes";
const EVERYBODY: [&str; 2] = ["system:unauthenticated", "system:authenticated"];
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
/// What tells the flows of a schema apart.
const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";
/// The length limit of all queues.
const QUEUE_LENGTH: u32 = 50;

/// All of them, levels first.
static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| levels().chain(schemas()).collect());

/// All of them, levels before the schemas that refer to them.
pub(crate) fn all() -> &'static [Value] {
    &OBJECTS
}

/// The spec of a mandatory object; `None` for other objects.
pub(crate) fn mandatory(kind: &str, name: &str) -> Option<&'static Value> {
    if ![EXEMPT, CATCH_ALL].contains(&name) {
        return None;
    }
    let mut all = OBJECTS.iter();
    let found = all.find(|one| object::kind(one) == kind && object::name(one) == name);
    found.map(|one| &one["spec"])
}

fn levels() -> impl Iterator<Item = Value> {
    let none = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    let rejecting = json!({"nominalConcurrencyShares": 5, "lendablePercent": 0,
        "limitResponse": {"type": "Reject"}});
    let mandatory = [
        level(EXEMPT, json!({"type": "Exempt", "exempt": none})),
        level(CATCH_ALL, json!({"type": "Limited", "limited": rejecting})),
    ];
    // Name, shares, percentage that it lends, queues, hand.
    let suggested = [
        ("system", 30, 33, 64, 6),
        ("node-high", 40, 25, 64, 6),
        ("leader-election", 10, 0, 16, 4),
        ("workload-high", 40, 50, 128, 6),
        ("workload-low", 100, 90, 128, 6),
        ("global-default", 20, 50, 128, 6),
    ];
    let suggested = suggested.map(|(name, shares, lends, queues, hand)| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH});
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": lends,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        });
        level(name, json!({"type": "Limited", "limited": limited}))
    });
    mandatory.into_iter().chain(suggested)
}

fn schemas() -> impl Iterator<Item = Value> {
    let system = service_accounts("kube-system");
    let [manager, scheduler] = [user(CONTROLLER_MANAGER), user(SCHEDULER)];
    // Those for all requests of some subjects: name, level, precedence, method, subjects.
    let of_subjects = [
        (EXEMPT, EXEMPT, 1, "", groups(&["system:masters"])),
        ("system-nodes", "system", 500, BY_USER, groups(&[NODES])),
        (
            "kube-controller-manager",
            "workload-high",
            800,
            BY_NAMESPACE,
            json!([manager]),
        ),
        (
            "kube-scheduler",
            "workload-high",
            800,
            BY_NAMESPACE,
            json!([scheduler]),
        ),
        (
            "kube-system-service-accounts",
            "workload-high",
            900,
            BY_NAMESPACE,
            json!([system]),
        ),
        (
            "service-accounts",
            "workload-low",
            9000,
            BY_USER,
            groups(&["system:serviceaccounts"]),
        ),
        (
            "global-default",
            "global-default",
            9900,
            BY_USER,
            groups(&EVERYBODY),
        ),
        (CATCH_ALL, CATCH_ALL, 10_000, BY_USER, groups(&EVERYBODY)),
    ];
    let of_subjects = of_subjects.map(|(name, level, precedence, method, subjects)| {
        schema(name, level, precedence, method, everything(subjects))
    });
    let leaders = json!([manager, scheduler, system]);
    of_subjects.into_iter().chain(particular_schemas(leaders))
}

/// The schemas for only some requests of their subjects.
fn particular_schemas(leaders: Value) -> [Value; 3] {
    const COORDINATION: &str = "coordination.k8s.io";
    let probes = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
    let election = ["get", "create", "update"];
    let leases = resources(&election, COORDINATION, &["leases"], false);
    let nodes = [
        resources(&["*"], "", &["nodes", "nodes/status"], true),
        resources(&["*"], COORDINATION, &["leases"], false),
    ];
    let probes = json!([{"subjects": groups(&EVERYBODY), "nonResourceRules": [probes]}]);
    let leaders = json!([{"subjects": leaders, "resourceRules": [leases]}]);
    let nodes = json!([{"subjects": groups(&[NODES]), "resourceRules": nodes}]);
    [
        schema("probes", EXEMPT, 2, "", probes),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            BY_USER,
            leaders,
        ),
        schema("system-node-high", "node-high", 400, BY_USER, nodes),
    ]
}

fn level(name: &str, spec: Value) -> Value {
    made(LEVEL, name, spec)
}

/// A schema; `method` is empty if all its requests are one flow.
fn schema(name: &str, level: &str, precedence: u32, method: &str, rules: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence, "rules": rules,
    });
    if !method.is_empty() {
        spec["distinguisherMethod"] = json!({"type": method});
    }
    made(SCHEMA, name, spec)
}

fn made(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}},
        "spec": spec,
    })
}

/// The rules for all requests of some subjects.
fn everything(subjects: Value) -> Value {
    json!([{
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }])
}

/// A rule for resources in all namespaces, and perhaps outside of them.
fn resources(verbs: &[&str], group: &str, resources: &[&str], of_cluster: bool) -> Value {
    let mut rule = json!({
        "verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"],
    });
    if of_cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn groups(names: &[&str]) -> Value {
    let subjects = names
        .iter()
        .map(|name| json!({"kind": "Group", "group": {"name": name}}));
    subjects.collect()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

/// All service accounts of a namespace.
fn service_accounts(namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "*"}})
}
