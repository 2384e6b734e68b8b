//! Kinds: those of the table, and those that a cluster adds.

use std::borrow::Cow;

use super::{Message, MessageId, OPEN, named};

/// A text of the table, or of a kind that a cluster adds.
type Text = Cow<'static, str>;

/// The rank of groups that are not in the table: behind all others.
const PRIORITY_OF_CUSTOM: u32 = 1000;

/// A kind with its own collection, as discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    pub(super) group: Text,
    pub(super) version: Text,
    pub(super) names: Names,
    pub(super) scope: Scope,
    pub(super) verbs: Vec<&'static str>,
    pub(super) subresources: Vec<Subresource>,
    pub(super) priority: u32,
    pub(super) message: MessageId,
}

/// What a kind and its collection are called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Names {
    /// The kind, such as `Deployment`.
    pub kind: Text,
    /// The kind of its lists, such as `DeploymentList`.
    pub list_kind: Text,
    /// The name of the collection in paths, such as `deployments`.
    pub plural: Text,
    /// The singular name, such as `deployment`.
    pub singular: Text,
    /// Abbreviations that kubectl accepts.
    pub short_names: Vec<Text>,
    /// Groups of kinds that kubectl accepts, such as `all`.
    pub categories: Vec<Text>,
}

/// Whether objects of a kind have a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// A subresource, such as `status` or `scale`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subresource {
    /// The last segment of the path.
    pub name: &'static str,
    pub(super) group: Text,
    pub(super) version: Text,
    pub(super) kind: Text,
    /// The verbs that discovery lists.
    pub verbs: Vec<&'static str>,
    pub(super) message: MessageId,
}

impl Kind {
    /// A kind that the table does not have. Its objects keep all fields as they are; only their
    /// metadata has types.
    pub fn custom(group: String, version: String, names: Names, scope: Scope) -> Kind {
        Kind {
            group: group.into(),
            version: version.into(),
            names,
            scope,
            verbs: vec![
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ],
            subresources: Vec::new(),
            priority: PRIORITY_OF_CUSTOM,
            message: named(OPEN),
        }
    }

    /// The same kind with these of the usual verbs alone.
    #[must_use]
    pub fn with_verbs<'a>(mut self, verbs: impl Iterator<Item = &'a str>) -> Kind {
        let verbs: Vec<&str> = verbs.collect();
        self.verbs.retain(|verb| verbs.contains(verb));
        self
    }

    /// The same kind with a status of its own path.
    #[must_use]
    pub fn with_status(mut self) -> Kind {
        let status = Subresource {
            name: "status",
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.names.kind.clone(),
            verbs: vec!["get", "patch", "update"],
            message: self.message,
        };
        self.subresources.push(status);
        self
    }

    /// The same kind with a Scale of its own path.
    #[must_use]
    pub fn with_scale(mut self) -> Kind {
        self.subresources.push(Subresource {
            name: "scale",
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: vec!["get", "patch", "update"],
            message: named("autoscaling/v1.Scale"),
        });
        self
    }

    /// The API group; empty for core.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The version within the group.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.names.kind
    }

    /// The kind of its lists, such as `DeploymentList`.
    pub fn list_kind(&self) -> &str {
        &self.names.list_kind
    }

    /// The name of the collection in paths, such as `deployments`.
    pub fn plural(&self) -> &str {
        &self.names.plural
    }

    /// The singular name, such as `deployment`.
    pub fn singular(&self) -> &str {
        &self.names.singular
    }

    /// Abbreviations that kubectl accepts.
    pub fn short_names(&self) -> &[Cow<'static, str>] {
        &self.names.short_names
    }

    /// Groups of kinds that kubectl accepts, such as `all`.
    pub fn categories(&self) -> &[Cow<'static, str>] {
        &self.names.categories
    }

    /// Whether objects live in a namespace.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The verbs that discovery lists.
    pub fn verbs(&self) -> &[&'static str] {
        &self.verbs
    }

    /// The subresources of an object.
    pub fn subresources(&self) -> &[Subresource] {
        &self.subresources
    }

    /// The rank of its group and version among all; larger comes first.
    pub fn priority(&self) -> u32 {
        self.priority
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether objects live in a namespace.
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// True if discovery lists this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// The subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Its fields.
    pub fn message(&self) -> &'static Message {
        self.message.get()
    }
}

impl Subresource {
    /// The group of the objects it reads and writes.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The version of the objects it reads and writes.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kind of the objects it reads and writes.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The fields of the objects it reads and writes.
    pub fn message(&self) -> &'static Message {
        self.message.get()
    }
}
