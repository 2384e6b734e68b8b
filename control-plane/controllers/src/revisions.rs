//! Controller revisions: the history of a workload's template. Each holds a patch that restores an
//! earlier template; a number says in which order they were wanted.

#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use machinery::api::Call;
use machinery::selector::LabelSelector;
use machinery::time::Timestamp;
use machinery::{defaults, go_json, patch};
use serde_json::{Value, json};

use crate::cache::Store;
use crate::decision::change;
use crate::known::{Known, Shared, kind_of, to_object};
use crate::meta::{self, Labels};
use crate::pods;

/// The letters of hashes: no vowels, so that no words appear.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Maximum bytes of a workload's name in the name of a revision.
const PREFIX_MAX: usize = 223;

/// A workload's revisions that match its selector, oldest first, and calls that adopt and release
/// others, as for its pods.
pub(crate) fn claim<O: Known>(
    owner: &O,
    store: &Store<ControllerRevision>,
    selector: &LabelSelector,
) -> (Vec<Shared<ControllerRevision>>, Vec<Call>) {
    let (revisions, calls) = pods::claim(owner, store, selector);
    (in_order(revisions), calls)
}

/// The same without releases: a revision that no longer matches keeps its owner, but is ignored.
pub(crate) fn adopt<O: Known>(
    owner: &O,
    store: &Store<ControllerRevision>,
    selector: &LabelSelector,
) -> (Vec<Shared<ControllerRevision>>, Vec<Call>) {
    let belongs = |metadata: &ObjectMeta| meta::matches(selector, metadata.labels.as_ref());
    let owned = store.controlled_by(meta::uid(owner.metadata()));
    let revisions = owned.filter(|one| belongs(&one.metadata)).cloned();
    (
        in_order(revisions.collect()),
        pods::adoptions(owner, store, belongs),
    )
}

fn in_order(mut revisions: Vec<Shared<ControllerRevision>>) -> Vec<Shared<ControllerRevision>> {
    fn order(one: &ControllerRevision) -> (i64, Timestamp, &str) {
        let metadata = &one.metadata;
        (one.revision, meta::created(metadata), meta::name(metadata))
    }
    revisions.sort_by(|a, b| order(a).cmp(&order(b)));
    revisions
}

/// The number of the next revision.
pub(crate) fn next_number(revisions: &[Shared<ControllerRevision>]) -> i64 {
    let numbers = revisions.iter().map(|one| one.revision);
    numbers.max().unwrap_or(0) + 1
}

/// The data of a revision: a strategic merge patch that puts this template in the place of another.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// True if the revision restores the same template.
pub(crate) fn has_data(revision: &ControllerRevision, data: &Value) -> bool {
    revision.data.as_ref().is_some_and(|has| has.0 == *data)
}

/// The workload with the template of a revision, which gets the defaults of today; `None` if the
/// data is no patch for it.
pub(crate) fn restored<O: Known>(owner: &O, revision: &ControllerRevision) -> Option<O> {
    let kind = kind_of::<O>();
    let data = &revision.data.as_ref()?.0;
    let mut object = patch::strategic(&to_object(owner), data, kind.message()).ok()?;
    defaults::apply(kind.group(), kind.kind(), &mut object);
    serde_json::from_value(object).ok()
}

/// A place in the history for new data.
#[derive(Debug)]
pub(crate) enum Place {
    /// No revision has this name.
    Free(String),
    /// A revision with a name for the data has the data, whoever owns it.
    Taken(Shared<ControllerRevision>),
}

/// Where a workload stores new data. `hash` makes the end of the name from the number of
/// collisions; each name with other data behind it is one more of these.
pub(crate) fn place<O: Known>(
    owner: &O,
    store: &Store<ControllerRevision>,
    data: &Value,
    collisions: &mut i32,
    hash: impl Fn(i32) -> String,
) -> Place {
    let metadata = owner.metadata();
    let mut prefix = meta::name(metadata).to_owned();
    prefix.truncate(PREFIX_MAX);
    loop {
        let name = format!("{prefix}-{}", hash(*collisions));
        match store.get(meta::namespace(metadata), &name) {
            None => return Place::Free(name),
            Some(has) if has_data(has, data) => return Place::Taken(has.clone()),
            Some(_) => *collisions += 1,
        }
    }
}

/// The hash of a revision's data: FNV-1 of its JSON and of the number of collisions.
pub(crate) fn hash(data: &Value, collisions: i32) -> String {
    let text = format!("{}{collisions}", go_json::encoded(data));
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        sum.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    });
    in_letters(sum)
}

/// A hash in letters that make no words.
pub(crate) fn in_letters(sum: u32) -> String {
    let digits = sum.to_string().into_bytes();
    let letters = digits
        .iter()
        .map(|digit| LETTERS[usize::from(*digit) % LETTERS.len()]);
    letters.map(char::from).collect()
}

/// A new revision of a workload. It inherits the workload's annotations.
pub(crate) fn new<O: Known>(
    owner: &O,
    name: String,
    labels: Labels,
    data: Value,
    number: i64,
) -> ControllerRevision {
    let of_owner = owner.metadata();
    ControllerRevision {
        metadata: ObjectMeta {
            namespace: of_owner.namespace.clone(),
            name: Some(name),
            labels: Some(labels),
            annotations: of_owner.annotations.clone(),
            owner_references: Some(vec![meta::owned_by(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// The call that makes an earlier revision the newest again.
pub(crate) fn bump(revision: &ControllerRevision, number: i64) -> Call {
    change(revision, json!({"revision": number}))
}

/// The oldest revisions beyond the limit; those in use neither count nor go. A negative limit keeps
/// all.
pub(crate) fn surplus(
    revisions: &[Shared<ControllerRevision>],
    in_use: impl Fn(&str) -> bool,
    limit: i32,
) -> Vec<&Shared<ControllerRevision>> {
    let past = revisions
        .iter()
        .filter(|one| !in_use(meta::name(&one.metadata)));
    let mut past: Vec<_> = past.collect();
    let kept = usize::try_from(limit).unwrap_or(past.len());
    past.truncate(past.len().saturating_sub(kept));
    past
}
