use etcd_api::mvccpb::KeyValue;
use machinery::schema::{Names, Scope};
use serde_json::json;
use tonic::transport::Endpoint;

use super::*;
use crate::Config;
use crate::resources::custom::{Definition, Version};
use crate::storage::cache::Content;
use crate::storage::store::Raw;
use crate::storage::stored::Stored;

fn resource(plural: String) -> Arc<Resource> {
    let definition = Definition {
        group: "example.com".into(),
        names: Names {
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            plural: plural.into(),
            singular: "widget".into(),
            short_names: vec!["wd".into()],
            categories: vec!["all".into()],
        },
        scope: Scope::Namespaced,
        terminating: false,
        uid: String::new(),
        versions: vec![Version {
            name: "v1".into(),
            served: true,
            stored: true,
            status: true,
            ..Version::default()
        }],
    };
    definition.resources(None).unwrap().remove(0)
}

#[test]
fn a_collection_that_leaves_is_freed_with_its_objects() {
    let widgets = resource("widgets".into());
    let storage = Arc::downgrade(widgets.stored().unwrap());
    let catalogue = Catalogue::new([Arc::clone(&widgets)]);
    let before = Followed::default().with(catalogue.storages());
    let cache = Arc::clone(&before.caches[&widgets.stored().unwrap().id]);
    let key = "/registry/example.com/widgets/n/a";
    let object = json!({"metadata": {"name": "a", "namespace": "n"}}).to_string();
    let mut content = Content::default();
    let stored = Stored::read(widgets.stored().unwrap(), key, object.as_bytes(), 5);
    content.insert(key, stored);
    cache.reset(content, 5);
    assert!(cache.get(key).is_some());
    assert_eq!(before.of_key(key).len(), 1);

    let (after, left) = before.only(&Catalogue::default());
    assert_eq!((left.len(), after.of_key(key).len()), (1, 0));
    drop((before, after, left, catalogue, widgets));
    assert!(storage.upgrade().is_some(), "a request may still read it");
    drop(cache);
    assert!(storage.upgrade().is_none());
}

/// While one collection takes the prefix of another, the keys belong to both.
#[test]
fn a_collection_that_joins_gets_the_changes_of_its_prefix_beside_the_one_that_leaves() {
    let (old, new) = (resource("widgets".into()), resource("widgets".into()));
    let followed = Followed::default();
    let followed = followed.with([old.stored().unwrap()]);
    let both = followed.with([new.stored().unwrap()]);
    let key = "/registry/example.com/widgets/n/a";
    assert_eq!(both.of_key(key).len(), 2);
    for other in [
        "/registry/example.com/widget",
        "/registry/example.com/widgets0/n/a",
        "/registry/pods/n/a",
    ] {
        assert_eq!(both.of_key(other).len(), 0, "{other}");
    }
    let (after, left) = both.only(&Catalogue::new([Arc::clone(&new)]));
    assert_eq!((after.of_key(key).len(), left.len()), (1, 1));
    assert_eq!(after.of_key(key)[0].id, new.stored().unwrap().id);
}

/// A definition changes while requests hold the collection that it had.
#[tokio::test]
async fn what_is_under_way_when_its_collection_leaves_reads_the_store() {
    let widgets = resource("widgets".into());
    let storage = widgets.stored().unwrap();
    let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let api = crate::connected(etcd_api::Client::new(channel), Config::default());
    let reader = api.reader();
    assert!(reader.reflector.cache_if_followed(storage).is_none());
    assert!(reader.reflector.served(&widgets.kind).is_none());
    let key = "/registry/example.com/widgets/n/a";
    let object = json!({"metadata": {"name": "a", "namespace": "n"}}).to_string();
    let raw = Raw::from(KeyValue {
        key: key.as_bytes().to_vec().into(),
        value: object.into_bytes().into(),
        mod_revision: 5,
        ..KeyValue::default()
    });
    let read = reader.stored_of(storage, key, &raw).await.unwrap();
    assert_eq!((read.revision, &*read.name()), (5, "a"));
}
