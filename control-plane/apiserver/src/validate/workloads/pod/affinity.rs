//! Affinity: preferred and required nodes, and other pods beside a pod.

use machinery::status::Cause;
use machinery::{name, object};

use super::Pod;
use super::scheduling::label_keys;
use crate::validate::words::field::FieldValue;
use crate::validate::words::selector;
use crate::validate::{Causes, named};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str = "nodeSelectorTerms";

/// The kinds of affinity to other pods.
const TO_PODS: [&str; 2] = ["podAffinity", "podAntiAffinity"];

pub(super) fn check(pod: &Pod, affinity: &FieldValue, causes: &mut Causes) {
    let any_value = pod.exceptions.selector_values;
    causes.below(affinity, "nodeAffinity", |causes, nodes| {
        causes.below(nodes, REQUIRED, |causes, selector| {
            node_selector(causes, selector, pod.exceptions.node_values);
        });
        causes.each(nodes, PREFERRED, |causes, term| {
            weight(term, causes);
            // The label values of a preference are not checked.
            causes.below(term, "preference", |causes, term| {
                node_term(term, false, causes);
            });
        });
    });
    for key in TO_PODS {
        causes.below(affinity, key, |causes, pods| {
            causes.each(pods, REQUIRED, |causes, term| {
                pod_term(term, any_value, causes);
            });
            causes.each(pods, PREFERRED, |causes, weighted| {
                weight(weighted, causes);
                causes.below(weighted, "podAffinityTerm", |causes, term| {
                    pod_term(term, any_value, causes);
                });
            });
        });
    }
}

/// True if other pods are selected in a way that is refused.
pub(super) fn has_wrong_selectors(spec: &FieldValue) -> bool {
    let mut causes = Causes::default();
    for key in TO_PODS {
        let terms = |list| object::items(spec.value, &["affinity", key, list]).iter();
        let weighted = terms(PREFERRED).filter_map(|one| one.get("podAffinityTerm"));
        for term in terms(REQUIRED).chain(weighted) {
            selectors(&FieldValue::new("", term), false, &mut causes);
        }
    }
    !causes.is_empty()
}

/// True if a value that no label can have is required of a node.
pub(super) fn has_wrong_values(spec: &FieldValue) -> bool {
    let path = ["affinity", "nodeAffinity", REQUIRED, TERMS];
    let mut terms = object::items(spec.value, &path).iter();
    terms.any(selector::has_wrong_values)
}

fn weight(term: &FieldValue, causes: &mut Causes) {
    let weight = term.number("weight");
    if !(1..=100).contains(&weight) {
        let why = "must be in the range 1-100";
        causes.push(Cause::invalid(&term.path_of("weight"), &weight.into(), why));
    }
}

/// A node selector: one of its terms must match. Its conditions may name any values if the object
/// had wrong ones before.
pub(crate) fn node_selector(causes: &mut Causes, selector: &FieldValue, any_value: bool) {
    if selector.items(TERMS).is_empty() {
        let why = "must have at least one node selector term";
        causes.push(Cause::required(&selector.path_of(TERMS), why));
    }
    causes.each(selector, TERMS, |causes, term| {
        node_term(term, !any_value, causes);
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

fn pod_term(term: &FieldValue, any_value: bool, causes: &mut Causes) {
    selectors(term, any_value, causes);
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

/// The pods of a term, and their namespaces.
fn selectors(term: &FieldValue, any_value: bool, causes: &mut Causes) {
    for key in ["labelSelector", "namespaceSelector"] {
        causes.label_selector_with(term, key, any_value);
    }
}
