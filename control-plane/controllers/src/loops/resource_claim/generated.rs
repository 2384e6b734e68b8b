//! The claims that are made for a pod from templates, and the reservation of claims for a pod that
//! no scheduler has bound.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{
    ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use machinery::api::Call;
use serde_json::{Value, json};

use super::reserved::{change_status, reserved_for};
use super::{Named, entries, is_allocated};
use crate::cache::Caches;
use crate::decision::{Decision, Note, apply, create};
use crate::{meta, pods};

/// The field manager of `status.resourceClaimStatuses` of pods.
const MANAGER: &str = "ResourceClaimController";
/// The annotation of a claim with the name that the pod has for it.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// The most bytes of a generated name before its random end, so that the whole fits in a label.
const NAME_BYTES_MAX: usize = 57;

/// Makes the claims that a pod lacks, notes their names in its status, and reserves allocated ones
/// for a pod that has a node.
pub(super) fn decide(caches: &Caches, pod: &Pod) -> Decision {
    let mut decision = Decision::nothing();
    if !pods::is_active(pod) {
        return decision;
    }
    let mut made = Vec::new();
    let mut is_new = false;
    for entry in entries(pod) {
        let Some(template) = &entry.resource_claim_template_name else {
            continue;
        };
        let named = Named::of(pod, entry);
        if named == Named::Never {
            continue;
        }
        if let Some(claim) = claim_of(caches, pod, entry, named) {
            let name = meta::name(&claim.metadata);
            is_new |= named.name() != Some(name);
            made.push(json!({"name": entry.name, "resourceClaimName": name}));
            continue;
        }
        let failed = |why: &str| {
            let message = format!("PodResourceClaim {}: {why}", entry.name);
            Note::new(pod, "FailedResourceClaimCreation", message).warning()
        };
        let namespace = meta::namespace(&pod.metadata);
        let Some(found) = caches.device_claim_templates.get(namespace, template) else {
            decision.notes.push(failed(&format!(
                "resource claim template {template:?}: \
                 resourceclaimtemplate.resource.k8s.io {template:?} not found"
            )));
            // The pod cannot start. It is looked at again when there is a template of this name.
            return decision;
        };
        let step = decision.push(create(&new_claim(pod, entry, found)));
        // Kubernetes shows the name there, which a new claim does not have yet.
        step.tell_failure(failed("create ResourceClaim : {}"));
    }
    if !decision.steps.is_empty() {
        // Each new claim wakes the loop for the pod.
        return decision;
    }
    if is_new {
        return Decision::of(name_in_status(pod, made));
    }
    // As long as the pod has no node, it is for the scheduler to reserve them.
    if pods::node(pod).is_empty() {
        return decision;
    }
    reserve(caches, pod)
}

/// The claim that the status of a pod names, if that was made for the pod; else another one that
/// was, before somebody could note it.
fn claim_of<'a>(
    caches: &'a Caches,
    pod: &Pod,
    entry: &PodResourceClaim,
    named: Named<'_>,
) -> Option<&'a Arc<ResourceClaim>> {
    let uid = meta::uid(&pod.metadata);
    let namespace = meta::namespace(&pod.metadata);
    let noted = named
        .name()
        .and_then(|name| caches.device_claims.get(namespace, name));
    let noted = noted.filter(|claim| is_controlled_by(claim, uid));
    noted.or_else(|| {
        let mut own = caches.device_claims.controlled_by(uid);
        own.find(|claim| meta::annotation(&claim.metadata, POD_CLAIM) == Some(entry.name.as_str()))
    })
}

fn is_controlled_by(claim: &ResourceClaim, uid: &str) -> bool {
    meta::controller(&claim.metadata).is_some_and(|owner| owner.uid == uid)
}

fn new_claim(
    pod: &Pod,
    entry: &PodResourceClaim,
    template: &ResourceClaimTemplate,
) -> ResourceClaim {
    let of_template = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = of_template.annotations.unwrap_or_default();
    annotations.insert(POD_CLAIM.to_owned(), entry.name.clone());
    ResourceClaim {
        metadata: ObjectMeta {
            namespace: pod.metadata.namespace.clone(),
            generate_name: Some(base_name(meta::name(&pod.metadata), &entry.name)),
            labels: of_template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![OwnerReference {
                block_owner_deletion: None,
                ..meta::owned_by(pod)
            }]),
            ..ObjectMeta::default()
        },
        spec: template.spec.spec.clone(),
        status: None,
    }
}

/// What the name of a claim begins with. Of names that are too long each keeps its share.
fn base_name(pod: &str, entry: &str) -> String {
    let whole = format!("{pod}-{entry}-");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    let share = |text: &str| {
        let end = text.floor_char_boundary(text.len() * NAME_BYTES_MAX / whole.len());
        text[..end].to_owned()
    };
    format!("{}-{}", share(pod), share(entry))
}

fn name_in_status(pod: &Pod, made: Vec<Value>) -> Call {
    let fields = json!({"status": {"resourceClaimStatuses": made}});
    let mut call = apply(pod, MANAGER, fields);
    if let Call::Patch { subresource, .. } = &mut call {
        *subresource = "status";
    }
    call
}

/// Reserves the allocated claims of a pod that got its node from somebody else than a scheduler.
fn reserve(caches: &Caches, pod: &Pod) -> Decision {
    let mut decision = Decision::nothing();
    let (namespace, uid) = (meta::namespace(&pod.metadata), meta::uid(&pod.metadata));
    for entry in entries(pod) {
        let named = Named::of(pod, entry);
        let Some(name) = named.name() else {
            continue;
        };
        let Some(claim) = caches.device_claims.get(namespace, name) else {
            break;
        };
        let is_others = matches!(named, Named::Generated(_)) && !is_controlled_by(claim, uid);
        let mut reserved = reserved_for(claim).to_vec();
        if is_others || !is_allocated(claim) || reserved.iter().any(|one| one.uid == uid) {
            continue;
        }
        reserved.push(ResourceClaimConsumerReference {
            api_group: None,
            name: meta::name(&pod.metadata).to_owned(),
            resource: "pods".to_owned(),
            uid: uid.to_owned(),
        });
        decision.push(change_status(claim, json!({"reservedFor": reserved})));
    }
    decision
}
