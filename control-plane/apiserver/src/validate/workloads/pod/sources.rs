//! Sources of volumes: keys of secrets and config maps, pod fields and tokens.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;

use super::env;
use super::paths::inside;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// The permissions of a file.
const MODE_MAX: i64 = 0o777;
const WRONG_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const SAME_PATH: &str = "conflicting duplicate paths";
/// Bounds of a token's lifetime, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

fn mode(at: &FieldValue, key: &str, causes: &mut Causes) {
    let mode = at.integer(key);
    if mode.is_some_and(|mode| !(0..=MODE_MAX).contains(&mode)) {
        causes.wrong(at, key, WRONG_MODE);
    }
}

/// A secret or config map as a volume.
pub(super) fn keys(source: &FieldValue, causes: &mut Causes) {
    mode(source, "defaultMode", causes);
    causes.each(source, "items", key_to_path);
}

fn key_to_path(causes: &mut Causes, item: &FieldValue) {
    causes.required(item, "key");
    causes.required(item, "path");
    inside(item, "path", causes);
    mode(item, "mode", causes);
}

/// Pod fields as a volume.
pub(super) fn downward(source: &FieldValue, causes: &mut Causes) {
    mode(source, "defaultMode", causes);
    causes.each(source, "items", |causes, item| {
        // Kubernetes does not name the item.
        file(&FieldValue::new(source.path.as_str(), item.value), causes);
    });
}

fn file(file: &FieldValue, causes: &mut Causes) {
    causes.required(file, "path");
    inside(file, "path", causes);
    match (file.child("fieldRef"), file.child("resourceFieldRef")) {
        (Some(field), other) => {
            env::field_ref(&field, &env::VOLUME_FIELDS, causes);
            if other.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.push(Cause::invalid(&file.path, &"resource".into(), why));
            }
        }
        (None, Some(resource)) => env::resource_field_ref(&resource, true, causes),
        (None, None) => {
            let why = "one of fieldRef and resourceFieldRef is required";
            causes.push(Cause::required(&file.path, why));
        }
    }
    mode(file, "mode", causes);
}

/// Several sources in one volume. A token may be at any path if the pod had a wrong one before.
pub(super) fn projected(volume: &FieldValue, any_path: bool, causes: &mut Causes) {
    mode(volume, "defaultMode", causes);
    let mut paths = BTreeSet::new();
    causes.each(volume, "sources", |causes, source| {
        let mut count = 0;
        for key in ["secret", "configMap", "downwardAPI"] {
            let Some(from) = source.child(key) else {
                continue;
            };
            count += 1;
            if key != "downwardAPI" {
                causes.required(&from, "name");
            }
            for item in from.each("items") {
                if causes.is_full() {
                    break;
                }
                match key {
                    "downwardAPI" => file(&FieldValue::new(from.path.as_str(), item.value), causes),
                    _ => key_to_path(causes, &item),
                }
                let path = item.text("path");
                if !path.is_empty() && !paths.insert(path) {
                    let shown = match key {
                        "downwardAPI" => path,
                        _ => from.text("name"),
                    };
                    causes.push(Cause::invalid(&volume.path, &shown.into(), SAME_PATH));
                }
            }
        }
        if let Some(from) = source.child("serviceAccountToken") {
            count += 1;
            token(volume, &from, any_path, causes);
        }
        for key in ["clusterTrustBundle", "podCertificate"] {
            count += usize::from(source.has(key));
        }
        if count > 1 {
            let why = "may not specify more than 1 volume type per source";
            causes.push(Cause::forbidden(&source.path, why));
        }
    });
}

/// True if a token is at a path outside its volume.
pub(super) fn has_wrong_token_paths(spec: &FieldValue) -> bool {
    let volumes = spec.items("volumes").iter();
    let sources = volumes.flat_map(|one| object::items(one, &["projected", "sources"]));
    let mut causes = Causes::default();
    for token in sources.filter_map(|source| source.get("serviceAccountToken")) {
        inside(&FieldValue::new("", token), "path", &mut causes);
    }
    !causes.is_empty()
}

fn token(volume: &FieldValue, token: &FieldValue, any_path: bool, causes: &mut Causes) {
    const SECONDS: &str = "expirationSeconds";
    let seconds = token.number(SECONDS);
    if seconds < TOKEN_SECONDS_MIN {
        let why = "may not specify a duration less than 10 minutes";
        causes.wrong(token, SECONDS, why);
    }
    if seconds > TOKEN_SECONDS_MAX {
        let why = "may not specify a duration larger than 2^32 seconds";
        causes.wrong(token, SECONDS, why);
    }
    // Kubernetes reports the volume's path.
    let told = FieldValue::new(volume.path.as_str(), token.value);
    if causes.required(&told, "path") && !any_path {
        inside(&told, "path", causes);
    }
}
