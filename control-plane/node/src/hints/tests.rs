use serde_json::json;

use super::*;

fn of(command: Value, args: Value) -> Option<Exit> {
    let container = json!({"name": "c", "command": command, "args": args});
    exit(&json!({"metadata": {}}), &container, false)
}

fn ends(after_millis: u64, code: i64) -> Option<Exit> {
    let after = Duration::from_millis(after_millis);
    Some(Exit { after, code })
}

#[test]
fn commands_tell_how_long_they_run_and_how_they_end() {
    for (command, args, expected) in [
        (json!(["sleep", "5"]), json!(null), ends(5000, 0)),
        (json!(["/bin/sleep"]), json!(["1.5m"]), ends(90_000, 0)),
        (json!(["sleep", "infinity"]), json!(null), None),
        (json!(["true"]), json!(null), ends(0, 0)),
        (json!(["false"]), json!(null), ends(0, 1)),
        (json!(["echo"]), json!(["hello", "world"]), ends(0, 0)),
        (
            json!(["sh", "-c", "sleep 2; exit 3"]),
            json!(null),
            ends(2000, 3),
        ),
        (
            json!(["/bin/bash", "-ec"]),
            json!(["echo a && sleep 1 && sleep 1s"]),
            ends(2000, 0),
        ),
        (
            json!(["sh", "-c", "false && sleep 9"]),
            json!(null),
            ends(0, 1),
        ),
        (json!(["sh", "-c", "false; true"]), json!(null), ends(0, 0)),
        (
            json!(["sh", "-c", "while true; do date; sleep 1; done"]),
            json!(null),
            None,
        ),
        (json!(["sh", "-c", "date | cat"]), json!(null), None),
        (json!(["sh", "-c", "sleep 1 & exit 0"]), json!(null), None),
        (json!(["sleep", "-1"]), json!(null), None),
        (
            json!([
                "sh",
                "-c",
                "sleep 18000000000000000000; sleep 18000000000000000000"
            ]),
            json!(null),
            Some(Exit {
                after: Duration::MAX,
                code: 0,
            }),
        ),
        (json!(["nginx"]), json!(null), None),
        (json!(null), json!(null), None),
    ] {
        assert_eq!(
            of(command.clone(), args.clone()),
            expected,
            "{command} {args}"
        );
    }
}

#[test]
fn annotations_come_before_commands_and_jobs_end_by_themselves() {
    let annotated = json!({"metadata": {"annotations": {
        EXIT_AFTER: "1m30s", EXIT_CODE: "2", READY: "false", STOP_AFTER: "500ms",
    }}});
    let sleeps = json!({"command": ["sleep", "1"]});
    assert_eq!(exit(&annotated, &sleeps, false), ends(90_000, 2));
    assert_eq!(exit(&annotated, &sleeps, true), ends(1000, 0));
    assert!(!may_be_ready(&annotated));
    assert_eq!(stop_after(&annotated), Duration::from_millis(500));
    let owner = json!({"kind": "Job", "name": "j", "controller": true});
    let job = json!({"metadata": {"ownerReferences": [owner]}});
    assert_eq!(exit(&job, &json!({}), false), ends(1000, 0));
    assert_eq!(
        exit(&job, &json!({"command": ["sleep", "inf"]}), false),
        None
    );
    assert_eq!(
        exit(&json!({}), &json!({}), true),
        ends(0, 0),
        "an init container"
    );
}
