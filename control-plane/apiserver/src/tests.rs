//! The layers together, over a store whose state a test chooses.

mod actions;
mod allocations;
mod defaults;
mod fake_store;
mod scale;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb::{self as pb, request_op};
use machinery::object;
use machinery::schema::{self, Scope};
use machinery::status::Status;
use serde_json::{Value, json};

use crate::Config;
use crate::auth::User;
use crate::auth::pki::Identity;
use crate::auth::tls::Certificates;
use crate::registry::Registry;
use crate::registry::allocate::addresses::{release, take};
use crate::registry::builtin::{self, bootstrap};
use crate::registry::strategy;
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::resources::custom::Definition;
use crate::storage::decoded;
use crate::storage::reflector::Reflector;
use crate::storage::store::{Created, Swap};
use fake_store::FakeStore;

const ADDRESS: &str = "10.96.7.9";

fn registry() -> Registry {
    registry_of(&FakeStore::default(), Vec::new(), Config::default())
}

/// A registry over this store that serves these resources beside the usual ones.
fn registry_of(store: &FakeStore, more: Vec<Arc<Resource>>, config: Config) -> Registry {
    let config = Config {
        // It waits for caches that show what was written, which none does here.
        disabled_plugins: vec!["ResourceQuota".to_owned()],
        ..config
    };
    let api = super::connected(store.client(), config);
    let core = Arc::into_inner(api.0).unwrap();
    let mut registry = Arc::into_inner(core.registry).unwrap();
    let served = strategy::builtin().iter().cloned().chain(more);
    let store = registry.reader.store.clone();
    registry.reader.reflector = Arc::new(Reflector::new(store, Catalogue::new(served)));
    registry
}

/// A writer into the namespace `shop`.
fn writer<'a>(registry: &'a Registry, user: &'a User, resource: Arc<Resource>) -> Writer<'a> {
    Writer {
        registry,
        user,
        resource,
        namespace: "shop",
        dry: false,
        options: Value::Null,
        audit: None,
        warnings: Arc::default(),
        manager: "a".to_owned(),
    }
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
    let reserve = async |service: &Value| take(&registry.reader, address, service).await.unwrap();
    let (old, new) = (service("old"), service("new"));
    reserve(&old).await.unwrap();
    let made = put(&registry, "services", &old, 0).await;
    assert_eq!(reserve(&new).await, None, "the old one is still there");
    assert!(reserve(&old).await.is_some(), "it is its own");

    let deleted = delete(&registry, "services", &old, made).await;
    let mine = reserve(&new).await.unwrap();
    // The new service is not stored yet when the old one gives back what it had.
    release(&registry.reader, ADDRESS, ..deleted).await.unwrap();
    assert!(is_reserved(&registry).await);
    put(&registry, "services", &new, 0).await;
    release(&registry.reader, ADDRESS, mine..=mine)
        .await
        .unwrap();
    assert!(is_reserved(&registry).await, "it has the address by now");
}

#[tokio::test]
async fn an_address_is_free_when_its_service_is_gone() {
    let registry = registry();
    let old = service("old");
    let reserved = take(&registry.reader, ADDRESS.parse().unwrap(), &old).await;
    assert!(reserved.unwrap().is_some());
    let made = put(&registry, "services", &old, 0).await;
    let deleted = delete(&registry, "services", &old, made).await;
    release(&registry.reader, ADDRESS, ..deleted).await.unwrap();
    assert!(!is_reserved(&registry).await);
}

/// The uid of the IPAddress that is reserved.
async fn reservation(registry: &Registry) -> String {
    let kind = schema::kind("networking.k8s.io", "v1", "IPAddress").unwrap();
    let reserved = registry.reader.get(kind, "", ADDRESS).await.unwrap();
    object::uid(&reserved).to_owned()
}

#[tokio::test]
async fn what_is_left_of_a_reservation_is_deleted_before_there_is_another() {
    let store = FakeStore::default();
    let registry = registry_of(&store, Vec::new(), Config::default());
    let address: IpAddr = ADDRESS.parse().unwrap();
    let reserve = async |service: &Value| take(&registry.reader, address, service).await.unwrap();
    let (old, new) = (service("old"), service("new"));
    let first = reserve(&old).await.unwrap();
    let uid = reservation(&registry).await;
    let made = put(&registry, "services", &old, 0).await;
    let second = reserve(&old).await.unwrap();
    assert!(
        second > first,
        "another revision for whoever would delete it"
    );
    assert_eq!(reservation(&registry).await, uid, "of the same object");

    delete(&registry, "services", &old, made).await;
    reserve(&new).await.unwrap();
    assert_ne!(reservation(&registry).await, uid);
    let key = format!("/registry/ipaddresses/{ADDRESS}");
    assert_eq!(store.deletions(&key), 1);
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

/// A registry whose new clusters begin with a class of storage.
fn registry_with_class(store: &FakeStore) -> Registry {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard"}, "provisioner": "example.com/maker",
    });
    let config = Config {
        first_objects: vec![class],
        ..Config::default()
    };
    registry_of(store, Vec::new(), config)
}

async fn class_uid(registry: &Registry) -> Result<String, Status> {
    let kind = schema::kind("storage.k8s.io", "v1", "StorageClass").unwrap();
    let class = registry.reader.get(kind, "", "standard").await?;
    Ok(object::uid(&class).to_owned())
}

#[tokio::test]
async fn what_a_new_cluster_begins_with_is_made_once() {
    let store = FakeStore::default();
    let registry = registry_with_class(&store);
    builtin::make(&registry).await.unwrap();
    let uid = class_uid(&registry).await.unwrap();
    let kind = schema::kind("storage.k8s.io", "v1", "StorageClass").unwrap();
    registry.delete(kind, "", "standard", &uid).await.unwrap();
    // At once, and after a restart.
    for registry in [registry, registry_with_class(&store)] {
        builtin::make(&registry).await.unwrap();
        assert_eq!(class_uid(&registry).await.unwrap_err().code, 404);
    }
}

#[tokio::test]
async fn a_crash_before_the_first_namespace_leaves_a_new_cluster() {
    let store = FakeStore::default();
    let registry = registry_with_class(&store);
    let kind = schema::kind("storage.k8s.io", "v1", "StorageClass").unwrap();
    let class = registry.settings.first_objects[0].clone();
    registry.create(kind, "", class).await.unwrap();
    let uid = class_uid(&registry).await.unwrap();
    let registry = registry_with_class(&store);
    builtin::make(&registry).await.unwrap();
    assert_eq!(class_uid(&registry).await.unwrap(), uid, "the same one");
    let kind = schema::kind("", "v1", "Namespace").unwrap();
    registry.reader.get(kind, "", "default").await.unwrap();
}

#[tokio::test]
async fn the_server_deletes_the_object_that_it_has_seen_and_no_other_of_its_name() {
    let registry = registry();
    let kind = schema::kind("", "v1", "ConfigMap").unwrap();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": "a", "uid": "there"},
    });
    put(&registry, "configmaps", &object, 0).await;
    let other = registry.delete(kind, "shop", "a", "seen").await;
    assert_eq!(other.unwrap_err().reason, "Conflict");
    registry.reader.get(kind, "shop", "a").await.unwrap();
    registry.delete(kind, "shop", "a", "there").await.unwrap();
    let gone = registry.reader.get(kind, "shop", "a").await.unwrap_err();
    assert_eq!(gone.code, 404);
}

/// The next transaction finds an object in this state; without metadata, it is gone.
fn meanwhile(store: &FakeStore, registry: &Registry, key: &str, state: Option<&Value>) {
    let Some(object) = state else {
        return store.meanwhile(request_op::Request::RequestDeleteRange(
            pb::DeleteRangeRequest {
                key: key.as_bytes().to_vec().into(),
                ..Default::default()
            },
        ));
    };
    let named = |one: &&Arc<Resource>| one.kind.kind() == object["kind"];
    let catalogue = registry.reader.reflector.catalogue();
    let resource = catalogue.resources().iter().find(named).unwrap();
    let storage = resource.stored().unwrap();
    assert_eq!(storage.key("", object::name(object)), key);
    store.meanwhile(request_op::Request::RequestPut(pb::PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: decoded::encode(storage, object).unwrap().into(),
        ..Default::default()
    }));
}

/// Writes a new object into a namespace that gets another state between the last look at it and the
/// write.
async fn into_namespace(by_put: bool, metadata: Option<Value>) -> Result<(), Status> {
    let store = FakeStore::default();
    let registry = registry_of(&store, Vec::new(), Config::default());
    let namespace =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let before = namespace(json!({"name": "shop"}));
    put(&registry, "namespaces", &before, 0).await;
    let state = metadata.map(namespace);
    meanwhile(
        &store,
        &registry,
        "/registry/namespaces/shop",
        state.as_ref(),
    );
    let kind = schema::kind("", "v1", "Endpoints").unwrap();
    let object = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"namespace": "shop", "name": "a"},
    });
    let written = if by_put {
        registry.update(kind, "shop", object).await
    } else {
        registry.create(kind, "shop", object).await
    };
    let is_stored = registry.reader.get(kind, "shop", "a").await.is_ok();
    assert_eq!(written.is_ok(), is_stored, "{written:?}");
    written.map(|_| ())
}

#[tokio::test]
async fn no_object_is_written_into_a_namespace_that_went_right_before() {
    for by_put in [false, true] {
        let gone = into_namespace(by_put, None).await.unwrap_err();
        assert_eq!((gone.code, gone.reason), (404, "NotFound"));
        let going = json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let going = into_namespace(by_put, Some(going)).await.unwrap_err();
        let why = "unable to create new content in namespace shop because it is being terminated";
        assert!(going.message.contains(why), "{}", going.message);
        let labelled = json!({"name": "shop", "labels": {"a": "b"}});
        into_namespace(by_put, Some(labelled)).await.unwrap();
    }
}

#[tokio::test]
async fn an_object_that_exists_is_told_apart_from_a_namespace_that_changed() {
    let store = FakeStore::default();
    let registry = registry_of(&store, Vec::new(), Config::default());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    put(&registry, "namespaces", &namespace, 0).await;
    let kind = schema::kind("", "v1", "Endpoints").unwrap();
    let object = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"namespace": "shop", "name": "a"},
    });
    put(&registry, "endpoints", &object, 0).await;
    for changes in [false, true] {
        if changes {
            meanwhile(
                &store,
                &registry,
                "/registry/namespaces/shop",
                Some(&namespace),
            );
        }
        let refused = registry.create(kind, "shop", object.clone()).await;
        assert_eq!(refused.unwrap_err().reason, "AlreadyExists");
    }
}

/// The definition of widgets with this uid, which waits until no widget is left if it terminates.
fn definition((uid, terminating): (&str, bool)) -> Value {
    let status = if terminating { "True" } else { "False" };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": uid},
        "status": {"conditions": [{"type": "Terminating", "status": status}]},
    })
}

/// A registry that serves widgets, whose definition is in the store, and the key of that.
async fn with_definition(store: &FakeStore) -> (Registry, String) {
    let widgets = Definition {
        scope: Scope::Cluster,
        uid: "first".into(),
        ..Definition::widgets()
    };
    let more = widgets.resources(None).unwrap();
    let registry = registry_of(store, more, Config::default());
    let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
    let definitions = registry.reader.resource(group, "v1", plural).unwrap();
    let storage = definitions.stored().unwrap();
    let key = storage.key("", "widgets.example.com");
    let value = decoded::encode(storage, &definition(("first", false))).unwrap();
    let made = registry.reader.store.create(storage, &key, value, 0, &[]);
    assert_eq!(made.await.unwrap(), Created::At(1));
    (registry, key)
}

async fn create_widget(registry: &Registry, name: &str) -> Result<(), Status> {
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
    });
    let widgets = registry.reader.resource("example.com", "v1", "widgets");
    let kind = Arc::clone(&widgets.unwrap().kind);
    let written = registry.create(&kind, "", widget).await;
    let is_stored = registry.reader.get(&kind, "", name).await.is_ok();
    assert_eq!(written.is_ok(), is_stored, "{written:?}");
    written.map(|_| ())
}

/// Creates objects whose definition gets another state between the last look at it and the write of
/// the last one.
async fn under_definition(count: usize, state: Option<(&str, bool)>) -> Result<(), Status> {
    let store = FakeStore::default();
    let (registry, key) = with_definition(&store).await;
    for number in 1..count {
        create_widget(&registry, &format!("w{number}"))
            .await
            .unwrap();
    }
    meanwhile(&store, &registry, &key, state.map(definition).as_ref());
    create_widget(&registry, "last").await
}

#[tokio::test]
async fn no_object_is_written_under_a_definition_that_went_right_before() {
    for count in [1, 2] {
        for (state, code) in [
            (None, 404),
            (Some(("second", false)), 404),
            (Some(("first", true)), 403),
        ] {
            let refused = under_definition(count, state).await.unwrap_err();
            assert_eq!(refused.code, code, "{refused}");
        }
        under_definition(count, Some(("first", false)))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_definition_is_looked_at_once_for_each_of_its_states() {
    let store = FakeStore::default();
    let (registry, key) = with_definition(&store).await;
    create_widget(&registry, "a").await.unwrap();
    let first = store.reads(&key);
    create_widget(&registry, "b").await.unwrap();
    assert_eq!(store.reads(&key), first);
    let written = definition(("first", false));
    meanwhile(&store, &registry, &key, Some(&written));
    create_widget(&registry, "c").await.unwrap();
    create_widget(&registry, "d").await.unwrap();
    assert_eq!(store.reads(&key), first + 1, "of its second state");
}

/// The authority of clients that other servers can read.
async fn published(registry: &Registry) -> String {
    let kind = schema::kind("", "v1", "ConfigMap").unwrap();
    let name = "extension-apiserver-authentication";
    let map = registry.reader.get(kind, "kube-system", name).await;
    object::text(&map.unwrap(), &["data", "client-ca-file"]).to_owned()
}

#[tokio::test]
async fn a_start_that_is_tried_again_does_not_take_back_newer_authorities() {
    let config = Config {
        client_authority: Some("first".to_owned()),
        ..Config::default()
    };
    let registry = registry_of(&FakeStore::default(), Vec::new(), config);
    let system = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"},
    });
    put(&registry, "namespaces", &system, 0).await;
    bootstrap::publish_first(&registry).await.unwrap();
    assert_eq!(published(&registry).await, "first");
    let publishing = bootstrap::publish_authorities(&registry, Some("newer"), None);
    publishing.await.unwrap();
    bootstrap::publish_first(&registry).await.unwrap();
    assert_eq!(published(&registry).await, "newer");
}

#[tokio::test]
async fn newer_certificates_do_not_wait_until_others_are_published() {
    let of = |authority: &str| Certificates {
        identity: Identity {
            certificate: String::new(),
            key: String::new(),
        },
        clients: Some(authority.to_owned()),
        proxies: None,
    };
    let (registry, current) = (registry(), of("current"));
    let newer = std::future::ready(of("newer"));
    // The start has published nothing yet, so these wait. The limit is for newer ones that do, too.
    let newer = super::until_newer(&registry, &current, newer);
    let newer = tokio::time::timeout(Duration::from_secs(30), newer).await;
    let newer = newer.expect("they are there");
    assert_eq!(newer.clients.as_deref(), Some("newer"));
}
