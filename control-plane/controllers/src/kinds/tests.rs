use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use machinery::api::{Call, DeleteOptions};
use serde_json::json;

use super::*;
use crate::cache::Destination;
use crate::known::kind_of;
use crate::sources::sources_of;
use crate::tests::fixtures;
use crate::tests::simulation::{self, Simulation};

fn names<'a>(kinds: impl Iterator<Item = &'a Arc<Kind>>) -> Vec<String> {
    let names = kinds.map(|kind| format!("{}/{}", kind.api_version(), kind.plural()));
    names.collect()
}

fn widgets(version: &str, verbs: &[&str]) -> Value {
    json!({"version": version, "resources": [{
        "resource": "widgets", "singularResource": "widget", "scope": "Namespaced",
        "responseKind": {"group": "example.com", "version": version, "kind": "Widget"},
        "verbs": verbs,
    }]})
}

fn groups(versions: &[Value]) -> Object {
    json!({"kind": "APIGroupDiscoveryList", "items": [
        {"metadata": {"name": "example.com"}, "versions": versions},
    ]})
}

#[test]
fn kinds_of_the_table_are_the_tables_own() {
    let kinds = fixtures::kinds();
    let pods = kinds.named("v1", "Pod").unwrap();
    assert!(Arc::ptr_eq(pods, schema::kind("", "v1", "Pod").unwrap()));
    let collected = names(kinds.collected());
    assert_eq!(collected.len(), 57, "{collected:?}");
    assert!(collected.contains(&"autoscaling/v2/horizontalpodautoscalers".to_owned()));
    assert!(!collected.iter().any(|one| one.ends_with("/events")));
    let inside = names(kinds.in_namespaces());
    assert!(inside.contains(&"v1/events".to_owned()), "{inside:?}");
    assert!(!inside.contains(&"events.k8s.io/v1/events".to_owned()));
    assert!(!inside.contains(&"autoscaling/v1/horizontalpodautoscalers".to_owned()));
    let sources = kinds
        .collected()
        .flat_map(|kind| sources_of(kind, |_| true));
    assert_eq!(sources.count(), 59);
}

#[test]
fn what_one_loop_alone_reads_is_watched_whole_if_that_loop_runs() {
    for (kind, its) in [("StatefulSet", "statefulset"), ("DaemonSet", "daemonset")] {
        let sets = schema::kind("apps", "v1", kind).unwrap();
        for (runs, expected) in [(true, Destination::Both), (false, Destination::Graph)] {
            let sources = sources_of(sets, |name| runs && name == its);
            assert_eq!(sources.len(), 1);
            assert_eq!(sources[0].1, expected);
        }
    }
}

#[test]
fn a_custom_kind_is_known_in_all_versions_and_watched_in_the_first_that_can_be() {
    let all = [
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "watch",
    ];
    let groups = groups(&[
        widgets("v2", &["get"]),
        widgets("v1", &all),
        widgets("v1beta1", &all),
    ]);
    let kinds = Kinds::read([&groups]);
    assert!(kinds.named("example.com/v1beta1", "Widget").is_some());
    assert!(kinds.named("example.com/v3", "Widget").is_none());
    assert_eq!(names(kinds.collected()), ["example.com/v1/widgets"]);
    assert_eq!(names(kinds.in_namespaces()), ["example.com/v1/widgets"]);
    let listed = kinds.of_group("example.com", "Widget").unwrap();
    assert_eq!(listed.version(), "v1");
    assert!(kinds.of_group("", "Widget").is_none());
    assert_eq!(kinds.versions("example.com"), ["v2", "v1", "v1beta1"]);
    assert!(kinds.versions("other.com").is_empty());
}

#[test]
fn a_kind_that_comes_goes_or_changes_is_noticed() {
    let one = groups(&[widgets("v1", &["list"])]);
    let kinds = Kinds::read([&one]);
    assert!(kinds.agree_with(&one));
    for other in [
        groups(&[]),
        groups(&[widgets("v1", &["list", "watch"])]),
        groups(&[widgets("v1", &["list"]), widgets("v2", &["list"])]),
        groups(&[widgets("v1", &["list"]), json!({"version": "v2"})]),
    ] {
        assert!(!kinds.agree_with(&other), "{other}");
    }
    // Kinds of the core group are in another document.
    assert!(fixtures::kinds().agree_with(&fixtures::discovery(false)));
}

fn custom(plural: &'static str, name: &'static str) -> Arc<Kind> {
    let names = Names {
        kind: name.into(),
        list_kind: format!("{name}List").into(),
        plural: plural.into(),
        singular: name.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
    };
    let kind = Kind::custom("example.com".into(), "v1".into(), names, Scope::Namespaced);
    Arc::new(kind)
}

fn object(name: &str, owners: &[&Object]) -> Value {
    let owners = owners.iter().map(|owner| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    });
    let owners: Vec<Value> = owners.collect();
    json!({"metadata": {"namespace": "n", "name": name, "ownerReferences": owners}})
}

fn create(simulation: &Simulation, kind: &Arc<Kind>, object: Value) -> Object {
    let kind = Arc::clone(kind);
    simulation.user(Call::Create { kind, object })
}

fn left(simulation: &Simulation, kind: &Arc<Kind>) -> Vec<String> {
    let items = simulation.items(kind);
    let in_n = items.iter().filter(|one| object::namespace(one) == "n");
    let names = in_n.map(|one| object::name(one).to_owned());
    names
        .filter(|name| name != crate::loops::root_ca::NAME)
        .collect()
}

#[test]
fn objects_of_a_kind_that_comes_are_collected_and_leave_with_their_namespace() {
    let mut simulation = Simulation::new(7, None);
    let maps = simulation::kind("", "ConfigMap");
    let namespaces = simulation::kind("", "Namespace");
    simulation.create(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
    }));
    simulation.settle();
    let widgets = custom("widgets", "Widget");
    simulation.api.add_kind(Arc::clone(&widgets));
    let owner = create(&simulation, &widgets, object("owner", &[]));
    let other = create(&simulation, &widgets, object("other", &[]));
    let mut nobody = owner.clone();
    nobody["metadata"]["uid"] = "nobody".into();
    create(&simulation, maps, object("of-nobody", &[&nobody]));
    create(&simulation, maps, object("of-owner", &[&owner]));
    create(&simulation, &widgets, object("owned", &[&owner]));
    create(&simulation, &widgets, object("shared", &[&owner, &other]));
    simulation.settle();
    // Of a kind that is not known nobody can say that an object is not there.
    assert_eq!(left(&simulation, maps), ["of-nobody", "of-owner"]);
    simulation.discover();
    simulation.settle();
    assert_eq!(left(&simulation, maps), ["of-owner"]);
    simulation.delete(&widgets, "n", "owner", DeleteOptions::default());
    simulation.settle();
    assert_eq!(left(&simulation, maps), [""; 0]);
    assert_eq!(left(&simulation, &widgets), ["other", "shared"]);
    let shared = &simulation.items(&widgets)[1];
    let owners = object::owner_references(shared);
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["uid"], other["metadata"]["uid"]);

    // A kind that came a moment ago, and that the loops have not heard of.
    let gadgets = custom("gadgets", "Gadget");
    simulation.api.add_kind(Arc::clone(&gadgets));
    create(&simulation, &gadgets, object("g", &[]));
    simulation.delete(namespaces, "", "n", DeleteOptions::default());
    simulation.settle();
    assert!(
        simulation
            .items(namespaces)
            .iter()
            .all(|one| object::name(one) != "n")
    );
    assert_eq!(left(&simulation, &gadgets), [""; 0]);
    assert_eq!(left(&simulation, &widgets), [""; 0]);
}

#[test]
fn what_a_kind_that_goes_owned_stays() {
    let mut simulation = Simulation::new(8, None);
    let maps = simulation::kind("", "ConfigMap");
    simulation.create(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
    }));
    let widgets = custom("widgets", "Widget");
    simulation.api.add_kind(Arc::clone(&widgets));
    let owner = create(&simulation, &widgets, object("owner", &[]));
    create(&simulation, maps, object("owned", &[&owner]));
    simulation.discover();
    simulation.settle();
    simulation.api.remove_kind(&widgets);
    simulation.discover();
    simulation.settle();
    // The owner is in the store, though nobody can see it.
    assert_eq!(left(&simulation, maps), ["owned"]);
}

#[test]
fn of_a_kind_that_no_loop_reads_only_the_metadata_is_watched() {
    let destinations = |kind: &Arc<Kind>, running: &str| {
        let sources = sources_of(kind, |name| running == name);
        let destinations = sources.into_iter().map(|(_, destination)| destination);
        destinations.collect::<Vec<_>>()
    };
    let job = kind_of::<Job>();
    assert_eq!(destinations(job, "garbage-collector"), [Destination::Graph]);
    for reader in ["cronjob", "job", "ttl-after-finished"] {
        assert_eq!(destinations(job, reader), [Destination::Both]);
    }
    assert_eq!(
        destinations(kind_of::<CronJob>(), "job"),
        [Destination::Graph]
    );
    for (kind, its) in [
        (kind_of::<Endpoints>(), "endpoints"),
        (kind_of::<EndpointSlice>(), "endpointslice"),
    ] {
        assert_eq!(destinations(kind, "job"), [Destination::Graph]);
        for reader in [its, "endpointslice-mirroring"] {
            assert_eq!(destinations(kind, reader), [Destination::Both]);
        }
    }
    let autoscaler = kind_of::<HorizontalPodAutoscaler>();
    assert_eq!(destinations(autoscaler, "deployment"), [Destination::Graph]);
    let its = "horizontal-pod-autoscaler";
    assert_eq!(destinations(autoscaler, its), [Destination::Both]);
    assert_eq!(destinations(kind_of::<Pod>(), ""), [Destination::Both]);
}
