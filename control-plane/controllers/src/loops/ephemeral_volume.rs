//! The volume claims of pods that bring templates for them: volumes that come and go with their pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, create};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::{meta, used_claims};

pub(crate) struct EphemeralVolumes;

impl Loop for EphemeralVolumes {
    fn name(&self) -> &'static str {
        "ephemeral-volume"
    }

    fn component(&self) -> String {
        "ephemeral_volume".to_owned()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Pod(diff) => {
                let new = diff.new.iter().filter(|_| is_another(diff));
                let ours = new.filter(|pod| used_claims::ephemeral(pod).next().is_some());
                ours.for_each(|pod| wake(meta::key(&pod.metadata)));
            }
            Changed::PersistentVolumeClaim(Diff {
                old: Some(claim),
                new: None,
            }) => wake_users(caches, claim, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let mut decision = Decision::nothing();
        let pods = &context.caches.pods;
        let Some(pod) = pods.at(key).filter(|pod| !meta::is_deleting(&pod.metadata)) else {
            return decision;
        };
        for (volume, name) in used_claims::ephemeral(pod) {
            let failed = |why: &str| {
                let message = format!("ephemeral volume {}: {why}", volume.name);
                Note::new(pod.as_ref(), "FailedBinding", message).warning()
            };
            let Some(claim) = context.caches.volume_claims.get(&key.0, &name) else {
                let step = decision.push(create(&claim_of(pod, volume, &name)));
                step.tell_failure(failed(&format!("create PVC {name}: {{}}")));
                continue;
            };
            let owner = meta::controller(&claim.metadata);
            if owner.is_none_or(|owner| owner.uid != meta::uid(&pod.metadata)) {
                let (namespace, pod) = key;
                decision.notes.push(failed(&format!(
                    "PVC {namespace}/{name} was not created for pod {namespace}/{pod} \
                     (pod is not owner)"
                )));
                // The pod cannot start. Its claim is looked at again when the other one is gone.
                break;
            }
        }
        decision
    }
}

/// True if the pod was not there before. The volumes of one that was do not change.
fn is_another(diff: &Diff<Pod>) -> bool {
    let uid = |pod: &Arc<Pod>| pod.metadata.uid.clone();
    diff.old.as_ref().map(uid) != diff.new.as_ref().map(uid)
}

/// Wakes the loop for the pods whose ephemeral volumes have this claim's name: what precedes one of
/// its hyphens is the name of the pod.
fn wake_users(caches: &Caches, claim: &PersistentVolumeClaim, wake: &mut dyn FnMut(Key)) {
    let (namespace, name) = meta::key(&claim.metadata);
    for (at, _) in name.match_indices('-') {
        let Some(pod) = caches.pods.get(&namespace, &name[..at]) else {
            continue;
        };
        if used_claims::ephemeral(pod).any(|(_, of_volume)| of_volume == name) {
            wake(meta::key(&pod.metadata));
        }
    }
}

fn claim_of(pod: &Pod, volume: &Volume, name: &str) -> PersistentVolumeClaim {
    let ephemeral = volume.ephemeral.as_ref();
    let template = ephemeral.and_then(|source| source.volume_claim_template.clone());
    let template = template.unwrap_or_default();
    let of_template = template.metadata.unwrap_or_default();
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            namespace: pod.metadata.namespace.clone(),
            name: Some(name.to_owned()),
            labels: of_template.labels,
            annotations: of_template.annotations,
            owner_references: Some(vec![meta::owned_by(pod)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec),
        status: None,
    }
}
