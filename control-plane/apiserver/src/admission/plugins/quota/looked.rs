//! The namespaces for which the store itself was asked for quotas, because the cache had none.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the answer counts, as in Kubernetes.
const FOR: Duration = Duration::from_secs(30);
/// Namespaces remembered; beyond that the store is asked again.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Looked(Mutex<HashMap<String, Instant>>);

impl Looked {
    pub(super) fn is_recent(&self, namespace: &str, now: Instant) -> bool {
        let looked = self.0.lock();
        looked.get(namespace).is_some_and(|at| now - *at < FOR)
    }

    /// The cache is now as new as the store was when it was asked.
    pub(super) fn note(&self, namespace: &str, now: Instant) {
        let mut looked = self.0.lock();
        if looked.len() >= MOST {
            looked.retain(|_, at| now - *at < FOR);
        }
        if looked.len() >= MOST {
            looked.clear();
        }
        looked.insert(namespace.to_owned(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_half_a_minute() {
        let (looked, now) = (Looked::default(), Instant::now());
        assert!(!looked.is_recent("a", now));
        looked.note("a", now);
        assert!(looked.is_recent("a", now));
        assert!(!looked.is_recent("b", now));
        assert!(!looked.is_recent("a", now + FOR));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (looked, now) = (Looked::default(), Instant::now());
        for namespace in 0..=MOST {
            looked.note(&namespace.to_string(), now);
        }
        assert!(looked.0.lock().len() <= MOST);
        assert!(looked.is_recent(&MOST.to_string(), now));
    }
}
