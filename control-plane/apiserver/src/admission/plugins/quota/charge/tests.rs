use serde_json::json;

use super::*;

fn quota(hard: Value, used: Value) -> Value {
    json!({
        "metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used},
    })
}

fn pod(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn charge<'a>(plural: &str, old: Option<&'a Value>, object: &'a Value) -> Charge<'a> {
    let counted = Counted::of("", plural).unwrap();
    Charge::new(counted, "", (old, object), Timestamp::default())
}

fn sum(charge: &Charge<'_>, quota: &Value) -> Result<Value, String> {
    let sum = charge.sum(quota).unwrap()?;
    Ok(sum.map_or(Value::Null, |sum| amounts::write(&sum)))
}

#[test]
fn a_new_object_adds_what_the_quota_has() {
    let pod = pod("500m");
    let charge = charge("pods", None, &pod);
    let open = quota(
        json!({"pods": "2", "cpu": "1", "secrets": "9"}),
        json!({"pods": "1", "cpu": "250m", "secrets": "3"}),
    );
    assert_eq!(charge.concerns(&open).unwrap(), Ok(true));
    let new = json!({"pods": "2", "cpu": "750m", "secrets": "3"});
    assert_eq!(sum(&charge, &open), Ok(new));
    let full = quota(
        json!({"pods": "1", "requests.cpu": "600m", "memory": "1Gi"}),
        json!({"pods": "1", "requests.cpu": "500m", "memory": "0"}),
    );
    let why = "exceeded quota: q, requested: pods=1,requests.cpu=500m, used: pods=1,requests.cpu=500m, limited: pods=1,requests.cpu=600m";
    assert_eq!(sum(&charge, &full), Err(why.to_owned()));
}

#[test]
fn a_quota_without_status_limits_nothing_and_one_without_sums_everything() {
    let pod = pod("1");
    let charge = charge("pods", None, &pod);
    let fresh = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}});
    assert_eq!(charge.concerns(&fresh).unwrap(), Ok(false));
    let uncounted = quota(
        json!({"pods": "1", "count/pods": "1"}),
        json!({"pods": "0"}),
    );
    let why = "status unknown for quota: q, resources: count/pods,pods";
    assert_eq!(charge.concerns(&uncounted).unwrap(), Err(why.to_owned()));
}

#[test]
fn a_quota_for_cpu_wants_every_container_to_name_it() {
    let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
    let charge = charge("pods", None, &pod);
    let hard = json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "1"});
    let why = "failed quota: q: must specify limits.memory for: a,b; requests.cpu for: a,b";
    let quota = quota(hard, json!({}));
    assert_eq!(charge.concerns(&quota).unwrap(), Err(why.to_owned()));
}

#[test]
fn an_update_adds_the_difference() {
    let service = |of_type: &str, ports: usize| json!({"spec": {"type": of_type, "ports": vec![json!({"port": 1}); ports]}});
    let (old, new) = (service("NodePort", 1), service("NodePort", 3));
    let hard = json!({"services": "1", "services.nodeports": "2"});
    let used = json!({"services": "1", "services.nodeports": "1"});
    let why = "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2";
    let full = quota(hard, used.clone());
    assert_eq!(
        sum(&charge("services", Some(&old), &new), &full),
        Err(why.to_owned())
    );
    // Less is not given back: the control loop counts that.
    assert_eq!(
        sum(&charge("services", Some(&new), &old), &full),
        Ok(Value::Null)
    );
}

#[test]
fn an_update_into_a_scope_is_charged_as_a_whole() {
    let old = pod("1");
    let mut new = old.clone();
    new["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut quota = quota(json!({"pods": "3"}), json!({"pods": "1"}));
    quota["spec"]["scopes"] = json!(["Terminating"]);
    let update = charge("pods", Some(&old), &new);
    assert_eq!(sum(&update, &quota), Ok(json!({"pods": "2"})));
    quota["spec"]["scopes"] = json!(["NotTerminating"]);
    assert_eq!(update.concerns(&quota).unwrap(), Ok(false));
}

#[test]
fn a_report_is_charged_and_never_refused() {
    let claim = |allocated: &str| {
        json!({
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"allocatedResources": {"storage": allocated}},
        })
    };
    let (old, new) = (claim("1Gi"), claim("5Gi"));
    let counted = Counted::of("", "persistentvolumeclaims").unwrap();
    let report = Charge::new(counted, "status", (Some(&old), &new), Timestamp::default());
    let full = quota(
        json!({"requests.storage": "1Gi"}),
        json!({"requests.storage": "1Gi"}),
    );
    assert_eq!(sum(&report, &full), Ok(json!({"requests.storage": "5Gi"})));
}
