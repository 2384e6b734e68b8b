//! The zone and the region of a pod.

use machinery::object;
use machinery::schema;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin};
use crate::auth::Answer;

const LABELS: [&str; 2] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Copies the labels of a node that tell where it is to each pod that it gets.
pub(crate) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE
            && ["", "binding"]
                .iter()
                .any(|subresource| attributes.is_about("", "pods", subresource))
    }

    /// The pod gets the labels of its binding.
    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        let name = node_name(attributes.subresource, object);
        if let Some(name) = name
            && let Some(nodes) = schema::resource("", "v1", "nodes")
            && let Some(node) = context.reader.cached(nodes, "", name)
        {
            copy(&node, object);
        }
        Box::pin(async { Ok(()) })
    }
}

/// The node of a pod, or of its binding.
fn node_name<'a>(subresource: &str, object: &'a Value) -> Option<&'a str> {
    let name = match subresource {
        "binding" if object::text(object, &["target", "kind"]) != "Node" => "",
        "binding" => object::text(object, &["target", "name"]),
        _ => object::text(object, &["spec", "nodeName"]),
    };
    (!name.is_empty()).then_some(name)
}

fn copy(node: &Value, to: &mut Value) {
    for key in LABELS {
        if let Some(value) = object::label(node, key) {
            object::set(to, &["metadata", "labels", key], value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_and_bindings_name_their_node() {
        let pod = json!({"spec": {"nodeName": "a"}});
        assert_eq!(node_name("", &pod), Some("a"));
        assert_eq!(node_name("", &json!({"spec": {}})), None);
        let binding = |kind: &str| json!({"target": {"kind": kind, "name": "a"}});
        assert_eq!(node_name("binding", &binding("Node")), Some("a"));
        assert_eq!(node_name("binding", &binding("Zone")), None);
        assert_eq!(node_name("binding", &binding("")), None);
    }

    #[test]
    fn only_zone_and_region_are_copied_over_what_is_there() {
        let node = json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/other": "o", "a": "b"}}});
        let mut pod = json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": "own", "topology.kubernetes.io/region": "own"}}});
        copy(&node, &mut pod);
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "own"})
        );
        let mut plain = json!({"metadata": {}});
        copy(&json!({"metadata": {"labels": {"a": "b"}}}), &mut plain);
        assert_eq!(plain, json!({"metadata": {}}));
    }
}
