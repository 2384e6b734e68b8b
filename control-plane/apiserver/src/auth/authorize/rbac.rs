//! Role-based access control: roles, their bindings to users, groups and service accounts, and the
//! decision they give. Rules only allow; no rule forbids what another one allows.
//!
//! The policy is a plain value that is updated with every change of a role or binding. It does not
//! know where these are stored or who asks.

mod binding;
pub mod bootstrap;
pub mod escalation;
mod parts;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::Value;

use crate::auth::{Attributes, Decision, User};
pub use binding::RoleRef;
use binding::{Binding, Source, Subject};
pub use parts::{Part, Target};
pub use rule::Rule;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Members of this group may do everything, whatever the roles say, so that the cluster's owner
/// cannot be locked out.
pub const MASTERS: &str = "system:masters";

/// All roles and bindings.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Key: name.
    cluster_roles: BTreeMap<String, Role>,
    /// The rules of the aggregating roles among them, by name. They are summed up when they are
    /// first wanted after a change: a policy is read role by role, and each may be part of a sum.
    sums: OnceLock<BTreeMap<String, Arc<[Rule]>>>,
    /// Key: namespace and name.
    roles: BTreeMap<(String, String), Role>,
    /// Key: name.
    cluster_bindings: BTreeMap<String, Binding>,
    /// Keys: namespace, then name.
    bindings: BTreeMap<String, BTreeMap<String, Binding>>,
}

#[derive(Clone, Debug)]
struct Role {
    /// The role's own rules; an aggregating role has none.
    rules: Arc<[Rule]>,
    labels: Value,
    /// Selectors of the cluster roles whose rules this one aggregates; empty for a plain role.
    aggregates: Vec<LabelSelector>,
}

impl Policy {
    /// Adds or replaces a role or binding. Other kinds are ignored.
    pub fn put(&mut self, kind: &str, changed: &Value) {
        let name = object::name(changed).to_owned();
        let namespace = object::namespace(changed).to_owned();
        match kind {
            "ClusterRole" => {
                self.cluster_roles.insert(name, Role::of(changed));
                self.sums.take();
            }
            "Role" => drop(self.roles.insert((namespace, name), Role::of(changed))),
            "ClusterRoleBinding" => {
                self.cluster_bindings.insert(name, Binding::of(changed));
            }
            "RoleBinding" => {
                self.bindings
                    .entry(namespace)
                    .or_default()
                    .insert(name, Binding::of(changed));
            }
            _ => {}
        }
    }

    /// Removes a deleted role or binding.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "ClusterRole" => {
                self.cluster_roles.remove(name);
                self.sums.take();
            }
            "Role" => drop(self.roles.remove(&(namespace.to_owned(), name.to_owned()))),
            "ClusterRoleBinding" => drop(self.cluster_bindings.remove(name)),
            "RoleBinding" => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(name);
                    if bindings.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
            _ => {}
        }
    }

    /// Decides about a request.
    pub fn decide(&self, asked: &Attributes) -> Decision {
        if is_master(&asked.user) {
            return Decision::allow(String::new());
        }
        let mut missing = Vec::new();
        for (binding, rules) in self.held(&asked.user, &asked.namespace) {
            match rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                    return Decision::allow(format!("RBAC: allowed by {binding}"));
                }
                Ok(_) => {}
                Err(why) => missing.push(why),
            }
        }
        Decision::refuse(missing_reason(missing))
    }

    /// Returns every rule that a user holds in a namespace (without one, in the cluster alone), and
    /// the errors of bindings whose role does not exist. A role that several bindings refer to
    /// counts once.
    pub fn rules_for<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> (Vec<&'a Rule>, Option<String>) {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        for (_, rules) in self.held(user, namespace) {
            match rules {
                Ok(rules) if rules.is_empty() || !seen.insert(rules.as_ptr()) => {}
                Ok(rules) => all.extend(rules),
                Err(why) => missing.push(why),
            }
        }
        (all, aggregate(missing))
    }

    /// Returns the rules of a role; `namespace` is that of the binding, empty for a cluster
    /// binding.
    pub fn referred(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], Status> {
        let resource = role.resource()?;
        let found = match resource {
            "roles" => {
                let key = (namespace.to_owned(), role.name.clone());
                self.roles.get(&key).map(|role| &role.rules)
            }
            _ => {
                let found = self.cluster_roles.get(&role.name);
                found.map(|found| self.sums().get(&role.name).unwrap_or(&found.rules))
            }
        };
        match found {
            Some(rules) => Ok(rules),
            None => Err(Status::not_found(GROUP, resource, &role.name)),
        }
    }

    /// The rules of each binding for the user, with a description of the binding.
    fn held<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (Source<'a>, Result<&'a [Rule], Status>)> {
        let cluster = self
            .cluster_bindings
            .iter()
            .map(|(name, binding)| (name, binding, ""));
        let local = self
            .bindings
            .get(namespace)
            .filter(|_| !namespace.is_empty());
        let local = local.into_iter().flatten();
        let local = local.map(move |(name, binding)| (name, binding, namespace));
        cluster
            .chain(local)
            .filter_map(move |(name, binding, namespace)| {
                let applies = |subject: &&Subject| subject.is(user, namespace);
                let subject = binding.subjects.iter().find(applies)?;
                let source = Source {
                    name,
                    namespace,
                    binding,
                    subject,
                };
                Some((source, self.referred(&binding.role, namespace)))
            })
    }

    /// The rules of aggregating cluster roles, right whether or not a controller has written them
    /// into the role.
    fn sums(&self) -> &BTreeMap<String, Arc<[Rule]>> {
        self.sums.get_or_init(|| {
            let roles = self.cluster_roles.iter();
            let aggregating = roles.filter(|(_, role)| !role.aggregates.is_empty());
            let sums = aggregating.map(|(name, role)| (name.clone(), self.sum(role)));
            sums.collect()
        })
    }

    /// The rules of all selected roles, and of the roles that those select in turn.
    fn sum(&self, role: &Role) -> Arc<[Rule]> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![role];
        while let Some(role) = open.pop() {
            for (name, other) in &self.cluster_roles {
                let labels = other.labels.as_object();
                let selected = role
                    .aggregates
                    .iter()
                    .any(|selector| selector.matches(labels));
                if !selected || !seen.insert(name) {
                    continue;
                }
                if other.aggregates.is_empty() {
                    rules.extend(other.rules.iter().cloned());
                } else {
                    open.push(other);
                }
            }
        }
        rules.sort_unstable();
        rules.dedup();
        rules.into()
    }
}

impl Role {
    fn of(value: &Value) -> Role {
        // An invalid selector selects nothing: a role must not grow by mistake.
        let selectors = object::items(value, &["aggregationRule", "clusterRoleSelectors"]);
        let aggregates: Vec<_> = selectors
            .iter()
            .filter_map(|selector| LabelSelector::from_object(selector).ok())
            .collect();
        let rules = if selectors.is_empty() {
            object::items(value, &["rules"])
                .iter()
                .map(Rule::from_value)
                .collect()
        } else {
            Arc::from([])
        };
        Role {
            rules,
            labels: object::at(value, &["metadata", "labels"])
                .cloned()
                .unwrap_or_default(),
            aggregates,
        }
    }
}

/// True if the user may do everything, whatever the roles say.
pub fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// The refusal of a request, with Kubernetes' message.
pub fn forbidden(asked: &Attributes, reason: &str) -> Status {
    let user = &asked.user.name;
    let verb = &asked.verb;
    let mut why = if asked.is_resource() {
        let mut resource = asked.resource.clone();
        if !asked.subresource.is_empty() {
            resource = format!("{resource}/{}", asked.subresource);
        }
        let group = &asked.api_group;
        let place = if asked.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", asked.namespace)
        };
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
    } else {
        format!("User {user:?} cannot {verb} path {:?}", asked.path)
    };
    // A browser must not take it for a page.
    for (from, to) in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")] {
        why = why.replace(from, to);
    }
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(&asked.api_group, &asked.resource, &asked.name, &why)
}

fn missing_reason(missing: Vec<Status>) -> String {
    aggregate(missing).map_or_else(String::new, |errors| format!("RBAC: {errors}"))
}

/// Combines errors as Go does: one as it is, several in brackets, each once.
fn aggregate(errors: Vec<Status>) -> Option<String> {
    let mut messages: Vec<String> = Vec::new();
    for error in errors {
        if !messages.contains(&error.message) {
            messages.push(error.message);
        }
    }
    match messages.len() {
        0 => None,
        1 => messages.pop(),
        _ => Some(format!("[{}]", messages.join(", "))),
    }
}
