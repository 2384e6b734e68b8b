//! Resource quotas: counts what the objects of a namespace use, and writes the sums into the status
//! of its quotas. Admission adds what new objects use to those sums; only this loop takes from
//! them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource;
use machinery::amounts::{self, Amounts};
use machinery::object::{self, Object};
use machinery::quantity::{Format, Quantity};
use machinery::quota::{Counted, Scope};
use machinery::schema::Kind;
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, update_status};
use crate::known::{Key, Known, kind_of, to_object};
use crate::loops::{Context, Loop};
use crate::meta;

/// How often each quota is counted, even if nothing was deleted: a write that failed after it was
/// charged, or a pod whose node is lost, wakes nobody.
const RECOUNT: Duration = Duration::from_secs(300);
/// When a new quota is counted again. Objects that were there before it may come late from their
/// watch, and nobody charged them.
const SECOND_COUNT: Duration = Duration::from_secs(5);

pub(crate) struct ResourceQuotas;

impl Loop for ResourceQuotas {
    fn name(&self) -> &'static str {
        "resourcequota"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            // A status alone is written by admission, which has counted, or by this loop.
            Changed::ResourceQuota(Diff {
                old,
                new: Some(new),
            }) if old.as_ref().is_none_or(|old| old.spec != new.spec) => {
                wake(meta::key(&new.metadata));
            }
            Changed::Pod(diff) => updated(caches, diff, wake),
            Changed::Service(diff) => updated(caches, diff, wake),
            Changed::PersistentVolumeClaim(diff) => updated(caches, diff, wake),
            _ => {}
        }
    }

    fn deleted(
        &self,
        caches: &Caches,
        kind: &Arc<Kind>,
        namespace: Option<&str>,
        wake: &mut dyn FnMut(Key),
    ) {
        let Some(counted) = Counted::of(kind.group(), kind.plural()) else {
            return;
        };
        match namespace {
            Some(namespace) => counting(&counted, caches.quotas.in_namespace(namespace), wake),
            None => counting(&counted, caches.quotas.all(), wake),
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(quota) = context.caches.quotas.at(key) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        decision.again(RECOUNT);
        let object = to_object(quota.as_ref());
        let list = |part, list| amounts::read(object::at(&object, &[part, list]));
        let hard = list("spec", "hard");
        let used = match used(context, &object, &hard) {
            Ok(used) => used,
            Err(error) => {
                tracing::warn!(namespace = key.0, quota = key.1, %error, "it is not counted");
                return decision;
            }
        };
        let known = |shown| list("status", shown);
        let is_known = known("hard") == hard;
        if is_known && known("used") == used {
            return decision;
        }
        if !is_known {
            decision.again(SECOND_COUNT);
        }
        let mut told = quota.as_ref().clone();
        told.status = Some(ResourceQuotaStatus {
            hard: Some(typed(&hard)),
            used: Some(typed(&used)),
        });
        decision.push(update_status(&told));
        decision
    }
}

/// What the objects in the scopes of a quota use. A resource that no served kind uses keeps the sum
/// that it has.
fn used(context: &Context<'_>, quota: &Object, hard: &Amounts) -> Result<Amounts, String> {
    let caches = context.caches;
    let scopes = Scope::all(quota)?;
    let mut used = amounts::read(object::at(quota, &["status", "used"]));
    used.retain(|resource, _| hard.contains_key(resource));
    let mut sum = Amounts::new();
    for kind in caches.kinds.collected() {
        if !kind.namespaced() || !kind.has_verb("create") {
            continue;
        }
        let Some(counted) = Counted::of(kind.group(), kind.plural()) else {
            continue;
        };
        let zero = Quantity::from_integer(0, Format::DecimalSi);
        let names = hard.keys().filter(|resource| counted.counts(resource));
        let zeros: Amounts = names.map(|name| (name.clone(), zero)).collect();
        if zeros.is_empty() {
            continue;
        }
        amounts::add(&mut sum, &zeros);
        let namespace = object::namespace(quota);
        let all = Namespace { caches, namespace };
        amounts::add(&mut sum, &all.usage(kind, &counted, &scopes, context.now));
    }
    sum.retain(|resource, _| hard.contains_key(resource));
    used.extend(sum);
    Ok(used)
}

/// The objects of a namespace.
struct Namespace<'a> {
    caches: &'a Caches,
    namespace: &'a str,
}

impl Namespace<'_> {
    /// What the objects of a kind use that are in all these scopes.
    fn usage(
        &self,
        kind: &Arc<Kind>,
        counted: &Counted,
        scopes: &[Scope],
        now: Timestamp,
    ) -> Amounts {
        let mut sum = Amounts::new();
        let mut count = |object: &Object| {
            if scopes.iter().all(|scope| counted.is_in(scope, object)) {
                amounts::add(&mut sum, &counted.usage(object, now));
            }
        };
        let Namespace { caches, namespace } = self;
        match (kind.group(), kind.plural()) {
            ("", "pods") if scopes.is_empty() => {
                for pod in caches.pods.in_namespace(namespace) {
                    match caches.pod_usage.of(pod) {
                        Some(usage) => amounts::add(&mut sum, usage),
                        None => {
                            let usage = counted.usage(&to_object(pod.as_ref()), now);
                            amounts::add(&mut sum, &usage);
                        }
                    }
                }
            }
            ("", "pods") => each(caches.pods.in_namespace(namespace), &mut count),
            ("", "services") => each(caches.services.in_namespace(namespace), &mut count),
            ("", "persistentvolumeclaims") => {
                each(caches.volume_claims.in_namespace(namespace), &mut count);
            }
            ("resource.k8s.io", "resourceclaims") => {
                each(caches.device_claims.in_namespace(namespace), &mut count);
            }
            // Of all others only the number counts, and they are in no scope.
            _ => {
                let known = caches.graph.of_kind(namespace, kind);
                known.for_each(|_| count(&Object::Null));
            }
        }
        sum
    }
}

fn each<'a, T: Known + 'a>(all: impl Iterator<Item = &'a Arc<T>>, count: &mut impl FnMut(&Object)) {
    all.for_each(|one| count(&to_object(one.as_ref())));
}

/// Wakes the quotas that an update of an object concerns.
fn updated<T: Known>(caches: &Caches, diff: &Diff<T>, wake: &mut dyn FnMut(Key)) {
    let (Some(old), Some(new)) = (&diff.old, &diff.new) else {
        return;
    };
    let namespace = meta::namespace(new.metadata());
    let mut quotas = caches.quotas.in_namespace(namespace).peekable();
    // Most namespaces have none: spare them the conversion.
    if quotas.peek().is_none() {
        return;
    }
    let kind = kind_of::<T>();
    let counted = Counted::of(kind.group(), kind.plural());
    let (old, new) = (to_object(old.as_ref()), to_object(new.as_ref()));
    // A pod that only the time has ended is left to the next count.
    let now = Timestamp::default();
    if let Some(counted) = counted.filter(|counted| counted.is_changed(&old, &new, now)) {
        counting(&counted, quotas, wake);
    }
}

/// Wakes those quotas that count a kind.
fn counting<'a>(
    counted: &Counted,
    quotas: impl Iterator<Item = &'a Arc<ResourceQuota>>,
    wake: &mut dyn FnMut(Key),
) {
    for quota in quotas {
        let hard = quota
            .spec
            .iter()
            .flat_map(|spec| spec.hard.iter().flatten());
        if hard
            .into_iter()
            .any(|(resource, _)| counted.counts(resource))
        {
            wake(meta::key(&quota.metadata));
        }
    }
}

fn typed(amounts: &Amounts) -> BTreeMap<String, resource::Quantity> {
    let all = amounts.iter();
    let all = all.map(|(name, amount)| (name.clone(), resource::Quantity(amount.to_string())));
    all.collect()
}
