use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

#[test]
fn what_no_window_reaches_any_more_is_forgotten() {
    let mut past = Past::default();
    let kept = Duration::from_secs(60);
    for (seconds, replicas) in [(0, 1), (30, 2), (60, 3), (91, 4)] {
        past.recommend(replicas, kept, at(seconds));
    }
    let left: Vec<i32> = past
        .recommendations
        .iter()
        .map(|one| one.replicas)
        .collect();
    assert_eq!(left, [3, 4]);
    past.change(2, 5, kept, at(0));
    past.change(5, 1, kept, at(1));
    past.change(1, 2, kept, at(100));
    let by = |changes: &[Change]| -> Vec<i32> { changes.iter().map(|one| one.by).collect() };
    assert_eq!((by(&past.ups), by(&past.downs)), (vec![1], vec![4]));
}

#[test]
fn the_same_warning_is_told_every_five_minutes() {
    let mut past = Past::default();
    let mut told = |seconds, message| past.tells("FailedGetScale", message, at(seconds));
    assert!(told(0, "a") && told(15, "b"));
    assert!(!told(15, "a") && !told(299, "a") && !told(314, "b"));
    assert!(told(300, "a") && told(315, "b"));
}

#[test]
fn autoscalers_are_found_by_their_namespace() {
    let mut all = Scalings::default();
    for (namespace, name) in [("m", "z"), ("n", "a"), ("n", "b"), ("o", "a")] {
        all.put((namespace.into(), name.into()), Past::default());
    }
    all.forget(&("n".into(), "b".into()));
    let found: Vec<&str> = all
        .in_namespace("n")
        .map(|((_, name), _)| &**name)
        .collect();
    assert_eq!(found, ["a"]);
    assert!(all.of(&("n".into(), "b".into())).is_none());
}
