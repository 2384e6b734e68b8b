//! The garbage collector: deletes what has no owner left, and finishes deletions that wait for
//! dependents to go first or to be set free.
//!
//! An owner that the graph does not show is asked for before anything is deleted on its account:
//! kinds are watched one by one, and the owner's may lag behind.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::world::{Call, DeleteOptions, Propagation};
use serde_json::json;

use crate::cache::{Caches, Changed, Key};
use crate::decision::{Decision, Note, merge, strategic};
use crate::graph::{FOREGROUND, ORPHAN, Owner, Vertex};
use crate::loops::{Context, Loop};

/// How long an owner that exists may take to arrive by its watch before it is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Garbage;

/// What an owner reference comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The owner is there and stays, or its kind is not known.
    Firmly,
    /// The owner is there and waits for its dependents to go first.
    UntilGone,
    /// There is no such owner.
    No,
    /// Nobody has asked yet.
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
            Some(owner) if owner.waits_for(ORPHAN) => set_free(context.caches, owner),
            Some(owner) if owner.waits_for(FOREGROUND) => delete_first(context.caches, owner),
            Some(dependent) if dependent.deleting => Decision::nothing(),
            Some(dependent) => keep_or_delete(context.caches, dependent),
        }
    }
}

/// Takes the owner out of its dependents, then lets it go.
fn set_free(caches: &Caches, owner: &Vertex) -> Decision {
    let mut decision = Decision::nothing();
    for dependent in caches.graph.dependents(&owner.uid) {
        decision.push(without_owners(dependent, &[&owner.uid]));
    }
    decision.push(without_finalizer(owner, ORPHAN));
    decision
}

/// Lets the owner go once nothing is left that blocks it. What blocks it has a key of its own.
fn delete_first(caches: &Caches, owner: &Vertex) -> Decision {
    let blocks = |dependent: &Vertex| {
        let mut owners = dependent.owners.iter();
        owners.any(|reference| reference.uid == owner.uid && reference.blocks)
    };
    if caches.graph.dependents(&owner.uid).any(blocks) {
        Decision::nothing()
    } else {
        Decision::of(without_finalizer(owner, FOREGROUND))
    }
}

fn keep_or_delete(caches: &Caches, dependent: &Vertex) -> Decision {
    let of = |held: Held| {
        let owners = dependent.owners.iter();
        owners.filter(move |owner| hold(caches, dependent, owner) == held)
    };
    let mut unknown = of(Held::Unknown).peekable();
    if unknown.peek().is_some() {
        let mut decision = Decision::nothing();
        for owner in unknown {
            ask(&mut decision, dependent, owner);
        }
        decision.again(ASK_AGAIN);
        return decision;
    }
    let firm = of(Held::Firmly).count();
    let loose: Vec<&str> = of(Held::No)
        .chain(of(Held::UntilGone))
        .map(|owner| owner.uid.as_str())
        .collect();
    if dependent.owners.is_empty() || firm > 0 && loose.is_empty() {
        return Decision::nothing();
    }
    let mut decision = Decision::nothing();
    if firm > 0 {
        let step = decision.push(without_owners(dependent, &loose));
        step.done = misplaced(caches, dependent);
        return decision;
    }
    let waited_for = of(Held::UntilGone).next().is_some();
    if waited_for && closes_circle(caches, dependent) {
        // Each of a circle waits for the next. One that blocks nobody ends that; what is deleted
        // for it follows when this is seen.
        return Decision::of(unblocking(dependent));
    }
    let owns = caches.graph.dependents(&dependent.uid).next().is_some();
    let propagation = if waited_for && owns {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let step = decision.push(Call::Delete {
        kind: dependent.kind,
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

/// Whether something waits for what it owns itself, this one among it. That is seen of neighbours
/// alone, so it may be no circle; then an owner goes earlier than it asked for, as in Kubernetes.
fn closes_circle(caches: &Caches, dependent: &Vertex) -> bool {
    let mut owned = caches.graph.dependents(&dependent.uid);
    owned.any(|one| one.waits_for(FOREGROUND)) && dependent.owners.iter().any(|one| one.blocks)
}

/// Lets the owners go before this one.
fn unblocking(dependent: &Vertex) -> Call {
    let blocking = dependent.owners.iter().filter(|owner| owner.blocks);
    let references: Vec<_> = blocking
        .map(|owner| json!({"uid": owner.uid, "blockOwnerDeletion": false}))
        .collect();
    let patch = json!({"metadata": {
        "uid": dependent.uid, "resourceVersion": dependent.revision.to_string(),
        "ownerReferences": references,
    }});
    strategic(dependent.kind, &dependent.namespace, &dependent.name, patch)
}

/// What people are told when an owner is in another namespace, where it owns nothing here.
fn misplaced(caches: &Caches, dependent: &Vertex) -> Option<Note> {
    let elsewhere = |owner: &&Owner| {
        let found = caches.graph.get(&owner.uid);
        found.is_some_and(|found| !reaches(found, dependent))
    };
    let owner = dependent.owners.iter().find(elsewhere)?;
    let namespace = &dependent.namespace;
    let kind = owner.kind.map(|kind| kind.0);
    let kind = kind.map(|kind| format!("{}/{}", kind.api_version(), kind.kind));
    Some(Note {
        about: json!({
            "apiVersion": dependent.kind.api_version(), "kind": dependent.kind.kind,
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

/// Whether an object can own another as far as namespaces go.
fn reaches(owner: &Vertex, dependent: &Vertex) -> bool {
    owner.namespace.is_empty() || owner.namespace == dependent.namespace
}

fn hold(caches: &Caches, dependent: &Vertex, owner: &Owner) -> Held {
    if let Some(found) = caches.graph.get(&owner.uid) {
        return match (reaches(found, dependent), found.waits_for(FOREGROUND)) {
            (false, _) => Held::No,
            (true, true) => Held::UntilGone,
            (true, false) => Held::Firmly,
        };
    }
    match owner.kind {
        // Nobody can say whether it is there.
        None => Held::Firmly,
        // A cluster object cannot be owned from inside a namespace: it could be any of them.
        Some(kind) if kind.0.namespaced() && dependent.namespace.is_empty() => Held::Firmly,
        Some(_) if caches.graph.is_absent(&owner.uid) => Held::No,
        Some(_) => Held::Unknown,
    }
}

fn ask(decision: &mut Decision, dependent: &Vertex, owner: &Owner) {
    let Some(kind) = owner.kind else {
        return;
    };
    let namespace = if kind.0.namespaced() {
        dependent.namespace.clone()
    } else {
        String::new()
    };
    let step = decision.push(Call::Get {
        kind: kind.0,
        namespace,
        name: owner.name.clone(),
    });
    step.asks = Some(owner.uid.clone());
}

fn without_owners(dependent: &Vertex, owners: &[&str]) -> Call {
    let references: Vec<_> = owners
        .iter()
        .map(|uid| json!({"$patch": "delete", "uid": uid}))
        .collect();
    let patch = json!({"metadata": {"uid": dependent.uid, "ownerReferences": references}});
    strategic(dependent.kind, &dependent.namespace, &dependent.name, patch)
}

fn without_finalizer(vertex: &Vertex, finalizer: &str) -> Call {
    let left = vertex.finalizers.iter().filter(|has| *has != finalizer);
    let finalizers: Vec<&String> = left.collect();
    let patch = json!({"metadata": {
        "uid": vertex.uid, "resourceVersion": vertex.revision.to_string(),
        "finalizers": finalizers,
    }});
    merge(vertex.kind, &vertex.namespace, &vertex.name, patch)
}
