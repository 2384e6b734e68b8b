//! Pods: a node shows the pods that it runs by itself (mirror pods), reports the state of those
//! bound to it, and evicts them.

use machinery::object::{self, MIRROR_POD};
use serde_json::Value;

use super::{Refusal, Write, stored};
use crate::admission::{CREATE, DELETE, UPDATE};
use crate::auth::authorize::node::references;

/// Sources of volumes for which a node needs nothing of the cluster.
const PLAIN_SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Sources of volumes that name an object, and what they name.
const SOURCES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    (
        "ephemeral",
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// The same for the sources of projected volumes.
const PROJECTED_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    (
        "serviceAccountToken",
        "serviceaccounts (via projected volumes)",
    ),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

impl Write<'_> {
    /// Allows to create mirror pods, and to delete the pods of the node.
    pub(super) async fn pod(&self) -> Result<(), Refusal> {
        let node = self.node;
        match self.attributes.operation {
            CREATE => self.mirror_pod().await,
            DELETE => {
                let pod = self.stored_pod(self.attributes.name).await?;
                if bound_to(&pod) != node {
                    return Err(format!(
                        "node {node:?} can only delete pods with spec.nodeName set to itself"
                    )
                    .into());
                }
                Ok(())
            }
            operation => Err(format!(
                "unexpected operation {operation:?}, node {node:?} can only create and delete mirror pods"
            )
            .into()),
        }
    }

    async fn mirror_pod(&self) -> Result<(), Refusal> {
        let (node, pod) = (self.node, self.object);
        if object::annotation(pod, MIRROR_POD).is_none() {
            return Err(format!(
                "pod does not have {MIRROR_POD:?} annotation, node {node:?} can only create mirror pods"
            )
            .into());
        }
        if bound_to(pod) != node {
            return Err(format!(
                "node {node:?} can only create pods with spec.nodeName set to itself"
            )
            .into());
        }
        self.owner(pod).await?;
        match named_object(pod) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => {
                Err(format!("node {node:?} can not create pods that reference {what}").into())
            }
            Err(why) => Err(format!("error checking mirror pod for API references: {why}").into()),
        }
    }

    /// Checks that the node is the only owner of a mirror pod.
    async fn owner(&self, pod: &Value) -> Result<(), Refusal> {
        let node = self.node;
        let only = |what: &str| -> Refusal {
            format!("node {node:?} can only create pods with {what} set to itself").into()
        };
        let owner = match object::owner_references(pod) {
            [] => return Err(only("an owner reference")),
            [owner] => owner,
            _ => return Err(only("a single owner reference")),
        };
        let text = |key| object::text(owner, &[key]);
        if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", node) {
            return Err(only("an owner reference"));
        }
        if owner["controller"] != true {
            return Err(only("a controller owner reference"));
        }
        if owner["blockOwnerDeletion"] == true {
            return Err(format!(
                "node {node:?} must not set blockOwnerDeletion on an owner reference"
            )
            .into());
        }
        let found = stored(self.reader(), ["", "nodes"], "", node).await?;
        let (given, uid) = (text("uid"), object::uid(&found));
        if given != uid {
            return Err(format!("node {node} UID mismatch: expected {given} got {uid}").into());
        }
        Ok(())
    }

    /// Allows to report the state of a pod of the node, and nothing that opens more objects to it.
    pub(super) fn pod_status(&self) -> Result<(), Refusal> {
        let node = self.node;
        let (UPDATE, Some(old)) = (self.attributes.operation, self.attributes.old) else {
            return Err(self.unexpected_operation());
        };
        let new = self.object;
        if bound_to(old) != node {
            return Err(format!(
                "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
            )
            .into());
        }
        let labels = |pod| object::labels(pod).filter(|labels| !labels.is_empty());
        if labels(old) != labels(new) {
            return Err(format!("node {node:?} cannot update labels through pod status").into());
        }
        let claims = |pod| object::items(pod, &["status", "resourceClaimStatuses"]).to_vec();
        if claims(old) != claims(new) {
            return Err(format!("node {node:?} cannot update resource claim statues").into());
        }
        let path = ["status", "extendedResourceClaimStatus"];
        let extended = |pod| object::at(pod, &path).cloned().unwrap_or_default();
        if extended(old) != extended(new) {
            return Err(
                format!("node {node:?} cannot update extended resource claim status").into(),
            );
        }
        Ok(())
    }

    pub(super) async fn eviction(&self) -> Result<(), Refusal> {
        let node = self.node;
        if self.attributes.operation != CREATE {
            let operation = self.attributes.operation;
            return Err(format!("unexpected operation {operation}").into());
        }
        let pod = self.stored_pod(self.attributes.name).await?;
        if bound_to(&pod) != node {
            return Err(format!(
                "node {node} can only evict pods with spec.nodeName set to itself"
            )
            .into());
        }
        Ok(())
    }
}

/// The node that a pod is bound to.
pub(super) fn bound_to(pod: &Value) -> &str {
    object::text(pod, &["spec", "nodeName"])
}

/// What a pod names of the cluster's objects, if it names any. The error is a source of a volume
/// that is unknown.
pub(super) fn named_object(pod: &Value) -> Result<Option<&'static str>, String> {
    if !object::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if !references::secrets(pod).is_empty() {
        return Ok(Some("secrets"));
    }
    if !references::config_maps(pod).is_empty() {
        return Ok(Some("configmaps"));
    }
    if !object::items(pod, &["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in object::items(pod, &["spec", "volumes"]) {
        if let Some(what) = named_by_volume(volume)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

fn named_by_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let name = object::text(volume, &["name"]);
    if PLAIN_SOURCES.iter().any(|source| has(volume, source)) {
        return Ok(None);
    }
    if let Some((_, what)) = SOURCES.iter().find(|(source, _)| has(volume, source)) {
        return Ok(Some(what));
    }
    if !has(volume, "projected") {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    for source in object::items(volume, &["projected", "sources"]) {
        let mut all = PROJECTED_SOURCES.iter();
        if let Some((_, what)) = all.find(|(key, _)| has(source, key)) {
            return Ok(Some(what));
        }
        if !has(source, "downwardAPI") {
            return Err(format!("unknown source for projected volume {name:?}"));
        }
    }
    Ok(None)
}

fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}
