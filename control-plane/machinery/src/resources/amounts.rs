//! Amounts of resources by name, such as the requests of a container, and what a pod needs of them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::object;
use crate::values::name;
use crate::values::quantity::Quantity;

/// Amounts by the names of their resources.
pub type Amounts = BTreeMap<String, Quantity>;

/// What the names of huge pages begin with; the size of a page follows.
pub const HUGE_PAGES: &str = "hugepages-";
/// What a quota's names for requests begin with.
pub const REQUESTS: &str = "requests.";

/// One of the two lists of a container's or a pod's `resources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What it gets for certain.
    Requests,
    /// What it may take at most.
    Limits,
}

impl Part {
    /// The name of the list.
    pub fn key(self) -> &'static str {
        match self {
            Part::Requests => "requests",
            Part::Limits => "limits",
        }
    }
}

/// Reads a list of quantities. An invalid one counts as zero.
pub fn read(list: Option<&Value>) -> Amounts {
    let list = list.and_then(Value::as_object);
    let amount = |(name, value): (&String, &Value)| {
        let parsed = Quantity::parse(value.as_str().unwrap_or_default());
        (name.clone(), parsed.unwrap_or(Quantity::ZERO))
    };
    list.into_iter().flatten().map(amount).collect()
}

/// Writes amounts as an object has them.
pub fn write(amounts: &Amounts) -> Value {
    let all = amounts.iter();
    let all = all.map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(all.collect::<Map<_, _>>())
}

/// Adds amounts, resource by resource.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |has| has.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

/// Takes the larger amount of each resource.
pub fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if to.get(name).is_none_or(|has| amount > has) {
            to.insert(name.clone(), *amount);
        }
    }
}

/// The amounts that a container or a pod names in its `resources`.
pub fn named(of: &Value, part: Part) -> Amounts {
    read(object::at(of, &["resources", part.key()]))
}

/// What the spec of a pod asks for: all containers together or, if that is more, an init container
/// with the sidecars that started before it. The pod's own CPU and memory replace those sums.
pub fn of_spec(pod: &Value, part: Part) -> Amounts {
    let mut total = of_containers(pod, part);
    replace(pod, part, &mut total, |name| {
        ["cpu", "memory"].contains(&name)
    });
    total
}

/// What the containers of a pod ask for together, whatever the pod as a whole names.
pub fn of_containers(pod: &Value, part: Part) -> Amounts {
    peak(pod, |container, _| named(container, part))
}

/// What a pod holds: what its spec asks for, or more if a resize to less is not done yet, and the
/// pod's overhead.
pub fn held(pod: &Value, part: Part) -> Amounts {
    let mut total = peak(pod, |container, stays| {
        let asked = named(container, part);
        match status_of(pod, container).filter(|_| stays) {
            Some(status) => resizing(pod, part, asked, status),
            None => asked,
        }
    });
    replace(pod, part, &mut total, is_of_pods);
    let overhead = read(object::at(pod, &["spec", "overhead"]));
    match part {
        Part::Requests => add(&mut total, &overhead),
        // Without a limit, the overhead is not limited either.
        Part::Limits => {
            for (name, amount) in total.iter_mut().filter(|(_, amount)| !amount.is_zero()) {
                let more = overhead.get(name).copied().unwrap_or(Quantity::ZERO);
                *amount = amount.plus(more);
            }
        }
    }
    total
}

/// The quality of service of a pod: how late its node takes resources back from it. It follows from
/// the resources of the pod as a whole or, without any, from those of its containers.
pub fn quality_of_service(pod: &Value) -> &'static str {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let own = spec.get("resources").is_some().then_some(spec);
    let containers = ["containers", "initContainers"].into_iter();
    let containers = containers.flat_map(|list| object::items(spec, &[list]));
    let all: Vec<&Value> = own.map_or_else(|| containers.collect(), |own| vec![own]);
    let (mut any, mut guaranteed) = (false, true);
    for of in all {
        let [requests, limits] = [Part::Requests, Part::Limits].map(|part| named(of, part));
        for what in ["cpu", "memory"] {
            // Zero is as if there were none.
            let [request, limit] = [&requests, &limits].map(|amounts| {
                let amount = amounts.get(what);
                amount.filter(|amount| **amount > Quantity::ZERO)
            });
            any |= request.is_some() || limit.is_some();
            guaranteed &= request.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// True if a pod names resources of its own, besides those of its containers.
pub fn names_own(pod: &Value) -> bool {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let names = |part| named(spec, part).into_keys();
    let mut all = names(Part::Requests).chain(names(Part::Limits));
    all.any(|name| is_of_pods(&name))
}

/// True for a resource that Kubernetes itself defines.
pub fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// True for a resource of a third party.
pub fn is_extended(resource: &str) -> bool {
    let quota = || name::qualified_name(&format!("{REQUESTS}{resource}"));
    !is_native(resource) && !resource.starts_with(REQUESTS) && quota().is_empty()
}

/// True for a resource that a pod as a whole may name.
fn is_of_pods(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with(HUGE_PAGES)
}

/// The most that the containers of a pod need at one time. The second argument of `of` is false
/// for an init container that ends before the next one starts.
fn peak(pod: &Value, of: impl Fn(&Value, bool) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in object::items(pod, &["spec", "containers"]) {
        add(&mut total, &of(container, true));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in object::items(pod, &["spec", "initContainers"]) {
        let stays = object::text(container, &["restartPolicy"]) == "Always";
        let mut now = of(container, stays);
        if stays {
            add(&mut total, &now);
            add(&mut sidecars, &now);
            now = sidecars.clone();
        } else {
            add(&mut now, &sidecars);
        }
        raise(&mut start, &now);
    }
    raise(&mut total, &start);
    total
}

/// Replaces sums of containers by the amounts that the pod as a whole names.
fn replace(pod: &Value, part: Part, total: &mut Amounts, applies: impl Fn(&str) -> bool) {
    let own = named(pod.get("spec").unwrap_or(&Value::Null), part);
    total.extend(own.into_iter().filter(|(name, _)| applies(name)));
}

/// The status of a container that reports its resources.
fn status_of<'a>(pod: &'a Value, container: &Value) -> Option<&'a Value> {
    let name = object::text(container, &["name"]);
    let all = |key| object::items(pod, &["status", key]).iter();
    let mut all = all("initContainerStatuses").chain(all("containerStatuses"));
    let status = all.find(|one| object::text(one, &["name"]) == name)?;
    status.get("resources").is_some().then_some(status)
}

/// What a container holds while it is resized: the most of what it asks for, has and was promised.
/// A resize that its node cannot carry out counts for nothing.
fn resizing(pod: &Value, part: Part, asked: Amounts, status: &Value) -> Amounts {
    let conditions = object::items(pod, &["status", "conditions"]).iter();
    let mut pending = conditions.filter(|one| one["type"] == "PodResizePending");
    let infeasible = pending
        .next()
        .is_some_and(|one| one["reason"] == "Infeasible");
    let mut held = if infeasible { Amounts::new() } else { asked };
    raise(&mut held, &named(status, part));
    if part == Part::Requests {
        raise(&mut held, &read(status.get("allocatedResources")));
    }
    held
}
