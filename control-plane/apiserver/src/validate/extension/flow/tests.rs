use serde_json::{Value, json};

use super::{Causes, level, schema};
use crate::resources::flow_control;

fn told(causes: Causes) -> Vec<String> {
    let told = causes.into_iter();
    told.map(|one| format!("{}: {}", one.field, one.message))
        .collect()
}

fn of_schema(spec: Value) -> Vec<String> {
    told(schema(&json!({"metadata": {"name": "x"}, "spec": spec})))
}

fn of_level(spec: Value) -> Vec<String> {
    told(level(&json!({"metadata": {"name": "x"}, "spec": spec})))
}

fn with_rule(rule: Value) -> Vec<String> {
    of_schema(json!({
        "priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 7, "rules": [rule],
    }))
}

fn with_queuing(queuing: Value) -> Vec<String> {
    let response = json!({"type": "Queue", "queuing": queuing});
    of_level(json!({"type": "Limited", "limited": {"limitResponse": response}}))
}

#[test]
fn the_objects_of_every_server_are_valid() {
    for object in flow_control::all() {
        let causes = match machinery::object::kind(object) {
            flow_control::SCHEMA => schema(object),
            _ => level(object),
        };
        assert_eq!(told(causes), [""; 0], "{object}");
    }
}

#[test]
fn mandatory_objects_are_fixed_except_the_shares_of_the_exempt() {
    for object in flow_control::all() {
        let name = machinery::object::name(object);
        let mut changed = object.clone();
        let is_schema = machinery::object::kind(object) == flow_control::SCHEMA;
        if is_schema {
            changed["spec"]["rules"] = json!([]);
        } else if changed["spec"].get("limited").is_some() {
            changed["spec"]["limited"]["nominalConcurrencyShares"] = 77.into();
        } else {
            changed["spec"]["exempt"]["nominalConcurrencyShares"] = 77.into();
        }
        let causes = told(if is_schema {
            schema(&changed)
        } else {
            level(&changed)
        });
        let is_fixed = name == "catch-all" || is_schema && name == "exempt";
        if is_fixed {
            let why = format!("spec of '{name}' must equal the fixed value");
            assert_eq!(causes.len(), 1, "{causes:?}");
            assert!(causes[0].ends_with(&why), "{causes:?}");
        } else {
            assert_eq!(causes, [""; 0], "{name}");
        }
    }
}

#[test]
fn schemas_name_a_level_and_an_order() {
    let causes = of_schema(json!({
        "priorityLevelConfiguration": {"name": ""}, "matchingPrecedence": 1,
        "distinguisherMethod": {"type": "ByMoon"},
    }));
    assert_eq!(
        causes,
        [
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            "spec.distinguisherMethod.type: Unsupported value: {\"type\":\"ByMoon\"}: supported values: \"ByNamespace\", \"ByUser\"",
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ]
    );
    for (precedence, why) in [
        (-1, "must be a positive value"),
        (10_001, "must not be greater than 10000"),
    ] {
        let level = json!({"name": "l"});
        let causes = of_schema(
            json!({"priorityLevelConfiguration": level, "matchingPrecedence": precedence}),
        );
        let told = format!("spec.matchingPrecedence: Invalid value: {precedence}: {why}");
        assert_eq!(causes, [told]);
    }
}

#[test]
fn rules_of_schemas_have_subjects_and_something_to_do() {
    let at = "spec.rules[0]";
    assert_eq!(
        with_rule(json!({})),
        [
            format!("{at}.subjects: Required value: subjects must contain at least one value"),
            format!(
                "{at}: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"
            ),
        ]
    );
    let causes = with_rule(json!({
        "subjects": [
            {"kind": "User", "group": {"name": "g"}},
            {"kind": "ServiceAccount", "serviceAccount": {"name": "*"}},
            {"kind": "Robot"},
        ],
        "resourceRules": [{"verbs": ["*", "get"], "apiGroups": [""], "resources": ["pods"],
            "namespaces": ["A"]}],
        "nonResourceRules": [{"verbs": ["fly"], "nonResourceURLs": ["/a*", "b", "/c/*"]}],
    }));
    let expected = [
        "subjects[0].user: Required value: user is required when subject kind is 'User'",
        "subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
        "subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
        "subjects[2].kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
        "resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
        "resourceRules[0].namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label;",
        "nonResourceRules[0].verbs: Unsupported value: [\"fly\"]: supported values:",
        "nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*\": wildcard can only do suffix matching",
        "nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"b\": must start with slash",
    ];
    assert_eq!(causes.len(), expected.len(), "{causes:#?}");
    for (cause, expected) in causes.iter().zip(expected) {
        let expected = format!("{at}.{expected}");
        assert!(cause.starts_with(&expected), "{cause}\n{expected}");
    }
}

#[test]
fn levels_are_limited_or_exempt_and_deal_hands_that_a_hash_can_choose() {
    assert_eq!(
        of_level(json!({"type": "Exempt"})),
        [
            "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"
        ]
    );
    assert_eq!(
        of_level(json!({"type": "Limited"})),
        ["spec.limited: Required value: must not be empty when type is Limited"]
    );
    let limited = json!({"nominalConcurrencyShares": -1, "lendablePercent": 101,
        "borrowingLimitPercent": -1, "limitResponse": {"type": "Reject", "queuing": {}}});
    let at = "spec.limited";
    assert_eq!(
        of_level(json!({"type": "Limited", "limited": limited})),
        [
            format!(
                "{at}.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"
            ),
            format!(
                "{at}.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"
            ),
            format!(
                "{at}.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"
            ),
            format!(
                "{at}.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"
            ),
        ]
    );
    let at = "spec.limited.limitResponse.queuing";
    assert_eq!(
        with_queuing(json!({"queues": 0, "handSize": 1, "queueLengthLimit": 0})),
        [
            format!("{at}.queueLengthLimit: Invalid value: 0: must be positive"),
            format!("{at}.queues: Invalid value: 0: must be positive"),
            format!("{at}.handSize: Invalid value: 1: should not be greater than queues (0)"),
        ]
    );
    assert_eq!(
        with_queuing(json!({"queues": 128, "handSize": 9, "queueLengthLimit": 1})),
        [format!(
            "{at}.handSize: Invalid value: 9: required entropy bits of deckSize 128 and handSize 9 should not be greater than 60"
        )]
    );
    assert_eq!(
        with_queuing(json!({"queues": 128, "handSize": 8, "queueLengthLimit": 1})),
        [""; 0]
    );
}
