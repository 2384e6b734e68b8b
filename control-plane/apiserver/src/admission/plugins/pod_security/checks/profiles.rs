//! The profiles that confine containers: AppArmor, seccomp, SELinux.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use super::Violation;
use super::pod::{Pod, containers_named, context, name, plural, present, quoted};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The types of profiles that confine.
const CONFINING: [&str; 2] = ["RuntimeDefault", "Localhost"];
/// The types of SELinux for containers; empty for the default.
const SE_LINUX_TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
/// A type that was added to them.
const SE_LINUX_ENGINE: &str = "container_engine_t";

const SECCOMP: &str = "seccompProfile";

/// AppArmor profiles that do not confine.
pub(super) fn app_armor(pod: &Pod) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut setters = pod.setters_where(|context| {
        let value = unconfined(context, "appArmorProfile");
        values.extend(value);
        value.is_some()
    });
    let is_allowed = |value: &str| {
        value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
    };
    let mut annotations: Vec<_> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(object::APP_ARMOR) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    annotations.sort();
    if !annotations.is_empty() {
        let what = plural(annotations.len(), "annotation", "annotations");
        setters.push(what.to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let mut values: Vec<String> = values.into_iter().map(str::to_owned).collect();
    values.append(&mut annotations);
    let setters = setters.join(" and ");
    Some(Violation {
        reason: plural(
            values.len(),
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
        ),
        detail: format!(
            "{setters} must not set AppArmor profile type to {}",
            quoted(values)
        ),
    })
}

/// Annotations with seccomp profiles that do not confine.
pub(super) fn seccomp_annotations(pod: &Pod) -> Option<Violation> {
    let of_containers = pod
        .containers()
        .map(|one| format!("{SECCOMP_PREFIX}{}", name(one)));
    let mut keys: BTreeSet<String> = of_containers.collect();
    keys.insert(SECCOMP_POD.to_owned());
    let is_allowed = |value: &str| {
        ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/")
    };
    let wrong = pod
        .annotations()
        .filter(|(key, value)| keys.contains(*key) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"));
    let wrong: BTreeSet<String> = wrong.collect();
    if wrong.is_empty() {
        return None;
    }
    let what = plural(wrong.len(), "annotation", "annotations");
    let wrong: Vec<_> = wrong.into_iter().collect();
    Some(Violation {
        reason: SECCOMP,
        detail: format!("forbidden {what} {}", wrong.join(", ")),
    })
}

/// Seccomp profiles that do not confine.
pub(super) fn seccomp(pod: &Pod) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let setters = pod.setters_where(|context| {
        let value = unconfined(context, SECCOMP);
        values.extend(value);
        value.is_some()
    });
    if setters.is_empty() {
        return None;
    }
    let (setters, values) = (setters.join(" and "), quoted(values));
    Some(Violation {
        reason: SECCOMP,
        detail: format!("{setters} must not set securityContext.seccompProfile.type to {values}"),
    })
}

/// Containers without a seccomp profile that confines.
pub(super) fn seccomp_required(pod: &Pod) -> Option<Violation> {
    let wrong = seccomp(pod);
    let has = |of: &Value| context(of).is_some_and(|context| present(context, SECCOMP).is_some());
    if wrong.is_some() || has(pod.spec) {
        return wrong;
    }
    let without = pod.containers_where(|container| !has(container));
    if without.is_empty() {
        return None;
    }
    let without = containers_named(&without);
    Some(Violation {
        reason: SECCOMP,
        detail: format!(
            "pod or {without} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    })
}

/// SELinux options that widen what a container may do. Newer versions allow one more type.
pub(super) fn se_linux(pod: &Pod, engine: bool) -> Option<Violation> {
    let is_allowed =
        |value: &str| SE_LINUX_TYPES.contains(&value) || engine && value == SE_LINUX_ENGINE;
    let mut types = BTreeSet::new();
    let (mut users, mut roles) = (false, false);
    let setters = pod.setters_where(|context| {
        let text = |key| object::text(context, &["seLinuxOptions", key]);
        let wrong_type = !is_allowed(text("type"));
        if wrong_type {
            types.insert(text("type"));
        }
        let (user, role) = (!text("user").is_empty(), !text("role").is_empty());
        users |= user;
        roles |= role;
        wrong_type || user || role
    });
    if setters.is_empty() {
        return None;
    }
    let mut wrong = Vec::new();
    if !types.is_empty() {
        let what = plural(types.len(), "type", "types");
        wrong.push(format!("{what} {}", quoted(types)));
    }
    if users {
        wrong.push("user may not be set".to_owned());
    }
    if roles {
        wrong.push("role may not be set".to_owned());
    }
    let (setters, wrong) = (setters.join(" and "), wrong.join("; "));
    Some(Violation {
        reason: "seLinuxOptions",
        detail: format!("{setters} set forbidden securityContext.seLinuxOptions: {wrong}"),
    })
}

/// The type of a security context's profile, if it does not confine.
fn unconfined<'a>(context: &'a Value, profile: &str) -> Option<&'a str> {
    let value = object::text(present(context, profile)?, &["type"]);
    (!CONFINING.contains(&value)).then_some(value)
}
