use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp {
        seconds: 1_700_000_000 + seconds,
        nanos: 0,
    }
}

fn plan(spec: &Value, restart: Restart, exit: Option<(u64, i64)>) -> Plan<'_> {
    let exit = exit.map(|(after, code)| Exit {
        after: Duration::from_secs(after),
        code,
    });
    Plan {
        spec,
        pod: "uid",
        restart,
        once: false,
        exit,
        ready: true,
    }
}

#[test]
fn a_container_without_an_end_runs_for_ever() {
    let spec = json!({"name": "c", "image": "i"});
    let plan = plan(&spec, Restart::Always, None);
    let fresh = waiting(&plan, "ContainerCreating");
    assert_eq!(state(&plan, &fresh), State::Fresh);
    let turn = advance(&plan, &fresh, at(0));
    assert_eq!(turn.again, None);
    assert_eq!(
        turn.status,
        json!({
            "name": "c", "image": "i", "imageID": "i", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": at(0).to_seconds()}},
            "lastState": {}, "containerID": "hollow://uid/c/0", "resources": {},
        })
    );
    assert_eq!(advance(&plan, &turn.status, at(1000)).status, turn.status);
}

#[test]
fn an_end_is_for_good_or_not_by_the_policy() {
    let spec = json!({"name": "c", "image": "i"});
    for (restart, code, expected) in [
        (Restart::Never, 0, State::Ended(0)),
        (Restart::Never, 1, State::Ended(1)),
        (Restart::OnFailure, 0, State::Ended(0)),
        (Restart::OnFailure, 1, State::Running),
        (Restart::Always, 0, State::Running),
    ] {
        let plan = plan(&spec, restart, Some((5, code)));
        let started = advance(&plan, &waiting(&plan, "x"), at(0));
        assert_eq!(started.again, Some(at(5)));
        let ended = advance(&plan, &started.status, at(5));
        assert_eq!(state(&plan, &ended.status), expected, "{restart:?} {code}");
    }
}

#[test]
fn the_rules_of_a_container_come_before_its_policy() {
    let restart = |operator: &str, values: Value| {
        let codes = json!({"operator": operator, "values": values});
        json!({"action": "Restart", "exitCodes": codes})
    };
    let rules = [restart("In", json!([42])), restart("NotIn", json!([0, 1]))];
    let spec = json!({"name": "c", "image": "i", "restartPolicyRules": rules});
    for (code, expected) in [
        (0, State::Ended(0)),
        (1, State::Ended(1)),
        (42, State::Running),
        (7, State::Running),
    ] {
        let plan = plan(&spec, Restart::Never, Some((5, code)));
        let started = advance(&plan, &waiting(&plan, "x"), at(0));
        let ended = advance(&plan, &started.status, at(5));
        assert_eq!(state(&plan, &ended.status), expected, "{code}");
    }
}

#[test]
fn restarts_wait_longer_each_time() {
    let spec = json!({"name": "c", "image": "i"});
    let plan = plan(&spec, Restart::Always, Some((0, 1)));
    // The first restart has no delay and is in the same turn.
    let mut turn = advance(&plan, &waiting(&plan, "x"), at(0));
    let mut times = Vec::new();
    for _ in 0..8 {
        assert_eq!(
            turn.status["state"]["waiting"]["reason"],
            "CrashLoopBackOff"
        );
        let again = turn.again.unwrap();
        times.push(again.seconds - at(0).seconds);
        assert_eq!(advance(&plan, &turn.status, at(0)).status, turn.status);
        turn = advance(&plan, &turn.status, again);
    }
    assert_eq!(times, [10, 30, 70, 150, 310, 610, 910, 1210]);
    assert_eq!(turn.status["restartCount"], 9);
    assert_eq!(turn.status["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn stopping_ends_whatever_there_was() {
    let spec = json!({"name": "c", "image": "i"});
    let plan = plan(&spec, Restart::Always, Some((5, 3)));
    let fresh = waiting(&plan, "x");
    let running = advance(&plan, &fresh, at(0)).status;
    let resting = {
        let again = advance(&plan, &running, at(5)).status;
        advance(&plan, &again, at(10)).status
    };
    assert_eq!(state(&plan, &resting), State::Resting(3));
    let code = |status: &Value, killed| {
        let stopped = stop(&plan, status, at(7), killed);
        object::integer(&stopped, &["state", "terminated", "exitCode"])
    };
    assert_eq!(code(&running, false), Some(0));
    assert_eq!(code(&running, true), Some(137));
    assert_eq!(code(&fresh, false), Some(137));
    assert_eq!(code(&resting, false), Some(3));
}

#[test]
fn a_container_that_has_run_says_what_it_has_and_what_is_set_aside() {
    let asking = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}});
        json!({"name": "c", "image": "i", "resources": resources})
    };
    let has = |status: &Value, spec: &Value| {
        let resources = &spec["resources"];
        let requests = &resources["requests"];
        (&status["resources"], &status["allocatedResources"]) == (resources, requests)
    };
    let before = asking("1");
    let fresh = waiting(&plan(&before, Restart::Never, None), "ContainerCreating");
    assert!(fresh.get("resources").is_none(), "{fresh}");
    let running = advance(&plan(&before, Restart::Never, None), &fresh, at(0)).status;
    assert!(has(&running, &before), "{running}");
    // It is resized.
    let after = asking("2");
    let running = advance(&plan(&after, Restart::Never, None), &running, at(1)).status;
    assert!(has(&running, &after), "{running}");
    let stopped = stop(&plan(&after, Restart::Never, None), &running, at(2), false);
    assert!(has(&stopped, &after), "{stopped}");
    let unbounded = json!({"name": "c", "image": "i"});
    let running = advance(&plan(&unbounded, Restart::Never, None), &running, at(1)).status;
    assert_eq!(running["resources"], json!({}));
    assert!(running.get("allocatedResources").is_none(), "{running}");
}
