//! Writes of scales.

use super::*;
use crate::registry::options::Validation;
use crate::registry::verbs::patch::{self, Patch};
use crate::registry::verbs::write::Change;
use crate::resources::catalogue::Resource;
use crate::resources::custom::{Definition, Scale};

/// Widgets of which there are at most five.
fn widgets() -> Arc<Resource> {
    let mut definition = Definition::widgets();
    let version = &mut definition.versions[0];
    version.scale = Some(Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: String::new(),
    });
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "maximum": 5}}});
    version.schema = Some(json!({"type": "object", "properties": {"spec": spec}}));
    definition.resources(None).unwrap().remove(0)
}

/// What a patch of its Scale makes of an object with this spec.
async fn scaled(resource: Arc<Resource>, spec: Value, patch: Value) -> Result<Value, Status> {
    let object = json!({
        "apiVersion": resource.kind.api_version(), "kind": resource.kind.kind(),
        "metadata": {"namespace": "shop", "name": "a", "uid": "its", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    });
    scaled_object(resource, &object, patch).await
}

/// What a patch of its Scale makes of an object.
async fn scaled_object(
    resource: Arc<Resource>,
    object: &Value,
    patch: Value,
) -> Result<Value, Status> {
    let registry = registry();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"},
    });
    put(&registry, "namespaces", &namespace, 0).await;
    let storage = resource.stored().unwrap();
    let value = decoded::encode(storage, object).unwrap();
    let key = storage.key("shop", "a");
    let put = registry.reader.store.update(storage, &key, 0, value, 0);
    assert!(matches!(put.await, Ok(Swap::Done(_))));
    let user = User::default();
    let writer = writer(&registry, &user, resource);
    let patch = patch.to_string();
    let patch = Patch::read(patch::Kind::Merge, patch.as_bytes(), Validation::Strict);
    let edited = writer.scale("a", Change::Patch(patch.unwrap())).await?;
    Ok(Value::clone(&edited.entry_ref().object))
}

fn replicas(count: i64) -> Value {
    json!({"spec": {"replicas": count}})
}

#[tokio::test]
async fn a_scale_is_bound_by_the_rules_of_its_object() {
    let scale = async |count| scaled(widgets(), json!({"replicas": 3}), replicas(count)).await;
    let more = scale(5).await.unwrap();
    let now = (&more["spec"]["replicas"], &more["metadata"]["generation"]);
    assert_eq!(now, (&json!(5), &json!(2)));
    for (count, why) in [
        (
            6,
            "Widget.example.com \"a\" is invalid: spec.replicas: Invalid value: 6: ",
        ),
        (
            -1,
            "Widget.example.com \"a\" is invalid: .spec.replicas: Invalid value: -1: ",
        ),
    ] {
        let refused = scale(count).await.unwrap_err();
        assert_eq!(refused.code, 422, "{refused}");
        assert!(refused.message.starts_with(why), "{refused}");
    }
}

#[tokio::test]
async fn a_patch_without_replicas_does_not_scale_to_zero() {
    let nothing = json!({"metadata": {"labels": {"a": "b"}}});
    let refused = scaled(widgets(), json!({}), nothing).await.unwrap_err();
    let why = "the spec replicas field \".spec.replicas\" cannot be empty";
    assert_eq!((refused.code, refused.message.as_str()), (400, why));
    let first = scaled(widgets(), json!({}), replicas(2)).await.unwrap();
    assert_eq!(first["spec"]["replicas"], 2);
}

#[tokio::test]
async fn replicas_that_are_no_number_are_not_taken_for_none() {
    let odd = scaled(widgets(), json!({"replicas": "x"}), replicas(2)).await;
    let why = ".spec.replicas accessor error: x is of the type string, expected int64";
    let refused = odd.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (500, why));
}

#[tokio::test]
async fn managers_that_cannot_be_read_are_not_lost() {
    let managers = json!([{"manager": "m", "operation": "Other", "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {}}]);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": {"replicas": 3},
        "metadata": {"namespace": "shop", "name": "a", "uid": "its", "managedFields": managers},
    });
    let scaled = scaled_object(widgets(), &object, replicas(2)).await;
    let refused = scaled.unwrap_err();
    let why = "operation must be `Apply` or `Update`";
    assert_eq!((refused.code, refused.message.as_str()), (500, why));
}

#[tokio::test]
async fn the_metadata_of_a_written_scale_is_checked() {
    let registry = registry();
    let deployments = registry.reader.resource("apps", "v1", "deployments");
    let patch = json!({"metadata": {"labels": {"?": "b"}}});
    let scaled = scaled(deployments.unwrap(), json!({}), patch).await;
    let refused = scaled.unwrap_err();
    let why = "Scale.autoscaling \"a\" is invalid: metadata.labels: Invalid value: \"?\": ";
    assert_eq!(refused.code, 422, "{refused}");
    assert!(refused.message.starts_with(why), "{refused}");
}

#[tokio::test]
async fn a_patch_expects_the_namespace_and_the_uid_that_it_names() {
    let registry = registry();
    let deployments = registry.reader.resource("apps", "v1", "deployments");
    let deployments = deployments.unwrap();
    let refused = async |metadata: Value| {
        let patch = json!({"metadata": metadata});
        let scaled = scaled(Arc::clone(&deployments), json!({}), patch).await;
        scaled.unwrap_err()
    };
    let elsewhere = refused(json!({"namespace": "other"})).await;
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!((elsewhere.code, elsewhere.message.as_str()), (400, why));
    let another = refused(json!({"uid": "other"})).await;
    let why = "Operation cannot be fulfilled on deployments/scale.apps \"a\": Precondition failed: \
               UID in precondition: other, UID in object meta: its";
    assert_eq!((another.code, another.message.as_str()), (409, why));
}
