use super::*;

#[test]
fn errors_are_to_the_letter_those_of_go() {
    let name = "metadata.name";
    let causes = vec![
        Cause::invalid(name, &"A_b".into(), "why"),
        Cause::required("spec", "missing"),
        Cause::not_supported("type", &"x".into(), &["b", "a"]),
        Cause::duplicate(name, &5.into()),
        Cause::forbidden(name, "no"),
        Cause::too_long(name, 3),
        Cause::not_found(name, &"z".into()),
    ];
    for line in include_str!("../../testdata/status.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let status = match line["of"].as_str().unwrap() {
            "not_found" => Status::not_found("apps", "deployments", "a"),
            "already_exists" => Status::already_exists("", "pods", "a"),
            "stale" => Status::stale("", "pods", "a"),
            "bad_request" => Status::bad_request("why"),
            "unauthorized" => Status::unauthorized(),
            "forbidden" => Status::forbidden("", "pods", "a", "why"),
            "forbidden_all" => Status::forbidden("apps", "deployments", "", "why"),
            "invalid" => Status::invalid("", "Pod", "a", causes.clone()),
            "invalid_one" => Status::invalid("apps", "Deployment", "a", causes[..1].to_vec()),
            "too_many_requests" => Status::too_many_requests("why", 1),
            "future_version" => Status::future_version(9, 5),
            "expired" => Status::expired("why"),
            "internal" => Status::internal("why"),
            "unavailable" => Status::unavailable("why"),
            other => panic!("what is {other}?"),
        };
        assert_eq!(status.to_object(), line["status"]);
    }
}

#[test]
fn errors_together_are_in_their_order_and_each_is_told_once() {
    let cause = |field: &str| Cause::required(field, "");
    let causes = ["b", "a", "b", "", "a", ""].map(cause);
    let told = "[b: Required value, a: Required value, Required value]";
    assert_eq!(told_together(&causes), told);
    assert_eq!(
        told_together(&[cause("a"), cause("a")]),
        "a: Required value"
    );
    assert_eq!(told_together(&[]), "[]");
}

#[test]
fn a_terminating_namespace_has_the_cause_controllers_look_for() {
    let status = Status::namespace_terminating("", "pods", "p", "gone").to_object();
    assert_eq!(status["code"], 403);
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
}

#[test]
fn a_conflict_is_about_another_object_if_it_says_so() {
    let is_of_another = |why: &str| Status::conflict("", "pods", "a", why).is_of_another();
    for why in [
        "the UID in the precondition (x) does not match the UID in record (y). The object might \
         have been deleted and then recreated",
        "Precondition failed: UID in precondition: x, UID in object meta: y",
    ] {
        assert!(is_of_another(why), "{why}");
    }
    assert!(!is_of_another(
        "admission webhook \"w\" denied the request: not now"
    ));
    assert!(!Status::not_found("", "pods", "a").is_of_another());
}
