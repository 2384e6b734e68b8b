use http::{HeaderName, HeaderValue};

use super::*;

fn ask(headers: &[(&str, &str)]) -> Result<Option<Impersonation>, Status> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    let requester = User {
        name: "me".into(),
        ..User::default()
    };
    requested(&map, &requester)
}

fn needed(asked: &Impersonation) -> Vec<String> {
    let text = |one: &Attributes| {
        assert_eq!(
            (one.user.name.as_str(), one.verb.as_str()),
            ("me", "impersonate")
        );
        let parts = [
            &one.api_group,
            &one.resource,
            &one.subresource,
            &one.namespace,
            &one.name,
        ];
        parts.map(String::as_str).join("|")
    };
    asked.needed.iter().map(text).collect()
}

#[test]
fn nothing_is_asked_without_a_header() {
    assert_eq!(ask(&[("accept", "x")]).unwrap(), None);
}

#[test]
fn a_user_is_among_those_who_are_known() {
    let asked = ask(&[("Impersonate-User", "jane")]).unwrap().unwrap();
    assert_eq!(needed(&asked), ["|users|||jane"]);
    assert_eq!(asked.user.groups, ["system:authenticated"]);
}

#[test]
fn every_group_uid_and_extra_has_to_be_allowed() {
    let asked = ask(&[
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Acme.com%2Fproject", "x"),
        ("Impersonate-Extra-Acme.com%2Fproject", "y"),
    ]);
    let asked = asked.unwrap().unwrap();
    let expected = [
        "|users|||jane",
        "|groups|||a",
        "|groups|||b",
        "authentication.k8s.io|userextras|acme.com/project||x",
        "authentication.k8s.io|userextras|acme.com/project||y",
        "authentication.k8s.io|uids|||7",
    ];
    assert_eq!(needed(&asked), expected);
    assert_eq!(asked.user.groups, ["a", "b", "system:authenticated"]);
    assert_eq!(asked.user.extra["acme.com/project"], ["x", "y"]);
    assert_eq!(asked.user.uid, "7");
}

#[test]
fn a_service_account_has_its_own_groups() {
    let name = "system:serviceaccount:tools:bot";
    let asked = ask(&[("Impersonate-User", name)]).unwrap().unwrap();
    assert_eq!(needed(&asked), ["|serviceaccounts||tools|bot"]);
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:tools",
        "system:authenticated",
    ];
    assert_eq!(asked.user.groups, groups);
    let asked = ask(&[("Impersonate-User", name), ("Impersonate-Group", "a")]).unwrap();
    assert_eq!(asked.unwrap().user.groups, ["a", "system:authenticated"]);
}

#[test]
fn whoever_acts_as_nobody_is_nobody() {
    let asked = ask(&[("Impersonate-User", "system:anonymous")])
        .unwrap()
        .unwrap();
    assert_eq!(asked.user.groups, ["system:unauthenticated"]);
}

#[test]
fn groups_without_a_user_are_refused() {
    for header in [
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-a",
    ] {
        assert_eq!(ask(&[(header, "x")]).unwrap_err().code, 400, "{header}");
    }
}
