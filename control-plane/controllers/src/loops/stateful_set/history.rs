//! The revisions of a set: the current one, the one that it is updated to, and those kept to go back
//! to.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use serde_json::Value;

use super::{View, revision_of};
use crate::decision::{Decision, create, delete};
use crate::known::Shared;
use crate::meta;
use crate::revisions::{self, Place};

const HASH: &str = "controller.kubernetes.io/hash";

/// The two revisions that pods may have, and the number of collisions of names so far.
pub(super) struct Chosen {
    pub(super) current: ControllerRevision,
    pub(super) update: ControllerRevision,
    pub(super) collisions: i32,
}

/// Finds the revisions; one for a new template is created, and one for an earlier template becomes
/// the newest again.
pub(super) fn choose(view: &View<'_>, into: &mut Decision) -> Chosen {
    let status = view.set.status.clone().unwrap_or_default();
    let data = revisions::data(&view.spec.template);
    let mut collisions = status.collision_count.unwrap_or(0);
    let newest = view.revisions.last();
    let mut latest_first = view.revisions.iter().rev();
    let update = match latest_first.find(|one| revisions::has_data(one, &data)) {
        Some(equal) if newest == Some(equal) => equal.as_ref().clone(),
        Some(equal) => bumped(view, equal, into),
        None => match newest {
            Some(newest) if restores_the_same(view.set, newest, &data) => newest.as_ref().clone(),
            _ => new(view, data, &mut collisions, into),
        },
    };
    let is_current = |one: &&Shared<ControllerRevision>| {
        Some(meta::name(&one.metadata)) == status.current_revision.as_deref()
    };
    let current = view.revisions.iter().find(is_current);
    let current = current.map(|current| current.as_ref().clone());
    Chosen {
        current: current.unwrap_or_else(|| update.clone()),
        update,
        collisions,
    }
}

/// True if going back to a revision would change nothing: its data may lack defaults that came
/// later.
fn restores_the_same(set: &StatefulSet, revision: &ControllerRevision, data: &Value) -> bool {
    let restored = revisions::restored(set, revision);
    let spec = restored.and_then(|restored| restored.spec);
    spec.is_some_and(|spec| revisions::data(&spec.template) == *data)
}

fn bumped(
    view: &View<'_>,
    revision: &ControllerRevision,
    into: &mut Decision,
) -> ControllerRevision {
    let number = revisions::next_number(&view.revisions);
    into.push(revisions::bump(revision, number));
    ControllerRevision {
        revision: number,
        ..revision.clone()
    }
}

fn new(
    view: &View<'_>,
    data: Value,
    collisions: &mut i32,
    into: &mut Decision,
) -> ControllerRevision {
    let of_template = view.spec.template.metadata.as_ref();
    let labels = of_template.and_then(|metadata| metadata.labels.clone());
    let mut labels = labels.unwrap_or_default();
    // The label stays as it is when the name collides with another.
    labels.insert(HASH.into(), revisions::hash(&data, *collisions));
    let store = &view.context.caches.revisions;
    let hash = |collisions| revisions::hash(&data, collisions);
    match revisions::place(view.set, store, &data, collisions, hash) {
        Place::Taken(has) => has.as_ref().clone(),
        Place::Free(name) => {
            let number = revisions::next_number(&view.revisions);
            let made = revisions::new(view.set, name, labels, data, number);
            into.push(create(&made));
            made
        }
    }
}

/// Deletes revisions beyond the limit that no pod has.
pub(super) fn trim(view: &View<'_>, chosen: &Chosen, into: &mut Decision) {
    let in_use = |name: &str| {
        let chosen = [&chosen.current, &chosen.update];
        let mut chosen = chosen.into_iter().map(|one| meta::name(&one.metadata));
        chosen.any(|one| one == name) || view.pods.iter().any(|pod| revision_of(pod) == name)
    };
    let limit = view.spec.revision_history_limit.unwrap_or(10);
    for revision in revisions::surplus(&view.revisions, in_use, limit) {
        into.push(delete(revision.as_ref()));
    }
}
