use super::*;
use crate::api::{Propagation, kind_of};
use crate::schema;

fn now() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

fn api() -> MemoryApi {
    let api = MemoryApi::new(now());
    create(
        &api,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
    );
    api
}

fn create(api: &MemoryApi, object: Value) -> Object {
    let kind = kind_of(&object).clone();
    api.answer(Call::Create { kind, object }).unwrap()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn delete(api: &MemoryApi, object: &Object, options: DeleteOptions) -> Result<Object, Status> {
    api.answer(Call::Delete {
        kind: kind_of(object).clone(),
        namespace: object::namespace(object).into(),
        name: object::name(object).into(),
        options,
    })
}

fn update(api: &MemoryApi, subresource: &'static str, object: Object) -> Result<Object, Status> {
    let kind = kind_of(&object).clone();
    api.answer(Call::Update {
        kind,
        subresource,
        object,
    })
}

fn exists(api: &MemoryApi, object: &Object) -> bool {
    let namespace = object::namespace(object).to_owned();
    let (kind, name) = (kind_of(object).clone(), object::name(object).to_owned());
    let call = Call::Get {
        kind,
        namespace,
        name,
    };
    api.answer(call).is_ok()
}

#[test]
fn updates_compare_the_version_and_keep_the_status() {
    let api = api();
    let first = create(&api, pod("a"));
    assert_eq!(first["status"]["phase"], "Pending");
    assert_eq!(first["spec"]["restartPolicy"], "Always");
    let mut second = first.clone();
    second["metadata"]["labels"] = json!({"x": "y"});
    second["status"] = json!({"phase": "Running"});
    let second = update(&api, "", second).unwrap();
    assert_eq!(second["status"]["phase"], "Pending");
    assert_eq!(object::generation(&second), 1);
    let stale = update(&api, "status", first).unwrap_err();
    assert_eq!((stale.code, stale.reason), (409, "Conflict"));
    let unchanged = update(&api, "", second.clone()).unwrap();
    assert_eq!(unchanged, second);
    assert_eq!(api.events_after(1).len(), 2);
}

#[test]
fn a_bound_pod_waits_for_its_node_to_end_it() {
    let api = api();
    let pod = create(&api, pod("a"));
    let bind = || Call::Bind {
        namespace: "n".into(),
        pod: "a".into(),
        uid: String::new(),
        node: "m".into(),
    };
    let bound = api.answer(bind()).unwrap();
    assert_eq!(bound["spec"]["nodeName"], "m");
    assert_eq!(api.answer(bind()).unwrap_err().code, 409);
    let deleted = delete(&api, &pod, DeleteOptions::default()).unwrap();
    assert_eq!(
        object::deletion_timestamp(&deleted),
        Some("2026-01-02T03:04:35Z")
    );
    assert!(exists(&api, &pod));
    let at_once = DeleteOptions {
        grace_seconds: Some(0),
        ..DeleteOptions::of(object::uid(&pod))
    };
    delete(&api, &pod, at_once).unwrap();
    assert!(!exists(&api, &pod));
}

#[test]
fn an_object_goes_with_its_last_finalizer() {
    let api = api();
    let mut config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "c"},
    });
    config["metadata"]["finalizers"] = json!(["a/b"]);
    let config = create(&api, config);
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let mut config = delete(&api, &config, foreground).unwrap();
    assert_eq!(
        config["metadata"]["finalizers"],
        json!(["a/b", "foregroundDeletion"])
    );
    config["metadata"]["finalizers"] = json!([]);
    update(&api, "", config.clone()).unwrap();
    assert!(!exists(&api, &config));
    let last = api.events_after(0).pop().unwrap();
    assert_eq!(last.change, Change::Deleted);
}

#[test]
fn a_namespace_takes_nothing_new_while_it_goes_and_ends_with_its_finalizer() {
    let api = api();
    let namespace = schema::kind("", "v1", "Namespace").unwrap();
    let name = "n".to_owned();
    let call = Call::Get {
        kind: namespace.clone(),
        namespace: String::new(),
        name,
    };
    let object = api.answer(call).unwrap();
    let mut object = delete(&api, &object, DeleteOptions::default()).unwrap();
    assert_eq!(object["status"]["phase"], "Terminating");
    let kind = super::super::pods().clone();
    let refused = api.answer(Call::Create {
        kind,
        object: pod("a"),
    });
    assert_eq!(refused.unwrap_err().code, 403);
    object["spec"]["finalizers"] = json!([]);
    update(&api, "finalize", object.clone()).unwrap();
    assert!(!exists(&api, &object));
}

#[test]
fn patches_may_ask_for_a_version_or_an_identity() {
    let api = api();
    let first = create(&api, pod("a"));
    let patch = |patch: Value| {
        api.answer(Call::Patch {
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

/// As with a server, whoever deletes can tell this from other conflicts.
#[test]
fn a_deletion_of_another_object_is_refused_as_such() {
    let api = api();
    let pod = create(&api, pod("a"));
    let at_version = DeleteOptions {
        resource_version: "1".to_owned(),
        ..DeleteOptions::default()
    };
    for options in [DeleteOptions::of("other"), at_version] {
        let refused = delete(&api, &pod, options).unwrap_err();
        assert!(refused.is_of_another(), "{refused:?}");
    }
    assert!(exists(&api, &pod));
}
