//! Names, labels, annotations, owners and finalizers: the same rules for every kind.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::words::maps;
use super::{Causes, named};
use crate::resources::catalogue::Resource;

/// Upper bound of the owners that an error shows.
const OWNERS_SHOWN: usize = 64;

/// Checks the metadata of an update. The server restores name and identity itself.
///
/// Kubernetes checks the rules for all kinds, and then each kind checks them again, some even
/// twice. Clients get each error as often.
pub(super) fn check_update(resource: &Resource, old: &Value, new: &Value) -> Causes {
    let mut causes = check(resource, name::path_segment, new);
    causes.extend(changed(old, new));
    causes.extend(changed(old, new));
    causes
}

/// Checks the metadata of an object by the rules for all kinds, with a rule for the name.
pub(super) fn check(resource: &Resource, rule: fn(&str) -> Vec<String>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let name = object::name(object);
    let prefix = object::generate_name(object);
    if !prefix.is_empty() {
        // A suffix follows, so the prefix may end with a dash.
        let begun = match prefix.strip_suffix('-') {
            Some(begun) => format!("{begun}a"),
            None => prefix.to_owned(),
        };
        causes.extend(named("metadata.generateName", prefix, rule(&begun)));
    }
    if name.is_empty() {
        let why = "name or generateName is required";
        causes.push(Cause::required("metadata.name", why));
    } else {
        causes.extend(named("metadata.name", name, rule(name)));
    }
    let namespace = object::namespace(object);
    if resource.kind.namespaced() {
        let wrong = name::dns1123_label(namespace);
        causes.extend(named("metadata.namespace", namespace, wrong));
    }
    causes.extend(maps(object));
    causes.extend(owners(object));
    causes.extend(finalizers(object));
    causes
}

/// Checks what an update changes.
fn changed(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if object::is_deleting(old) {
        let had: BTreeSet<&str> = object::finalizers(old).collect();
        let added: BTreeSet<&str> = object::finalizers(new)
            .filter(|one| !had.contains(one))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|one| format!("{one:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    for key in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let path = ["metadata", key];
        if let Some(given) = object::at(new, &path)
            && object::at(old, &path) != Some(given)
        {
            let why = "field is immutable";
            causes.push(Cause::invalid(&path.join("."), given, why));
        }
    }
    causes.extend(maps(new));
    causes.extend(owners(new));
    causes
}

fn maps(object: &Value) -> Causes {
    let mut causes = maps::labels("metadata.labels", object::labels(object));
    let map = object::annotations(object);
    causes.extend(maps::annotations("metadata.annotations", map));
    causes
}

fn owners(object: &Value) -> Causes {
    const FIELD: &str = "metadata.ownerReferences";
    let mut causes = Causes::default();
    let mut controller: Option<String> = None;
    let owners = object::owner_references(object);
    for owner in owners {
        if causes.is_full() {
            break;
        }
        let text = |key| object::text(owner, &[key]);
        for (key, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(key).is_empty() {
                causes.push(Cause::invalid(&format!("{FIELD}.{key}"), &"".into(), why));
            }
        }
        if is_unversioned(text("apiVersion")) {
            let shown = text("apiVersion").into();
            let field = format!("{FIELD}.apiVersion");
            causes.push(Cause::invalid(&field, &shown, "version must not be empty"));
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_shown(FIELD, &owner_shown(owner), why));
        }
        if owner["controller"] != true {
            continue;
        }
        let its_name = format!("{}/{}", text("kind"), text("name"));
        let Some(first) = &controller else {
            controller = Some(its_name);
            continue;
        };
        let shown: Vec<String> = owners.iter().take(OWNERS_SHOWN).map(owner_shown).collect();
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {its_name}"
        );
        let shown = format!("[{}]", shown.join(","));
        causes.push(Cause::invalid_shown(FIELD, &shown, &why));
    }
    causes
}

/// True if a text that is not empty has no version of a group.
fn is_unversioned(api_version: &str) -> bool {
    api_version.ends_with('/') || api_version.matches('/').count() > 1
}

/// An owner in the order of Go's fields.
fn owner_shown(owner: &Value) -> String {
    let keys = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let fields = keys.iter().filter_map(|key| {
        let value = owner.get(key)?;
        Some(format!("{key:?}:{value}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A finalizer is a known one, or has a domain before a slash.
pub(super) fn standard_finalizer(field: &str, finalizer: &str) -> Option<Cause> {
    let plain = ["orphan", "foregroundDeletion", "kubernetes"];
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let good = finalizer.contains('/') || plain.contains(&finalizer);
    (!good).then(|| Cause::invalid(field, &finalizer.into(), why))
}

/// Checks that each finalizer is a known one or has a domain.
pub(super) fn standard_finalizers(object: &Value) -> Causes {
    let all = object::finalizers(object).enumerate();
    all.filter_map(|(at, finalizer)| {
        standard_finalizer(&format!("metadata.finalizers[{at}]"), finalizer)
    })
    .collect()
}

fn finalizers(object: &Value) -> Causes {
    let mut causes = Causes::default();
    for finalizer in object::finalizers(object) {
        let field = "metadata.finalizers";
        causes.extend(named(field, finalizer, name::qualified_name(finalizer)));
    }
    let has = |one: &str| object::has_finalizer(object, one);
    if has("orphan") && has("foregroundDeletion") {
        let list = Value::from(object::finalizers(object).collect::<Vec<_>>());
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &list, why));
    }
    causes
}
