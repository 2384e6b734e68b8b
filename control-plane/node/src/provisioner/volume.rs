//! What a volume is made of, and the marks on claims and volumes that say what is to be done.

use machinery::object::{self, Object};
use serde_json::{Value, json};

/// The provisioner, as classes of storage name it.
pub const NAME: &str = "hollow.stele/volumes";

/// Where volumes would be on their node.
const FOLDER: &str = "/hollow";
/// The annotations of a claim that name its provisioner. The second one is older.
const PROVISIONER: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
/// The annotation of a volume that names who made it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of a claim that names the node of the pod that waits for it.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The label by which a volume knows its node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The class of storage that a new cluster begins with, the default one.
pub fn default_class() -> Object {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": NAME, "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// True if a claim waits for a volume from here, perhaps until it has a node.
pub(super) fn waits_for_volume(claim: &Object) -> bool {
    let mut names = PROVISIONER.iter();
    let provisioner = names.find_map(|key| object::annotation(claim, key));
    provisioner == Some(NAME)
        && object::text(claim, &["spec", "volumeName"]).is_empty()
        && !object::is_deleting(claim)
}

/// True if a volume of this class can be made for a claim now.
pub(super) fn is_ready(claim: &Object, class: &Object) -> bool {
    let waits = object::text(class, &["volumeBindingMode"]) == "WaitForFirstConsumer";
    object::text(class, &["provisioner"]) == NAME && (!waits || selected_node(claim).is_some())
}

/// The node that a claim's volume is made for.
pub(super) fn selected_node(claim: &Object) -> Option<&str> {
    object::annotation(claim, SELECTED_NODE).filter(|node| !node.is_empty())
}

/// Why no volume can be made for a claim; `None` if one can.
pub(super) fn refusal(claim: &Object) -> Option<String> {
    let has = |field| object::at(claim, &["spec", field]).is_some_and(|value| !value.is_null());
    if object::text(claim, &["spec", "volumeMode"]) == "Block" {
        return Some(format!("{NAME} does not support block volume provisioning"));
    }
    let why = if has("selector") {
        "claim Selector is not supported"
    } else if has("dataSource") || has("dataSourceRef") {
        "hollow volumes hold no data, so none can be copied into them"
    } else if !object::text(claim, &["spec", "volumeAttributesClassName"]).is_empty() {
        "hollow volumes have no attributes"
    } else {
        return None;
    };
    Some(failure(claim, why))
}

/// What a claim is told whose volume could not be made.
pub(super) fn failure(claim: &Object, why: &str) -> String {
    let class = object::storage_class(claim);
    format!("failed to provision volume with StorageClass {class:?}: {why}")
}

/// The terms of node affinity for a volume on one node; `None` if the node lacks the label.
pub(super) fn at_node(node: &Object) -> Option<Value> {
    let name = object::label(node, HOSTNAME)?;
    let one = json!({"key": HOSTNAME, "operator": "In", "values": [name]});
    Some(json!([{"matchExpressions": [one]}]))
}

/// The terms for a volume that may be wherever its class allows; `None` for everywhere.
pub(super) fn where_allowed(class: &Object) -> Option<Value> {
    let all = object::items(class, &["allowedTopologies"]).iter();
    let term = |term: &Value| {
        let labels = object::items(term, &["matchLabelExpressions"]).iter();
        let one =
            |one: &Value| json!({"key": one["key"], "operator": "In", "values": one["values"]});
        json!({"matchExpressions": labels.map(one).collect::<Vec<_>>()})
    };
    let terms: Vec<Value> = all.map(term).collect();
    (!terms.is_empty()).then(|| terms.into())
}

/// The name of the volume for a claim: always the same, so that no claim gets two.
pub(super) fn name_for(claim: &Object) -> String {
    format!("pvc-{}", object::uid(claim))
}

/// The volume for a claim.
pub(super) fn volume_for(claim: &Object, class: &Object, reach: Option<Value>) -> Object {
    let name = name_for(claim);
    let reclaim = match object::text(class, &["reclaimPolicy"]) {
        "" => "Delete",
        policy => policy,
    };
    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "claimRef": reference(claim),
        "hostPath": {"path": format!("{FOLDER}/{name}")},
        "persistentVolumeReclaimPolicy": reclaim,
        "storageClassName": object::storage_class(claim),
        "volumeMode": "Filesystem",
    });
    let options = object::items(class, &["mountOptions"]);
    if !options.is_empty() {
        spec["mountOptions"] = options.into();
    }
    if let Some(terms) = reach {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: NAME}},
        "spec": spec,
    })
}

/// A claim, as volumes and Events refer to it.
pub(super) fn reference(claim: &Object) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": object::namespace(claim), "name": object::name(claim),
        "uid": object::uid(claim), "resourceVersion": object::resource_version(claim),
    })
}

/// True if a volume was made here.
pub(super) fn is_ours(volume: &Object) -> bool {
    object::annotation(volume, PROVISIONED_BY) == Some(NAME)
}

/// True if a volume of ours is to be deleted: its claim is gone, and its data would go with it.
pub(super) fn is_to_go(volume: &Object) -> bool {
    object::text(volume, &["status", "phase"]) == "Released"
        && object::text(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete"
        && !object::is_deleting(volume)
}
