//! The volume claims of a set's pods: one for each template and ordinal.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use machinery::api::Call;
use serde_json::json;

use super::names::{self, ordinal, pod_name};
use super::{View, retention};
use crate::decision::{Decision, Note, change, create};
use crate::known::{Shared, kind_of};
use crate::meta;

fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    let templates = set.spec.as_ref().map(|spec| &spec.volume_claim_templates);
    templates.and_then(Option::as_deref).unwrap_or_default()
}

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i64) -> String {
    let template = meta::name(&template.metadata);
    format!("{template}-{}", pod_name(set, ordinal))
}

/// True if a claim has the name of a claim of the set.
pub(super) fn may_be_of(set: &StatefulSet, claim: &str) -> bool {
    templates(set).iter().any(|template| {
        let rest = claim.strip_prefix(meta::name(&template.metadata));
        let pod = rest.and_then(|rest| rest.strip_prefix('-'));
        let parts = pod.and_then(names::parts);
        parts.is_some_and(|(name, _)| name == meta::name(&set.metadata))
    })
}

/// The volumes of a pod: its claims replace volumes with their names.
pub(super) fn volumes(
    set: &StatefulSet,
    ordinal: i64,
    others: Option<Vec<Volume>>,
) -> Option<Vec<Volume>> {
    let mut volumes: Vec<Volume> = Vec::new();
    for template in templates(set) {
        let source = PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            ..PersistentVolumeClaimVolumeSource::default()
        };
        volumes.push(Volume {
            name: meta::name(&template.metadata).into(),
            persistent_volume_claim: Some(source),
            ..Volume::default()
        });
    }
    let claimed: Vec<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
    let others = others.into_iter().flatten();
    volumes.extend(others.filter(|volume| !claimed.contains(&volume.name)));
    (!volumes.is_empty()).then_some(volumes)
}

/// True if a pod has the volumes of its claims.
pub(super) fn are_mounted(set: &StatefulSet, pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    templates(set).iter().all(|template| {
        let name = meta::name(&template.metadata);
        let mut volumes = volumes.into_iter().flatten();
        let volume = volumes.find(|volume| volume.name == name);
        let source = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        source.is_some_and(|source| source.claim_name == claim_name(set, template, ordinal(pod)))
    })
}

/// The claims of an ordinal that exist.
pub(super) fn existing<'a>(
    view: &'a View<'_>,
    ordinal: i64,
) -> impl Iterator<Item = &'a Shared<PersistentVolumeClaim>> {
    templates(view.set).iter().filter_map(move |template| {
        let name = claim_name(view.set, template, ordinal);
        let claims = &view.context.caches.volume_claims;
        claims.get(view.namespace(), &name)
    })
}

/// Creates the missing claims of an ordinal. False if one that exists is being deleted, so that
/// nothing can be done yet. `failing` makes the Event about the pod for a failure.
pub(super) fn create_missing(
    view: &View<'_>,
    ordinal: i64,
    failing: Option<fn(&View<'_>, i64, &str) -> Note>,
    into: &mut Decision,
) -> bool {
    let mut usable = true;
    for template in templates(view.set) {
        let name = claim_name(view.set, template, ordinal);
        let claims = &view.context.caches.volume_claims;
        let Some(claim) = claims.get(view.namespace(), &name) else {
            create_one(view, template, ordinal, failing, into);
            continue;
        };
        if meta::is_deleting(&claim.metadata) {
            usable = false;
            let step = into.push(Call::Get {
                kind: kind_of::<PersistentVolumeClaim>().clone(),
                namespace: view.namespace().into(),
                name: name.clone(),
            });
            let why = format!("pvc {name} is being deleted");
            step.done = failing.map(|failing| failing(view, ordinal, &why));
        }
    }
    usable
}

fn create_one(
    view: &View<'_>,
    template: &PersistentVolumeClaim,
    ordinal: i64,
    failing: Option<fn(&View<'_>, i64, &str) -> Note>,
    into: &mut Decision,
) {
    let mut claim = template.clone();
    let name = claim_name(view.set, template, ordinal);
    claim.metadata.name = Some(name.clone());
    claim.metadata.namespace = Some(view.namespace().into());
    let selected = view.spec.selector.match_labels.clone();
    if let Some(mut selected) = selected {
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.append(&mut selected);
    }
    if retention::owns_new(view.spec) {
        let owners = claim.metadata.owner_references.get_or_insert_default();
        owners.push(meta::owned_by(view.set));
    }
    claim.status = None;
    let (pod, set) = (pod_name(view.set, ordinal), view.name());
    let done = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
    let failed =
        format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {{}}");
    let step = into.push(create(&claim));
    step.tell(Note::new(view.set, "SuccessfulCreate", done))
        .tell_failure(Note::new(view.set, "FailedCreate", failed).warning());
    if let Some(failing) = failing {
        let why = format!("failed to create PVC {name}: {{}}");
        step.tell_failure(failing(view, ordinal, &why));
    }
}

/// True if a claim of an ordinal that has no pod belongs to an earlier pod. It is about to be
/// deleted, so the new pod must wait.
pub(super) fn is_stale(view: &View<'_>, ordinal: i64) -> bool {
    let name = pod_name(view.set, ordinal);
    let (when_scaled, _) = retention::policy(view.spec);
    when_scaled == retention::DELETE
        && existing(view, ordinal).any(|claim| retention::names_pod(claim, &name))
}

/// Updates the owners of a pod's claims. True if that takes a call. `failing` makes the Event about
/// the pod for a failure.
pub(super) fn follow(
    view: &View<'_>,
    pod: &Pod,
    failing: Option<fn(&View<'_>, i64, &str) -> Note>,
    into: &mut Decision,
) -> bool {
    let before = into.steps.len();
    for claim in existing(view, ordinal(pod)) {
        let owners = retention::Owners { view, pod, claim };
        if owners.are_up_to_date() {
            continue;
        }
        let name = meta::name(&claim.metadata);
        let conflict = owners.are_in_conflict().then(|| {
            let message = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a \
                 manging controller, the retention policy is ignored for this claim"
            );
            Note::new(view.set, "ConflictingController", message).warning()
        });
        let patch = json!({"metadata": {"ownerReferences": owners.updated()}});
        let step = into.push(change(claim.as_ref(), patch));
        step.done = conflict;
        if let Some(failing) = failing {
            let why = format!("could not update claim {name} for delete policy ownerRefs: {{}}");
            step.tell_failure(failing(view, ordinal(pod), &why));
        }
    }
    into.steps.len() > before
}
