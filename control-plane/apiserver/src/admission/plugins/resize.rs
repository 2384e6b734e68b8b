//! Resizes of pods that their node cannot carry out: it has not enough, or is too old.

use std::sync::Arc;

use machinery::amounts::{self, Amounts, Part};
use machinery::object;
use machinery::quantity::Quantity;
use machinery::schema;
use machinery::status::{Cause, Status};
use serde_json::Value;

use crate::admission::{Attributes, Context, Plugin, UPDATE};
use crate::auth::Answer;

const SYSTEM: &str = "kubernetes.io/os";

/// Refuses a resize to more than the pod's node has, and any resize on a node without Linux.
pub(crate) struct PodResizeValidator;

/// Refuses an update of a pod that needs what its node does not declare that it can do.
pub(crate) struct NodeDeclaredFeatureValidator;

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == UPDATE
            && ["", "resize"]
                .iter()
                .any(|subresource| attributes.is_about("", "pods", subresource))
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let needed = attributes.old.map(|old| needed(old, pod));
            let Some(needed) = needed.filter(|needed| !needed.is_empty()) else {
                return Ok(());
            };
            let Some(node) = node_of_changed(context, attributes, pod)? else {
                return Ok(());
            };
            declares(&node, &needed).map_err(|why| attributes.forbidden(&why))
        })
    }
}

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == UPDATE && attributes.is_about("", "pods", "resize")
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let Some(node) = node_of_changed(context, attributes, pod)? else {
                return Ok(());
            };
            check(pod, &node).map_err(|(reason, why)| {
                let mut status = attributes.forbidden(&why);
                status.details.causes.push(Cause {
                    reason,
                    message: String::new(),
                    field: String::new(),
                });
                status
            })
        })
    }
}

/// The node of a pod whose spec an update changes.
fn node_of_changed(
    context: &Context,
    attributes: &Attributes<'_>,
    pod: &Value,
) -> Result<Option<Arc<Value>>, Status> {
    let name = object::text(pod, &["spec", "nodeName"]);
    // The generation counts the changes of the spec.
    let generation = attributes.old.map(object::generation);
    if name.is_empty() || generation == Some(object::generation(pod)) {
        return Ok(None);
    }
    let nodes = schema::resource("", "v1", "nodes");
    let node = nodes.and_then(|kind| context.reader.cached(kind, "", name));
    let missing = || attributes.forbidden(&format!("node {name:?} not found"));
    node.map(Some).ok_or_else(missing)
}

/// The features that a node must have for an update of a pod, in the order of their names.
fn needed(old: &Value, new: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    let own = |pod| object::at(pod, &["spec", "resources"]);
    if own(old) != own(new) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let list = |pod| object::items(pod, &["spec", "initContainers"]).iter();
    let ends = |container: &Value| container["restartPolicy"] != "Always";
    let mut both = list(old).zip(list(new));
    if both.any(|(old, new)| ends(old) && old.get("resources") != new.get("resources")) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

/// Checks that a node declares features; an error is the text of a refusal.
fn declares(node: &Value, needed: &[&str]) -> Result<(), String> {
    let declared = object::items(node, &["status", "declaredFeatures"]);
    let is_missing = |feature: &&&str| !declared.iter().any(|one| one == **feature);
    let missing: Vec<&str> = needed.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "pod update requires features {} which are not available on node {:?}",
        missing.join(", "),
        object::name(node)
    ))
}

/// Checks a resized pod against its node; an error is the reason and the text of a refusal.
fn check(pod: &Value, node: &Value) -> Result<(), (&'static str, String)> {
    let system = object::label(node, SYSTEM).unwrap_or("linux");
    if system != "linux" {
        let name = object::name(node);
        let why =
            format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(("UnsupportedPlatform", why));
    }
    let mut asked = amounts::of_spec(pod, Part::Requests);
    amounts::add(
        &mut asked,
        &amounts::read(object::at(pod, &["spec", "overhead"])),
    );
    let allocatable = amounts::read(object::at(node, &["status", "allocatable"]));
    let in_unit = |name, amount: Quantity| match name {
        "cpu" => amount.milli_value(),
        _ => amount.value(),
    };
    let mut lacks = Vec::new();
    for name in ["cpu", "memory"] {
        let amount = |of: &Amounts| of.get(name).copied().unwrap_or(Quantity::ZERO);
        let (asked, allocatable) = (amount(&asked), amount(&allocatable));
        if asked > allocatable {
            lacks.push(format!(
                "{name}, requested: {}, allocatable: {}",
                in_unit(name, asked),
                in_unit(name, allocatable)
            ));
        }
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let why = format!(
        "node didn't have enough allocatable resources: {}",
        lacks.join("; ")
    );
    Err(("NodeCapacity", why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(cpu: &str, memory: &str) -> Value {
        let container = |name: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}});
        json!({"spec": {"containers": [container("a"), container("b")]}})
    }

    fn node() -> Value {
        json!({"metadata": {"name": "n"}, "status": {"allocatable": {
            "cpu": "2", "memory": "1Ki"}}})
    }

    #[test]
    fn all_containers_together_must_fit_the_node() {
        assert_eq!(check(&pod("1", "512"), &node()), Ok(()));
        let (reason, why) = check(&pod("1001m", "513"), &node()).unwrap_err();
        assert_eq!(reason, "NodeCapacity");
        assert_eq!(
            why,
            "node didn't have enough allocatable resources: \
             cpu, requested: 2002, allocatable: 2000; memory, requested: 1026, allocatable: 1024"
        );
        let mut heavy = pod("1", "1");
        heavy["spec"]["overhead"] = json!({"cpu": "1m"});
        let (_, why) = check(&heavy, &node()).unwrap_err();
        assert!(why.ends_with("resources: cpu, requested: 2001, allocatable: 2000"));
        // What the pod asks for as a whole counts in place of its containers.
        heavy["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(check(&heavy, &node()), Ok(()));
    }

    #[test]
    fn a_pod_as_a_whole_and_init_containers_that_end_need_newer_nodes() {
        let pod = |own: &str, ending: &str, sidecar: &str, main: &str| {
            let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
            let mut stays = container(sidecar);
            stays["restartPolicy"] = "Always".into();
            json!({"spec": {"resources": {"requests": {"cpu": own}},
                "initContainers": [container(ending), stays], "containers": [container(main)]}})
        };
        let old = pod("1", "1", "1", "1");
        assert!(needed(&old, &pod("1", "1", "2", "2")).is_empty());
        let ending = "InPlacePodVerticalScalingInitContainers";
        assert_eq!(needed(&old, &pod("1", "2", "1", "1")), [ending]);
        let whole = "InPlacePodLevelResourcesVerticalScaling";
        let both = needed(&old, &pod("2", "2", "1", "1"));
        assert_eq!(both, [whole, ending]);

        let mut node = node();
        assert_eq!(
            declares(&node, &both).unwrap_err(),
            format!(
                "pod update requires features {whole}, {ending} which are not available on node \
                 \"n\""
            )
        );
        node["status"]["declaredFeatures"] = json!([whole, "Other"]);
        let why = declares(&node, &both).unwrap_err();
        assert!(why.starts_with(&format!("pod update requires features {ending} which")));
        assert_eq!(declares(&node, &[whole]), Ok(()));
    }

    #[test]
    fn nodes_without_linux_resize_nothing() {
        let mut node = node();
        node["metadata"]["labels"] = json!({SYSTEM: "linux"});
        assert_eq!(check(&pod("1", "1"), &node), Ok(()));
        node["metadata"]["labels"] = json!({SYSTEM: "windows"});
        let (reason, why) = check(&pod("1", "1"), &node).unwrap_err();
        assert_eq!(reason, "UnsupportedPlatform");
        assert_eq!(
            why,
            "pod resize is only supported on linux nodes, node \"n\" is \"windows\""
        );
    }
}
