//! What the pods of namespaces with quotas use. A quota is counted over all of them, and few have
//! changed since the last time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use machinery::amounts::Amounts;
use machinery::quota::Counted;
use machinery::time::Timestamp;

use super::store::{Diff, Store};
use crate::known::{Key, to_object};
use crate::meta;

/// What pods use, by namespace and name. Invariant: it is of the pod that the cache has, and pods
/// that are being deleted are left out: what they use depends on the time.
#[derive(Default)]
pub(crate) struct PodUsage {
    by_pod: BTreeMap<Key, Amounts>,
}

impl PodUsage {
    /// What a pod uses; `None` if that has to be looked up in the pod.
    pub(crate) fn of(&self, pod: &Pod) -> Option<&Amounts> {
        self.by_pod.get(&meta::key(&pod.metadata))
    }

    /// Takes over a pod that changed.
    pub(super) fn note_pod(&mut self, pod: &Diff<Pod>, quotas: &Store<ResourceQuota>) {
        if let Some(old) = &pod.old {
            self.by_pod.remove(&meta::key(&old.metadata));
        }
        if let Some(new) = &pod.new
            && first_of(quotas, meta::namespace(&new.metadata)).is_some()
        {
            self.count(new);
        }
    }

    /// Takes over the pods of a namespace that has its first quota, or no quota any more.
    pub(super) fn note_quota(
        &mut self,
        quota: &Diff<ResourceQuota>,
        quotas: &Store<ResourceQuota>,
        pods: &Store<Pod>,
    ) {
        match (&quota.old, &quota.new) {
            (None, Some(new)) => {
                let namespace = meta::namespace(&new.metadata);
                // Of several that come together, one is enough.
                if first_of(quotas, namespace) == Some(meta::name(&new.metadata)) {
                    pods.in_namespace(namespace).for_each(|pod| self.count(pod));
                }
            }
            (Some(old), None) => {
                let namespace = meta::namespace(&old.metadata);
                if first_of(quotas, namespace).is_none() {
                    self.by_pod.retain(|(of, _), _| of != namespace);
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, pod: &Pod) {
        if pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        if let Some(counted) = Counted::of("", "pods") {
            // Any time will do.
            let usage = counted.usage(&to_object(pod), Timestamp::default());
            self.by_pod.insert(meta::key(&pod.metadata), usage);
        }
    }
}

/// The name of the first quota of a namespace.
fn first_of<'a>(quotas: &'a Store<ResourceQuota>, namespace: &str) -> Option<&'a str> {
    let first = quotas.in_namespace(namespace).next();
    first.map(|quota| meta::name(&quota.metadata))
}
