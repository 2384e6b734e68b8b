//! What the cluster has to say about a write: one chain for creations, updates and deletions, of
//! objects and of what is below them.
//!
//! The chain has two halves. First its plugins may change the object, which has its defaults by
//! then. The registry completes and validates the result by the rules of its kind. Then the
//! plugins may still refuse the state that would be stored.

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

/// Operations of a write, as plugins are asked about them.
pub const CREATE: &str = "CREATE";
pub const UPDATE: &str = "UPDATE";
pub const DELETE: &str = "DELETE";

/// The taint of a node that nobody has found ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// A write on its way to the store.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    /// Who sends it. This process itself has no name, and nobody else is without one.
    pub user: &'a User,
    /// [`CREATE`], [`UPDATE`] or [`DELETE`].
    pub operation: &'static str,
    /// What it is.
    pub kind: &'a Kind,
    /// Such as `status`; may be empty. The object is then what the subresource takes.
    pub subresource: &'a str,
    /// Its namespace; empty for the cluster's.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is stored now, if anything.
    pub old: Option<&'a Value>,
}

/// What plugins look things up in.
pub struct Context {
    /// The objects of the cluster.
    pub reader: Reader,
    /// Whom plugins ask for further rights of a user.
    pub authorizer: Arc<dyn Authorizer>,
}

/// One of Kubernetes' admission plugins.
pub trait Plugin: Send + Sync + 'static {
    /// Whether it is asked about a write.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Changes or refuses a write before it is validated. The object of a deletion is null.
    fn mutate<'a>(
        &'a self,
        _context: &'a Context,
        _attributes: &'a Attributes<'a>,
        _object: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Refuses a write whose object keeps the rules of its kind.
    fn validate<'a>(
        &'a self,
        _context: &'a Context,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins that every write passes, in Kubernetes' order.
pub(crate) struct Chain {
    context: Context,
    plugins: Vec<Arc<dyn Plugin>>,
}

/// Proof that a write passed the first half of the chain; the second takes it.
#[must_use = "a write that was mutated has to be validated"]
pub(crate) struct Mutated(());

impl Chain {
    /// The plugins that are always on, and `more` that depend on how the server is set up.
    pub(crate) fn new(context: Context, more: Vec<Arc<dyn Plugin>>) -> Chain {
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(namespaces::NamespaceLifecycle)];
        plugins.extend(more);
        plugins.push(Arc::new(nodes::TaintNodesByCondition));
        plugins.push(Arc::new(pods::Priority));
        plugins.push(Arc::new(pods::DefaultTolerationSeconds));
        plugins.push(Arc::new(certificates::CertificateApproval));
        plugins.push(Arc::new(certificates::CertificateSigning));
        plugins.push(Arc::new(certificates::CertificateSubjectRestriction));
        Chain { context, plugins }
    }

    /// Changes or refuses a write before it is validated. A deletion has no object: it is null.
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

    /// Refuses a write whose object keeps the rules of its kind.
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

    /// Both halves, where nothing comes between them: for deletions, and for bodies that are not
    /// stored as such.
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
    /// Whether a write is about this resource and subresource.
    fn is_about(&self, group: &str, plural: &str, subresource: &str) -> bool {
        (self.kind.group(), self.kind.plural(), self.subresource) == (group, plural, subresource)
    }

    /// Refuses a write as a plugin does.
    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.kind.group(), self.kind.plural(), self.name, why)
    }
}
