use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;
use crate::auth::testing::{Fixed, now};

const GROUP: &str = "rbac.authorization.k8s.io";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    map
}

fn wanted(pairs: &[(&str, &str)]) -> Result<Option<User>, Status> {
    requested(&headers(pairs))
}

/// A world where `me` has these rules everywhere.
fn world(rules: &Value) -> Fixed {
    let mut fixed = Fixed::default();
    fixed.put(&json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}));
    fixed.put(
        &json!({"kind": "ClusterRoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "me"}]}),
    );
    fixed
}

fn rule(group: &str, resource: &str, verb: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
}

/// `me` lists pods.
fn asked() -> Attributes {
    Attributes {
        user: User {
            name: "me".into(),
            ..User::default()
        },
        verb: "list".into(),
        of_resource: true,
        resource: "pods".into(),
        ..Attributes::default()
    }
}

#[test]
fn headers_name_a_user() {
    assert_eq!(wanted(&[("accept", "x")]).unwrap(), None);
    let user = wanted(&[
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Acme.com%2Fproject", "x"),
        ("Impersonate-Extra-Acme.com%2Fproject", "y"),
    ]);
    let user = user.unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
    assert_eq!(user.groups, ["a", "b"]);
    assert_eq!(user.extra["acme.com/project"], ["x", "y"]);
    for header in [
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-a",
    ] {
        assert_eq!(wanted(&[(header, "x")]).unwrap_err().code, 400, "{header}");
    }
}

#[test]
fn every_group_uid_and_extra_has_to_be_allowed() {
    let all = [
        rule("", "users", "impersonate"),
        rule("authentication.k8s.io", "uids", "impersonate"),
        rule("", "groups", "impersonate"),
        rule("authentication.k8s.io", "userextras/team", "impersonate"),
    ];
    let headers = headers(&[
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Team", "x"),
    ]);
    let act = |rules: &[Value]| world(&rules.into()).impersonate(&headers, &asked());
    let acted = act(&all).unwrap().unwrap();
    assert_eq!(acted.user.groups, ["a", "system:authenticated"]);
    assert_eq!(acted.constraint, "");
    for missing in 0..all.len() {
        let mut rules = all.to_vec();
        rules.remove(missing);
        assert_eq!(act(&rules).unwrap_err().code, 403, "without {missing}");
    }
}

#[test]
fn whom_and_what_are_both_allowed_in_constrained_impersonation() {
    let whom = rule("authentication.k8s.io", "users", "impersonate:user-info");
    let what = rule("", "pods", "impersonate-on:user-info:list");
    let jane = headers(&[("Impersonate-User", "jane")]);
    let acted = world(&json!([whom, what])).impersonate(&jane, &asked());
    let acted = acted.unwrap().unwrap();
    assert_eq!(acted.constraint, "impersonate:user-info");
    assert_eq!(acted.user.groups, ["system:authenticated"]);
    let why = world(&json!([whom]))
        .impersonate(&jane, &asked())
        .unwrap_err();
    assert_eq!(
        why.message,
        "pods is forbidden: User \"me\" cannot impersonate-on:user-info:list resource \"pods\" in \
         API group \"\" at the cluster scope"
    );
    let why = world(&json!([what]))
        .impersonate(&jane, &asked())
        .unwrap_err();
    assert_eq!(
        why.message,
        "users.authentication.k8s.io \"jane\" is forbidden: User \"me\" cannot \
         impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the \
         cluster scope"
    );
    // Nodes and service accounts have modes of their own.
    let node = headers(&[("Impersonate-User", "system:node:n")]);
    world(&json!([whom, what]))
        .impersonate(&node, &asked())
        .unwrap_err();
}

#[test]
fn an_agent_acts_as_the_node_of_its_pod() {
    let mut fixed = world(&json!([
        rule(
            "authentication.k8s.io",
            "nodes",
            "impersonate:associated-node"
        ),
        rule("", "pods", "impersonate-on:associated-node:list"),
    ]));
    fixed.put(
        &json!({"kind": "ClusterRoleBinding", "metadata": {"name": "agents"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "a", "name": "agent"}]}),
    );
    let on = |node: &str| Attributes {
        user: User {
            name: "system:serviceaccount:a:agent".into(),
            extra: BTreeMap::from([(crate::auth::user::NODE_NAME.into(), vec![node.into()])]),
            ..User::default()
        },
        ..asked()
    };
    let as_node = headers(&[("Impersonate-User", "system:node:n")]);
    let acted = fixed.impersonate(&as_node, &on("n")).unwrap().unwrap();
    assert_eq!(acted.constraint, "impersonate:associated-node");
    assert_eq!(acted.user.groups, ["system:nodes", "system:authenticated"]);
    assert!(acted.user.extra.is_empty());
    fixed.impersonate(&as_node, &on("m")).unwrap_err();
}

#[test]
fn nobody_becomes_the_owner_of_the_cluster_in_constrained_impersonation() {
    let fixed = world(&json!([
        rule("authentication.k8s.io", "*", "impersonate:user-info"),
        rule("", "pods", "impersonate-on:user-info:list"),
    ]));
    for (header, why) in [
        (
            ("Impersonate-Group", "system:masters"),
            "the system:masters group is not allowed",
        ),
        (
            ("Impersonate-Group", ""),
            "the empty string group is not allowed",
        ),
        (
            ("Impersonate-Extra-Team", "x"),
            "extra.key: Invalid value: \"team\": must be a domain-prefixed path",
        ),
        (
            ("Impersonate-Extra-Acme.com%2FTeam", ""),
            "the empty string value in extra is not allowed",
        ),
    ] {
        let headers = headers(&[("Impersonate-User", "jane"), header]);
        let status = fixed.impersonate(&headers, &asked()).unwrap_err();
        assert!(status.message.contains(why), "{}", status.message);
    }
}

#[test]
fn the_mode_that_worked_last_is_tried_first() {
    let fixed = world(&json!([{"apiGroups": [""], "resources": ["users"],
        "resourceNames": ["jane"], "verbs": ["impersonate"]}]));
    let modes = Modes::default();
    let act = |name: &str| {
        let wanted = wanted(&[("Impersonate-User", name)]).unwrap().unwrap();
        now(modes.admit(&fixed, &wanted, &asked()))
    };
    let why = act("joe").unwrap_err().message;
    assert!(why.contains("impersonate-on:user-info:list"), "{why}");
    act("jane").unwrap();
    let why = act("joe").unwrap_err().message;
    assert!(
        why.contains("cannot impersonate resource \"users\""),
        "{why}"
    );
}

#[test]
fn a_service_account_has_its_own_groups() {
    let fixed = world(&json!([
        rule("", "serviceaccounts", "impersonate"),
        rule("", "groups", "impersonate"),
        rule("", "users", "impersonate")
    ]));
    let groups = |pairs: &[(&str, &str)]| {
        let acted = fixed.impersonate(&headers(pairs), &asked());
        acted.unwrap().unwrap().user.groups
    };
    let account = ("Impersonate-User", "system:serviceaccount:tools:bot");
    assert_eq!(
        groups(&[account]),
        [
            "system:serviceaccounts",
            "system:serviceaccounts:tools",
            "system:authenticated",
        ]
    );
    let more = [account, ("Impersonate-Group", "a")];
    assert_eq!(groups(&more), ["a", "system:authenticated"]);
    let nobody = [("Impersonate-User", "system:anonymous")];
    assert_eq!(groups(&nobody), ["system:unauthenticated"]);
}
