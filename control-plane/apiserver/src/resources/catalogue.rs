//! What is served and where it is stored.
//!
//! A [`Catalogue`] is one state of what a server serves: the built-in resources, and custom ones. It
//! is never changed: when a resource comes or goes, another catalogue takes its place, and a
//! request keeps the one that it began with.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use machinery::schema::Kind;
use machinery::status::Status;
use machinery::structural::Schema;
use parking_lot::RwLock;

use super::convert::{Conversion, ConvertedVersion};
use super::custom::{Custom, Schemas};
use super::fields::Selectable;
use super::hidden::Hidden;

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
    /// The version that objects have in memory, whichever they were stored in, unless they keep it.
    pub(crate) kind: Arc<Kind>,
    /// The `apiVersion` that objects are stored in. A definition may change it while requests hold
    /// the collection: each write takes the newest.
    stored_in: RwLock<Arc<str>>,
    /// How a built-in kind differs in the version that it is stored in, if that is another one.
    pub(crate) conversion: Option<Conversion>,
    /// What its keys begin with, such as `/registry/pods/`.
    pub(crate) prefix: Arc<str>,
    /// Written as JSON instead of protobuf.
    pub(crate) json: bool,
    /// The table does not have the kind.
    pub(crate) custom: bool,
    /// Objects keep the version that they were stored in: they are converted for requests.
    pub(crate) keeps_version: bool,
    /// The fields of the stored version that selectors may name.
    pub(crate) selectable: Selectable,
    /// What objects have that is not shown.
    pub(crate) hidden: Option<Hidden>,
    /// What the fields of a custom resource are, in each version. Objects lose the others when they
    /// are read, and get defaults.
    schemas: Schemas,
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
        // Stable: within one priority the order of the table, and of versions, holds. Groups of
        // custom resources are in the order of their names: of two kinds with one plural, kubectl
        // takes the first.
        resources.sort_by(|a, b| {
            let by_priority = b.kind.priority().cmp(&a.kind.priority());
            by_priority.then_with(|| match (&a.custom, &b.custom) {
                (Some(_), Some(_)) => a.kind.group().cmp(b.kind.group()),
                _ => Ordering::Equal,
            })
        });
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

    /// Every custom resource, in the order of discovery.
    pub(crate) fn custom(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter().filter(|one| one.custom.is_some())
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

    /// The collection of a custom resource, in whichever versions it is served.
    pub(crate) fn custom_storage(&self, group: &str, plural: &str) -> Option<&Arc<Storage>> {
        let mut custom = self.custom();
        let found = custom.find(|one| (one.kind.group(), one.kind.plural()) == (group, plural));
        found?.storage.as_ref()
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
    fn next() -> StorageId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        StorageId(NEXT.fetch_add(1, atomic::Ordering::Relaxed))
    }
}

impl Storage {
    /// The collection of a built-in resource whose keys begin with `prefix`, stored in its own
    /// version.
    pub(crate) fn builtin(
        kind: Arc<Kind>,
        prefix: String,
        json: bool,
        selectable: Selectable,
    ) -> Storage {
        Storage {
            id: StorageId::next(),
            prefix: prefix.into(),
            stored_in: RwLock::new(kind.api_version().into()),
            conversion: None,
            json,
            custom: false,
            keeps_version: false,
            selectable,
            hidden: None,
            schemas: Schemas::new(),
            kind,
        }
    }

    /// The same collection, stored in another version of its group.
    pub(crate) fn written_in(self, version: &str, conversion: Conversion) -> Storage {
        self.store_in(format!("{}/{version}", self.kind.group()));
        Storage {
            conversion: Some(conversion),
            ..self
        }
    }

    /// The collection of a custom resource, held in memory and stored in this version.
    pub(crate) fn custom(kind: Arc<Kind>, selectable: Selectable, schemas: Schemas) -> Storage {
        Storage {
            id: StorageId::next(),
            prefix: format!("{ROOT}{}/{}/", kind.group(), kind.plural()).into(),
            stored_in: RwLock::new(kind.api_version().into()),
            conversion: None,
            json: true,
            custom: true,
            keeps_version: false,
            selectable,
            hidden: None,
            schemas,
            kind,
        }
    }

    /// The collection of a custom resource whose versions have different fields: each object is in
    /// the version that it was stored in.
    pub(crate) fn converted(kind: Arc<Kind>, selectable: Selectable, schemas: Schemas) -> Storage {
        Storage {
            keeps_version: true,
            ..Storage::custom(kind, selectable, schemas)
        }
    }

    /// What the fields of an object in a version are; `None` if it keeps them all.
    pub(crate) fn schema(&self, api_version: &str) -> Option<&Schema> {
        let found = match self.schemas.get(api_version) {
            // All versions are alike, and it may be in one that the definition had before.
            None if !self.keeps_version => self.schemas.values().next(),
            found => found,
        };
        found?.as_deref()
    }

    /// True if objects are read alike by these schemas. All versions are alike already.
    pub(crate) fn reads_like(&self, schemas: &Schemas) -> bool {
        let first = |schemas: &Schemas| schemas.values().next().cloned().flatten();
        match (first(&self.schemas), first(schemas)) {
            (Some(one), Some(other)) => one.keeps_like(&other),
            (one, other) => one.is_some() == other.is_some(),
        }
    }

    /// The `apiVersion` that objects are stored in.
    pub(crate) fn stored_in(&self) -> Arc<str> {
        Arc::clone(&self.stored_in.read())
    }

    /// Stores objects in another version from here on. All versions have the same fields.
    pub(crate) fn store_in(&self, api_version: String) {
        *self.stored_in.write() = api_version.into();
    }

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

    /// How its objects are converted, if its versions have different fields.
    pub(crate) fn converted(&self) -> Option<&ConvertedVersion> {
        self.custom.as_ref()?.converted.as_ref()
    }

    /// What the fields of a custom resource are, if its definition says it.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.custom.as_ref()?.schema.as_deref()
    }

    /// Whether requests with this verb are answered. While the objects of a custom resource are
    /// being deleted, discovery lists fewer verbs than updates need that let objects go.
    pub(crate) fn takes(&self, verb: &str) -> bool {
        let terminating = self.custom.as_ref().is_some_and(|one| one.terminating);
        self.kind.has_verb(verb) || terminating
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
