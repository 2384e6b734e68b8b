use super::*;
use crate::core::Preemption;
use crate::tests::{info, pod};

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanos: 5000,
};

fn body(call: &Call) -> &Value {
    match call {
        Call::Create { object, .. } => object,
        Call::Patch { patch, .. } => patch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_binding_is_told_as_kube_scheduler_does() {
    let p = info(&pod("p", json!({"metadata": {"resourceVersion": "7"}})));
    let calls = Reporter::new("default-scheduler").scheduled(&p, "node-1", NOW);
    assert_eq!(
        body(&calls[0]),
        &json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "p.17979cfe362a1388", "namespace": "default"},
            "eventTime": "2023-11-14T22:13:20.000005Z",
            "reportingController": "default-scheduler", "reportingInstance": "default-scheduler",
            "type": "Normal", "reason": "Scheduled", "action": "Binding",
            "note": "Successfully assigned default/p to node-1",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p",
                "uid": "p", "resourceVersion": "7"},
        })
    );
}

#[test]
fn a_refusal_is_an_event_and_a_condition_and_the_same_again_only_counts() {
    let mut reporter = Reporter::new("default-scheduler");
    let p = info(&pod("p", json!({"metadata": {"generation": 1}})));
    let calls = reporter.refused(&p, "no room", &Room::AsBefore, NOW);
    assert_eq!(body(&calls[0])["reason"], "FailedScheduling");
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "no room", "lastTransitionTime": "2023-11-14T22:13:20Z", "observedGeneration": 1,
    });
    let status = json!({"conditions": [condition]});
    assert_eq!(
        body(&calls[1]),
        &json!({"metadata": {"uid": "p"}, "status": status})
    );

    let told = json!({"metadata": {"generation": 1}, "status": status});
    let p = info(&pod("p", told));
    let later = Timestamp {
        seconds: NOW.seconds + 60,
        ..NOW
    };
    let calls = reporter.refused(&p, "no room", &Room::AsBefore, later);
    assert_eq!(calls.len(), 1, "the condition says so already");
    assert_eq!(body(&calls[0])["series"]["count"], 2);
    let calls = reporter.refused(&p, "still none", &Room::AsBefore, later);
    assert_eq!(body(&calls[0])["note"], "still none");
    let condition = &body(&calls[1])["status"]["conditions"][0];
    assert_eq!(
        condition["lastTransitionTime"], "2023-11-14T22:13:20Z",
        "it was false before"
    );
}

#[test]
fn a_pod_that_is_gone_or_bound_is_no_failure_and_others_are() {
    let mut reporter = Reporter::new("s");
    let p = info(&pod("p", json!({})));
    let gone = Status::not_found("", "pods", "p");
    assert!(reporter.not_bound(&p, &gone, NOW).is_empty());
    let calls = reporter.not_bound(&p, &Status::internal("broken"), NOW);
    assert_eq!(
        body(&calls[0])["note"],
        "binding rejected: Internal error occurred: broken"
    );
    assert_eq!(
        body(&calls[1])["status"]["conditions"][0]["reason"],
        "SchedulerError"
    );
}

#[test]
fn a_pod_whose_volumes_are_late_says_so_as_kube_scheduler_does() {
    let p = info(&pod("p", json!({})));
    let calls = Reporter::new("s").timed_out(&p, NOW);
    let why =
        "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert_eq!(body(&calls[0])["reason"], "FailedScheduling");
    assert_eq!(body(&calls[0])["note"], why);
    let condition = &body(&calls[1])["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SchedulerError");
    assert_eq!(condition["message"], why);
}

#[test]
fn a_long_note_is_cut_between_characters() {
    let cut = cut(&"ä".repeat(1000));
    assert!(
        cut.len() <= NOTE_BYTES && cut.ends_with("ä ..."),
        "{}",
        cut.len()
    );
}

#[test]
fn the_node_that_a_pod_is_nominated_for_stands_in_its_status_and_goes_from_it() {
    let mut reporter = Reporter::new("default-scheduler");
    let made = |node: &str| {
        Room::Made(Preemption {
            node: node.to_owned(),
            victims: Vec::new(),
            outdone: Vec::new(),
            sent_back: Vec::new(),
        })
    };
    let p = info(&pod("p", json!({})));
    let calls = reporter.refused(&p, "no room", &made("a"), NOW);
    let status = &body(&calls[1])["status"];
    assert_eq!(status["nominatedNodeName"], "a");
    let mut told = status.clone();
    told["conditions"][0]["lastTransitionTime"] = json!("2023-11-14T22:13:20Z");
    let p = info(&pod("p", json!({"status": told})));
    assert_eq!(
        reporter.refused(&p, "no room", &made("a"), NOW).len(),
        1,
        "an Event and nothing else"
    );
    let calls = reporter.refused(&p, "no room", &Room::GivenUp, NOW);
    assert_eq!(
        body(&calls[1])["status"],
        json!({"nominatedNodeName": null})
    );
}

#[test]
fn a_preempted_pod_is_told_for_whom() {
    let (x, p) = (info(&pod("x", json!({}))), info(&pod("p", json!({}))));
    let call = Reporter::new("default-scheduler").preempted(&x, &p, "a", NOW);
    let event = body(&call);
    assert_eq!(event["note"], "Preempted by pod p on node a");
    assert_eq!(
        (&event["type"], &event["reason"], &event["action"]),
        (&json!("Normal"), &json!("Preempted"), &json!("Preempting"))
    );
    assert_eq!(event["regarding"]["name"], "x");
    assert_eq!(event["related"]["name"], "p");
}

#[test]
fn a_pod_that_is_sent_back_is_told_for_whom() {
    let named = |name: &str| Arc::new(info(&pod(name, json!({}))));
    let room = Room::Made(Preemption {
        node: "a".to_owned(),
        victims: vec![named("deleted")],
        outdone: Vec::new(),
        sent_back: vec![named("x")],
    });
    let mut reporter = Reporter::new("default-scheduler");
    let calls = reporter.refused(&named("p"), "no room", &room, NOW);
    let event = body(calls.last().unwrap());
    assert_eq!(event["regarding"]["name"], "x");
    let note = "Preempted by pod p on node a (in kube-scheduler memory).";
    assert_eq!(event["note"], note);
}

#[test]
fn an_event_that_may_be_gone_is_written_anew() {
    let mut reporter = Reporter::new("default-scheduler");
    let p = info(&pod("p", json!({})));
    let mut refused = |seconds: i64| {
        let now = Timestamp {
            seconds: NOW.seconds + seconds,
            ..NOW
        };
        reporter
            .refused(&p, "no room", &Room::AsBefore, now)
            .remove(0)
    };
    assert!(matches!(refused(0), Call::Create { .. }));
    assert!(matches!(refused(359), Call::Patch { .. }));
    assert!(matches!(refused(718), Call::Patch { .. }));
    assert!(matches!(refused(1078), Call::Create { .. }));
    assert_eq!(body(&refused(1079))["series"]["count"], 2);
}
