//! Volume claims: kept while a pod on a node names them.
//!
//! The key of a claim stands for its missing finalizer. A namespace without a name stands for the
//! deleted claims in it that nothing uses any more: one list of pods is about all of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use machinery::api::Call;

use super::{Due, due, write};
use crate::cache::{Caches, Changed};
use crate::decision::Decision;
use crate::known::{Key, kind_of};
use crate::loops::{Context, Loop};
use crate::meta;
use crate::used_claims::{self, PROTECTION};

pub(crate) struct ClaimProtection;

impl Loop for ClaimProtection {
    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::PersistentVolumeClaim(diff) => {
                let Some(claim) = &diff.new else {
                    return;
                };
                match due(&claim.metadata, PROTECTION) {
                    Some(Due::Add) => wake(meta::key(&claim.metadata)),
                    Some(Due::Remove) => wake(all_of(meta::namespace(&claim.metadata))),
                    None => {}
                }
            }
            Changed::Pod(diff) => {
                for pod in diff.old.iter().chain(&diff.new) {
                    let namespace = meta::namespace(&pod.metadata);
                    let is_freed = |name| {
                        let key = (namespace.to_owned(), name);
                        caches.freed_claims.contains(&key)
                    };
                    if used_claims::named(pod).any(is_freed) {
                        wake(all_of(namespace));
                    }
                }
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        if key.1.is_empty() {
            return release(caches, &key.0);
        }
        match caches.volume_claims.at(key) {
            Some(claim) if due(&claim.metadata, PROTECTION) == Some(Due::Add) => {
                Decision::of(write(claim.as_ref(), PROTECTION, Due::Add))
            }
            _ => Decision::nothing(),
        }
    }
}

/// Removes the finalizers of the claims of a namespace that nothing uses.
fn release(caches: &Caches, namespace: &str) -> Decision {
    let freed = caches.freed_claims.of(namespace);
    let freed = freed.filter_map(|key| caches.volume_claims.at(key));
    let freed: Vec<Arc<PersistentVolumeClaim>> = freed.cloned().collect();
    let mut decision = Decision::nothing();
    if freed.is_empty() {
        return decision;
    }
    // A pod that uses one of them may not have arrived here yet.
    let step = decision.push(Call::List {
        kind: kind_of::<Pod>().clone(),
        namespace: namespace.to_owned(),
    });
    step.unused = freed.clone();
    for claim in &freed {
        let removal = write(claim.as_ref(), PROTECTION, Due::Remove);
        decision.push(removal).only_for(0);
    }
    decision
}

/// The key of the deleted claims of a namespace.
fn all_of(namespace: &str) -> Key {
    (namespace.to_owned(), String::new())
}
