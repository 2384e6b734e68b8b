//! The rules objects must keep. What the schema says of types was checked when the body was read;
//! here is what it cannot say.

mod causes;
mod config;
mod meta;
mod network;
mod place;
mod pod;
mod policy;
mod shown;
mod workload;

use machinery::status::Cause;
use serde_json::Value;

use crate::catalogue::Resource;

pub(crate) use causes::Causes;

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
    causes.extend(body(resource, object));
    if is_pod(resource) {
        causes.extend(pod::created(object));
    }
    policy.apply(&mut causes);
    causes
}

fn is_pod(resource: &Resource) -> bool {
    (resource.kind.group, resource.kind.kind) == ("", "Pod")
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

/// Checks a new state of an object that came through a subresource, or through none.
pub(crate) fn update(
    resource: &Resource,
    subresource: &str,
    (old, new): (&Value, &Value),
    policy: Policy,
) -> Causes {
    let mut causes = meta::check_update(resource, subresource, old, new);
    match subresource {
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
        _ => {}
    }
    policy.apply(&mut causes);
    causes
}

fn body(resource: &Resource, object: &Value) -> Causes {
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(object, "template"),
        ("apps", _) | ("batch", _) | ("", "ReplicationController") => {
            workload::check(resource.kind.kind, object)
        }
        ("", "Service") => network::service(object),
        ("", "Secret") => config::secret(object),
        ("", "ConfigMap") => config::config_map(object),
        ("", "Event") => config::event(object),
        ("coordination.k8s.io", "Lease") => config::lease(object),
        ("", "Node") => config::node(object),
        ("policy", "PodDisruptionBudget") => policy::budget(object),
        ("rbac.authorization.k8s.io", _) => config::role(resource.kind.kind, object),
        _ => Causes::default(),
    }
}

/// What an update may not change.
fn changes(resource: &Resource, old: &Value, new: &Value) -> Causes {
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => pod::update(old, new),
        ("apps" | "batch", _) => workload::update(resource.kind.kind, old, new),
        ("", "Service") => network::service_update(old, new),
        ("", "Secret" | "ConfigMap") => config::immutable(resource.kind.kind, old, new),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            unchanged(old, new, &["roleRef"])
        }
        ("scheduling.k8s.io", "PriorityClass") => unchanged(old, new, &["value"]),
        ("storage.k8s.io", "StorageClass") => ["parameters", "provisioner", "reclaimPolicy"]
            .iter()
            .flat_map(|key| unchanged(old, new, &[key]))
            .collect(),
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

/// One of a few words, or nothing.
fn one_of(object: &Value, path: &[&str], field: &str, known: &[&str], causes: &mut Causes) {
    let text = machinery::object::text(object, path);
    if !text.is_empty() && !known.contains(&text) {
        causes.push(Cause::not_supported(field, &text.into(), known));
    }
}

/// A number that is not below zero, if it is given.
fn not_negative(object: &Value, path: &[&str], field: &str, causes: &mut Causes) {
    if let Some(number) = machinery::object::integer(object, path).filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(field, &number.into(), why));
    }
}
