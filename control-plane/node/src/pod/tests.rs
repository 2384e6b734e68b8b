use machinery::patch;

use super::*;

const PLACE: PodAddresses<'static> = PodAddresses {
    host: &["172.18.0.2", "fd00:172:18::2"],
    pod: &["10.244.0.2", "fd00:10:244::2"],
};

fn at(seconds: i64) -> Timestamp {
    Timestamp {
        seconds: 1_700_000_000 + seconds,
        nanos: 0,
    }
}

fn pod(change: Value) -> Object {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    patch::merge(&pod, &change)
}

/// Applies a decision as an apiserver would. Returns whether the pod was deleted.
fn obey(pod: &mut Object, decision: &Decision) -> bool {
    let mut deleted = false;
    for call in &decision.calls {
        match call {
            Call::Patch { patch, .. } => {
                let message = pods().message();
                *pod = patch::strategic(pod, patch, message).unwrap();
            }
            Call::Delete { options, .. } => {
                assert_eq!(
                    (options.uid.as_str(), options.grace_seconds),
                    ("u", Some(0))
                );
                deleted = true;
            }
            other => panic!("{other:?}"),
        }
    }
    deleted
}

/// Repeats decisions until nothing is left to do at this time.
fn settle(pod: &mut Object, now: Timestamp) -> Option<Timestamp> {
    for _ in 0..10 {
        let decision = decide(pod, now, PLACE);
        if decision.calls.is_empty() {
            return decision.again;
        }
        assert!(!obey(pod, &decision), "the pod is gone");
    }
    panic!("it never comes to rest: {pod:#}");
}

fn condition(pod: &Object, kind: &str) -> String {
    let all = object::items(pod, &["status", "conditions"]);
    let one = all.iter().find(|one| one["type"] == kind).unwrap();
    let text = |field| object::text(one, &[field]).to_owned();
    format!("{} {} {}", text("status"), text("reason"), text("message"))
        .trim_end()
        .to_owned()
}

fn phase(pod: &Object) -> &str {
    object::text(pod, &["status", "phase"])
}

#[test]
fn a_pod_is_created_and_then_runs() {
    let mut one = pod(json!({}));
    let first = decide(&one, at(0), PLACE);
    obey(&mut one, &first);
    assert_eq!(phase(&one), "Pending");
    assert_eq!(
        one["status"]["containerStatuses"][0]["state"],
        json!({"waiting": {"reason": "ContainerCreating"}})
    );
    assert_eq!(
        condition(&one, "Ready"),
        "False ContainersNotReady containers with unready status: [c]"
    );
    assert_eq!(condition(&one, "PodReadyToStartContainers"), "False");
    assert!(one["status"].get("podIP").is_none());

    assert_eq!(settle(&mut one, at(1)), None);
    assert_eq!(phase(&one), "Running");
    for kind in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        assert_eq!(condition(&one, kind), "True", "{kind}");
    }
    let ips = json!([{"ip": "10.244.0.2"}, {"ip": "fd00:10:244::2"}]);
    assert_eq!(one["status"]["podIPs"], ips);
    assert_eq!(one["status"]["podIP"], "10.244.0.2");
    let ips = json!([{"ip": "172.18.0.2"}, {"ip": "fd00:172:18::2"}]);
    assert_eq!(one["status"]["hostIPs"], ips);
    assert_eq!(one["status"]["hostIP"], "172.18.0.2");
    assert_eq!(one["status"]["startTime"], at(0).to_seconds());
    assert_eq!(
        one["status"]["qosClass"], "BestEffort",
        "others' fields stay"
    );
    assert_eq!(one["status"]["observedGeneration"], 1);
}

#[test]
fn conditions_keep_their_time_for_as_long_as_they_keep_their_status() {
    let mut one = pod(json!({}));
    settle(&mut one, at(0));
    one["metadata"]["generation"] = 2.into();
    settle(&mut one, at(100));
    let ready = &object::items(&one, &["status", "conditions"])[2];
    assert_eq!(
        (&ready["type"], &ready["observedGeneration"]),
        (&json!("Ready"), &json!(2))
    );
    assert_eq!(ready["lastTransitionTime"], at(0).to_seconds());
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_beside() {
    let mut one = pod(json!({"spec": {"initContainers": [
        {"name": "slow", "image": "i", "command": ["sleep", "10"]},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
        {"name": "quick", "image": "i"},
    ]}}));
    assert_eq!(settle(&mut one, at(0)), Some(at(10)));
    assert_eq!(phase(&one), "Pending");
    assert_eq!(
        condition(&one, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [slow side quick]"
    );
    let waits = &one["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    assert_eq!(waits, "PodInitializing");
    assert_eq!(settle(&mut one, at(10)), None);
    assert_eq!(
        (phase(&one), condition(&one, "Ready").as_str()),
        ("Running", "True")
    );
    let init = object::items(&one, &["status", "initContainerStatuses"]);
    let states: Vec<&Value> = init.iter().map(|status| &status["state"]).collect();
    assert_eq!(states[0]["terminated"]["reason"], "Completed");
    assert!(states[1].get("running").is_some());
    assert_eq!(states[2]["terminated"]["exitCode"], 0);
}

#[test]
fn a_failed_init_container_fails_the_pod_or_is_tried_again() {
    let init = json!([{"name": "bad", "image": "i", "command": ["false"]}]);
    let mut never = pod(json!({"spec": {"restartPolicy": "Never", "initContainers": init}}));
    settle(&mut never, at(0));
    assert_eq!(
        (phase(&never), condition(&never, "Ready").as_str()),
        ("Failed", "False PodFailed")
    );
    let mut always = pod(json!({"spec": {"initContainers": init}}));
    assert_eq!(settle(&mut always, at(0)), Some(at(10)));
    assert_eq!(phase(&always), "Pending");
    let waits = &always["status"]["initContainerStatuses"][0]["state"]["waiting"];
    assert_eq!(waits["reason"], "CrashLoopBackOff");
}

#[test]
fn pods_end_by_their_restart_policy() {
    for (policy, code, expected) in [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"),
        ("Always", 0, "Running"),
    ] {
        let hints = json!({hints::EXIT_AFTER: "5s", hints::EXIT_CODE: code.to_string()});
        let mut one = pod(json!({
            "metadata": {"annotations": hints},
            "spec": {"restartPolicy": policy, "initContainers": [
                {"name": "side", "image": "i", "restartPolicy": "Always"},
            ]},
        }));
        assert_eq!(settle(&mut one, at(0)), Some(at(5)));
        assert_eq!(phase(&one), "Running");
        settle(&mut one, at(5));
        assert_eq!(phase(&one), expected, "{policy} {code}");
        let restarts = &one["status"]["containerStatuses"][0]["restartCount"];
        let sidecar = &one["status"]["initContainerStatuses"][0]["state"];
        if expected == "Running" {
            assert_eq!(restarts, 1);
        } else {
            assert_eq!(restarts, 0);
            assert_eq!(
                sidecar["terminated"]["exitCode"], 0,
                "it ends with those it is for"
            );
        }
    }
}

#[test]
fn a_container_ends_by_its_own_policy_and_rules() {
    let codes = json!({"operator": "In", "values": [42]});
    let rules = json!([{"action": "Restart", "exitCodes": codes}]);
    for (policy, own, code, expected) in [
        ("Never", "Never", 42, "Running"),
        ("Never", "Never", 1, "Failed"),
        ("Never", "OnFailure", 1, "Running"),
        ("Never", "Always", 0, "Running"),
        ("Always", "OnFailure", 0, "Succeeded"),
        ("Always", "Never", 1, "Failed"),
    ] {
        let hints = json!({hints::EXIT_AFTER: "5s", hints::EXIT_CODE: code.to_string()});
        let main = json!({"name": "c", "image": "i", "restartPolicy": own,
            "restartPolicyRules": rules});
        let mut one = pod(json!({
            "metadata": {"annotations": hints},
            "spec": {"restartPolicy": policy, "containers": [main]},
        }));
        settle(&mut one, at(0));
        assert_eq!(phase(&one), "Running");
        settle(&mut one, at(5));
        assert_eq!(phase(&one), expected, "{policy} {own} {code}");
    }
}

#[test]
fn an_init_container_has_its_own_policy_and_rules_while_it_fails() {
    let after = |policy: &str, own: Value| {
        let bad = json!({"name": "bad", "image": "i", "command": ["false"]});
        let init = [patch::merge(&bad, &own)];
        let spec = json!({"restartPolicy": policy, "initContainers": init});
        let mut one = pod(json!({"spec": spec}));
        settle(&mut one, at(0));
        phase(&one).to_owned()
    };
    assert_eq!(after("Always", json!({"restartPolicy": "Never"})), "Failed");
    assert_eq!(
        after("Never", json!({"restartPolicy": "OnFailure"})),
        "Pending"
    );
    let codes = |code: i64| json!({"operator": "In", "values": [code]});
    let ruled = |code: i64, command: &str| {
        let rules = json!([{"action": "Restart", "exitCodes": codes(code)}]);
        json!({"restartPolicy": "Never", "restartPolicyRules": rules, "command": [command]})
    };
    assert_eq!(after("Never", ruled(1, "false")), "Pending");
    // One that succeeds is done, whatever its rules say.
    assert_eq!(after("Never", ruled(0, "true")), "Running");
}

#[test]
fn a_rule_may_restart_all_containers_of_a_pod() {
    let codes = json!({"operator": "In", "values": [3]});
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": codes}]);
    let mut one = pod(json!({"spec": {
        "restartPolicy": "Never",
        "initContainers": [{"name": "first", "image": "i", "command": ["true"]}],
        "containers": [
            {"name": "stays", "image": "i"},
            {"name": "ends", "image": "i", "command": ["sh", "-c", "sleep 5; exit 3"],
                "restartPolicy": "Always", "restartPolicyRules": rules},
        ],
    }}));
    assert_eq!(settle(&mut one, at(0)), Some(at(5)));
    assert_eq!(settle(&mut one, at(5)), Some(at(7)));
    assert_eq!(phase(&one), "Running");
    let ended = &one["status"]["containerStatuses"][1];
    assert_eq!(ended["state"]["terminated"]["exitCode"], 3);
    assert_eq!(settle(&mut one, at(7)), Some(at(12)));
    assert_eq!(phase(&one), "Running");
    for (list, index) in [
        ("initContainerStatuses", 0),
        ("containerStatuses", 0),
        ("containerStatuses", 1),
    ] {
        let status = &one["status"][list][index];
        assert_eq!(status["restartCount"], 1, "{status}");
        let last = &status["lastState"]["terminated"];
        assert_eq!(last["exitCode"], 137, "{status}");
        assert_eq!(last["reason"], "RestartingAllContainers", "{status}");
    }
    // So do those that end at once, and each time as soon.
    let bad = json!([{"name": "c", "image": "i", "command": ["sh", "-c", "exit 3"],
        "restartPolicy": "Never", "restartPolicyRules": rules}]);
    let mut one = pod(json!({"spec": {"containers": bad}}));
    for turn in 0..3 {
        assert_eq!(settle(&mut one, at(2 * turn)), Some(at(2 * turn + 2)));
        assert_eq!(phase(&one), "Running");
        let status = &one["status"]["containerStatuses"][0];
        assert_eq!(status["restartCount"], turn);
    }
}

#[test]
fn a_failed_init_container_may_restart_all() {
    let codes = json!({"operator": "NotIn", "values": [0]});
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": codes}]);
    let bad = json!([{"name": "bad", "image": "i", "command": ["false"],
        "restartPolicy": "Never", "restartPolicyRules": rules}]);
    let mut one = pod(json!({"spec": {"restartPolicy": "Never", "initContainers": bad}}));
    assert_eq!(settle(&mut one, at(0)), Some(at(2)));
    assert_eq!(phase(&one), "Pending");
}

#[test]
fn a_condition_says_that_all_containers_restart() {
    const RESTARTING: &str = "AllContainersRestarting";
    let codes = json!({"operator": "In", "values": [3]});
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": codes}]);
    let ruled = |script: &str| {
        pod(json!({"spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "image": "i", "command": ["sleep", "5"]}],
            "containers": [{"name": "c", "image": "i", "command": ["sh", "-c", script],
                "restartPolicy": "Never", "restartPolicyRules": rules}],
        }}))
    };
    let mut one = ruled("sleep 5; exit 3");
    for (now, next, restarting, is_initialized) in [
        (0, 5, "False", false),
        (5, 10, "False", true),
        (
            10,
            12,
            "True RestartAllContainersStarted container exited with restart policy rule",
            true,
        ),
        // The init container runs again, and the pod stays initialized.
        (12, 17, "False", true),
        (17, 22, "False", true),
    ] {
        assert_eq!(settle(&mut one, at(now)), Some(at(next)));
        assert_eq!(condition(&one, RESTARTING), restarting, "{now}");
        let initialized = condition(&one, "Initialized");
        assert_eq!(initialized == "True", is_initialized, "{now} {initialized}");
    }
    for (script, finished) in [("exit 0", "PodCompleted"), ("exit 1", "PodFailed")] {
        let mut one = ruled(script);
        settle(&mut one, at(0));
        settle(&mut one, at(5));
        assert_eq!(condition(&one, RESTARTING), format!("False {finished}"));
    }
    // Other pods do not have it.
    let mut plain = pod(json!({}));
    settle(&mut plain, at(0));
    let conditions = object::items(&plain, &["status", "conditions"]);
    assert!(conditions.iter().all(|one| one["type"] != RESTARTING));
}

#[test]
fn a_completed_pod_says_so_and_is_left_alone() {
    let mut one = pod(json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "command": ["true"]}],
    }}));
    settle(&mut one, at(0));
    assert_eq!(phase(&one), "Succeeded");
    assert_eq!(condition(&one, "Ready"), "False PodCompleted");
    assert_eq!(condition(&one, "Initialized"), "True PodCompleted");
    assert!(decide(&one, at(1000), PLACE).calls.is_empty());
}

#[test]
fn readiness_follows_the_annotation_and_the_gates() {
    let mut never = pod(json!({"metadata": {"annotations": {hints::READY: "false"}}}));
    settle(&mut never, at(0));
    assert_eq!(phase(&never), "Running");
    assert!(condition(&never, "Ready").starts_with("False ContainersNotReady"));
    let mut gated = pod(json!({"spec": {"readinessGates": [{"conditionType": "x.io/lb"}]}}));
    settle(&mut gated, at(0));
    assert_eq!(condition(&gated, "ContainersReady"), "True");
    assert!(condition(&gated, "Ready").starts_with("False ReadinessGatesNotReady"));
    let open = json!({"type": "x.io/lb", "status": "True"});
    gated["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(open);
    settle(&mut gated, at(1));
    assert_eq!(condition(&gated, "Ready"), "True");
}

fn deleted(pod: &mut Object, now: Timestamp, grace: u64) {
    let end = now.plus(Duration::from_secs(grace)).to_seconds();
    pod["metadata"]["deletionTimestamp"] = end.into();
    pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
}

#[test]
fn a_deleted_pod_stops_and_is_then_deleted_for_good() {
    let mut one = pod(json!({}));
    settle(&mut one, at(0));
    deleted(&mut one, at(100), 30);
    let decision = decide(&one, at(100), PLACE);
    assert!(obey(&mut one, &decision));
    assert_eq!(phase(&one), "Succeeded");
    let state = &one["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&state["exitCode"], &state["finishedAt"]),
        (&json!(0), &json!(at(100).to_seconds()))
    );
}

#[test]
fn a_pod_takes_its_time_to_stop_but_no_more_than_its_grace() {
    for (stop_after, ends_at, code) in [("2s", 102, 0), ("1h", 130, 137)] {
        let mut one = pod(json!({"metadata": {"annotations": {hints::STOP_AFTER: stop_after}}}));
        settle(&mut one, at(0));
        deleted(&mut one, at(100), 30);
        let waits = decide(&one, at(100), PLACE);
        assert!(waits.calls.is_empty());
        assert_eq!(waits.again, Some(at(ends_at)));
        let decision = decide(&one, at(ends_at), PLACE);
        assert!(obey(&mut one, &decision));
        assert_eq!(
            one["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
            code
        );
    }
}

#[test]
fn a_pod_deleted_before_it_ran_or_after_it_ended_just_goes() {
    let mut fresh = pod(json!({}));
    deleted(&mut fresh, at(0), 30);
    let decision = decide(&fresh, at(0), PLACE);
    assert!(obey(&mut fresh, &decision));
    assert_eq!(phase(&fresh), "Failed");
    let mut ended = pod(json!({"status": {"phase": "Succeeded"}}));
    deleted(&mut ended, at(0), 1);
    let decision = decide(&ended, at(0), PLACE);
    assert_eq!(decision.calls.len(), 1);
    assert!(obey(&mut ended, &decision));
}

#[test]
fn a_pod_that_only_finalizers_hold_needs_no_more_deletion() {
    let mut one = pod(json!({"metadata": {"finalizers": ["x.io/y"]}}));
    settle(&mut one, at(0));
    deleted(&mut one, at(5), 0);
    let decision = decide(&one, at(5), PLACE);
    assert!(!obey(&mut one, &decision));
    assert_eq!(phase(&one), "Succeeded");
    assert!(decide(&one, at(6), PLACE).calls.is_empty());
}

#[test]
fn a_pod_that_was_active_for_too_long_fails() {
    let mut one = pod(json!({"spec": {"activeDeadlineSeconds": 60}}));
    assert_eq!(settle(&mut one, at(0)), Some(at(60)));
    settle(&mut one, at(60));
    assert_eq!(
        (phase(&one), &one["status"]["reason"]),
        ("Failed", &json!("DeadlineExceeded"))
    );
    let state = &one["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["exitCode"], 137);
}

#[test]
fn pods_of_the_hosts_network_have_its_address() {
    let mut one = pod(json!({"spec": {"hostNetwork": true}}));
    settle(&mut one, at(0));
    assert_eq!(one["status"]["podIP"], "172.18.0.2");
}
