//! What it costs to delete a pod: of the pods of a set, those that cost least go first.

use machinery::object;
use serde_json::Value;

/// The annotation that says it.
pub(super) const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// True if a cost is a number of 32 bits, as Go writes it.
pub(super) fn is_number(cost: &str) -> bool {
    let begins_well =
        cost == "0" || cost.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    begins_well && cost.parse::<i32>().is_ok()
}

/// True if a pod or a template has a cost that is no number.
pub(super) fn is_wrong(pod: &Value) -> bool {
    object::annotation(pod, ANNOTATION).is_some_and(|cost| !is_number(cost))
}
