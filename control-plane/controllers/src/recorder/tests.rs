use super::*;

fn note(message: &str) -> Note {
    Note {
        about: json!({"kind": "ReplicaSet", "namespace": "n", "name": "web", "uid": "u"}),
        warning: false,
        reason: "SuccessfulCreate",
        message: message.into(),
    }
}

fn now() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

#[test]
fn a_note_becomes_an_event_and_its_repetition_a_count() {
    let mut recorder = Recorder::default();
    let Call::Create { object, .. } = recorder
        .record(
            "replicaset-controller",
            &note("Created pod: {}"),
            "web-x",
            now(),
        )
        .call
    else {
        panic!("it is new");
    };
    assert_eq!(object["message"], "Created pod: web-x");
    assert_eq!(object["metadata"]["namespace"], "n");
    assert_eq!(object["metadata"]["name"], "web.1886caf21c963200");
    let again = recorder.record(
        "replicaset-controller",
        &note("Created pod: {}"),
        "web-x",
        now(),
    );
    let Call::Patch { name, patch, .. } = again.call else {
        panic!("it was told before");
    };
    assert_eq!(object["metadata"]["name"], name.as_str());
    assert_eq!(patch["count"], 2);
    // The first one may be gone by then.
    let Some(Call::Create { object: anew, .. }) = again.otherwise else {
        panic!("nothing is left to be told");
    };
    let mut counted = object;
    counted["count"] = 2.into();
    assert_eq!(anew, counted);
    let other = recorder.record(
        "replicaset-controller",
        &note("Created pod: {}"),
        "web-y",
        now(),
    );
    assert!(matches!(other.call, Call::Create { .. }));
}

#[test]
fn only_so_many_notes_are_remembered() {
    let mut recorder = Recorder::default();
    for number in 0..NOTES_MAX + 10 {
        recorder.record("c", &note("{}"), &number.to_string(), now());
    }
    assert_eq!(recorder.series.len(), NOTES_MAX);
    let first = recorder.record("c", &note("{}"), "0", now());
    assert!(matches!(first.call, Call::Create { .. }));
}
