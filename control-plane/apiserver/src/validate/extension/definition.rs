//! CustomResourceDefinitions: names, versions and what each version says beside its schema.

use std::collections::HashSet;

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
mod places;
mod root;
mod versions;

/// What every state keeps.
fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let none = Value::Null;
    let names = FieldValue::new("spec.names", spec.get("names").unwrap_or(&none));
    let group = spec.text("group");
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
    versions::check(&spec, &mut causes);
    for key in ["plural", "singular", "kind", "listKind"] {
        causes.required(&names, key);
    }
    called(&names, &mut causes);
    causes.below(&spec, "conversion", conversion::check);
    stored_versions(object, &spec, &mut causes);
    causes
}

/// What a new definition keeps. Its name is told first, and only here: it never changes.
pub(crate) fn check_create(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let text = |path: &[&str]| object::text(object, path);
    let (own, plural) = (object::name(object), text(&["spec", "names", "plural"]));
    if !own.is_empty() && own != format!("{plural}.{}", text(&["spec", "group"])) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &own.into(), why));
    }
    causes.extend(check(object));
    causes.extend(Approval::of(object).and_then(|approval| approval.cause()));
    preserve_unknown(object, &mut causes);
    causes.extend(conversion::review_versions(object));
    causes.extend(rules(object));
    causes
}

/// What an update may not change. Scope and kind are part of what is stored once there may be
/// objects.
pub(crate) fn check_update(old: &Value, new: &Value) -> Causes {
    let mut causes = check(new);
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
    let before: HashSet<Cause> = rules(old).into_iter().collect();
    let wrong = rules(new).into_iter();
    causes.extend(wrong.filter(|cause| !before.contains(cause)));
    causes
}

/// What is wrong with the rules in CEL of all versions.
fn rules(object: &Value) -> Vec<Cause> {
    let of_version = |(field, schema): (String, &Value)| {
        // What is wrong with the schema itself is told elsewhere.
        let schema = Schema::parse_at(&field, schema).ok()?;
        Some(schema.check_rules(&field))
    };
    let schemas = places::schemas(object::items(object, &["spec", "versions"]));
    let causes = schemas.into_iter().filter_map(of_version);
    causes.flatten().collect()
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
