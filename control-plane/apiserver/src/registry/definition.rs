//! What the server itself writes into CustomResourceDefinitions: the versions that objects are
//! stored in, conditions, and what a deletion begins with.

use machinery::object;
use machinery::time::Timestamp;
use serde_json::{Value, json};

/// Holds a definition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The conditions that the server sets.
pub(crate) const NAMES_ACCEPTED: &str = "NamesAccepted";
pub(crate) const ESTABLISHED: &str = "Established";
pub(crate) const TERMINATING: &str = "Terminating";
pub(crate) const APPROVAL_CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Such as [`ESTABLISHED`].
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Condition {
    /// Writes it into a definition. The time is that of the last change of `status`.
    pub(crate) fn set(&self, definition: &mut Value, now: Timestamp) {
        let condition = json!({
            "type": self.kind, "status": if self.holds { "True" } else { "False" },
            "lastTransitionTime": now.to_seconds(), "reason": self.reason,
            "message": self.message,
        });
        object::set_condition(definition, condition);
    }
}

/// Whether a condition of a definition holds.
pub(crate) fn holds(definition: &Value, condition: &str) -> bool {
    let mut all = object::items(definition, &["status", "conditions"]).iter();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

/// A new definition has no status but the version that objects will be stored in.
pub(super) fn prepare_for_create(definition: &mut Value) {
    definition["status"] = json!({});
    add_stored_version(definition);
}

/// Objects may have been stored in the old version, and will be in the new one.
pub(super) fn prepare_for_update(_: &Value, definition: &mut Value) {
    add_stored_version(definition);
}

/// Marks a definition that is deleted for the first time. It stays until its objects are gone.
pub(super) fn begin_deletion(definition: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<Value> = object::finalizers(definition).map(Value::from).collect();
    if !object::has_finalizer(definition, CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    let metadata = object::metadata_mut(definition);
    metadata.insert("finalizers".into(), finalizers.into());
    metadata.insert("deletionTimestamp".into(), now.to_seconds().into());
    let pending = Condition {
        kind: TERMINATING,
        holds: true,
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will \
                  begin soon"
            .into(),
    };
    pending.set(definition, now);
}

fn add_stored_version(definition: &mut Value) {
    let mut versions = object::items(definition, &["spec", "versions"]).iter();
    let Some(stored) = versions.find(|version| version["storage"] == true) else {
        return;
    };
    let name = stored["name"].clone();
    let mut all = object::items(definition, &["status", "storedVersions"]).to_vec();
    if !all.contains(&name) {
        all.push(name);
        object::set(definition, &["status", "storedVersions"], all.into());
    }
}
