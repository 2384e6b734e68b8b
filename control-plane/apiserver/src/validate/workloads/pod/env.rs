//! The environment of a container, and the fields of pods and objects in it.

use std::collections::BTreeMap;

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use super::{LISTS_AS_VISITED, Pod, paths};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

/// Pod fields that a variable may refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Pod fields that a file may refer to.
pub(super) const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Pod fields that exist, but that neither may refer to.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["requests.hugepages-", "limits.hugepages-"];
const BYTES: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];
/// Sources of a variable's value.
const ORIGINS: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

pub(super) fn check(container: &FieldValue, causes: &mut Causes) {
    causes.each(container, "env", |causes, variable| {
        causes.must_be_named(variable, "name", variable_name);
        value_from(variable, causes);
    });
    let field = container.path_of("envFrom");
    causes.each(container, "envFrom", |causes, from| {
        causes.named(from, "prefix", variable_name);
        let mut count = 0;
        for key in ["configMapRef", "secretRef"] {
            causes.below(from, key, |causes, reference| {
                count += 1;
                causes.must_be_named(reference, "name", name::dns1123_subdomain);
            });
        }
        let why = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => return,
            _ => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(&field, &"".into(), why));
    });
}

fn variable_name(name: &str) -> Vec<String> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '=';
    if name.chars().all(plain) {
        Vec::new()
    } else {
        vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()]
    }
}

fn value_from(variable: &FieldValue, causes: &mut Causes) {
    let Some(from) = variable.child("valueFrom") else {
        return;
    };
    let given = ORIGINS.iter().filter(|key| from.has(key)).count();
    causes.below(&from, "fieldRef", |causes, field| {
        field_ref(field, &FIELDS, causes);
    });
    causes.below(&from, "resourceFieldRef", |causes, resource| {
        resource_field_ref(resource, false, causes);
    });
    for key in ["configMapKeyRef", "secretKeyRef"] {
        causes.below(&from, key, |causes, reference| {
            let its_name = reference.text("name");
            let wrong = name::dns1123_subdomain(its_name);
            causes.extend(named(&reference.path_of("name"), its_name, wrong));
            causes.must_be_named(reference, "key", name::config_map_key);
        });
    }
    causes.below(&from, "fileKeyRef", |causes, file| {
        causes.must_be_named(file, "key", variable_name);
        causes.must_be_named(file, "volumeName", name::dns1123_label);
        if causes.required(file, "path") {
            paths::no_way_up(file, "path", causes);
        }
    });
    let why = if given == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !variable.text("value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if given > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    causes.push(Cause::invalid(&from.path, &"".into(), why));
}

/// A reference to a pod field.
pub(super) fn field_ref(field: &FieldValue, known: &[&str], causes: &mut Causes) {
    if !causes.required(field, "apiVersion") || !causes.required(field, "fieldPath") {
        return;
    }
    let (version, path) = (field.text("apiVersion"), field.text("fieldPath"));
    let subscript = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"));
    let map = |path: &str| ["metadata.annotations", "metadata.labels"].contains(&path);
    let exists = map(path) || [&FIELDS[..], &OTHER_FIELDS].concat().contains(&path);
    let why = match subscript {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some((path, key)) if map(path) => {
            let key = match path {
                "metadata.annotations" => key.to_ascii_lowercase(),
                _ => key.to_owned(),
            };
            let wrong = name::qualified_name(&key);
            return causes.extend(named(&field.path, &key, wrong));
        }
        Some(_) => format!("field label does not support subscript: {path}"),
        // The name that clients of long ago have for it.
        None if path == "spec.host" => {
            if !known.contains(&"spec.nodeName") {
                let field = field.path_of("fieldPath");
                causes.push(Cause::not_supported(&field, &"spec.nodeName".into(), known));
            }
            return;
        }
        None if known.contains(&path) => return,
        None if exists => return causes.unknown(field, "fieldPath", known),
        None => format!("field label not supported: {path}"),
    };
    let why = format!("error converting fieldPath: {why}");
    causes.wrong(field, "fieldPath", &why);
}

/// A reference to a container's resource. In a volume, it must name the container.
pub(super) fn resource_field_ref(reference: &FieldValue, volume: bool, causes: &mut Causes) {
    let resource = reference.text("resource");
    let huge = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if volume && reference.text("containerName").is_empty() {
        causes.required(reference, "containerName");
    } else if causes.required(reference, "resource") && !RESOURCES.contains(&resource) && !huge {
        causes.unknown(reference, "resource", &RESOURCES);
    }
    divisor(reference, causes);
}

fn divisor(reference: &FieldValue, causes: &mut Causes) {
    let text = reference.text("divisor");
    if Quantity::parse(text).map_or(true, Quantity::is_zero) {
        return;
    }
    let resource = reference.text("resource");
    let (what, known): (&str, &[&str]) = match resource.split_once('.') {
        Some(("limits" | "requests", "cpu")) => ("cpu", &["1m", "1"]),
        Some(("limits" | "requests", "memory")) => ("memory", &BYTES),
        Some(("limits" | "requests", "ephemeral-storage")) => ("local ephemeral storage", &BYTES),
        Some(("limits" | "requests", other)) if other.starts_with("hugepages-") => {
            ("hugepages", &BYTES)
        }
        _ => return,
    };
    if !known.contains(&text) {
        let list = match what {
            "cpu" => "1m and 1".to_owned(),
            _ => known.join(", "),
        };
        let why = format!("only divisor's values {list} are supported with the {what} resource");
        let field = reference.path_of("divisor");
        causes.push(Cause::invalid(&field, &resource.into(), &why));
    }
}

/// Files with variables must be in `emptyDir` volumes.
pub(super) fn file_volumes(pod: &Pod, causes: &mut Causes) {
    let volumes = pod.spec.items("volumes").iter();
    let volumes: BTreeMap<&str, &Value> = volumes
        .map(|volume| (object::text(volume, &["name"]), volume))
        .collect();
    for list in LISTS_AS_VISITED {
        causes.each(&pod.spec, list, |causes, container| {
            causes.each(container, "env", |causes, variable| {
                let from = variable.child("valueFrom");
                let Some(file) = from.and_then(|from| from.child("fileKeyRef")) else {
                    return;
                };
                let wanted = file.text("volumeName");
                match volumes.get(wanted) {
                    None => {
                        let field = file.path_of("volumeName");
                        causes.push(Cause::not_found(&field, &wanted.into()));
                    }
                    Some(volume) if volume.get("emptyDir").is_none() => {
                        let why = "referenced volume must be of type emptyDir";
                        causes.wrong_text(&file, "volumeName", why);
                    }
                    Some(_) => {}
                }
            });
        });
    }
}
