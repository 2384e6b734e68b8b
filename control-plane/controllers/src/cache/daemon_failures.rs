//! How often the pods of a daemon set failed on a node, so that the loop does not replace them ever
//! faster. Like all caches this is lost with the process.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::Resource as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use machinery::time::Timestamp;

use super::store::Diff;
use crate::known::Known as _;
use crate::meta;

/// The label with the revision of the template that a pod was made from.
pub(crate) const REVISION_HASH: &str = "controller-revision-hash";
/// The delay after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(15 * 60);
/// After this time without a failure the count begins anew.
const FORGOTTEN: Duration = Duration::from_secs(30 * 60);
/// Maximum number of entries; when it is reached, those that are over are dropped.
const ENTRIES_MAX: usize = 10_000;

/// The deleted failed pods of each daemon set, template and node.
#[derive(Default)]
pub(crate) struct DaemonFailures {
    by_place: BTreeMap<Place, Entry>,
}

/// The uid of the daemon set, the revision of its template, and the node.
type Place = (String, String, String);

struct Entry {
    delay: Duration,
    last: Timestamp,
}

impl DaemonFailures {
    /// Counts a pod if it had failed and is now deleted.
    pub(super) fn note(&mut self, pod: &Diff<Pod>, now: Timestamp) {
        let deleted = |pod: &Pod| meta::is_deleting(&pod.metadata);
        let Some(old) = pod.old.as_ref().filter(|old| !deleted(old)) else {
            return;
        };
        if !has_failed(old) || pod.new.as_ref().is_some_and(|new| !deleted(new)) {
            return;
        }
        let owner = meta::controller(&old.metadata);
        let Some(owner) = owner.filter(|owner| owner.kind == DaemonSet::KIND) else {
            return;
        };
        if self.by_place.len() >= ENTRIES_MAX {
            self.by_place.retain(|_, entry| !entry.is_over(now));
        }
        let place = (owner.uid.clone(), revision(old), old.place().to_owned());
        let before = self.by_place.get(&place).filter(|one| !one.is_over(now));
        let delay = before.map_or(FIRST, |one| (one.delay * 2).min(MAX));
        self.by_place.insert(place, Entry { delay, last: now });
    }

    /// How long a failed pod is to be left where it is; `None` if it may be replaced now.
    pub(crate) fn left(&self, pod: &Pod, now: Timestamp) -> Option<Duration> {
        let owner = meta::controller(&pod.metadata)?;
        let place = (owner.uid.clone(), revision(pod), pod.place().to_owned());
        let entry = self.by_place.get(&place)?;
        meta::left(entry.last, entry.delay, now)
    }
}

impl Entry {
    fn is_over(&self, now: Timestamp) -> bool {
        meta::left(self.last, FORGOTTEN, now).is_none()
    }
}

fn revision(pod: &Pod) -> String {
    let hash = meta::label(&pod.metadata, REVISION_HASH);
    hash.unwrap_or_default().to_owned()
}

fn has_failed(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.is_some_and(|status| status.phase.as_deref() == Some("Failed"))
}
