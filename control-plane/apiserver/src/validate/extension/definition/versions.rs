//! What each version of a definition says: its schema, its columns and its subresources.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use machinery::structural::Schema;

use super::places::{self, Places, SCHEMA};
use super::root;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
/// The most fields of a version that selectors may name.
const SELECTABLE_MAX: usize = 8;

/// Checks all versions of a definition.
pub(super) fn check(spec: &FieldValue, causes: &mut Causes) {
    let places = Places::of(spec.items("versions"));
    let mut seen = BTreeSet::new();
    let (mut stored, mut twice) = (0, false);
    causes.each(spec, "versions", |causes, version| {
        let name = version.text("name");
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            causes.wrong_text(version, "name", &wrong.join(","));
        }
        if object::at(version.value, &SCHEMA).is_none() {
            let field = version.path_of(&SCHEMA.join("."));
            causes.push(Cause::required(&field, ""));
        }
        if version.has("deprecationWarning") && !version.flag("deprecated") {
            let why = "can only be set for deprecated versions";
            causes.wrong(version, "deprecationWarning", why);
        }
        if let Some(at) = places.within(version, "subresources") {
            causes.below(&at, "subresources", subresources);
        }
        if let Some(at) = places.within(version, "additionalPrinterColumns") {
            causes.each(&at, "additionalPrinterColumns", column);
        }
        if let Some(at) = places.within(version, "selectableFields") {
            selectable(&at, causes);
        }
        stored += usize::from(version.flag("storage"));
        twice |= !seen.insert(name);
    });
    let with_status = places::schemas_with_status(spec.items("versions"));
    for (field, schema) in places::schemas(spec.items("versions")) {
        if with_status.contains(&schema.to_string()) {
            causes.extend(root::check(&field, schema));
        }
        causes.extend(Schema::parse_at(&field, schema).err().into_iter().flatten());
    }
    if twice {
        causes.wrong(spec, "versions", "must contain unique version names");
    }
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.wrong(spec, "versions", why);
    }
}

fn column(causes: &mut Causes, column: &FieldValue) {
    causes.required(column, "name");
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match column.text("type") {
        "" => causes.push(Cause::required(&column.path_of("type"), &types)),
        kind if !COLUMN_TYPES.contains(&kind) => causes.wrong(column, "type", &types),
        _ => {}
    }
    let format = column.text("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        causes.wrong(column, "format", &why);
    }
    let path = column.text("jsonPath");
    let field = column.path_of("JSONPath");
    if path.is_empty() {
        causes.push(Cause::required(&field, ""));
    } else if let Some(why) = not_simple(path) {
        causes.push(Cause::invalid(&field, &path.into(), why));
    }
}

fn subresources(causes: &mut Causes, at: &FieldValue) {
    let Some(scale) = at.child("scale") else {
        return;
    };
    for (key, below) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let path = scale.text(key);
        if !causes.required(&scale, key) {
            continue;
        }
        if let Some(why) = not_simple(path) {
            causes.wrong(&scale, key, why);
        } else if !path.starts_with(&format!("{below}.")) {
            causes.wrong(&scale, key, &format!("should be a json path under {below}"));
        }
    }
    let path = scale.text("labelSelectorPath");
    if path.is_empty() {
        return;
    }
    if let Some(why) = not_simple(path) {
        causes.wrong(&scale, "labelSelectorPath", why);
    } else if !path.starts_with(".spec.") && !path.starts_with(".status.") {
        let why = "should be a json path under either .spec or .status";
        causes.wrong(&scale, "labelSelectorPath", why);
    }
}

fn selectable(version: &FieldValue, causes: &mut Causes) {
    let mut seen = BTreeSet::new();
    causes.each(version, "selectableFields", |causes, field| {
        let path = field.text("jsonPath");
        if !causes.required(field, "jsonPath") {
            return;
        }
        if let Some(why) = not_simple(path) {
            causes.wrong(field, "jsonPath", &format!("is an invalid path: {why}"));
        } else if path == ".metadata" || path.starts_with(".metadata.") {
            causes.wrong(field, "jsonPath", "must not point to fields in metadata");
        } else if !is_selectable(version, path) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            causes.wrong(field, "jsonPath", why);
        }
        if !seen.insert(path) {
            causes.push(Cause::duplicate(&field.path_of("jsonPath"), &path.into()));
        }
    });
    if seen.len() > SELECTABLE_MAX {
        let field = version.path_of("selectableFields");
        causes.push(Cause::too_many(&field, seen.len(), SELECTABLE_MAX));
    }
}

/// False for a field whose schema has another type than those that can be compared with a text. A
/// path that leads nowhere is not judged here.
fn is_selectable(version: &FieldValue, path: &str) -> bool {
    let schema = object::at(version.value, &SCHEMA);
    let mut names = path.split('.').skip(1);
    let found = schema.and_then(|schema| {
        names.try_fold(schema, |schema, name| {
            let property = schema.get("properties").and_then(|all| all.get(name));
            property.or_else(|| schema.get("additionalProperties"))
        })
    });
    let types = ["string", "boolean", "integer"];
    found.is_none_or(|found| types.contains(&object::text(found, &["type"])))
}

/// Why a path is not in the dot notation.
fn not_simple(path: &str) -> Option<&'static str> {
    (!path.starts_with('.')).then_some("must be a simple json path starting with .")
}
