//! The deleted claims that nothing uses any more. There may be ten thousand of them, and as many
//! pods: when one pod ends, only its own claims are looked at.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::store::{Diff, Store};
use super::unbound::Unbound;
use crate::known::Key;
use crate::{meta, used_claims};

/// The claims that are protected, are being deleted, and that no cached pod uses.
#[derive(Default)]
pub(crate) struct FreedClaims(BTreeSet<Key>);

impl FreedClaims {
    /// Those of a namespace.
    pub(crate) fn of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        let all = self.0.range((namespace.to_owned(), String::new())..);
        all.take_while(move |(of, _)| of == namespace)
    }

    pub(crate) fn contains(&self, claim: &Key) -> bool {
        self.0.contains(claim)
    }

    /// Takes over a claim that changed.
    pub(super) fn note_claim(
        &mut self,
        claim: &Diff<PersistentVolumeClaim>,
        pods: &Store<Pod>,
        unbound: &Unbound,
    ) {
        if let Some(either) = claim.either() {
            let key = meta::key(&either.metadata);
            self.look(key, claim.new.as_deref(), pods, unbound);
        }
    }

    /// Takes over a pod that changed, after [`Unbound`] did.
    pub(super) fn note_pod(
        &mut self,
        pod: &Diff<Pod>,
        claims: &Store<PersistentVolumeClaim>,
        pods: &Store<Pod>,
        unbound: &Unbound,
    ) {
        for pod in pod.old.iter().chain(&pod.new) {
            for name in used_claims::named(pod) {
                let key = (meta::namespace(&pod.metadata).to_owned(), name);
                let claim = claims.at(&key).map(|claim| &**claim);
                self.look(key, claim, pods, unbound);
            }
        }
    }

    fn look(
        &mut self,
        key: Key,
        claim: Option<&PersistentVolumeClaim>,
        pods: &Store<Pod>,
        unbound: &Unbound,
    ) {
        let kept = claim.filter(|claim| used_claims::is_kept(claim));
        let is_freed = kept.is_some_and(|claim| {
            let named = unbound.all_pods(&key);
            let mut named = named.filter_map(|name| pods.get(&key.0, name));
            !named.any(|pod| used_claims::uses(pod, claim))
        });
        if is_freed {
            self.0.insert(key);
        } else {
            self.0.remove(&key);
        }
    }
}
