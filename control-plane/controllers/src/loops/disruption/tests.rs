use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{
    ago, bodies, caches, decide, lines, owned, owner, pod, replica_set, replication_controller,
};

const KEY: (&str, &str) = ("n", "web");

fn budget(spec: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "n", "name": "web", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    for (key, value) in spec.as_object().unwrap() {
        budget["spec"][key] = value.clone();
    }
    budget
}

/// A deployment with four pods, the first `ready` of them ready.
fn four(ready: usize) -> Vec<Value> {
    let mut set = replica_set("web-1", 3);
    set["metadata"]["ownerReferences"] = json!([owner("apps/v1", "Deployment", "web")]);
    let mut objects = vec![
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "n", "name": "web"},
            "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}},
        }),
        set,
    ];
    let pods = ["a", "b", "c", "d"].iter().enumerate();
    objects.extend(pods.map(|(at, name)| owned(pod(name, "node", at < ready), "web-1")));
    objects
}

/// Allowed, healthy, desired and expected.
fn told(budget: Value, others: Vec<Value>) -> [i64; 4] {
    let mut objects = others;
    objects.push(budget);
    let decision = decide(&Disruption, &caches(&objects), KEY);
    assert_eq!(
        lines(&decision),
        ["update status of poddisruptionbudgets n/web"]
    );
    let status = &bodies(&decision)[0]["status"];
    let keys = [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ];
    keys.map(|key| status[key].as_i64().unwrap())
}

#[test]
fn a_budget_allows_what_is_healthy_beyond_what_it_asks_for() {
    let least = |least: Value| budget(json!({"minAvailable": least}));
    assert_eq!(told(least(3.into()), four(4)), [1, 4, 3, 4]);
    assert_eq!(told(least(3.into()), four(3)), [0, 3, 3, 4]);
    // Percentages are of the deployment's replicas, rounded up, however many pods exist.
    assert_eq!(told(least("30%".into()), four(4)), [2, 4, 2, 4]);
    let most = |most: Value| budget(json!({"maxUnavailable": most}));
    assert_eq!(told(most(1.into()), four(4)), [1, 4, 3, 4]);
    assert_eq!(told(most("30%".into()), four(3)), [1, 3, 2, 4]);
    assert_eq!(told(most(9.into()), four(4)), [4, 4, 0, 4]);
}

#[test]
fn a_budget_that_covers_nothing_allows_nothing() {
    assert_eq!(told(budget(json!({"maxUnavailable": 1})), vec![]), [0; 4]);
    let objects = [budget(json!({"maxUnavailable": 1}))];
    let decision = decide(&Disruption, &caches(&objects), KEY);
    assert_eq!(decision.steps[0].done.as_ref().unwrap().reason, "NoPods");
}

#[test]
fn an_evicted_pod_counts_as_gone_until_it_is_or_stayed_for_long() {
    let evicted = |seconds: i64| {
        let mut budget = budget(json!({"minAvailable": 2}));
        budget["status"] = json!({"disruptedPods": {"a": ago(seconds), "gone": ago(seconds)}});
        let mut objects = four(4);
        objects.push(budget);
        decide(&Disruption, &caches(&objects), KEY)
    };
    let waits = evicted(20);
    let status = &bodies(&waits)[0]["status"];
    assert_eq!(status["disruptedPods"], json!({"a": ago(20)}));
    assert_eq!(status["disruptionsAllowed"], 1);
    assert_eq!(waits.after, Some(Duration::from_secs(100)));
    let stayed = evicted(121);
    let status = &bodies(&stayed)[0]["status"];
    assert_eq!(status["disruptedPods"], Value::Null);
    assert_eq!(status["disruptionsAllowed"], 2);
}

#[test]
fn pods_of_unknown_controllers_allow_nothing() {
    let mut stray = pod("a", "node", true);
    for (version, kind, why) in [
        (
            "v1",
            "ReplicationController",
            "found no controllers for pod \"a\"",
        ),
        (
            "batch/v1",
            "Job",
            "jobs.batch does not implement the scale subresource",
        ),
        (
            "apps/v1",
            "DaemonSet",
            "daemonsets.apps does not implement the scale subresource",
        ),
    ] {
        stray["metadata"]["ownerReferences"] = json!([owner(version, kind, "j")]);
        let objects = [stray.clone(), budget(json!({"maxUnavailable": 1}))];
        let decision = decide(&Disruption, &caches(&objects), KEY);
        let status = &bodies(&decision)[0]["status"];
        assert_eq!(status["disruptionsAllowed"], 0);
        let condition = &status["conditions"][0];
        assert_eq!(condition["reason"], "SyncFailed");
        assert_eq!(condition["message"], why);
    }
}

#[test]
fn the_pods_of_a_stateful_set_are_counted_against_its_replicas() {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "n", "name": "db"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "serviceName": "db",
            "template": {}},
    });
    let pods = ["db-0", "db-1"].map(|name| {
        let mut pod = pod(name, "node", true);
        pod["metadata"]["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "db")]);
        pod
    });
    let objects: Vec<Value> = pods.into_iter().chain([set]).collect();
    let told = told(budget(json!({"maxUnavailable": 1})), objects);
    assert_eq!(told, [0, 2, 2, 3]);
}

#[test]
fn the_pods_of_a_replication_controller_are_counted_against_its_replicas() {
    let pods = [pod("a", "node", true), pod("b", "node", true)];
    let objects = replication_controller(3, pods);
    let told = told(budget(json!({"maxUnavailable": 1})), objects);
    assert_eq!(told, [0, 2, 2, 3]);
}

#[test]
fn a_replication_controller_of_another_size_wakes_the_budgets_of_its_namespace() {
    let size = |replicas: i64| {
        let mut all = replication_controller(replicas, []);
        all[0]["metadata"]["uid"] = "u".into();
        Some(Shared::new(serde_json::from_value(all.remove(0)).unwrap()))
    };
    let caches = caches(&[budget(json!({"maxUnavailable": 1}))]);
    for (before, after, expected) in [(1, 2, 1), (2, 2, 0)] {
        let changed = Changed::ReplicationController(Diff {
            old: size(before),
            new: size(after),
        });
        let mut woken = Vec::new();
        Disruption.wakes(&caches, &changed, &mut |key| woken.push(key.1));
        assert_eq!(woken.len(), expected);
    }
}

#[test]
fn a_pod_wakes_the_budgets_that_cover_it_or_did() {
    let named = |name: &str, selector: Value| {
        let mut one = budget(json!({"selector": selector}));
        one["metadata"]["name"] = name.into();
        one
    };
    let exists = json!([{"key": "app", "operator": "Exists"}]);
    let web = json!({"app": "web"});
    let caches = caches(&[
        named("all", json!({})),
        named(
            "both",
            json!({"matchLabels": web, "matchExpressions": exists}),
        ),
        named("db", json!({"matchLabels": {"app": "db"}})),
        named("expressed", json!({"matchExpressions": exists})),
        named("none", Value::Null),
        named("web", json!({"matchLabels": web})),
    ]);
    let shared = |labels: Value| {
        let mut pod = pod("p", "node", true);
        pod["metadata"]["labels"] = labels;
        Shared::<Pod>::new(serde_json::from_value(pod).unwrap())
    };
    let woken = |old: Option<Value>, new: Option<Value>| {
        let mut woken = Vec::new();
        let diff = Diff {
            old: old.map(shared),
            new: new.map(shared),
        };
        Disruption.wakes(&caches, &Changed::Pod(diff), &mut |key| woken.push(key.1));
        woken
    };
    let (web, db) = (json!({"app": "web"}), json!({"app": "db"}));
    let of_web = ["all", "both", "expressed", "web"];
    assert_eq!(woken(None, Some(web.clone())), of_web);
    assert_eq!(woken(None, Some(json!({"tier": "x"}))), ["all"]);
    let either = ["all", "both", "db", "expressed", "web"];
    assert_eq!(woken(Some(web), Some(db)), either);
}

#[test]
fn a_status_that_is_true_is_not_written_again() {
    let mut objects = four(4);
    objects.push(budget(json!({"minAvailable": 3})));
    let first = decide(&Disruption, &caches(&objects), KEY);
    let mut again = bodies(&first)[0].clone();
    // The apiserver leaves out empty fields.
    again["status"]["disruptedPods"] = Value::Null;
    *objects.last_mut().unwrap() = again;
    let second = decide(&Disruption, &caches(&objects), KEY);
    assert_eq!(lines(&second), Vec::<String>::new());
}
