use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, owner, pod};

const POD: (&str, &str) = ("n", "p-1");
const KEY: (&str, &str) = ("n", "claim:c");

fn template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"namespace": "n", "name": "chips"},
        "spec": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"devices": {"requests": [
                {"name": "chip", "exactly": {"deviceClassName": "chip"}},
            ]}},
        },
    })
}

/// A pod without a node whose claims of these names come from the template.
fn pod_with(entries: &[&str]) -> Value {
    let mut pod = pod("p-1", "", false);
    pod["status"]["phase"] = "Pending".into();
    let entry = |name: &&str| json!({"name": name, "resourceClaimTemplateName": "chips"});
    pod["spec"]["resourceClaims"] = entries.iter().map(entry).collect();
    pod
}

/// A pod on a node that names the claim `c`.
fn user(name: &str) -> Value {
    let mut pod = pod(name, "a", true);
    pod["spec"]["resourceClaims"] = json!([{"name": "chip", "resourceClaimName": "c"}]);
    pod
}

/// A claim that was made for an entry of the pod.
fn made(name: &str, entry: &str) -> Value {
    let mut claim = claim(name, &[]);
    claim["status"] = Value::Null;
    claim["metadata"] = json!({
        "namespace": "n", "name": name,
        "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
        "ownerReferences": [owner("v1", "Pod", "p-1")],
    });
    claim
}

/// An allocated claim that is reserved for these pods.
fn claim(name: &str, pods: &[&str]) -> Value {
    let reserved = pods.iter().map(|pod| reservation(pod));
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "n", "name": name, "finalizers": [FINALIZER]},
        "spec": {"devices": {}},
        "status": {
            "allocation": {"devices": {"results": []}},
            "reservedFor": reserved.collect::<Vec<_>>(),
        },
    })
}

fn reservation(pod: &str) -> Value {
    json!({"resource": "pods", "name": pod, "uid": format!("pods/{pod}")})
}

fn deleted(object: Value) -> Value {
    let mut object = object;
    object["metadata"]["deletionTimestamp"] = ago(1).into();
    object
}

fn with_status(pod: Value, statuses: Value) -> Value {
    let mut pod = pod;
    pod["status"]["resourceClaimStatuses"] = statuses;
    pod
}

/// The keys that a change from one object to another wakes, given the objects that there are.
fn woken(objects: &[Value], old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let read = |object: &Value| caches(std::slice::from_ref(object));
    let of = |object: Option<&Value>| object.map(read);
    let (old, new) = (of(old), of(new));
    let pod = |of: &Option<Caches>| of.as_ref().and_then(|one| one.pods.all().next().cloned());
    let claim = |of: &Option<Caches>| {
        let one = of.as_ref();
        one.and_then(|one| one.device_claims.all().next().cloned())
    };
    let changed = if pod(&old).or_else(|| pod(&new)).is_some() {
        Changed::Pod(Diff {
            old: pod(&old),
            new: pod(&new),
        })
    } else {
        Changed::ResourceClaim(Diff {
            old: claim(&old),
            new: claim(&new),
        })
    };
    let mut keys = Vec::new();
    ResourceClaims.wakes(&caches(objects), &changed, &mut |(_, name)| keys.push(name));
    keys
}

#[test]
fn a_pod_gets_its_claims_from_the_template() {
    let known = caches(&[template(), pod_with(&["x", "y"]), made("p-1-x-1", "x")]);
    let decision = decide(&ResourceClaims, &known, POD);
    assert_eq!(lines(&decision), ["create resourceclaims n/"]);
    let claim = &bodies(&decision)[0];
    let mut reference = owner("v1", "Pod", "p-1");
    reference
        .as_object_mut()
        .unwrap()
        .remove("blockOwnerDeletion");
    assert_eq!(
        claim["metadata"],
        json!({
            "namespace": "n", "generateName": "p-1-y-", "labels": {"a": "b"},
            "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "y"},
            "ownerReferences": [reference],
        })
    );
    assert_eq!(claim["spec"]["devices"]["requests"][0]["name"], "chip");
    let failed = &decision.steps[0].failed[0];
    assert_eq!(failed.reason, "FailedResourceClaimCreation");
    assert_eq!(
        failed.message,
        "PodResourceClaim y: create ResourceClaim : {}"
    );
    assert_eq!(ResourceClaims.component(), "resource_claim");
}

#[test]
fn the_status_of_a_pod_names_the_claims_that_were_made_for_it() {
    let objects = [template(), made("p-1-x-1", "x"), made("p-1-y-2", "y")];
    let status = json!([
        {"name": "x", "resourceClaimName": "p-1-x-1"},
        {"name": "y", "resourceClaimName": "p-1-y-2"},
    ]);
    // Nothing yet, some of them, and one that is gone and was made again.
    for known in [
        Value::Null,
        json!([{"name": "x", "resourceClaimName": "p-1-x-1"}]),
        json!([
            {"name": "x", "resourceClaimName": "p-1-x-1"},
            {"name": "y", "resourceClaimName": "p-1-y-1"},
        ]),
    ] {
        let mut all = objects.to_vec();
        all.push(with_status(pod_with(&["x", "y"]), known));
        let decision = decide(&ResourceClaims, &caches(&all), POD);
        assert_eq!(lines(&decision), ["patch status of pods n/p-1"]);
        assert_eq!(
            bodies(&decision)[0]["status"],
            json!({"resourceClaimStatuses": status})
        );
    }
    let mut all = objects.to_vec();
    all.push(with_status(pod_with(&["x", "y"]), status));
    assert_eq!(lines(&decide(&ResourceClaims, &caches(&all), POD)), [""; 0]);
}

#[test]
fn a_pod_that_needs_no_claim_gets_none() {
    let mut finished = pod_with(&["x"]);
    finished["status"]["phase"] = "Succeeded".into();
    let unneeded = with_status(pod_with(&["x"]), json!([{"name": "x"}]));
    for pod in [finished, unneeded, deleted(pod_with(&["x"])), user("p-1")] {
        let decision = decide(&ResourceClaims, &caches(&[template(), pod]), POD);
        assert!(decision.steps.is_empty() && decision.notes.is_empty());
    }
}

#[test]
fn a_missing_template_is_told() {
    let decision = decide(&ResourceClaims, &caches(&[pod_with(&["x"])]), POD);
    assert_eq!(lines(&decision), [""; 0]);
    let [note] = &decision.notes[..] else {
        panic!("{:?}", decision.notes);
    };
    assert!(note.warning);
    assert_eq!(
        note.message,
        "PodResourceClaim x: resource claim template \"chips\": \
         resourceclaimtemplate.resource.k8s.io \"chips\" not found"
    );
}

#[test]
fn long_names_of_pods_and_claims_are_both_cut() {
    let mut pod = pod_with(&["x"]);
    let long = "p".repeat(60);
    pod["metadata"]["name"] = long.as_str().into();
    pod["spec"]["resourceClaims"][0]["name"] = "x".repeat(36).into();
    let decision = decide(&ResourceClaims, &caches(&[template(), pod]), ("n", &long));
    let expected = format!("{}-{}", "p".repeat(34), "x".repeat(20));
    assert_eq!(bodies(&decision)[0]["metadata"]["generateName"], *expected);
}

#[test]
fn a_pod_that_was_bound_without_a_scheduler_reserves_its_claim() {
    let decision = decide(
        &ResourceClaims,
        &caches(&[user("p-1"), claim("c", &["p-2"])]),
        POD,
    );
    assert_eq!(lines(&decision), ["patch status of resourceclaims n/c"]);
    let patch = &bodies(&decision)[0];
    assert_eq!(
        patch["status"],
        json!({"reservedFor": [reservation("p-2"), reservation("p-1")]})
    );
    assert_eq!(patch["metadata"]["resourceVersion"], "2");
    let mut free = claim("c", &[]);
    free["status"] = Value::Null;
    for other in [free, claim("c", &["p-1"])] {
        let known = caches(&[user("p-1"), other]);
        assert_eq!(lines(&decide(&ResourceClaims, &known, POD)), [""; 0]);
    }
}

#[test]
fn a_claim_is_deallocated_when_the_last_of_its_pods_is_done() {
    let mut done = user("p-1");
    done["status"]["phase"] = "Failed".into();
    let known = caches(&[claim("c", &["p-1", "p-2"]), done.clone(), user("p-2")]);
    let decision = decide(&ResourceClaims, &known, KEY);
    assert_eq!(lines(&decision), ["patch status of resourceclaims n/c"]);
    assert_eq!(
        bodies(&decision)[0]["status"],
        json!({"reservedFor": [reservation("p-2")]})
    );
    let known = caches(&[claim("c", &["p-1"]), done]);
    let decision = decide(&ResourceClaims, &known, KEY);
    assert_eq!(
        bodies(&decision)[0]["status"],
        json!({"reservedFor": null, "allocation": null})
    );
    // Somebody allocated it and will reserve it, or has something that is no pod.
    let mut foreign = claim("c", &["p-1"]);
    foreign["status"]["reservedFor"][0]["apiGroup"] = "example.com".into();
    for kept in [claim("c", &[]), foreign] {
        let decision = decide(&ResourceClaims, &caches(&[kept]), KEY);
        assert_eq!(lines(&decision), [""; 0]);
    }
}

#[test]
fn a_reservation_for_a_pod_that_is_not_known_is_kept_if_the_apiserver_knows_it() {
    let decision = decide(&ResourceClaims, &caches(&[claim("c", &["p-1"])]), KEY);
    assert_eq!(
        lines(&decision),
        ["get pods n/p-1", "patch status of resourceclaims n/c"]
    );
    assert_eq!(decision.steps[0].replaced.as_deref(), Some("pods/p-1"));
    // One that was seen to go needs no question.
    let mut known = caches(&[claim("c", &["p-1"]), user("p-1")]);
    let gone = json!({"metadata": {"namespace": "n", "name": "p-1", "uid": "pods/p-1"}});
    let kind = crate::known::kind_of::<Pod>();
    known.deleted(kind, &gone, crate::tests::fixtures::now());
    let decision = decide(&ResourceClaims, &known, KEY);
    assert_eq!(lines(&decision), ["patch status of resourceclaims n/c"]);
}

#[test]
fn the_finalizer_goes_with_the_allocation() {
    let mut free = claim("c", &[]);
    free["status"] = Value::Null;
    let freed = |claim: &Value| {
        let known = caches(std::slice::from_ref(claim));
        lines(&decide(&ResourceClaims, &known, ("n", "freed:c")))
    };
    assert_eq!(freed(&free), ["patch resourceclaims n/c"]);
    assert_eq!(freed(&claim("c", &[])), [""; 0]);
    // A scheduler has just set it.
    let known = caches(std::slice::from_ref(&free));
    assert_eq!(lines(&decide(&ResourceClaims, &known, KEY)), [""; 0]);
    let known = caches(&[deleted(free.clone())]);
    let decision = decide(&ResourceClaims, &known, KEY);
    assert_eq!(lines(&decision), ["patch resourceclaims n/c"]);
    assert_eq!(bodies(&decision)[0]["metadata"]["finalizers"], json!([]));
    let known = caches(&[deleted(claim("c", &[]))]);
    let decision = decide(&ResourceClaims, &known, KEY);
    assert_eq!(bodies(&decision)[0]["status"], json!({"allocation": null}));
    let was = claim("c", &["p-1"]);
    assert_eq!(woken(&[], Some(&was), Some(&free)), ["claim:c", "freed:c"]);
}

#[test]
fn the_claim_of_a_pod_that_is_done_is_removed() {
    let mut done = pod_with(&["x"]);
    done["status"]["phase"] = "Succeeded".into();
    for done in [done, deleted(pod_with(&["x"]))] {
        let known = caches(&[made("c", "x"), done]);
        let decision = decide(&ResourceClaims, &known, KEY);
        assert_eq!(lines(&decision), ["delete resourceclaims n/c"]);
    }
    for kept in [vec![made("c", "x"), pod_with(&["x"])], vec![made("c", "x")]] {
        assert_eq!(
            lines(&decide(&ResourceClaims, &caches(&kept), KEY)),
            [""; 0]
        );
    }
}

#[test]
fn pods_and_claims_wake_each_other() {
    let status = json!([{"name": "x", "resourceClaimName": "c"}]);
    let pod = with_status(pod_with(&["x"]), status);
    let mut done = pod.clone();
    done["status"]["phase"] = "Failed".into();
    assert_eq!(woken(&[], Some(&pod), Some(&pod)), ["p-1"]);
    assert_eq!(woken(&[], Some(&pod), Some(&done)), ["claim:c", "p-1"]);
    assert_eq!(woken(&[], Some(&pod), None), ["claim:c"]);
    let mut another = pod_with(&["x"]);
    another["metadata"]["uid"] = "another".into();
    assert_eq!(woken(&[], Some(&pod), Some(&another)), ["claim:c", "p-1"]);
    let plain = pod_with(&[]);
    assert_eq!(woken(&[], None, Some(&plain)), [""; 0]);
    // The pod that a claim was made for, and those that wait for one of its name.
    assert_eq!(woken(&[], None, Some(&made("c", "x"))), ["claim:c", "p-1"]);
    let users = [user("p-2"), user("p-3")];
    let one = claim("c", &[]);
    assert_eq!(woken(&users, None, Some(&one)), ["claim:c", "p-2", "p-3"]);
    assert_eq!(woken(&users, Some(&one), Some(&one)), ["claim:c"]);
    assert_eq!(woken(&users, Some(&one), None), ["p-2", "p-3"]);
}
