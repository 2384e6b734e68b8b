use machinery::object;
use serde_json::json;

use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..User::default()
    }
}

fn asked(user: User, verb: &str, [group, resource, namespace]: [&str; 3]) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        user,
        verb: verb.into(),
        api_group: group.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        ..Attributes::default()
    }
}

fn path(user: User, verb: &str, path: &str) -> Attributes {
    Attributes {
        user,
        verb: verb.into(),
        path: path.into(),
        ..Attributes::default()
    }
}

fn builtin() -> Rules {
    let of = |kind: &str| -> Vec<Value> {
        let all = flow_control::all().iter();
        all.filter(|one| object::kind(one) == kind)
            .cloned()
            .collect()
    };
    Rules::new(&of(SCHEMA), &of(LEVEL))
}

fn found(rules: &Rules, asked: &Attributes) -> (String, String) {
    let flow = rules.flow(asked, false);
    let names = [&flow.schema.name, &flow.schema.level.name];
    names.map(|name| name.to_string()).into()
}

/// User, verb, resource and group or path, namespace; then the schema and the level.
const FOUND: &str = "
    root list pods@ default exempt exempt
    jane get /healthz - probes exempt
    anonymous get /livez/ping - probes exempt
    jane get /healthzz - global-default global-default
    jane post /healthz - global-default global-default
    scheduler update leases@coordination.k8s.io n system-leader-election leader-election
    kube-system get leases@coordination.k8s.io n system-leader-election leader-election
    scheduler list leases@coordination.k8s.io n kube-scheduler workload-high
    node update leases@coordination.k8s.io n system-node-high node-high
    node patch nodes/status@ - system-node-high node-high
    node list pods@ default system-nodes system
    kube-system list pods@ default kube-system-service-accounts workload-high
    default list pods@ default service-accounts workload-low
    jane list pods@ default global-default global-default
    ghost list pods@ default catch-all catch-all";

/// The users of [`FOUND`]; a ghost is in no group.
fn who(name: &str) -> User {
    let everybody = "system:authenticated";
    match name {
        "root" => user(name, &["system:masters", everybody]),
        "anonymous" => User::anonymous(),
        "scheduler" => user("system:kube-scheduler", &[everybody]),
        "node" => user("system:node:n", &["system:nodes", everybody]),
        "ghost" => user(name, &[]),
        "jane" => user(name, &[everybody]),
        namespace => {
            let name = format!("system:serviceaccount:{namespace}:x");
            user(&name, &["system:serviceaccounts", everybody])
        }
    }
}

#[test]
fn requests_find_the_schemas_of_kubernetes() {
    let rules = builtin();
    for line in FOUND.trim().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, verb, target, namespace, schema, level] = words[..] else {
            panic!("{line}");
        };
        let asked = match target.split_once('@') {
            None => path(who(name), verb, target),
            Some((resource, group)) => {
                let namespace = namespace.trim_matches('-');
                asked(who(name), verb, [group, resource, namespace])
            }
        };
        assert_eq!(
            found(&rules, &asked),
            (schema.into(), level.into()),
            "{line}"
        );
    }
}

#[test]
fn owners_are_limited_where_everybody_is_one() {
    let root = user("root", &["system:masters", "system:authenticated"]);
    let asked = asked(root.clone(), "list", ["", "pods", "default"]);
    let rules = builtin();
    assert_eq!(&*rules.flow(&asked, true).schema.name, "global-default");
    let probe = path(root, "get", "/livez");
    assert_eq!(&*rules.flow(&probe, true).schema.name, "probes");
}

#[test]
fn mandatory_objects_hold_while_they_are_missing_and_dangling_schemas_do_not() {
    let dangling = json!({"kind": "FlowSchema", "metadata": {"name": "lost"}, "spec": {
        "priorityLevelConfiguration": {"name": "nowhere"}, "matchingPrecedence": 3,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "*"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "namespaces": ["*"], "clusterScope": true}]}],
    }});
    let rules = Rules::new(&[dangling], &[]);
    let names: Vec<&str> = rules.levels().iter().map(|level| &*level.name).collect();
    assert_eq!(names, ["exempt", "catch-all"]);
    assert!(rules.levels()[0].exempt);
    let jane = asked(user("jane", &[]), "get", ["", "pods", "default"]);
    assert_eq!(&*rules.flow(&jane, false).schema.name, "catch-all");
}

#[test]
fn flows_are_told_apart_by_their_method_only() {
    let rules = builtin();
    let hash = |name: &str, namespace: &str| {
        let user = user(name, &["system:authenticated"]);
        rules
            .flow(&asked(user, "get", ["", "pods", namespace]), false)
            .hash
    };
    assert_eq!(hash("jane", "a"), hash("jane", "b"));
    assert_ne!(hash("jane", "a"), hash("joe", "a"));
    let of_namespaces = ["a", "b"].map(|namespace| hash("system:kube-scheduler", namespace));
    assert_ne!(of_namespaces[0], of_namespaces[1]);
}

#[test]
fn of_schemas_with_one_precedence_the_name_decides() {
    let schema = |name: &str| {
        json!({"kind": "FlowSchema", "metadata": {"name": name}, "spec": {
            "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 3,
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "jane"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/a/*"]}]}],
        }})
    };
    let rules = Rules::new(&[schema("z"), schema("y")], &[]);
    let jane = |at| path(user("jane", &[]), "get", at);
    assert_eq!(&*rules.flow(&jane("/a/b"), false).schema.name, "y");
    assert_eq!(&*rules.flow(&jane("/b"), false).schema.name, "catch-all");
}
