use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;

fn pem(groups: &[&str]) -> String {
    let mut params = CertificateParams::default();
    for group in groups {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *group);
    }
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn object(pem: &str) -> Value {
    json!({"spec": {"request": STANDARD.encode(pem)}})
}

#[test]
fn a_request_says_its_groups_and_is_signed() {
    let request = Request::of(&object(&pem(&["devs"]))).unwrap();
    assert_eq!(request.organizations, ["devs"]);
    assert_eq!(request.check_signature(), Ok(()));
}

#[test]
fn a_changed_request_is_not_signed() {
    let mut request = Request::of(&object(&pem(&["devs"]))).unwrap();
    let at = request
        .der
        .windows(4)
        .position(|bytes| bytes == b"devs")
        .unwrap();
    request.der[at] = b'D';
    assert!(request.check_signature().is_err());
}

#[test]
fn what_is_no_request_is_refused() {
    let begin = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    // Only the first block counts: what follows would be read by nobody else.
    for text in ["", "x", begin, &format!("{begin}{}", pem(&["devs"]))] {
        let told = Request::of(&object(text)).unwrap_err();
        assert_eq!(told, "PEM block type must be CERTIFICATE REQUEST", "{text}");
    }
}

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
