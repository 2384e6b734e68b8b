//! Network policies, classes of ingresses, and addresses of services.

use std::net::IpAddr;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::basics::address::read_range;
use crate::validate::words::field::FieldValue;
use crate::validate::words::port::{port_name, port_number};
use crate::validate::words::{address, selector};
use crate::validate::{Causes, named, unchanged};

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const DIRECTIONS: [&str; 2] = ["Ingress", "Egress"];
const SCOPES: [&str; 2] = ["Cluster", "Namespace"];
const CONTROLLER_BYTES_MAX: usize = 250;

fn spec(object: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null))
}

/// Where the rules are and the peers of each.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Checks a network policy. An update may keep ranges in a form that is refused today, also in other
/// rules, and so values of selectors.
pub(crate) fn policy(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let had: Vec<FieldValue> = old.map(ranges).unwrap_or_default();
    let had: Vec<&str> = had.iter().filter_map(|one| one.value.as_str()).collect();
    let spec = spec(object);
    let any_value = selector::had_wrong_values(old, &["spec", "podSelector"]);
    causes.label_selector_with(&spec, "podSelector", any_value);
    for (rules, peers) in RULES {
        causes.each(&spec, rules, |causes, rule| {
            causes.each(rule, "ports", port);
            causes.each(rule, peers, |causes, one| {
                peer(&had, any_value, one, causes);
            });
        });
    }
    let kinds = "policyTypes";
    if spec.items(kinds).len() > DIRECTIONS.len() {
        causes.wrong(&spec, kinds, "may not specify more than two policyTypes");
        return causes;
    }
    for kind in spec.each(kinds) {
        if !DIRECTIONS.iter().any(|one| kind.value == one) {
            causes.push(Cause::not_supported(&kind.path, kind.value, &DIRECTIONS));
        }
    }
    causes
}

fn port(causes: &mut Causes, port: &FieldValue) {
    if port.has("protocol") && !PROTOCOLS.contains(&port.text("protocol")) {
        causes.unknown(port, "protocol", &PROTOCOLS);
    }
    let (field, end) = (port.path_of("port"), port.integer("endPort"));
    let end_field = port.path_of("endPort");
    match (port.get("port"), end) {
        (Some(Value::String(its_name)), end) => {
            if end.is_some() {
                let why = "may not be specified when `port` is non-numeric";
                causes.wrong(port, "endPort", why);
            }
            causes.extend(named(&field, its_name, port_name(its_name)));
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or_default();
            causes.extend(port_number(&field, number));
            if let Some(end) = end {
                if end < number {
                    let why = "must be greater than or equal to `port`";
                    causes.push(Cause::invalid(&end_field, &number.into(), why));
                }
                causes.extend(port_number(&end_field, end));
            }
        }
        (None, Some(_)) => {
            let why = "may not be specified when `port` is not specified";
            causes.wrong(port, "endPort", why);
        }
        (None, None) => {}
    }
}

/// All ranges of a network policy.
pub(crate) fn ranges(object: &Value) -> Vec<FieldValue<'_>> {
    let mut all = Vec::new();
    let spec = spec(object);
    for (rules, peers) in RULES {
        let peers = spec.each(rules).flat_map(|rule| rule.each(peers));
        for block in peers.filter_map(|peer| peer.child("ipBlock")) {
            all.extend(block.child("cidr"));
            all.extend(block.each("except"));
        }
    }
    all
}

fn peer(had: &[&str], any_value: bool, peer: &FieldValue, causes: &mut Causes) {
    for key in ["podSelector", "namespaceSelector"] {
        causes.label_selector_with(peer, key, any_value);
    }
    causes.below(peer, "ipBlock", |causes, one| block(had, one, causes));
    let kinds = ["podSelector", "namespaceSelector", "ipBlock"].into_iter();
    match kinds.filter(|kind| peer.has(kind)).count() {
        0 => causes.push(Cause::required(&peer.path, "must specify a peer")),
        2.. if peer.has("ipBlock") => {
            let why = "may not specify both ipBlock and another peer";
            causes.push(Cause::forbidden(&peer.path, why));
        }
        _ => {}
    }
}

/// A range of addresses without some parts of it.
fn block(had: &[&str], block: &FieldValue, causes: &mut Causes) {
    let text = block.text("cidr");
    if !causes.required(block, "cidr") {
        return;
    }
    let field = block.path_of("cidr");
    causes.extend(address::wrong_new_range(&field, text, had));
    let Some(whole) = read_range(text) else {
        return;
    };
    for part in block.each("except") {
        if causes.is_full() {
            break;
        }
        let text = part.value.as_str().unwrap_or_default();
        causes.extend(address::wrong_new_range(&part.path, text, had));
        if read_range(text).is_some_and(|part| !is_inside(part, whole)) {
            let why = "must be a strict subset of `cidr`";
            causes.push(Cause::invalid(&part.path, part.value, why));
        }
    }
}

/// True if a range is smaller than another and begins in it.
fn is_inside((part, part_bits): (IpAddr, u8), (whole, bits): (IpAddr, u8)) -> bool {
    let same = match (part, whole) {
        (IpAddr::V4(part), IpAddr::V4(whole)) => {
            let differing = u32::from(part) ^ u32::from(whole);
            differing.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(part), IpAddr::V6(whole)) => {
            let differing = u128::from(part) ^ u128::from(whole);
            differing.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        _ => false,
    };
    same && bits < part_bits
}

pub(crate) fn ingress_class(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    let controller = spec.text("controller");
    if controller.len() > CONTROLLER_BYTES_MAX {
        causes.push(Cause::too_long("spec.controller", CONTROLLER_BYTES_MAX));
    }
    causes.domain_prefixed(&spec, "controller");
    causes.below(&spec, "parameters", parameters);
    causes
}

fn parameters(causes: &mut Causes, of_class: &FieldValue) {
    let group = of_class.get("apiGroup").and_then(Value::as_str);
    if let Some(group) = group {
        let wrong = name::dns1123_subdomain(group);
        causes.extend(named(&of_class.path_of("apiGroup"), group, wrong));
    }
    causes.must_be_named(of_class, "kind", name::path_segment);
    causes.must_be_named(of_class, "name", name::path_segment);
    let namespace = of_class.get("namespace").and_then(Value::as_str);
    match of_class.text("scope") {
        "Namespace" => match namespace {
            None => {
                let why = "`parameters.scope` is set to 'Namespace'";
                causes.push(Cause::required(&of_class.path_of("namespace"), why));
            }
            Some(namespace) => {
                let wrong = name::dns1123_label(namespace);
                causes.extend(named(&of_class.path_of("namespace"), namespace, wrong));
            }
        },
        "Cluster" => {
            causes.forbidden(
                of_class,
                "namespace",
                "`parameters.scope` is set to 'Cluster'",
            );
        }
        _ => causes.unknown(of_class, "scope", &SCOPES),
    }
}

pub(crate) fn ingress_class_update(old: &Value, new: &Value) -> Causes {
    let controller = |object| object::text(object, &["spec", "controller"]);
    let mut causes = Causes::default();
    if controller(old) != controller(new) {
        causes.wrong_text(&spec(new), "controller", "field is immutable");
    }
    causes
}

/// An address and what has it.
pub(crate) fn address(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    let Some(parent) = spec.child("parentRef") else {
        causes.push(Cause::required("spec.parentRef", ""));
        return causes;
    };
    causes.named(&parent, "group", name::dns1123_subdomain);
    causes.must_be_named(&parent, "resource", name::path_segment);
    causes.must_be_named(&parent, "name", name::path_segment);
    causes.named(&parent, "namespace", name::path_segment);
    causes
}

pub(crate) fn address_update(old: &Value, new: &Value) -> Causes {
    unchanged(old, new, &["spec", "parentRef"])
}
