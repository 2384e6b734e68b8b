//! Claims: where the content of their volumes comes from, which two fields say.

use machinery::object;
use serde_json::{Map, Value, json};

/// The older field, which knows two kinds of sources, and the newer one, which knows all.
const SOURCE: &str = "dataSource";
const REFERENCE: &str = "dataSourceRef";

/// Volumes and claims start unbound.
pub(super) fn prepare_for_create(claim: &mut Value) {
    object::set(claim, &["status"], json!({"phase": "Pending"}));
    sources(None, claim);
}

pub(super) fn prepare_for_update(old: &Value, new: &mut Value) {
    sources(Some(old), new);
}

/// Makes both fields say the same, and drops sources that nobody served when there was only the
/// older field, as a claim then had no source.
fn sources(old: Option<&Value>, claim: &mut Value) {
    let had = |key| old.is_some_and(|old| object::at(old, &["spec", key]).is_some());
    let Some(spec) = claim.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    let elsewhere = |spec: &Value| !object::text(spec, &[REFERENCE, "namespace"]).is_empty();
    if elsewhere(spec) && !had(REFERENCE) {
        object::remove(spec, &[REFERENCE]);
    }
    let given = |spec: &Value, key| spec.get(key).is_some_and(|source| !source.is_null());
    let new = !had(SOURCE) && !had(REFERENCE);
    if new && !given(spec, REFERENCE) && !is_served(spec) {
        object::remove(spec, &[SOURCE]);
    }
    match (given(spec, SOURCE), given(spec, REFERENCE)) {
        (true, false) => spec[REFERENCE] = copied(&spec[SOURCE]),
        (false, true) if !elsewhere(spec) => spec[SOURCE] = copied(&spec[REFERENCE]),
        _ => {}
    }
}

/// True for what the older field may name.
fn is_served(spec: &Value) -> bool {
    let text = |key| object::text(spec, &[SOURCE, key]);
    [
        ("", "PersistentVolumeClaim"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    ]
    .contains(&(text("apiGroup"), text("kind")))
}

fn copied(source: &Value) -> Value {
    let keys = ["apiGroup", "kind", "name"].into_iter();
    let fields = keys.filter_map(|key| Some((key.to_owned(), source.get(key)?.clone())));
    Value::Object(Map::from_iter(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(old: Option<Value>, spec: Value) -> Value {
        let mut claim = json!({ "spec": spec });
        let old = old.map(|spec| json!({ "spec": spec }));
        sources(old.as_ref(), &mut claim);
        claim["spec"].take()
    }

    #[test]
    fn both_fields_say_the_same() {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let both = json!({SOURCE: source, REFERENCE: source});
        assert_eq!(prepared(None, json!({SOURCE: source})), both);
        assert_eq!(prepared(None, json!({REFERENCE: source})), both);
    }

    #[test]
    fn sources_that_nobody_serves_are_dropped() {
        let other = json!({"apiGroup": "example.com", "kind": "Thing", "name": "t"});
        assert_eq!(prepared(None, json!({SOURCE: other})), json!({}));
        let kept = prepared(Some(json!({SOURCE: other})), json!({SOURCE: other}));
        assert_eq!(kept, json!({SOURCE: other, REFERENCE: other}));
        let mut elsewhere = other;
        elsewhere["namespace"] = "n".into();
        assert_eq!(prepared(None, json!({REFERENCE: elsewhere})), json!({}));
    }
}
