//! The users of a pod: those of the host, or its own.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::{LISTS_AS_VISITED, Pod};
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const WHY: &str = "when `hostUsers` is false";

/// Fields that need the users of the host.
pub(super) fn check(pod: &Pod, causes: &mut Causes) {
    let spec = &pod.spec;
    if are_shared(spec) {
        return;
    }
    let in_network = !pod.exceptions.users_in_host_network;
    for (key, shown, is_wrong) in [
        ("hostNetwork", "hostNetwork", in_network),
        ("hostPID", "HostPID", true),
        ("hostIPC", "HostIPC", true),
    ] {
        if is_wrong && spec.flag(key) {
            causes.push(Cause::forbidden(&spec.path_of(shown), WHY));
        }
    }
    if pod.exceptions.users_with_devices {
        return;
    }
    for list in LISTS_AS_VISITED {
        causes.each(spec, list, |causes, container| {
            causes.forbidden(container, "volumeDevices", WHY);
        });
    }
}

/// True unless the pod has users of its own.
pub(super) fn are_shared(spec: &FieldValue) -> bool {
    spec.get("hostUsers") != Some(&Value::Bool(false))
}

/// True if a container has block devices.
pub(super) fn has_devices(spec: &FieldValue) -> bool {
    let mut containers = LISTS_AS_VISITED.iter().flat_map(|list| spec.items(list));
    containers.any(|one| !object::items(one, &["volumeDevices"]).is_empty())
}
