//! Disruption budgets: preemption spares the pods that they protect, where it can.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::affinity::Selector;
use crate::pod::PodInfo;

#[derive(Debug)]
struct Budget {
    selector: Selector,
    /// The disruptions that it allows now.
    allowed: i32,
    /// Names of pods that it already counts as disrupted.
    disrupted: Vec<String>,
}

/// All budgets, by namespace and name.
#[derive(Debug, Default)]
pub struct Budgets(BTreeMap<(String, String), Budget>);

impl Budgets {
    /// A budget is new or changed.
    pub fn set(&mut self, budget: &PodDisruptionBudget) {
        let spec = budget.spec.clone().unwrap_or_default();
        let status = budget.status.clone().unwrap_or_default();
        let disrupted = status.disrupted_pods.unwrap_or_default();
        let found = Budget {
            selector: Selector::read(spec.selector.as_ref()),
            allowed: status.disruptions_allowed.unwrap_or(0),
            disrupted: disrupted.into_keys().collect(),
        };
        self.0.insert(key(budget), found);
    }

    /// A budget is gone.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.0.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// For each pod, if they leave in this order, whether that breaks a budget.
    pub fn broken_by<'a>(&self, pods: impl Iterator<Item = &'a PodInfo>) -> Vec<bool> {
        let mut left: Vec<i32> = self.0.values().map(|budget| budget.allowed).collect();
        let mut breaks = |pod: &PodInfo| {
            let mut broken = false;
            for (((namespace, _), budget), left) in self.0.iter().zip(&mut left) {
                let counts = *namespace == pod.namespace
                    && !pod.labels.is_empty()
                    && !budget.selector.is_everything()
                    && budget.selector.matches(&pod.labels)
                    && !budget.disrupted.contains(&pod.name);
                if counts {
                    *left -= 1;
                    broken |= *left < 0;
                }
            }
            broken
        };
        pods.map(&mut breaks).collect()
    }
}

fn key(budget: &PodDisruptionBudget) -> (String, String) {
    let meta = &budget.metadata;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    (text(&meta.namespace), text(&meta.name))
}
