use serde_json::{Value, json};

use super::*;

fn terms(terms: Value) -> NodeTerms {
    let terms: Vec<NodeSelectorTerm> = serde_json::from_value(terms).unwrap();
    NodeTerms::read(&terms)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn requirements_on_nodes_are_checked_by_operator() {
    let node = labels(&[("disk", "ssd"), ("cores", "8")]);
    for (key, operator, values, holds) in [
        ("disk", "In", json!(["ssd", "nvme"]), true),
        ("disk", "NotIn", json!(["ssd"]), false),
        ("gpu", "NotIn", json!(["a"]), true),
        ("disk", "Exists", json!(null), true),
        ("gpu", "DoesNotExist", json!(null), true),
        ("cores", "Gt", json!(["7"]), true),
        ("cores", "Lt", json!(["8"]), false),
        ("disk", "Gt", json!(["7"]), false),
        ("disk", "Like", json!(["s"]), false),
    ] {
        let one = json!({"key": key, "operator": operator, "values": values});
        let all = terms(json!([{"matchExpressions": [one]}]));
        assert_eq!(all.matches("n", &node), holds, "{key} {operator} {values}");
    }
}

#[test]
fn one_term_of_several_is_enough_and_an_empty_one_matches_nothing() {
    let wants =
        |value| json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]});
    let node = labels(&[("disk", "ssd")]);
    assert!(terms(json!([wants("hdd"), wants("ssd")])).matches("n", &node));
    assert!(!terms(json!([{}])).matches("n", &node));
    assert!(!terms(json!([])).matches("n", &node));
}

#[test]
fn terms_on_names_tell_the_only_nodes_that_can_match() {
    let named = |values: Value| json!({"key": "metadata.name", "operator": "In", "values": values});
    let by_name = |values| json!({"matchFields": [named(values)]});
    let long = "n".repeat(200);
    let both = terms(json!([by_name(json!(["a", "b"])), by_name(json!([long]))]));
    assert_eq!(
        both.names(),
        Some(BTreeSet::from(["a", "b", long.as_str()]))
    );
    assert!(both.matches(&long, &Labels::new()));
    let conflict = terms(json!([{"matchFields": [named(json!(["a"])), named(json!(["b"]))]}]));
    assert_eq!(conflict.names(), Some(BTreeSet::new()));
    let open = json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]});
    assert_eq!(terms(json!([by_name(json!(["a"])), open])).names(), None);
}

#[test]
fn a_missing_selector_selects_nothing_and_an_empty_one_everything() {
    let pod = labels(&[("app", "web")]);
    assert!(!Selector::read(None).matches(&pod));
    let empty = Selector::read(Some(&Default::default()));
    assert!(empty.matches(&pod) && empty.is_everything());
    let mut keyed = Selector::read(Some(&Default::default()));
    keyed.require(Some(&["app".into(), "gone".into()]), &pod, true);
    assert!(keyed.matches(&pod) && !keyed.matches(&labels(&[("app", "db")])));
}
