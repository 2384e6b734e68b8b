//! Custom resource definitions: names and versions. Their schemas are not checked, because custom
//! kinds are not served.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::Causes;
use super::place::Place;

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = Place::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let none = Value::Null;
    let names = Place::new("spec.names", spec.get("names").unwrap_or(&none));
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
    if object::items(object, &["status", "storedVersions"]).is_empty() {
        let why = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", &Value::Null, why));
    }
    causes
}

fn versions(spec: &Place, causes: &mut Causes) {
    let mut seen = BTreeSet::new();
    let (mut stored, mut twice) = (0, false);
    causes.each(spec, "versions", |causes, version| {
        let name = version.text("name");
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            causes.wrong_text(version, "name", &wrong.join(","));
        }
        if object::at(version.value, &["schema", "openAPIV3Schema"]).is_none() {
            let field = version.field("schema.openAPIV3Schema");
            causes.push(Cause::required(&field, ""));
        }
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

fn called(names: &Place, causes: &mut Causes) {
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
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let why = "kind and listKind may not be the same";
        causes.wrong(names, "listKind", why);
    }
}
