//! What the loop for autoscalers remembers of each between two decisions.
//!
//! No object says it. After a restart, or where another process takes over, it is lost, as it is in
//! Kubernetes: for the length of a stabilization window a size may be taken back early, and within
//! the period of a policy the size may change once more by as much as the policy allows.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use machinery::api::Call;
use machinery::selector::LabelSelector;
use machinery::time::Timestamp;

use crate::known::Key;

/// How often the same warning about one autoscaler is told. A loop that looks every few seconds
/// would write as often; Kubernetes' recorder lets so much through in the long run.
const TOLD_AGAIN: Duration = Duration::from_secs(300);

/// What is remembered of all autoscalers. Invariant: nothing of one that is gone.
#[derive(Debug, Default)]
pub(crate) struct Scalings(BTreeMap<Key, Past>);

/// What is remembered of one autoscaler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// When the last decision about its size was made; `None` if none was.
    pub(crate) looked: Option<Timestamp>,
    /// The sizes that the metrics asked for, before they were limited.
    pub(crate) recommendations: Vec<Recommendation>,
    /// By how many replicas it grew, for the periods of its policies.
    pub(crate) ups: Vec<Change>,
    /// By how many replicas it shrank.
    pub(crate) downs: Vec<Change>,
    /// The selector of its pods, as its target last said; empty before.
    pub(crate) selector: LabelSelector,
    /// The change of the size that the apiserver is asked for.
    pub(crate) pending: Option<Box<Pending>>,
    /// How often in a row somebody else changed the size at the same time.
    pub(crate) conflicts: u32,
    /// When each of the latest warnings was told, by reason and message.
    pub(crate) told: BTreeMap<(&'static str, String), Timestamp>,
}

/// A size, and when the metrics asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recommendation {
    pub(crate) replicas: i32,
    pub(crate) at: Timestamp,
}

/// By how much a size was changed, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) by: i32,
    pub(crate) at: Timestamp,
}

/// A change of a size, and what the autoscaler says if it succeeds.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) call: Call,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) why: String,
    /// The status but for the outcome; its desired replicas are still the earlier ones.
    pub(crate) status: HorizontalPodAutoscalerStatus,
}

impl Scalings {
    /// What is remembered of an autoscaler.
    pub(crate) fn of(&self, key: &Key) -> Option<&Past> {
        self.0.get(key)
    }

    /// The autoscalers of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Key, &Past)> {
        self.0
            .range((namespace.to_owned(), String::new())..)
            .take_while(move |((of, _), _)| of == namespace)
    }

    pub(crate) fn put(&mut self, key: Key, past: Past) {
        self.0.insert(key, past);
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

impl Past {
    /// Adds a recommendation; those older than `kept` are dropped.
    pub(crate) fn recommend(&mut self, replicas: i32, kept: Duration, now: Timestamp) {
        self.recommendations.retain(|one| one.at.plus(kept) >= now);
        self.recommendations
            .push(Recommendation { replicas, at: now });
    }

    /// Adds a change of the size; those in its direction that are older than `kept` are dropped.
    pub(crate) fn change(&mut self, from: i32, to: i32, kept: Duration, now: Timestamp) {
        let changes = if to > from {
            &mut self.ups
        } else {
            &mut self.downs
        };
        changes.retain(|one| one.at.plus(kept) >= now);
        let by = to.saturating_sub(from).saturating_abs();
        changes.push(Change { by, at: now });
    }

    /// True if a warning is to be told now: it is new, or was told long ago.
    pub(crate) fn tells(&mut self, reason: &'static str, message: &str, now: Timestamp) -> bool {
        self.told.retain(|_, at| at.plus(TOLD_AGAIN) > now);
        let told = self.told.entry((reason, message.to_owned()));
        let is_new = matches!(told, std::collections::btree_map::Entry::Vacant(_));
        told.or_insert(now);
        is_new
    }
}
