use serde_json::{Value, json};

use super::*;
use crate::decision::Step;
use crate::tests::fixtures::{self, ago, bodies, caches, decide, lines, owner};

const KEY: (&str, &str) = ("n", "db");

fn set(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "n", "name": "db", "generation": 1},
        "spec": {
            "replicas": replicas, "serviceName": "peers",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn data(image: &str) -> Value {
    let caches = caches(&[set(1, image)]);
    let set = caches.stateful_sets.get("n", "db").unwrap();
    revisions::data(&set.spec.as_ref().unwrap().template)
}

fn revision_name(image: &str) -> String {
    format!("db-{}", revisions::hash(&data(image), 0))
}

fn revision(image: &str, number: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "data": data(image),
        "metadata": {
            "namespace": "n", "name": revision_name(image), "labels": {"app": "web"},
            "ownerReferences": [owner("apps/v1", "StatefulSet", "db")],
        },
    })
}

/// A pod of the set, made from the template with this image.
fn member(ordinal: i64, image: &str, ready: bool) -> Value {
    let name = format!("db-{ordinal}");
    let mut pod = fixtures::pod(&name, "a", ready);
    let metadata = &mut pod["metadata"];
    metadata["labels"]["statefulset.kubernetes.io/pod-name"] = name.into();
    metadata["labels"]["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
    metadata["labels"][REVISION_HASH] = revision_name(image).into();
    metadata["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "db")]);
    pod
}

/// The set, its first revision, and these pods.
fn world(set: Value, pods: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut objects = vec![set, revision("one", 1)];
    objects.extend(pods);
    objects
}

/// The calls of a decision, except for the status.
fn steps(objects: &[Value]) -> Vec<String> {
    let lines = lines(&decide(&StatefulSets, &caches(objects), KEY));
    let status = |line: &String| !line.starts_with("update status");
    lines.into_iter().filter(status).collect()
}

fn status(objects: &[Value]) -> Value {
    let decision = decide(&StatefulSets, &caches(objects), KEY);
    let mut written = lines(&decision).into_iter().zip(bodies(&decision));
    let status = written.find(|(line, _)| line.starts_with("update status"));
    status.map_or(Value::Null, |(_, body)| body["status"].clone())
}

/// The body of the call that this line describes.
fn body(objects: &[Value], line: &str) -> Value {
    let decision = decide(&StatefulSets, &caches(objects), KEY);
    let all = lines(&decision);
    let at = all.iter().position(|one| one == line);
    bodies(&decision)[at.unwrap_or_else(|| panic!("{all:?}"))].clone()
}

fn told(step: &Step) -> (&'static str, &str) {
    let note = step.done.as_ref().unwrap();
    (note.reason, &note.message)
}

#[test]
fn a_set_begins_with_a_revision_and_its_first_pod() {
    let decision = decide(&StatefulSets, &caches(&[set(2, "one")]), KEY);
    let name = revision_name("one");
    assert_eq!(
        lines(&decision),
        [
            format!("create controllerrevisions n/{name}"),
            "update status of statefulsets n/db".into(),
            "create pods n/db-0".into(),
        ]
    );
    let bodies = bodies(&decision);
    let hash = name.strip_prefix("db-").unwrap();
    let labels = json!({"app": "web", "controller.kubernetes.io/hash": hash});
    assert_eq!(bodies[0]["metadata"]["labels"], labels);
    assert_eq!(bodies[0]["revision"], 1);
    assert_eq!(
        bodies[1]["status"],
        json!({
            "replicas": 0, "readyReplicas": 0, "currentReplicas": 0, "updatedReplicas": 0,
            "availableReplicas": 0, "collisionCount": 0, "observedGeneration": 1,
            "currentRevision": name, "updateRevision": name,
        })
    );
    let pod = &bodies[2];
    assert_eq!(pod["metadata"]["generateName"], "db-");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "web", "statefulset.kubernetes.io/pod-name": "db-0",
            "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": name,
        })
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&"StatefulSet".into(), &true.into())
    );
    let spec = &pod["spec"];
    assert_eq!(
        (&spec["hostname"], &spec["subdomain"]),
        (&"db-0".into(), &"peers".into())
    );
    let created = "Create Pod db-0 in StatefulSet db successful";
    assert_eq!(told(&decision.steps[2]), ("SuccessfulCreate", created));
    let failed = &decision.steps[2].failed[0];
    let message = "Create Pod db-0 in StatefulSet db failed error: {}";
    assert_eq!((failed.reason, &*failed.message), ("FailedCreate", message));
}

#[test]
fn an_ordered_set_waits_for_each_pod() {
    let at = |pods: Vec<Value>| steps(&world(set(3, "one"), pods));
    assert_eq!(at(vec![member(0, "one", false)]), [""; 0]);
    assert_eq!(at(vec![member(0, "one", true)]), ["create pods n/db-1"]);
    let later = vec![member(2, "one", true), member(0, "one", true)];
    assert_eq!(at(later), ["create pods n/db-1"]);
    let mut leaving = member(0, "one", true);
    leaving["metadata"]["deletionTimestamp"] = ago(1).into();
    assert_eq!(at(vec![leaving]), [""; 0]);
}

#[test]
fn a_pod_counts_when_it_was_ready_for_long_enough() {
    let mut set = set(2, "one");
    set["spec"]["minReadySeconds"] = 130.into();
    let objects = world(set, [member(0, "one", true)]);
    assert_eq!(steps(&objects), [""; 0]);
    let status = status(&objects);
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&1.into(), &0.into())
    );
    let decision = decide(&StatefulSets, &caches(&objects), KEY);
    assert_eq!(decision.after, Some(Duration::from_secs(30)));
}

#[test]
fn a_parallel_set_does_all_at_once() {
    let mut parallel = set(3, "one");
    parallel["spec"]["podManagementPolicy"] = "Parallel".into();
    let pods = [
        member(1, "one", false),
        member(3, "one", false),
        member(4, "one", true),
    ];
    assert_eq!(
        steps(&world(parallel, pods)),
        [
            "create pods n/db-0",
            "create pods n/db-2",
            "delete pods n/db-4",
            "delete pods n/db-3",
        ]
    );
}

#[test]
fn ordinals_begin_where_the_set_says() {
    let mut late = set(2, "one");
    late["spec"]["ordinals"] = json!({"start": 5});
    let pods = vec![member(5, "one", true)];
    assert_eq!(steps(&world(late.clone(), pods)), ["create pods n/db-6"]);
    let pods = vec![
        member(5, "one", true),
        member(6, "one", true),
        member(0, "one", true),
    ];
    assert_eq!(steps(&world(late, pods)), ["delete pods n/db-0"]);
}

#[test]
fn a_set_shrinks_from_the_end_while_all_are_available() {
    let at = |pods: Vec<Value>| steps(&world(set(1, "one"), pods));
    let pods = |ready: [bool; 3]| -> Vec<Value> {
        let pods = ready.iter().enumerate();
        pods.map(|(at, ready)| member(at as i64, "one", *ready))
            .collect()
    };
    assert_eq!(at(pods([true; 3])), ["delete pods n/db-2"]);
    assert_eq!(at(pods([false, true, true])), [""; 0]);
    // The last one may go unless an earlier one is unavailable, too.
    assert_eq!(at(pods([true, true, false])), ["delete pods n/db-2"]);
    assert_eq!(at(pods([true, false, false])), [""; 0]);
    let mut leaving = pods([true; 3]);
    leaving[2]["metadata"]["deletionTimestamp"] = ago(1).into();
    assert_eq!(at(leaving), [""; 0]);
}

#[test]
fn a_finished_pod_is_replaced_however_it_ended() {
    for phase in ["Failed", "Succeeded"] {
        let mut ended = member(0, "one", false);
        ended["status"]["phase"] = phase.into();
        let mut objects = world(set(2, "one"), [ended]);
        let decision = decide(&StatefulSets, &caches(&objects), KEY);
        let last = decision.steps.last().unwrap();
        assert_eq!(last.call.to_string(), "delete pods n/db-0");
        let message = "Delete Pod db-0 in StatefulSet db successful";
        assert_eq!(told(last), ("SuccessfulDelete", message));
        objects[2]["metadata"]["deletionTimestamp"] = ago(1).into();
        assert_eq!(steps(&objects), [""; 0]);
    }
}

/// A set in an update from one image to the other.
fn updated(change: impl Fn(&mut Value), pods: Vec<Value>) -> Vec<Value> {
    let mut set = set(3, "two");
    set["status"] = json!({"replicas": 3, "currentRevision": revision_name("one")});
    change(&mut set);
    let mut objects = world(set, pods);
    objects.push(revision("two", 2));
    objects
}

fn members(images: [(&str, bool); 3]) -> Vec<Value> {
    let members = images.iter().enumerate();
    members
        .map(|(at, (image, ready))| member(at as i64, image, *ready))
        .collect()
}

#[test]
fn an_update_replaces_pods_from_the_last_one_by_one() {
    let at = |images| steps(&updated(|_| (), members(images)));
    let (old, new) = (("one", true), ("two", true));
    assert_eq!(at([old, old, old]), ["delete pods n/db-2"]);
    assert_eq!(at([old, old, ("two", false)]), [""; 0]);
    assert_eq!(at([old, old, new]), ["delete pods n/db-1"]);
    assert_eq!(at([new, new, new]), [""; 0]);
    let status = status(&updated(|_| (), members([old, old, new])));
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&2.into(), &1.into())
    );
    assert_eq!(status["currentRevision"], revision_name("one").as_str());
    assert_eq!(status["updateRevision"], revision_name("two").as_str());
}

#[test]
fn a_complete_update_makes_its_revision_the_current_one() {
    let status = status(&updated(|_| (), members([("two", true); 3])));
    assert_eq!(status["currentRevision"], revision_name("two").as_str());
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn pods_before_the_partition_keep_the_current_revision() {
    let partition = |set: &mut Value| {
        set["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    };
    let (old, new) = (("one", true), ("two", true));
    let at = |images| steps(&updated(partition, members(images)));
    assert_eq!(at([old, old, old]), ["delete pods n/db-2"]);
    assert_eq!(at([old, old, new]), [""; 0]);
    let created = |missing: usize| {
        let mut pods = members([old, old, new]);
        pods.remove(missing);
        let line = format!("create pods n/db-{missing}");
        let pod = body(&updated(partition, pods), &line);
        let image = pod["spec"]["containers"][0]["image"].clone();
        (image, pod["metadata"]["labels"][REVISION_HASH].clone())
    };
    assert_eq!(created(1), ("one".into(), revision_name("one").into()));
    assert_eq!(created(2), ("two".into(), revision_name("two").into()));
}

#[test]
fn on_delete_leaves_the_pods_to_the_user() {
    let strategy = |set: &mut Value| set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let pods = members([("one", true); 3]);
    assert_eq!(steps(&updated(strategy, pods.clone())), [""; 0]);
    let pod = body(&updated(strategy, pods[..2].to_vec()), "create pods n/db-2");
    assert_eq!(pod["spec"]["containers"][0]["image"], "two");
}

#[test]
fn an_earlier_template_makes_its_revision_the_newest_again() {
    let mut objects = world(set(1, "one"), [member(0, "two", true)]);
    objects.push(revision("two", 2));
    objects[0]["status"] = json!({"replicas": 1, "currentRevision": revision_name("two")});
    let bump = format!("patch controllerrevisions n/{}", revision_name("one"));
    assert_eq!(steps(&objects), [bump.clone(), "delete pods n/db-0".into()]);
    assert_eq!(body(&objects, &bump)["revision"], 3);
    let status = status(&objects);
    assert_eq!(status["updateRevision"], revision_name("one").as_str());
    assert_eq!(status["currentRevision"], revision_name("two").as_str());
}

#[test]
fn a_revision_that_lacks_a_later_default_is_the_same() {
    let mut older = revision("one", 1);
    let spec = &mut older["data"]["spec"]["template"]["spec"];
    spec.as_object_mut().unwrap().remove("schedulerName");
    assert_eq!(
        steps(&[set(1, "one"), older, member(0, "one", true)]),
        [""; 0]
    );
}

#[test]
fn a_name_that_is_taken_is_counted_as_a_collision() {
    let mut foreign = revision("one", 1);
    foreign["data"] = json!({});
    foreign["metadata"]["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "other")]);
    let objects = [set(1, "one"), foreign];
    let name = format!("db-{}", revisions::hash(&data("one"), 1));
    assert_eq!(
        steps(&objects)[0],
        format!("create controllerrevisions n/{name}")
    );
    let status = status(&objects);
    assert_eq!(status["collisionCount"], 1);
    assert_eq!(status["updateRevision"], name.as_str());
}

#[test]
fn revisions_beyond_the_limit_go_but_none_in_use() {
    let mut set = set(1, "four");
    set["spec"]["revisionHistoryLimit"] = 1.into();
    let mut objects = world(set, [member(0, "one", true)]);
    let later = [("two", 2), ("three", 3), ("four", 4)];
    objects.extend(later.map(|(image, number)| revision(image, number)));
    let gone = format!("delete controllerrevisions n/{}", revision_name("two"));
    assert_eq!(steps(&objects), [gone, "delete pods n/db-0".into()]);
}

#[test]
fn pods_of_its_name_are_adopted_and_others_set_free() {
    let mut free = member(0, "one", true);
    free["metadata"]["ownerReferences"] = json!([]);
    let mut misnamed = member(7, "one", true);
    misnamed["metadata"]["name"] = "other-7".into();
    let mut unlabelled = member(1, "one", true);
    unlabelled["metadata"]["labels"] = json!({});
    let mut orphan = revision("two", 2);
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut objects = world(set(1, "one"), [free, misnamed, unlabelled]);
    objects.push(orphan);
    let revision = format!("patch controllerrevisions n/{}", revision_name("two"));
    let pods = [
        "patch pods n/db-1",
        "patch pods n/other-7",
        "patch pods n/db-0",
    ];
    assert_eq!(steps(&objects), [&[&*revision], &pods[..]].concat());
}

#[test]
fn a_foreign_pod_with_a_name_of_the_set_is_in_the_way() {
    let mut foreign = member(0, "one", true);
    foreign["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    let caches = caches(&world(set(1, "one"), [foreign]));
    let decision = decide(&StatefulSets, &caches, KEY);
    assert_eq!(lines(&decision), ["update status of statefulsets n/db"]);
    let old = caches.pods.get("n", "db-0").cloned();
    assert_eq!(
        woken(&caches, &Changed::Pod(Diff { old, new: None })),
        ["db", "db"]
    );
}

/// The names of the sets that a change wakes.
fn woken(caches: &Caches, changed: &Changed) -> Vec<String> {
    let mut woken = Vec::new();
    StatefulSets.wakes(caches, changed, &mut |(_, name)| woken.push(name));
    woken
}

#[test]
fn a_set_that_is_being_deleted_only_counts() {
    let mut set = set(3, "one");
    set["metadata"]["deletionTimestamp"] = ago(1).into();
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let objects = world(set, [member(0, "one", true)]);
    assert_eq!(steps(&objects), [""; 0]);
    assert_eq!(status(&objects)["replicas"], 1);
}

#[test]
fn a_pod_gets_its_name_back() {
    let mut nameless = member(0, "one", true);
    let labels = nameless["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("statefulset.kubernetes.io/pod-name");
    let objects = world(set(1, "one"), [nameless]);
    let labels = &body(&objects, "patch pods n/db-0")["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-0");
    let decision = decide(&StatefulSets, &caches(&objects), KEY);
    let message = "Update Pod db-0 in StatefulSet db successful";
    assert_eq!(
        told(decision.steps.last().unwrap()),
        ("SuccessfulUpdate", message)
    );
}

fn with_claims(replicas: i64, policy: (&str, &str)) -> Value {
    let mut set = set(replicas, "one");
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data", "labels": {"kind": "disk", "app": "hidden"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": policy.0, "whenDeleted": policy.1});
    set
}

fn claim(ordinal: i64, owners: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": "n", "name": format!("data-db-{ordinal}"), "ownerReferences": owners,
        },
    })
}

fn mounting(ordinal: i64) -> Value {
    let mut pod = member(ordinal, "one", true);
    pod["spec"]["volumes"] = json!([{
        "name": "data", "persistentVolumeClaim": {"claimName": format!("data-db-{ordinal}")},
    }]);
    pod
}

#[test]
fn claims_are_created_before_their_pod() {
    let mut set = with_claims(1, ("Retain", "Retain"));
    set["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]);
    let decision = decide(&StatefulSets, &caches(&[set]), KEY);
    let lines = lines(&decision);
    let new = [
        "create persistentvolumeclaims n/data-db-0",
        "create pods n/db-0",
    ];
    assert_eq!(lines[2..], new);
    let bodies = bodies(&decision);
    assert_eq!(
        bodies[2]["metadata"]["labels"],
        json!({"kind": "disk", "app": "web"})
    );
    let volumes = &bodies[3]["spec"]["volumes"];
    assert_eq!(
        volumes[0]["persistentVolumeClaim"]["claimName"],
        "data-db-0"
    );
    assert_eq!(
        (&volumes[1]["name"], volumes.as_array().unwrap().len()),
        (&"more".into(), 2)
    );
    let step = &decision.steps[2];
    let message = "Create Claim data-db-0 Pod db-0 in StatefulSet db success";
    assert_eq!(told(step), ("SuccessfulCreate", message));
    let failed: Vec<&str> = step.failed.iter().map(|note| &*note.message).collect();
    assert_eq!(
        failed,
        [
            "Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: {}",
            "Create Pod db-0 in StatefulSet db failed error: failed to create PVC data-db-0: {}",
        ]
    );
    let owned = body(
        &[with_claims(1, ("Retain", "Delete"))],
        "create persistentvolumeclaims n/data-db-0",
    );
    assert_eq!(
        owned["metadata"]["ownerReferences"][0]["kind"],
        "StatefulSet"
    );
    assert_eq!(bodies[2]["metadata"].get("ownerReferences"), None);
}

#[test]
fn a_pending_pod_gets_a_claim_that_is_missing() {
    let mut pending = mounting(0);
    pending["status"] = json!({"phase": "Pending"});
    let objects = world(with_claims(1, ("Retain", "Retain")), [pending]);
    assert_eq!(
        steps(&objects),
        ["create persistentvolumeclaims n/data-db-0"]
    );
    // Its owner is written once.
    let mut parallel = objects;
    parallel[0] = with_claims(1, ("Retain", "Delete"));
    parallel[0]["spec"]["podManagementPolicy"] = "Parallel".into();
    parallel.push(claim(0, json!([])));
    assert_eq!(
        steps(&parallel),
        ["patch persistentvolumeclaims n/data-db-0"]
    );
}

#[test]
fn a_pod_waits_until_its_old_claim_is_gone() {
    let mut going = claim(0, json!([]));
    going["metadata"]["deletionTimestamp"] = ago(1).into();
    going["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    let objects = world(with_claims(1, ("Retain", "Retain")), [going]);
    let caches = caches(&objects);
    let decision = decide(&StatefulSets, &caches, KEY);
    let last = decision.steps.last().unwrap();
    assert_eq!(
        last.call.to_string(),
        "get persistentvolumeclaims n/data-db-0"
    );
    let message = "Create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted";
    assert_eq!(told(last), ("FailedCreate", message));
    assert!(last.done.as_ref().unwrap().warning);
    let old = caches.volume_claims.get("n", "data-db-0").cloned();
    let gone = Changed::PersistentVolumeClaim(Diff { old, new: None });
    assert_eq!(woken(&caches, &gone), ["db"]);
}

#[test]
fn a_claim_of_an_earlier_pod_is_not_used_again() {
    let of_pod = || claim(0, json!([owner("v1", "Pod", "db-0")]));
    let at = |policy| steps(&world(with_claims(1, policy), [of_pod()]));
    assert_eq!(at(("Delete", "Retain")), [""; 0]);
    assert_eq!(at(("Retain", "Retain")), ["create pods n/db-0"]);
}

#[test]
fn claims_have_the_owners_of_the_retention_policy() {
    let owners = |policy, ordinal: i64| {
        let pods = [mounting(0), mounting(1)];
        let claims = [0, 1].map(|at| {
            // One pod is too many, and each claim begins with the wrong owner.
            let set = owner("apps/v1", "StatefulSet", "db");
            let pod = owner("v1", "Pod", &format!("db-{at}"));
            claim(at, json!([set, pod]))
        });
        let objects = world(with_claims(1, policy), pods.into_iter().chain(claims));
        let line = format!("patch persistentvolumeclaims n/data-db-{ordinal}");
        let patch = body(&objects, &line);
        let owners = patch["metadata"]["ownerReferences"].as_array().cloned();
        let kinds = owners.into_iter().flatten().map(|owner| {
            assert_eq!(owner["controller"], true);
            owner["kind"].as_str().unwrap().to_owned()
        });
        kinds.collect::<Vec<String>>()
    };
    for (policy, living, extra) in [
        (("Retain", "Retain"), &[][..], &[][..]),
        (("Retain", "Delete"), &["StatefulSet"], &["StatefulSet"]),
        (("Delete", "Retain"), &[], &["Pod"]),
        (("Delete", "Delete"), &["StatefulSet"], &["Pod"]),
    ] {
        assert_eq!(owners(policy, 0), living, "{policy:?}");
        assert_eq!(owners(policy, 1), extra, "{policy:?}");
    }
}

#[test]
fn a_changed_policy_is_told_as_an_update_of_the_pod() {
    let objects = world(
        with_claims(1, ("Retain", "Delete")),
        [mounting(0), claim(0, json!([]))],
    );
    let decision = decide(&StatefulSets, &caches(&objects), KEY);
    let message = "Update Pod db-0 in StatefulSet db successful";
    assert_eq!(
        told(decision.steps.last().unwrap()),
        ("SuccessfulUpdate", message)
    );
}

#[test]
fn claims_that_others_control_or_an_earlier_pod_owned_are_left_alone() {
    let at = |owners| {
        let objects = [mounting(0), claim(0, owners)];
        steps(&world(with_claims(1, ("Delete", "Delete")), objects))
    };
    let other = owner("apps/v1", "Deployment", "other");
    assert_eq!(at(json!([other])), [""; 0]);
    let mut earlier = owner("v1", "Pod", "db-0");
    earlier["uid"] = "earlier".into();
    assert_eq!(at(json!([earlier])), [""; 0]);
    // Beside another controller the set gives its own ownership up.
    let both = json!([other, owner("v1", "Pod", "db-0")]);
    assert_eq!(at(both), ["patch persistentvolumeclaims n/data-db-0"]);
}

#[test]
fn names_have_an_ordinal_as_kubernetes_writes_it() {
    assert_eq!(names::parts("db-10"), Some(("db", 10)));
    assert_eq!(names::parts("my-db-0"), Some(("my-db", 0)));
    for other in ["db", "db-", "db-01", "db-+1", "db-99999999999"] {
        assert_eq!(names::parts(other), None, "{other}");
    }
}
