//! Labels and annotations, wherever an object has them.

use machinery::name;
use machinery::status::Cause;
use serde_json::{Map, Value};

use crate::validate::{Causes, named};

/// Annotations at any path.
pub(crate) fn annotations(field: &str, map: Option<&Map<String, Value>>) -> Causes {
    let mut causes = Causes::default();
    let mut bytes = 0;
    for (key, value) in map.into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        let wrong = name::qualified_name(&key.to_ascii_lowercase());
        causes.extend(named(field, key, wrong));
    }
    if bytes > name::ANNOTATIONS_BYTES_MAX {
        causes.push(Cause::too_long(field, name::ANNOTATIONS_BYTES_MAX));
    }
    causes
}

/// Labels at any path.
pub(crate) fn labels(field: &str, map: Option<&Map<String, Value>>) -> Causes {
    let all = map.into_iter().flatten();
    all.flat_map(|(key, value)| label(field, key, value))
        .collect()
}

fn label(field: &str, key: &str, value: &Value) -> Causes {
    let mut causes = named(field, key, name::qualified_name(key));
    let value = value.as_str().unwrap_or_default();
    causes.extend(named(field, value, name::label_value(value)));
    causes
}
