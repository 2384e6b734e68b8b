use std::sync::Arc;
use std::time::Duration;

use machinery::structural::Schema;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::none::Unconverted;
use super::review::{Question, version};
use super::{PATIENCE, Webhook};
use crate::resources::catalogue::Catalogue;
use crate::resources::convert::Converter as _;
use crate::resources::custom::Schemas;
use crate::storage::reader::Reader;
use crate::storage::reflector::Reflector;
use crate::webhook::Endpoint;

const V1: &str = "shop.example.com/v1";
const V2: &str = "shop.example.com/v2";

fn widget(name: &str) -> Value {
    json!({"apiVersion": V1, "kind": "Widget", "spec": {"color": "red"}, "metadata": {
        "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
        "labels": {"a": "b"}, "finalizers": ["example.com/f"], "resourceVersion": "7",
    }})
}

fn newer(name: &str) -> Value {
    let mut one = widget(name);
    one["apiVersion"] = V2.into();
    one
}

fn question(objects: &[Value]) -> Question {
    let objects: Vec<&Value> = objects.iter().collect();
    Question::new("apiextensions.k8s.io/v1", &objects, V2)
}

/// What is made of a response that a change makes of a good one.
fn read(names: &[&str], change: impl Fn(&mut Value)) -> Result<Vec<Value>, String> {
    let objects: Vec<Value> = names.iter().map(|name| widget(name)).collect();
    let question = question(&objects);
    let converted: Vec<Value> = names.iter().map(|name| newer(name)).collect();
    let mut review = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": question.review["request"]["uid"], "result": {"status": "Success"},
            "convertedObjects": converted}});
    change(&mut review);
    question.read(&objects.iter().collect::<Vec<_>>(), review)
}

fn refused(names: &[&str], change: impl Fn(&mut Value)) -> String {
    let why = read(names, change).unwrap_err();
    let begin = "conversion webhook for shop.example.com/v1, Kind=Widget ";
    why.strip_prefix(begin).unwrap_or(&why).to_owned()
}

/// What is said of an object at a pointer that is another.
fn wrong_object(at: &str, value: Value) -> [String; 2] {
    [&["a"][..], &["b", "a"]].map(|names| {
        refused(names, |review| {
            let objects = &mut review["response"]["convertedObjects"];
            let last = objects.as_array_mut().unwrap().last_mut().unwrap();
            *last.pointer_mut(at).unwrap() = value.clone();
        })
    })
}

#[test]
fn a_review_asks_for_all_objects_at_once() {
    let asked = question(&[widget("a"), widget("b")]).review;
    let expected = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": asked["request"]["uid"], "desiredAPIVersion": V2,
            "objects": [widget("a"), widget("b")]}});
    assert_eq!(asked, expected);
    assert_eq!(
        version(&[json!("v9"), json!("v1beta1"), json!("v1")]),
        Some("apiextensions.k8s.io/v1beta1")
    );
    assert_eq!(version(&[json!("v9")]), None);
}

#[test]
fn only_labels_and_annotations_of_metadata_change() {
    let converted = read(&["a"], |review| {
        let one = &mut review["response"]["convertedObjects"][0];
        one["spec"] = json!({"paint": "red"});
        let metadata = &mut one["metadata"];
        metadata["finalizers"] = json!([]);
        metadata["resourceVersion"] = "9".into();
        metadata["labels"] = Value::Null;
        metadata["annotations"] = json!({"note": "x"});
    });
    let mut expected = newer("a");
    expected["spec"] = json!({"paint": "red"});
    expected["metadata"]["annotations"] = json!({"note": "x"});
    expected["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("labels");
    assert_eq!(converted.unwrap(), [expected]);
}

#[test]
fn answers_that_are_none_are_refused_in_kubernetes_words() {
    let one = |change: &dyn Fn(&mut Value)| refused(&["a"], change);
    let told = one(&|review| review["kind"] = "Review".into());
    assert_eq!(
        told,
        "failed: expected webhook response of apiextensions.k8s.io/v1, \
        Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Review"
    );
    let told = one(&|review| review["response"] = Value::Null);
    assert_eq!(told, "failed: no response provided");
    let told = one(&|review| review["response"]["uid"] = "x".into());
    assert!(
        told.starts_with("failed: expected response.uid=\""),
        "{told}"
    );
    assert!(told.ends_with("\", got \"x\""), "{told}");
    let told = one(&|review| review["response"]["result"] = json!({"status": "Failure"}));
    assert_eq!(
        told,
        "failed: response.result.status was 'Failure', not 'Success'"
    );
    let told = one(&|review| {
        review["response"]["result"] = json!({"status": "Failure", "message": "no paint"});
    });
    assert_eq!(told, "failed: no paint");
    let told = one(&|review| review["response"]["convertedObjects"] = json!([]));
    assert_eq!(told, "returned 0 objects, expected 1");
}

#[test]
fn objects_that_are_others_are_refused_in_kubernetes_words() {
    let said = |at: &str, value: Value, alone: &str, among: &str| {
        assert_eq!(wrong_object(at, value), [alone, among], "{at}");
    };
    let group = "invalid groupVersion (expected shop.example.com/v2, received x/v3)";
    let object = "returned invalid converted object at index 1:";
    said(
        "/apiVersion",
        json!("x/v3"),
        &format!("returned invalid object at index 0: {group}"),
        &format!("{object} {group}"),
    );
    let kind = "invalid kind (expected Widget, received Gadget)";
    said(
        "/kind",
        json!("Gadget"),
        &format!("returned invalid object at index 0: {kind}"),
        &format!("{object} {kind}"),
    );
    for (at, what, had, is) in [
        ("/metadata/name", "name", "a", "x"),
        ("/metadata/namespace", "namespace", "default", "y"),
        ("/metadata/uid", "UID", "uid-of-a", "z"),
    ] {
        let why = format!("must have the same {what}: {had} != {is}");
        said(
            at,
            json!(is),
            &format!("returned invalid object: {why}"),
            &format!("{object} {why}"),
        );
    }
    let metadata = "returned invalid metadata";
    for (value, why) in [
        (
            json!([]),
            "invalid metadata.labels of type []interface {} in converted object",
        ),
        (
            json!({"a": 1}),
            "metadata.labels[a] must be a string, but is int64 in converted object",
        ),
    ] {
        said(
            "/metadata/labels",
            value,
            &format!("{metadata}: {why}"),
            &format!("{metadata} in object at index 1: {why}"),
        );
    }
    let [told, _] = wrong_object("/metadata/labels", json!({"a b": "c"}));
    assert!(
        told.starts_with("returned invalid metadata: metadata.labels: Invalid value: \"a b\""),
        "{told}"
    );
    let [told, _] = wrong_object("/kind", json!(""));
    assert!(told.starts_with("Object 'Kind' is missing in '{"), "{told}");
}

fn schemas() -> Schemas {
    let schema = |field: &str| {
        let document = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {field: {"type": "string"}, "size": {"type": "string", "default": "s"}}}}});
        Some(Arc::new(Schema::parse(&document).unwrap()))
    };
    Schemas::from([
        (V1.to_owned(), schema("color")),
        (V2.to_owned(), schema("paint")),
    ])
}

/// A webhook at this address, with a reflector that it does not own.
fn webhook(address: &str, patience: Duration) -> (Webhook, Arc<Reflector>) {
    let Reader { store, reflector } = Reader::without_store(Catalogue::default());
    let config = json!({"url": format!("https://{address}/convert")});
    let webhook = Webhook {
        endpoint: Endpoint::of(&config),
        review_version: Some("apiextensions.k8s.io/v1"),
        schemas: schemas(),
        patience,
        store,
        reflector: Arc::downgrade(&reflector),
    };
    (webhook, reflector)
}

#[tokio::test]
async fn a_webhook_that_never_answers_is_given_up() {
    // The connection is made, but nobody accepts it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (webhook, _reflector) = webhook(&address, Duration::from_millis(10));
    let error = webhook.run(vec![widget("a")], V2).await.unwrap_err();
    let expected = format!(
        "conversion webhook for shop.example.com/v1, Kind=Widget failed: Post \
         \"https://{address}/convert?timeout=0s\": context deadline exceeded \
         (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(
        (error.code, error.reason, error.message),
        (500, "", expected)
    );
}

#[tokio::test]
async fn objects_that_need_no_conversion_call_nobody() {
    let (webhook, _reflector) = webhook("127.0.0.1:1", PATIENCE);
    let empty = json!({"apiVersion": V1, "kind": "Widget"});
    let converted = webhook.run(vec![newer("a"), empty], V2).await.unwrap();
    // The defaults of its version, without what its schema does not have.
    let mut expected = newer("a");
    expected["spec"] = json!({"size": "s"});
    assert_eq!(converted[0], expected);
    assert_eq!(converted[1], json!({"apiVersion": V2, "kind": "Widget"}));
    let told =
        async |object: Value, to: &str| webhook.run(vec![object], to).await.unwrap_err().message;
    assert_eq!(
        told(newer("a"), "shop.example.com/v3").await,
        "request to convert CR to an invalid group/version: shop.example.com/v3"
    );
    let mut unknown = widget("a");
    unknown["apiVersion"] = "shop.example.com/v0".into();
    assert_eq!(
        told(unknown, V2).await,
        "request to convert CR from an invalid group/version: shop.example.com/v0"
    );
}

#[test]
fn an_answer_to_the_first_version_that_is_no_object_is_refused() {
    let object = widget("a");
    let question = Question::new("apiextensions.k8s.io/v1beta1", &[&object], V2);
    for answer in [json!([]), json!("x"), json!(3), json!(null), json!({})] {
        let why = question.read(&[&object], answer).unwrap_err();
        assert!(why.ends_with("no response provided"), "{why}");
    }
}

/// The schemas of two versions whose specs have these fields.
fn schemas_of(of_v1: &Value, of_v2: &Value) -> Schemas {
    let all = [(V1, of_v1), (V2, of_v2)].map(|(version, fields)| {
        let spec = json!({"type": "object", "properties": fields});
        let document = json!({"type": "object", "properties": {"spec": spec}});
        let schema = Schema::parse(&document).unwrap();
        (version.to_owned(), Some(Arc::new(schema)))
    });
    all.into()
}

#[test]
fn versions_that_keep_the_same_need_no_converter() {
    let text = json!({"color": {"type": "string"}});
    let bounded = json!({"color": {"type": "string", "maxLength": 5}});
    assert!(Unconverted::of(&schemas_of(&text, &bounded)).is_none());
    assert!(Unconverted::of(&schemas_of(&text, &json!({}))).is_some());
    let mut open = schemas_of(&text, &text);
    open.insert(V2.into(), None);
    assert!(Unconverted::of(&open).is_some());
    open.insert(V1.into(), None);
    assert!(Unconverted::of(&open).is_none());
}

#[tokio::test]
async fn without_a_webhook_an_object_keeps_what_both_versions_have() {
    let of_v1 = json!({"color": {"type": "string"}, "old": {"type": "string", "default": "o"},
        "size": {"type": "string", "default": "of v1"}});
    let of_v2 = json!({"color": {"type": "string"}, "new": {"type": "string", "default": "n"},
        "size": {"type": "string", "default": "of v2"}});
    let converter = Unconverted::of(&schemas_of(&of_v1, &of_v2)).unwrap();
    let mut other = newer("b");
    other["spec"]["old"] = "x".into();
    let converted = converter
        .convert(vec![widget("a"), other], V2)
        .await
        .unwrap();
    assert_eq!(converted[0]["apiVersion"], V2);
    assert_eq!(converted[0]["metadata"], widget("a")["metadata"]);
    // The defaults are those of the version that it was in.
    assert_eq!(
        converted[0]["spec"],
        json!({"color": "red", "size": "of v1"})
    );
    let expected = json!({"color": "red", "new": "n", "size": "of v2"});
    assert_eq!(converted[1]["spec"], expected);
    let refused = converter
        .convert(vec![widget("a")], "shop.example.com/v3")
        .await;
    let expected = "request to convert CR to an invalid group/version: shop.example.com/v3";
    assert_eq!(refused.unwrap_err().message, expected);
}
