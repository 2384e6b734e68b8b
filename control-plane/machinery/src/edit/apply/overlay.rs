//! Merges a configuration into an object without managers, as admission policies do.

use serde_json::Value;

use super::check::{Form, check, deduced};
use super::fields::Element;
use super::typing::{Identity, Typing};
use super::{Error, Misfits, merge};

/// The object with the fields of a configuration. It may not have a list or map that is owned as a
/// whole: the rest of that list or map would be lost.
pub fn overlay(typing: &dyn Typing, live: &Value, config: &Value) -> Result<Value, Error> {
    let fails = |what: &str, misfits: Misfits| Error::Failed(format!("{what}: {misfits}"));
    let unfit = "failed to convert patch object to typed object";
    check(typing, config, false).map_err(|misfits| fails(unfit, misfits))?;
    let mut atomics = Vec::new();
    collect(typing, config, &mut Vec::new(), &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(Error::Failed(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
        )));
    }
    let unfit = "failed to convert original object to typed object";
    check(typing, live, true).map_err(|misfits| fails(unfit, misfits))?;
    merge(typing, live, config).map_err(|misfits| fails("failed to merge patch", misfits))
}

/// The paths of lists and maps that are owned as a whole. Kubernetes looks no further than what is
/// declared: the values of a map may be lists.
fn collect(typing: &dyn Typing, value: &Value, path: &mut Vec<Element>, found: &mut Vec<String>) {
    let shown = |path: &[Element]| path.iter().map(Element::to_string).collect::<String>();
    match (deduced(typing.forms(), Some(value)).deciding(), value) {
        (Form::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(shown(path));
            }
            for (name, value) in fields {
                if let Some(member) = typing.field(name) {
                    path.push(Element::from(name.as_str()));
                    collect(member.typing, value, path, found);
                    path.pop();
                }
            }
        }
        (Form::List(list), Value::Array(items)) => {
            if list.identity == Identity::Atomic {
                found.push(shown(path));
            }
            for (at, item) in items.iter().enumerate() {
                let at = i64::try_from(at).unwrap_or(i64::MAX);
                path.push(Element::Index(at));
                collect(list.item, item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::edit::apply::Custom;

    fn overlaid(live: &Value, config: &Value) -> Result<Value, String> {
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let spec = json!({"type": "object", "properties": {"texts": texts,
            "by": {"type": "object", "additionalProperties": texts},
            "count": {"type": "integer"}}});
        let typing = Custom::of_object(&json!({"type": "object", "properties": {"spec": spec}}));
        overlay(&typing, live, config).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_refused_as_a_declared_field_and_not_as_the_value_of_a_map() {
        let live = json!({"spec": {"by": {"a": ["x"], "b": ["x"]}}});
        let refused = overlaid(&live, &json!({"spec": {"texts": ["y"]}}));
        let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                   .spec.texts";
        assert_eq!(refused, Err(why.to_owned()));
        let merged = json!({"spec": {"by": {"a": ["y"], "b": ["x"]}}});
        let config = json!({"spec": {"by": {"a": ["y"]}}});
        assert_eq!(overlaid(&live, &config), Ok(merged));
    }

    #[test]
    fn the_object_itself_must_fit_its_type() {
        let live = json!({"spec": {"count": "x"}});
        let refused = overlaid(&live, &json!({"spec": {"count": 1}}));
        let why = "failed to convert original object to typed object: .spec.count: expected \
                   numeric (int or float), got string";
        assert_eq!(refused, Err(why.to_owned()));
    }
}
