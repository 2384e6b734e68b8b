//! When each taint of a node was first seen, for those that do not say: `kubectl taint` writes no
//! time. Like all caches this is lost with the process.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use machinery::time::Timestamp;

use super::store::Diff;
use crate::meta;

/// The taints without a time, by the name of their node. Invariant: a node that is gone has none.
#[derive(Default)]
pub(crate) struct TaintsSeen {
    by_node: HashMap<String, Vec<(Taint, Timestamp)>>,
}

impl TaintsSeen {
    /// Takes over the taints of a node that changed. Those that it had keep their times.
    pub(super) fn note(&mut self, node: &Diff<Node>, now: Timestamp) {
        let Some(either) = node.either() else {
            return;
        };
        let name = meta::name(&either.metadata);
        let before = self.by_node.remove(name).unwrap_or_default();
        let spec = node.new.iter().flat_map(|node| node.spec.iter());
        let taints = spec.flat_map(|spec| spec.taints.iter().flatten());
        let timeless = taints.filter(|taint| taint.time_added.is_none());
        let seen = timeless.map(|taint| {
            let known = before.iter().find(|(one, _)| one == taint);
            (taint.clone(), known.map_or(now, |(_, since)| *since))
        });
        let seen: Vec<(Taint, Timestamp)> = seen.collect();
        if !seen.is_empty() {
            self.by_node.insert(name.to_owned(), seen);
        }
    }

    /// When a taint without a time was first seen on a node.
    pub(crate) fn since(&self, node: &str, taint: &Taint) -> Option<Timestamp> {
        let mut taints = self.by_node.get(node)?.iter();
        let found = taints.find(|(one, _)| one == taint);
        found.map(|(_, since)| *since)
    }
}
