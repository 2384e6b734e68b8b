//! The pods of a namespace whose labels become stricter: which of them violate the new standard.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::schema;
use serde_json::Value;
use tokio::time::Instant;

use super::checks::{Pod, evaluate};
use super::level::Standard;
use crate::storage::reader::Reader;
use crate::storage::stored::Stored;

/// Pods that are evaluated at most.
const PODS_MAX: usize = 3000;
/// How long that may take.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Pods after which other requests get their turn.
const PODS_AT_ONCE: usize = 64;

/// What the pods evaluated so far violate.
#[derive(Default)]
struct Found {
    evaluated: usize,
    /// By what they violate: the first name, and the number of pods.
    violating: BTreeMap<String, (String, usize)>,
}

/// Warnings about the pods of a namespace that violate a standard. They go on running.
pub(super) async fn warnings(reader: &Reader, namespace: &str, standard: Standard) -> Vec<String> {
    let Some(kind) = schema::resource("", "v1", "pods") else {
        return Vec::new();
    };
    let pods = match reader.fresh().await {
        Ok(()) => reader.cached_stored(kind, namespace),
        Err(error) => Err(error),
    };
    let pods = match pods {
        Ok(pods) => pods,
        Err(error) => {
            tracing::warn!(%error, namespace, "its pods cannot be evaluated");
            let why = "failed to list pods while checking new PodSecurity enforce level";
            return vec![why.to_owned()];
        }
    };
    let total = pods.len();
    let until = Instant::now() + TIME_MAX;
    let found = find(pods, standard, || Instant::now() >= until).await;
    found.told(namespace, standard, total)
}

/// Evaluates pods until it is late. The first pod of each controller comes before the others,
/// which are likely the same.
async fn find(pods: Vec<Arc<Stored>>, standard: Standard, is_late: impl Fn() -> bool) -> Found {
    let mut found = Found::default();
    let mut controllers = HashSet::new();
    let mut alike = Vec::new();
    let mut seen = 0;
    for stored in pods {
        seen += 1;
        if seen % PODS_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
        let pod = match stored.kept() {
            Ok(pod) => pod,
            Err(error) => {
                tracing::warn!(key = %stored.key, %error, "a pod cannot be evaluated");
                continue;
            }
        };
        let controller = object::controller(&pod).map(|owner| object::text(owner, &["uid"]));
        if controller.is_some_and(|uid| !controllers.insert(uid.to_owned())) {
            if alike.len() < PODS_MAX {
                alike.push(Arc::clone(&stored));
            }
            if is_late() {
                return found;
            }
        } else if found.is_full_after(&pod, standard, &is_late) {
            return found;
        }
    }
    for stored in alike {
        // It could be read a moment ago.
        let Ok(pod) = stored.kept() else { continue };
        if found.evaluated % PODS_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
        if found.is_full_after(&pod, standard, &is_late) {
            return found;
        }
    }
    found
}

impl Found {
    /// Evaluates a pod; says whether it is the last one.
    fn is_full_after(
        &mut self,
        pod: &Value,
        standard: Standard,
        is_late: impl Fn() -> bool,
    ) -> bool {
        let violations = evaluate(standard, &Pod::of(pod));
        self.evaluated += 1;
        if !violations.is_empty() {
            let name = object::name(pod);
            let (first, count) = self
                .violating
                .entry(violations.reasons())
                .or_insert_with(|| (name.to_owned(), 0));
            if name < first.as_str() {
                name.clone_into(first);
            }
            *count += 1;
        }
        self.evaluated == PODS_MAX || is_late()
    }

    fn told(self, namespace: &str, standard: Standard, total: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        let evaluated = self.evaluated;
        if evaluated < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {evaluated} of {total} existing pods"
            ));
        }
        if !self.violating.is_empty() {
            let standard = standard.to_string();
            warnings.push(format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {standard:?}"
            ));
        }
        let told = self
            .violating
            .into_iter()
            .map(|(reasons, (first, count))| match count - 1 {
                0 => format!("{first}: {reasons}"),
                1 => format!("{first} (and 1 other pod): {reasons}"),
                others => format!("{first} (and {others} other pods): {reasons}"),
            });
        let mut told: Vec<_> = told.collect();
        told.sort();
        warnings.append(&mut told);
        warnings
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::level::{Level, Version};
    use super::*;

    const BASELINE: Standard = Standard {
        level: Level::Baseline,
        version: Version::Latest,
    };

    fn pod(name: &str, key: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {key: true}})
    }

    #[test]
    fn pods_that_violate_the_same_are_counted_together() {
        let mut found = Found::default();
        for (name, key) in [
            ("c", "hostPID"),
            ("b", "hostPID"),
            ("a", "hostUsers"),
            ("d", "hostIPC"),
        ] {
            assert!(!found.is_full_after(&pod(name, key), BASELINE, || false));
        }
        let mut privileged = pod("a", "hostUsers");
        let container = json!({"name": "a", "securityContext": {"privileged": true}});
        privileged["spec"]["containers"] = json!([container]);
        assert!(found.is_full_after(&privileged, BASELINE, || true));
        assert_eq!(
            found.told("shop", BASELINE, 6),
            [
                "new PodSecurity enforce level only checked against the first 5 of 6 existing pods",
                "existing pods in namespace \"shop\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "a: privileged",
                "b (and 2 other pods): host namespaces",
            ]
        );
    }

    #[test]
    fn no_more_than_a_bounded_number_is_evaluated() {
        let mut found = Found {
            evaluated: PODS_MAX - 1,
            ..Found::default()
        };
        assert!(found.is_full_after(&pod("a", "hostUsers"), BASELINE, || false));
        assert!(found.told("shop", BASELINE, PODS_MAX).is_empty());
    }
}
