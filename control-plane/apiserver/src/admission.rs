//! Admission: the plugins that every create, update and delete passes, of objects and of their
//! subresources.
//!
//! The chain has two halves. First its plugins may change the object, which has its defaults by
//! then. The registry completes the result and validates it by the rules of its kind. Then the
//! plugins may still refuse the state to store. Policies and then webhooks are the last in each
//! half. After those of the first, plugins judge what has become of the object. After those of the
//! second, quotas charge what is stored. The write of a new object looks at its namespace again.

mod conditions;
pub mod escalation;
mod expressions;
mod known;
mod matching;
pub mod plugins;
mod policies;
mod request;
mod rounds;
mod webhooks;

use std::collections::HashSet;
use std::sync::Arc;

use machinery::schema::{self, Kind};
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;

use crate::audit::{Level, Record};
use crate::auth::{Answer, Authorizer, User};
use crate::resources::catalogue::Resource;
use crate::storage::reader::Reader;
use plugins::namespaces::NamespaceLifecycle;
use policies::{mutating as mutating_policy, validating as validating_policy};
use rounds::Rounds;
use webhooks::{mutating, validating};

/// Operations of a write, as plugins see them.
pub const CREATE: &str = "CREATE";
pub const UPDATE: &str = "UPDATE";
pub const DELETE: &str = "DELETE";

/// The group of what decides about requests: configurations of webhooks and policies.
const GROUP: &str = "admissionregistration.k8s.io";
/// The kinds of it that neither webhooks nor policies are asked about: one that refuses everything
/// could not be removed.
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The resources of it that have policies and webhooks.
const LOOKERS: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingwebhookconfigurations",
];

/// The taint of a node that has never been ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// A write on its way to the store.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    /// The user who sends it.
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
    /// Name in the path of the request; empty if the object is posted.
    pub path_name: &'a str,
    /// The stored object, if there is one.
    pub old: Option<&'a Value>,
    /// True for a dry run: nothing is stored.
    pub dry: bool,
    /// What the request asks for besides, as an object such as CreateOptions.
    pub options: &'a Value,
    pub(crate) resource: &'a Arc<Resource>,
    /// Present if the request is recorded.
    pub(crate) audit: Option<&'a Record>,
    pub(crate) warnings: &'a Warnings,
}

/// What the client of a write is warned of.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Warned>);

#[derive(Debug, Default)]
struct Warned {
    in_order: Vec<String>,
    /// The same, to find those that come again: an object may have as many as items.
    known: HashSet<String>,
}

impl Warnings {
    /// Adds warnings that the client does not get yet.
    pub(crate) fn add(&self, more: impl IntoIterator<Item = String>) {
        let mut all = self.0.lock();
        for warning in more {
            if all.known.insert(warning.clone()) {
                all.in_order.push(warning);
            }
        }
    }

    /// Takes all warnings.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).in_order
    }
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

    /// Refuses a write before validation, by the object as all of the first half has left it.
    fn judge<'a>(
        &'a self,
        _context: &'a Context,
        _attributes: &'a Attributes<'a>,
        _object: &'a Value,
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
    /// `None` if they are switched off.
    mutating_policies: Option<mutating_policy::Mutating>,
    mutating: Option<mutating::Mutating>,
    validating_policies: Option<validating_policy::Validating>,
    validating: Option<validating::Validating>,
    /// Among the plugins, too. It is asked again after all of them: webhooks may take long.
    lifecycle: Option<NamespaceLifecycle>,
    /// The last of all: it charges writes that nothing else refuses.
    quota: Option<plugins::quota::ResourceQuota>,
}

/// The plugins that run unless they are switched off, by the names that Kubernetes has for them.
/// `ServiceAccount` runs only where service accounts have tokens.
pub const PLUGINS: [&str; 23] = [
    plugins::namespaces::NAME,
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    mutating_policy::NAME,
    mutating::NAME,
    validating_policy::NAME,
    validating::NAME,
    plugins::quota::NAME,
];

/// The plugins that run only if they are asked for.
pub const OPTIONAL: [&str; 2] = [
    plugins::node_restriction::NAME,
    plugins::owner_references::NAME,
];

/// Proof that a write passed the first half of the chain; the second takes it.
#[must_use = "a write that was mutated has to be validated"]
pub(crate) struct Mutated(());

impl Chain {
    /// The plugins of every server, and `more` that depend on how it is set up, without those that
    /// are `disabled`.
    pub(crate) fn new(context: Context, more: Vec<Arc<dyn Plugin>>, disabled: &[String]) -> Chain {
        let runs = |name: &str| !disabled.iter().any(|off| off == name);
        let mut plugins = in_order(more);
        plugins.retain(|plugin| runs(plugin.name()));
        Chain {
            context,
            plugins,
            mutating_policies: runs(mutating_policy::NAME).then(mutating_policy::Mutating::new),
            mutating: runs(mutating::NAME).then(mutating::Mutating::new),
            validating_policies: runs(validating_policy::NAME)
                .then(validating_policy::Validating::new),
            validating: runs(validating::NAME).then(validating::Validating::new),
            lifecycle: runs(plugins::namespaces::NAME).then_some(NamespaceLifecycle),
            quota: runs(plugins::quota::NAME).then(plugins::quota::ResourceQuota::new),
        }
    }

    /// Changes or refuses a write before validation. The object of a deletion is null.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<Mutated, Status> {
        let mut rounds = Rounds::default();
        self.round(attributes, object, &mut rounds).await?;
        if rounds.changed {
            rounds.again = true;
            self.round(attributes, object, &mut rounds).await?;
        }
        for plugin in self.handling(attributes) {
            plugin.judge(&self.context, attributes, object).await?;
        }
        Ok(Mutated(()))
    }

    async fn round(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        for plugin in self.handling(attributes) {
            plugin.mutate(&self.context, attributes, object).await?;
        }
        let context = &self.context;
        if let Some(policies) = &self.mutating_policies {
            policies.mutate(context, attributes, object, rounds).await?;
        }
        if let Some(webhooks) = &self.mutating {
            webhooks.mutate(context, attributes, object, rounds).await?;
        }
        Ok(())
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
        let context = &self.context;
        policies::rights::check(context, attributes, object).await?;
        if let Some(policies) = &self.validating_policies {
            policies.validate(context, attributes, object).await?;
        }
        if let Some(webhooks) = &self.validating {
            webhooks.validate(context, attributes, object).await?;
        }
        if let Some(quota) = &self.quota {
            quota.validate(context, attributes, object).await?;
        }
        Ok(())
    }

    /// Looks at the namespace of a new object right before that is stored, and returns it; `None`
    /// if the object needs none. From the store if the `newest` state is asked for.
    pub(crate) async fn namespace(
        &self,
        kind: &Kind,
        place: (&str, &str),
        newest: bool,
    ) -> Result<Option<Arc<Value>>, Status> {
        match &self.lifecycle {
            Some(lifecycle) => lifecycle.confirm(&self.context, kind, place, newest).await,
            None => Ok(None),
        }
    }

    /// True if policies or webhooks may be asked about objects that a user writes.
    pub(crate) fn looks_at_objects(&self, user: &User) -> bool {
        let mut lookers = LOOKERS.iter();
        // What this process writes itself passes none of them.
        !user.name.is_empty()
            && lookers.any(|plural| {
                let kind = schema::resource(GROUP, "v1", plural);
                // One that cannot be read is there, too.
                kind.is_some_and(|kind| {
                    let all = self.context.reader.cached_stored(kind, "");
                    all.map_or(true, |all| !all.is_empty())
                })
            })
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

    /// True if the object says what webhooks or policies do.
    fn configures_admission(&self) -> bool {
        self.kind.group() == GROUP && EXEMPT.contains(&self.kind.kind())
    }

    /// Adds an annotation to the event about the request, if it is recorded. The value is made only
    /// then. The key has a prefix, and the first value of a key stays.
    fn annotate(&self, key: &str, value: impl FnOnce() -> String) {
        self.annotate_from(Level::Metadata, key, value);
    }

    /// The same for events that say at least so much.
    fn annotate_from(&self, level: Level, key: &str, value: impl FnOnce() -> String) {
        if let Some(record) = self.audit {
            record.annotate_admission(level, key, value());
        }
    }

    /// The status for a write that nobody can judge, because what decides about it cannot be read.
    /// Kubernetes has such a cache never ready, and says so.
    fn undecided(&self, error: &Status) -> Status {
        tracing::debug!(%error, "a write is refused");
        self.forbidden("not yet ready to handle request")
    }

    /// The status for a write that a plugin refuses.
    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.kind.group(), self.kind.plural(), self.name, why)
    }
}

/// All plugins, in Kubernetes' order.
fn in_order(more: Vec<Arc<dyn Plugin>>) -> Vec<Arc<dyn Plugin>> {
    let (late, early): (Vec<_>, Vec<_>) = more
        .into_iter()
        .partition(|plugin| plugin.name() == plugins::owner_references::NAME);
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![
        Arc::new(NamespaceLifecycle),
        Arc::new(plugins::limits::LimitRanger),
    ];
    plugins.extend(early);
    plugins.push(Arc::new(plugins::nodes::TaintNodesByCondition));
    plugins.push(Arc::new(plugins::pod_security::PodSecurity));
    plugins.push(Arc::new(plugins::pods::Priority));
    plugins.push(Arc::new(plugins::pods::DefaultTolerationSeconds));
    plugins.push(Arc::new(plugins::classes::DefaultStorageClass));
    plugins.push(Arc::new(plugins::protection::StorageObjectInUseProtection));
    plugins.extend(late);
    plugins.push(Arc::new(plugins::classes::PersistentVolumeClaimResize));
    plugins.push(Arc::new(plugins::runtime_class::RuntimeClass));
    plugins.push(Arc::new(plugins::certificates::CertificateApproval));
    plugins.push(Arc::new(plugins::certificates::CertificateSigning));
    plugins.push(Arc::new(
        plugins::certificates::CertificateSubjectRestriction,
    ));
    plugins.push(Arc::new(plugins::classes::DefaultIngressClass));
    plugins.push(Arc::new(plugins::topology::PodTopologyLabels));
    plugins.push(Arc::new(plugins::resize::NodeDeclaredFeatureValidator));
    plugins.push(Arc::new(plugins::resize::PodResizeValidator));
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_plugins_that_run() {
        let plugins = in_order(vec![Arc::new(plugins::service_account::ServiceAccount)]);
        let mut names: Vec<_> = plugins.iter().map(|plugin| plugin.name()).collect();
        names.extend([mutating_policy::NAME, mutating::NAME]);
        names.extend([
            validating_policy::NAME,
            validating::NAME,
            plugins::quota::NAME,
        ]);
        assert_eq!(names, PLUGINS);
    }

    #[test]
    fn of_many_warnings_each_is_given_once() {
        const COUNT: usize = 100_000;
        let warnings = Warnings::default();
        warnings.add((0..2 * COUNT).map(|at| format!("warning {:09}", at % COUNT)));
        let all = warnings.take();
        assert_eq!((all.len(), all[1].as_str()), (COUNT, "warning 000000001"));
        assert_eq!(warnings.take().len(), 0);
    }
}
