//! Where errors say that a part of a version is: Kubernetes keeps what all versions say alike once,
//! beside them, and reports it there.

use machinery::object;
use serde_json::Value;

use crate::validate::words::field::FieldValue;

/// The schema of a version.
pub(super) const SCHEMA: [&str; 2] = ["schema", "openAPIV3Schema"];

pub(super) struct Places<'a> {
    versions: &'a [Value],
}

impl<'a> Places<'a> {
    pub(super) fn of(versions: &'a [Value]) -> Places<'a> {
        Places { versions }
    }

    fn is_shared(&self, part: &str) -> bool {
        let mut parts = self.versions.iter().map(|version| version.get(part));
        let first = parts.next().flatten();
        first.is_some() && parts.all(|other| other == first)
    }

    /// A version where errors in one of its parts are; `None` if another version's are the same.
    pub(super) fn within(&self, version: &FieldValue<'a>, part: &str) -> Option<FieldValue<'a>> {
        if !self.is_shared(part) {
            return Some(version.clone());
        }
        let is_first = self
            .versions
            .first()
            .is_some_and(|first| std::ptr::eq(first, version.value));
        is_first.then(|| FieldValue::new("spec", version.value))
    }

    /// True if a version with this schema has its status apart.
    pub(super) fn has_status(&self, schema: &Value) -> bool {
        let mut of_schema = self
            .versions
            .iter()
            .filter(|version| object::at(version, &SCHEMA) == Some(schema));
        of_schema.any(|version| object::at(version, &["subresources", "status"]).is_some())
    }
}

/// The schemas of all versions, and where each is.
pub(super) fn schemas(versions: &[Value]) -> Vec<(String, &Value)> {
    let below = SCHEMA[1];
    let places = Places::of(versions);
    let schemas = versions.iter().enumerate().filter_map(|(index, version)| {
        let schema = object::at(version, &SCHEMA)?;
        Some((
            format!("spec.versions[{index}].{}.{below}", SCHEMA[0]),
            schema,
        ))
    });
    let mut schemas: Vec<_> = schemas.collect();
    if places.is_shared(SCHEMA[0]) {
        schemas.truncate(1);
        for (field, _) in &mut schemas {
            *field = format!("spec.validation.{below}");
        }
    }
    schemas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_all_versions_share_is_beside_them() {
        let one = json!({"schema": {"openAPIV3Schema": {"type": "object"}}});
        let other = json!({"schema": {"openAPIV3Schema": {}}});
        let fields = |versions: &[Value]| -> Vec<String> {
            schemas(versions)
                .into_iter()
                .map(|(field, _)| field)
                .collect()
        };
        let shared = ["spec.validation.openAPIV3Schema"];
        assert_eq!(fields(&[one.clone(), one.clone()]), shared);
        assert_eq!(fields(std::slice::from_ref(&one)), shared);
        assert_eq!(
            fields(&[one, other]),
            [
                "spec.versions[0].schema.openAPIV3Schema",
                "spec.versions[1].schema.openAPIV3Schema",
            ]
        );
        assert!(fields(&[json!({})]).is_empty());
    }
}
