use super::*;

/// What Kubernetes makes, by the generator of the machinery crate.
const GOLDEN: &str = include_str!("golden.jsonl");

#[test]
fn the_objects_are_those_of_kubernetes() {
    let golden: Vec<Value> = GOLDEN
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(golden.len(), all().len());
    for wanted in golden {
        let name = object::name(&wanted);
        let is_schema = wanted["spec"].get("matchingPrecedence").is_some();
        let kind = if is_schema { SCHEMA } else { LEVEL };
        let mut ours = all().iter();
        let found = ours.find(|one| (object::kind(one), object::name(one)) == (kind, name));
        let found = found.unwrap_or_else(|| panic!("{kind} {name} is missing"));
        assert_eq!(found["spec"], wanted["spec"], "{kind} {name}");
        let annotations = |one: &Value| object::annotations(one).cloned();
        assert_eq!(annotations(found), annotations(&wanted), "{kind} {name}");
    }
}

#[test]
fn only_two_of_each_kind_are_mandatory() {
    for kind in [SCHEMA, LEVEL] {
        let of_kind = all().iter().filter(|one| object::kind(one) == kind);
        let mandatory = of_kind.filter(|one| mandatory(kind, object::name(one)).is_some());
        let names: Vec<&str> = mandatory.map(object::name).collect();
        assert_eq!(names, [EXEMPT, CATCH_ALL]);
    }
}
