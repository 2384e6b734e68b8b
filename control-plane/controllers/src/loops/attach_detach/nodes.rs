//! What is attached to a node: said in its status, and detached if nobody uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{AttachedVolume, Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use machinery::api::{Call, PatchForm};
use serde_json::json;

use super::{attachable, attachment_name, seen, source, volume_name};
use crate::cache::Caches;
use crate::decision::{Decision, Note, delete};
use crate::known::{Shared, kind_of};
use crate::loops::Context;
use crate::loops::volume_expander::{is_bound, volume_of};
use crate::{meta, pods, used_claims};

/// The prefix of the names of CSI volumes in the status of a node.
const PLUGIN: &str = "kubernetes.io/csi/";
/// How long volumes stay attached to a node that was deleted: its machine may still write to them.
const DELETED: Duration = Duration::from_secs(360);

/// The pods of a node by the names of the attachments that they need.
type Users<'a> = BTreeMap<String, Vec<&'a Shared<Pod>>>;

/// What the attachments of a node mean for the list in its status, by their names there.
#[derive(Default)]
struct Names<'a> {
    attached: BTreeMap<String, Attached<'a>>,
    /// Those that are not attached, or not for long.
    detached: BTreeSet<String>,
    /// There are attachments whose names are not known.
    unknown: bool,
}

/// An attachment that stays on its node.
struct Attached<'a> {
    attachment: &'a str,
    volume: &'a str,
}

pub(super) fn decide(caches: &Caches, node: &Node) -> Decision {
    let mut decision = Decision::nothing();
    let node_name = meta::name(&node.metadata);
    let users = users(caches, node_name);
    let (_, out_of_service, in_use, _) = seen(node);
    let mut names = Names::default();
    let mut leaving = Vec::new();
    for one in caches.attachments.placed_at(node_name) {
        let Some((volume, name_in_status)) = named_in_status(caches, one) else {
            names.unknown = true;
            continue;
        };
        let attachment = meta::name(&one.metadata);
        let is_mounted = in_use.contains(&name_in_status) && !out_of_service;
        let is_attached = one.status.as_ref().is_some_and(|status| status.attached);
        let is_deleting = meta::is_deleting(&one.metadata);
        let is_used = users.contains_key(attachment) || is_mounted;
        let leaves = !is_deleting && !is_used && is_ours(caches, one);
        if leaves {
            leaving.push(one);
        }
        if is_attached && !is_deleting && !leaves {
            let attached = Attached { attachment, volume };
            names.attached.insert(name_in_status, attached);
        } else {
            names.detached.insert(name_in_status);
        }
    }
    report(node, &names, &users, &mut decision);
    for one in leaving {
        decision.push(delete(one.as_ref())).only_for(0);
    }
    decision
}

/// Detaches what was attached to a node that is no longer there, once no pod is left on it.
pub(super) fn decide_deleted(context: &Context<'_>, node: &str) -> Decision {
    let caches = context.caches;
    let mut decision = Decision::nothing();
    let users = users(caches, node);
    let leaving = caches.attachments.placed_at(node).filter(|one| {
        let is_used = users.contains_key(meta::name(&one.metadata));
        !is_used && !meta::is_deleting(&one.metadata) && is_ours(caches, one)
    });
    let lost = caches.nodes.lost_at("", node);
    for one in leaving {
        // Nobody knows since when a node is gone that was gone when the loops began.
        let known = caches.attachments.since("", meta::name(&one.metadata));
        let since = lost.or(known);
        let left = since.and_then(|since| meta::left(since, DELETED, context.now));
        if left.is_some() {
            decision.again_if(left);
        } else {
            decision.push(delete(one.as_ref())).only_for(0);
        }
    }
    decision
}

fn users<'a>(caches: &'a Caches, node: &str) -> Users<'a> {
    let mut users = Users::new();
    let running = caches.pods.placed_at(node);
    for pod in running.filter(|pod| !pods::is_finished(pod)) {
        for claim in used_claims::named(pod) {
            let volume = bound_volume(caches, pod, &claim);
            if let Some(source) = volume.and_then(|volume| attachable(caches, volume)) {
                let name = attachment_name(source, node);
                users.entry(name).or_default().push(pod);
            }
        }
    }
    users
}

/// The volume of a pod's claim of this name.
fn bound_volume<'a>(
    caches: &'a Caches,
    pod: &Pod,
    claim: &str,
) -> Option<&'a Shared<PersistentVolume>> {
    let namespace = meta::namespace(&pod.metadata);
    let claim = caches.volume_claims.get(namespace, claim)?;
    let is_used = is_bound(claim) && used_claims::uses(pod, claim);
    volume_of(caches, claim).filter(|_| is_used)
}

/// The volume of an attachment, and the name that it has in the status of a node. `None` if it is
/// of another kind, or gone: then nobody can say whether it is mounted.
fn named_in_status<'a>(
    caches: &'a Caches,
    attachment: &'a VolumeAttachment,
) -> Option<(&'a str, String)> {
    let name = volume_name(attachment)?;
    let source = source(caches.volumes.get("", name)?)?;
    let in_status = format!("{PLUGIN}{}^{}", source.driver, source.volume_handle);
    Some((name, in_status))
}

/// False for an attachment that somebody else has made.
fn is_ours(caches: &Caches, attachment: &VolumeAttachment) -> bool {
    let volume = volume_name(attachment).and_then(|name| caches.volumes.get("", name));
    let source = volume.and_then(|volume| source(volume));
    source.is_some_and(|source| {
        let ours = attachment_name(source, &attachment.spec.node_name);
        meta::name(&attachment.metadata) == ours
    })
}

/// Writes the list of attached volumes, if it changes. Volumes of other kinds stay in it.
fn report(node: &Node, names: &Names<'_>, users: &Users<'_>, into: &mut Decision) {
    let (.., before) = seen(node);
    let stays = before.iter().filter(|one| names.keep(&one.name));
    let mut after: Vec<AttachedVolume> = stays.cloned().collect();
    let removes = after.len() < before.len();
    let is_listed = |name: &str| before.iter().any(|one| one.name == name);
    let mut adds = false;
    for (name, one) in &names.attached {
        if is_listed(name) {
            continue;
        }
        adds = true;
        after.push(AttachedVolume {
            name: name.clone(),
            device_path: String::new(),
        });
        for pod in users.get(one.attachment).into_iter().flatten() {
            let text = format!("AttachVolume.Attach succeeded for volume {:?} ", one.volume);
            let note = Note::new::<Pod>(pod, "SuccessfulAttachVolume", text);
            into.notes.push(note);
        }
    }
    if !adds && !removes {
        return;
    }
    let mut metadata = json!({"uid": meta::uid(&node.metadata)});
    if removes {
        // What is mounted may have changed.
        metadata["resourceVersion"] = meta::resource_version(&node.metadata).into();
    }
    into.push(Call::Patch {
        kind: kind_of::<Node>().clone(),
        namespace: String::new(),
        name: meta::name(&node.metadata).into(),
        subresource: "status",
        form: PatchForm::Merge,
        patch: json!({"metadata": metadata, "status": {"volumesAttached": after}}),
    });
}

impl Names<'_> {
    /// True if a name stays in the list. Of volumes that were part of Kubernetes once, and that
    /// drivers attach now, only Kubernetes knows the names; the agent needs them, too.
    fn keep(&self, name: &str) -> bool {
        let may_be_attached = self.unknown && !self.detached.contains(name);
        !name.starts_with(PLUGIN) || self.attached.contains_key(name) || may_be_attached
    }
}
