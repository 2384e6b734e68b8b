//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions that refuse or change a
//! write, as the policies say that are objects of the cluster.
//!
//! - `definition` reads policies and their bindings, and compiles the expressions;
//! - `params` finds the objects that a binding gives a policy as parameters;
//! - `validating` and `mutating` evaluate what a write concerns;
//! - `patch` changes an object as an expression says.
//!
//! A policy takes effect through its bindings alone. What cannot be evaluated is an error, about
//! which the failure policy decides.

mod audit;
mod definition;
pub(super) mod mutating;
mod params;
mod patch;
pub(super) mod rights;
pub(super) mod validating;

use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use super::known::Known;
use super::matching::{self, Matched};
use super::{Attributes, Context, GROUP};
use definition::{Binding, Effect, Policy};

/// The kinds that no policy is evaluated for: one that refuses everything could not be removed.
const EXEMPT: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
/// Groups of reviews, which are answered and not stored. Without them nobody can log in or act.
const GROUPS_OF_REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// The policies of one kind and their bindings.
struct Policies<E> {
    policies: Known<Policy<E>>,
    bindings: Known<Binding>,
}

/// A policy that is evaluated for a write, with one of its bindings.
struct Invocation<E> {
    policy: Arc<Policy<E>>,
    binding: Arc<Binding>,
    matched: Matched,
    /// Null if the policy has none.
    params: Arc<Value>,
}

/// A policy, or one of its bindings, that cannot be evaluated.
struct Misconfigured<E> {
    policy: Arc<Policy<E>>,
    binding: Option<Arc<Binding>>,
    why: String,
}

/// What concerns a write, in the order of policies and bindings.
type Found<E> = Vec<Result<Invocation<E>, Misconfigured<E>>>;

impl<E: Effect> Policies<E> {
    fn new(policies: &'static str, bindings: &'static str) -> Policies<E> {
        Policies {
            policies: Known::new(policies, Policy::read),
            bindings: Known::new(bindings, Binding::read),
        }
    }

    /// The policies and bindings that a write concerns; a refusal if one cannot be read.
    async fn find(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<Found<E>, Status> {
        let mut found = Vec::new();
        if !concern(attributes) {
            return Ok(found);
        }
        let policies = self.policies.current(&context.reader, attributes)?;
        if policies.is_empty() {
            return Ok(found);
        }
        let bindings = self.bindings.current(&context.reader, attributes)?;
        for policy in policies {
            let own = bindings.iter().filter(|one| one.policy == policy.name);
            let own: Vec<_> = own.collect();
            if own.is_empty() {
                continue;
            }
            let fails = |why: String, binding: Option<&Arc<Binding>>| {
                Err(Misconfigured {
                    policy: Arc::clone(&policy),
                    binding: binding.cloned(),
                    why,
                })
            };
            let matched = match policy.criteria.find(context, attributes, object).await {
                Ok(Some(matched)) => matched,
                Ok(None) => continue,
                Err(status) => {
                    found.push(fails(status.message, None));
                    continue;
                }
            };
            let kind = match params::resource(context, policy.param_kind.as_ref()) {
                Ok(kind) => kind,
                Err(why) => {
                    found.push(fails(why, None));
                    continue;
                }
            };
            for binding in own {
                match binding.concerns(context, attributes, object).await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(status) => {
                        found.push(fails(status.message, Some(binding)));
                        continue;
                    }
                }
                let reference = binding.param_ref.as_ref();
                let namespace = matching::namespace(attributes);
                match params::find(context, kind.as_deref(), reference, namespace).await {
                    Err(why) => found.push(fails(why, Some(binding))),
                    Ok(all) => found.extend(all.into_iter().map(|params| {
                        Ok(Invocation {
                            policy: Arc::clone(&policy),
                            binding: Arc::clone(binding),
                            matched: matched.clone(),
                            params,
                        })
                    })),
                }
            }
        }
        Ok(found)
    }
}

impl<E> Misconfigured<E> {
    fn message(&self) -> String {
        let what = if self.binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        format!("failed to configure {what}: {}", self.why)
    }
}

/// True if policies are evaluated for a write at all.
fn concern(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    let exempt = kind.group() == GROUP && EXEMPT.contains(&kind.kind());
    let is_review = GROUPS_OF_REVIEWS.contains(&kind.group());
    !exempt && !is_review && !attributes.user.is_this_process()
}

/// The namespace of a write as expressions see it; null for what is in none, and for namespaces.
async fn namespace_object(context: &Context, attributes: &Attributes<'_>) -> Result<Value, Status> {
    let name = matching::namespace(attributes);
    if name.is_empty() || matching::is_namespace(attributes) {
        return Ok(Value::Null);
    }
    let namespace = matching::read_namespace(context, name).await?;
    let part = |path: &[&str]| object::at(&namespace, path).cloned().unwrap_or(json!({}));
    let mut metadata = part(&["metadata"]);
    for hidden in ["managedFields", "ownerReferences"] {
        object::remove(&mut metadata, &[hidden]);
    }
    Ok(json!({"metadata": metadata, "spec": part(&["spec"]), "status": part(&["status"])}))
}
