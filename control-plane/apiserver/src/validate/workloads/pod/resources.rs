//! Requests and limits of containers: names, quantities, and their combinations.

use std::collections::BTreeSet;

use machinery::amounts::{Part, of_containers};
use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::{LISTS_AS_VISITED, Pod};
use crate::validate::words::field::FieldValue;
use crate::validate::words::quantity::{self, HUGE_PAGES};
use crate::validate::{Causes, words::shown};

const CLAIM: [shown::Field; 3] = [
    ("Name", "name", "\"\""),
    ("ResourceClaimName", "resourceClaimName", "null"),
    (
        "ResourceClaimTemplateName",
        "resourceClaimTemplateName",
        "null",
    ),
];

/// Checks the device claims of a pod; returns their names.
pub(super) fn claims<'a>(spec: &FieldValue<'a>, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    causes.each(spec, "resourceClaims", |causes, claim| {
        let its_name = claim.text("name");
        if causes.required(claim, "name") {
            if names.insert(its_name) {
                causes.named(claim, "name", name::dns1123_label)
            } else {
                causes.push(Cause::duplicate(&claim.path_of("name"), &its_name.into()))
            }
        }
        let by_name = claim.has("resourceClaimName");
        let why = match (by_name, claim.has("resourceClaimTemplateName")) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !why.is_empty() {
            let shown = shown::as_go(claim.value, &CLAIM);
            causes.push(Cause::invalid_shown(&claim.path, &shown, why));
        }
        for key in ["resourceClaimName", "resourceClaimTemplateName"] {
            causes.named(claim, key, name::dns1123_subdomain);
        }
    });
    names
}

pub(super) fn of_container(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    causes.below(container, "resources", |causes, resources| {
        let any_page = pod.exceptions.huge_pages;
        amounts(resources, quantity::container_name, any_page, causes);
        claimed(pod, resources, causes);
    });
}

/// True if huge pages are requested that are no multiple of their size.
pub(super) fn has_broken_pages(spec: &FieldValue) -> bool {
    let containers = LISTS_AS_VISITED.iter().flat_map(|list| spec.items(list));
    let of_containers = containers.flat_map(|one| {
        let of = |which| object::at(one, &["resources", which]);
        [of("limits"), of("requests")]
    });
    let all = of_containers.chain([spec.get("overhead")]);
    let mut all = all.flatten().filter_map(Value::as_object).flatten();
    all.any(|(name, value)| is_broken_page(name, quantity::read(value)))
}

/// The claims that resources name: each claim once as a whole, or several of its requests.
fn claimed(pod: &Pod, resources: &FieldValue, causes: &mut Causes) {
    let mut whole = BTreeSet::new();
    let mut parts = BTreeSet::new();
    causes.each(resources, "claims", |causes, claim| {
        let (its_name, request) = (claim.text("name"), claim.text("request"));
        if its_name.is_empty() {
            causes.push(Cause::required(&claim.path, ""));
            return;
        }
        let twice = |what: &str| Cause::duplicate(&claim.path, &what.into());
        if whole.contains(its_name) {
            causes.push(twice(its_name));
        } else if request.is_empty() {
            let before = parts.range((its_name, "")..);
            let before = before.take_while(|(claim, _)| *claim == its_name);
            causes.extend(before.map(|_| twice(its_name)));
            whole.insert(its_name);
        } else {
            causes.named(claim, "request", name::dns1123_label);
            if !parts.insert((its_name, request)) {
                causes.push(twice(&format!("{its_name}/{request}")));
            }
        }
        if !pod.claims.contains(its_name) {
            let names: Vec<&str> = pod.claims.iter().copied().collect();
            let list = if names.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", names.join(", "))
            };
            let mut cause = Cause::not_found(&claim.path, &its_name.into());
            cause.message +=
                &format!(": must be one of the names in pod.spec.resourceClaims{list}");
            causes.push(cause);
        }
    });
}

/// The resources of the pod as a whole. On Windows it has none, and nothing more is said of them.
pub(super) fn of_pod(pod: &Pod, causes: &mut Causes) {
    if object::text(pod.spec.value, &["os", "name"]) == "windows" {
        return causes.forbidden(&pod.spec, "resources", "may not be set for a windows pod");
    }
    causes.below(&pod.spec, "resources", |causes, resources| {
        let why = "claims may not be set for Resources at pod-level";
        causes.forbidden(resources, "claims", why);
        amounts(resources, of_pods, pod.exceptions.huge_pages, causes);
        claimed(pod, resources, causes);
        of_all(pod, resources, causes);
    });
}

/// The pod has what its containers have together, and no container more than the pod.
fn of_all(pod: &Pod, resources: &FieldValue, causes: &mut Causes) {
    let whole = json!({"spec": pod.spec.value});
    for part in [Part::Requests, Part::Limits] {
        let key = part.key();
        for (name, sum) in of_containers(&whole, part) {
            if part == Part::Limits && !name.starts_with(HUGE_PAGES) {
                continue;
            }
            let Some(own) = resources.map(key).and_then(|map| map.get(&name)) else {
                continue;
            };
            if sum > quantity::read(own) {
                let field = format!("{}[{name}]", resources.path_of(key));
                let why =
                    format!("must be greater than or equal to aggregate container {key} of {sum}");
                causes.push(Cause::invalid(&field, own, &why));
            }
        }
    }
    for (index, container) in pod.spec.items("containers").iter().enumerate() {
        let limits = object::at(container, &["resources", "limits"]);
        for (name, limit) in limits.and_then(Value::as_object).into_iter().flatten() {
            let own = resources.map("limits").and_then(|own| own.get(name));
            let Some(most) = own.filter(|most| quantity::read(limit) > quantity::read(most)) else {
                continue;
            };
            // Not where the limit is: Kubernetes reports it so.
            let field = format!("{}.containers[{index}][{name}].limits", resources.path);
            let shown = most.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to pod limits of {shown}");
            causes.push(Cause::invalid(&field, limit, &why));
        }
    }
}

/// The overhead of the pod itself.
pub(super) fn overhead(pod: &Pod, causes: &mut Causes) {
    if let Some(overhead) = pod.spec.child("overhead") {
        let limits = json!({"limits": overhead.value});
        let limits = FieldValue::new(overhead.path, &limits);
        overhead_of(&limits, pod.exceptions.huge_pages, causes);
    }
}

/// Limits that say what a pod needs besides its containers.
pub(crate) fn overhead_of(limits: &FieldValue, any_page: bool, causes: &mut Causes) {
    amounts(limits, quantity::container_name, any_page, causes);
}

/// Checks the name of a resource.
type Naming = fn(&str, &str, &mut Causes);

/// Limits and requests. Huge pages may be broken if the pod had such before.
fn amounts(resources: &FieldValue, naming: Naming, any_page: bool, causes: &mut Causes) {
    let mut huge = false;
    let mut usual = false;
    for which in ["limits", "requests"] {
        for (name, value) in resources.map(which).into_iter().flatten() {
            if causes.is_full() {
                return;
            }
            let field = format!("{}[{name}]", resources.path_of(which));
            naming(&field, name, causes);
            quantity::of_resource(&field, name, value, causes);
            let amount = quantity::read(value);
            if which == "requests" {
                against_limit(resources, name, value, amount, causes);
            }
            usual |= ["cpu", "memory"].contains(&name.as_str());
            huge |= name.starts_with(HUGE_PAGES);
            if !any_page && is_broken_page(name, amount) {
                let why = format!("{amount} is not positive integer multiple of {name}");
                causes.push(Cause::invalid(&field, value, &why));
            }
        }
    }
    if huge && !usual {
        let why = "HugePages require cpu or memory";
        causes.push(Cause::forbidden(&resources.path, why));
    }
}

/// A request must not exceed the limit of the same resource.
fn against_limit(
    resources: &FieldValue,
    name: &str,
    value: &Value,
    amount: Quantity,
    causes: &mut Causes,
) {
    let limit = resources.map("limits").and_then(|limits| limits.get(name));
    let shared = quantity::is_shared(name);
    let Some(shown) = limit.and_then(Value::as_str) else {
        if !shared {
            let why = "Limit must be set for non overcommitable resources";
            causes.push(Cause::required(&resources.path_of("limits"), why));
        }
        return;
    };
    let limit = Quantity::parse(shown).unwrap_or(Quantity::ZERO);
    let relation = if !shared && amount != limit {
        "equal to"
    } else if amount > limit {
        "less than or equal to"
    } else {
        return;
    };
    let why = format!("must be {relation} {name} limit of {shown}");
    causes.push(Cause::invalid(&resources.path_of("requests"), value, &why));
}

fn of_pods(field: &str, resource: &str, causes: &mut Causes) {
    let mut wrong = Causes::default();
    quantity::resource_name(field, resource, &mut wrong);
    let known = ["cpu", "memory"].contains(&resource) || resource.starts_with(HUGE_PAGES);
    if wrong.is_empty() && !known {
        let list = ["cpu", HUGE_PAGES, "memory"];
        wrong.push(Cause::not_supported(field, &resource.into(), &list));
    }
    causes.extend(wrong);
}

/// True if the resource is huge pages and the amount no multiple of their size.
fn is_broken_page(resource: &str, amount: Quantity) -> bool {
    let Some(page) = resource.strip_prefix(HUGE_PAGES) else {
        return false;
    };
    let page = Quantity::parse(page).map_or(0, Quantity::value);
    page <= 0 || amount.value() % page != 0
}

/// The policy for resource changes of a running container.
pub(super) fn resize_policy(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    let never = pod.spec.text("restartPolicy") == "Never";
    let all = container.path_of("resizePolicy");
    let mut seen = BTreeSet::new();
    causes.each(container, "resizePolicy", |causes, policy| {
        let resource = policy.text("resourceName");
        if !seen.insert(resource) {
            causes.push(Cause::duplicate(&policy.path, &resource.into()));
        }
        let restart = policy.text("restartPolicy");
        let known = ["NotRequired", "RestartContainer"];
        for (text, known) in [(resource, ["cpu", "memory"]), (restart, known)] {
            if text.is_empty() {
                causes.push(Cause::required(&all, ""));
            } else if !known.contains(&text) {
                causes.push(Cause::not_supported(&all, &text.into(), &known));
            }
        }
        if never && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            causes.push(Cause::invalid(&all, &restart.into(), why));
        }
    });
}
