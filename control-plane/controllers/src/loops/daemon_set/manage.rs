//! Nodes with too few or too many pods, and pods that ended.

use k8s_openapi::api::core::v1::Pod;

use super::placement::{Fit, tied_to, tolerations};
use super::{GENERATION_LABEL, View, generation};
use crate::cache::REVISION_HASH;
use crate::decision::{Decision, Note, create, delete};
use crate::known::Shared;
use crate::{meta, pods};

/// Maximum number of pods that one decision creates, and that it deletes.
const BURST: usize = 250;

/// Pods to delete, and nodes to create pods for.
#[derive(Default)]
pub(super) struct Changes<'a> {
    pub(super) surplus: Vec<&'a Shared<Pod>>,
    pub(super) lacking: Vec<&'a str>,
}

/// Gives each node the pods that it should have.
pub(super) fn mend(view: &View<'_>, into: &mut Decision) {
    let mut changes = Changes::default();
    for (node, fit) in &view.nodes {
        mend_node(view, node, *fit, &mut changes, into);
    }
    // Nobody else deletes a pod that waits for a node that is gone.
    for (node, pods) in &view.pods {
        if !view.nodes.contains_key(node) {
            let waits = |pod: &&&Shared<Pod>| {
                pods::node(pod).is_empty() && !meta::is_deleting(&pod.metadata)
            };
            changes.surplus.extend(pods.iter().filter(waits));
        }
    }
    apply(view, &changes, into);
}

fn mend_node<'a>(
    view: &View<'a>,
    node: &'a str,
    fit: Fit,
    changes: &mut Changes<'a>,
    into: &mut Decision,
) {
    let all = view.on(node);
    if fit == Fit::Runs && all.is_empty() {
        changes.lacking.push(node);
        return;
    }
    let living = all.iter().filter(|pod| !meta::is_deleting(&pod.metadata));
    if fit == Fit::Leaves {
        changes.surplus.extend(living);
        return;
    }
    let failures = &view.context.caches.daemon_failures;
    let mut running = Vec::new();
    for pod in living {
        match pods::phase(pod) {
            "Failed" => match failures.left(pod, view.context.now) {
                Some(left) => into.again(left),
                None => {
                    into.notes.push(ended(view, node, pod).warning());
                    changes.surplus.push(pod);
                }
            },
            "Succeeded" => {
                into.notes.push(ended(view, node, pod));
                changes.surplus.push(pod);
            }
            _ => running.push(*pod),
        }
    }
    if view.surge(1) == 0 {
        changes.surplus.extend(running.iter().skip(1));
    } else if running.is_empty() && fit == Fit::Runs {
        changes.lacking.push(node);
    } else {
        changes.surplus.extend(beyond_a_pair(view, &running, into));
    }
}

/// The pods that a node with an old and a new pod at once need not have. The new pod takes over
/// when it is available, or when the old one is no longer ready.
fn beyond_a_pair<'a>(
    view: &View<'a>,
    running: &[&'a Shared<Pod>],
    into: &mut Decision,
) -> Vec<&'a Shared<Pod>> {
    let is_new = |pod: &Pod| meta::label(&pod.metadata, REVISION_HASH) == Some(&view.history.hash);
    let (new, old): (Vec<_>, Vec<_>) = running.iter().partition(|pod| is_new(pod));
    let beyond = new.iter().skip(1).chain(old.iter().skip(1));
    let mut surplus: Vec<&Shared<Pod>> = beyond.copied().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!pods::is_ready(old) || view.is_available(new, into))
    {
        surplus.push(old);
    }
    surplus
}

fn ended(view: &View<'_>, node: &str, pod: &Pod) -> Note {
    let (namespace, name) = meta::key(&pod.metadata);
    let (reason, found, what) = match pods::phase(pod) {
        "Failed" => ("FailedDaemonPod", "failed", "kill"),
        _ => ("SucceededDaemonPod", "succeeded", "delete"),
    };
    let text = format!(
        "Found {found} daemon pod {namespace}/{name} on node {node}, will try to {what} it"
    );
    Note::new(view.set.as_ref(), reason, text)
}

/// Deletes and creates the pods. Deletions come first: they work where a quota allows no pods more.
pub(super) fn apply(view: &View<'_>, changes: &Changes<'_>, into: &mut Decision) {
    let note = |reason, text: String| Note::new(view.set.as_ref(), reason, text);
    for pod in changes.surplus.iter().take(BURST) {
        let text = format!("Deleted pod: {}", meta::name(&pod.metadata));
        let failed = note("FailedDelete", "Error deleting: {}".into());
        into.push(delete(pod.as_ref()))
            .tell(note("SuccessfulDelete", text))
            .tell_failure(failed.warning());
    }
    for node in changes.lacking.iter().take(BURST) {
        let failed = note("FailedCreate", "Error creating: {}".into());
        into.push(create(&pod_for(view, node)))
            .tell(note("SuccessfulCreate", "Created pod: {}".into()))
            .tell_failure(failed.warning());
    }
}

/// A new pod for a node.
fn pod_for(view: &View<'_>, node: &str) -> Pod {
    let mut pod = pods::from_template(view.set.as_ref(), &view.spec.template);
    let labels = pod.metadata.labels.get_or_insert_default();
    if let Some(number) = generation(view.set) {
        labels.insert(GENERATION_LABEL.into(), number);
    }
    labels.insert(REVISION_HASH.into(), view.history.hash.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    spec.affinity = Some(tied_to(node, spec.affinity.take()));
    pod
}
