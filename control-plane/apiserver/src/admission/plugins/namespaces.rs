//! Namespaces: some cannot be deleted, and one that is missing or in deletion accepts no new
//! objects.

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, DELETE, Plugin};
use crate::auth::Answer;

/// The name of the plugin.
pub(crate) const NAME: &str = "NamespaceLifecycle";

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses writes in a missing namespace, and new objects in one that is in deletion.
pub(crate) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let namespace = (attributes.kind.group(), attributes.kind.kind()) == ("", "Namespace");
        let deletes = attributes.operation == DELETE;
        if namespace || deletes {
            return namespace && deletes;
        }
        // An error about the namespace would tell users about namespaces they may not see.
        let review = (attributes.kind.group(), attributes.kind.plural())
            == ("authorization.k8s.io", "localsubjectaccessreviews");
        !attributes.namespace.is_empty() && !review
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        _: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            if attributes.operation != DELETE {
                return open_namespace(context, attributes).await;
            }
            if IMMORTAL.contains(&attributes.name) {
                Err(attributes.forbidden("this namespace may not be deleted"))
            } else {
                Ok(())
            }
        })
    }
}

impl NamespaceLifecycle {
    /// Refuses a new object whose namespace was deleted while webhooks were asked: nobody would
    /// ever delete the object.
    pub(crate) async fn confirm(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
    ) -> Result<(), Status> {
        if attributes.operation == CREATE && self.handles(attributes) {
            open_namespace(context, attributes).await?;
        }
        Ok(())
    }
}

async fn open_namespace(context: &Context, attributes: &Attributes<'_>) -> Result<(), Status> {
    let kind = schema::resource("", "v1", "namespaces")
        .ok_or_else(|| Status::internal("no namespaces in the schema"))?;
    let namespace = attributes.namespace;
    let found = match context.reader.cached_or_error(kind, "", namespace) {
        Ok(Some(found)) => found,
        // The cache may not have it yet.
        _ => context.reader.get(kind, "", namespace).await?,
    };
    if attributes.operation == CREATE && object::is_deleting(&found) {
        let (group, plural) = (attributes.kind.group(), attributes.kind.plural());
        let name = attributes.name;
        return Err(Status::namespace_terminating(
            group, plural, name, namespace,
        ));
    }
    Ok(())
}
