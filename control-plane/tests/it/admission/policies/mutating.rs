//! Policies that change objects.

use serde_json::{Value, json};

use super::{MAPS, holding, merge};
use crate::admission::webhooks::server::{allow, patch};
use crate::admission::webhooks::world::{GROUP, World, label, map, pod, rule};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn apply(expression: &str) -> Value {
    let configuration = json!({"expression": expression});
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": configuration})
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Adds a policy about writes of maps and pods, and a binding of the same name.
async fn govern(world: &World, name: &str, mutation: Value, more: Value) {
    let mut spec = json!({"mutations": [mutation], "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule("CREATE", "configmaps"), rule("CREATE", "pods"),
            rule("UPDATE", "configmaps")]}});
    merge(&mut spec, more);
    let policy = json!({"kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": spec});
    world
        .given(&format!("{GROUP}/mutatingadmissionpolicies"), &policy)
        .await;
    let binding = json!({"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name}});
    world
        .given(
            &format!("{GROUP}/mutatingadmissionpolicybindings"),
            &binding,
        )
        .await;
}

async fn governed(mutation: Value, more: Value) -> World {
    let world = World::start().await;
    govern(&world, "p", mutation, more).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_merged_into_the_object() {
    let labels =
        "Object{metadata: Object.metadata{labels: {'env': namespaceObject.metadata.name}}}";
    let world = governed(apply(labels), json!({})).await;
    let mut object = holding("a", json!({"k": "v"}));
    object["metadata"]["labels"] = json!({"app": "x"});
    let made = world.post(MAPS, &object).await.body;
    assert_eq!(
        made["metadata"]["labels"],
        json!({"app": "x", "env": "default"})
    );
    assert_eq!(made["data"], object["data"]);
    let change = json!({"metadata": {"labels": {"env": null}}});
    let changed = world.ask("PATCH", &format!("{MAPS}/a"), &change).await.body;
    assert_eq!(changed["metadata"]["labels"]["env"], "default");
    let containers = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', \
                      image: 'i:2'}]}}";
    let world = governed(apply(containers), json!({})).await;
    let made = world.post(PODS, &pod("p")).await.body;
    let containers = made["spec"]["containers"].as_array().unwrap();
    let names: Vec<_> = containers.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["c", "side"]);
    let side = &containers[1];
    assert_eq!(
        side["imagePullPolicy"], "IfNotPresent",
        "it has its defaults: {side}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_does_not_fit_is_an_error_of_the_policy() {
    for (expression, why) in [
        (
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', \
             command: ['x']}]}}",
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps \
             or structs: .spec.containers[0].command",
        ),
        (
            "Object{spec: Object.spec{wrong: 1}}",
            "error applying patch: failed to convert patch object to typed object: .spec.wrong: \
             field not declared in schema",
        ),
        (
            "Object{spec: Object.wrong{nodeName: 'n'}}",
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which \
             matches field name path from root Object type",
        ),
        (
            "Object{spec: Object.spec{nodeName: object.none}}",
            "expression 'Object{spec: Object.spec{nodeName: object.none}}' resulted in error: no \
             such key: none",
        ),
    ] {
        let world = governed(apply(expression), json!({})).await;
        let answer = world.post(PODS, &pod("p")).await;
        let expected = format!("policy 'p' with binding 'p' denied request: {why}");
        let given = (answer.code, &answer.body["reason"], answer.message());
        assert_eq!(given, (403, &json!("Invalid"), expected.as_str()));
        assert_eq!(
            answer.body["details"]["causes"],
            json!([{"message": expected}])
        );
        let world = governed(apply(expression), json!({"failurePolicy": "Ignore"})).await;
        assert_eq!(world.post(PODS, &pod("p")).await.code, 201, "{expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_json_patch_is_applied_unless_its_test_fails() {
    let add = "JSONPatch{op: 'add', path: '/metadata/labels', value: {'a/b': string(variables.n)}}";
    let add = format!("[JSONPatch{{op: 'test', path: '/data/k', value: 'v'}}, {add}]");
    let variables = json!({"variables": [{"name": "n", "expression": "size(object.data) + 1"}]});
    let world = governed(json_patch(&add), variables).await;
    let made = world
        .post(MAPS, &holding("a", json!({"k": "v"})))
        .await
        .body;
    assert_eq!(made["metadata"]["labels"], json!({"a/b": "2"}));
    let made = world
        .post(MAPS, &holding("b", json!({"k": "w"})))
        .await
        .body;
    assert_eq!(made["metadata"].get("labels"), None, "{made}");

    let replace = "[JSONPatch{op: 'replace', path: '/metadata/labels/' + \
                   jsonpatch.escapeKey('a/b~c'), value: 'new'}]";
    let world = governed(json_patch(replace), json!({})).await;
    let mut object = map("a");
    object["metadata"]["labels"] = json!({"a/b~c": "old"});
    object["metadata"]["annotations"] = object["metadata"]["labels"].clone();
    object["metadata"]["labels"] = json!({});
    let answer = world.post(MAPS, &object).await;
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (403, &json!("Invalid"))
    );
    let begin = "policy 'p' with binding 'p' denied request: JSON Patch: ";
    assert!(answer.message().starts_with(begin), "{}", answer.message());

    let unknown = "[JSONPatch{op: 'add', path: '/wrong', value: 1}]";
    let world = governed(json_patch(unknown), json!({})).await;
    let answer = world.post(MAPS, &map("a")).await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.message().contains("unknown field"),
        "{}",
        answer.message()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_and_parameters_narrow_a_policy() {
    let expression = "Object{data: {'from': params.data.value}}";
    let more = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "c", "expression": "has(object.data)"}]});
    let world = World::start().await;
    world
        .given(MAPS, &holding("x", json!({"value": "param"})))
        .await;
    govern(&world, "p", apply(expression), more).await;
    let one = format!("{GROUP}/mutatingadmissionpolicybindings/p");
    let reference = json!({"name": "x", "parameterNotFoundAction": "Deny"});
    let change = json!({"spec": {"paramRef": reference}});
    assert_eq!(world.ask("PATCH", &one, &change).await.code, 200);
    let made = world
        .post(MAPS, &holding("a", json!({"k": "v"})))
        .await
        .body;
    assert_eq!(made["data"], json!({"k": "v", "from": "param"}));
    let made = world.post(MAPS, &map("b")).await.body;
    assert_eq!(made.get("data"), None, "{made}");
    let path = format!("{MAPS}/x");
    assert_eq!(world.ask("DELETE", &path, &Value::Null).await.code, 200);
    let answer = world.post(MAPS, &holding("c", json!({}))).await;
    let expected = "policy 'p' with binding 'p' denied request: failed to configure binding: no \
                    params found for policy binding with `Deny` parameterNotFoundAction";
    let given = (answer.code, &answer.body["reason"], answer.message());
    assert_eq!(given, (403, &json!("Forbidden"), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_come_before_webhooks_and_see_their_changes_if_they_want_to() {
    for (policy, expected) in [("Never", "0"), ("IfNeeded", "1")] {
        let count = "Object{data: {'labels': string(has(object.metadata.labels) ? \
                     size(object.metadata.labels) : 0)}}";
        let more = json!({ "reinvocationPolicy": policy });
        let world = governed(apply(count), more).await;
        world.hook.on("/m", |_| patch(&label("m")));
        world.configure("Mutating", "m", "/m", json!({})).await;
        let made = world.post(MAPS, &map("a")).await.body;
        assert_eq!(made["metadata"]["labels"], json!({"m": "yes"}));
        assert_eq!(made["data"]["labels"], expected, "{policy}");
        let (_, request) = world.hook.calls().pop().unwrap();
        assert_eq!(request["object"]["data"]["labels"], "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_an_object_one_after_the_other() {
    let world = World::start().await;
    world.hook.on("/v", allow);
    govern(&world, "a", apply("Object{data: {'a': '1'}}"), json!({})).await;
    let second = "Object{data: {'b': object.data.a + '2'}}";
    govern(&world, "b", apply(second), json!({})).await;
    world.configure("Validating", "v", "/v", json!({})).await;
    let made = world.post(MAPS, &map("x")).await.body;
    assert_eq!(made["data"], json!({"a": "1", "b": "12"}));
    let (_, request) = world.hook.calls().pop().unwrap();
    assert_eq!(request["object"]["data"], made["data"]);
    assert_eq!(
        world
            .ask("DELETE", &format!("{MAPS}/x"), &Value::Null)
            .await
            .code,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_changed_by_its_schema() {
    let world = World::start().await;
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "required": ["name"],
        "properties": {"name": text, "v": text}});
    let list = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"], "items": item});
    let spec = json!({"type": "object", "properties": {"list": list}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({"kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.given(definitions, &definition).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let more = json!({"matchConstraints": {"resourceRules": [rule("CREATE", "widgets")]}});
    let expression = "Object{spec: Object.spec{list: [Object.spec.list{name: 'b', v: '2'}]}}";
    govern(&world, "p", apply(expression), more).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {"list": [{"name": "a"}, {"name": "b", "v": "1"}]}});
    let mut answer = world.post(widgets, &widget).await;
    while answer.code == 404 {
        tokio::task::yield_now().await;
        answer = world.post(widgets, &widget).await;
    }
    let expected = json!([{"name": "a"}, {"name": "b", "v": "2"}]);
    assert_eq!(answer.body["spec"]["list"], expected, "{}", answer.body);
}
