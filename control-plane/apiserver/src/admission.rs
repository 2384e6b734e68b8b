//! Admission: the plugins that every create, update and delete passes, of objects and of their
//! subresources.
//!
//! The chain has two halves. First its plugins may change the object, which has its defaults by
//! then. The registry completes the result and validates it by the rules of its kind. Then the
//! plugins may still refuse the state to store.

mod certificates;
pub mod escalation;
mod namespaces;
mod nodes;
mod pods;
pub mod service_account;

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::auth::{Answer, Authorizer, User};
use crate::storage::reader::Reader;

/// Operations of a write, as plugins see them.
pub const CREATE: &str = "CREATE";
pub const UPDATE: &str = "UPDATE";
pub const DELETE: &str = "DELETE";

/// The taint of a node that has never been ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// A write on its way to the store.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    /// The user who sends it. Only this process itself is a user without a name.
    pub user: &'a User,
    /// [`CREATE`], [`UPDATE`] or [`DELETE`].
    pub operation: &'static str,
    /// The kind of the object.
    pub kind: &'a Kind,
    /// Such as `status`; may be empty. The object is then the body of the subresource.
    pub subresource: &'a str,
    /// Namespace of the object; empty if it is cluster-scoped.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The stored object, if there is one.
    pub old: Option<&'a Value>,
}

/// What plugins read.
pub struct Context {
    /// Reads the objects of the cluster.
    pub reader: Reader,
    /// Decides about further rights of a user.
    pub authorizer: Arc<dyn Authorizer>,
}

/// An admission plugin, as in Kubernetes.
pub trait Plugin: Send + Sync + 'static {
    /// Its name, which switches it off in [`Config::disabled_plugins`](crate::Config).
    fn name(&self) -> &'static str;

    /// Whether it is asked about a write.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Changes or refuses a write before validation. The object of a deletion is null.
    fn mutate<'a>(
        &'a self,
        _context: &'a Context,
        _attributes: &'a Attributes<'a>,
        _object: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Refuses a write after validation.
    fn validate<'a>(
        &'a self,
        _context: &'a Context,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins for every write, in Kubernetes' order.
pub(crate) struct Chain {
    context: Context,
    plugins: Vec<Arc<dyn Plugin>>,
}

/// The plugins that run unless they are switched off, by the names that Kubernetes has for them.
/// `ServiceAccount` runs only where service accounts have tokens.
pub const PLUGINS: [&str; 8] = [
    "NamespaceLifecycle",
    "ServiceAccount",
    "TaintNodesByCondition",
    "Priority",
    "DefaultTolerationSeconds",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
];

/// Proof that a write passed the first half of the chain; the second takes it.
#[must_use = "a write that was mutated has to be validated"]
pub(crate) struct Mutated(());

impl Chain {
    /// The plugins of every server, and `more` that depend on how it is set up, without those that
    /// are `disabled`.
    pub(crate) fn new(context: Context, more: Vec<Arc<dyn Plugin>>, disabled: &[String]) -> Chain {
        let mut plugins = in_order(more);
        plugins.retain(|plugin| !disabled.iter().any(|name| name == plugin.name()));
        Chain { context, plugins }
    }

    /// Changes or refuses a write before validation. The object of a deletion is null.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<Mutated, Status> {
        for plugin in self.handling(attributes) {
            plugin.mutate(&self.context, attributes, object).await?;
        }
        Ok(Mutated(()))
    }

    /// Refuses a write after validation.
    pub(crate) async fn validate(
        &self,
        _: Mutated,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        for plugin in self.handling(attributes) {
            plugin.validate(&self.context, attributes, object).await?;
        }
        Ok(())
    }

    /// Both halves, for writes with nothing in between: deletions, and bodies that are not stored
    /// as such.
    pub(crate) async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        let mutated = self.mutate(attributes, object).await?;
        self.validate(mutated, attributes, object).await
    }

    fn handling<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> impl Iterator<Item = &'a Arc<dyn Plugin>> {
        let all = self.plugins.iter();
        all.filter(|plugin| plugin.handles(attributes))
    }
}

impl Attributes<'_> {
    /// True if a write is about this resource and subresource.
    fn is_about(&self, group: &str, plural: &str, subresource: &str) -> bool {
        (self.kind.group(), self.kind.plural(), self.subresource) == (group, plural, subresource)
    }

    /// The status for a write that a plugin refuses.
    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.kind.group(), self.kind.plural(), self.name, why)
    }
}

/// All plugins, in Kubernetes' order.
fn in_order(more: Vec<Arc<dyn Plugin>>) -> Vec<Arc<dyn Plugin>> {
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(namespaces::NamespaceLifecycle)];
    plugins.extend(more);
    plugins.push(Arc::new(nodes::TaintNodesByCondition));
    plugins.push(Arc::new(pods::Priority));
    plugins.push(Arc::new(pods::DefaultTolerationSeconds));
    plugins.push(Arc::new(certificates::CertificateApproval));
    plugins.push(Arc::new(certificates::CertificateSigning));
    plugins.push(Arc::new(certificates::CertificateSubjectRestriction));
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_plugins_that_run() {
        let plugins = in_order(vec![Arc::new(service_account::ServiceAccount)]);
        let names: Vec<_> = plugins.iter().map(|plugin| plugin.name()).collect();
        assert_eq!(names, PLUGINS);
    }
}
