//! The selectors of services, which spread the pods that have no other rule for it.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::affinity::{Labels, Selector};
use crate::pod::PodInfo;

/// The services with a selector, by namespace and name.
#[derive(Debug, Default)]
pub struct Services(HashMap<String, BTreeMap<String, Labels>>);

impl Services {
    /// A service is new or changed. One without a selector selects nothing.
    pub fn set(&mut self, namespace: &str, name: &str, selector: Labels) {
        if selector.is_empty() {
            return self.remove(namespace, name);
        }
        let there = self.0.entry(namespace.to_owned()).or_default();
        there.insert(name.to_owned(), selector);
    }

    /// A service is gone.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(there) = self.0.get_mut(namespace) else {
            return;
        };
        there.remove(name);
        if there.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Selects the pods of all services that a pod is one of; `None` if it is of none.
    pub fn selector(&self, pod: &PodInfo) -> Option<Selector> {
        let there = self.0.get(&pod.namespace)?.values();
        let has = |(key, value): (&String, &String)| pod.labels.get(key) == Some(value);
        let of_pod = there.filter(|selector| selector.iter().all(has));
        let labels: Labels = of_pod.flatten().map(owned).collect();
        if labels.is_empty() {
            return None;
        }
        Some(Selector::read(Some(&LabelSelector {
            match_labels: Some(labels),
            ..LabelSelector::default()
        })))
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}
