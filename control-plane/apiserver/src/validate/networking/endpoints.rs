//! Endpoints and endpoint slices.

use std::collections::BTreeSet;

use machinery::name;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::words::port::port_number;
use crate::validate::{Causes, unchanged, words::address};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;

pub(crate) fn endpoints(object: &Value) -> Causes {
    let mut causes = Causes::default();
    causes.each(&FieldValue::new("", object), "subsets", |causes, subset| {
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.items(list).is_empty()) {
            let why = "must specify `addresses` or `notReadyAddresses`";
            causes.push(Cause::required(&subset.path, why));
        }
        for list in lists {
            causes.each(subset, list, |causes, one| {
                let (field, text) = (one.path_of("ip"), one.text("ip"));
                causes.extend(address::wrong(&field, text));
                causes.named(one, "hostname", name::dns1123_label);
                causes.named(one, "nodeName", name::dns1123_subdomain);
                causes.extend(address::endpoint(&field, text));
            });
        }
        let several = subset.items("ports").len() > 1;
        causes.each(subset, "ports", |causes, port| {
            if several {
                causes.required(port, "name");
            }
            causes.named_unless_empty(port, "name", name::dns1123_label);
            causes.extend(port_number(&port.path_of("port"), port.number("port")));
            causes.choice(port, "protocol", &PROTOCOLS);
            causes.named(port, "appProtocol", name::qualified_name);
        });
    });
    causes
}

pub(crate) fn slice(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let slice = FieldValue::new("", object);
    causes.choice(&slice, "addressType", &ADDRESS_TYPES);
    let mut names = BTreeSet::new();
    if few(&slice, "ports", PORTS_MAX, &mut causes) {
        causes.each(&slice, "ports", |causes, port| {
            causes.named_unless_empty(port, "name", name::dns1123_label);
            let name = port.text("name");
            if !names.insert(name) {
                causes.push(Cause::duplicate(&port.path_of("name"), &name.into()));
            }
            causes.word_given(port, "protocol", &PROTOCOLS);
            causes.named(port, "appProtocol", name::qualified_name);
        });
    }
    if few(&slice, "endpoints", ENDPOINTS_MAX, &mut causes) {
        let kind = slice.text("addressType");
        causes.each(&slice, "endpoints", |causes, one| {
            endpoint(one, kind, causes);
        });
    }
    causes
}

pub(crate) fn slice_update(old: &Value, new: &Value) -> Causes {
    unchanged(old, new, &["addressType"])
}

fn endpoint(one: &FieldValue, kind: &str, causes: &mut Causes) {
    if one.items("addresses").is_empty() {
        let why = "must contain at least 1 address";
        causes.push(Cause::required(&one.path_of("addresses"), why));
    }
    few(one, "addresses", ADDRESSES_MAX, causes);
    causes.each(one, "addresses", |causes, at| {
        let text = at.value.as_str().unwrap_or_default();
        if !["IPv4", "IPv6"].contains(&kind) {
            return;
        }
        if let Some(cause) = address::wrong(&at.path, text) {
            return causes.push(cause);
        }
        if text.contains(':') != (kind == "IPv6") {
            let why = format!("must be an {kind} address");
            causes.push(Cause::invalid(&one.path_of("addresses"), at.value, &why));
        }
        causes.extend(address::endpoint(&at.path, text));
    });
    causes.named(one, "nodeName", name::dns1123_subdomain);
    causes.labels(one, "deprecatedTopology");
    causes.below(one, "hints", |causes, hints| {
        if hinted(causes, hints, "forZones", name::label_value) {
            hinted(causes, hints, "forNodes", name::dns1123_subdomain);
        }
    });
    causes.named(one, "hostname", name::dns1123_label);
}

/// Zones or nodes that an endpoint is meant for; true if there are not too many.
fn hinted(
    causes: &mut Causes,
    hints: &FieldValue,
    key: &str,
    rule: fn(&str) -> Vec<String>,
) -> bool {
    if !few(hints, key, HINTS_MAX, causes) {
        return false;
    }
    let mut names = BTreeSet::new();
    causes.each(hints, key, |causes, one| {
        let name = one.text("name");
        if !names.insert(name) {
            causes.push(Cause::duplicate(&one.path_of("name"), &name.into()));
        }
        causes.named(one, "name", rule);
    });
    true
}

/// True if a list has at most `most` items.
fn few(at: &FieldValue, key: &str, most: usize, causes: &mut Causes) -> bool {
    let count = at.items(key).len();
    if count > most {
        causes.push(Cause::too_many(&at.path_of(key), count, most));
    }
    count <= most
}
