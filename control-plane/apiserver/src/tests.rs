//! The layers together, over a store whose state a test chooses.

mod fake_store;
mod scale;

use std::net::IpAddr;
use std::sync::Arc;

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::Config;
use crate::admission::{Attributes, CREATE};
use crate::auth::User;
use crate::registry::Registry;
use crate::registry::allocate::addresses::{release, take};
use crate::storage::decoded;
use crate::storage::store::Swap;
use fake_store::FakeStore;

const ADDRESS: &str = "10.96.7.9";

fn registry() -> Arc<Registry> {
    let config = Config {
        // It waits for caches that show what was written, which none does here.
        disabled_plugins: vec!["ResourceQuota".to_owned()],
        ..Config::default()
    };
    let api = super::connected(FakeStore::default().client(), config);
    Arc::clone(&api.0.registry)
}

/// Writes an object into the store, and returns the revision. `before` is that of its old state; 0
/// if there is none.
async fn put(registry: &Registry, plural: &str, object: &Value, before: i64) -> i64 {
    let reader = &registry.reader;
    let resource = reader.resource("", "v1", plural).unwrap();
    let storage = resource.stored().unwrap();
    let key = storage.key(object::namespace(object), object::name(object));
    let value = decoded::encode(storage, object).unwrap();
    match reader.store.update(storage, &key, before, value, 0).await {
        Ok(Swap::Done(revision)) => revision,
        _ => panic!("it has another revision"),
    }
}

async fn delete(registry: &Registry, plural: &str, object: &Value, before: i64) -> i64 {
    let reader = &registry.reader;
    let resource = reader.resource("", "v1", plural).unwrap();
    let storage = resource.stored().unwrap();
    let key = storage.key(object::namespace(object), object::name(object));
    match reader.store.delete(&key, before).await {
        Ok(Swap::Done(revision)) => revision,
        _ => panic!("it has another revision"),
    }
}

fn service(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "shop", "name": "web", "uid": uid},
        "spec": {"clusterIP": ADDRESS, "clusterIPs": [ADDRESS]},
    })
}

async fn is_reserved(registry: &Registry) -> bool {
    let kind = schema::kind("networking.k8s.io", "v1", "IPAddress").unwrap();
    registry.reader.get(kind, "", ADDRESS).await.is_ok()
}

#[tokio::test]
async fn an_address_stays_reserved_for_a_service_that_is_created_again() {
    let registry = registry();
    let address: IpAddr = ADDRESS.parse().unwrap();
    let reserve = async |service: &Value| take(&registry, address, service).await.unwrap();
    let (old, new) = (service("old"), service("new"));
    reserve(&old).await.unwrap();
    let made = put(&registry, "services", &old, 0).await;
    assert_eq!(reserve(&new).await, None, "the old one is still there");
    assert!(reserve(&old).await.is_some(), "it is its own");

    let deleted = delete(&registry, "services", &old, made).await;
    let mine = reserve(&new).await.unwrap();
    // The new service is not stored yet when the old one gives back what it had.
    release(&registry, ADDRESS, ..deleted).await.unwrap();
    assert!(is_reserved(&registry).await);
    put(&registry, "services", &new, 0).await;
    release(&registry, ADDRESS, mine..=mine).await.unwrap();
    assert!(is_reserved(&registry).await, "it has the address by now");
}

#[tokio::test]
async fn an_address_is_free_when_its_service_is_gone() {
    let registry = registry();
    let old = service("old");
    let reserved = take(&registry, ADDRESS.parse().unwrap(), &old).await;
    assert!(reserved.unwrap().is_some());
    let made = put(&registry, "services", &old, 0).await;
    let deleted = delete(&registry, "services", &old, made).await;
    release(&registry, ADDRESS, ..deleted).await.unwrap();
    assert!(!is_reserved(&registry).await);
}

#[tokio::test]
async fn a_write_that_is_stored_is_told_so_though_no_cache_shows_it() {
    let registry = registry();
    let kind = schema::kind("", "v1", "Namespace").unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let made = registry.create(kind, "", object).await.unwrap();
    assert_eq!(object::name(&made), "shop");
    registry.reader.get(kind, "", "shop").await.unwrap();
}

/// Writes a config map whose namespace gets another state while webhooks are asked.
async fn meanwhile(registry: &Registry, state: Option<Value>) -> Result<(), Status> {
    let mut namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"},
    });
    let made = put(registry, "namespaces", &namespace, 0).await;
    let resource = registry.reader.resource("", "v1", "configmaps").unwrap();
    let (user, options) = (User::default(), Value::Null);
    let attributes = Attributes {
        user: &user,
        operation: CREATE,
        kind: &resource.kind,
        subresource: "",
        namespace: "shop",
        name: "a",
        old: None,
        dry: false,
        options: &options,
        resource: &resource,
        audit: None,
        warnings: &Default::default(),
    };
    let mut map = json!({"metadata": {"namespace": "shop", "name": "a"}});
    let chain = &registry.admission;
    let mutated = chain.mutate(&attributes, &mut map).await?;
    match state {
        None => drop(delete(registry, "namespaces", &namespace, made).await),
        Some(metadata) => {
            namespace["metadata"] = metadata;
            put(registry, "namespaces", &namespace, made).await;
        }
    }
    chain.validate(mutated, &attributes, &map).await
}

#[tokio::test]
async fn no_object_is_written_into_a_namespace_that_went_during_admission() {
    let gone = meanwhile(&registry(), None).await.unwrap_err();
    assert_eq!((gone.code, gone.reason), (404, "NotFound"));
    let going = json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let going = meanwhile(&registry(), Some(going)).await.unwrap_err();
    let why = "unable to create new content in namespace shop because it is being terminated";
    assert!(going.message.contains(why), "{}", going.message);
    let labelled = json!({"name": "shop", "labels": {"a": "b"}});
    meanwhile(&registry(), Some(labelled)).await.unwrap();
}
