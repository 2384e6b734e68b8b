//! NodeRestriction: a node writes only its own node and what belongs to it, and nothing that would
//! give it more pods or more rights.
//!
//! Authorization sees names alone; this plugin sees the objects. `pods` has the rules for pods,
//! `nodes` those for nodes and claims, `tokens` those for tokens of service accounts.

mod nodes;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use certificates::Request;
use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, DELETE, Plugin};
use crate::auth::Answer;
use crate::auth::authorize::node::LEASES;
use crate::auth::user::node_name;
use crate::storage::reader::Reader;

/// The name by which it is switched on.
pub const NAME: &str = "NodeRestriction";

/// Signers of the certificates of nodes.
const SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// Restricts what nodes write. It runs only if it is asked for.
pub struct NodeRestriction;

/// A write by a node.
struct Write<'a> {
    context: &'a Context,
    attributes: &'a Attributes<'a>,
    /// The name of the node, which is not empty.
    node: &'a str,
    /// The new object; null in a deletion.
    object: &'a Value,
}

/// Why a write is refused.
enum Refusal {
    /// The text of a 403.
    Forbidden(String),
    /// Another error, such as that an object is missing.
    Other(Status),
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        node_name(attributes.user).is_some()
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let user = attributes.user;
            let Some(node) = node_name(user) else {
                return Ok(());
            };
            let checked = if node.is_empty() {
                let why = format!("could not determine node from user {:?}", user.name);
                Err(Refusal::Forbidden(why))
            } else {
                let write = Write {
                    context,
                    attributes,
                    node,
                    object,
                };
                write.check().await
            };
            checked.map_err(|refusal| match refusal {
                Refusal::Forbidden(why) => attributes.forbidden(&why),
                Refusal::Other(status) => status,
            })
        })
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Forbidden(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal::Forbidden(why.to_owned())
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal::Other(status)
    }
}

impl Write<'_> {
    async fn check(&self) -> Result<(), Refusal> {
        let kind = self.attributes.kind;
        let subresource = self.attributes.subresource;
        match (kind.group(), kind.plural()) {
            ("", "pods") => match subresource {
                "" => self.pod().await,
                "status" => self.pod_status(),
                "eviction" => self.eviction().await,
                other => Err(format!(
                    "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
                )
                .into()),
            },
            ("", "nodes") => self.own_node(),
            ("", "persistentvolumeclaims") if subresource == "status" => self.claim_status(),
            ("", "persistentvolumeclaims") => Err("may only update PVC status".into()),
            ("", "serviceaccounts") => self.token().await,
            ("certificates.k8s.io", "podcertificaterequests") => {
                Err("PodCertificateRequest feature gate is disabled".into())
            }
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => self.signing_request(),
            _ => Ok(()),
        }
    }

    fn lease(&self) -> Result<(), Refusal> {
        if self.attributes.namespace != LEASES {
            return Err(
                format!("can only access leases in the {LEASES:?} system namespace").into(),
            );
        }
        if self.attributes.name != self.node {
            let why = "can only access node lease with the same name as the requesting node";
            return Err(why.into());
        }
        Ok(())
    }

    fn csi_node(&self) -> Result<(), Refusal> {
        if self.attributes.name != self.node {
            let why = "can only access CSINode with the same name as the requesting node";
            return Err(why.into());
        }
        Ok(())
    }

    /// The authorizer decides about updates, by the stored object.
    fn resource_slice(&self) -> Result<(), Refusal> {
        let is_own = |slice: &Value| object::text(slice, &["spec", "nodeName"]) == self.node;
        let old = self.attributes.old;
        match self.attributes.operation {
            CREATE if !is_own(self.object) => Err(
                "can only create ResourceSlice with the same NodeName as the requesting node"
                    .into(),
            ),
            DELETE if !old.is_some_and(is_own) => Err(
                "can only delete ResourceSlice with the same NodeName as the requesting node"
                    .into(),
            ),
            _ => Ok(()),
        }
    }

    /// A node requests certificates for itself alone. The signer checks the rest.
    fn signing_request(&self) -> Result<(), Refusal> {
        let signer = object::text(self.object, &["spec", "signerName"]);
        if self.attributes.operation != CREATE || !SIGNERS.contains(&signer) {
            return Ok(());
        }
        let request = Request::of(self.object);
        let request = request.map_err(|why| format!("unable to parse csr: {why}"))?;
        let name = format!("system:node:{}", self.node);
        if request.common_name != name {
            return Err(format!("can only create a node CSR with CN={name}").into());
        }
        Ok(())
    }

    fn reader(&self) -> &Reader {
        &self.context.reader
    }

    /// The pod of the write's namespace that has this name.
    async fn stored_pod(&self, name: &str) -> Result<Arc<Value>, Refusal> {
        let namespace = self.attributes.namespace;
        Ok(stored(self.reader(), ["", "pods"], namespace, name).await?)
    }

    fn unexpected_operation(&self) -> Refusal {
        format!("unexpected operation {:?}", self.attributes.operation).into()
    }
}

/// Reads an object that may be new. Its kind is one of version `v1`.
async fn stored(
    reader: &Reader,
    [group, plural]: [&str; 2],
    namespace: &str,
    name: &str,
) -> Result<Arc<Value>, Status> {
    let kind = schema::resource(group, "v1", plural).ok_or_else(Status::unknown_path)?;
    match reader.cached(kind, namespace, name) {
        Some(found) => Ok(found),
        // The cache may not have it yet.
        None => reader.get(kind, namespace, name).await,
    }
}
