//! Conversion webhooks of custom resources: what is stored, what each version shows, which calls
//! that needs, and what happens when the webhook is broken.

use std::time::Duration;

use serde_json::{Value, json};

use crate::admission::webhooks::server::{Reply, allow};
use crate::admission::webhooks::world::{Answer, Events, World, rule};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.shop.example.com";
const V1: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/shop.example.com/v2/namespaces/default/widgets";
const METADATA: (&str, &str) = (
    "Accept",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
);
const APPLY: (&str, &str) = ("Content-Type", "application/apply-patch+yaml");
/// Between two looks at what is to become true.
const PAUSE: Duration = Duration::from_millis(5);

/// What the fields of the spec are called in each version.
const FIELDS: [(&str, &str); 2] = [("color", "paint"), ("count", "number")];

fn version(name: &str, stored: bool) -> Value {
    let field = |at: usize| match name {
        "v1" => [FIELDS[0].0, FIELDS[1].0][at],
        _ => [FIELDS[0].1, FIELDS[1].1][at],
    };
    let (color, count) = (field(0), field(1));
    let spec = json!({"type": "object", "properties": {
        color: {"type": "string"}, count: {"type": "integer"},
        "size": {"type": "string", "default": format!("of {name}")}}});
    let status = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    json!({
        "name": name, "served": true, "storage": stored,
        "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": spec, "status": status}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": format!(".spec.{count}"),
            "statusReplicasPath": ".status.count"}},
        "selectableFields": [{"jsonPath": format!(".spec.{color}")}],
        "additionalPrinterColumns":
            [{"name": color, "type": "string", "jsonPath": format!(".spec.{color}")}],
    })
}

fn widget(name: &str, color: &str) -> Value {
    json!({"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"color": color}})
}

fn newer(name: &str, paint: &str) -> Value {
    json!({"apiVersion": "shop.example.com/v2", "kind": "Widget", "metadata": {"name": name},
        "spec": {"paint": paint}})
}

/// What a good webhook makes of an object.
fn converted(object: &Value, wanted: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = wanted.clone();
    let to_newer = wanted == "shop.example.com/v2";
    if let Some(spec) = object["spec"].as_object_mut() {
        for (old, new) in FIELDS {
            let (from, to) = if to_newer { (old, new) } else { (new, old) };
            if let Some(value) = spec.remove(from) {
                spec.insert(to.to_owned(), value);
            }
        }
    }
    object
}

fn success(objects: Vec<Value>) -> Reply {
    Reply::Review(json!({"result": {"status": "Success"}, "convertedObjects": objects}))
}

fn convert(request: &Value) -> Reply {
    let objects = request["objects"].as_array().unwrap().iter();
    let wanted = &request["desiredAPIVersion"];
    success(objects.map(|one| converted(one, wanted)).collect())
}

/// A world with widgets in two versions, of which the first is stored.
async fn world() -> World {
    let world = World::start().await;
    world.hook.on("/convert", convert);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": world.hook.config("/convert")}},
        },
    });
    world.given(DEFINITIONS, &definition).await;
    until(&world, V2, |answer| answer.code == 200).await;
    world
}

async fn until(world: &World, path: &str, good: impl Fn(&Answer) -> bool) {
    while !good(&world.ask("GET", path, &Value::Null).await) {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn get(world: &World, path: &str) -> Value {
    let answer = world.ask("GET", path, &Value::Null).await;
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    answer.body
}

async fn patch(world: &World, path: &str, change: Value) -> Value {
    let answer = world.ask("PATCH", path, &change).await;
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    answer.body
}

/// How many objects each call since the last look was about.
fn calls(world: &World) -> Vec<usize> {
    let calls = world.hook.calls().into_iter();
    let objects = calls.map(|(_, request)| request["objects"].as_array().unwrap().len());
    objects.collect()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_shows_what_the_webhook_makes_of_the_stored_object() {
    let world = world().await;
    let made = world.post(V2, &newer("a", "red")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["apiVersion"], "shop.example.com/v2");
    assert_eq!(made.body["spec"], json!({"paint": "red", "size": "of v2"}));
    let stored = world
        .stored("/registry/shop.example.com/widgets/default/a")
        .await;
    assert_eq!(stored["apiVersion"], "shop.example.com/v1");
    assert_eq!(stored["spec"], json!({"color": "red", "size": "of v2"}));

    // The stored version needs no call, the other needs one for each state of an object.
    calls(&world);
    let one = format!("{V1}/a");
    assert_eq!(get(&world, &one).await["spec"], stored["spec"]);
    assert_eq!(calls(&world), [0; 0]);
    let (path, request) = {
        let one = get(&world, &format!("{V2}/a")).await;
        assert_eq!(one["spec"], made.body["spec"]);
        assert_eq!(one["metadata"], made.body["metadata"]);
        world.hook.calls().pop().unwrap()
    };
    assert_eq!(path, "/convert?timeout=30s");
    assert_eq!(request["desiredAPIVersion"], "shop.example.com/v2");
    assert_eq!(request["objects"][0]["spec"], stored["spec"]);
    get(&world, &format!("{V2}/a")).await;
    get(&world, &format!("{V2}/a?resourceVersion=0")).await;
    assert_eq!(calls(&world), [0; 0]);

    // Objects written before a webhook was there for them get the defaults of their own version.
    for name in ["b", "c", "d"] {
        world.given(V1, &widget(name, "blue")).await;
    }
    let list = get(&world, V2).await;
    assert_eq!(names(&list), ["a", "b", "c", "d"]);
    assert_eq!(
        list["items"][3]["spec"],
        json!({"paint": "blue", "size": "of v1"})
    );
    assert_eq!(
        calls(&world),
        [3],
        "one call for all, a was converted before"
    );
    get(&world, &format!("{V2}?limit=2")).await;
    assert_eq!(calls(&world), [0; 0]);

    // Selectors and columns are about the version of the request.
    let red = get(&world, &format!("{V2}?fieldSelector=spec.paint=red")).await;
    assert_eq!(names(&red), ["a"]);
    let blue = get(&world, &format!("{V1}?fieldSelector=spec.color=blue")).await;
    assert_eq!(names(&blue), ["b", "c", "d"]);
    let wrong = world
        .ask(
            "GET",
            &format!("{V2}?fieldSelector=spec.color=red"),
            &Value::Null,
        )
        .await;
    assert_eq!(wrong.code, 400, "{}", wrong.body);
    let table = ("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let table = world.ask_with("GET", V2, table, &Value::Null).await.body;
    assert_eq!(table["columnDefinitions"][1]["name"], "paint");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_the_other_version_are_converted_back() {
    let world = world().await;
    world.given(V1, &widget("a", "red")).await;
    let (old, new) = (format!("{V1}/a"), format!("{V2}/a"));
    let patched = patch(&world, &new, json!({"spec": {"paint": "blue"}})).await;
    assert_eq!(patched["spec"]["paint"], "blue");
    assert_eq!(get(&world, &old).await["spec"]["color"], "blue");

    let status = patch(
        &world,
        &format!("{new}/status"),
        json!({"status": {"count": 2}}),
    )
    .await;
    assert_eq!(status["status"], json!({"count": 2}));
    assert_eq!(status["spec"]["paint"], "blue");
    let scale = patch(
        &world,
        &format!("{new}/scale"),
        json!({"spec": {"replicas": 3}}),
    )
    .await;
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(scale["status"]["replicas"], 2);
    assert_eq!(get(&world, &old).await["spec"]["count"], 3);
    assert_eq!(
        get(&world, &format!("{new}/scale")).await["spec"]["replicas"],
        3
    );

    // A write that changes nothing writes nothing.
    let now = get(&world, &new).await;
    let put = world.ask("PUT", &new, &now).await;
    assert_eq!((put.code, &put.body), (200, &now));

    // A finalizer holds it: the deletion is answered in the version of the request.
    patch(
        &world,
        &new,
        json!({"metadata": {"finalizers": ["example.com/f"]}}),
    )
    .await;
    let held = world.ask("DELETE", &new, &Value::Null).await.body;
    assert_eq!(held["spec"]["paint"], "blue", "{held}");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    patch(&world, &new, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(world.ask("GET", &new, &Value::Null).await.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_sent_before_the_next_one_is_converted() {
    let world = world().await;
    world.hook.on("/convert", |request| {
        if request["objects"][0]["metadata"]["name"] == "slow" {
            Reply::Silence
        } else {
            convert(request)
        }
    });
    let mut events = world.watch(&format!("{V2}?")).await;
    assert_eq!(begin(&mut events).await, []);
    for name in ["a", "slow"] {
        world.given(V1, &widget(name, "red")).await;
    }
    // Both changes are there before the first is read.
    assert_eq!(names(&get(&world, V1).await), ["a", "slow"]);
    let (kind, object) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &object["metadata"]["name"]),
        ("ADDED", &json!("a"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_cannot_show_what_there_is_ends_with_an_error() {
    let world = world().await;
    world
        .hook
        .on("/convert", |_| Reply::Raw(503, String::new()));
    world.given(V1, &widget("a", "red")).await;
    let mut events = world.watch(&format!("{V2}?")).await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(500)));
    assert!(events.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_another_webhook_converts() {
    let world = world().await;
    world.given(V1, &widget("a", "red")).await;
    let mut events = world.watch(&format!("{V2}?")).await;
    assert_eq!(begin(&mut events).await.len(), 1);
    world.hook.on("/other", convert);
    let mut definition = get(&world, DEFINITION).await;
    definition["spec"]["conversion"]["webhook"]["clientConfig"] = world.hook.config("/other");
    let changed = world.ask("PUT", DEFINITION, &definition).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let (kind, status) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    assert!(events.next().await.is_none());
    assert_eq!(get(&world, V2).await["items"][0]["spec"]["paint"], "red");
}

/// The events up to the first bookmark.
async fn begin(events: &mut Events) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    loop {
        let (kind, object) = events.next().await.unwrap();
        if kind == "BOOKMARK" {
            return all;
        }
        all.push((kind, object));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_the_other_version_share_the_calls() {
    let world = world().await;
    world.given(V1, &widget("a", "red")).await;
    world.given(V1, &widget("b", "red")).await;
    calls(&world);
    let mut first = world.watch(&format!("{V2}?")).await;
    let mut second = world
        .watch(&format!("{V2}?fieldSelector=spec.paint=red&"))
        .await;
    for events in [&mut first, &mut second] {
        let state = begin(events).await;
        assert_eq!(state.len(), 2);
        assert_eq!(state[1].1["apiVersion"], "shop.example.com/v2");
        assert_eq!(state[1].1["spec"]["paint"], "red");
    }
    assert_eq!(calls(&world), [2]);

    world.given(V1, &widget("c", "red")).await;
    let (one, other) = tokio::join!(first.next(), second.next());
    assert_eq!(one, other);
    let (kind, object) = one.unwrap();
    assert_eq!(
        (kind.as_str(), &object["spec"]["paint"]),
        ("ADDED", &json!("red"))
    );
    assert_eq!(calls(&world), [1]);

    // It leaves the selection of the second, which sees its old state.
    let change = json!({"spec": {"color": "blue"}});
    let now = patch(&world, &format!("{V1}/c"), change).await;
    let (one, other) = tokio::join!(first.next(), second.next());
    let ((one, object), (other, old)) = (one.unwrap(), other.unwrap());
    assert_eq!((one.as_str(), other.as_str()), ("MODIFIED", "DELETED"));
    assert_eq!(
        (&object["spec"]["paint"], &old["spec"]["paint"]),
        (&json!("blue"), &json!("red"))
    );
    assert_eq!(
        old["metadata"]["resourceVersion"],
        now["metadata"]["resourceVersion"]
    );
    assert_eq!(calls(&world), [1]);

    world.ask("DELETE", &format!("{V1}/a"), &Value::Null).await;
    let (one, other) = tokio::join!(first.next(), second.next());
    assert_eq!(one, other);
    assert_eq!(one.unwrap().0, "DELETED");
    assert_eq!(calls(&world), [1]);

    // A failure ends the watches with an error, also that of the webhook's next answer.
    world.hook.on("/convert", |_| {
        Reply::Review(json!({"result": {"status": "Failure", "message": "no paint left"}}))
    });
    world.given(V1, &widget("d", "red")).await;
    let (one, other) = tokio::join!(first.next(), second.next());
    assert_eq!(one, other);
    let (kind, status) = one.unwrap();
    assert_eq!(kind, "ERROR");
    assert_eq!(
        (&status["kind"], &status["code"]),
        (&json!("Status"), &json!(500))
    );
    assert_eq!(
        status["message"],
        "conversion webhook for shop.example.com/v1, Kind=Widget failed: no paint left"
    );
    assert!(first.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_webhook_stops_only_those_who_need_it() {
    let world = world().await;
    let objects = |request: &Value| -> Vec<Value> {
        let wanted = request["desiredAPIVersion"].clone();
        let objects = request["objects"].as_array().unwrap().iter();
        objects.map(|one| converted(one, &wanted)).collect()
    };
    world.hook.on("/convert", move |request| {
        success([objects(request), objects(request)].concat())
    });
    world.given(V1, &widget("count", "red")).await;
    let told = async |name: &str| {
        let answer = world
            .ask("GET", &format!("{V2}/{name}"), &Value::Null)
            .await;
        assert_eq!(answer.code, 500, "{}", answer.body);
        let begin = "conversion webhook for shop.example.com/v1, Kind=Widget ";
        answer.message().strip_prefix(begin).unwrap().to_owned()
    };
    assert_eq!(told("count").await, "returned 2 objects, expected 1");
    world.hook.on("/convert", move |request| {
        let mut all = objects(request);
        all[0]["metadata"]["uid"] = "x".into();
        success(all)
    });
    let why = told("count").await;
    assert!(
        why.starts_with("returned invalid object: must have the same UID: "),
        "{why}"
    );
    world
        .hook
        .on("/convert", |_| Reply::Review(json!({"uid": "x"})));
    let why = told("count").await;
    assert!(why.starts_with("failed: expected response.uid="), "{why}");
    world
        .hook
        .on("/convert", |_| Reply::Raw(404, String::new()));
    let why = told("count").await;
    assert_eq!(
        why,
        "failed: the server could not find the requested resource"
    );
    let refused = world.post(V2, &newer("new", "red")).await;
    assert_eq!(refused.code, 500, "{}", refused.body);
    assert_eq!(
        refused.message(),
        "conversion webhook for shop.example.com/v2, Kind=Widget failed: the server could not find \
         the requested resource"
    );
    world.hook.on("/convert", |_| Reply::Silence);

    // Those who need no conversion do not wait for it.
    get(&world, &format!("{V1}/count")).await;
    patch(
        &world,
        &format!("{V1}/count"),
        json!({"spec": {"color": "blue"}}),
    )
    .await;
    world
        .given(
            "/api/v1/namespaces/default/configmaps",
            &json!({"kind": "ConfigMap",
        "metadata": {"name": "m"}}),
        )
        .await;
    let list = world.ask_with("GET", V2, METADATA, &Value::Null).await;
    assert_eq!(list.code, 200, "{}", list.body);
    assert_eq!(names(&list.body), ["count"]);
    let deleted = world
        .ask("DELETE", &format!("{V2}/count"), &Value::Null)
        .await;
    assert_eq!(deleted.body["status"], "Success", "{}", deleted.body);
    assert_eq!(names(&get(&world, V1).await), [""; 0]);

    // Nor does the end of the definition, with objects that are left.
    world.given(V1, &widget("left", "red")).await;
    world.ask("DELETE", DEFINITION, &Value::Null).await;
    until(&world, DEFINITION, |answer| answer.code == 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_storage_version_is_reached_by_writes_that_change_nothing() {
    let world = world().await;
    world.given(V1, &widget("a", "red")).await;
    world.given(V1, &widget("b", "red")).await;
    let mut definition = get(&world, DEFINITION).await;
    definition["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
    let changed = world.ask("PUT", DEFINITION, &definition).await.body;
    assert_eq!(
        changed["status"]["storedVersions"],
        json!(["v1", "v2"]),
        "{changed}"
    );
    // Objects of this version are stored in it from here on.
    let key = |name: &str| format!("/registry/shop.example.com/widgets/default/{name}");
    for at in 0.. {
        let name = format!("new-{at}");
        world.given(V1, &widget(&name, "red")).await;
        if world.stored(&key(&name)).await["apiVersion"] == "shop.example.com/v2" {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let list = get(&world, V2).await;
    assert_eq!(list["items"][0]["spec"]["paint"], "red");
    assert_eq!(
        world.stored(&key("a")).await["apiVersion"],
        "shop.example.com/v1"
    );
    for (name, path) in [("a", V1), ("b", V2)] {
        let path = format!("{path}/{name}");
        let before = get(&world, &path).await;
        let after = world.ask("PUT", &path, &before).await;
        assert_eq!(after.code, 200, "{}", after.body);
        assert_eq!(after.body["spec"], before["spec"]);
        let stored = world.stored(&key(name)).await;
        assert_eq!(stored["apiVersion"], "shop.example.com/v2");
        assert_eq!(stored["spec"]["paint"], "red");
        let again = world.ask("PUT", &path, &after.body).await;
        assert_eq!(again.body, after.body, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_of_both_versions_own_the_same_fields() {
    let world = world().await;
    let apply = async |path: &str, query: &str, object: &Value| {
        world
            .ask_with("PATCH", &format!("{path}/a?{query}"), APPLY, object)
            .await
    };
    let made = apply(V1, "fieldManager=one", &widget("a", "red")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let refused = apply(V2, "fieldManager=two", &newer("a", "blue")).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.color"
    );
    let taken = apply(V2, "fieldManager=two&force=true", &newer("a", "blue")).await;
    assert_eq!(taken.code, 200, "{}", taken.body);
    assert_eq!(taken.body["spec"]["paint"], "blue");
    let managers = |object: &Value| {
        let all = object["metadata"]["managedFields"].as_array().unwrap();
        let shown = all.iter().map(|one| {
            let fields = one["fieldsV1"]["f:spec"].as_object();
            let fields = fields.map(|all| all.keys().cloned().collect::<Vec<_>>());
            let text = |key: &str| one[key].as_str().unwrap().to_owned();
            (
                text("manager"),
                text("apiVersion"),
                fields.unwrap_or_default(),
            )
        });
        shown.collect::<Vec<_>>()
    };
    let two = (
        "two".to_owned(),
        "shop.example.com/v2".to_owned(),
        vec!["f:paint".to_owned()],
    );
    assert_eq!(managers(&taken.body), [two]);

    // An update through the other version takes the field from its owner.
    let path = format!("{V1}/a?fieldManager=three");
    let changed = patch(&world, &path, json!({"spec": {"color": "green"}})).await;
    let three = (
        "three".to_owned(),
        "shop.example.com/v1".to_owned(),
        vec!["f:color".to_owned()],
    );
    assert_eq!(managers(&changed), [three]);

    // What a manager applied in one version and does not name in the other is removed.
    let both = json!({"apiVersion": "shop.example.com/v2", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {"number": 4}});
    apply(V2, "fieldManager=two", &both).await;
    let without = json!({"apiVersion": "shop.example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}});
    let removed = apply(V1, "fieldManager=two", &without).await;
    assert_eq!(removed.code, 200, "{}", removed.body);
    assert_eq!(removed.body["spec"].get("count"), None);
    assert_eq!(removed.body["spec"]["color"], "green");
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_sees_the_version_that_its_rules_name() {
    let world = world().await;
    world.hook.on("/v", allow);
    let mut only_first = rule("*", "widgets");
    only_first["apiVersions"] = json!(["v1"]);
    world
        .configure("Validating", "v", "/v", json!({"rules": [only_first]}))
        .await;
    world.given(V2, &newer("a", "red")).await;
    patch(
        &world,
        &format!("{V2}/a"),
        json!({"spec": {"paint": "blue"}}),
    )
    .await;
    world.ask("DELETE", &format!("{V2}/a"), &Value::Null).await;
    let calls = world.hook.calls().into_iter();
    let asked: Vec<Value> = calls
        .filter(|(path, _)| path.starts_with("/v?"))
        .map(|(_, request)| {
            json!([
                request["operation"],
                request["requestKind"]["version"],
                request["object"]["spec"]["color"],
                request["oldObject"]["spec"]["color"]
            ])
        })
        .collect();
    assert_eq!(
        asked,
        [
            json!(["CREATE", "v2", "red", null]),
            json!(["UPDATE", "v2", "blue", "red"]),
            json!(["DELETE", "v2", null, "blue"]),
        ]
    );
}
