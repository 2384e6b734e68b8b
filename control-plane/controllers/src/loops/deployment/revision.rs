//! The replica set of each template: its name, its revision number, and how long it is kept.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::name::SUBDOMAIN_BYTES_MAX;
use serde_json::json;

use super::replicas::grown;
use super::status::{NOT_CREATED, NewStatus};
use super::{DESIRED, HASH, MOST, REVISION, View};
use crate::decision::{Decision, Note, change, create, delete};
use crate::known::Shared;
use crate::loops::replica_set::wanted;
use crate::meta::{self, Labels};
use crate::revisions::in_letters;

const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Maximum bytes of the annotation with a set's former revisions.
const HISTORY_BYTES_MAX: usize = 2000;
/// Annotations that a set does not inherit from its deployment.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

/// True if the set was made from this template. The hash label is ignored: it differs per set.
pub(super) fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let of_set = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    of_set.is_some_and(|of_set| without_hash(of_set) == without_hash(template))
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(HASH);
    }
    // Empty labels or annotations are the same as none.
    metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
    metadata.annotations = metadata.annotations.take().filter(|has| !has.is_empty());
    metadata.creation_timestamp = None;
    template
}

/// Updates or creates the new set. Returns the set if nothing had to be written.
pub(super) fn keep_up(
    view: &View<'_>,
    make: bool,
    told: &mut NewStatus,
    into: &mut Decision,
) -> Option<Shared<ReplicaSet>> {
    let number = view
        .old
        .iter()
        .map(|set| number(&set.metadata))
        .max()
        .unwrap_or(0)
        + 1;
    let Some(new) = &view.new else {
        if make {
            make_new(view, number, told, into);
        }
        return None;
    };
    told.found(view, new);
    let annotations = annotations(view, &new.metadata, number);
    let min_ready = new
        .spec
        .as_ref()
        .and_then(|spec| spec.min_ready_seconds)
        .unwrap_or(0);
    let min_ready_wanted = view.spec.min_ready_seconds.unwrap_or(0);
    if !annotations.is_empty() || min_ready != min_ready_wanted {
        let patch = json!({
            "metadata": {"annotations": annotations},
            "spec": {"minReadySeconds": min_ready_wanted},
        });
        into.push(change(new.as_ref(), patch));
        return None;
    }
    told.revision = meta::annotation(&new.metadata, REVISION).map(str::to_owned);
    Some(new.clone())
}

fn make_new(view: &View<'_>, number: i64, told: &mut NewStatus, into: &mut Decision) {
    let metadata = &view.deployment.metadata;
    let collisions = told.status.collision_count.unwrap_or(0);
    let hash = hash(&view.spec.template, collisions);
    let name = name_of_set(meta::name(metadata), &hash);
    let taken = view
        .context
        .caches
        .replica_sets
        .get(meta::namespace(metadata), &name);
    if taken.is_some() {
        // A set with another template or owner has this name; the next count gives another name.
        told.status.collision_count = Some(collisions + 1);
        return;
    }
    let labelled = |labels: Option<&Labels>| {
        let mut labels = labels.cloned().unwrap_or_default();
        labels.insert(HASH.into(), hash.clone());
        labels
    };
    let mut template = view.spec.template.clone();
    let of_template = template.metadata.get_or_insert_default();
    of_template.labels = Some(labelled(of_template.labels.as_ref()));
    let labels = of_template.labels.clone();
    let mut selector = view.spec.selector.clone();
    selector.match_labels = Some(labelled(selector.match_labels.as_ref()));
    let mut annotations = annotations(view, &ObjectMeta::default(), number);
    annotations.insert(DESIRED.into(), view.replicas().to_string());
    annotations.insert(MOST.into(), view.most().to_string());
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            namespace: metadata.namespace.clone(),
            name: Some(name.clone()),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![meta::owned_by(view.deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: view.spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    };
    let size = if view.recreates() {
        view.replicas()
    } else {
        grown(view, &set)
    };
    if let Some(spec) = &mut set.spec {
        spec.replicas = i32::try_from(size).ok();
    }
    let failed = format!("Failed to create new replica set \"{name}\": {{}}");
    let failed = Note::new(view.deployment, NOT_CREATED, failed).warning();
    let step = into.push(create(&set)).tell_failure(failed);
    if size > 0 {
        let text = format!("Scaled up replica set {name} from 0 to {size}");
        step.tell(Note::new(view.deployment, "ScalingReplicaSet", text));
    }
    told.revision = Some(number.to_string());
    match view.context.failure.filter(|failure| failure.creating) {
        Some(failure) => told.not_created(view, &name, &failure.message),
        None => told.created(view, &name),
    }
}

/// The name of a deployment's set. Of a long name of the deployment the end is left out.
fn name_of_set(deployment: &str, hash: &str) -> String {
    let room = SUBDOMAIN_BYTES_MAX - hash.len() - 1;
    let prefix = deployment.get(..room).unwrap_or(deployment);
    format!("{prefix}-{hash}")
}

/// The annotations of the new set that must change.
fn annotations(view: &View<'_>, of: &ObjectMeta, number: i64) -> BTreeMap<String, String> {
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    let inherited = view.deployment.metadata.annotations.iter().flatten();
    for (key, value) in inherited.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str())) {
        wanted.insert(key.clone(), value.clone());
    }
    let has = meta::annotation(of, REVISION);
    let current: i64 = has.and_then(|text| text.parse().ok()).unwrap_or(0);
    if current < number {
        wanted.insert(REVISION.into(), number.to_string());
        if let Some(past) = has {
            // A rollback to an earlier template: the set's old revision moves to the history.
            let earlier = meta::annotation(of, HISTORY).unwrap_or_default();
            let mut numbers: Vec<&str> = earlier.split(',').filter(|n| !n.is_empty()).collect();
            numbers.push(past);
            while numbers.join(",").len() > HISTORY_BYTES_MAX {
                numbers.remove(0);
            }
            wanted.insert(HISTORY.into(), numbers.join(","));
        }
    }
    wanted.retain(|key, value| meta::annotation(of, key) != Some(value));
    wanted
}

fn number(metadata: &ObjectMeta) -> i64 {
    let number = meta::annotation(metadata, REVISION);
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Deletes sets without replicas that exceed the revision history limit.
pub(super) fn clean_up(view: &View<'_>, into: &mut Decision) {
    let limit = view.spec.revision_history_limit.unwrap_or(10);
    let idle = |set: &&Shared<ReplicaSet>| {
        let status = set.status.clone().unwrap_or_default();
        let seen = status.observed_generation >= set.metadata.generation;
        let empty = wanted(set) == 0 && status.replicas == 0 && seen;
        empty && !meta::is_deleting(&set.metadata)
    };
    let mut sets: Vec<&Shared<ReplicaSet>> = view.old.iter().filter(idle).collect();
    sets.sort_by_key(|set| number(&set.metadata));
    let kept = usize::try_from(limit).unwrap_or(0);
    for set in sets.iter().take(sets.len().saturating_sub(kept)) {
        into.push(delete(set.as_ref()));
    }
}

/// The hash of a template: FNV-1a of its JSON, in letters that make no words.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let mut bytes = serde_json::to_vec(&without_hash(template)).unwrap_or_default();
    if collisions > 0 {
        bytes.extend(collisions.to_le_bytes());
    }
    let sum = bytes.iter().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    in_letters(sum)
}
