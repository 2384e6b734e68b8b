//! Security contexts: the users of containers, and their privileges on the node.

mod windows;

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::{LISTS_AS_VISITED, Pod, host_users, paths};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, words::shown};

/// The error for a privileged container.
pub(crate) const PRIVILEGED: &str = "disallowed by cluster policy";
/// The error for a process of the host.
pub(crate) const HOST_PROCESS: &str = "hostProcess containers are disallowed by cluster policy";
const ID_MAX: i64 = i32::MAX as i64;
const PROC_MOUNTS: [&str; 2] = ["Default", "Unmasked"];
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const LABEL_POLICY: &str = "seLinuxChangePolicy";
const SYSCTL_BYTES_MAX: usize = 253;
/// Sysctls of the namespace for communication between processes, besides those below `fs.mqueue`.
const SYSCTLS_OF_IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];
/// Upper bound of the name of a profile of AppArmor: that of a path on Linux.
const PROFILE_BYTES_MAX: usize = 4095;
const CONTEXT: [shown::Field; 12] = [
    ("Capabilities", "capabilities", "null"),
    ("Privileged", "privileged", "null"),
    ("SELinuxOptions", "seLinuxOptions", "null"),
    ("WindowsOptions", "windowsOptions", "null"),
    ("RunAsUser", "runAsUser", "null"),
    ("RunAsGroup", "runAsGroup", "null"),
    ("RunAsNonRoot", "runAsNonRoot", "null"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", "null"),
    (
        "AllowPrivilegeEscalation",
        "allowPrivilegeEscalation",
        "null",
    ),
    ("ProcMount", "procMount", "null"),
    ("SeccompProfile", "seccompProfile", "null"),
    ("AppArmorProfile", "appArmorProfile", "null"),
];
/// Fields of a pod that Windows does not support, in the order of errors: in the security context,
/// or (if false) beside it.
const NOT_ON_WINDOWS: [(bool, &str); 15] = [
    (true, "appArmorProfile"),
    (true, "seLinuxOptions"),
    (false, "hostUsers"),
    (false, "hostPID"),
    (false, "hostIPC"),
    (true, "seccompProfile"),
    (true, "fsGroup"),
    (true, "fsGroupChangePolicy"),
    (true, "sysctls"),
    (false, "shareProcessNamespace"),
    (true, "runAsUser"),
    (true, "runAsGroup"),
    (true, "supplementalGroups"),
    (true, "supplementalGroupsPolicy"),
    (true, "seLinuxChangePolicy"),
];
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Numbers of users and groups at some keys, and of supplemental groups.
pub(super) fn ids(at: &FieldValue, keys: &[&str], causes: &mut Causes) {
    for key in keys {
        causes.within(at, key, 0, ID_MAX);
    }
    causes.each(at, "supplementalGroups", |causes, group| {
        let id = group.value.as_i64().unwrap_or_default();
        if !(0..=ID_MAX).contains(&id) {
            let why = format!("must be between 0 and {ID_MAX}, inclusive");
            causes.push(Cause::invalid(&group.path, &id.into(), &why));
        }
    });
}

pub(super) fn of_pod(pod: &Pod, causes: &mut Causes) {
    let spec = &pod.spec;
    causes.below(spec, "securityContext", |causes, context| {
        ids(context, &["fsGroup", "runAsUser", "runAsGroup"], causes);
        if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
            let why = "ShareProcessNamespace and HostPID cannot both be enabled";
            let field = context.path_of("shareProcessNamespace");
            causes.push(Cause::invalid(&field, &true.into(), why));
        }
        sysctls(pod, context, causes);
        causes.word(
            context,
            "fsGroupChangePolicy",
            &["Always", "OnRootMismatch"],
        );
        seccomp(context, causes);
        windows::options(causes, context);
        app_armor(context, causes);
        causes.word(context, "supplementalGroupsPolicy", &["Merge", "Strict"]);
        let labelled: &[&str] = if pod.exceptions.label_policies {
            &["MountOption", "Recursive"]
        } else {
            // The other policy is that of a feature that is off.
            &["Recursive"]
        };
        causes.word(context, LABEL_POLICY, labelled);
    });
}

/// True if the pod says how its volumes get labels of SELinux.
pub(super) fn has_label_policy(spec: &FieldValue) -> bool {
    object::at(spec.value, &["securityContext", LABEL_POLICY]).is_some()
}

/// True if a sysctl would change the node itself.
pub(super) fn has_sysctls_of_host(spec: &FieldValue) -> bool {
    let mut sysctls = object::items(spec.value, &["securityContext", "sysctls"]).iter();
    sysctls.any(|one| shared_with_host(spec, object::text(one, &["name"])).is_some())
}

fn sysctls(pod: &Pod, context: &FieldValue, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    causes.each(context, "sysctls", |causes, sysctl| {
        let name = sysctl.text("name");
        if causes.required(sysctl, "name") {
            if !is_sysctl(name) {
                let why = format!(
                    "must have at most {SYSCTL_BYTES_MAX} characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
                );
                causes.wrong(sysctl, "name", &why);
            } else if names.contains(name) {
                causes.push(Cause::duplicate(&sysctl.path_of("name"), &name.into()));
            }
        }
        let shared = shared_with_host(&pod.spec, name);
        if let Some(why) = shared.filter(|_| !pod.exceptions.sysctls_of_host) {
            causes.wrong(sysctl, "name", why);
        }
        names.insert(name);
    });
}

/// The error for a sysctl of a namespace that the pod shares with the host.
fn shared_with_host(spec: &FieldValue, sysctl: &str) -> Option<&'static str> {
    let plain = with_dots(sysctl);
    // Of a pattern, what is before it counts.
    let plain = plain.split('*').next().unwrap_or_default();
    let of_ipc = SYSCTLS_OF_IPC.contains(&plain) || plain.starts_with("fs.mqueue.");
    if plain.starts_with("net.") && spec.flag("hostNetwork") {
        Some("may not be specified when 'hostNetwork' is true")
    } else if of_ipc && spec.flag("hostIPC") {
        Some("may not be specified when 'hostIPC' is true")
    } else {
        None
    }
}

/// The name of a sysctl with dots between its parts. Where the first separator is a slash, slashes
/// separate parts, and dots belong to them.
fn with_dots(sysctl: &str) -> String {
    let first = sysctl.find(['.', '/']);
    if first.is_none_or(|at| sysctl[at..].starts_with('.')) {
        return sysctl.to_owned();
    }
    let swapped = sysctl.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

fn is_sysctl(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let segment = |text: &str| {
        text.starts_with(plain)
            && text.ends_with(plain)
            && text.chars().all(|c| plain(c) || "-_".contains(c))
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(segment)
}

pub(super) fn of_container(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    let Some(context) = container.child("securityContext") else {
        return;
    };
    if context.flag("privileged") {
        causes.forbidden(&context, "privileged", PRIVILEGED);
    }
    for key in ["runAsUser", "runAsGroup"] {
        causes.within(&context, key, 0, ID_MAX);
    }
    causes.word(&context, "procMount", &PROC_MOUNTS);
    if host_users::are_shared(&pod.spec) && context.text("procMount") == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        causes.wrong(&context, "procMount", why);
    }
    seccomp(&context, causes);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let mut contradicts = |what: &str| {
            let shown = shown::as_go(context.value, &CONTEXT);
            let why = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            causes.push(Cause::invalid_shown(&context.path, &shown, &why));
        };
        if context.flag("privileged") {
            contradicts("`privileged` to true");
        }
        let added = object::items(context.value, &["capabilities", "add"]);
        if added.iter().any(|one| one == "CAP_SYS_ADMIN") {
            contradicts("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    windows::options(causes, &context);
    app_armor(&context, causes);
}

fn seccomp(context: &FieldValue, causes: &mut Causes) {
    let Some(profile) = context.child("seccompProfile") else {
        return;
    };
    const FILE: &str = "localhostProfile";
    match profile.text("type") {
        "" => {
            let why = "type is required when seccompProfile is set";
            causes.push(Cause::required(&profile.path_of("type"), why));
        }
        _ => causes.word(&profile, "type", &PROFILES),
    }
    if profile.text("type") == "Localhost" {
        if profile.has(FILE) {
            paths::descending(&profile, FILE, causes)
        } else {
            let why = "must be set when seccomp type is Localhost";
            causes.push(Cause::required(&profile.path_of(FILE), why));
        }
    } else if profile.has(FILE) {
        let fields = [("Type", "type", "\"\""), ("LocalhostProfile", FILE, "null")];
        let shown = shown::as_go(profile.value, &fields);
        let why = "can only be set when seccomp type is Localhost";
        causes.push(Cause::invalid_shown(&profile.path_of(FILE), &shown, why));
    }
}

fn app_armor(context: &FieldValue, causes: &mut Causes) {
    let Some(profile) = context.child("appArmorProfile") else {
        return;
    };
    const NAME: &str = "localhostProfile";
    let its_name = profile.text(NAME);
    match profile.text("type") {
        "" => {
            let why = "type is required when appArmorProfile is set";
            causes.push(Cause::required(&profile.path_of("type"), why));
        }
        "Localhost" => {
            if its_name.trim() != its_name {
                causes.wrong(&profile, NAME, "must not be padded with whitespace");
            } else if its_name.is_empty() {
                let why = "must be set when AppArmor type is Localhost";
                causes.push(Cause::required(&profile.path_of(NAME), why));
            }
            if its_name.len() > PROFILE_BYTES_MAX {
                let field = profile.path_of(NAME);
                causes.push(Cause::too_long(&field, PROFILE_BYTES_MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" if profile.has(NAME) => {
            let why = "can only be set when AppArmor type is Localhost";
            causes.wrong(&profile, NAME, why);
        }
        _ => causes.word(&profile, "type", &PROFILES),
    }
}

/// Containers that are processes of a Windows host: all of the pod, in the host's network.
pub(super) fn host_processes(spec: &FieldValue, causes: &mut Causes) {
    const PATH: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let says = |of: &FieldValue| object::at(of.value, &PATH).and_then(Value::as_bool);
    let of_pod = says(spec);
    let (mut all, mut processes) = (0_usize, 0_usize);
    for list in LISTS_AS_VISITED {
        causes.each(spec, list, |causes, container| {
            let own = says(container);
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let why = format!(
                    "pod hostProcess value must be identical if both are specified, was {of_pod}"
                );
                let field = container.path_of(&PATH.join("."));
                causes.push(Cause::invalid(&field, &own.into(), &why));
            }
            all += 1;
            processes += usize::from(own.or(of_pod) == Some(true));
        });
    }
    if processes == 0 {
        return;
    }
    if processes != all {
        let why = "If pod contains any hostProcess containers then all containers must be \
                   HostProcess containers";
        causes.push(Cause::invalid(&spec.path, &"".into(), why));
    }
    if !spec.flag("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.push(Cause::invalid(
            &spec.path_of("hostNetwork"),
            &false.into(),
            why,
        ));
    }
    causes.push(Cause::forbidden(&spec.path, HOST_PROCESS));
}

/// Fields that a Linux pod must not set.
pub(super) fn linux(spec: &FieldValue, causes: &mut Causes) {
    let why = "windows options cannot be set for a linux pod";
    causes.below(spec, "securityContext", |causes, context| {
        causes.forbidden(context, "windowsOptions", why);
    });
    contexts(spec, causes, |causes, context| {
        causes.forbidden(context, "windowsOptions", why);
    });
}

/// Fields that a Windows pod must not set.
pub(super) fn not_on_windows(spec: &FieldValue, causes: &mut Causes) {
    let why = "cannot be set for a windows pod";
    let none = FieldValue::new("", &Value::Null);
    let context = spec.child("securityContext").unwrap_or(none);
    for (in_context, key) in NOT_ON_WINDOWS {
        let at = if in_context { &context } else { spec };
        causes.forbidden(at, key, why);
    }
    contexts(spec, causes, |causes, context| {
        for key in NOT_IN_WINDOWS_CONTAINERS {
            causes.forbidden(context, key, why);
        }
    });
}

/// The security contexts of all containers.
fn contexts(spec: &FieldValue, causes: &mut Causes, check: impl Fn(&mut Causes, &FieldValue)) {
    for list in LISTS_AS_VISITED {
        causes.each(spec, list, |causes, container| {
            causes.below(container, "securityContext", |causes, context| {
                check(causes, context);
            });
        });
    }
}
