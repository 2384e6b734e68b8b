//! Volume claims: kept while a pod on a node names them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use machinery::api::Call;

use super::{Due, due, wake_due, write};
use crate::cache::{Caches, Changed};
use crate::decision::Decision;
use crate::known::{Key, kind_of};
use crate::loops::{Context, Loop};
use crate::{meta, used_claims};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

pub(crate) struct ClaimProtection;

impl Loop for ClaimProtection {
    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::PersistentVolumeClaim(diff) => {
                wake_due(diff, FINALIZER, wake);
            }
            Changed::Pod(diff) => {
                for pod in diff.old.iter().chain(&diff.new) {
                    for name in used_claims::named(pod) {
                        let key = (meta::namespace(&pod.metadata).to_owned(), name);
                        let claim = caches.volume_claims.at(&key);
                        if claim.is_some_and(|one| meta::is_deleting(&one.metadata)) {
                            wake(key);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(claim) = caches.volume_claims.at(key) else {
            return Decision::nothing();
        };
        let Some(due) = due(&claim.metadata, FINALIZER) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        if due == Due::Remove {
            if caches
                .pods
                .in_namespace(&key.0)
                .any(|pod| used_claims::uses(pod, claim))
            {
                return Decision::nothing();
            }
            // A pod that uses it may not have arrived here yet.
            let step = decision.push(Call::List {
                kind: kind_of::<Pod>().clone(),
                namespace: key.0.clone(),
            });
            step.unused = Some(Arc::clone(claim));
        }
        decision.push(write(claim.as_ref(), FINALIZER, due));
        decision
    }
}
