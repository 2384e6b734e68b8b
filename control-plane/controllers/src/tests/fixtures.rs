//! Caches with a few objects, and decisions as lines of text.

use std::collections::BTreeSet;
use std::sync::Arc;

use machinery::api::memory::MemoryApi;
use machinery::api::{Call, kind_of};
use machinery::defaults;
use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::cache::{Caches, Destination};
use crate::decision::{Answers, Decision};
use crate::kinds::Kinds;
use crate::loops::{Context, Failure, Loop};

/// The time in every test that does not set another.
pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

/// The time so many seconds before [`now`], as text.
pub(crate) fn ago(seconds: i64) -> String {
    let mut then = now();
    then.seconds -= seconds;
    then.to_seconds()
}

/// The discovery document of the core group, or of all others, with the kinds of the table.
pub(crate) fn discovery(core: bool) -> Object {
    MemoryApi::default()
        .answer(Call::Discover { core })
        .unwrap()
}

/// The kinds of the table.
pub(crate) fn kinds() -> Kinds {
    Kinds::read(&[discovery(true), discovery(false)])
}

/// Caches with these objects, as if their watches had just reported them. Each object gets a uid
/// from its kind and name, a version, and the defaults of its kind.
pub(crate) fn caches(objects: &[Value]) -> Caches {
    caches_since(objects, now())
}

pub(crate) fn caches_since(objects: &[Value], since: Timestamp) -> Caches {
    let mut caches = Caches {
        kinds: Arc::new(kinds()),
        ..Caches::default()
    };
    for (place, one) in objects.iter().enumerate() {
        let mut one = one.clone();
        let kind = kind_of(&one);
        defaults::apply(kind.group(), kind.kind(), &mut one);
        if object::uid(&one).is_empty() {
            let uid = format!("{}/{}", kind.plural(), object::name(&one));
            object::set(&mut one, &["metadata", "uid"], uid.into());
        }
        if object::resource_version(&one).is_empty() {
            object::set_resource_version(&mut one, place as i64 + 1);
        }
        caches.observe(
            kind,
            Destination::Both,
            api_client::Notice::Applied(one),
            since,
        );
    }
    caches
}

pub(crate) fn decide(works: &dyn Loop, caches: &Caches, key: (&str, &str)) -> Decision {
    decide_after(works, caches, key, None)
}

pub(crate) fn decide_after(
    works: &dyn Loop,
    caches: &Caches,
    key: (&str, &str),
    failure: Option<&Failure>,
) -> Decision {
    let context = Context {
        caches,
        now: now(),
        failure,
        taken: &BTreeSet::new(),
        answers: &Answers::default(),
    };
    works.decide(&context, &(key.0.into(), key.1.into()))
}

/// The calls of a decision, without their bodies.
pub(crate) fn lines(decision: &Decision) -> Vec<String> {
    let steps = decision.steps.iter();
    steps.map(|step| step.call.to_string()).collect()
}

/// The bodies of the calls: objects and patches.
pub(crate) fn bodies(decision: &Decision) -> Vec<Value> {
    let steps = decision.steps.iter();
    steps
        .map(|step| match &step.call {
            Call::Create { object, .. } | Call::Update { object, .. } => object.clone(),
            Call::Patch { patch, .. } => patch.clone(),
            Call::Delete { options, .. } => options.to_object(),
            _ => Value::Null,
        })
        .collect()
}

/// A pod of the app `web` on a node; ready if `ready`.
pub(crate) fn pod(name: &str, node: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "n", "name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", name.len()),
            "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": ago(100)},
            ],
        },
    })
}

/// The same pod, owned by a replica set.
pub(crate) fn owned(pod: Value, set: &str) -> Value {
    let mut pod = pod;
    pod["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", set)]);
    pod
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    let (group, version) = machinery::schema::split_api_version(api_version);
    let plural = machinery::schema::kind(group, version, kind)
        .unwrap()
        .plural();
    json!({
        "apiVersion": api_version, "kind": kind, "name": name,
        "uid": format!("{plural}/{name}"), "controller": true, "blockOwnerDeletion": true,
    })
}

pub(crate) fn replica_set(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "n", "name": name, "generation": 1},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// A replication controller of the app `web`, and pods that it owns.
pub(crate) fn replication_controller<const N: usize>(
    replicas: i64,
    pods: [Value; N],
) -> Vec<Value> {
    let mut controller = replica_set("web", replicas);
    controller["apiVersion"] = "v1".into();
    controller["kind"] = "ReplicationController".into();
    controller["spec"]["selector"] = json!({"app": "web"});
    let owned = pods.into_iter().map(|mut pod| {
        pod["metadata"]["ownerReferences"] = json!([owner("v1", "ReplicationController", "web")]);
        pod
    });
    std::iter::once(controller).chain(owned).collect()
}

/// A node with a ready condition of `True`, `False` or `Unknown` and a heartbeat just now.
pub(crate) fn node(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": [
            {"type": "Ready", "status": ready, "lastHeartbeatTime": ago(0)},
        ]},
    })
}
