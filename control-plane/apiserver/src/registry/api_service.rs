//! What the server itself writes into APIServices: whether requests for them are answered, and how
//! important their versions are.

use machinery::object;
use serde_json::{Value, json};

use super::definition::Condition;
use crate::basics::clock;
use crate::resources::catalogue::Resource;

/// Where APIServices are.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
/// What their collection is called.
pub(crate) const PLURAL: &str = "apiservices";
/// The condition that says whether requests are passed on.
pub(crate) const AVAILABLE: &str = "Available";
/// The priorities of what definitions add: of its group, and of the version within that.
pub(crate) const CUSTOM_PRIORITIES: (u32, u32) = (1000, 100);

/// True if another server serves the version.
pub(crate) fn is_remote(service: &Value) -> bool {
    object::at(service, &["spec", "service"]).is_some_and(Value::is_object)
}

/// The rank of a version that this server serves among those of its group, as in Kubernetes.
pub(crate) fn version_priority(resource: &Resource) -> u32 {
    if resource.custom.is_some() {
        return CUSTOM_PRIORITIES.1;
    }
    match (resource.kind.group(), resource.kind.version()) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        _ => 15,
    }
}

/// The condition of a version that no other server serves.
pub(crate) fn local() -> Condition {
    Condition {
        kind: AVAILABLE,
        holds: true,
        reason: "Local",
        message: "Local APIServices are always available".to_owned(),
    }
}

/// A new APIService has no status, except that nobody has to look whether this server is there.
pub(super) fn prepare_for_create(service: &mut Value) {
    service["status"] = json!({});
    if !is_remote(service) {
        local().set(service, clock::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_local_is_available_at_once() {
        let mut local = json!({"spec": {"group": "a.example.com"}, "status": {"conditions": []}});
        let mut remote = local.clone();
        remote["spec"]["service"] = json!({"name": "s", "namespace": "n"});
        prepare_for_create(&mut local);
        prepare_for_create(&mut remote);
        assert_eq!(local["status"]["conditions"][0]["reason"], "Local");
        assert_eq!(remote["status"], json!({}));
    }
}
