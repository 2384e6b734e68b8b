//! Defaults of objects, in whichever version they are.

mod whole_pod;

use std::sync::Arc;

use machinery::defaults;
use serde_json::Value;

use super::catalogue::Resource;
use super::convert;

/// Sets defaults, by the rules of the stored version; of a custom resource also removes what its
/// schema does not have.
pub(crate) fn set_defaults(resource: &Resource, object: &mut Value) {
    if resource.custom.is_some() {
        if let Some(schema) = resource.schema() {
            schema.prune(object);
            schema.default(object);
        }
        return;
    }
    if convert::is_same(resource) {
        defaults::apply(resource.kind.group(), resource.kind.kind(), object);
        if (resource.kind.group(), resource.kind.kind()) == ("", "Pod") {
            whole_pod::fill(object);
        }
        return defaults::name_kinds(resource.kind.group(), resource.kind.kind(), object);
    }
    let mut stored = convert::to_stored(resource, std::mem::take(object));
    defaults::apply(resource.kind.group(), resource.kind.kind(), &mut stored);
    *object = Value::clone(&convert::to_served(resource, &Arc::new(stored)));
}
