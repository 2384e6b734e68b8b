//! The provisioner on an in-memory API; the test plays the loop for volumes and the scheduler.

use std::time::Duration;

use api_client::Notice;
use futures_util::FutureExt as _;
use machinery::api::memory::{Change, MemoryApi};
use machinery::api::{Call, DeleteOptions, PatchForm, kind_of};
use machinery::object::{self, Object};
use machinery::schema;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use super::carry::carry_out;
use super::known::{Known, Sort};
use super::*;

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanos: 0,
};
/// More tasks than any test has.
const TASKS_MAX: usize = 100;

struct Scene {
    api: MemoryApi,
    known: Known,
    /// The revision up to which the provisioner was told of changes.
    told: i64,
    elapsed: Duration,
}

impl Scene {
    /// A cluster with the default class, a node, and these objects.
    fn new(objects: &[Value]) -> Scene {
        let scene = Scene {
            api: MemoryApi::new(NOW),
            known: Known::default(),
            told: 0,
            elapsed: Duration::ZERO,
        };
        let labels = json!({"kubernetes.io/hostname": "host-0"});
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "node-0", "labels": labels}}),
            default_class(),
        ] {
            scene.create(&object);
        }
        objects.iter().for_each(|object| drop(scene.create(object)));
        scene
    }

    fn create(&self, object: &Value) -> Object {
        let created = self.api.answer(Call::Create {
            kind: kind_of(object).clone(),
            object: object.clone(),
        });
        created.unwrap()
    }

    fn patch(&self, kind: &str, name: &str, subresource: &'static str, patch: Value) {
        let kind = schema::kind("", "v1", kind).unwrap().clone();
        let namespace = if kind.namespaced() { "n" } else { "" };
        let patched = self.api.answer(Call::Patch {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            subresource,
            form: PatchForm::Merge,
            patch,
        });
        patched.unwrap();
    }

    fn delete(&self, kind: &str, name: &str) {
        let kind = schema::kind("", "v1", kind).unwrap().clone();
        let namespace = if kind.namespaced() { "n" } else { "" };
        let deleted = self.api.answer(Call::Delete {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            options: DeleteOptions::default(),
        });
        deleted.unwrap();
    }

    /// Tells the provisioner of every change.
    fn tell(&mut self) {
        for event in self.api.events_after(self.told) {
            self.told = event.revision;
            let sort = match event.kind.kind() {
                "StorageClass" => Sort::Class,
                "PersistentVolumeClaim" => Sort::Claim,
                "PersistentVolume" => Sort::Volume,
                _ => continue,
            };
            let notice = match event.change {
                Change::Deleted => Notice::Deleted(event.object),
                _ => Notice::Applied(event.object),
            };
            self.known.take(sort, notice);
        }
    }

    /// Does everything that is to be done now; returns the errors.
    fn settle(&mut self) -> Vec<Status> {
        let mut errors = Vec::new();
        for _ in 0..TASKS_MAX {
            self.tell();
            let Some((job, task)) = self.known.next(self.elapsed) else {
                return errors;
            };
            let result = carry_out(&self.api, &task, NOW).now_or_never();
            let result = result.expect("the API answers at once");
            self.known.done(&job, &result, self.elapsed);
            errors.extend(result.err());
        }
        panic!("it never ends");
    }

    fn all(&self, kind: &str) -> Vec<Object> {
        let all = self.api.objects().into_iter();
        let of_kind = all.filter(|(has, _)| has.kind() == kind);
        of_kind.map(|(_, object)| object).collect()
    }

    fn claim(&self, name: &str) -> Object {
        let mut claims = self.all("PersistentVolumeClaim").into_iter();
        claims.find(|claim| object::name(claim) == name).unwrap()
    }

    /// The Events about claims, in order.
    fn said(&self) -> Vec<String> {
        let events = self.api.events_after(0).into_iter();
        let events = events.filter(|event| event.kind.kind() == "Event");
        let line = |event: &Object| {
            let text = |key: &str| object::text(event, &[key]).to_owned();
            format!("{}: {}", text("reason"), text("message"))
        };
        events.map(|event| line(&event.object)).collect()
    }
}

/// A claim for this provisioner, as the loop for volumes marks it.
fn claim(name: &str, node: &str) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "n", "name": name, "annotations": {
            "volume.kubernetes.io/storage-provisioner": NAME,
        }},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    if !node.is_empty() {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
    }
    claim
}

fn class(name: &str, more: Value) -> Value {
    let mut class = default_class();
    class["metadata"] = json!({"name": name});
    for (key, value) in more.as_object().unwrap() {
        class[key] = value.clone();
    }
    class
}

#[test]
fn a_claim_gets_a_volume_on_the_node_of_its_pod() {
    let mut scene = Scene::new(&[claim("data", "node-0")]);
    assert!(scene.settle().is_empty());
    let claim = scene.claim("data");
    let name = format!("pvc-{}", object::uid(&claim));
    let volumes = scene.all("PersistentVolume");
    let [volume] = &volumes[..] else {
        panic!("{volumes:?}");
    };
    assert_eq!(object::name(volume), name);
    let made_by = object::annotation(volume, "pv.kubernetes.io/provisioned-by");
    assert_eq!(made_by, Some("hollow.stele/volumes"));
    let mut expected = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n",
            "name": "data", "uid": object::uid(&claim),
            "resourceVersion": object::resource_version(&claim),
        },
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "standard",
        "volumeMode": "Filesystem",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-0"]},
        ]}]}},
    });
    expected["hostPath"] = volume["spec"]["hostPath"].clone();
    assert_eq!(volume["spec"], expected);
    assert_eq!(
        volume["spec"]["hostPath"]["path"],
        format!("/hollow/{name}")
    );
    assert_eq!(
        scene.said(),
        [
            "Provisioning: External provisioner is provisioning volume for claim \"n/data\""
                .to_owned(),
            format!("ProvisioningSucceeded: Successfully provisioned volume {name}"),
        ]
    );
    let event = &scene.all("Event")[0];
    assert_eq!(event["source"]["component"], NAME);
}

#[test]
fn a_claim_of_a_class_that_waits_gets_no_volume_before_it_has_a_node() {
    let mut scene = Scene::new(&[claim("data", "")]);
    scene.settle();
    assert!(scene.all("PersistentVolume").is_empty() && scene.said().is_empty());
    let node = json!({"metadata": {"annotations": {
        "volume.kubernetes.io/selected-node": "node-0",
    }}});
    scene.patch("PersistentVolumeClaim", "data", "", node);
    scene.settle();
    assert_eq!(scene.all("PersistentVolume").len(), 1);
}

#[test]
fn a_volume_follows_its_class() {
    let fast = json!({
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Retain", "mountOptions": ["ro"],
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    });
    let everywhere = json!({"volumeBindingMode": "Immediate"});
    let of_class = |class: &str| {
        let mut claim = claim(class, "");
        claim["spec"]["storageClassName"] = class.into();
        claim
    };
    // The class may come after the claim.
    let mut scene = Scene::new(&[
        of_class("fast"),
        of_class("everywhere"),
        class("fast", fast),
        class("everywhere", everywhere),
    ]);
    assert!(scene.settle().is_empty());
    let volumes = scene.all("PersistentVolume");
    let of = |class: &str| {
        let mut volumes = volumes.iter();
        let found = volumes.find(|volume| object::storage_class(volume) == class);
        &found.unwrap()["spec"]
    };
    let spec = of("fast");
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(spec["mountOptions"], json!(["ro"]));
    let allowed = json!({"key": "zone", "operator": "In", "values": ["a", "b"]});
    let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
    assert_eq!(term["matchExpressions"], json!([allowed]));
    assert_eq!(of("everywhere").get("nodeAffinity"), None);
}

#[test]
fn claims_of_others_and_claims_that_have_a_volume_or_go_are_left_alone() {
    let mut foreign = claim("foreign", "node-0");
    foreign["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] =
        "example.com/maker".into();
    let mut unmarked = claim("unmarked", "node-0");
    object::remove(&mut unmarked, &["metadata", "annotations"]);
    let mut bound = claim("bound", "node-0");
    bound["spec"]["volumeName"] = "by-hand".into();
    let mut other_class = claim("other-class", "node-0");
    other_class["spec"]["storageClassName"] = "other".into();
    let mut going = claim("going", "node-0");
    going["metadata"]["finalizers"] = json!(["example.com/held"]);
    let mut scene = Scene::new(&[
        foreign,
        unmarked,
        bound,
        other_class,
        going,
        class("other", json!({"provisioner": "example.com/maker"})),
    ]);
    scene.delete("PersistentVolumeClaim", "going");
    scene.settle();
    assert!(scene.all("PersistentVolume").is_empty() && scene.said().is_empty());
}

#[test]
fn what_a_hollow_volume_cannot_be_is_refused_for_good() {
    let refused = |change: Value| {
        let mut claim = claim("data", "node-0");
        for (key, value) in change.as_object().unwrap() {
            claim["spec"][key] = value.clone();
        }
        let mut scene = Scene::new(&[claim]);
        assert!(scene.settle().is_empty());
        assert!(scene.all("PersistentVolume").is_empty());
        assert_eq!(scene.known.wake_at(), None);
        scene.said().concat()
    };
    assert_eq!(
        refused(json!({"volumeMode": "Block"})),
        "ProvisioningFailed: hollow.stele/volumes does not support block volume provisioning"
    );
    let snapshot = json!({"kind": "VolumeSnapshot", "name": "s"});
    for (change, why) in [
        (json!({"selector": {}}), "claim Selector is not supported"),
        (
            json!({"dataSource": snapshot}),
            "hollow volumes hold no data, so none can be copied into them",
        ),
        (
            json!({"volumeAttributesClassName": "gold"}),
            "hollow volumes have no attributes",
        ),
    ] {
        let begin = "ProvisioningFailed: failed to provision volume with StorageClass \"standard\"";
        assert_eq!(refused(change), format!("{begin}: {why}"));
    }
}

#[test]
fn a_claim_whose_node_is_gone_is_given_back_to_the_scheduler() {
    let mut scene = Scene::new(&[claim("data", "node-9")]);
    assert!(scene.settle().is_empty());
    let claim = scene.claim("data");
    let selected = object::annotation(&claim, "volume.kubernetes.io/selected-node");
    assert_eq!(selected, None);
    assert_eq!(
        scene.said(),
        ["ProvisioningFailed: nodes \"node-9\" not found"]
    );
    assert!(scene.all("PersistentVolume").is_empty());
}

#[test]
fn a_node_without_the_name_of_its_host_is_tried_again_later() {
    let mut scene = Scene::new(&[claim("data", "node-1")]);
    scene.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}));
    assert_eq!(scene.settle().len(), 1);
    let said = scene.said().concat();
    let why = "StorageClass \"standard\": node \"node-1\" has no label of its hostname";
    assert!(said.ends_with(why), "{said}");
    let label = json!({"metadata": {"labels": {"kubernetes.io/hostname": "host-1"}}});
    scene.patch("Node", "node-1", "", label);
    scene.elapsed = scene.known.wake_at().expect("another attempt");
    assert!(scene.settle().is_empty());
    assert_eq!(scene.all("PersistentVolume").len(), 1);
}

#[test]
fn a_restarted_provisioner_makes_no_second_volume() {
    let mut scene = Scene::new(&[claim("data", "node-0")]);
    scene.settle();
    let said = scene.said();
    // It knows what there is, or hears of its volume later than of the claim.
    for knows in [true, false] {
        let mut known = Known::default();
        let all = if knows {
            scene.all("PersistentVolume")
        } else {
            Vec::new()
        };
        known.take(Sort::Volume, Notice::Replaced(all));
        known.take(Sort::Class, Notice::Replaced(scene.all("StorageClass")));
        let claims = scene.all("PersistentVolumeClaim");
        known.take(Sort::Claim, Notice::Replaced(claims));
        scene.known = known;
        assert!(scene.settle().is_empty());
        assert_eq!(scene.all("PersistentVolume").len(), 1);
        if knows {
            assert_eq!(scene.said(), said);
        }
    }
}

#[test]
fn a_claim_whose_volume_was_deleted_before_it_was_bound_gets_another() {
    let mut scene = Scene::new(&[claim("data", "node-0")]);
    scene.settle();
    let volumes = scene.all("PersistentVolume");
    scene.delete("PersistentVolume", object::name(&volumes[0]));
    scene.settle();
    let again = scene.all("PersistentVolume");
    assert_eq!(object::name(&again[0]), object::name(&volumes[0]));
    assert_ne!(object::uid(&again[0]), object::uid(&volumes[0]));
}

#[test]
fn a_released_volume_goes_if_it_is_ours_and_its_policy_says_so() {
    let volume = |name: &str, made_by: &str, policy: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {
                "pv.kubernetes.io/provisioned-by": made_by,
            }},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        })
    };
    let mut scene = Scene::new(&[
        volume("ours", NAME, "Delete"),
        volume("bound", NAME, "Delete"),
        volume("kept", NAME, "Retain"),
        volume("foreign", "example.com/maker", "Delete"),
    ]);
    for (name, phase) in [
        ("ours", "Released"),
        ("bound", "Bound"),
        ("kept", "Released"),
        ("foreign", "Released"),
    ] {
        let status = json!({"status": {"phase": phase}});
        scene.patch("PersistentVolume", name, "status", status);
    }
    assert!(scene.settle().is_empty());
    let left = scene.all("PersistentVolume");
    let left: Vec<&str> = left.iter().map(object::name).collect();
    assert_eq!(left, ["bound", "foreign", "kept"]);
}

/// Between the look at a volume and its deletion its owner decides to keep it.
#[test]
fn a_volume_that_is_to_be_kept_by_now_stays() {
    let mut scene = Scene::new(&[claim("data", "node-0")]);
    scene.settle();
    let name = object::name(&scene.all("PersistentVolume")[0]).to_owned();
    let released = json!({"status": {"phase": "Released"}});
    scene.patch("PersistentVolume", &name, "status", released);
    scene.tell();
    let keep = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    scene.patch("PersistentVolume", &name, "", keep);
    let (job, task) = scene.known.next(scene.elapsed).unwrap();
    let result = carry_out(&scene.api, &task, NOW).now_or_never().unwrap();
    assert_eq!(result.as_ref().unwrap_err().reason, "Conflict");
    scene.known.done(&job, &result, scene.elapsed);
    scene.tell();
    scene.elapsed = scene.known.wake_at().unwrap();
    assert!(scene.settle().is_empty());
    assert_eq!(scene.all("PersistentVolume").len(), 1);
}
