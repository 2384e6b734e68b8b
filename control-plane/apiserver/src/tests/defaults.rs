//! Objects for which a later schema has more defaults than they may have.

use super::*;

#[tokio::test]
async fn an_object_whose_defaults_are_too_large_is_read_without_them_and_can_be_deleted() {
    let text = json!({"type": "string", "default": "t".repeat(100_000)});
    let items = json!({"type": "object", "properties": {"text": text}});
    let mut widgets = Definition {
        scope: Scope::Cluster,
        ..Definition::widgets()
    };
    widgets.versions[0].schema = Some(json!({"type": "object", "properties": {
        "items": {"type": "array", "items": items}}}));
    let resource = widgets.resources(None).unwrap().remove(0);
    let (kind, storage) = (&resource.kind, resource.stored().unwrap());
    let more = vec![Arc::clone(&resource)];
    let registry = registry_of(&FakeStore::default(), more, Config::default());
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "uid": "its", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/held"]},
        "items": vec![json!({}); 200],
    });
    let value = decoded::encode(storage, &object).unwrap();
    let key = storage.key("", "a");
    let store = &registry.reader.store;
    let written = store.update(storage, &key, 0, value, 0);
    assert!(matches!(written.await, Ok(Swap::Done(_))));
    let read = async || registry.reader.get(kind, "", "a").await;

    let mut found = Value::clone(&read().await.unwrap());
    assert_eq!(found["items"], object["items"]);
    found["metadata"]["labels"] = json!({"a": "b"});
    let refused = registry.update(kind, "", found).await.unwrap_err();
    let why = "Request entity too large: Widget \"a\" has too many defaults";
    assert_eq!((refused.code, refused.message.as_str()), (413, why));

    registry.delete(kind, "", "a", "its").await.unwrap();
    let mut marked = Value::clone(&read().await.unwrap());
    assert!(object::is_deleting(&marked));
    assert_eq!(marked["items"], object["items"], "stored as it was");
    object::remove(&mut marked, &["metadata", "finalizers"]);
    registry.update(kind, "", marked).await.unwrap();
    assert_eq!(read().await.unwrap_err().code, 404);
}
