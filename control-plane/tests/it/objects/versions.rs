//! Custom resources whose definition changes: who owns fields of versions that others do not have, and
//! what is read of objects that an earlier schema stored. The answers are those of Kubernetes' own
//! apiserver.

use std::time::Duration;

use serde_json::{Value, json};

use crate::admission::webhooks::world::{Answer, World};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.shop.example.com";
const KEY: &str = "/registry/shop.example.com/gadgets/default/g";
const APPLY: (&str, &str) = ("Content-Type", "application/apply-patch+yaml");
/// Between two looks at what is to become true.
const PAUSE: Duration = Duration::from_millis(5);

/// A version whose spec has these fields.
fn version(name: &str, fields: &Value) -> Value {
    let spec = json!({"type": "object", "properties": fields});
    json!({"name": name, "served": true, "storage": name == "v1", "schema":
        {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
}

fn definition(versions: &[Value]) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.shop.example.com"}, "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": versions}})
}

fn place(version: &str) -> String {
    format!("/apis/shop.example.com/{version}/namespaces/default/gadgets")
}

fn gadget(version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("shop.example.com/{version}"), "kind": "Gadget",
        "metadata": {"name": "g"}, "spec": spec})
}

async fn until(world: &World, path: &str, good: impl Fn(&Answer) -> bool) {
    while !good(&world.ask("GET", path, &Value::Null).await) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Changes the versions of the definition.
async fn set_versions(world: &World, versions: &[Value]) {
    let change = json!({"spec": {"versions": versions}});
    let changed = world.ask("PATCH", DEFINITION, &change).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
}

/// The managers of an object: name, version and fields below the spec.
fn managers(object: &Value) -> Vec<String> {
    let all = object["metadata"]["managedFields"].as_array();
    let all = all.into_iter().flatten().map(|one| {
        let text = |key: &str| one[key].as_str().unwrap();
        let fields = &one["fieldsV1"]["f:spec"];
        format!("{} {} {fields}", text("manager"), text("apiVersion"))
    });
    // Entries of one second are in the order of names, others in that of time.
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_another_managers_version_does_not_have_cannot_be_applied() {
    let world = World::start().await;
    let (integer, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    let v1 = version("v1", &json!({"size": integer, "first": text}));
    let v2 = version("v2", &json!({"size": integer, "second": text}));
    let mut v3 = version(
        "v3",
        &json!({"size": integer, "first": text, "second": text}),
    );
    let all = [v1.clone(), v2.clone(), v3.clone()];
    world.given(DEFINITIONS, &definition(&all)).await;
    until(&world, &place("v3"), |answer| answer.code == 200).await;
    let apply = async |version: &str, manager: &str, spec: Value, force: bool| {
        let path = format!("{}/g?fieldManager={manager}&force={force}", place(version));
        world
            .ask_with("PATCH", &path, APPLY, &gadget(version, spec))
            .await
    };
    let made = apply("v1", "one", json!({"size": 1}), false).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let refused = apply("v2", "two", json!({"second": "x"}), false).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            500,
            "failed to convert new object: .spec.second: field not declared in schema"
        )
    );
    assert_eq!(refused.body.get("reason"), None);

    // Any other write goes through, and the object loses its managers.
    let path = format!("{}/g?fieldManager=three", place("v2"));
    let change = json!({"spec": {"second": "y"}});
    let changed = world.ask("PATCH", &path, &change).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    assert_eq!(changed.body["spec"], json!({"size": 1}));
    assert_eq!(managers(&changed.body), [] as [&str; 0]);
    let applied = apply("v2", "two", json!({"second": "x"}), false).await;
    let before = r#"before-first-apply shop.example.com/v2 {".":{},"f:size":{}}"#;
    let two = r#"two shop.example.com/v2 {"f:second":{}}"#;
    assert_eq!(managers(&applied.body), [before, two]);
    let refused = apply("v1", "one", json!({"size": 2}), false).await;
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" \
         using shop.example.com/v2: .spec.size"
    );
    let taken = apply("v3", "three", json!({"size": 2}), true).await;
    let three = r#"three shop.example.com/v3 {"f:size":{}}"#;
    let before = "before-first-apply shop.example.com/v2 {}";
    assert_eq!(managers(&taken.body), [before, three, two]);

    // A version that is not served any more still says what its managers own.
    v3["served"] = false.into();
    set_versions(&world, &[v1.clone(), v2.clone(), v3]).await;
    until(&world, &place("v3"), |answer| answer.code == 404).await;
    let refused = apply("v1", "one", json!({"size": 3}), false).await;
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"three\": .spec.size"
    );
    // One that is gone keeps everybody from applying, until a write drops the managers.
    set_versions(&world, &[v1, v2]).await;
    let refused = loop {
        let refused = apply("v1", "one", json!({"size": 3}), false).await;
        // A request that began before the change may find nothing.
        if ![404, 409].contains(&refused.code) {
            break refused;
        }
        tokio::time::sleep(PAUSE).await;
    };
    assert_eq!(
        (refused.code, refused.message()),
        (
            500,
            "request to convert CR to an invalid group/version: shop.example.com/v3"
        )
    );
    let path = format!("{}/g?fieldManager=five", place("v1"));
    let changed = world
        .ask("PATCH", &path, &json!({"spec": {"size": 4}}))
        .await;
    assert_eq!(changed.body["spec"], json!({"size": 4}));
    assert_eq!(managers(&changed.body), [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_by_the_present_schema_and_stored_when_it_is_written() {
    let world = World::start().await;
    let text = json!({"type": "string"});
    let wide = version("v1", &json!({"kept": text, "gone": text}));
    let other = json!({"type": "string", "default": "d"});
    let narrow = version("v1", &json!({"kept": text, "new": other}));
    world
        .given(DEFINITIONS, &definition(std::slice::from_ref(&wide)))
        .await;
    let (collection, one) = (place("v1"), format!("{}/g", place("v1")));
    until(&world, &collection, |answer| answer.code == 200).await;
    let spec = json!({"kept": "a", "gone": "b"});
    world.given(&collection, &gadget("v1", spec.clone())).await;
    let mut earlier = world.watch(&format!("{collection}?")).await;
    assert_eq!(earlier.next().await.unwrap().1["spec"], spec);

    set_versions(&world, std::slice::from_ref(&narrow)).await;
    // Who watches must begin anew: what was sent has the former fields.
    while let Some((kind, _)) = earlier.next().await {
        assert!(["BOOKMARK", "ERROR"].contains(&&*kind), "{kind}");
    }
    let shown = json!({"kept": "a", "new": "d"});
    let is_shown = |answer: &Answer| answer.body["spec"] == shown;
    until(&world, &one, is_shown).await;
    // Unlike built-in kinds, custom ones take the method HEAD.
    assert_eq!(world.ask("HEAD", &one, &Value::Null).await.code, 200);
    let list = world.ask("GET", &collection, &Value::Null).await.body;
    assert_eq!(list["items"][0]["spec"], shown);
    let mut events = world.watch(&format!("{collection}?")).await;
    assert_eq!(events.next().await.unwrap().1["spec"], shown);
    for accept in [
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    ] {
        let header = ("Accept", accept);
        for path in [&one, &collection] {
            let path = format!("{path}?includeObject=Object");
            let answer = world.ask_with("GET", &path, header, &Value::Null).await;
            let shown = answer.body.to_string();
            // The managers keep what they own.
            let has = |text: &str| shown.contains(text);
            assert!(has("new"), "{shown}");
            assert!(!has("gone: b") && !has("\"gone\":\"b\""), "{shown}");
        }
    }
    assert_eq!(world.stored(KEY).await["spec"], spec);

    // A schema that has the field again finds it, until the object is written by one without.
    set_versions(&world, std::slice::from_ref(&wide)).await;
    until(&world, &one, |answer| answer.body["spec"] == spec).await;
    set_versions(&world, &[narrow]).await;
    until(&world, &one, is_shown).await;
    let same = world.ask("GET", &one, &Value::Null).await.body;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let written = world.ask("PUT", &one, &same).await.body;
    assert_ne!(version(&written), version(&same));
    assert_eq!(world.stored(KEY).await["spec"], shown);
    let again = world.ask("PUT", &one, &written).await.body;
    assert_eq!(version(&again), version(&written));
    set_versions(&world, &[wide]).await;
    let is_wide = |answer: &Answer| answer.body["spec"] == json!({"kept": "a"});
    until(&world, &one, is_wide).await;
}
