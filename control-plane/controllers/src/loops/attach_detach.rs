//! Volumes of CSI drivers are attached to the nodes whose pods use them, and detached from others.
//! A VolumeAttachment asks the driver for it; the node's agent mounts what `status.volumesAttached`
//! of the node lists, and lists what it has mounted in `status.volumesInUse`.
//!
//! Attachments are made volume by volume, so that two nodes cannot both get a volume that only one
//! may have, and removed node by node: a volume leaves the first list before it is detached, by a
//! write that fails if the second one changed. The agent never mounts a volume that is about to go.
//!
//! A mounted volume stays on a node that does not answer until the node is deleted or has the
//! out-of-service taint, as in Kubernetes with `--disable-force-detach-on-timeout`.

mod nodes;
#[cfg(test)]
mod tests;
mod volumes;

use aws_lc_rs::digest::{SHA256, digest};
use k8s_openapi::api::core::v1::{
    AttachedVolume, CSIPersistentVolumeSource, Node, PersistentVolume, Pod,
};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, cluster_key};
use crate::known::Key;
use crate::loops::pod_gc::OUT_OF_SERVICE;
use crate::loops::volume_expander::{is_bound, volume_of};
use crate::loops::{Context, Loop};
use crate::{meta, pods, used_claims};

/// Annotation of a node whose agent leaves it to this loop to attach volumes.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The first half of the key of a volume; that of a node is empty.
const VOLUMES: &str = "persistentvolumes";

pub(crate) struct AttachDetach;

impl Loop for AttachDetach {
    fn name(&self) -> &'static str {
        "persistentvolume-attach-detach"
    }

    fn component(&self) -> String {
        "attachdetach-controller".into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Pod(Diff { old, new })
                if old.as_deref().map(use_of) != new.as_deref().map(use_of) =>
            {
                let both = old.iter().chain(new);
                both.for_each(|pod| wake_pod(caches, pod, wake));
            }
            Changed::Node(Diff { old, new }) => {
                let (old, new) = (old.as_deref(), new.as_deref());
                let Some(node) = new.or(old) else {
                    return;
                };
                if old.map(seen) != new.map(seen) {
                    wake(meta::key(&node.metadata));
                }
                if old.is_some_and(is_managed) != new.is_some_and(is_managed) {
                    let there = caches.pods.placed_at(meta::name(&node.metadata));
                    there.for_each(|pod| wake_pod(caches, pod, wake));
                }
            }
            Changed::VolumeAttachment(Diff { old, new }) => {
                let Some(one) = new.as_deref().or(old.as_deref()) else {
                    return;
                };
                wake(cluster_key(&one.spec.node_name));
                // Another node may wait for the volume, or has to now.
                if let (Some(name), false) = (volume_name(one), old.is_some() && new.is_some()) {
                    wake(volume_key(name));
                }
            }
            Changed::PersistentVolumeClaim(Diff { new: Some(new), .. }) if is_bound(new) => {
                let spec = new.spec.as_ref();
                let name = spec.and_then(|spec| spec.volume_name.as_deref());
                name.into_iter().for_each(|name| wake(volume_key(name)));
            }
            Changed::PersistentVolume(Diff { new: Some(new), .. }) if source(new).is_some() => {
                wake(volume_key(meta::name(&new.metadata)));
            }
            Changed::CSIDriver(_) => {
                let nodes = caches.nodes.all();
                nodes.for_each(|node| wake(meta::key(&node.metadata)));
                let volumes = caches.volumes.all();
                volumes.for_each(|volume| wake(volume_key(meta::name(&volume.metadata))));
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        if key.0 == VOLUMES {
            return volumes::decide(caches, &key.1);
        }
        match caches.nodes.at(key) {
            None => nodes::decide_deleted(context, &key.1),
            Some(node) if is_managed(node) => nodes::decide(caches, node),
            Some(_) => Decision::nothing(),
        }
    }
}

fn volume_key(name: &str) -> Key {
    (VOLUMES.to_owned(), name.to_owned())
}

/// What the loop looks at in a pod; its volumes never change.
fn use_of(pod: &Pod) -> (&str, bool) {
    (pods::node(pod), pods::is_finished(pod))
}

/// Wakes the node of a pod and the volumes that it uses.
fn wake_pod(caches: &Caches, pod: &Pod, wake: &mut dyn FnMut(Key)) {
    if pods::node(pod).is_empty() {
        return;
    }
    let namespace = meta::namespace(&pod.metadata);
    for name in used_claims::named(pod) {
        wake(cluster_key(pods::node(pod)));
        let claim = caches.volume_claims.get(namespace, &name);
        let volume = claim.and_then(|claim| volume_of(caches, claim));
        if let Some(volume) = volume {
            wake(volume_key(meta::name(&volume.metadata)));
        }
    }
}

/// What the loop looks at in a node: whether it may change it, whether its pods are over for good,
/// what is mounted, and what is said to be attached.
fn seen(node: &Node) -> (bool, bool, &[String], &[AttachedVolume]) {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    let status = node.status.as_ref();
    let in_use = status.and_then(|status| status.volumes_in_use.as_deref());
    let attached = status.and_then(|status| status.volumes_attached.as_deref());
    (
        is_managed(node),
        taints.any(|taint| taint.key == OUT_OF_SERVICE),
        in_use.unwrap_or_default(),
        attached.unwrap_or_default(),
    )
}

fn is_managed(node: &Node) -> bool {
    meta::annotation(&node.metadata, MANAGED).is_some()
}

/// The name of the volume of an attachment.
fn volume_name(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

fn source(volume: &PersistentVolume) -> Option<&CSIPersistentVolumeSource> {
    volume.spec.as_ref()?.csi.as_ref()
}

/// The source of a volume that has to be attached: every driver needs that unless it says that it
/// does not.
fn attachable<'a>(
    caches: &Caches,
    volume: &'a PersistentVolume,
) -> Option<&'a CSIPersistentVolumeSource> {
    let source = source(volume)?;
    let driver = caches.drivers.get("", &source.driver);
    let needs = driver.is_none_or(|driver| driver.spec.attach_required != Some(false));
    needs.then_some(source)
}

/// The name that Kubernetes gives an attachment: agents of nodes look for it.
fn attachment_name(source: &CSIPersistentVolumeSource, node: &str) -> String {
    let text = format!("{}{}{node}", source.volume_handle, source.driver);
    let mut name = "csi-".to_owned();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        name += &format!("{byte:02x}");
    }
    name
}
