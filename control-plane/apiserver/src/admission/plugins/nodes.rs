//! New nodes: no pods before a controller finds them ready.

use machinery::object;
use serde_json::{Value, json};

use crate::admission::{Attributes, CREATE, Context, NOT_READY, Plugin};
use crate::auth::Answer;

/// Taints a new node; a controller removes the taint when the node is ready.
pub(crate) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE && attributes.is_about("", "nodes", "")
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        _: &'a Attributes<'a>,
        node: &'a mut Value,
    ) -> Answer<'a, ()> {
        let mut taints = object::items(node, &["spec", "taints"]).to_vec();
        let is_there = |one: &Value| one["key"] == NOT_READY && one["effect"] == "NoSchedule";
        if !taints.iter().any(is_there) {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            object::set(node, &["spec", "taints"], taints.into());
        }
        Box::pin(async { Ok(()) })
    }
}
