//! What pods ask for of a resource: utilization is measured against it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use machinery::amounts::{self, HUGE_PAGES, Part};
use machinery::object;

use super::readings::milli;
use crate::known::{Shared, to_object};
use crate::meta;

/// The thousandths of a resource that each pod asks for; of one container alone, if it is named.
pub(super) fn requests(
    pods: &[Shared<Pod>],
    container: &str,
    resource: &str,
) -> Result<BTreeMap<String, i64>, String> {
    let of_one = |pod: &Shared<Pod>| {
        let asked = if container.is_empty() && has_own(pod) {
            of_pod(pod, resource)
        } else {
            of_containers(pod, container, resource)
        };
        asked.map(|asked| (meta::name(&pod.metadata).to_owned(), asked))
    };
    pods.iter().map(of_one).collect()
}

/// True if the pod itself asks for something, beside its containers.
fn has_own(pod: &Pod) -> bool {
    let resources = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let mut names = named(resources).map(|(name, _)| name);
    names.any(|name| ["cpu", "memory"].contains(&name) || name.starts_with(HUGE_PAGES))
}

fn of_pod(pod: &Pod, resource: &str) -> Result<i64, String> {
    let pod_object = to_object(pod);
    let mut all = amounts::of_spec(&pod_object, Part::Requests);
    let overhead = amounts::read(object::at(&pod_object, &["spec", "overhead"]));
    amounts::add(&mut all, &overhead);
    match all.get(resource) {
        Some(amount) => Ok(amount.milli_value()),
        None => {
            let name = meta::name(&pod.metadata);
            Err(format!(
                "missing pod-level request for {resource} in Pod {name}"
            ))
        }
    }
}

/// The sum over the containers that run as long as the pod.
fn of_containers(pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let name = meta::name(&pod.metadata);
    let spec = pod.spec.as_ref();
    let sidecars = spec.and_then(|spec| spec.init_containers.as_ref());
    let sidecars = sidecars.into_iter().flatten();
    let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let main = spec.into_iter().flat_map(|spec| &spec.containers);
    let mut wanted = main
        .chain(sidecars)
        .filter(|one| container.is_empty() || one.name == container)
        .peekable();
    if !container.is_empty() && wanted.peek().is_none() {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    wanted.try_fold(0_i64, |sum, one| match asked(one, resource) {
        Some(amount) => Ok(sum.saturating_add(amount)),
        None => Err(format!(
            "missing request for {resource} in container {} of Pod {name}",
            one.name
        )),
    })
}

fn asked(container: &Container, resource: &str) -> Option<i64> {
    let mut all = named(container.resources.as_ref());
    let (_, amount) = all.find(|(name, _)| *name == resource)?;
    Some(milli(amount))
}

/// The requests of a container or a pod, by name.
fn named(resources: Option<&ResourceRequirements>) -> impl Iterator<Item = (&str, &str)> {
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let all = requests.into_iter().flatten();
    all.map(|(name, amount)| (name.as_str(), amount.0.as_str()))
}
