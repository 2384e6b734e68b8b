//! Aggregating cluster roles: writes the rules of the roles that they select into them. Our
//! apiserver sums them up by itself when it decides; the written sums are for people, for programs
//! that read roles, and for Kubernetes' apiserver.

#[cfg(test)]
mod tests;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use machinery::selector::LabelSelector;
use serde_json::json;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, apply};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

/// The field manager of the written rules, as in Kubernetes.
const MANAGER: &str = "clusterrole-aggregation-controller";

pub(crate) struct ClusterRoleAggregation;

impl Loop for ClusterRoleAggregation {
    fn name(&self) -> &'static str {
        "clusterrole-aggregation"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        // A role may be selected by any other, directly or through a third.
        if let Changed::ClusterRole(_) = changed {
            let all = caches.cluster_roles.all();
            let sums = all.filter(|role| role.aggregation_rule.is_some());
            sums.for_each(|role| wake(meta::key(&role.metadata)));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(role) = caches.cluster_roles.at(key) else {
            return Decision::nothing();
        };
        let Some(rules) = sum(caches, role) else {
            return Decision::nothing();
        };
        if role.rules.as_deref().unwrap_or_default() == rules {
            return Decision::nothing();
        }
        // A role that aggregates no more must not get the sum as rules of its own, which stay.
        let version = meta::resource_version(&role.metadata);
        let fields = json!({"metadata": {"resourceVersion": version}, "rules": rules});
        Decision::of(apply(role.as_ref(), MANAGER, fields))
    }
}

/// The rules of the roles that a role selects, each once: by selector, then by the name of the
/// role. `None` if the role does not aggregate, or a selector cannot be read.
fn sum(caches: &Caches, role: &ClusterRole) -> Option<Vec<PolicyRule>> {
    let selectors = &role.aggregation_rule.as_ref()?.cluster_role_selectors;
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors.iter().flatten() {
        let selector = serde_json::to_value(selector).ok()?;
        let selector = LabelSelector::from_object(&selector).ok()?;
        let others = caches.cluster_roles.all().filter(|other| {
            other.metadata.name != role.metadata.name
                && meta::matches(&selector, other.metadata.labels.as_ref())
        });
        for rule in others.flat_map(|other| other.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}
