use serde_json::{Value, json};

use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        ..User::default()
    }
}

/// Parses `verb group/resource[/subresource] [namespace] [name]`, or `verb /path`.
fn asked(user: &User, text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    let word = |i: usize| words.get(i).copied().unwrap_or_default().to_owned();
    let mut asked = Attributes {
        user: user.clone(),
        verb: word(0),
        namespace: word(2),
        name: word(3),
        ..Attributes::default()
    };
    if words[1].starts_with('/') && !words[1].starts_with("//") {
        asked.path = words[1].into();
        return asked;
    }
    let mut parts = words[1].split('/').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    (asked.api_group, asked.resource, asked.subresource) = (part(), part(), part());
    if asked.api_group == "core" {
        asked.api_group.clear();
    }
    asked
}

fn role(kind: &str, place: &str, rules: Value) -> Value {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    json!({ "kind": kind, "metadata": { "name": name, "namespace": namespace }, "rules": rules })
}

fn binding(kind: &str, place: &str, role: &str, subjects: Value) -> Value {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let (role_kind, role) = role.split_once(':').unwrap();
    json!({
        "kind": kind,
        "metadata": { "name": name, "namespace": namespace },
        "roleRef": { "kind": role_kind, "name": role },
        "subjects": subjects,
    })
}

fn policy(objects: &[Value]) -> Policy {
    let mut policy = Policy::default();
    objects
        .iter()
        .for_each(|object| policy.put(object::kind(object), object));
    policy
}

fn one_rule(rule: Value) -> Policy {
    policy(&[
        role("ClusterRole", "r", json!([rule])),
        binding(
            "ClusterRoleBinding",
            "b",
            "ClusterRole:r",
            json!([{"kind": "User", "name": "u"}]),
        ),
    ])
}

#[track_caller]
fn expect(policy: &Policy, user: &User, allowed: bool, questions: &[&str]) {
    for text in questions {
        let decision = policy.decide(&asked(user, text));
        assert_eq!(decision.allowed, allowed, "{text}: {decision:?}");
    }
}

#[test]
fn a_rule_allows_its_verbs_on_its_resources_alone() {
    let u = user("u", &[]);
    let policy = one_rule(json!({
        "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "pods/log"],
    }));
    expect(
        &policy,
        &u,
        true,
        &[
            "get core/pods",
            "list apps/pods ns",
            "get core/pods/log ns x",
        ],
    );
    let refused = [
        "watch core/pods",
        "get batch/pods",
        "get core/secrets",
        "get core/pods/exec",
        "get core/log",
        "get /pods",
    ];
    expect(&policy, &u, false, &refused);
    expect(&policy, &user("v", &["u"]), false, &["get core/pods"]);
}

#[test]
fn stars_stand_for_everything_and_for_a_subresource_of_everything() {
    let u = user("u", &[]);
    let scale = one_rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]}));
    expect(
        &scale,
        &u,
        true,
        &["update apps/deployments/scale", "get core/x/scale"],
    );
    expect(
        &scale,
        &u,
        false,
        &["get apps/deployments", "get apps/deployments/status"],
    );
    let all = one_rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    expect(&all, &u, true, &["x core/pods/exec ns", "get y/z"]);
    expect(&all, &u, false, &["get /metrics"]);
}

#[test]
fn names_of_objects_narrow_a_rule_and_never_cover_a_collection() {
    let u = user("u", &[]);
    let policy = one_rule(json!({
        "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"],
    }));
    expect(
        &policy,
        &u,
        true,
        &["get core/secrets ns a", "list core/secrets ns a"],
    );
    expect(
        &policy,
        &u,
        false,
        &["get core/secrets ns b", "list core/secrets ns"],
    );
}

#[test]
fn paths_match_whole_or_up_to_a_star() {
    let u = user("u", &[]);
    let policy = one_rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}));
    expect(
        &policy,
        &u,
        true,
        &["get /healthz", "get /api/", "get /api/v1"],
    );
    expect(
        &policy,
        &u,
        false,
        &["get /healthz/etcd", "get /api", "post /healthz", "get /"],
    );
}

#[test]
fn a_binding_in_a_namespace_holds_there_only() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let subjects = json!([
        {"kind": "ServiceAccount", "name": "bot"},
        {"kind": "ServiceAccount", "name": "other", "namespace": "tools"},
        {"kind": "Group", "name": "devs"},
    ]);
    let policy = policy(&[
        role("ClusterRole", "reader", rules.clone()),
        role("Role", "a/local", rules),
        binding("RoleBinding", "a/one", "ClusterRole:reader", subjects),
        binding(
            "RoleBinding",
            "b/two",
            "Role:local",
            json!([{"kind": "User", "name": "u"}]),
        ),
    ]);
    let bot = user("system:serviceaccount:a:bot", &[]);
    expect(&policy, &bot, true, &["get core/pods a"]);
    expect(&policy, &bot, false, &["get core/pods b", "get core/pods"]);
    expect(
        &policy,
        &user("system:serviceaccount:tools:other", &[]),
        true,
        &["get core/pods a"],
    );
    expect(
        &policy,
        &user("system:serviceaccount:tools:bot", &[]),
        false,
        &["get core/pods a"],
    );
    expect(&policy, &user("x", &["devs"]), true, &["get core/pods a"]);

    // The other namespace's binding names a role that does not exist.
    let decision = policy.decide(&asked(&user("u", &[]), "get core/pods b"));
    let expected = "RBAC: roles.rbac.authorization.k8s.io \"local\" not found";
    assert_eq!(decision.reason, expected);
}

#[test]
fn masters_pass_without_any_role() {
    expect(
        &Policy::default(),
        &user("x", &[MASTERS]),
        true,
        &["x core/y", "get /metrics"],
    );
    expect(
        &Policy::default(),
        &user("x", &[]),
        false,
        &["get core/pods"],
    );
}

#[test]
fn what_is_removed_allows_nothing_any_more() {
    let mut policy = one_rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    let u = user("u", &[]);
    policy.remove("ClusterRoleBinding", "", "b");
    expect(&policy, &u, false, &["get core/pods"]);
}

#[test]
fn aggregating_roles_follow_the_roles_they_gather() {
    let part = |name: &str, label: &str, resource: &str| {
        let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]);
        let mut part = role("ClusterRole", name, rules);
        part["metadata"]["labels"] = json!({ label: "true" });
        part
    };
    let sum = |name: &str, label: &str| {
        let mut sum = role("ClusterRole", name, Value::Null);
        sum["aggregationRule"] =
            json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        sum
    };
    let mut inner = sum("inner", "to-inner");
    inner["metadata"]["labels"] = json!({"to-outer": "true"});
    let subjects = json!([{"kind": "User", "name": "u"}]);
    let mut policy = policy(&[
        sum("outer", "to-outer"),
        inner,
        part("one", "to-inner", "pods"),
        binding("ClusterRoleBinding", "b", "ClusterRole:outer", subjects),
    ]);
    let u = user("u", &[]);
    expect(&policy, &u, true, &["get core/pods"]);
    expect(&policy, &u, false, &["get core/secrets"]);
    policy.put("ClusterRole", &part("two", "to-outer", "secrets"));
    expect(&policy, &u, true, &["get core/secrets"]);
    policy.remove("ClusterRole", "", "one");
    expect(&policy, &u, false, &["get core/pods"]);
    // Nothing is summed up for each of many roles that are read before the next question.
    for name in ["three", "four"] {
        policy.put("ClusterRole", &part(name, "to-outer", name));
        assert!(policy.sums.get().is_none());
    }
    expect(&policy, &u, true, &["get core/three", "get core/four"]);
    assert!(policy.sums.get().is_some());
}

#[test]
fn refusals_are_worded_as_kubernetes_words_them() {
    let u = user("u", &[]);
    let message = |text: &str| forbidden(&asked(&u, text), "").message;
    assert_eq!(
        message("list core/nodes"),
        "nodes is forbidden: User \"u\" cannot list resource \"nodes\" in API group \"\" at the \
         cluster scope"
    );
    assert_eq!(
        message("update apps/deployments/scale ns x"),
        "deployments.apps \"x\" is forbidden: User \"u\" cannot update resource \
         \"deployments/scale\" in API group \"apps\" in the namespace \"ns\""
    );
    assert_eq!(
        message("get /metrics"),
        "forbidden: User \"u\" cannot get path \"/metrics\""
    );
}

#[test]
fn the_first_policy_lets_each_part_do_its_work_and_no_more() {
    let policy = policy(&bootstrap::objects());
    let anonymous = User::anonymous();
    expect(&policy, &anonymous, true, &["get /healthz", "get /version"]);
    expect(&policy, &anonymous, false, &["get /api", "list core/pods"]);
    let someone = user("someone", &["system:authenticated"]);
    expect(&policy, &someone, true, &["get /api", "get /openapi/v3"]);
    let review = "create authorization.k8s.io/selfsubjectaccessreviews";
    expect(&policy, &someone, true, &[review]);
    expect(
        &policy,
        &someone,
        false,
        &["get core/pods default", "get /metrics"],
    );
    let scheduler = user("system:kube-scheduler", &["system:authenticated"]);
    let works = [
        "create core/pods/binding ns x",
        "list core/nodes",
        "update core/pods/status ns x",
    ];
    expect(&policy, &scheduler, true, &works);
    expect(
        &policy,
        &scheduler,
        false,
        &["get core/secrets ns x", "create core/pods ns"],
    );
    let collector = user(
        "system:serviceaccount:kube-system:generic-garbage-collector",
        &[],
    );
    expect(&policy, &collector, true, &["delete any/thing ns x"]);
}

#[test]
fn a_role_that_is_bound_often_counts_once() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let mut objects = vec![role("ClusterRole", "pods", rules)];
    for number in 0..100 {
        let subjects = json!([{"kind": "User", "name": "u"}]);
        let name = number.to_string();
        objects.push(binding(
            "ClusterRoleBinding",
            &name,
            "ClusterRole:pods",
            subjects,
        ));
    }
    let (policy, user) = (policy(&objects), user("u", &[]));
    assert_eq!(policy.rules_for(&user, "").0.len(), 1);
}

mod escalating {
    use super::*;

    fn write(policy: &Policy, who: &User, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        let kind = object::kind(new);
        let request = Attributes {
            user: who.clone(),
            verb: "create".into(),
            api_group: GROUP.into(),
            resource: format!("{}s", kind.to_lowercase()),
            namespace: object::namespace(new).into(),
            ..Attributes::default()
        };
        match escalation::exemption(&request, new, old)? {
            Some(right) if !policy.decide(&right).allowed => {
                escalation::check(policy, &request, new, old)
            }
            _ => Ok(()),
        }
    }

    fn world() -> Policy {
        let pods = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
        let may_bind = json!([{
            "verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"],
            "resourceNames": ["all"],
        }]);
        let may_escalate = json!([{
            "verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles", "clusterroles"],
        }]);
        policy(&[
            role("ClusterRole", "pods", pods),
            role(
                "ClusterRole",
                "all",
                serde_json::to_value(Rule::everything().map(|r| r.to_value())).unwrap(),
            ),
            role("ClusterRole", "binder", may_bind),
            role("ClusterRole", "escalator", may_escalate),
            binding(
                "ClusterRoleBinding",
                "1",
                "ClusterRole:pods",
                json!([{"kind": "User", "name": "u"}]),
            ),
            binding(
                "ClusterRoleBinding",
                "2",
                "ClusterRole:binder",
                json!([{"kind": "User", "name": "binder"}]),
            ),
            binding(
                "ClusterRoleBinding",
                "3",
                "ClusterRole:escalator",
                json!([{"kind": "User", "name": "escalator"}]),
            ),
        ])
    }

    #[test]
    fn a_role_of_rights_one_holds_may_be_written() {
        let held = role(
            "Role",
            "ns/x",
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
        );
        write(&world(), &user("u", &["g"]), &held, None).unwrap();
    }

    #[test]
    fn a_role_of_more_is_refused_and_the_missing_rights_are_told() {
        let more = role(
            "Role",
            "ns/x",
            json!([
                {"verbs": ["get", "delete", "patch"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            ]),
        );
        let refused = write(&world(), &user("u", &["g", "h"]), &more, None).unwrap_err();
        assert_eq!(refused.code, 403);
        assert_eq!(
            refused.message,
            "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"u\" (groups=[\"g\" \"h\"]) \
             is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"patch\"]}\n\
             {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}"
        );
    }

    #[test]
    fn the_verbs_escalate_and_bind_open_the_way() {
        let star = role(
            "ClusterRole",
            "x",
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        );
        write(&world(), &user("escalator", &[]), &star, None).unwrap();
        write(&world(), &user("binder", &[]), &star, None).unwrap_err();
        let subjects = json!([{"kind": "User", "name": "v"}]);
        let bind = binding("RoleBinding", "ns/x", "ClusterRole:all", subjects.clone());
        write(&world(), &user("binder", &[]), &bind, None).unwrap();
        write(&world(), &user("u", &[]), &bind, None).unwrap_err();
        let bind = binding("RoleBinding", "ns/x", "ClusterRole:pods", subjects.clone());
        write(&world(), &user("u", &[]), &bind, None).unwrap();
        let lost = binding("RoleBinding", "ns/x", "ClusterRole:nowhere", subjects);
        assert_eq!(
            write(&world(), &user("u", &[]), &lost, None)
                .unwrap_err()
                .code,
            404
        );
    }

    #[test]
    fn what_is_no_role_is_bound_by_nobody() {
        let subjects = json!([{"kind": "User", "name": "v"}]);
        let bind = binding("RoleBinding", "ns/x", "Other:all", subjects);
        for who in ["u", "binder"] {
            let refused = write(&world(), &user(who, &[]), &bind, None).unwrap_err();
            assert_eq!(refused.code, 500);
            assert_eq!(
                refused.message,
                "unsupported role reference kind: \"Other\""
            );
        }
        write(&world(), &user("root", &[MASTERS]), &bind, None).unwrap();
    }

    #[test]
    fn an_aggregating_role_takes_everything() {
        let mut sum = role("ClusterRole", "sum", json!([]));
        sum["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        let refused = write(&world(), &user("u", &[]), &sum, None).unwrap_err();
        let why = "must have cluster-admin privileges to use the aggregationRule";
        assert!(refused.message.ends_with(why), "{}", refused.message);
        write(&world(), &user("root", &[MASTERS]), &sum, None).unwrap();
    }

    #[test]
    fn a_role_of_too_many_combinations_is_refused_before_they_are_made() {
        let texts: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
        let rule = json!({
            "verbs": texts, "apiGroups": texts, "resources": texts, "resourceNames": texts,
        });
        let many = role("Role", "ns/x", json!([rule]));
        let refused = write(&world(), &user("u", &[]), &many, None).unwrap_err();
        assert_eq!(refused.code, 403);
        let why = "8100000000 combinations of group, resource, name and verb";
        assert!(refused.message.contains(why), "{}", refused.message);
        write(&world(), &user("escalator", &[]), &many, None).unwrap();
    }

    #[test]
    fn a_long_text_is_not_repeated_for_each_combination() {
        let resources: Vec<String> = (0..2000).map(|number| format!("r{number}")).collect();
        let rule = json!({
            "verbs": ["get"], "apiGroups": [""], "resources": resources,
            "resourceNames": ["n".repeat(100_000)],
        });
        let long = role("Role", "ns/x", json!([rule]));
        let refused = write(&world(), &user("u", &[]), &long, None).unwrap_err();
        let length = refused.message.len();
        assert!((1 << 20..2 << 20).contains(&length), "{length} bytes");
    }

    #[test]
    fn who_holds_a_rule_may_grant_every_combination_of_it() {
        let texts: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
        let rule = json!({"verbs": texts, "apiGroups": texts, "resources": texts});
        let many = role("ClusterRole", "many", json!([rule]));
        let subjects = json!([{"kind": "User", "name": "u"}]);
        let bound = binding("ClusterRoleBinding", "b", "ClusterRole:many", subjects);
        let policy = policy(&[many.clone(), bound]);
        let same = role("ClusterRole", "same", many["rules"].clone());
        write(&policy, &user("u", &[]), &same, None).unwrap();
        write(&policy, &user("v", &[]), &same, None).unwrap_err();
    }

    #[test]
    fn letting_a_role_go_needs_no_rights_of_it() {
        let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let mut old = role("ClusterRole", "x", rules);
        old["metadata"]["finalizers"] = json!(["orphan"]);
        let new = role("ClusterRole", "x", old["rules"].clone());
        write(&world(), &user("u", &[]), &new, Some(&old)).unwrap();
        let mut more = new.clone();
        more["metadata"]["labels"] = json!({"a": "b"});
        write(&world(), &user("u", &[]), &more, Some(&old)).unwrap_err();
    }
}
