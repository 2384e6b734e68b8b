//! Namespaces: some cannot be deleted, and one that is missing or in deletion accepts no new
//! objects.

use std::sync::Arc;

use machinery::object;
use machinery::schema::{self, Kind};
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
        let namespace = is_namespace(attributes.kind);
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
                let namespace = attributes.namespace;
                let kind = namespaces()?;
                let found = context.reader.cached_or_stored(kind, "", namespace).await?;
                let name = (attributes.operation == CREATE).then_some(attributes.name);
                return refuse_if_deleting(&found, attributes.kind, name);
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
    /// Looks again at the namespace that a new object is stored in: it may have been deleted while
    /// webhooks were asked, and nobody would ever delete the object. `None` if the object is in
    /// none.
    pub(crate) async fn confirm(
        &self,
        context: &Context,
        kind: &Kind,
        (namespace, name): (&str, &str),
        newest: bool,
    ) -> Result<Option<Arc<Value>>, Status> {
        if namespace.is_empty() || is_namespace(kind) {
            return Ok(None);
        }
        let reader = &context.reader;
        let found = reader.present(namespaces()?, "", namespace, newest).await?;
        refuse_if_deleting(&found, kind, Some(name))?;
        Ok(Some(found))
    }
}

fn namespaces() -> Result<&'static Kind, Status> {
    let kind = schema::resource("", "v1", "namespaces");
    kind.map(|kind| &**kind)
        .ok_or_else(|| Status::internal("no namespaces in the schema"))
}

fn is_namespace(kind: &Kind) -> bool {
    (kind.group(), kind.kind()) == ("", "Namespace")
}

/// Refuses a new object in a namespace that is in deletion. `name` is `None` if it is not new.
fn refuse_if_deleting(namespace: &Value, kind: &Kind, name: Option<&str>) -> Result<(), Status> {
    match name {
        Some(name) if object::is_deleting(namespace) => {
            let (group, plural) = (kind.group(), kind.plural());
            let namespace = object::name(namespace);
            Err(Status::namespace_terminating(
                group, plural, name, namespace,
            ))
        }
        _ => Ok(()),
    }
}
