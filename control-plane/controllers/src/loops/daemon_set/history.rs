//! The revisions of a daemon set's template: one for each template that it had, as far as the
//! history goes back.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use super::{History, View};
use crate::cache::REVISION_HASH;
use crate::decision::{Decision, change, create, delete, update_status};
use crate::known::{Known, Shared};
use crate::loops::Context;
use crate::meta;
use crate::revisions::{self, Place};

/// Brings the revisions up to date with the template. Returns them if nothing had to be written.
pub(super) fn keep_up(
    context: &Context<'_>,
    set: &Shared<DaemonSet>,
    selector: &LabelSelector,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) -> Option<History> {
    let store = &context.caches.revisions;
    let (all, claims) = revisions::claim(set.as_ref(), store, selector);
    for call in claims {
        into.push(call);
    }
    for one in all.iter().filter(|one| hash_of(one).is_none()) {
        into.push(labelled(one.as_ref(), meta::name(&one.metadata)));
    }
    if !into.steps.is_empty() {
        return None;
    }
    let template = &set.spec.as_ref()?.template;
    let data = revisions::data(template);
    let same = |one: &Shared<ControllerRevision>| revisions::has_data(one, &data);
    let (current, old): (Vec<_>, Vec<_>) = all.into_iter().partition(same);
    let number = revisions::next_number(&old);
    let Some((newest, doubled)) = current.split_last() else {
        let hash = begin(context, set, template, data, number, into)?;
        return Some(History { hash, old });
    };
    let hash = hash_of(newest)?.to_owned();
    if !doubled.is_empty() {
        unite(doubled, &hash, claimed, into);
    }
    if newest.revision < number {
        into.push(revisions::bump(newest, number));
    }
    into.steps.is_empty().then_some(History { hash, old })
}

fn hash_of(revision: &ControllerRevision) -> Option<&str> {
    meta::label(&revision.metadata, REVISION_HASH)
}

fn labelled<T: Known>(object: &T, hash: &str) -> machinery::api::Call {
    change(
        object,
        json!({"metadata": {"labels": {REVISION_HASH: hash}}}),
    )
}

/// Creates the revision of a new template. Returns the hash of one with its name if that has the
/// same template.
fn begin(
    context: &Context<'_>,
    set: &Shared<DaemonSet>,
    template: &PodTemplateSpec,
    data: Value,
    number: i64,
    into: &mut Decision,
) -> Option<String> {
    let status = set.status.clone().unwrap_or_default();
    let before = status.collision_count.unwrap_or(0);
    let mut collisions = before;
    let hash = |collisions| revisions::hash(&data, collisions);
    let store = &context.caches.revisions;
    let name = match revisions::place(set.as_ref(), store, &data, &mut collisions, hash) {
        Place::Taken(has) => return hash_of(&has).map(str::to_owned),
        Place::Free(name) => name,
    };
    if collisions != before {
        let mut told = set.as_ref().clone();
        told.status.get_or_insert_default().collision_count = Some(collisions);
        into.push(update_status(&told));
    }
    let of_template = template.metadata.clone().unwrap_or_default();
    let mut labels = of_template.labels.unwrap_or_default();
    labels.insert(REVISION_HASH.into(), hash(collisions));
    let made = revisions::new(set.as_ref(), name, labels, data.clone(), number);
    into.push(create(&made));
    None
}

/// Deletes revisions with the same template as another one, whose pods get its hash.
fn unite(
    doubled: &[Shared<ControllerRevision>],
    hash: &str,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) {
    for pod in claimed {
        if meta::label(&pod.metadata, REVISION_HASH) != Some(hash) {
            into.push(labelled(pod.as_ref(), hash));
        }
    }
    for one in doubled {
        into.push(delete(one.as_ref()));
    }
}

/// Deletes the oldest revisions beyond the history limit, except those that pods have.
pub(super) fn clean_up(view: &View<'_>, claimed: &[Shared<Pod>], into: &mut Decision) {
    let limit = view.spec.revision_history_limit.unwrap_or(10);
    let kept = usize::try_from(limit).unwrap_or(0);
    let old = &view.history.old;
    let lives = |one: &Shared<ControllerRevision>| {
        let labels = claimed
            .iter()
            .map(|pod| meta::label(&pod.metadata, REVISION_HASH));
        hash_of(one).is_some_and(|hash| labels.clone().any(|label| label == Some(hash)))
    };
    let surplus = old.len().saturating_sub(kept);
    for one in old.iter().filter(|one| !lives(one)).take(surplus) {
        into.push(delete(one.as_ref()));
    }
}
