use serde_json::{Value, json};

use super::*;
use crate::scalings::Recommendation;
use crate::tests::fixtures::now;

/// The time so many seconds ago.
fn before(seconds: i64) -> Timestamp {
    let mut then = now();
    then.seconds -= seconds;
    then
}

fn behavior(json: Value) -> HorizontalPodAutoscalerBehavior {
    serde_json::from_value(json).unwrap()
}

fn wish(current: i32, desired: i32) -> Wish {
    Wish {
        current,
        desired,
        min: 2,
        max: 20,
    }
}

/// A past with recommendations and changes, each with how many seconds ago it was.
fn past(recommended: &[(i32, i64)], ups: &[(i32, i64)], downs: &[(i32, i64)]) -> Past {
    let changes = |all: &[(i32, i64)]| {
        let all = all.iter().map(|(by, ago)| Change {
            by: *by,
            at: before(*ago),
        });
        all.collect()
    };
    let recommendations = recommended.iter().map(|(replicas, ago)| Recommendation {
        replicas: *replicas,
        at: before(*ago),
    });
    Past {
        recommendations: recommendations.collect(),
        ups: changes(ups),
        downs: changes(downs),
        ..Past::default()
    }
}

#[test]
fn without_a_behavior_a_size_doubles_at_most_and_shrinks_after_five_minutes() {
    for (current, desired, recommended, size, able, limited) in [
        (5, 7, vec![], 7, READY, WITHIN),
        (5, 11, vec![], 10, READY, UP_LIMIT),
        (1, 9, vec![], 4, READY, UP_LIMIT),
        (15, 25, vec![], 20, READY, TOO_MANY),
        (5, 1, vec![], 2, READY, TOO_FEW),
        (5, 3, vec![(5, 301), (4, 299)], 4, DOWN_STABILIZED, WITHIN),
        (5, 3, vec![(5, 300)], 5, DOWN_STABILIZED, WITHIN),
        (5, 3, vec![(9, 301)], 3, READY, WITHIN),
    ] {
        let past = past(&recommended, &[], &[]);
        let found = limit(wish(current, desired), None, &past, now());
        let holds = limited != WITHIN;
        let expected = Limited {
            replicas: size,
            able,
            limited: (holds, limited),
        };
        assert_eq!(found, expected, "{current} to {desired}");
    }
    assert_eq!(window(None), Duration::from_secs(300));
    assert_eq!(counts_for(None, true), None);
}

fn pods(value: i32) -> Value {
    json!({"type": "Pods", "value": value, "periodSeconds": 60})
}

fn percent(value: i32) -> Value {
    json!({"type": "Percent", "value": value, "periodSeconds": 60})
}

/// The size that policies of a minute allow in both directions, and what is said of it. Without any
/// the default holds.
fn held(
    (select, policies): (&str, &[Value]),
    (current, desired): (i32, i32),
    changes: &[(i32, i64)],
) -> (i32, Said) {
    let mut rules = json!({"selectPolicy": select, "stabilizationWindowSeconds": 0});
    if !policies.is_empty() {
        rules["policies"] = policies.into();
    }
    let behavior = behavior(json!({"scaleUp": rules, "scaleDown": rules}));
    let past = if desired > current {
        past(&[], changes, &[])
    } else {
        past(&[], &[], changes)
    };
    let found = limit(wish(current, desired), Some(&behavior), &past, now());
    let (holds, said) = found.limited;
    assert_eq!(holds, found.replicas != desired);
    (found.replicas, said)
}

#[test]
fn policies_limit_how_fast_a_size_grows() {
    let both = || vec![pods(3), percent(50)];
    let (three, tenth) = (|| vec![pods(3)], || vec![percent(10)]);
    let (recent, old) = ((2, 59), (5, 60));
    for ((select, policies), sizes, changes, expected) in [
        // The default: four pods or as many as there are.
        (("Max", vec![]), (3, 15), vec![], (7, UP_LIMIT)),
        (("Max", vec![]), (6, 15), vec![], (12, UP_LIMIT)),
        (("Max", both()), (10, 19), vec![], (15, UP_LIMIT)),
        (("Min", both()), (10, 19), vec![], (13, UP_LIMIT)),
        (("Disabled", both()), (10, 19), vec![], (10, UP_LIMIT)),
        (("Max", both()), (10, 12), vec![], (12, WITHIN)),
        (("Max", both()), (18, 30), vec![], (20, TOO_MANY)),
        // Rounded up: 3 * 1.1.
        (("Max", tenth()), (3, 9), vec![], (4, UP_LIMIT)),
        // What the last minute brought counts, what was before does not.
        (
            ("Max", three()),
            (10, 19),
            vec![recent, old],
            (11, UP_LIMIT),
        ),
        (("Max", three()), (10, 19), vec![(7, 1)], (10, UP_LIMIT)),
    ] {
        let found = held((select, &policies), sizes, &changes);
        assert_eq!(found, expected, "{select} of {policies:?}: {sizes:?}");
    }
}

#[test]
fn policies_limit_how_fast_a_size_shrinks() {
    let both = || vec![pods(3), percent(50)];
    let (three, tenth) = (|| vec![pods(3)], || vec![percent(10)]);
    let (recent, old) = ((2, 59), (5, 60));
    for ((select, policies), sizes, changes, expected) in [
        // The default may take all.
        (("Max", vec![]), (10, 1), vec![], (2, TOO_FEW)),
        (("Max", both()), (10, 1), vec![], (5, DOWN_LIMIT)),
        (("Min", both()), (10, 1), vec![], (7, DOWN_LIMIT)),
        (("Disabled", both()), (10, 1), vec![], (10, DOWN_LIMIT)),
        (("Max", both()), (10, 8), vec![], (8, WITHIN)),
        (("Max", both()), (10, 10), vec![], (10, WITHIN)),
        // Rounded down: 7 * 0.9.
        (("Max", tenth()), (7, 2), vec![], (6, DOWN_LIMIT)),
        (
            ("Max", three()),
            (10, 2),
            vec![recent, old],
            (9, DOWN_LIMIT),
        ),
        (("Max", three()), (10, 2), vec![(7, 1)], (10, DOWN_LIMIT)),
    ] {
        let found = held((select, &policies), sizes, &changes);
        assert_eq!(found, expected, "{select} of {policies:?}: {sizes:?}");
    }
}

#[test]
fn what_was_taken_in_a_period_may_come_back_in_it() {
    let rules = json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]});
    let behavior = behavior(json!({"scaleUp": rules}));
    let past = past(&[], &[], &[(4, 30)]);
    let found = limit(wish(6, 15), Some(&behavior), &past, now());
    // There were 10 when the minute began.
    assert_eq!((found.replicas, found.limited.1), (11, UP_LIMIT));
    assert_eq!(
        counts_for(Some(&behavior), true),
        Some(Duration::from_secs(60))
    );
    assert_eq!(
        counts_for(Some(&behavior), false),
        Some(Duration::from_secs(15))
    );
}

#[test]
fn stabilization_waits_until_the_whole_window_asks_for_more_or_less() {
    let rules = |seconds| json!({"stabilizationWindowSeconds": seconds});
    let behavior = behavior(json!({"scaleUp": rules(60), "scaleDown": rules(120)}));
    for (current, desired, recommended, size, able) in [
        (5, 9, vec![(7, 59), (3, 61)], 7, UP_STABILIZED),
        (5, 9, vec![(3, 59)], 5, UP_STABILIZED),
        (5, 9, vec![(3, 60)], 9, READY),
        (5, 3, vec![(4, 119), (9, 121)], 4, DOWN_STABILIZED),
        (5, 3, vec![(9, 119)], 5, DOWN_STABILIZED),
        (5, 3, vec![(9, 120)], 3, READY),
        (5, 5, vec![(9, 1), (1, 1)], 5, READY),
    ] {
        let past = past(&recommended, &[], &[]);
        let found = limit(wish(current, desired), Some(&behavior), &past, now());
        assert_eq!(
            (found.replicas, found.able),
            (size, able),
            "{current} to {desired}"
        );
    }
    assert_eq!(window(Some(&behavior)), Duration::from_secs(120));
    let empty = HorizontalPodAutoscalerBehavior::default();
    assert_eq!(window(Some(&empty)), Duration::from_secs(300));
}
