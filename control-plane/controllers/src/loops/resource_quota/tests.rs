use api_client::Notice;
use machinery::api::kind_of as object_kind;
use serde_json::{Value, json};

use super::*;
use crate::cache::Destination;
use crate::tests::fixtures::{bodies, caches, decide, lines, now};

const KEY: (&str, &str) = ("n", "q");

fn quota(hard: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "n", "name": "q"}, "spec": {"hard": hard},
    })
}

fn pod(name: &str, phase: &str) -> Value {
    let resources = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        "status": {"phase": phase},
    })
}

fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "spec": spec,
        "metadata": {"namespace": "n", "name": name},
    })
}

/// What the status of a quota becomes.
fn told(quota: Value, others: &[Value]) -> Value {
    let mut objects = others.to_vec();
    objects.push(quota);
    let decision = decide(&ResourceQuotas, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update status of resourcequotas n/q"]);
    bodies(&decision)[0]["status"].clone()
}

#[test]
fn the_objects_of_every_kind_are_counted() {
    let claim = json!({
        "storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}},
    });
    let devices = json!({"devices": {"requests": [{
        "name": "r", "exactly": {"deviceClassName": "fast", "allocationMode": "All"},
    }]}});
    let mut elsewhere = pod("far", "Running");
    elsewhere["metadata"]["namespace"] = "m".into();
    let objects = [
        pod("a", "Running"),
        pod("b", "Pending"),
        pod("c", "Succeeded"),
        elsewhere,
        object(
            "v1",
            "Service",
            "s",
            json!({"type": "NodePort", "ports": [{"port": 1}]}),
        ),
        object("v1", "PersistentVolumeClaim", "v", claim),
        object("resource.k8s.io/v1", "ResourceClaim", "d", devices),
        object("v1", "Secret", "one", Value::Null),
        object("v1", "Secret", "two", Value::Null),
        object(
            "apps/v1",
            "Deployment",
            "web",
            json!({"selector": {}, "template": {}}),
        ),
    ];
    let used = json!({
        "pods": "2", "count/pods": "3", "requests.cpu": "1", "limits.memory": "2Gi",
        "services.nodeports": "1", "services.loadbalancers": "0",
        "gold.storageclass.storage.k8s.io/requests.storage": "5Gi", "requests.storage": "5Gi",
        "fast.deviceclass.resource.k8s.io/devices": "32",
        "secrets": "2", "count/secrets": "2", "count/deployments.apps": "1",
        "count/replicasets.apps": "0",
    });
    let hard = used.as_object().unwrap().keys();
    let hard: Value = hard.map(|name| (name.clone(), json!("100"))).collect();
    assert_eq!(
        told(quota(hard.clone()), &objects),
        json!({"hard": hard, "used": used})
    );
}

#[test]
fn only_objects_in_its_scopes_count() {
    let mut limited = pod("b", "Running");
    limited["spec"]["activeDeadlineSeconds"] = 60.into();
    let mut quota = quota(json!({"pods": "9", "count/secrets": "9"}));
    quota["spec"]["scopes"] = json!(["Terminating"]);
    let secret = object("v1", "Secret", "one", Value::Null);
    let status = told(quota, &[pod("a", "Running"), limited, secret]);
    assert_eq!(status["used"], json!({"pods": "1", "count/secrets": "0"}));
}

#[test]
fn a_sum_stays_if_its_kind_is_not_served_and_goes_with_its_limit() {
    let mut quota = quota(json!({"pods": "3", "count/carts.shop.io": "5"}));
    quota["status"] = json!({
        "hard": {"pods": "2", "count/carts.shop.io": "5", "secrets": "1"},
        "used": {"pods": "7", "count/carts.shop.io": "4", "secrets": "1"},
    });
    let status = told(quota, &[pod("a", "Running")]);
    assert_eq!(
        status["hard"],
        json!({"pods": "3", "count/carts.shop.io": "5"})
    );
    assert_eq!(
        status["used"],
        json!({"pods": "1", "count/carts.shop.io": "4"})
    );
}

#[test]
fn a_quota_is_left_alone_if_its_status_is_right_and_is_counted_again_later() {
    let mut quota = quota(json!({"requests.cpu": "1", "pods": "1"}));
    let pods = [pod("a", "Running")];
    let fresh = decide(
        &ResourceQuotas,
        &caches(&[&pods[..], &[quota.clone()]].concat()),
        KEY,
    );
    assert_eq!(fresh.after, Some(SECOND_COUNT));
    quota["status"] = json!({
        "hard": {"requests.cpu": "1000m", "pods": "1"},
        "used": {"requests.cpu": "0.5", "pods": "1"},
    });
    let settled = decide(
        &ResourceQuotas,
        &caches(&[&pods[..], &[quota]].concat()),
        KEY,
    );
    assert!(settled.steps.is_empty());
    assert_eq!(settled.after, Some(RECOUNT));
}

/// The keys that a notice about an object wakes.
fn woken(caches: &mut Caches, notice: Notice) -> Vec<String> {
    let about = match &notice {
        Notice::Applied(object) | Notice::Deleted(object) => object,
        Notice::Replaced(objects) => &objects[0],
    };
    let kind = Arc::clone(object_kind(about));
    let effects = caches.observe(&kind, Destination::Both, notice, now());
    let mut keys = Vec::new();
    let mut wake = |key: Key| keys.push(format!("{}/{}", key.0, key.1));
    for changed in &effects.changed {
        ResourceQuotas.wakes(caches, changed, &mut wake);
    }
    for (kind, namespace) in &effects.deleted {
        ResourceQuotas.deleted(caches, kind, namespace.as_deref(), &mut wake);
    }
    keys
}

/// The object in a newer version.
fn at(version: i64, mut object: Value) -> Value {
    object::set_resource_version(&mut object, version);
    let uid = format!(
        "{}/{}",
        object_kind(&object).plural(),
        object::name(&object)
    );
    object::set(&mut object, &["metadata", "uid"], uid.into());
    object
}

#[test]
fn deletions_and_ends_wake_the_quotas_that_count_them() {
    let mut other = quota(json!({"secrets": "1"}));
    other["metadata"]["name"] = "other".into();
    let mut caches = caches(&[quota(json!({"pods": "1"})), other, pod("a", "Running")]);
    let mut woken = |notice| woken(&mut caches, notice);
    let none: [&str; 0] = [];
    assert_eq!(woken(Notice::Applied(at(10, pod("b", "Pending")))), none);
    assert_eq!(woken(Notice::Applied(at(11, pod("b", "Running")))), none);
    assert_eq!(woken(Notice::Applied(at(12, pod("b", "Failed")))), ["n/q"]);
    assert_eq!(woken(Notice::Deleted(at(13, pod("b", "Failed")))), ["n/q"]);
    let secret = at(14, object("v1", "Secret", "one", Value::Null));
    assert_eq!(woken(Notice::Applied(secret.clone())), none);
    assert_eq!(woken(Notice::Deleted(secret)), ["n/other"]);
    // A list after a gap: nobody knows which pods are gone.
    let pods = vec![at(15, pod("a", "Running"))];
    assert_eq!(woken(Notice::Replaced(pods)), ["n/q"]);
}

#[test]
fn what_pods_use_is_known_where_there_are_quotas() {
    let mut caches = caches(&[pod("a", "Running")]);
    let mut version = 10;
    // The CPU that the pod asks for, after a notice about this object.
    let mut known = |object: Value, deleted: bool| {
        version += 1;
        let object = at(version, object);
        let notice = if deleted {
            Notice::Deleted(object)
        } else {
            Notice::Applied(object)
        };
        woken(&mut caches, notice);
        let usage = caches.pod_usage.of(caches.pods.get("n", "a")?)?;
        Some(usage.get("requests.cpu").map(ToString::to_string))
    };
    let cpu = |cpu: &str| Some(Some(cpu.to_owned()));
    let (quota, mut pod) = (quota(json!({"pods": "1"})), pod("a", "Running"));
    let named = |name: &str| {
        let mut named = quota.clone();
        named["metadata"]["name"] = name.into();
        named
    };
    assert_eq!(known(pod.clone(), false), None, "there is no quota");
    assert_eq!(known(quota.clone(), false), cpu("500m"));
    assert_eq!(known(named("p"), false), cpu("500m"));
    assert_eq!(known(quota.clone(), true), cpu("500m"), "there is another");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
    assert_eq!(known(pod.clone(), false), cpu("1"));
    pod["status"]["phase"] = "Failed".into();
    assert_eq!(known(pod.clone(), false), Some(None), "it uses nothing");
    assert_eq!(known(named("p"), true), None, "nobody counts it");
    assert_eq!(known(named("r"), false), Some(None));
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(known(pod.clone(), false), None, "the time decides");
    assert_eq!(known(pod, true), None);
}

#[test]
fn a_new_limit_wakes_its_quota_and_a_new_status_does_not() {
    let mut caches = caches(&[]);
    let mut woken = |notice| woken(&mut caches, notice);
    assert_eq!(
        woken(Notice::Applied(at(1, quota(json!({"pods": "1"}))))),
        ["n/q"]
    );
    let mut charged = quota(json!({"pods": "1"}));
    charged["status"] = json!({"hard": {"pods": "1"}, "used": {"pods": "1"}});
    assert_eq!(woken(Notice::Applied(at(2, charged))), [""; 0]);
    assert_eq!(
        woken(Notice::Applied(at(3, quota(json!({"pods": "2"}))))),
        ["n/q"]
    );
}
