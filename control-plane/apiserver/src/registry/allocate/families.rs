//! The families of a service's addresses: those that it asks for, and those that it gets.

#[cfg(test)]
mod tests;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::is_external;
use crate::basics::address;
use crate::basics::cidr::Family;
use crate::validate;

const ADDRESSES: [&str; 2] = ["spec", "clusterIPs"];
const FAMILIES: [&str; 2] = ["spec", "ipFamilies"];
const POLICY: [&str; 2] = ["spec", "ipFamilyPolicy"];
const SINGLE: &str = "SingleStack";
const PREFERS: &str = "PreferDualStack";
const REQUIRES: &str = "RequireDualStack";

/// Sets the policy and the families of a service where they are missing, and drops a second address
/// that the policy gives up. The primary family of the cluster is the first of `cluster`.
pub(super) fn complete(
    old: Option<&Value>,
    service: &mut Value,
    cluster: &[Family],
) -> Result<(), Status> {
    if is_external(service) || old.is_some_and(|old| is_kept(old, service)) {
        return Ok(());
    }
    choose_policy(old, service);
    refuse(service, validate::addresses(old, service).into())?;
    let mut causes = Vec::new();
    if let Some(old) = old {
        give_up_second(old, service, &mut causes);
    }
    if policy(service) == SINGLE {
        for (list, what) in [
            (ADDRESSES, "cluster IPs are"),
            (FAMILIES, "IP families are"),
        ] {
            if object::items(service, &list).len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} specified"
                );
                causes.push(wrong_policy(service, &why));
            }
        }
    }
    of_addresses(service, cluster, &mut causes);
    refuse(service, causes)?;
    // Nobody but its owner knows the endpoints of such a service, so any families will do.
    let is_free = has_no_address(service) && selects_nothing(service);
    if !is_free {
        refuse(service, not_configured(service, cluster))?;
    }
    fill(service, cluster, is_free);
    Ok(())
}

/// True if a service that prefers two families keeps all that it says about them: it gets no second
/// family when the cluster does, and loses none with the cluster's.
pub(super) fn is_kept(old: &Value, service: &Value) -> bool {
    let same = |path: &[&str]| object::items(old, path) == object::items(service, path);
    let prefers = |service: &Value| policy(service) == PREFERS;
    object::at(old, &["spec", "type"]) == object::at(service, &["spec", "type"])
        && prefers(service)
        && (prefers(old) || policy(old).is_empty())
        && same(&ADDRESSES)
        && same(&FAMILIES)
}

pub(super) fn has_no_address(service: &Value) -> bool {
    object::text(service, &["spec", "clusterIP"]) == "None"
}

fn selects_nothing(service: &Value) -> bool {
    let selector = object::at(service, &["spec", "selector"]).and_then(Value::as_object);
    selector.is_none_or(serde_json::Map::is_empty)
}

fn policy(service: &Value) -> &str {
    object::text(service, &POLICY)
}

fn choose_policy(old: Option<&Value>, service: &mut Value) {
    if object::at(service, &POLICY).is_some_and(|policy| !policy.is_null()) {
        return;
    }
    let before = old.map_or("", policy);
    let chosen = match before {
        "" if has_no_address(service) && selects_nothing(service) => REQUIRES,
        "" => SINGLE,
        before => before,
    };
    object::set(service, &POLICY, chosen.into());
}

/// A policy of one family drops the second one of lists that an update does not change. Any other
/// policy refuses shorter lists.
fn give_up_second(old: &Value, service: &mut Value, causes: &mut Vec<Cause>) {
    let is_single = policy(service) == SINGLE;
    for (list, what) in [(ADDRESSES, "cluster IP"), (FAMILIES, "IP family")] {
        let (had, has) = (object::items(old, &list), object::items(service, &list));
        if is_single && had == has && has.len() > 1 {
            let first = has[..1].to_vec();
            object::set(service, &list, first.into());
        } else if !is_single && !has.is_empty() && has.len() < had.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            causes.push(wrong_policy(service, &why));
        }
    }
}

/// Adds the families of addresses that name none.
fn of_addresses(service: &mut Value, cluster: &[Family], causes: &mut Vec<Cause>) {
    let addresses = object::items(service, &ADDRESSES).to_vec();
    let mut families = object::items(service, &FAMILIES).to_vec();
    let count = families.len();
    for (at, address) in addresses.iter().enumerate() {
        let address = address.as_str().and_then(address::read);
        let Some(family) = address.map(Family::of) else {
            break;
        };
        if at < families.len() {
            continue;
        }
        if cluster.contains(&family) {
            families.push(family.name().into());
        } else {
            let why = format!("{} is not configured on this cluster", family.name());
            let field = format!("spec.clusterIPs[{at}]");
            causes.push(Cause::invalid(&field, &addresses.clone().into(), &why));
        }
    }
    if families.len() > count {
        object::set(service, &FAMILIES, families.into());
    }
}

/// What the service asks for and the cluster does not have.
fn not_configured(service: &Value, cluster: &[Family]) -> Vec<Cause> {
    let mut causes = Vec::new();
    if policy(service) == REQUIRES && cluster.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(wrong_policy(service, why));
    }
    for (at, name) in object::items(service, &FAMILIES).iter().enumerate() {
        let family = name.as_str().and_then(Family::named);
        if family.is_none_or(|family| !cluster.contains(&family)) {
            let field = format!("spec.ipFamilies[{at}]");
            causes.push(Cause::invalid(
                &field,
                name,
                "not configured on this cluster",
            ));
        }
    }
    causes
}

/// The primary family if the service has none, and the other one if it wants two.
fn fill(service: &mut Value, cluster: &[Family], is_free: bool) {
    let named = object::items(service, &FAMILIES).iter();
    let named = named.filter_map(|name| Family::named(name.as_str()?));
    let mut families: Vec<Family> = named.collect();
    if families.is_empty() {
        families.extend(cluster.first());
    }
    let wants_two = policy(service) != SINGLE && (is_free || cluster.len() == 2);
    if let ([one], true) = (&families[..], wants_two) {
        families.push(one.other());
    }
    let names: Vec<Value> = families.iter().map(|family| family.name().into()).collect();
    object::set(service, &FAMILIES, names.into());
}

fn wrong_policy(service: &Value, why: &str) -> Cause {
    Cause::invalid("spec.ipFamilyPolicy", &policy(service).into(), why)
}

fn refuse(service: &Value, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        "",
        "Service",
        object::name(service),
        causes,
    ))
}
