//! What is served and where it is stored.
//!
//! A [`Catalogue`] is one state of what a server serves: the built-in resources, and custom ones. It
//! is never changed: when a resource comes or goes, another catalogue takes its place, and a
//! request keeps the one that it began with.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use machinery::schema::Kind;
use machinery::status::Status;

use super::convert::Conversion;
use super::custom::Custom;
use super::fields::Selectable;

/// Where all objects are.
pub(crate) const ROOT: &str = "/registry/";

/// One resource of one version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// What is served.
    pub(crate) kind: Arc<Kind>,
    /// Where it is stored; some kinds are only answered.
    pub(crate) storage: Option<Arc<Storage>>,
    /// The fields that selectors may name, besides name and namespace.
    pub(crate) selectable: Selectable,
    /// How its objects differ from the stored ones; `None` if they do not.
    pub(crate) conversion: Option<Conversion>,
    /// What is particular about a resource that the table does not have.
    pub(crate) custom: Option<Custom>,
}

/// One collection of the store; versions of a kind share it.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) id: StorageId,
    /// The version that is written.
    pub(crate) kind: Arc<Kind>,
    /// What its keys begin with, such as `/registry/pods/`.
    pub(crate) prefix: Arc<str>,
    /// Written as JSON instead of protobuf.
    pub(crate) json: bool,
    /// The table does not have the kind.
    pub(crate) custom: bool,
    /// The fields of the stored version that selectors may name.
    pub(crate) selectable: Selectable,
}

/// Tells collections apart. A collection that comes after another with the same prefix is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StorageId(u64);

/// One state of what a server serves.
#[derive(Default)]
pub(crate) struct Catalogue {
    /// In the order of discovery.
    resources: Vec<Arc<Resource>>,
    by_group: HashMap<Arc<str>, Versions>,
    /// The collections of the store, each once.
    storages: HashMap<StorageId, Arc<Storage>>,
}

/// The resources of each version of a group.
type Versions = HashMap<Arc<str>, Plurals>;
/// The index of each resource by its plural.
type Plurals = HashMap<Arc<str>, usize>;

/// No version of a group has such a kind, in the words of Kubernetes' scheme.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
}

impl Catalogue {
    /// A catalogue of these resources.
    pub(crate) fn new(resources: impl IntoIterator<Item = Arc<Resource>>) -> Catalogue {
        let mut resources: Vec<_> = resources.into_iter().collect();
        // Stable: within one priority the order of the table, and of versions, holds.
        resources.sort_by_key(|resource| std::cmp::Reverse(resource.kind.priority()));
        let mut catalogue = Catalogue::default();
        for (at, resource) in resources.iter().enumerate() {
            let kind = &resource.kind;
            let versions = catalogue.by_group.entry(kind.group().into()).or_default();
            let plurals = versions.entry(kind.version().into()).or_default();
            plurals.insert(kind.plural().into(), at);
            if let Some(storage) = &resource.storage {
                catalogue.storages.insert(storage.id, Arc::clone(storage));
            }
        }
        catalogue.resources = resources;
        catalogue
    }

    /// Every resource that is served, in the order of discovery.
    pub(crate) fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// Every collection of the store.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Arc<Storage>> {
        self.storages.values()
    }

    /// The resource of a group, version and plural.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<Resource>> {
        let at = self.by_group.get(group)?.get(version)?.get(plural)?;
        Some(&self.resources[*at])
    }

    /// The resource of a kind; an error if it is not served.
    pub(crate) fn of(&self, kind: &Kind) -> Result<&Arc<Resource>, Status> {
        self.resource(kind.group(), kind.version(), kind.plural())
            .ok_or_else(Status::unknown_path)
    }

    /// Whether any resource of this version of a group is served.
    pub(crate) fn serves_version(&self, group: &str, version: &str) -> bool {
        let versions = self.by_group.get(group);
        versions.is_some_and(|versions| versions.contains_key(version))
    }

    /// Whether a group is served in any version.
    pub(crate) fn serves_group(&self, group: &str) -> bool {
        self.by_group.contains_key(group)
    }
}

impl StorageId {
    pub(crate) fn next() -> StorageId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        StorageId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Storage {
    /// The key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.kind.namespaced() {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// What the keys of a namespace begin with; of all namespaces when it is empty.
    pub(crate) fn folder(&self, namespace: &str) -> String {
        match namespace {
            "" => self.prefix.to_string(),
            namespace => format!("{}{namespace}/", self.prefix),
        }
    }
}

impl Resource {
    /// Whether the status is written through its own path alone.
    pub(crate) fn has_status(&self) -> bool {
        self.kind.subresource("status").is_some()
    }

    /// Where its objects are stored; an error for a kind that is only answered.
    pub(crate) fn stored(&self) -> Result<&Arc<Storage>, Status> {
        self.storage.as_ref().ok_or_else(Status::method_not_allowed)
    }

    /// There is no object of this name.
    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.kind.group(), self.kind.plural(), name)
    }
}
