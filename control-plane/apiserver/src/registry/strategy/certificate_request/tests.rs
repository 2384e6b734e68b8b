use super::*;

fn status(conditions: Value) -> Value {
    json!({"spec": {"signerName": "a.b/c"}, "status": {"conditions": conditions, "certificate": "AA=="}})
}

#[test]
fn a_status_update_keeps_what_an_approver_said() {
    let approved = json!({"type": "Approved", "status": "True", "reason": "good",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let old = status(json!([approved]));
    let mut forged = approved.clone();
    forged["reason"] = "forged".into();
    let failed = json!({"type": "Failed", "status": "True"});
    let mut new = status(json!([failed, forged]));
    new["spec"]["signerName"] = "x.y/z".into();
    update_status(&old, &mut new);
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["status"]["conditions"][1], approved);
    let failed = &new["status"]["conditions"][0];
    assert!(failed["lastUpdateTime"].is_string() && failed["lastTransitionTime"].is_string());
}

#[test]
fn an_approval_changes_conditions_alone() {
    let old = status(json!([]));
    let mut new = status(json!([{"type": "Approved", "status": "True"}]));
    new["status"]["certificate"] = "BB==".into();
    new["spec"]["signerName"] = "x.y/z".into();
    update_approval(&old, &mut new);
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["status"]["certificate"], "AA==");
    assert_eq!(new["status"]["conditions"][0]["type"], "Approved");
}
