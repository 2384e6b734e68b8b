//! The nodes that a gated pod may run on: a scheduler that holds it back may choose among them, but
//! not add others.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const TERMS: [&str; 4] = [
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];

/// Each term of the required affinity may only get further conditions.
pub(super) fn narrower(was: &FieldValue, is: &FieldValue, causes: &mut Causes) {
    let old = object::items(was.value, &TERMS);
    let new = object::items(is.value, &TERMS);
    let field = is.path_of(&TERMS.join("."));
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let shown = object::at(is.value, &TERMS).unwrap_or(&Value::Null);
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return causes.push(Cause::invalid(&field, shown, why));
    }
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        if !only_adds(old, new) {
            let why = "only additions are allowed (no mutations or deletions)";
            causes.push(Cause::invalid(&format!("{field}[{index}]"), new, why));
        }
    }
}

fn only_adds(old: &Value, new: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term| lists.iter().all(|list| conditions(term, list).is_empty());
    if is_empty(old) {
        // A term without conditions fits no node.
        return is_empty(new);
    }
    let keeps = |list: &&str| conditions(new, list).starts_with(conditions(old, list));
    lists.iter().all(keeps)
}

fn conditions<'a>(term: &'a Value, list: &str) -> &'a [Value] {
    object::items(term, &[list])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(old: Value, new: Value) -> Vec<Cause> {
        let spec = |terms: Value| {
            let mut spec = json!({});
            object::set(&mut spec, &TERMS, terms);
            spec
        };
        let (old, new) = (spec(old), spec(new));
        let mut causes = Causes::default();
        let [old, new] = [&old, &new].map(|spec| FieldValue::new("spec", spec));
        narrower(&old, &new, &mut causes);
        causes.into()
    }

    #[test]
    fn terms_may_only_get_further_conditions() {
        let zone = json!({"key": "zone", "operator": "Exists"});
        let host = json!({"key": "host", "operator": "Exists"});
        let one = json!([{"matchExpressions": [zone]}]);
        let more = json!([{"matchExpressions": [zone, host], "matchFields": [host]}]);
        assert!(told(one.clone(), more.clone()).is_empty());
        assert!(told(json!([]), one.clone()).is_empty());
        for wrong in [
            json!([]),
            json!([{}]),
            json!([{"matchExpressions": [host]}]),
        ] {
            assert_eq!(told(one.clone(), wrong.clone()).len(), 1, "{wrong}");
        }
        assert_eq!(told(more, one.clone()).len(), 1);
        assert_eq!(told(json!([{}]), one).len(), 1);
    }
}
