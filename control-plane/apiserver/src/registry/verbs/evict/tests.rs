use super::*;

#[test]
fn a_refusal_says_what_the_budget_says() {
    let why = |healthy: i64, reason: &str, message: &str| {
        why_refused(&json!({
            "metadata": {"name": "b"},
            "status": {
                "currentHealthy": healthy, "desiredHealthy": 2,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "False", "reason": reason,
                    "message": message,
                }],
            },
        }))
    };
    assert_eq!(
        why(2, "InsufficientPods", ""),
        "The disruption budget b needs 2 healthy pods and has 2 currently"
    );
    // The numbers are of the last time that they could be told.
    assert_eq!(
        why(1, "SyncFailed", "no scale"),
        "The disruption budget b does not allow evicting pods currently because it failed sync: \
         no scale"
    );
    assert_eq!(
        why(3, "InsufficientPods", ""),
        "The disruption budget b does not allow evicting pods currently"
    );
    assert_eq!(
        why(3, "Other", "for a reason"),
        "The disruption budget b does not allow evicting pods currently (Other): for a reason"
    );
}
