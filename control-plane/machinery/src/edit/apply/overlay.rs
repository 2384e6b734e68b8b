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
    merge(typing, live, config).map_err(|misfits| fails("failed to merge patch", misfits))
}

/// The paths of lists and maps that are owned as a whole.
fn collect(typing: &dyn Typing, value: &Value, path: &mut Vec<Element>, found: &mut Vec<String>) {
    let shown = |path: &[Element]| path.iter().map(Element::to_string).collect::<String>();
    match (deduced(typing.forms(), Some(value)).deciding(), value) {
        (Form::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(shown(path));
            }
            for (name, value) in fields {
                let member = typing.field(name).map(|member| member.typing);
                if let Some(typing) = member.or(map.other) {
                    path.push(Element::from(name.as_str()));
                    collect(typing, value, path, found);
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
