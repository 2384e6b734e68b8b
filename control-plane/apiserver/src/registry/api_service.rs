//! What the server itself writes into APIServices: whether requests for them are answered.

use machinery::object;
use serde_json::{Value, json};

use super::definition::Condition;
use crate::basics::clock;

/// Where APIServices are.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
/// What their collection is called.
pub(crate) const PLURAL: &str = "apiservices";
/// The condition that says whether requests are passed on.
pub(crate) const AVAILABLE: &str = "Available";

/// True if another server serves the version.
pub(crate) fn is_remote(service: &Value) -> bool {
    object::at(service, &["spec", "service"]).is_some_and(Value::is_object)
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
