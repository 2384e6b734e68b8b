use super::*;
use crate::{object, schema, strict};

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

#[test]
fn objects_that_say_little_are_filled_in_as_by_go() {
    for line in include_str!("../../testdata/defaults.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (group, version) = schema::split_api_version(object::api_version(&line["before"]));
        let kind = object::kind(&line["before"]).to_owned();
        let message = schema::body(group, version, &kind).unwrap();
        let mut object = strict::prune(&line["before"], message).unwrap().object;
        apply(group, &kind, &mut object);
        let after = without_nulls(line["after"].clone());
        assert_eq!(object, after, "{}", line["before"]);
        apply(group, &kind, &mut object);
        assert_eq!(object, after, "the second time changes nothing");
    }
}
