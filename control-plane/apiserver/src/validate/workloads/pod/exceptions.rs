//! What an update may leave as it is though no new object may have it: the object was stored when
//! there was no such rule yet, or by a server that had other features.

use serde_json::Value;

use super::{
    affinity, containers, deletion_cost, host_users, resources, scheduling, security, sources,
};
use crate::validate::words::field::FieldValue;

/// The rules that are off because the old spec breaks them. As in Kubernetes, each is off for the
/// whole spec: where something is wrong in one place already, it may be so in another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exceptions {
    /// Amounts of huge pages are multiples of the size of a page.
    pub(super) huge_pages: bool,
    /// Values in selectors are those of labels: in selectors of other pods, and for some kinds in
    /// the object's own.
    pub(crate) selector_values: bool,
    /// So are values that are required of a node.
    pub(super) node_values: bool,
    /// The selectors of a spread are checked.
    pub(super) spread_selectors: bool,
    /// A token is at a path inside its volume.
    pub(super) token_paths: bool,
    /// No sysctl is of a namespace that is shared with the host.
    pub(super) sysctls_of_host: bool,
    /// Labels of SELinux are set file by file.
    pub(super) label_policies: bool,
    /// No init container restarts to get other resources.
    pub(super) init_restarts: bool,
    /// A pod with its own users is not in the host's network.
    pub(super) users_in_host_network: bool,
    /// A pod with its own users has no block devices.
    pub(super) users_with_devices: bool,
    /// Tolerations do not compare numbers.
    pub(super) comparisons: bool,
    /// What it costs to delete a pod is a number.
    pub(super) deletion_cost: bool,
}

impl Exceptions {
    /// Those of a pod or a template, given the old one; a new one has none.
    pub(crate) fn of(old: Option<&Value>) -> Exceptions {
        let Some((old, spec)) = old.and_then(|old| Some((old, old.get("spec")?))) else {
            return Exceptions::default();
        };
        let spec = &FieldValue::new("", spec);
        let has_own_users = !host_users::are_shared(spec);
        Exceptions {
            huge_pages: resources::has_broken_pages(spec),
            selector_values: affinity::has_wrong_selectors(spec),
            node_values: affinity::has_wrong_values(spec),
            spread_selectors: scheduling::has_wrong_selectors(spec),
            token_paths: sources::has_wrong_token_paths(spec),
            sysctls_of_host: security::has_sysctls_of_host(spec),
            label_policies: security::has_label_policy(spec),
            init_restarts: containers::has_init_restarts(spec),
            users_in_host_network: has_own_users && spec.flag("hostNetwork"),
            users_with_devices: has_own_users && host_users::has_devices(spec),
            ..Exceptions::of_annotations(old)
        }
    }

    /// Those that annotations may need.
    pub(super) fn of_annotations(old: &Value) -> Exceptions {
        let spec = old.get("spec").unwrap_or(&Value::Null);
        Exceptions {
            comparisons: scheduling::compares(&FieldValue::new("", spec)),
            deletion_cost: deletion_cost::is_wrong(old),
            ..Exceptions::default()
        }
    }
}
