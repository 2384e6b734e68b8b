//! Nodes without heartbeats: their conditions become unknown, their pods unready, and taints keep
//! new pods away and evict old ones.

mod taints;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus, Pod};
use machinery::api::{Call, PatchForm};
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, update_status};
use crate::known::{Key, kind_of};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

pub(crate) use taints::NO_EXECUTE;

const LEASES: &str = "kube-node-lease";
/// How long a node may send no heartbeat.
const GRACE: Duration = Duration::from_secs(50);
/// How long a new node may take to send its first heartbeat.
const GRACE_AT_START: Duration = Duration::from_secs(60);
/// How often to check conditions that depend on other nodes.
const LOOK: Duration = Duration::from_secs(5);
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

pub(crate) struct NodeLifecycle;

impl Loop for NodeLifecycle {
    fn name(&self) -> &'static str {
        "node-lifecycle"
    }

    fn component(&self) -> String {
        "node-controller".into()
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            // Leases do not wake the loop: a node that comes back writes its status.
            Changed::Node(Diff { new: Some(new), .. }) => wake(meta::key(&new.metadata)),
            Changed::Pod(Diff { new: Some(pod), .. }) if pods::is_ready(pod) => {
                wake((String::new(), pods::node(pod).to_owned()))
            }
            _ => {}
        }
    }

    /// Each manager writes an Event for the nodes it watches.
    fn note(&self, changed: &Changed) -> Option<Note> {
        let Changed::Node(diff) = changed else {
            return None;
        };
        match (&diff.old, &diff.new) {
            (None, Some(node)) => {
                let name = meta::name(&node.metadata);
                let text = format!("Node {name} event: Registered Node {name} in Controller");
                Some(Note::new(node.as_ref(), "RegisteredNode", text))
            }
            (Some(node), None) => {
                let name = meta::name(&node.metadata);
                let text = format!("Node {name} event: Removing Node {name} from Controller");
                Some(Note::new(node.as_ref(), "RemovingNode", text))
            }
            _ => None,
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(node) = context.caches.nodes.at(key) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        if meta::is_deleting(&node.metadata) {
            return decision;
        }
        match silent(context, node) {
            Some(left) => decision.again(left),
            None if ready(node).is_none_or(|ready| ready.status != "Unknown") => {
                lose(context, node, &mut decision);
                return decision;
            }
            None => {}
        }
        taints::bring(context, node, &mut decision);
        if ready(node).is_some_and(|ready| ready.status != "True") {
            unready_pods(context, node, &mut decision);
        }
        decision
    }
}

pub(crate) fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|has| has.type_ == kind)
}

pub(crate) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    condition(node, "Ready")
}

/// The time until the node counts as silent; `None` if it does already.
///
/// A lease renewal counts from when this process saw it, which does not depend on the node's clock.
/// `lastHeartbeatTime` counts as the node wrote it, but never as later than this process saw it: a
/// node whose clock is ahead would seem alive long after it died.
fn silent(context: &Context<'_>, node: &Node) -> Option<Duration> {
    let name = meta::name(&node.metadata);
    let renewed = context.caches.leases.since(LEASES, name);
    let told = ready(node).and_then(|ready| ready.last_heartbeat_time.as_ref());
    let seen = context.caches.nodes.since("", name);
    let told = told
        .map(meta::stamp)
        .map(|told| told.min(seen.unwrap_or(told)));
    let heard: Option<Timestamp> = renewed.max(told);
    match heard {
        Some(heard) => meta::left(heard, GRACE, context.now),
        None => meta::left(meta::created(&node.metadata), GRACE_AT_START, context.now),
    }
}

/// Sets the node's conditions to unknown.
fn lose(context: &Context<'_>, node: &Node, into: &mut Decision) {
    let now = Some(meta::time(context.now));
    let mut lost = node.clone();
    let status = lost.status.get_or_insert_with(NodeStatus::default);
    let conditions = status.conditions.get_or_insert_default();
    for kind in CONDITIONS {
        let known = conditions.iter_mut().find(|has| has.type_ == kind);
        match known {
            Some(has) if has.status == "Unknown" => {}
            Some(has) => {
                has.status = "Unknown".into();
                has.reason = Some("NodeStatusUnknown".into());
                has.message = Some("Kubelet stopped posting node status.".into());
                has.last_transition_time = now.clone();
            }
            None => conditions.push(NodeCondition {
                type_: kind.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: now.clone(),
            }),
        }
    }
    let name = meta::name(&node.metadata);
    let text = format!("Node {name} status is now: NodeNotReady");
    into.push(update_status(&lost))
        .tell(Note::new(node, "NodeNotReady", text));
}

/// Sets the pods of a silent node to not ready: nothing can confirm that they serve.
fn unready_pods(context: &Context<'_>, node: &Node, into: &mut Decision) {
    let of_node = context.caches.pods.placed_at(meta::name(&node.metadata));
    for pod in of_node.filter(|pod| pods::is_ready(pod)) {
        let condition = json!({
            "type": "Ready", "status": "False",
            "lastTransitionTime": context.now.to_seconds(),
        });
        let note = Note::new(pod.as_ref(), "NodeNotReady", "Node is not ready".into());
        into.push(patch_status(pod, json!({"conditions": [condition]})))
            .only_for(0)
            .tell(note.warning());
    }
}

/// The call that patches a pod's status, if it is still the same pod.
pub(crate) fn patch_status(pod: &Pod, status: serde_json::Value) -> Call {
    Call::Patch {
        kind: kind_of::<Pod>().clone(),
        namespace: meta::namespace(&pod.metadata).into(),
        name: meta::name(&pod.metadata).into(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"metadata": {"uid": meta::uid(&pod.metadata)}, "status": status}),
    }
}
