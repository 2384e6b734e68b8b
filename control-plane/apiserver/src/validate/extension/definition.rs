//! CustomResourceDefinitions: names, versions and what each version says beside its schema.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use machinery::structural::Schema;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, unchanged};
use approval::Approval;

pub(crate) mod approval;
mod conversion;

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

/// What every state keeps.
pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let none = Value::Null;
    let names = FieldValue::new("spec.names", spec.get("names").unwrap_or(&none));
    let (own, plural, group) = (
        object::name(object),
        names.text("plural"),
        spec.text("group"),
    );
    if own != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &own.into(), why));
    }
    if causes.required(&spec, "group") {
        let wrong = name::dns1123_subdomain(group);
        if !wrong.is_empty() {
            causes.wrong(&spec, "group", &wrong.join(","));
        } else if !group.contains('.') {
            let why = "should be a domain with at least one dot";
            causes.wrong(&spec, "group", why);
        }
    }
    causes.choice(&spec, "scope", &["Cluster", "Namespaced"]);
    versions(&spec, &mut causes);
    for key in ["plural", "singular", "kind", "listKind"] {
        causes.required(&names, key);
    }
    called(&names, &mut causes);
    causes.below(&spec, "conversion", conversion::check);
    stored_versions(object, &spec, &mut causes);
    causes
}

/// What a new definition keeps besides.
pub(crate) fn check_create(object: &Value) -> Causes {
    let mut causes = Causes::default();
    causes.extend(Approval::of(object).and_then(|approval| approval.cause()));
    preserve_unknown(object, &mut causes);
    causes.extend(conversion::review_versions(object));
    causes.extend(rules(object));
    causes
}

/// What an update may not change. Scope and kind are part of what is stored once there may be
/// objects.
pub(crate) fn check_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut paths = vec![["spec", "group"].as_slice(), &["spec", "names", "plural"]];
    let mut conditions = object::items(old, &["status", "conditions"]).iter();
    if conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
        paths.splice(
            0..0,
            [["spec", "scope"].as_slice(), &["spec", "names", "kind"]],
        );
    }
    for path in paths {
        causes.extend(unchanged(old, new, path));
    }
    // A definition that was not approved before may stay so.
    let state = |object| Approval::of(object).map(|approval| approval.state);
    if state(old) != state(new) {
        causes.extend(Approval::of(new).and_then(|approval| approval.cause()));
    }
    if object::at(old, &["spec", "preserveUnknownFields"]) != Some(&Value::Bool(true)) {
        preserve_unknown(new, &mut causes);
    }
    causes.extend(conversion::check_update(old, new));
    // What was stored before may stay.
    let before = rules(old);
    let wrong = rules(new).into_iter();
    causes.extend(wrong.filter(|cause| !before.contains(cause)));
    causes
}

/// What is wrong with the rules in CEL of all versions.
fn rules(object: &Value) -> Vec<Cause> {
    let versions = object::items(object, &["spec", "versions"]);
    let of_version = |(index, version): (usize, &Value)| {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let schema = object::at(version, &["schema", "openAPIV3Schema"])?;
        // What is wrong with the schema itself is told elsewhere.
        let schema = Schema::parse_at(&field, schema).ok()?;
        Some(schema.check_rules(&field))
    };
    let causes = versions.iter().enumerate().filter_map(of_version);
    causes.flatten().collect()
}

fn versions(spec: &FieldValue, causes: &mut Causes) {
    let mut seen = BTreeSet::new();
    let (mut stored, mut twice) = (0, false);
    causes.each(spec, "versions", |causes, version| {
        let name = version.text("name");
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            causes.wrong_text(version, "name", &wrong.join(","));
        }
        let field = version.path_of("schema.openAPIV3Schema");
        match object::at(version.value, &["schema", "openAPIV3Schema"]) {
            Some(schema) => {
                causes.extend(Schema::parse_at(&field, schema).err().into_iter().flatten());
            }
            None => causes.push(Cause::required(&field, "")),
        }
        if version.has("deprecationWarning") && !version.flag("deprecated") {
            let why = "can only be set for deprecated versions";
            causes.wrong(version, "deprecationWarning", why);
        }
        causes.below(version, "subresources", subresources);
        causes.each(version, "additionalPrinterColumns", column);
        selectable(version, causes);
        stored += usize::from(version.flag("storage"));
        twice |= !seen.insert(name);
    });
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

/// Why a path is not in the dot notation.
fn not_simple(path: &str) -> Option<&'static str> {
    (!path.starts_with('.')).then_some("must be a simple json path starting with .")
}

fn stored_versions(object: &Value, spec: &FieldValue, causes: &mut Causes) {
    const FIELD: &str = "status.storedVersions";
    let stored = object::items(object, &["status", "storedVersions"]);
    if stored.is_empty() {
        let why = "must have at least one stored version";
        causes.push(Cause::invalid(FIELD, &Value::Null, why));
        return;
    }
    let versions = spec.items("versions");
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let name = version["name"].as_str().unwrap_or_default();
            let why = format!("must have the storage version {name}");
            causes.push(Cause::invalid(FIELD, &stored.into(), &why));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let text = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {text} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {text} and removes {text} from status.storedVersions"
            );
            causes.push(Cause::invalid(&format!("{FIELD}[{at}]"), name, &why));
        }
    }
}

fn called(names: &FieldValue, causes: &mut Causes) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let text = names.text(key);
        let mixed = key.ends_with("ind");
        let wrong = if mixed {
            name::dns1035_label(&text.to_lowercase())
        } else {
            name::dns1035_label(text)
        };
        if !text.is_empty() && !wrong.is_empty() {
            let may = "may have mixed case, but should otherwise match: ";
            let why = format!("{}{}", if mixed { may } else { "" }, wrong.join(","));
            causes.wrong(names, key, &why);
        }
    }
    labels(names, "shortNames", causes);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let why = "kind and listKind may not be the same";
        causes.wrong(names, "listKind", why);
    }
    labels(names, "categories", causes);
}

/// A list of DNS labels.
fn labels(names: &FieldValue, key: &str, causes: &mut Causes) {
    causes.each(names, key, |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        let wrong = name::dns1035_label(text);
        if !wrong.is_empty() {
            causes.push(Cause::invalid(&one.path, one.value, &wrong.join(",")));
        }
    });
}

fn preserve_unknown(object: &Value, causes: &mut Causes) {
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    if spec.flag("preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        causes.wrong(&spec, "preserveUnknownFields", why);
    }
}
