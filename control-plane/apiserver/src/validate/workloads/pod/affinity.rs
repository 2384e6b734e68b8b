//! Affinity: preferred and required nodes, and other pods beside a pod.

use machinery::name;
use machinery::status::Cause;

use super::scheduling::label_keys;
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(causes: &mut Causes, affinity: &FieldValue) {
    causes.below(affinity, "nodeAffinity", |causes, nodes| {
        causes.below(nodes, REQUIRED, node_selector);
        causes.each(nodes, PREFERRED, |causes, term| {
            weight(term, causes);
            // The label values of a preference are not checked.
            causes.below(term, "preference", |causes, term| {
                node_term(term, false, causes);
            });
        });
    });
    for key in ["podAffinity", "podAntiAffinity"] {
        causes.below(affinity, key, |causes, pods| {
            causes.each(pods, REQUIRED, |causes, term| pod_term(term, causes));
            causes.each(pods, PREFERRED, |causes, weighted| {
                weight(weighted, causes);
                causes.below(weighted, "podAffinityTerm", |causes, term| {
                    pod_term(term, causes);
                });
            });
        });
    }
}

fn weight(term: &FieldValue, causes: &mut Causes) {
    let weight = term.number("weight");
    if !(1..=100).contains(&weight) {
        let why = "must be in the range 1-100";
        causes.push(Cause::invalid(&term.path_of("weight"), &weight.into(), why));
    }
}

/// A node selector: one of its terms must match.
pub(crate) fn node_selector(causes: &mut Causes, selector: &FieldValue) {
    const TERMS: &str = "nodeSelectorTerms";
    if selector.items(TERMS).is_empty() {
        let why = "must have at least one node selector term";
        causes.push(Cause::required(&selector.path_of(TERMS), why));
    }
    causes.each(selector, TERMS, |causes, term| {
        node_term(term, true, causes);
    });
}

fn node_term(term: &FieldValue, values: bool, causes: &mut Causes) {
    causes.each(term, "matchExpressions", |causes, one| {
        let none = ["Exists", "DoesNotExist"];
        causes.requirement(one, &["In", "NotIn"], &none, &["Gt", "Lt"]);
        if values {
            causes.label_values(one);
        }
    });
    causes.each(term, "matchFields", |causes, one| {
        if !["In", "NotIn"].contains(&one.text("operator")) {
            causes.wrong_text(one, "operator", "not a valid selector operator");
        } else if one.items("values").len() != 1 {
            let why =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(Cause::required(&one.path_of("values"), why));
        }
        if one.text("key") != "metadata.name" {
            return causes.wrong_text(one, "key", "not a valid field selector key");
        }
        causes.each(one, "values", |causes, value| {
            let text = value.value.as_str().unwrap_or_default();
            let wrong = name::dns1123_subdomain(text);
            causes.extend(named(&value.path, text, wrong));
        });
    });
}

fn pod_term(term: &FieldValue, causes: &mut Causes) {
    causes.label_selector(term, "labelSelector");
    causes.label_selector(term, "namespaceSelector");
    let field = term.path_of("namespace");
    causes.each(term, "namespaces", |causes, namespace| {
        let text = namespace.value.as_str().unwrap_or_default();
        causes.extend(named(&field, text, name::dns1123_label(text)));
    });
    label_keys(term, causes);
    if term.text("topologyKey").is_empty() {
        let why = "can not be empty";
        causes.push(Cause::required(&term.path_of("topologyKey"), why));
    }
    causes.label_name(term, "topologyKey");
}
