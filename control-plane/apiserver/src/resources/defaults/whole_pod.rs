//! The resources of a pod as a whole: if it names some, the others follow from its containers.

use machinery::amounts::{Amounts, HUGE_PAGES, Part, named, of_containers};
use machinery::object;
use serde_json::Value;

/// Fills in what is missing of a pod's own requests and limits.
pub(super) fn fill(pod: &mut Value) {
    let own = |pod: &Value, part| {
        pod.get("spec")
            .map_or_else(Amounts::new, |spec| named(spec, part))
    };
    let (requests, limits) = (own(pod, Part::Requests), own(pod, Part::Limits));
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    // Huge pages are not shared, so a pod may take as many as its containers.
    for (name, sum) in of_containers(pod, Part::Limits) {
        let huge = name.starts_with(HUGE_PAGES);
        if huge && !requests.contains_key(&name) && !limits.contains_key(&name) {
            set(pod, Part::Limits, &name, sum.to_string().into());
        }
    }
    if own(pod, Part::Limits).is_empty() {
        return;
    }
    for (name, sum) in of_containers(pod, Part::Requests) {
        if ["cpu", "memory"].contains(&name.as_str()) && !requests.contains_key(&name) {
            set(pod, Part::Requests, &name, sum.to_string().into());
        }
    }
    let requests = own(pod, Part::Requests);
    let limits = object::at(pod, &["spec", "resources", Part::Limits.key()]).cloned();
    for (name, limit) in limits
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let of_pods = ["cpu", "memory"].contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if of_pods && !requests.contains_key(name) {
            set(pod, Part::Requests, name, limit.clone());
        }
    }
}

fn set(pod: &mut Value, part: Part, name: &str, amount: Value) {
    object::set(pod, &["spec", "resources", part.key(), name], amount);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(own: Value) -> Value {
        let container = json!({"resources": {
            "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
            "limits": {"hugepages-2Mi": "4Mi"},
        }});
        let mut pod = json!({"spec": {"containers": [container, container], "resources": own}});
        fill(&mut pod);
        pod["spec"]["resources"].take()
    }

    #[test]
    fn what_is_missing_follows_from_the_containers_and_the_limits() {
        assert_eq!(filled(json!({})), json!({}));
        assert_eq!(
            filled(json!({"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "3"}})),
            json!({
                "limits": {"cpu": "4", "memory": "4Gi", "hugepages-2Mi": "8Mi"},
                "requests": {"cpu": "3", "memory": "2Gi", "hugepages-2Mi": "8Mi"},
            })
        );
        assert_eq!(
            filled(json!({"requests": {"cpu": "3", "hugepages-2Mi": "8Mi"}})),
            json!({"requests": {"cpu": "3", "hugepages-2Mi": "8Mi"}})
        );
    }
}
