//! Defaults of objects, in whichever version they are.

mod whole_pod;

use std::sync::Arc;

use machinery::status::Status;
use machinery::{defaults, object};
use serde_json::Value;

use super::catalogue::Resource;
use super::convert;

/// Sets defaults, by the rules of the stored version; of a custom resource also removes what its
/// schema does not have. An object that the defaults of its schema would make too large gets none
/// of them and is refused, as the store would refuse it.
pub(crate) fn set_defaults(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    if resource.custom.is_some() {
        let Some(schema) = resource.schema() else {
            return Ok(());
        };
        schema.prune(object);
        if schema.default(object) {
            return Ok(());
        }
        let (kind, name) = (resource.kind.kind(), object::name(object));
        let text = format!("Request entity too large: {kind} {name:?} has too many defaults");
        return Err(Status::new(413, "RequestEntityTooLarge", text));
    }
    if convert::is_same(resource) {
        defaults::apply(resource.kind.group(), resource.kind.kind(), object);
        if (resource.kind.group(), resource.kind.kind()) == ("", "Pod") {
            whole_pod::fill(object);
        }
        defaults::name_kinds(resource.kind.group(), resource.kind.kind(), object);
        return Ok(());
    }
    let mut stored = convert::to_stored(resource, std::mem::take(object));
    defaults::apply(resource.kind.group(), resource.kind.kind(), &mut stored);
    *object = Value::clone(&convert::to_served(resource, &Arc::new(stored)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::custom::Definition;

    #[test]
    fn an_object_that_its_defaults_make_too_large_is_refused() {
        let text = json!({"type": "string", "default": "t".repeat(1000)});
        let items = json!({"type": "object", "properties": {"text": text}});
        let mut definition = Definition::widgets();
        definition.versions[0].schema = Some(json!({"type": "object", "properties": {
            "items": {"type": "array", "items": items}}}));
        let resource = definition.resources(None).unwrap().remove(0);
        let code = |items: usize| {
            let mut object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
                "metadata": {"name": "w"}, "items": vec![json!({}); items]});
            set_defaults(&resource, &mut object).map_err(|refused| {
                let why = "Request entity too large: Widget \"w\" has too many defaults";
                assert_eq!(refused.message, why);
                refused.code
            })
        };
        assert_eq!(code(10_000), Ok(()));
        assert_eq!(code(100_000), Err(413));
    }
}
