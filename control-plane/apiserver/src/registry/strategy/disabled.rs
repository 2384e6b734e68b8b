//! Fields of pods whose feature Kubernetes has off by default: a write leaves them out, unless the
//! object has them already.

use machinery::object;
use serde_json::Value;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Drops the fields from the spec of a pod or of a template, given the spec before the write.
pub(super) fn drop_from(old: Option<&Value>, spec: &mut Value) {
    if old.is_none_or(|old| old.get("schedulingGroup").is_none()) {
        object::remove(spec, &["schedulingGroup"]);
    }
    if !old.is_some_and(has_signals) {
        drop_signals(spec);
    }
    for key in CERTIFICATES {
        if !old.is_some_and(|old| has_source(old, key)) {
            sources_of(spec, |source| drop(object::remove(source, &[key])));
        }
    }
}

/// Drops the fields from the status of a pod, given the status before the write.
pub(super) fn drop_from_status(old: Option<&Value>, status: &mut Value) {
    if old.is_none_or(|old| object::items(old, &[DEVICES]).is_empty()) {
        object::remove(status, &[DEVICES]);
    }
    if old.is_some_and(has_volume_status) {
        return;
    }
    for list in STATUSES {
        let containers = status.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.get_mut("volumeMounts");
            let mounts = mounts.and_then(Value::as_array_mut).into_iter().flatten();
            mounts.for_each(|mount| drop(object::remove(mount, &[VOLUME_STATUS])));
        }
    }
}

const STATUSES: [&str; 3] = [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];
/// What the node's own resources are taken by that devices stand for.
const DEVICES: &str = "nodeAllocatableResourceClaimStatuses";
/// Which image a volume was made of.
const VOLUME_STATUS: &str = "volumeStatus";

fn has_volume_status(status: &Value) -> bool {
    let mut containers = STATUSES
        .iter()
        .flat_map(|list| object::items(status, &[list]));
    containers.any(|one| {
        let mut mounts = object::items(one, &["volumeMounts"]).iter();
        mounts.any(|mount| mount.get(VOLUME_STATUS).is_some())
    })
}

/// Certificates of authorities, and of the pod itself, as a volume.
const CERTIFICATES: [&str; 2] = ["clusterTrustBundle", "podCertificate"];
/// The signal that stops a container.
const SIGNAL: [&str; 2] = ["lifecycle", "stopSignal"];

fn has_signals(spec: &Value) -> bool {
    let mut all = CONTAINERS
        .iter()
        .flat_map(|list| object::items(spec, &[list]));
    all.any(|container| object::at(container, &SIGNAL).is_some())
}

fn drop_signals(spec: &mut Value) {
    for list in CONTAINERS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let had = object::remove(container, &SIGNAL).is_some();
            let rest = container.get("lifecycle").and_then(Value::as_object);
            if had && rest.is_some_and(|rest| rest.is_empty()) {
                object::remove(container, &["lifecycle"]);
            }
        }
    }
}

fn has_source(spec: &Value, key: &str) -> bool {
    let volumes = object::items(spec, &["volumes"]).iter();
    let mut sources = volumes.flat_map(|one| object::items(one, &["projected", "sources"]));
    sources.any(|source| source.get(key).is_some())
}

/// Runs `act` on each source of the projected volumes.
fn sources_of(spec: &mut Value, act: impl Fn(&mut Value)) {
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        let sources = volume.pointer_mut("/projected/sources");
        let sources = sources.and_then(Value::as_array_mut);
        sources.into_iter().flatten().for_each(&act);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_a_feature_that_is_off_stays_only_where_it_was() {
        let full = json!({
            "schedulingGroup": {},
            "containers": [
                {"name": "a", "lifecycle": {"stopSignal": "SIGTERM"}},
                {"name": "b", "lifecycle": {"stopSignal": "SIGTERM", "preStop": {}}},
            ],
            "volumes": [{"projected": {"sources": [
                {"clusterTrustBundle": {"path": "p"}}, {"podCertificate": {"keyPath": "k"}},
            ]}}],
        });
        let mut spec = full.clone();
        drop_from(None, &mut spec);
        assert_eq!(
            spec,
            json!({
                "containers": [{"name": "a"}, {"name": "b", "lifecycle": {"preStop": {}}}],
                "volumes": [{"projected": {"sources": [{}, {}]}}],
            })
        );
        let mut spec = full.clone();
        drop_from(Some(&full), &mut spec);
        assert_eq!(spec, full);
    }

    #[test]
    fn so_does_one_of_a_status() {
        let mount = json!({"name": "v", "volumeStatus": {"image": {"imageRef": "r"}}});
        let full = json!({
            "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}],
            "containerStatuses": [{"name": "a", "volumeMounts": [mount]}],
        });
        let mut status = full.clone();
        drop_from_status(Some(&json!({})), &mut status);
        let rest = json!({"containerStatuses": [{"name": "a", "volumeMounts": [{"name": "v"}]}]});
        assert_eq!(status, rest);
        let mut status = full.clone();
        drop_from_status(Some(&full), &mut status);
        assert_eq!(status, full);
    }
}
