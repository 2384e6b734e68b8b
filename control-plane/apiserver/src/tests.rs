//! The layers together, over a store whose state a test chooses.

mod fake_store;

use std::net::IpAddr;
use std::sync::Arc;

use machinery::object;
use machinery::schema;
use serde_json::{Value, json};

use crate::Config;
use crate::registry::Registry;
use crate::registry::allocate::addresses::{release, take};
use crate::storage::decoded;
use crate::storage::store::Swap;
use fake_store::FakeStore;

const ADDRESS: &str = "10.96.7.9";

fn registry() -> Arc<Registry> {
    let api = super::connected(FakeStore::default().client(), Config::default());
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
