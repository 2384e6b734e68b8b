//! What containers may do: privileges, capabilities, and the user that they run as.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use super::Violation;
use super::pod::{Pod, containers_named, context, flag, name, present, quoted};

/// Capabilities that containers may add.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The only one of them that restricted containers may add.
const RESTRICTED_CAPABILITIES: [&str; 1] = ["NET_BIND_SERVICE"];

/// Containers that have all privileges.
pub(super) fn privileged(pod: &Pod) -> Option<Violation> {
    let wrong =
        pod.containers_where(|one| context(one).is_some_and(|context| flag(context, "privileged")));
    if wrong.is_empty() {
        return None;
    }
    let wrong = containers_named(&wrong);
    Some(Violation {
        reason: "privileged",
        detail: format!("{wrong} must not set securityContext.privileged=true"),
    })
}

/// Capabilities beyond the default ones.
pub(super) fn added_capabilities(pod: &Pod) -> Option<Violation> {
    let detail = added(pod, &DEFAULT_CAPABILITIES)?;
    Some(Violation {
        reason: "non-default capabilities",
        detail,
    })
}

/// Containers that keep capabilities, or add more than the one that is harmless.
pub(super) fn dropped_capabilities(pod: &Pod) -> Option<Violation> {
    let keeps = |container| {
        let dropped = capabilities(container, "drop");
        !dropped.iter().any(|one| one == "ALL")
    };
    let mut details = Vec::new();
    let wrong = pod.containers_where(keeps);
    if !wrong.is_empty() {
        let wrong = containers_named(&wrong);
        details.push(format!(
            "{wrong} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    details.extend(added(pod, &RESTRICTED_CAPABILITIES));
    (!details.is_empty()).then(|| Violation {
        reason: "unrestricted capabilities",
        detail: details.join("; "),
    })
}

/// Containers whose processes may gain privileges.
pub(super) fn privilege_escalation(pod: &Pod) -> Option<Violation> {
    let wrong = pod.containers_where(|one| {
        let allowed = context(one).and_then(|context| context.get("allowPrivilegeEscalation"));
        allowed != Some(&Value::Bool(false))
    });
    if wrong.is_empty() {
        return None;
    }
    let wrong = containers_named(&wrong);
    Some(Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{wrong} must set securityContext.allowPrivilegeEscalation=false"),
    })
}

/// Containers that see all of `/proc`.
pub(super) fn proc_mount(pod: &Pod) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let wrong = pod.containers_where(|one| {
        let value = context(one).and_then(|context| present(context, "procMount"));
        let value = value.and_then(Value::as_str).unwrap_or("Default");
        let is_wrong = value != "Default";
        if is_wrong {
            values.insert(value);
        }
        is_wrong
    });
    if wrong.is_empty() {
        return None;
    }
    let (wrong, values) = (containers_named(&wrong), quoted(values));
    Some(Violation {
        reason: "procMount",
        detail: format!("{wrong} must not set securityContext.procMount to {values}"),
    })
}

/// Containers that may run as root.
pub(super) fn non_root(pod: &Pod) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let given = |context: &Value| context.get("runAsNonRoot").and_then(Value::as_bool);
    let setters = pod.setters_where(|context| given(context) == Some(false));
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        return Some(Violation {
            reason: REASON,
            detail: format!("{setters} must not set securityContext.runAsNonRoot=false"),
        });
    }
    if context(pod.spec).and_then(given) == Some(true) {
        return None;
    }
    let wrong = pod.containers_where(|one| context(one).and_then(given).is_none());
    if wrong.is_empty() {
        return None;
    }
    let wrong = containers_named(&wrong);
    Some(Violation {
        reason: REASON,
        detail: format!("pod or {wrong} must set securityContext.runAsNonRoot=true"),
    })
}

/// Containers that are told to run as root.
pub(super) fn root_user(pod: &Pod) -> Option<Violation> {
    let setters = pod.setters_where(|context| object::integer(context, &["runAsUser"]) == Some(0));
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    Some(Violation {
        reason: "runAsUser=0",
        detail: format!("{setters} must not set runAsUser=0"),
    })
}

/// The containers that add capabilities beyond those allowed.
fn added(pod: &Pod, allowed: &[&str]) -> Option<String> {
    let mut forbidden = BTreeSet::new();
    let mut wrong = Vec::new();
    for container in pod.containers() {
        let added = capabilities(container, "add").iter();
        let added = added.map(|one| one.as_str().unwrap_or_default());
        let mut bad = added.filter(|one| !allowed.contains(one)).peekable();
        if bad.peek().is_some() {
            wrong.push(name(container));
        }
        forbidden.extend(bad);
    }
    if wrong.is_empty() {
        return None;
    }
    let (wrong, forbidden) = (containers_named(&wrong), quoted(forbidden));
    Some(format!(
        "{wrong} must not include {forbidden} in securityContext.capabilities.add"
    ))
}

fn capabilities<'a>(container: &'a Value, list: &str) -> &'a [Value] {
    object::items(container, &["securityContext", "capabilities", list])
}
