use machinery::api::{Call, PatchForm};
use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{bodies, caches, decide, lines};

const KEY: (&str, &str) = ("", "sum");

fn role(name: &str, labels: Value, rules: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels}, "rules": rules,
    })
}

fn sum_of(selectors: Value, rules: Value) -> Value {
    let mut role = role("sum", json!({"into": "sum"}), rules);
    role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    role
}

fn rule(resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]})
}

#[test]
fn the_rules_of_what_a_role_selects_are_applied_to_it_each_once() {
    let first = json!({"matchLabels": {"first": "yes"}});
    let selectors = json!([first, {"matchLabels": {"into": "sum"}}]);
    let objects = [
        sum_of(selectors, json!([rule("secrets")])),
        role("b", json!({"into": "sum"}), json!([rule("b"), rule("a")])),
        role("a", json!({"into": "sum"}), json!([rule("a")])),
        role("other", json!({"into": "other"}), json!([rule("other")])),
        role("z", json!({"first": "yes"}), json!([rule("z")])),
    ];
    let decision = decide(&ClusterRoleAggregation, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["patch clusterroles sum"]);
    let Call::Patch { form, .. } = &decision.steps[0].call else {
        panic!("{decision:?}");
    };
    assert_eq!(*form, PatchForm::Apply(MANAGER));
    assert_eq!(
        bodies(&decision)[0],
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            // Of this state alone: one that aggregates no more would keep the rules.
            "metadata": {"name": "sum", "uid": "clusterroles/sum", "resourceVersion": "1"},
            "rules": [rule("z"), rule("a"), rule("b")],
        })
    );
}

#[test]
fn a_role_that_has_its_rules_and_one_that_selects_nothing_stay() {
    let selectors = json!([{"matchLabels": {"into": "sum"}}]);
    let one = role("one", json!({"into": "sum"}), json!([rule("a")]));
    let told = |sum: Value| {
        let caches = caches(&[sum, one.clone()]);
        lines(&decide(&ClusterRoleAggregation, &caches, KEY))
    };
    assert_eq!(told(sum_of(selectors, json!([rule("a")]))), [""; 0]);
    assert_eq!(told(role("sum", json!({}), json!([rule("a")]))), [""; 0]);
    // An aggregating role has no rules of its own.
    let none = sum_of(
        json!([{"matchLabels": {"into": "none"}}]),
        json!([rule("a")]),
    );
    assert_eq!(told(none), ["patch clusterroles sum"]);
}

#[test]
fn any_role_wakes_those_that_aggregate() {
    let sum = sum_of(json!([{"matchLabels": {"into": "sum"}}]), json!([]));
    let caches = caches(&[sum, role("one", json!({}), json!([]))]);
    let one = caches.cluster_roles.get("", "one").cloned();
    let changed = Changed::ClusterRole(crate::cache::Diff {
        old: one,
        new: None,
    });
    let mut woken = Vec::new();
    ClusterRoleAggregation.wakes(&caches, &changed, &mut |key| woken.push(key.1));
    assert_eq!(woken, ["sum"]);
}
