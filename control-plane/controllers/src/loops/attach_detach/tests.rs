use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, caches_since, decide, lines, node, now, pod};

const VOLUME: (&str, &str) = (VOLUMES, "disk");
/// The name that Kubernetes gives the attachment of the volume to `node-0`.
const NAME: &str = "csi-9c415c46844288400ead1f3c7a1e882b2689c593fd8c6ab65cd81a6dc2060581";
const IN_STATUS: &str = "kubernetes.io/csi/disk.stele.test^disk";

/// A volume of a driver, and its claim.
fn storage(mode: &str) -> Vec<Value> {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "accessModes": [mode],
            "csi": {"driver": "disk.stele.test", "volumeHandle": "disk"},
            "claimRef": {
                "namespace": "n", "name": "data", "uid": "persistentvolumeclaims/data",
            },
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "n", "name": "data"},
        "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"},
    });
    vec![volume, claim]
}

fn user(name: &str, node: &str, seconds: i64) -> Value {
    let mut pod = pod(name, node, true);
    pod["metadata"]["creationTimestamp"] = ago(seconds).into();
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    pod
}

/// A node that leaves it to the loop to attach volumes.
fn managed(name: &str) -> Value {
    let mut node = node(name, "True");
    node["metadata"]["annotations"] = json!({MANAGED: "true"});
    node
}

fn attachment(name: &str, node: &str, attached: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {
            "attacher": "disk.stele.test", "nodeName": node,
            "source": {"persistentVolumeName": "disk"},
        },
        "status": {"attached": attached},
    })
}

fn decided(objects: &[Vec<Value>], key: (&str, &str)) -> Decision {
    decide(&AttachDetach, &caches(&objects.concat()), key)
}

fn messages(decision: &Decision) -> Vec<&str> {
    let notes = decision.notes.iter();
    notes.map(|note| note.message.as_str()).collect()
}

#[test]
fn a_volume_is_attached_to_the_node_of_a_pod_that_uses_it() {
    let shared = storage("ReadWriteMany");
    let pods = vec![
        user("a", "node-0", 9),
        user("b", "node-1", 8),
        user("c", "node-2", 7),
    ];
    let nodes = vec![managed("node-0"), node("node-1", "True"), managed("node-2")];
    let there = vec![attachment("csi-other", "node-2", true)];
    let decision = decided(&[shared.clone(), pods.clone(), nodes, there], VOLUME);
    // The node in the middle attaches volumes by itself.
    assert_eq!(decision.steps.len(), 2);
    let mut expected = attachment(NAME, "node-0", false);
    expected["status"] = Value::Null;
    let mut made = bodies(&decision)[0].clone();
    made["status"] = Value::Null;
    made["metadata"] = json!({"name": made["metadata"]["name"]});
    assert_eq!(made, expected);

    let there = vec![managed("node-0"), attachment(NAME, "node-0", false)];
    let one = vec![user("a", "node-0", 9)];
    assert_eq!(
        lines(&decided(&[shared.clone(), one.clone(), there], VOLUME)),
        [""; 0]
    );
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "disk.stele.test"}, "spec": {"attachRequired": false},
    });
    let without = vec![managed("node-0"), driver];
    assert_eq!(
        lines(&decided(&[shared.clone(), one, without], VOLUME)),
        [""; 0]
    );
    let mut ended = user("a", "node-0", 9);
    ended["status"]["phase"] = "Succeeded".into();
    let ended = vec![managed("node-0"), ended];
    assert_eq!(lines(&decided(&[shared, ended], VOLUME)), [""; 0]);
}

#[test]
fn of_several_nodes_one_gets_a_volume_that_only_one_may_have() {
    let single = storage("ReadWriteOnce");
    let pods = vec![user("late", "node-1", 8), user("early", "node-2", 9)];
    let nodes = vec![managed("node-1"), managed("node-2")];
    let decision = decided(&[single.clone(), pods.clone(), nodes.clone()], VOLUME);
    assert_eq!(decision.steps.len(), 1);
    let made = bodies(&decision)[0].clone();
    assert_eq!(made["spec"]["nodeName"], "node-2");
    let name = made["metadata"]["name"].as_str().unwrap();
    let there = vec![attachment(name, "node-2", false)];
    let told = decided(&[single.clone(), pods, nodes.clone(), there], VOLUME);
    assert_eq!(lines(&told), [""; 0]);
    assert_eq!(
        messages(&told),
        ["Multi-Attach error for volume \"disk\" Volume is already used by pod(s) early"]
    );
    assert!(told.notes[0].warning);
    let left = vec![user("late", "node-1", 8), attachment(name, "node-2", true)];
    let told = decided(&[single, left, nodes], VOLUME);
    assert_eq!(
        messages(&told),
        [
            "Multi-Attach error for volume \"disk\" Volume is already exclusively attached to one \
             node and can't be attached to another"
        ]
    );
}

#[test]
fn a_node_says_what_is_attached_and_its_pods_have_an_event() {
    let mut node = managed("node-0");
    let foreign = json!({"name": "kubernetes.io/iscsi/x", "devicePath": "p"});
    node["status"]["volumesAttached"] = json!([foreign]);
    let attached = vec![attachment(NAME, "node-0", true), user("a", "node-0", 9)];
    let all = [storage("ReadWriteOnce"), attached, vec![node.clone()]];
    let decision = decided(&all, ("", "node-0"));
    assert_eq!(lines(&decision), ["patch status of nodes node-0"]);
    let patch = &bodies(&decision)[0];
    let ours = json!({"name": IN_STATUS, "devicePath": ""});
    assert_eq!(patch["status"]["volumesAttached"], json!([foreign, ours]));
    assert_eq!(
        messages(&decision),
        ["AttachVolume.Attach succeeded for volume \"disk\" "]
    );
    let mut all = all;
    all[2][0]["status"]["volumesAttached"] = json!([foreign, ours]);
    let decision = decided(&all, ("", "node-0"));
    assert!(decision.steps.is_empty() && decision.notes.is_empty());
    // Its driver is not done yet.
    all[2] = vec![node];
    all[1][0] = attachment(NAME, "node-0", false);
    assert_eq!(lines(&decided(&all, ("", "node-0"))), [""; 0]);
}

#[test]
fn what_nobody_uses_is_detached_once_it_is_not_mounted() {
    let deletion = format!("delete volumeattachments {NAME}");
    let mut node = managed("node-0");
    node["status"]["volumesAttached"] = json!([{"name": IN_STATUS, "devicePath": ""}]);
    let there = vec![
        attachment(NAME, "node-0", true),
        attachment("by-hand", "node-0", false),
    ];
    let mut all = [storage("ReadWriteOnce"), there, vec![node.clone()]];
    let decision = decided(&all, ("", "node-0"));
    assert_eq!(
        lines(&decision),
        ["patch status of nodes node-0", deletion.as_str()]
    );
    let patch = &bodies(&decision)[0];
    assert_eq!(patch["status"]["volumesAttached"], json!([]));
    // The agent may have mounted it since.
    assert_ne!(patch["metadata"]["resourceVersion"], Value::Null);
    node["status"]["volumesInUse"] = json!([IN_STATUS]);
    all[2] = vec![node.clone()];
    assert_eq!(lines(&decided(&all, ("", "node-0"))), [""; 0]);
    node["spec"]["taints"] = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
    all[2] = vec![node];
    assert_eq!(
        lines(&decided(&all, ("", "node-0"))).last(),
        Some(&deletion)
    );
}

#[test]
fn what_kubernetes_attached_under_names_of_its_own_stays_listed() {
    let disk = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "cloud"},
        "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    });
    let mut of_disk = attachment("csi-cloud", "node-0", true);
    of_disk["spec"]["source"]["persistentVolumeName"] = "cloud".into();
    let cloud = json!({"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": ""});
    let mut node = managed("node-0");
    node["status"]["volumesAttached"] = json!([cloud, {"name": IN_STATUS, "devicePath": ""}]);
    let listed = |attachments: Vec<Value>| {
        let all = [storage("ReadWriteOnce"), attachments, vec![node.clone()]];
        let decision = decided(&all, ("", "node-0"));
        bodies(&decision)[0]["status"]["volumesAttached"].clone()
    };
    // Nobody uses our own volume.
    let ours = attachment(NAME, "node-0", true);
    assert_eq!(listed(vec![disk, of_disk, ours]), json!([cloud]));
    assert_eq!(listed(Vec::new()), json!([]));
}

#[test]
fn what_a_deleted_node_had_is_detached_after_a_while() {
    let deletion = format!("delete volumeattachments {NAME}");
    let there = [
        storage("ReadWriteOnce"),
        vec![attachment(NAME, "node-0", true)],
    ]
    .concat();
    let with_node = [there.clone(), vec![managed("node-0")]].concat();
    let after = |seconds: i64, objects: &[Value]| {
        let mut then = now();
        then.seconds -= seconds;
        let mut caches = caches_since(objects, then);
        let last = json!({"metadata": {"name": "node-0", "uid": "nodes/node-0"}});
        caches.deleted(crate::known::kind_of::<Node>(), &last, then);
        decide(&AttachDetach, &caches, ("", "node-0"))
    };
    // The node was deleted then, or was not there when the loops began.
    for objects in [with_node, there] {
        let early = after(60, &objects);
        assert_eq!(lines(&early), [""; 0]);
        assert_eq!(early.after, Some(std::time::Duration::from_secs(300)));
        assert_eq!(lines(&after(360, &objects)), [deletion.as_str()]);
    }
}

#[test]
fn pods_wake_their_node_and_their_volume_when_they_come_end_and_go() {
    let objects = [storage("ReadWriteOnce"), vec![user("a", "node-0", 9)]].concat();
    let caches = caches(&objects);
    let running = caches.pods.get("n", "a").cloned();
    let mut ended = running.clone();
    let status = std::sync::Arc::make_mut(ended.as_mut().unwrap())
        .status
        .as_mut();
    status.unwrap().phase = Some("Succeeded".into());
    let woken = |old, new| {
        let changed = Changed::Pod(Diff { old, new });
        let mut woken = Vec::new();
        AttachDetach.wakes(&caches, &changed, &mut |key| woken.push(key));
        woken.sort();
        woken.dedup();
        woken
    };
    let both = [cluster_key("node-0"), volume_key("disk")];
    assert_eq!(woken(None, running.clone()), both);
    assert_eq!(woken(running.clone(), ended.clone()), both);
    assert_eq!(woken(ended.clone(), None), both);
    assert!(woken(ended.clone(), ended).is_empty());
}
