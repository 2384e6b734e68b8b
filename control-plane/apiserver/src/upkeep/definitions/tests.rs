use serde_json::json;

use super::*;

fn definition(kind: &str, names: &Value) -> Value {
    let plural = names["plural"].as_str().unwrap();
    let mut definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "names": names},
    });
    definition["spec"]["names"]["kind"] = kind.into();
    definition["spec"]["names"]["listKind"] = format!("{kind}List").into();
    definition
}

/// Decides about definitions in this order; returns what each gets.
fn decided(definitions: &[Value]) -> Vec<Value> {
    let all: Vec<Arc<Value>> = definitions.iter().cloned().map(Arc::new).collect();
    decide(&all).into_iter().map(|one| one.new).collect()
}

fn condition<'a>(definition: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let mut all = object::items(definition, &["status", "conditions"]).iter();
    let found = all.find(|one| one["type"] == kind).unwrap();
    let text = |key: &str| object::text(found, &[key]);
    (text("status"), text("reason"), text("message"))
}

#[test]
fn names_that_nobody_has_are_accepted() {
    let names = json!({"plural": "cats", "singular": "cat", "shortNames": ["c"],
        "categories": ["pets"]});
    let all = decided(&[definition("Cat", &names)]);
    let accepted = &all[0]["status"]["acceptedNames"];
    assert_eq!(*accepted, all[0]["spec"]["names"]);
    let expected = ("True", "NoConflicts", "no conflicts found");
    assert_eq!(condition(&all[0], NAMES_ACCEPTED), expected);
    // Not yet: it has to be served first.
    assert!(!holds(&all[0], ESTABLISHED));
    // What is written once is not written again.
    assert_eq!(decided(&all), all);
}

#[test]
fn a_name_that_another_has_is_refused_and_the_others_are_not() {
    let cats = definition(
        "Cat",
        &json!({"plural": "cats", "singular": "cat", "shortNames": ["c"]}),
    );
    for (kind, names, reason, message, refused) in [
        (
            "Tom",
            json!({"plural": "toms", "singular": "cat"}),
            "SingularConflict",
            "\"cat\" is already in use",
            "singular",
        ),
        (
            "Tom",
            json!({"plural": "c", "singular": "tom"}),
            "PluralConflict",
            "\"c\" is already in use",
            "plural",
        ),
        (
            "Tom",
            json!({"plural": "toms", "singular": "tom", "shortNames": ["c", "cats", "t"]}),
            "ShortNamesConflict",
            "[\"c\" is already in use, \"cats\" is already in use]",
            "shortNames",
        ),
        (
            "CatList",
            json!({"plural": "toms", "singular": "tom"}),
            "KindConflict",
            "\"CatList\" is already in use",
            "kind",
        ),
    ] {
        let all = decided(&[cats.clone(), definition(kind, &names)]);
        assert!(holds(&all[0], NAMES_ACCEPTED));
        let told = condition(&all[1], NAMES_ACCEPTED);
        assert_eq!(told, ("False", reason, message), "{names}");
        let expected = ("False", "NotAccepted", "not all names are accepted");
        assert_eq!(condition(&all[1], ESTABLISHED), expected);
        let accepted = &all[1]["status"]["acceptedNames"];
        assert!(
            accepted.get(refused).is_none_or(|name| name == ""),
            "{accepted}"
        );
        assert_eq!(accepted["listKind"], all[1]["spec"]["names"]["listKind"]);
    }
}

#[test]
fn names_are_free_again_when_their_owner_is_gone_and_others_do_not_matter() {
    let cat = json!({"plural": "cats", "singular": "cat"});
    let tom = json!({"plural": "toms", "singular": "cat"});
    let all = decided(&[definition("Cat", &cat), definition("Tom", &tom)]);
    assert!(!holds(&all[1], NAMES_ACCEPTED));
    let alone = decided(&all[1..]);
    assert!(holds(&alone[0], NAMES_ACCEPTED));
    assert_eq!(alone[0]["status"]["acceptedNames"]["singular"], "cat");
    let mut other = definition("Cat", &cat);
    other["metadata"]["name"] = "cats.example.org".into();
    other["spec"]["group"] = "example.org".into();
    let all = decided(&[definition("Cat", &cat), other]);
    assert!(holds(&all[1], NAMES_ACCEPTED));
}

#[test]
fn an_established_definition_keeps_what_it_has_when_it_asks_for_more() {
    let cats = definition(
        "Cat",
        &json!({"plural": "cats", "singular": "cat", "shortNames": ["c"]}),
    );
    let dogs = definition(
        "Dog",
        &json!({"plural": "dogs", "singular": "dog", "shortNames": ["d"]}),
    );
    let mut all = decided(&[cats, dogs]);
    established().set(&mut all[1], clock::now());
    all[1]["spec"]["names"]["shortNames"] = json!(["d", "c"]);
    let all = decided(&all);
    assert_eq!(
        all[1]["status"]["acceptedNames"]["shortNames"],
        json!(["d"])
    );
    assert!(!holds(&all[1], NAMES_ACCEPTED) && holds(&all[1], ESTABLISHED));
    // It is served all the while, as it was accepted.
    let served = read::definition(&all[1]);
    assert_eq!(served.names.short_names, ["d"]);
}

#[test]
fn the_names_of_built_in_kinds_are_taken() {
    let names = json!({"plural": "gateways", "singular": "gateway", "shortNames": ["deploy"]});
    let mut ours = definition("Gateway", &names);
    ours["spec"]["group"] = "apps".into();
    let all = decided(&[ours]);
    let expected = (
        "False",
        "ShortNamesConflict",
        "\"deploy\" is already in use",
    );
    assert_eq!(condition(&all[0], NAMES_ACCEPTED), expected);
}

#[test]
fn a_definition_in_a_group_of_kubernetes_says_whether_it_is_approved() {
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let missing = format!(
        "protected groups must have approval annotation \"api-approved.kubernetes.io\", {see}"
    );
    let invalid = format!(
        "protected groups must have approval annotation \"api-approved.kubernetes.io\" with \
         either a URL or a reason starting with \"unapproved\", {see}"
    );
    let mut cats = definition("Cat", &json!({"plural": "cats", "singular": "cat"}));
    assert!(!has(&decided(&[cats.clone()])[0], APPROVAL_CONFORMANT));
    cats["spec"]["group"] = "pets.k8s.io".into();
    for (annotation, expected) in [
        (json!(null), ("False", "MissingAnnotation", &*missing)),
        (json!("yes"), ("False", "InvalidAnnotation", &*invalid)),
        (
            json!("unapproved, a test"),
            (
                "False",
                "UnapprovedAnnotation",
                "not approved: \"unapproved, a test\"",
            ),
        ),
        (
            json!("https://example.com/1"),
            (
                "True",
                "ApprovedAnnotation",
                "approved in https://example.com/1",
            ),
        ),
    ] {
        cats["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        let all = decided(&[cats.clone()]);
        assert_eq!(condition(&all[0], APPROVAL_CONFORMANT), expected);
        assert!(holds(&all[0], NAMES_ACCEPTED));
        assert_eq!(decided(&all), all);
        cats = all.into_iter().next().unwrap();
    }
}
