use serde_json::json;

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
    for line in include_str!("../../../testdata/defaults.jsonl").lines() {
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

#[test]
fn flow_schemas_and_priority_levels_are_filled_in() {
    let group = "flowcontrol.apiserver.k8s.io";
    let mut schema = json!({"spec": {"matchingPrecedence": 0}});
    apply(group, "FlowSchema", &mut schema);
    assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
    let response = json!({"type": "Queue", "queuing": {"queues": 3, "handSize": 0}});
    let mut level = json!({"spec": {
        "exempt": {}, "limited": {"nominalConcurrencyShares": 0, "limitResponse": response},
    }});
    apply(group, "PriorityLevelConfiguration", &mut level);
    let none = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    assert_eq!(level["spec"]["exempt"], none);
    let queuing = json!({"queues": 3, "handSize": 8, "queueLengthLimit": 50});
    let limited = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing}});
    assert_eq!(level["spec"]["limited"], limited);
}

#[test]
fn services_that_requests_are_sent_to_have_a_port() {
    let service = json!({"namespace": "a", "name": "b"});
    let with_port = json!({"namespace": "a", "name": "b", "port": 443});

    let mut remote = json!({"spec": {"service": service}});
    apply("apiregistration.k8s.io", "APIService", &mut remote);
    assert_eq!(remote["spec"]["service"], with_port);
    let mut local = json!({"spec": {"group": "g"}});
    apply("apiregistration.k8s.io", "APIService", &mut local);
    assert_eq!(local, json!({"spec": {"group": "g"}}));

    let webhook = json!({"clientConfig": {"service": service}});
    let conversion = json!({"strategy": "Webhook", "webhook": webhook});
    let mut definition = json!({"spec": {"conversion": conversion}});
    let group = "apiextensions.k8s.io";
    apply(group, "CustomResourceDefinition", &mut definition);
    let found = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(*found, with_port);
}

#[test]
fn a_definition_knows_the_version_that_it_stores() {
    let versions = json!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]);
    let mut definition = json!({"spec": {"versions": versions}, "status": {}});
    let group = "apiextensions.k8s.io";
    apply(group, "CustomResourceDefinition", &mut definition);
    assert_eq!(definition["status"]["storedVersions"], json!(["v2"]));
    definition["status"]["storedVersions"] = json!(["v1"]);
    apply(group, "CustomResourceDefinition", &mut definition);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn volumes_that_are_attached_are_filled_in_as_others() {
    let volume = json!({"azureDisk": {}});
    let mut attachment = json!({"spec": {"source": {"inlineVolumeSpec": volume}}});
    apply("storage.k8s.io", "VolumeAttachment", &mut attachment);
    let disk = &attachment["spec"]["source"]["inlineVolumeSpec"]["azureDisk"];
    assert_eq!(disk["kind"], "Shared");
    let mut named = json!({"spec": {"source": {"persistentVolumeName": "v"}}});
    apply("storage.k8s.io", "VolumeAttachment", &mut named);
    assert_eq!(
        named,
        json!({"spec": {"source": {"persistentVolumeName": "v"}}})
    );
}
