//! The garbage collector: deletes objects whose owners are all gone, and finishes deletions that
//! wait for dependents to be deleted (foreground) or released (orphan).
//!
//! If the graph does not have an owner, the loop asks the apiserver before it deletes anything:
//! each kind has its own watch, and the owner's watch may lag behind.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use machinery::api::{Call, DeleteOptions, Propagation};
use machinery::schema::Kind;
use serde_json::json;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, Note, merge, strategic};
use crate::graph::{FOREGROUND, ORPHAN, Owner, Vertex};
use crate::known::Key;
use crate::loops::{Context, Loop};

/// How long an existing owner may take to arrive from its watch before the loop asks again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Garbage;

/// The state of an owner reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists and stays, or its kind is unknown.
    Solid,
    /// The owner exists and waits until its dependents are deleted.
    WaitingForDependents,
    /// The owner does not exist.
    Dangling,
    /// The graph does not have the owner, and the apiserver was not asked yet.
    Unknown,
}

impl Loop for Garbage {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    fn touched(&self, caches: &Caches, uid: &str, wake: &mut dyn FnMut(Key)) {
        let concerns = |vertex: &Vertex| {
            !vertex.owners.is_empty() || vertex.waits_for(FOREGROUND) || vertex.waits_for(ORPHAN)
        };
        if caches.graph.get(uid).is_some_and(concerns) {
            wake((String::new(), uid.to_owned()));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let graph = &context.caches.graph;
        match graph.get(&key.1) {
            None => Decision::nothing(),
            Some(owner) if owner.waits_for(ORPHAN) => orphan(context.caches, owner),
            Some(owner) if owner.waits_for(FOREGROUND) => foreground(context.caches, owner),
            Some(dependent) if dependent.deleting => Decision::nothing(),
            Some(dependent) => keep_or_delete(context.caches, dependent),
        }
    }
}

/// Removes the owner from its dependents, then removes the orphan finalizer.
fn orphan(caches: &Caches, owner: &Vertex) -> Decision {
    let mut decision = Decision::nothing();
    for dependent in caches.graph.dependents(&owner.uid) {
        decision.push(without_owners(dependent, &[&owner.uid]));
    }
    decision.push(without_finalizer(owner, ORPHAN));
    decision
}

/// Removes the foreground finalizer once no dependent blocks it. Blocking dependents have their
/// own keys.
fn foreground(caches: &Caches, owner: &Vertex) -> Decision {
    let blocks = |dependent: &Vertex| {
        let mut owners = dependent.owners.iter();
        reaches(owner, dependent)
            && owners.any(|reference| reference.uid == owner.uid && reference.blocks)
    };
    if caches.graph.dependents(&owner.uid).any(blocks) {
        Decision::nothing()
    } else {
        Decision::of(without_finalizer(owner, FOREGROUND))
    }
}

fn keep_or_delete(caches: &Caches, dependent: &Vertex) -> Decision {
    let of = |state: OwnerState| {
        let owners = dependent.owners.iter();
        owners.filter(move |owner| classify(caches, dependent, owner) == state)
    };
    let mut unknown = of(OwnerState::Unknown).peekable();
    if unknown.peek().is_some() {
        let mut decision = Decision::nothing();
        for owner in unknown {
            ask(caches, &mut decision, dependent, owner);
        }
        decision.again(ASK_AGAIN);
        return decision;
    }
    let solid = of(OwnerState::Solid).count();
    let leaving: Vec<&str> = of(OwnerState::Dangling)
        .chain(of(OwnerState::WaitingForDependents))
        .map(|owner| owner.uid.as_str())
        .collect();
    if dependent.owners.is_empty() || solid > 0 && leaving.is_empty() {
        return Decision::nothing();
    }
    let mut decision = Decision::nothing();
    if solid > 0 {
        let step = decision.push(without_owners(dependent, &leaving));
        step.done = misplaced(caches, dependent);
        return decision;
    }
    let waited_for = of(OwnerState::WaitingForDependents).next().is_some();
    if waited_for && closes_circle(caches, dependent) {
        // In a circle each object waits for the next. Unblocking one breaks the circle; a later
        // decision, made when this write is seen, deletes the object.
        return Decision::of(unblocking(dependent));
    }
    let owns = caches.graph.dependents(&dependent.uid).next().is_some();
    let propagation = if waited_for && owns {
        Propagation::Foreground
    } else {
        own_propagation(dependent)
    };
    let step = decision.push(Call::Delete {
        kind: Arc::clone(&dependent.kind),
        namespace: dependent.namespace.clone(),
        name: dependent.name.clone(),
        options: DeleteOptions {
            resource_version: dependent.revision.to_string(),
            propagation: Some(propagation),
            ..DeleteOptions::of(&dependent.uid)
        },
    });
    step.done = misplaced(caches, dependent);
    decision
}

/// What an object says of its own dependents before anybody deletes it. An explicit policy would
/// overrule its finalizers.
fn own_propagation(vertex: &Vertex) -> Propagation {
    let has = |finalizer: &str| vertex.finalizers.iter().any(|one| one == finalizer);
    if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// True if a dependent waits for its own dependents, this object among them. Only neighbours are
/// checked, so it may be no circle; then an owner goes before this object, as in Kubernetes.
fn closes_circle(caches: &Caches, dependent: &Vertex) -> bool {
    let mut owned = caches.graph.dependents(&dependent.uid);
    owned.any(|one| one.waits_for(FOREGROUND)) && dependent.owners.iter().any(|one| one.blocks)
}

/// Sets `blockOwnerDeletion` to false, so that the owners can go before this object.
fn unblocking(dependent: &Vertex) -> Call {
    if is_open(dependent) {
        let owners = dependent.owners.iter().cloned();
        let free = owners.map(|owner| Owner {
            blocks: false,
            ..owner
        });
        return with_owners(dependent, &free.collect::<Vec<_>>());
    }
    let blocking = dependent.owners.iter().filter(|owner| owner.blocks);
    let references: Vec<_> = blocking
        .map(|owner| json!({"uid": owner.uid, "blockOwnerDeletion": false}))
        .collect();
    let patch = json!({"metadata": {
        "uid": dependent.uid, "resourceVersion": dependent.revision.to_string(),
        "ownerReferences": references,
    }});
    strategic(
        &dependent.kind,
        &dependent.namespace,
        &dependent.name,
        patch,
    )
}

/// True if nothing says how lists of the object merge: they can only be replaced as a whole.
fn is_open(vertex: &Vertex) -> bool {
    vertex.kind.message().open
}

/// Gives an object these owners, if it is still in its known state.
fn with_owners(dependent: &Vertex, owners: &[Owner]) -> Call {
    let references = owners.iter().map(|owner| {
        let mut reference = json!({
            "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name,
            "uid": owner.uid,
        });
        for (key, is_set) in [
            ("controller", owner.controls),
            ("blockOwnerDeletion", owner.blocks),
        ] {
            if is_set {
                reference[key] = true.into();
            }
        }
        reference
    });
    let patch = json!({"metadata": {
        "uid": dependent.uid, "resourceVersion": dependent.revision.to_string(),
        "ownerReferences": references.collect::<Vec<_>>(),
    }});
    merge(
        &dependent.kind,
        &dependent.namespace,
        &dependent.name,
        patch,
    )
}

/// The Event about an owner in another namespace, which cannot own this object.
fn misplaced(caches: &Caches, dependent: &Vertex) -> Option<Note> {
    let elsewhere = |owner: &&Owner| {
        let found = caches.graph.get(&owner.uid);
        found.is_some_and(|found| !reaches(found, dependent))
    };
    let owner = dependent.owners.iter().find(elsewhere)?;
    let namespace = &dependent.namespace;
    let kind = caches.kinds.named(&owner.api_version, &owner.kind);
    let kind = kind.map(|kind| format!("{}/{}", kind.api_version(), kind.kind()));
    Some(Note {
        about: json!({
            "apiVersion": dependent.kind.api_version(), "kind": dependent.kind.kind(),
            "namespace": namespace, "name": dependent.name, "uid": dependent.uid,
        }),
        warning: true,
        reason: "OwnerRefInvalidNamespace",
        message: format!(
            "ownerRef [{}, namespace: {namespace}, name: {}, uid: {}] does not exist in \
             namespace \"{namespace}\"",
            kind.unwrap_or_default(),
            owner.name,
            owner.uid,
        ),
    })
}

/// True if the namespaces allow `owner` to own `dependent`.
fn reaches(owner: &Vertex, dependent: &Vertex) -> bool {
    owner.namespace.is_empty() || owner.namespace == dependent.namespace
}

fn classify(caches: &Caches, dependent: &Vertex, owner: &Owner) -> OwnerState {
    if let Some(found) = caches.graph.get(&owner.uid) {
        return match (reaches(found, dependent), found.waits_for(FOREGROUND)) {
            // Nothing tells in which namespace such an owner would be, so it counts for nothing and
            // the object stays: operators that make this mistake must not lose cluster roles.
            (false, _) if dependent.namespace.is_empty() => OwnerState::Solid,
            (false, _) => OwnerState::Dangling,
            (true, true) => OwnerState::WaitingForDependents,
            (true, false) => OwnerState::Solid,
        };
    }
    match caches.kinds.named(&owner.api_version, &owner.kind) {
        // The kind went after the owner.
        None if caches.graph.is_gone(&owner.uid) => OwnerState::Dangling,
        // The kind is unknown, so nothing can tell whether the owner exists.
        None => OwnerState::Solid,
        // A cluster-scoped object's reference names no namespace: no way to look such an owner up.
        Some(kind) if kind.namespaced() && dependent.namespace.is_empty() => OwnerState::Solid,
        Some(kind) => {
            let namespace = namespace_of(kind, dependent);
            let graph = &caches.graph;
            if graph.is_absent(kind, namespace, &owner.name, &owner.uid) {
                OwnerState::Dangling
            } else {
                OwnerState::Unknown
            }
        }
    }
}

/// The namespace in which an owner of this kind would be.
fn namespace_of<'a>(kind: &Kind, dependent: &'a Vertex) -> &'a str {
    if kind.namespaced() {
        &dependent.namespace
    } else {
        ""
    }
}

fn ask(caches: &Caches, decision: &mut Decision, dependent: &Vertex, owner: &Owner) {
    let Some(kind) = caches.kinds.named(&owner.api_version, &owner.kind) else {
        return;
    };
    let step = decision.push(Call::Get {
        kind: Arc::clone(kind),
        namespace: namespace_of(kind, dependent).to_owned(),
        name: owner.name.clone(),
    });
    step.asks = Some(owner.uid.clone());
}

fn without_owners(dependent: &Vertex, owners: &[&str]) -> Call {
    if is_open(dependent) {
        let all = dependent.owners.iter();
        let others = all.filter(|owner| !owners.contains(&owner.uid.as_str()));
        return with_owners(dependent, &others.cloned().collect::<Vec<_>>());
    }
    let references: Vec<_> = owners
        .iter()
        .map(|uid| json!({"$patch": "delete", "uid": uid}))
        .collect();
    let patch = json!({"metadata": {"uid": dependent.uid, "ownerReferences": references}});
    strategic(
        &dependent.kind,
        &dependent.namespace,
        &dependent.name,
        patch,
    )
}

fn without_finalizer(vertex: &Vertex, finalizer: &str) -> Call {
    let left = vertex.finalizers.iter().filter(|has| *has != finalizer);
    let finalizers: Vec<&String> = left.collect();
    let patch = json!({"metadata": {
        "uid": vertex.uid, "resourceVersion": vertex.revision.to_string(),
        "finalizers": finalizers,
    }});
    merge(&vertex.kind, &vertex.namespace, &vertex.name, patch)
}
