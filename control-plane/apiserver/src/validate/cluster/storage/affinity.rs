//! The nodes that can reach a volume: they stay the same, but their labels may get newer names.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::{old_labels, selector};

const PATH: [&str; 2] = ["spec", "nodeAffinity"];
const TERMS: [&str; 2] = ["required", "nodeSelectorTerms"];

/// True if a stored volume is for nodes with a value that no label can have.
pub(super) fn had_wrong_values(old: Option<&Value>) -> bool {
    let nodes = old.and_then(|old| object::at(old, &PATH));
    let mut terms = nodes.into_iter().flat_map(|one| object::items(one, &TERMS));
    terms.any(selector::has_wrong_values)
}

/// The nodes of a volume after an update.
pub(super) fn update(old: &Value, new: &Value) -> Option<Cause> {
    let was = object::at(old, &PATH)?;
    let is = object::at(new, &PATH);
    let same = is.is_some_and(|is| renamed(was, is) == *is);
    (!same).then(|| {
        let why = "field is immutable, except for updating from beta label to GA";
        Cause::invalid("nodeAffinity", is.unwrap_or(&Value::Null), why)
    })
}

/// The old state with the names of labels that the new state has instead.
fn renamed(was: &Value, is: &Value) -> Value {
    let mut was = was.clone();
    let new_terms = object::items(is, &TERMS);
    let terms = was.pointer_mut("/required/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
    for (term, new_term) in terms.zip(new_terms) {
        let new_ones = object::items(new_term, &["matchExpressions"]);
        let ones = term.get_mut("matchExpressions");
        let ones = ones.and_then(Value::as_array_mut).into_iter().flatten();
        for (one, new_one) in ones.zip(new_ones) {
            let key = object::text(new_one, &["key"]);
            if newer(object::text(one, &["key"])) == key {
                object::set(one, &["key"], key.into());
            }
        }
    }
    was
}

/// The newer name of a label. Kubernetes has an empty one for all other labels; that nothing can be
/// called so is told elsewhere.
fn newer(label: &str) -> &str {
    old_labels::renamed(label).map_or("", |(_, now)| now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(key: &str, value: &str) -> Value {
        let one = json!({"key": key, "operator": "In", "values": [value]});
        let terms = json!([{"matchExpressions": [one]}]);
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn the_nodes_of_a_volume_stay_under_the_old_or_the_newer_name() {
        const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
        const ZONE: &str = "topology.kubernetes.io/zone";
        let may = |old: &Value, new: &Value| update(old, new).is_none();
        let beta = volume(BETA, "a");
        assert!(may(&beta, &beta));
        assert!(may(&json!({"spec": {}}), &beta));
        assert!(may(&beta, &volume(ZONE, "a")));
        for wrong in [
            volume(ZONE, "b"),
            volume("kubernetes.io/os", "a"),
            json!({"spec": {}}),
        ] {
            assert!(!may(&beta, &wrong), "{wrong}");
        }
        assert!(!may(&volume(ZONE, "a"), &beta));
    }
}
