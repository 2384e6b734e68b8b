//! Amounts of resources: capacities of nodes, requests of pods.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource;
use machinery::quantity::Quantity;

/// The CPU that scores count for a container without a CPU request, in thousandths.
const UNNAMED_CPU_MILLI: i64 = 100;
/// The memory that scores count for a container without a memory request.
const UNNAMED_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

type List = BTreeMap<String, resource::Quantity>;

/// An amount of every resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a processor.
    pub cpu_milli: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of local disk.
    pub storage: i64,
    /// Number of pods; 0 in a pod's own request.
    pub pods: i64,
    /// All other resources by name: huge pages, devices.
    pub others: BTreeMap<String, i64>,
}

impl Resources {
    /// Reads a list of quantities. An invalid one counts as 0.
    pub fn read(list: Option<&List>) -> Resources {
        let mut all = Resources::default();
        for (name, quantity) in list.into_iter().flatten() {
            let quantity = Quantity::parse(&quantity.0).unwrap_or(Quantity::ZERO);
            *all.named(name) = match name.as_str() {
                "cpu" => quantity.milli_value(),
                _ => quantity.value(),
            };
        }
        all
    }

    /// A pod's peak need: the sum of its containers, or an init container plus the sidecars started
    /// before it, whichever is larger; plus the pod overhead.
    pub fn of_pod(spec: &PodSpec) -> Resources {
        peak(spec, |container| {
            let resources = container.resources.as_ref();
            Resources::read(resources.and_then(|resources| resources.requests.as_ref()))
        })
    }

    /// The same for scores: a container without a request counts with a small default.
    pub fn of_pod_for_scores(spec: &PodSpec) -> Resources {
        peak(spec, |container| {
            let resources = container.resources.as_ref();
            let list = resources.and_then(|resources| resources.requests.as_ref());
            let mut all = Resources::read(list);
            let named = |name| list.is_some_and(|list| list.contains_key(name));
            if !named("cpu") {
                all.cpu_milli = UNNAMED_CPU_MILLI;
            }
            if !named("memory") {
                all.memory = UNNAMED_MEMORY_BYTES;
            }
            all
        })
    }

    /// True if all amounts are 0.
    pub fn is_nothing(&self) -> bool {
        let others = self.others.values().all(|amount| *amount == 0);
        self.cpu_milli == 0 && self.memory == 0 && self.storage == 0 && others
    }

    /// True if some amount is larger than in `other`.
    pub fn exceed(&self, other: &Resources) -> bool {
        let named = |name: &str| other.others.get(name).copied().unwrap_or(0);
        let mut others = self.others.iter();
        self.cpu_milli > other.cpu_milli
            || self.memory > other.memory
            || self.storage > other.storage
            || others.any(|(name, amount)| *amount > named(name))
    }

    /// Adds another amount.
    pub fn add(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts an amount that was added before.
    pub fn subtract(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_sub);
    }

    /// Takes the maximum with another amount, for each resource.
    fn raise(&mut self, other: &Resources) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Resources, with: impl Fn(i64, i64) -> i64) {
        self.cpu_milli = with(self.cpu_milli, other.cpu_milli);
        self.memory = with(self.memory, other.memory);
        self.storage = with(self.storage, other.storage);
        self.pods = with(self.pods, other.pods);
        for (name, amount) in &other.others {
            let ours = self.others.entry(name.clone()).or_default();
            *ours = with(*ours, *amount);
        }
    }

    fn named(&mut self, name: &str) -> &mut i64 {
        match name {
            "cpu" => &mut self.cpu_milli,
            "memory" => &mut self.memory,
            "ephemeral-storage" => &mut self.storage,
            "pods" => &mut self.pods,
            other => self.others.entry(other.to_owned()).or_default(),
        }
    }
}

fn peak(spec: &PodSpec, of: impl Fn(&Container) -> Resources) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&of(container));
    }
    let (mut sidecars, mut start) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let mut now = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&now);
            sidecars.add(&now);
            now = sidecars.clone();
        } else {
            now.add(&sidecars);
        }
        start.raise(&now);
    }
    total.raise(&start);
    // A request of the pod as a whole replaces the sum of its containers for that resource.
    let whole = spec.resources.as_ref();
    let whole = whole.and_then(|resources| resources.requests.as_ref());
    let named = Resources::read(whole);
    for name in whole.into_iter().flatten().map(|(name, _)| name) {
        let mut named = named.clone();
        *total.named(name) = *named.named(name);
    }
    total.add(&Resources::read(spec.overhead.as_ref()));
    total
}
