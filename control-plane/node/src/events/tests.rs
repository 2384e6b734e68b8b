use machinery::{patch, schema};

use super::*;
use crate::address::PodAddresses;
use crate::pod;

const PLACE: PodAddresses<'_> = PodAddresses {
    host: &["10.0.0.1"],
    pod: &["10.1.0.1"],
};

fn at(seconds: i64) -> Timestamp {
    Timestamp {
        seconds: 1_000_000 + seconds,
        nanos: 0,
    }
}

/// Runs the node until nothing is left to do, and returns the Events.
fn told(pod: &mut Object, now: Timestamp) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let decision = pod::decide(pod, now, PLACE);
        for call in of(pod, &decision.calls, "node-0", now) {
            let Call::Create { object, .. } = call else {
                panic!("{call:?}");
            };
            let about = object::text(&object, &["involvedObject", "fieldPath"]);
            let text = |key| object::text(&object, &[key]).to_owned();
            told.push(format!("{about} {} {}", text("reason"), text("message")));
        }
        let status = decision.calls.iter().find_map(|call| match call {
            Call::Patch { patch, .. } => Some(patch),
            _ => None,
        });
        let Some(status) = status else {
            return told;
        };
        let message = schema::kind("", "v1", "Pod").unwrap().message();
        *pod = patch::strategic(pod, status, message).unwrap();
    }
}

#[test]
fn people_are_told_when_containers_start_fall_and_are_stopped() {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"restartPolicy": "Always", "containers": [
            {"name": "c", "image": "nginx:1", "command": ["false"]},
            {"name": "d", "image": "nginx:2"},
        ]},
        "status": {"phase": "Pending"},
    });
    let first = told(&mut pod, at(0));
    let image = |name: &str| {
        format!(
            "Container image {name:?} already present on machine and can be accessed by the pod"
        )
    };
    assert!(first.contains(&format!("spec.containers{{c}} Pulled {}", image("nginx:1"))));
    assert!(first.contains(&format!("spec.containers{{d}} Pulled {}", image("nginx:2"))));
    let started = "spec.containers{d} Started Container started".to_owned();
    assert_eq!(first.iter().filter(|line| **line == started).count(), 1);
    let mut all = first;
    for second in 1..60 {
        all.extend(told(&mut pod, at(second)));
    }
    let rests = "spec.containers{c} BackOff Back-off restarting failed container c in pod p_n(u)"
        .to_owned();
    assert!(all.contains(&rests), "{all:#?}");
    assert_eq!(all.iter().filter(|line| **line == started).count(), 1);
    pod["metadata"]["deletionTimestamp"] = at(60).to_seconds().into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let last = told(&mut pod, at(60));
    assert!(
        last.contains(&"spec.containers{d} Killing Stopping container d".to_owned()),
        "{last:#?}"
    );
}

#[test]
fn what_is_said_at_once_has_names_of_its_own() {
    let status = |state: Value| json!({"name": "c", "image": "i", "containerID": "hollow://u/c/0", "state": state});
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "status": {"containerStatuses": [status(json!({"waiting": {}}))]},
    });
    let call = Call::Patch {
        kind: schema::kind("", "v1", "Pod").unwrap().clone(),
        namespace: "n".into(),
        name: "p".into(),
        subresource: "status",
        form: machinery::api::PatchForm::Strategic,
        patch: json!({"status": {"containerStatuses": [
            status(json!({"running": {"startedAt": at(0).to_seconds()}})),
        ]}}),
    };
    let events = of(&pod, &[call], "node-0", at(0));
    let names = events.iter().map(|call| match call {
        Call::Create { object, .. } => object::name(object).to_owned(),
        other => panic!("{other:?}"),
    });
    let names: std::collections::BTreeSet<String> = names.collect();
    assert_eq!(names.len(), 3);
}
