//! Where errors say that a part of a version is: Kubernetes keeps what all versions say alike once,
//! beside them, and reports it there.

use std::collections::HashSet;

use machinery::object;
use serde_json::Value;

use crate::validate::words::field::FieldValue;

/// The schema of a version.
pub(super) const SCHEMA: [&str; 2] = ["schema", "openAPIV3Schema"];

/// The parts of versions that may be beside them.
const PARTS: [&str; 4] = [
    SCHEMA[0],
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

pub(super) struct Places<'a> {
    versions: &'a [Value],
    /// What all versions say alike. It is found out once: there may be very many versions.
    shared: Vec<&'static str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(versions: &'a [Value]) -> Places<'a> {
        let is_shared = |part: &&str| {
            let mut parts = versions.iter().map(|version| version.get(*part));
            let first = parts.next().flatten();
            first.is_some() && parts.all(|other| other == first)
        };
        let shared = PARTS.into_iter().filter(is_shared).collect();
        Places { versions, shared }
    }

    /// A version where errors in one of its parts are; `None` if another version's are the same.
    pub(super) fn within(&self, version: &FieldValue<'a>, part: &str) -> Option<FieldValue<'a>> {
        if !self.shared.contains(&part) {
            return Some(version.clone());
        }
        let is_first = self
            .versions
            .first()
            .is_some_and(|first| std::ptr::eq(first, version.value));
        is_first.then(|| FieldValue::new("spec", version.value))
    }
}

/// The schemas, as texts, of the versions that have their status apart.
pub(super) fn schemas_with_status(versions: &[Value]) -> HashSet<String> {
    let has_status = |version: &&Value| object::at(version, &["subresources", "status"]).is_some();
    let versions = versions.iter().filter(has_status);
    let schemas = versions.filter_map(|version| object::at(version, &SCHEMA));
    schemas.map(Value::to_string).collect()
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
    if places.shared.contains(&SCHEMA[0]) {
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

    #[test]
    fn a_part_is_told_where_it_is_and_a_schema_has_a_status_wherever_it_is() {
        let of = |type_: &str, subresources: Value| {
            json!({"schema": {"openAPIV3Schema": {"type": type_}}, "subresources": subresources,
                "selectableFields": []})
        };
        let versions = [
            of("object", json!({})),
            of("object", json!({"status": {}})),
            of("array", json!({})),
        ];
        let places = Places::of(&versions);
        let told = |part: &str| {
            let versions = versions.iter().enumerate();
            let all = versions.map(|(at, one)| FieldValue::new(at.to_string(), one));
            let told = all.filter_map(|version| places.within(&version, part));
            told.map(|at| at.path).collect::<Vec<_>>()
        };
        assert_eq!(told("selectableFields"), ["spec"]);
        assert_eq!(told("subresources"), ["0", "1", "2"]);
        let with_status = schemas_with_status(&versions);
        let schemas = schemas(&versions).into_iter();
        let has_status = schemas.map(|(_, schema)| with_status.contains(&schema.to_string()));
        assert_eq!(has_status.collect::<Vec<_>>(), [true, true, false]);
    }
}
