//! Nodes that no longer tell of themselves: their conditions become unknown, their pods unready,
//! and taints keep new pods away and send old ones off.

mod taints;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus, Pod};
use machinery::time::Timestamp;
use machinery::world::{Call, PatchForm};
use serde_json::json;

use crate::cache::{Caches, Changed, Diff, Key, kind_of};
use crate::decision::{Decision, Note, update_status};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

pub(crate) use taints::NO_EXECUTE;

const LEASES: &str = "kube-node-lease";
/// How long a node may be silent.
const GRACE: Duration = Duration::from_secs(50);
/// And one that has never told of itself.
const GRACE_AT_START: Duration = Duration::from_secs(60);
/// How often to look again at what depends on other nodes.
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
            // Leases do not wake: a node that comes back says so in its status.
            Changed::Node(Diff { new: Some(new), .. }) => wake(meta::key(&new.metadata)),
            Changed::Pod(Diff { new: Some(pod), .. }) if pods::is_ready(pod) => {
                wake((String::new(), pods::node(pod).to_owned()))
            }
            _ => {}
        }
    }

    /// Every manager tells which nodes it looks after.
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

fn ready(node: &Node) -> Option<&NodeCondition> {
    condition(node, "Ready")
}

/// How long the node may still be silent; nothing when it has been for too long.
///
/// A renewal counts from when it was noticed, so that the clocks of nodes do not matter.
fn silent(context: &Context<'_>, node: &Node) -> Option<Duration> {
    let name = meta::name(&node.metadata);
    let renewed = context.caches.leases.since(LEASES, name);
    let told = ready(node).and_then(|ready| ready.last_heartbeat_time.as_ref());
    let heard: Option<Timestamp> = renewed.max(told.map(meta::stamp));
    match heard {
        Some(heard) => meta::left(heard, GRACE, context.now),
        None => meta::left(meta::created(&node.metadata), GRACE_AT_START, context.now),
    }
}

/// Says in the node's status that nothing is known of it any longer.
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

/// Nobody can say that pods of a silent node serve.
fn unready_pods(context: &Context<'_>, node: &Node, into: &mut Decision) {
    let of_node = context.caches.pods.placed_at(meta::name(&node.metadata));
    for pod in of_node.filter(|pod| pods::is_ready(pod)) {
        let condition = json!({
            "type": "Ready", "status": "False",
            "lastTransitionTime": context.now.to_seconds(),
        });
        let note = Note::new(pod.as_ref(), "NodeNotReady", "Node is not ready".into());
        into.push(patch_status(pod, json!({"conditions": [condition]})))
            .tell(note.warning());
    }
}

/// Changes a pod's status, if it is still the same pod.
pub(crate) fn patch_status(pod: &Pod, status: serde_json::Value) -> Call {
    Call::Patch {
        kind: kind_of::<Pod>(),
        namespace: meta::namespace(&pod.metadata).into(),
        name: meta::name(&pod.metadata).into(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"metadata": {"uid": meta::uid(&pod.metadata)}, "status": status}),
    }
}
