use serde_json::Map;

use super::*;
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

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

#[test]
fn a_pod_that_is_evicted_again_is_marked_since_the_first_time() {
    let options = Options::default();
    let mark = Mark {
        name: "p",
        options: &options,
    };
    let pod = |conditions: Value| json!({"metadata": {"name": "p"}, "status": {"conditions": conditions}});
    let ready = json!({"type": "Ready", "status": "True"});
    let marked = |pod: &Value| match mark.decide(pod) {
        Ok(Step::Put(pod)) => Some(pod["status"]["conditions"].clone()),
        Ok(_) => None,
        Err(refused) => panic!("{refused}"),
    };
    let first = marked(&pod(json!([ready]))).unwrap();
    assert_eq!(first[0], ready);
    assert_eq!(first[1]["type"], "DisruptionTarget");
    assert_eq!(marked(&pod(first.clone())), None);
    // Another reason is replaced, in its place and since then.
    let since = "2026-01-01T00:00:00Z";
    let other = |status: &str| {
        let condition = json!({"type": "DisruptionTarget", "status": status, "reason": "Other",
            "lastTransitionTime": since});
        marked(&pod(json!([condition, ready]))).unwrap()
    };
    let held = other("True");
    assert_eq!(held[0]["reason"], "EvictionByEvictionAPI");
    assert_eq!(held[0]["lastTransitionTime"], since);
    assert_eq!(held[1], ready);
    assert_ne!(other("False")[0]["lastTransitionTime"], since);
}

#[test]
fn a_pod_of_several_budgets_is_not_evicted() {
    let budget = |name: &str, app: &str| {
        let selector = json!({"matchLabels": {"app": app}});
        Arc::new(json!({"metadata": {"name": name}, "spec": {"selector": selector}}))
    };
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}}});
    let all = [budget("a", "web"), budget("b", "other"), budget("c", "web")];
    assert_eq!(budget_of(&pod, &all[1..2]), Ok(None));
    assert_eq!(budget_of(&pod, &all[..2]), Ok(Some(&*all[0])));
    let refused = budget_of(&pod, &all).unwrap_err();
    assert_eq!((refused.code, refused.reason), (500, ""));
    assert!(
        refused.message.starts_with("This pod has more than one"),
        "{refused}"
    );
}

#[test]
fn a_budget_that_is_out_of_order_forbids_evictions() {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let budgets = catalogue.resource("policy", "v1", "poddisruptionbudgets");
    let budgets = budgets.unwrap();
    let pod = json!({"metadata": {"name": "p"}});
    let refused = |allowed: i64, disrupted: usize| {
        let pods = (0..disrupted).map(|at| (format!("p{at}"), Value::Null));
        let budget = json!({"metadata": {"name": "b"}, "status": {
            "disruptionsAllowed": allowed, "disruptedPods": Map::from_iter(pods)}});
        let payment = Payment {
            budgets,
            name: "b",
            pod: &pod,
            ready: true,
        };
        let refused = payment.decide(&budget).err();
        refused.map(|error| (error.code, error.message))
    };
    let forbidden = |why: &str| {
        let message = format!("poddisruptionbudget.policy \"b\" is forbidden: {why}");
        Some((403, message))
    };
    assert_eq!(refused(1, DISRUPTED_MAX), None);
    let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
    assert_eq!(refused(1, DISRUPTED_MAX + 1), forbidden(why));
    let why = "pdb disruptions allowed is negative";
    assert_eq!(refused(-1, 0), forbidden(why));
    assert_eq!(refused(0, 0).unwrap().0, 429);
}

#[test]
fn a_budget_says_when_its_last_disruption_is_taken() {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let budgets = catalogue.resource("policy", "v1", "poddisruptionbudgets");
    let pod = json!({"metadata": {"name": "p"}});
    let payment = Payment {
        budgets: budgets.unwrap(),
        name: "b",
        pod: &pod,
        ready: true,
    };
    let since = "2026-01-01T00:00:00Z";
    let paid = |allowed: i64, conditions: Value| {
        let budget = json!({"metadata": {"name": "b", "generation": 2}, "status": {
            "disruptionsAllowed": allowed, "observedGeneration": 2, "conditions": conditions}});
        match payment.decide(&budget) {
            Ok(Step::Put(paid)) => paid["status"]["conditions"].clone(),
            _ => panic!("{budget} is not paid"),
        }
    };
    let had = |status: &str| {
        json!([{"type": ALLOWED, "status": status, "reason": "SufficientPods",
            "message": "so", "lastTransitionTime": since}])
    };
    assert_eq!(paid(2, had("True")), had("True"));
    let now = paid(1, had("True"))[0].clone();
    assert_eq!(
        (&now["status"], &now["reason"]),
        (&json!("False"), &json!("InsufficientPods"))
    );
    assert_eq!(
        (&now["message"], &now["observedGeneration"]),
        (&json!(""), &json!(2))
    );
    assert_ne!(now["lastTransitionTime"], since);
    assert_eq!(paid(1, had("False"))[0]["lastTransitionTime"], since);
    assert_eq!(paid(1, json!([]))[0]["type"], ALLOWED);
}

#[tokio::test]
async fn a_budget_that_went_meanwhile_is_told_by_its_name() {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let budgets = catalogue.resource("policy", "v1", "poddisruptionbudgets");
    let pod = json!({"metadata": {"name": "p"}});
    let mut payment = Payment {
        budgets: budgets.unwrap(),
        name: "b",
        pod: &pod,
        ready: true,
    };
    let gone = payment.step(None).await.err().unwrap();
    let why = "poddisruptionbudgets.policy \"b\" not found";
    assert_eq!((gone.code, gone.message.as_str()), (404, why));
}
