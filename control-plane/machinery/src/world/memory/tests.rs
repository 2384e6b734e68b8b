use super::*;
use crate::schema;
use crate::world::{Propagation, kind_of};

fn now() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

fn world() -> World {
    let world = World::new(now());
    create(
        &world,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
    );
    world
}

fn create(world: &World, object: Value) -> Object {
    let kind = kind_of(&object).clone();
    world.answer(Call::Create { kind, object }).unwrap()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn delete(world: &World, object: &Object, options: DeleteOptions) -> Result<Object, Status> {
    world.answer(Call::Delete {
        kind: kind_of(object).clone(),
        namespace: object::namespace(object).into(),
        name: object::name(object).into(),
        options,
    })
}

fn update(world: &World, subresource: &'static str, object: Object) -> Result<Object, Status> {
    let kind = kind_of(&object).clone();
    world.answer(Call::Update {
        kind,
        subresource,
        object,
    })
}

fn exists(world: &World, object: &Object) -> bool {
    let namespace = object::namespace(object).to_owned();
    let (kind, name) = (kind_of(object).clone(), object::name(object).to_owned());
    let call = Call::Get {
        kind,
        namespace,
        name,
    };
    world.answer(call).is_ok()
}

#[test]
fn updates_compare_the_version_and_keep_the_status() {
    let world = world();
    let first = create(&world, pod("a"));
    assert_eq!(first["status"]["phase"], "Pending");
    assert_eq!(first["spec"]["restartPolicy"], "Always");
    let mut second = first.clone();
    second["metadata"]["labels"] = json!({"x": "y"});
    second["status"] = json!({"phase": "Running"});
    let second = update(&world, "", second).unwrap();
    assert_eq!(second["status"]["phase"], "Pending");
    assert_eq!(object::generation(&second), 1);
    let stale = update(&world, "status", first).unwrap_err();
    assert_eq!((stale.code, stale.reason), (409, "Conflict"));
    let unchanged = update(&world, "", second.clone()).unwrap();
    assert_eq!(unchanged, second);
    assert_eq!(world.events_after(1).len(), 2);
}

#[test]
fn a_bound_pod_waits_for_its_node_to_end_it() {
    let world = world();
    let pod = create(&world, pod("a"));
    let bind = || Call::Bind {
        namespace: "n".into(),
        pod: "a".into(),
        uid: String::new(),
        node: "m".into(),
    };
    let bound = world.answer(bind()).unwrap();
    assert_eq!(bound["spec"]["nodeName"], "m");
    assert_eq!(world.answer(bind()).unwrap_err().code, 409);
    let deleted = delete(&world, &pod, DeleteOptions::default()).unwrap();
    assert_eq!(
        object::deletion_timestamp(&deleted),
        Some("2026-01-02T03:04:35Z")
    );
    assert!(exists(&world, &pod));
    let at_once = DeleteOptions {
        grace_seconds: Some(0),
        ..DeleteOptions::of(object::uid(&pod))
    };
    delete(&world, &pod, at_once).unwrap();
    assert!(!exists(&world, &pod));
}

#[test]
fn an_object_goes_with_its_last_finalizer() {
    let world = world();
    let mut config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "c"},
    });
    config["metadata"]["finalizers"] = json!(["a/b"]);
    let config = create(&world, config);
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let mut config = delete(&world, &config, foreground).unwrap();
    assert_eq!(
        config["metadata"]["finalizers"],
        json!(["a/b", "foregroundDeletion"])
    );
    config["metadata"]["finalizers"] = json!([]);
    update(&world, "", config.clone()).unwrap();
    assert!(!exists(&world, &config));
    let last = world.events_after(0).pop().unwrap();
    assert_eq!(last.change, Change::Deleted);
}

#[test]
fn a_namespace_takes_nothing_new_while_it_goes_and_ends_with_its_finalizer() {
    let world = world();
    let namespace = schema::kind("", "v1", "Namespace").unwrap();
    let name = "n".to_owned();
    let call = Call::Get {
        kind: namespace.clone(),
        namespace: String::new(),
        name,
    };
    let object = world.answer(call).unwrap();
    let mut object = delete(&world, &object, DeleteOptions::default()).unwrap();
    assert_eq!(object["status"]["phase"], "Terminating");
    let kind = super::super::pods().clone();
    let refused = world.answer(Call::Create {
        kind,
        object: pod("a"),
    });
    assert_eq!(refused.unwrap_err().code, 403);
    object["spec"]["finalizers"] = json!([]);
    update(&world, "finalize", object.clone()).unwrap();
    assert!(!exists(&world, &object));
}

#[test]
fn patches_may_ask_for_a_version_or_an_identity() {
    let world = world();
    let first = create(&world, pod("a"));
    let patch = |patch: Value| {
        world.answer(Call::Patch {
            kind: super::super::pods().clone(),
            namespace: "n".into(),
            name: "a".into(),
            subresource: "",
            form: PatchForm::Strategic,
            patch,
        })
    };
    let second = patch(json!({"metadata": {"labels": {"x": "y"}}})).unwrap();
    assert_eq!(object::label(&second, "x"), Some("y"));
    let version = object::resource_version(&first);
    let stale = patch(json!({"metadata": {"resourceVersion": version, "labels": {"x": "z"}}}));
    assert_eq!(stale.unwrap_err().reason, "Conflict");
    let other = patch(json!({"metadata": {"uid": "other", "labels": {"x": "z"}}}));
    assert_eq!(other.unwrap_err().reason, "Conflict");
}
