//! The rules objects must keep. What the schema says of types was checked when the body was read;
//! here is what it cannot say.

mod address;
mod autoscaler;
mod causes;
pub(crate) mod certificate;
mod config;
mod definition;
mod endpoints;
mod event;
mod ingress;
mod job;
mod meta;
mod network;
mod node;
mod place;
mod pod;
mod policy;
mod priority;
mod quantity;
mod quota;
mod rbac;
mod rolling;
mod schedule;
mod selector;
mod shown;
mod status;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

use std::borrow::Cow;

use machinery::status::Cause;
use serde_json::Value;

use crate::resources::catalogue::Resource;
use crate::resources::convert;

pub(crate) use causes::Causes;
pub(crate) use network::{addresses, checks_health, reached_from_outside};

/// What the cluster leaves open to its owner.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Policy {
    /// Containers may be privileged.
    pub(crate) privileged: bool,
}

impl Policy {
    fn apply(self, causes: &mut Causes) {
        if self.privileged {
            causes.allow(pod::PRIVILEGED);
        }
    }
}

/// Checks a new object.
pub(crate) fn create(resource: &Resource, object: &Value, policy: Policy) -> Causes {
    let mut causes = meta::check(resource, object);
    let stored = stored(resource, object);
    causes.extend(body(resource, &stored));
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => causes.extend(pod::created(object)),
        ("certificates.k8s.io", _) => causes.extend(certificate::check(object)),
        // The newer form of events has rules that the older never had.
        ("events.k8s.io", "Event") => causes.extend(event::new(&stored)),
        _ => {}
    }
    policy.apply(&mut causes);
    causes
}

/// What to warn of when an object is made, though it keeps the rules.
pub(crate) fn warnings(resource: &Resource, object: &Value) -> Option<String> {
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => {
            let wrong = machinery::name::dns1123_label(machinery::object::name(object));
            (!wrong.is_empty()).then(|| {
                format!(
                    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                    wrong.join(" ")
                )
            })
        }
        ("", "Endpoints") => Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into(),
        ),
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+".into()),
        _ => None,
    }
}

/// What is kept of an object and has no effect here, to warn of when it is written.
pub(crate) fn without_effect(resource: &Resource, object: &Value) -> Option<String> {
    const PODS_SECURITY: &str = "pod-security.kubernetes.io/";
    let (group, plural) = (resource.kind.group, resource.kind.plural);
    let what = match (group, plural) {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
        | ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => {
            "its webhooks are not called"
        }
        ("admissionregistration.k8s.io", _) => "its policies are not evaluated",
        ("apiextensions.k8s.io", "customresourcedefinitions") => "its kind is not served",
        ("apiregistration.k8s.io", "apiservices") => "requests are not passed on to it",
        ("flowcontrol.apiserver.k8s.io", _) => "requests are not queued by it",
        ("", "resourcequotas") => "its limits are not enforced",
        ("", "limitranges") => "its limits and defaults are not applied",
        ("resource.k8s.io", _) => "devices are not allocated",
        ("", "namespaces") => {
            let labels = machinery::object::labels(object)?;
            labels.keys().find(|key| key.starts_with(PODS_SECURITY))?;
            "pods are not checked against its pod-security labels"
        }
        _ => return None,
    };
    Some(format!(
        "this server keeps {plural} but does not act on them: {what}"
    ))
}

/// Checks a new state of an object that came through a subresource, or through none.
pub(crate) fn update(
    resource: &Resource,
    subresource: &str,
    (old, new): (&Value, &Value),
    policy: Policy,
) -> Causes {
    let mut causes = meta::check_update(resource, subresource, old, new);
    let (old, new) = (&*stored(resource, old), &*stored(resource, new));
    match subresource {
        "" if tells_changes_first(resource) => {
            causes.extend(changes(resource, old, new));
            causes.extend(body(resource, new));
        }
        "" => {
            causes.extend(body(resource, new));
            causes.extend(changes(resource, old, new));
        }
        "ephemeralcontainers" => {
            causes.extend(body(resource, new));
            causes.extend(pod::visitors(old, new));
        }
        "resize" => {
            causes.extend(body(resource, new));
            causes.extend(pod::resized(old, new));
        }
        _ => causes.extend(status(resource, subresource, old, new)),
    }
    policy.apply(&mut causes);
    causes
}

/// Whether what must not change is told before what must not be.
fn tells_changes_first(resource: &Resource) -> bool {
    let kind = (resource.kind.group, resource.kind.kind);
    [
        ("", "Service"),
        ("", "Secret"),
        ("", "ConfigMap"),
        ("apps", "DaemonSet"),
    ]
    .contains(&kind)
}

/// An object in the form of the store: the rules are about that one.
fn stored<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    match convert::is_same(resource) {
        true => Cow::Borrowed(object),
        false => Cow::Owned(convert::to_stored(resource, object.clone())),
    }
}

/// What a new status, or the end of a namespace, may say.
fn status(resource: &Resource, subresource: &str, old: &Value, new: &Value) -> Causes {
    let (group, kind) = (resource.kind.group, resource.kind.kind);
    match (group, kind) {
        ("", "Namespace") => node::namespace_status(old, new),
        ("", "Node") => node::status(new)
            .into_iter()
            .chain(node::node_update(old, new))
            .collect(),
        ("", "ResourceQuota") => quota::quota_status(new),
        ("certificates.k8s.io", _) => certificate::update(subresource, old, new),
        _ => status::check(group, kind, old, new),
    }
}

fn body(resource: &Resource, object: &Value) -> Causes {
    let kind = resource.kind.kind;
    match (resource.kind.group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(object, "template"),
        ("apps", _) | ("", "ReplicationController") => workload::check(kind, object),
        ("batch", _) => job::check(kind, object),
        ("", "Service") => network::service(object),
        ("", "Endpoints") => endpoints::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice(object),
        ("networking.k8s.io", "Ingress") => ingress::check(object),
        ("", "Secret") => config::secret(object),
        ("", "ConfigMap") => config::config_map(object),
        ("", "Event") => event::check(object, false),
        ("events.k8s.io", "Event") => event::check(object, true),
        ("coordination.k8s.io", "Lease") => config::lease(object),
        ("", "Node") => node::node(object),
        ("policy", "PodDisruptionBudget") => policy::budget(object),
        ("", "Namespace") => node::namespace(object),
        ("", "ResourceQuota") => quota::quota(object),
        ("", "LimitRange") => quota::limit_range(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("scheduling.k8s.io", "PriorityClass") => priority::check(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::check(object),
        ("rbac.authorization.k8s.io", _) => rbac::check(kind, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::check(object),
        _ => Causes::default(),
    }
}

/// What an update may not change.
fn changes(resource: &Resource, old: &Value, new: &Value) -> Causes {
    let kind = resource.kind.kind;
    match (resource.kind.group, kind) {
        ("", "Pod") => pod::update(old, new),
        ("certificates.k8s.io", _) => certificate::update("", old, new),
        ("apps", _) => workload::update(kind, old, new),
        ("batch", _) => job::update(kind, old, new),
        ("", "Service") => network::service_update(old, new),
        ("", "Secret" | "ConfigMap") => config::immutable(kind, old, new),
        ("", "Node") => node::node_update(old, new),
        ("", "ResourceQuota") => quota::quota_update(old, new),
        ("", "PersistentVolume") => storage::volume_update(old, new),
        ("", "PersistentVolumeClaim") => storage::claim_update(old, new),
        ("events.k8s.io", "Event") => event::update(old, new),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice_update(old, new),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::update(old, new)
        }
        ("scheduling.k8s.io", "PriorityClass") => priority::update(old, new),
        ("storage.k8s.io", "StorageClass") => storage::class_update(old, new),
        _ => Causes::default(),
    }
}

/// A field that stays as it was made.
fn unchanged(old: &Value, new: &Value, path: &[&str]) -> Causes {
    let (before, after) = (
        machinery::object::at(old, path),
        machinery::object::at(new, path),
    );
    match before == after {
        true => Causes::default(),
        false => {
            let shown = after.cloned().unwrap_or_default();
            Causes::from(Cause::invalid(
                &path.join("."),
                &shown,
                "field is immutable",
            ))
        }
    }
}

/// The causes of names that break a rule.
fn named(field: &str, name: &str, wrong: Vec<String>) -> Causes {
    wrong
        .iter()
        .map(|why| Cause::invalid(field, &name.into(), why))
        .collect()
}
