//! The attachments of a volume to the nodes of the pods that use it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::{
    VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{attachable, attachment_name, is_managed, volume_name};
use crate::cache::Caches;
use crate::decision::{Decision, Note, create};
use crate::known::Shared;
use crate::loops::volume_expander::{is_bound, volume_of};
use crate::{meta, pods, used_claims};

/// The pods that use a volume, by node.
type Users<'a> = BTreeMap<&'a str, Vec<&'a Shared<Pod>>>;

pub(super) fn decide(caches: &Caches, name: &str) -> Decision {
    let mut decision = Decision::nothing();
    let Some(volume) = caches.volumes.get("", name) else {
        return decision;
    };
    let Some(source) = attachable(caches, volume) else {
        return decision;
    };
    let users = users(caches, volume);
    let mut missing: Vec<(&str, String)> = users
        .keys()
        .filter(|node| {
            caches
                .nodes
                .get("", node)
                .is_some_and(|one| is_managed(one))
        })
        .map(|node| (*node, attachment_name(source, node)))
        .filter(|(_, attachment)| caches.attachments.get("", attachment).is_none())
        .collect();
    if missing.is_empty() {
        return decision;
    }
    if !may_be_shared(volume) {
        let all = caches.attachments.all();
        let of_volume = all.filter(|one| volume_name(one) == Some(name));
        let holders: BTreeSet<&str> = of_volume.map(|one| one.spec.node_name.as_str()).collect();
        if !holders.is_empty() {
            for (node, _) in missing {
                refuse(name, &users[node], &holders, &users, &mut decision);
            }
            return decision;
        }
        // The pod that was made first gets it.
        missing.sort_by_key(|(node, _)| {
            let made = users[*node].iter().map(|pod| meta::created(&pod.metadata));
            made.min()
        });
        missing.truncate(1);
    }
    for (node, attachment) in missing {
        let attachment = VolumeAttachment {
            metadata: ObjectMeta {
                name: Some(attachment),
                ..ObjectMeta::default()
            },
            spec: VolumeAttachmentSpec {
                attacher: source.driver.clone(),
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(name.to_owned()),
                    inline_volume_spec: None,
                },
            },
            status: None,
        };
        decision.push(create(&attachment)).only_for(0);
    }
    decision
}

fn users<'a>(caches: &'a Caches, volume: &PersistentVolume) -> Users<'a> {
    let mut users = Users::new();
    let spec = volume.spec.as_ref();
    let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
    let claim = claim.and_then(|claim| {
        let (namespace, name) = (claim.namespace.as_deref()?, claim.name.as_deref()?);
        caches.volume_claims.get(namespace, name)
    });
    let Some(claim) = claim.filter(|claim| is_bound(claim)) else {
        return users;
    };
    let of_claim = volume_of(caches, claim);
    if of_claim.is_none_or(|of_claim| of_claim.metadata.name != volume.metadata.name) {
        return users;
    }
    let key = meta::key(&claim.metadata);
    let of_claim = caches.unbound.pods(&key);
    let of_claim = of_claim.filter_map(|name| caches.pods.get(&key.0, name));
    for pod in of_claim.filter(|pod| used_claims::uses(pod, claim)) {
        users.entry(pods::node(pod)).or_default().push(pod);
    }
    users
}

/// True if several nodes may have it. Of a volume without access modes nobody knows: its driver
/// refuses what it cannot do.
fn may_be_shared(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let modes = spec.and_then(|spec| spec.access_modes.as_deref());
    let modes = modes.unwrap_or_default();
    let is_shared = |mode: &String| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
    modes.is_empty() || modes.iter().any(is_shared)
}

/// Tells pods that another node has their volume.
fn refuse(
    volume: &str,
    waiting: &[&Shared<Pod>],
    holders: &BTreeSet<&str>,
    users: &Users<'_>,
    into: &mut Decision,
) {
    let others = users.iter().filter(|(node, _)| holders.contains(*node));
    let others = others.flat_map(|(_, pods)| pods);
    let others: Vec<&str> = others.map(|pod| meta::name(&pod.metadata)).collect();
    // All of them are in the namespace of the claim, as the waiting ones are.
    let why = if others.is_empty() {
        "Volume is already exclusively attached to one node and can't be attached to another"
            .to_owned()
    } else {
        format!("Volume is already used by pod(s) {}", others.join(", "))
    };
    for pod in waiting {
        let text = format!("Multi-Attach error for volume {volume:?} {why}");
        let note = Note::new::<Pod>(pod, "FailedAttachVolume", text).warning();
        into.notes.push(note);
    }
}
