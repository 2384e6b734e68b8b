//! The authorization mode of nodes: a kubelet may do what it needs for its own node and for the
//! pods bound to that.
//!
//! Some kinds are decided by names and selectors alone. For others the object must belong to the
//! node: `graph` knows which objects do. All other requests are decided by the rules of the role
//! `system:node`, whoever that is bound to. What admission can only see in the object is left to
//! [`crate::admission`]'s plugin NodeRestriction.

mod graph;
pub(crate) mod references;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use machinery::object;

use super::rbac::{Rule, bootstrap};
use crate::auth::follow::Follower;
use crate::auth::user::node_name;
use crate::auth::{Attributes, Decision};
use crate::storage::reader::Reader;
use graph::{Graph, Sort, Vertex};

/// The namespace of the leases of nodes.
pub(crate) const LEASES: &str = "kube-node-lease";
/// Verbs for objects that have the name of their node.
const OWN_VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// The rules of the role for nodes.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let roles = bootstrap::objects();
    let role = roles
        .iter()
        .find(|role| object::kind(role) == "ClusterRole" && object::name(role) == "system:node");
    let rules = role.map_or(&[][..], |role| object::items(role, &["rules"]));
    rules.iter().map(Rule::from_value).collect()
});

/// Decides about the requests of nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    graph: Follower<Graph>,
}

/// What is known of a request before the graph is asked.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// Refused, with the reason for the user.
    Refused(String),
    /// Allowed if the object belongs to the node.
    IfRelated(Vertex),
}

impl Nodes {
    /// Decides about a request at the state of the caches.
    pub(crate) fn decide(&self, reader: &Reader, asked: &Attributes) -> Decision {
        decide(asked, |object, node| {
            self.graph
                .look(reader, |graph| graph.belongs_to(object, node))
        })
    }
}

/// Decides by objects that a test gives.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Related(Graph);

#[cfg(test)]
impl Related {
    pub(crate) fn put(&mut self, kind: &str, object: &serde_json::Value) {
        use crate::auth::follow::View as _;
        self.0.put(kind, object);
    }

    pub(crate) fn decide(&self, asked: &Attributes) -> Decision {
        decide(asked, |object, node| self.0.belongs_to(object, node))
    }
}

/// Decides about a request; `belongs` says whether an object belongs to a node.
fn decide(asked: &Attributes, belongs: impl FnOnce(&Vertex, &str) -> bool) -> Decision {
    let Some(node) = node_name(&asked.user) else {
        return Decision::refuse(String::new());
    };
    if node.is_empty() {
        return Decision::refuse(format!("unknown node for user {:?}", asked.user.name));
    }
    let allowed = match verdict(node, asked) {
        Verdict::Allowed => true,
        Verdict::Refused(reason) => return Decision::refuse(reason),
        Verdict::IfRelated(object) => belongs(&object, node),
    };
    if allowed {
        return Decision::allow(String::new());
    }
    Decision::refuse(format!(
        "no relationship found between node '{node}' and this object"
    ))
}

fn verdict(node: &str, asked: &Attributes) -> Verdict {
    match (asked.api_group.as_str(), asked.resource.as_str()) {
        ("", "secrets") => read_namespaced(Sort::Secret, asked),
        ("", "configmaps") => read_namespaced(Sort::ConfigMap, asked),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => {
            match asked.verb.as_str() {
                "update" | "patch" => if_related(Sort::Claim, asked),
                _ => refused("can only get/update/patch this type"),
            }
        }
        ("", "persistentvolumeclaims") => get(Sort::Claim, asked),
        ("", "persistentvolumes") => get(Sort::Volume, asked),
        ("resource.k8s.io", "resourceclaims") => get(Sort::ResourceClaim, asked),
        ("storage.k8s.io", "volumeattachments") => get(Sort::Attachment, asked),
        ("", "serviceaccounts") => service_account(asked),
        ("coordination.k8s.io", "leases") => lease(node, asked),
        ("storage.k8s.io", "csinodes") => csi_node(node, asked),
        ("resource.k8s.io", "resourceslices") => resource_slice(node, asked),
        ("", "nodes") => own_node(node, asked),
        ("", "pods") => pod(node, asked),
        // Kubernetes serves them only where a feature is switched on.
        ("certificates.k8s.io", "podcertificaterequests") => refused(""),
        _ if RULES.iter().any(|rule| rule.allows(asked)) => Verdict::Allowed,
        _ => refused(""),
    }
}

fn refused(why: impl Into<String>) -> Verdict {
    Verdict::Refused(why.into())
}

fn if_related(sort: Sort, asked: &Attributes) -> Verdict {
    if asked.name.is_empty() {
        return refused("No Object name found");
    }
    Verdict::IfRelated(Vertex::new(sort, &asked.namespace, &asked.name))
}

fn get(sort: Sort, asked: &Attributes) -> Verdict {
    if asked.verb != "get" {
        refused("can only get individual resources of this type")
    } else if !asked.subresource.is_empty() {
        refused("cannot get subresource")
    } else {
        if_related(sort, asked)
    }
}

/// Allows to read, list and watch single objects.
fn read_namespaced(sort: Sort, asked: &Attributes) -> Verdict {
    if !["get", "list", "watch"].contains(&asked.verb.as_str()) {
        refused("can only read resources of this type")
    } else if !asked.subresource.is_empty() {
        refused("cannot read subresource")
    } else if asked.namespace.is_empty() {
        refused("can only read namespaced object of this type")
    } else {
        if_related(sort, asked)
    }
}

/// Allows to read the accounts of pods, and to create tokens for them.
fn service_account(asked: &Attributes) -> Verdict {
    if asked.verb == "get" && asked.subresource.is_empty() {
        read_namespaced(Sort::ServiceAccount, asked)
    } else if asked.verb != "create" || asked.name.is_empty() {
        refused("can only create tokens for individual service accounts")
    } else if asked.subresource != "token" {
        refused("can only create token subresource of serviceaccount")
    } else {
        if_related(Sort::ServiceAccount, asked)
    }
}

/// Allows the lease that has the name of the node. The name of a new one is checked by admission.
fn lease(node: &str, asked: &Attributes) -> Verdict {
    if !OWN_VERBS.contains(&asked.verb.as_str()) {
        refused("can only get, create, update, patch, or delete a node lease")
    } else if asked.namespace != LEASES {
        refused(format!(
            "can only access leases in the {LEASES:?} system namespace"
        ))
    } else if asked.verb != "create" && asked.name != node {
        refused("can only access node lease with the same name as the requesting node")
    } else {
        Verdict::Allowed
    }
}

/// Allows the CSINode that has the name of the node. The name of a new one is checked by admission.
fn csi_node(node: &str, asked: &Attributes) -> Verdict {
    if !OWN_VERBS.contains(&asked.verb.as_str()) {
        refused("can only get, create, update, patch, or delete a CSINode")
    } else if !asked.subresource.is_empty() {
        refused("cannot authorize CSINode subresources")
    } else if asked.verb != "create" && asked.name != node {
        refused("can only access CSINode with the same name as the requesting node")
    } else {
        Verdict::Allowed
    }
}

fn resource_slice(node: &str, asked: &Attributes) -> Verdict {
    if !asked.subresource.is_empty() {
        return refused("cannot authorize ResourceSlice subresources");
    }
    match asked.verb.as_str() {
        // The node of a new one is checked by admission.
        "create" => Verdict::Allowed,
        "get" | "update" | "patch" | "delete" => if_related(Sort::ResourceSlice, asked),
        "watch" | "list" | "deletecollection" => {
            if asked.fields.requires("spec.nodeName", node) {
                return Verdict::Allowed;
            }
            refused(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            )
        }
        _ => refused(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
        ),
    }
}

/// Allows a node to read itself, before it exists too. Which node is written is checked by
/// admission.
fn own_node(node: &str, asked: &Attributes) -> Verdict {
    match (asked.subresource.as_str(), asked.verb.as_str()) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::Allowed,
        ("", "get" | "list" | "watch") if asked.name == node => Verdict::Allowed,
        ("", "get" | "list" | "watch") if asked.name.is_empty() => refused(format!(
            "node '{node}' cannot read all nodes, only its own Node object"
        )),
        ("", "get" | "list" | "watch") => refused(format!(
            "node '{node}' cannot read '{}', only its own Node object",
            asked.name
        )),
        _ => refused(""),
    }
}

/// Allows to read the pods of the node, to show mirror pods, to report states and to evict. Which
/// pod is written is checked by admission.
fn pod(node: &str, asked: &Attributes) -> Verdict {
    match (asked.subresource.as_str(), asked.verb.as_str()) {
        ("", "get") => if_related(Sort::Pod, asked),
        ("", "list" | "watch") if asked.fields.requires("spec.nodeName", node) => Verdict::Allowed,
        ("", "list" | "watch") if !asked.name.is_empty() => if_related(Sort::Pod, asked),
        ("", "list" | "watch") => {
            refused("can only list/watch pods with spec.nodeName field selector")
        }
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
            Verdict::Allowed
        }
        _ => refused(""),
    }
}
