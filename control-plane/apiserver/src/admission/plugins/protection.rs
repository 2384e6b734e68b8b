//! Finalizers of objects that others use. Each has a control loop that removes it when nothing uses
//! the deleted object any more.

use machinery::object;
use machinery::schema::Kind;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin};
use crate::auth::Answer;

/// Keeps volume claims, volumes and classes of volume attributes as long as they are used.
pub(crate) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE
            && attributes.subresource.is_empty()
            && storage_finalizer(attributes.kind).is_some()
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        if let Some(finalizer) = storage_finalizer(attributes.kind) {
            add(object, finalizer);
        }
        Box::pin(async { Ok(()) })
    }
}

fn storage_finalizer(kind: &Kind) -> Option<&'static str> {
    match (kind.group(), kind.plural()) {
        ("", "persistentvolumeclaims") => Some("kubernetes.io/pvc-protection"),
        ("", "persistentvolumes") => Some("kubernetes.io/pv-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

fn add(object: &mut Value, finalizer: &str) {
    if object::has_finalizer(object, finalizer) {
        return;
    }
    let path = ["metadata", "finalizers"];
    let mut finalizers = object::items(object, &path).to_vec();
    finalizers.push(finalizer.into());
    object::set(object, &path, finalizers.into());
}

#[cfg(test)]
mod tests {
    use machinery::schema;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finalizer_comes_after_those_that_are_there_and_once() {
        let mut object = json!({"metadata": {"finalizers": ["a"]}});
        for _ in 0..2 {
            add(&mut object, "b");
            assert_eq!(object["metadata"]["finalizers"], json!(["a", "b"]));
        }
        let mut object = json!({});
        add(&mut object, "b");
        assert_eq!(object, json!({"metadata": {"finalizers": ["b"]}}));
    }

    #[test]
    fn three_kinds_of_storage_have_a_finalizer() {
        let of = |group, plural| storage_finalizer(schema::resource(group, "v1", plural).unwrap());
        for (group, plural, finalizer) in [
            ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
            ("", "persistentvolumes", "kubernetes.io/pv-protection"),
            (
                "storage.k8s.io",
                "volumeattributesclasses",
                "kubernetes.io/vac-protection",
            ),
        ] {
            assert_eq!(of(group, plural), Some(finalizer));
        }
        assert_eq!(of("storage.k8s.io", "storageclasses"), None);
        assert_eq!(of("", "pods"), None);
    }
}
