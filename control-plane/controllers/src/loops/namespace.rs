//! Deletion of namespaces: deletes their content, pods first, then removes the finalizer.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use machinery::api::{Call, DeleteOptions, Propagation};
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, cluster_key, update_status};
use crate::graph::Vertex;
use crate::kinds::is_event;
use crate::known::{Key, kind_of, to_object};
use crate::loops::{Context, Failure, Loop};
use crate::meta;

const FINALIZER: &str = "kubernetes";
/// Maximum number of objects that one decision deletes.
const BURST: usize = 500;
/// How soon a namespace is looked at again that may hold objects of kinds that nobody knows.
const DISCOVERY_AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct Namespaces;

/// True if the namespace accepts no new objects.
pub(crate) fn is_going(namespace: &Namespace) -> bool {
    meta::is_deleting(&namespace.metadata)
}

/// True if the apiserver refuses new objects in the namespace of this name, because it goes.
pub(crate) fn takes_none(caches: &Caches, name: &str) -> bool {
    let namespace = caches.namespaces.get("", name);
    namespace.is_some_and(|one| is_going(one))
}

impl Loop for Namespaces {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        if let Changed::Namespace(diff) = changed {
            let new = diff.new.iter();
            new.for_each(|one| wake(meta::key(&one.metadata)));
        }
    }

    fn touched(&self, caches: &Caches, uid: &str, wake: &mut dyn FnMut(Key)) {
        match caches.graph.get(uid) {
            Some(vertex) if vertex.namespace.is_empty() => {}
            Some(vertex) => {
                let namespace = caches.namespaces.get("", &vertex.namespace);
                if namespace.is_some_and(|one| is_going(one)) {
                    wake(cluster_key(&vertex.namespace));
                }
            }
            // The graph no longer knows the namespace of an object that is gone.
            None => going(caches).for_each(wake),
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(namespace) = caches.namespaces.at(key).filter(|one| is_going(one)) else {
            return Decision::nothing();
        };
        let mut finalizers = namespace
            .spec
            .iter()
            .flat_map(|s| s.finalizers.iter().flatten());
        if !finalizers.any(|has| has == FINALIZER) {
            return Decision::nothing();
        }
        let contents: Vec<&Vertex> = caches.graph.in_namespace(&key.1).collect();
        let mut decision = Decision::nothing();
        let failure = context.failure.filter(|failure| failure.deleting);
        let unseen = caches.kinds.unseen();
        let findings = findings(&contents, unseen, failure);
        let conditions = conditions(namespace, findings, context.now);
        let told = namespace
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let stays = !contents.is_empty() || !unseen.is_empty();
        if told != Some(&conditions) && stays {
            let mut told = namespace.as_ref().clone();
            let status = told.status.get_or_insert_with(NamespaceStatus::default);
            status.conditions = Some(conditions);
            decision.push(update_status(&told));
        }
        if !contents.is_empty() {
            empty(&contents, &mut decision);
        } else if unseen.is_empty() {
            finalize(caches, namespace, &mut decision);
        } else {
            decision.again(DISCOVERY_AGAIN);
        }
        decision
    }
}

fn going(caches: &Caches) -> impl Iterator<Item = Key> {
    let going = caches.namespaces.all().filter(|one| is_going(one));
    going.map(|one| meta::key(&one.metadata))
}

/// Deletes the content of the namespace. Pods go first: until they have ended they may need the
/// other objects.
fn empty(contents: &[&Vertex], into: &mut Decision) {
    let is_pod = |vertex: &&&Vertex| vertex.kind.kind() == "Pod" && vertex.kind.group().is_empty();
    let pods: Vec<&&Vertex> = contents.iter().filter(is_pod).collect();
    let now: Vec<&Vertex> = if pods.is_empty() {
        contents.to_vec()
    } else {
        pods.into_iter().copied().collect()
    };
    for vertex in now
        .into_iter()
        .filter(|vertex| !vertex.deleting)
        .take(BURST)
    {
        into.push(Call::Delete {
            kind: Arc::clone(&vertex.kind),
            namespace: vertex.namespace.clone(),
            name: vertex.name.clone(),
            options: DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::of(&vertex.uid)
            },
        })
        .only_for(0);
    }
}

/// Checks that the namespace is really empty, because informers may lag and kinds may have come,
/// and finalizes it.
fn finalize(caches: &Caches, namespace: &Namespace, into: &mut Decision) {
    let name = meta::name(&namespace.metadata).to_owned();
    // Nothing new can enter the namespace: a kind that comes after this has no object in it.
    let step = into.push(Call::Discover { core: false });
    step.kinds = Some(Arc::clone(&caches.kinds));
    for kind in caches.kinds.in_namespaces().map(Arc::clone) {
        let namespace = name.clone();
        into.push(if is_event(&kind) {
            Call::DeleteCollection { kind, namespace }
        } else {
            Call::List { kind, namespace }
        });
    }
    let mut free = namespace.clone();
    if let Some(finalizers) = free.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|has| has != FINALIZER);
    }
    // No version is needed: the write only removes the finalizer, which is never added back.
    free.metadata.resource_version = None;
    into.push(Call::Update {
        kind: kind_of::<Namespace>().clone(),
        subresource: "finalize",
        object: to_object(&free),
    });
}

/// The remaining objects by kind, as text for a condition.
fn kinds_left(contents: &[&Vertex]) -> Option<String> {
    let kinds = contents.iter().map(|vertex| {
        let (plural, group) = (vertex.kind.plural(), vertex.kind.group());
        format!("{plural}.{group} has")
    });
    let counts = counted(kinds);
    let counts = counts.map(|(kind, count)| format!("{kind} {count} resource instances"));
    join(counts)
}

/// The finalizers of remaining objects, as text for a condition.
fn finalizers_left(contents: &[&Vertex]) -> Option<String> {
    let finalizers = contents.iter().flat_map(|vertex| vertex.finalizers.iter());
    let counts = counted(finalizers.cloned());
    let counts = counts.map(|(one, count)| format!("{one} in {count} resource instances"));
    join(counts)
}

fn counted(texts: impl Iterator<Item = String>) -> impl Iterator<Item = (String, usize)> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts.into_iter()
}

fn join(texts: impl Iterator<Item = String>) -> Option<String> {
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// A condition: its kind, whether it holds, the reason and the message.
type Finding = (&'static str, bool, &'static str, String);

fn findings(
    contents: &[&Vertex],
    unseen: &BTreeSet<String>,
    failure: Option<&Failure>,
) -> [Finding; 5] {
    [
        discovered(unseen),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        match failure {
            None => (
                "NamespaceDeletionContentFailure",
                false,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            ),
            Some(failure) => (
                "NamespaceDeletionContentFailure",
                true,
                "ContentDeletionFailed",
                format!(
                    "Failed to delete all resource types, 1 remaining: {}",
                    failure.message
                ),
            ),
        },
        match kinds_left(contents) {
            None => (
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            ),
            Some(left) => (
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                format!("Some resources are remaining: {left}"),
            ),
        },
        match finalizers_left(contents) {
            None => (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            ),
            Some(left) => (
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {left}"),
            ),
        },
    ]
}

/// Whether all kinds are known that may have objects in a namespace.
fn discovered(unseen: &BTreeSet<String>) -> Finding {
    const KIND: &str = "NamespaceDeletionDiscoveryFailure";
    let each = unseen.iter();
    let each = each.map(|one| format!("{one}: stale GroupVersion discovery: {one}"));
    match join(each) {
        None => (
            KIND,
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        Some(failed) => (
            KIND,
            true,
            "DiscoveryFailed",
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete \
                 list of server APIs: {failed}",
                unseen.len()
            ),
        ),
    }
}

fn conditions(
    namespace: &Namespace,
    findings: [Finding; 5],
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let old = namespace
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let was = |kind: &str| old.into_iter().flatten().find(|has| has.type_ == kind);
    findings
        .into_iter()
        .map(|(kind, truth, reason, message)| {
            let status = if truth { "True" } else { "False" };
            let since = was(kind).filter(|was| was.status == status);
            NamespaceCondition {
                type_: kind.into(),
                status: status.into(),
                reason: Some(reason.into()),
                message: Some(message),
                last_transition_time: since
                    .and_then(|was| was.last_transition_time.clone())
                    .or_else(|| Some(meta::time(now))),
            }
        })
        .collect()
}
