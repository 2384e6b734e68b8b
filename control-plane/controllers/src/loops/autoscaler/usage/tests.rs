use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, now, pod};

const TOLERANCES: Tolerances = Tolerances { up: 0.1, down: 0.1 };

/// A pod that asks for a CPU, in a state: ready, pending, failed, or going.
fn one(name: &str, state: &str) -> Value {
    let mut one = pod(name, "m", true);
    one["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    one["status"]["startTime"] = ago(1000).into();
    match state {
        "Pending" | "Failed" => one["status"]["phase"] = state.into(),
        "going" => one["metadata"]["deletionTimestamp"] = ago(1).into(),
        _ => {}
    }
    one
}

fn typed(pods: &[Value]) -> Vec<Shared<Pod>> {
    let read = |one: &Value| Shared::new(serde_json::from_value(one.clone()).unwrap());
    pods.iter().map(read).collect()
}

/// Values that were just read of pods named `a`, `b`, `c` and so on.
fn readings(values: &[i64]) -> Readings {
    let names = 'a'..='z';
    let values = names.zip(values).map(|(name, value)| {
        let reading = Reading {
            value: *value,
            at: now(),
            window: Duration::from_secs(30),
        };
        (name.to_string(), reading)
    });
    values.collect()
}

/// Pods named `a`, `b`, `c` and so on, in these states.
fn pods(states: &[&str]) -> Vec<Shared<Pod>> {
    let names = 'a'..='z';
    let pods = names.zip(states);
    let pods: Vec<Value> = pods
        .map(|(name, state)| one(&name.to_string(), state))
        .collect();
    typed(&pods)
}

fn fleet(pods: &[Shared<Pod>], current: i32) -> Fleet<'_> {
    Fleet {
        pods,
        current,
        tolerances: TOLERANCES,
        now: now(),
    }
}

#[test]
fn utilization_is_held_at_its_target() {
    for (states, values, size) in [
        // 50 % is the target.
        (vec!["", ""], vec![1000, 500], 3),
        (vec!["", ""], vec![540, 550], 2),
        (vec!["", ""], vec![560, 560], 3),
        (vec!["", "", ""], vec![100, 100, 100], 1),
        // A pod without a value uses nothing if there should be more, all that it asks for if less.
        (vec!["", "", ""], vec![1000, 1000], 4),
        (vec!["", "", "", ""], vec![100, 100, 100], 3),
        (vec!["", "", "", "", ""], vec![0, 0, 0, 0], 2),
        // One is pending: more pods than are needed with it are not made.
        (vec!["", "Pending"], vec![1000], 2),
        (vec!["", "Pending"], vec![2000], 4),
        (vec!["", "Pending"], vec![100], 1),
        // Those that go and those that failed do not count.
        (vec!["", "going", "Failed"], vec![1000, 9000, 9000], 2),
        // Exactly at the target, pods without values change nothing.
        (vec!["", ""], vec![500], 2),
    ] {
        let pods = pods(&states);
        let current = i32::try_from(states.len()).unwrap();
        let found = fleet(&pods, current).by_utilization(readings(&values), 50, ("cpu", ""));
        assert_eq!(found.unwrap().replicas, size, "{states:?} {values:?}");
    }
    let pods = pods(&["", ""]);
    let found = fleet(&pods, 2).by_utilization(readings(&[1000, 500]), 50, ("cpu", ""));
    let expected = Proposal {
        replicas: 3,
        usage: 750,
        utilization: Some(75),
    };
    assert_eq!(found, Ok(expected));
}

#[test]
fn a_target_above_all_that_is_asked_for_is_assumed_of_pods_without_values() {
    let pods = pods(&["", ""]);
    // At 150 % of a target of 200 % one pod is too many, but the other one may be at 200 %.
    let found = fleet(&pods, 2).by_utilization(readings(&[1500]), 200, ("cpu", ""));
    assert_eq!(found.unwrap().replicas, 2);
}

#[test]
fn averages_are_held_at_their_target() {
    for (states, values, size) in [
        (vec!["", ""], vec![30, 10], 2),
        (vec!["", ""], vec![30, 33], 4),
        (vec!["", ""], vec![5, 5], 1),
        // A pod without a value is at the target if there should be less.
        (vec!["", "", ""], vec![5, 5], 2),
        (vec!["", ""], vec![50], 3),
        (vec!["", "Pending"], vec![50], 3),
    ] {
        let pods = pods(&states);
        let current = i32::try_from(states.len()).unwrap();
        let found = fleet(&pods, current).by_average(readings(&values), 20, "");
        assert_eq!(found.unwrap().replicas, size, "{states:?} {values:?}");
    }
}

#[test]
fn a_size_does_not_turn_because_of_assumptions() {
    // Of five pods two are there, and they need a third: that is no reason to have less than five.
    let pods = pods(&["", ""]);
    let found = fleet(&pods, 5).by_average(readings(&[60]), 20, "");
    assert_eq!(found.unwrap().replicas, 5);
    // With both at the target on average again there is no change.
    let found = fleet(&pods, 2).by_average(readings(&[40]), 20, "");
    assert_eq!(found.unwrap().replicas, 2);
}

#[test]
fn a_pod_that_starts_says_nothing_about_cpu() {
    for (started, ready, since, read, counts) in [
        // It starts: its value counts once it was ready for a window.
        (100, "True", 50, 10, true),
        (100, "True", 35, 10, false),
        (100, "False", 50, 10, false),
        (299, "False", 290, 0, false),
        // Later only a pod that was never ready does not count.
        (300, "False", 280, 0, false),
        (300, "False", 270, 0, true),
        (1000, "True", 1, 0, true),
    ] {
        let mut pod = one("a", "");
        pod["status"]["startTime"] = ago(started).into();
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": ago(since)});
        pod["status"]["conditions"] = json!([condition]);
        let pods = typed(&[pod]);
        let mut readings = readings(&[900]);
        readings.get_mut("a").unwrap().at.seconds -= read;
        let case = format!("{started} {ready} {since}");
        let fleet = fleet(&pods, 1);
        let found = fleet.by_utilization(readings.clone(), 50, ("cpu", ""));
        assert_eq!(found.is_ok(), counts, "{case}: {found:?}");
        // Other values count at once.
        assert!(fleet.by_average(readings, 50, "memory").is_ok(), "{case}");
    }
    let mut pod = one("a", "");
    pod["status"]["startTime"] = Value::Null;
    let pods = typed(&[pod]);
    let found = fleet(&pods, 1).by_average(readings(&[900]), 50, "cpu");
    let why = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(found, Err(why.to_owned()));
}

#[test]
fn a_common_value_is_compared_with_ready_pods() {
    let mut unready = one("c", "");
    unready["status"]["conditions"][0]["status"] = "False".into();
    let mut pods = pods(&["", "", "Pending"]);
    pods.extend(typed(&[unready]));
    for (current, ratio, size) in [
        (4, 1.05, 4),
        (4, 2.0, 4),
        (4, 2.1, 5),
        (4, 0.4, 1),
        (4, 0.0, 0),
        (4, 1e30, i32::MAX),
        (0, 1.05, 2),
        (0, 0.0, 0),
    ] {
        assert_eq!(
            fleet(&pods, current).by_ratio(ratio),
            Ok(size),
            "{current} {ratio}"
        );
    }
    let why = "unable to calculate ready pods: no pods returned by selector while calculating \
               replica count";
    assert_eq!(fleet(&[], 4).by_ratio(2.0), Err(why.to_owned()));
}

#[test]
fn a_total_is_shared_among_replicas() {
    for (total, target, replicas, expected) in [
        (1000, 100, 5, (10, 200)),
        (1000, 100, 10, (10, 100)),
        (1050, 100, 10, (10, 105)),
        (1110, 100, 10, (12, 111)),
        (101, 100, 3, (2, 34)),
        (i64::MAX, 1, 3, (i32::MAX, i64::MAX)),
    ] {
        assert_eq!(
            shared(total, target, replicas, TOLERANCES),
            expected,
            "{total}"
        );
    }
}

#[test]
fn what_pods_ask_for_is_theirs_or_their_containers() {
    let containers = json!([
        {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        {"name": "d", "resources": {"requests": {"cpu": "500m"}}},
    ]);
    let sidecars = json!([
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"name": "i", "resources": {"requests": {"cpu": "9"}}},
    ]);
    let mut pod = one("a", "");
    pod["spec"]["containers"] = containers;
    pod["spec"]["initContainers"] = sidecars;
    let mut whole = pod.clone();
    whole["spec"]["resources"] = json!({"requests": {"cpu": "3"}});
    whole["spec"]["overhead"] = json!({"cpu": "100m"});
    let missing = "missing request for memory in container d of Pod a";
    for (pod, container, resource, expected) in [
        (&pod, "", "cpu", Ok(1700)),
        (&pod, "d", "cpu", Ok(500)),
        (&pod, "s", "cpu", Ok(200)),
        (&pod, "", "memory", Err(missing)),
        (&pod, "d", "memory", Err(missing)),
        (&pod, "x", "cpu", Err("container x not found in Pod a")),
        (&whole, "", "cpu", Ok(3100)),
        (&whole, "d", "cpu", Ok(500)),
        (
            &whole,
            "",
            "gpu",
            Err("missing pod-level request for gpu in Pod a"),
        ),
    ] {
        let found = requests(&typed(std::slice::from_ref(pod)), container, resource);
        let found = found.map(|all| all["a"]);
        assert_eq!(
            found,
            expected.map_err(str::to_owned),
            "{container} {resource}"
        );
    }
}
