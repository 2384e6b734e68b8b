//! Address ranges of services: says that new ones are ready, and keeps a deleted one as long as an
//! address of a service is in no other range.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use machinery::api::{Call, PatchForm};
use serde_json::json;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::Decision;
use crate::known::{Key, kind_of};
use crate::loops::prefix::Prefix;
use crate::loops::protection::{Due, due, write};
use crate::loops::{Context, Loop};
use crate::meta;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// How long a deleted range that is not needed stays: until every apiserver knows that it gives no
/// more addresses from it.
const GRACE: Duration = Duration::from_secs(10);
const READY: &str = "Kubernetes Service CIDR is ready";
const NEEDED: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them \
    or create a new ServiceCIDR";

pub(crate) struct ServiceCidrs;

impl Loop for ServiceCidrs {
    fn name(&self) -> &'static str {
        "service-cidr"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::ServiceCIDR(diff) => {
                let one = diff.old.iter().chain(&diff.new).next();
                one.into_iter()
                    .for_each(|one| wake(meta::key(&one.metadata)));
                // Another range may keep or free those that are being deleted.
                wake_deleting(caches, wake);
            }
            Changed::IPAddress(diff) if is_ours(diff) => wake_deleting(caches, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(range) = caches.service_ranges.at(key) else {
            return Decision::nothing();
        };
        let due = due(&range.metadata, FINALIZER);
        let mut decision = Decision::nothing();
        match (&range.metadata.deletion_timestamp, due) {
            (Some(_), Some(_)) if is_needed(caches, range) => {
                decision
                    .steps
                    .extend(say(context, range, "False", "Terminating", NEEDED).steps);
            }
            (Some(deleted), Some(due)) => {
                match meta::left(meta::stamp(deleted), GRACE, context.now) {
                    Some(left) => decision.again(left),
                    None => drop(decision.push(write(range.as_ref(), FINALIZER, due))),
                }
            }
            (Some(_), None) => {}
            (None, due) => {
                if let Some(due @ Due::Add) = due {
                    decision.push(write(range.as_ref(), FINALIZER, due));
                }
                decision
                    .steps
                    .extend(say(context, range, "True", "", READY).steps);
            }
        }
        decision
    }
}

fn wake_deleting(caches: &Caches, wake: &mut dyn FnMut(Key)) {
    let all = caches.service_ranges.all();
    let deleting = all.filter(|one| meta::is_deleting(&one.metadata));
    deleting.for_each(|one| wake(meta::key(&one.metadata)));
}

fn is_ours(diff: &Diff<IPAddress>) -> bool {
    let mut both = diff.old.iter().chain(&diff.new);
    both.any(|one| is_of_service(one))
}

fn is_of_service(address: &IPAddress) -> bool {
    meta::label(&address.metadata, MANAGED_BY.0) == Some(MANAGED_BY.1)
}

/// True if an address of a service is in this range alone.
fn is_needed(caches: &Caches, range: &ServiceCIDR) -> bool {
    let own = prefixes(range);
    let name = meta::name(&range.metadata);
    let others: Vec<Prefix> = caches
        .service_ranges
        .all()
        .filter(|other| meta::name(&other.metadata) != name)
        .flat_map(|other| prefixes(other))
        .collect();
    let is_within = |prefix: &Prefix| others.iter().any(|other| other.contains_all_of(prefix));
    if own.iter().all(is_within) {
        return false;
    }
    let addresses = caches.addresses.all().filter(|one| is_of_service(one));
    addresses
        .filter_map(|one| meta::name(&one.metadata).parse::<IpAddr>().ok())
        .any(|address| {
            let holds = |prefix: &Prefix| prefix.gives(address);
            own.iter().any(holds) && !others.iter().any(holds)
        })
}

/// The ranges of an object.
pub(super) fn prefixes(range: &ServiceCIDR) -> Vec<Prefix> {
    let spec = range.spec.iter();
    let texts = spec.flat_map(|spec| spec.cidrs.iter().flatten());
    texts.filter_map(|text| Prefix::parse(text)).collect()
}

/// Writes the condition `Ready` unless it says that already.
fn say(
    context: &Context<'_>,
    range: &ServiceCIDR,
    status: &str,
    reason: &str,
    message: &str,
) -> Decision {
    let conditions = range.status.iter();
    let mut conditions = conditions.flat_map(|status| status.conditions.iter().flatten());
    let is_said = conditions.any(|one| {
        (
            one.type_.as_str(),
            one.status.as_str(),
            one.reason.as_str(),
            one.message.as_str(),
        ) == ("Ready", status, reason, message)
    });
    if is_said {
        return Decision::nothing();
    }
    Decision::of(Call::Patch {
        kind: kind_of::<ServiceCIDR>().clone(),
        namespace: String::new(),
        name: meta::name(&range.metadata).into(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"metadata": {"uid": meta::uid(&range.metadata)}, "status": {"conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": context.now.to_seconds(),
        }]}}),
    })
}
