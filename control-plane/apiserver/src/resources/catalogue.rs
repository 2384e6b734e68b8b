//! What is served and where it is stored: the kinds of the schema table, with the few facts about
//! them that are not in the table.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use machinery::schema::{self, Kind};
use machinery::status::Status;

/// Where all objects are.
pub(crate) const ROOT: &str = "/registry/";

/// One resource of one version.
pub(crate) struct Resource {
    /// What is served.
    pub(crate) kind: Arc<Kind>,
    /// Where it is stored; some kinds are only answered.
    pub(crate) storage: Option<&'static Storage>,
}

/// One collection of the store; versions of a kind share it.
pub(crate) struct Storage {
    /// Its place among all of them.
    pub(crate) at: usize,
    /// The version that is written.
    pub(crate) kind: Arc<Kind>,
    /// What its keys begin with, such as `/registry/pods/`.
    pub(crate) prefix: String,
    /// Written as JSON instead of protobuf.
    pub(crate) json: bool,
}

struct Catalogue {
    resources: Vec<Resource>,
    by_prefix: BTreeMap<&'static str, usize>,
}

static STORAGES: LazyLock<Vec<Storage>> = LazyLock::new(|| {
    let stored = schema::kinds()
        .iter()
        .filter(|kind| is_stored_version(kind));
    let storages = stored.enumerate().map(|(at, kind)| Storage {
        at,
        kind: Arc::clone(kind),
        prefix: prefix(kind),
        json: in_own_folder(kind.group()),
    });
    storages.collect()
});

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let storage_of = |kind: &Kind| {
        let prefix = prefix(kind);
        let served = kind.has_verb("list") && kind.plural() != "componentstatuses";
        served
            .then(|| STORAGES.iter().find(|storage| storage.prefix == prefix))
            .flatten()
    };
    let resources = schema::kinds().iter().map(|kind| Resource {
        kind: Arc::clone(kind),
        storage: storage_of(kind),
    });
    let by_prefix = STORAGES
        .iter()
        .map(|storage| (storage.prefix.as_str(), storage.at));
    Catalogue {
        resources: resources.collect(),
        by_prefix: by_prefix.collect(),
    }
});

/// Every resource that is served.
pub(crate) fn all() -> &'static [Resource] {
    &CATALOGUE.resources
}

/// Every collection of the store.
pub(crate) fn storages() -> &'static [Storage] {
    &STORAGES
}

/// The resource of a group, version and plural.
pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    schema::resource(group, version, plural).map(|kind| of(kind))
}

/// The resource of a kind of the table.
pub(crate) fn of(kind: &Kind) -> &'static Resource {
    let mut all = CATALOGUE.resources.iter();
    all.find(|resource| *resource.kind == *kind)
        .expect("every kind of the table is a resource")
}

/// The collection a key of the store belongs to.
pub(crate) fn storage_of_key(key: &str) -> Option<&'static Storage> {
    // No prefix begins with another, so the one that sorts last before the key is the only one.
    let (prefix, at) = CATALOGUE.by_prefix.range(..=key).next_back()?;
    key.starts_with(prefix).then(|| &STORAGES[*at])
}

/// Whether any version of this group is served.
pub(crate) fn serves_version(group: &str, version: &str) -> bool {
    let mut all = CATALOGUE.resources.iter();
    all.any(|one| one.kind.group() == group && one.kind.version() == version)
}

/// Whether a group is served in any version.
pub(crate) fn serves_group(group: &str) -> bool {
    CATALOGUE
        .resources
        .iter()
        .any(|one| one.kind.group() == group)
}

/// No version of a group has such a kind, in the words of Kubernetes' scheme.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )
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
            "" => self.prefix.clone(),
            namespace => format!("{}{namespace}/", self.prefix),
        }
    }
}

impl Resource {
    /// Whether the status is written through its own path alone.
    pub(crate) fn has_status(&self) -> bool {
        self.kind.subresource("status").is_some()
    }

    /// There is no object of this name.
    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.kind.group(), self.kind.plural(), name)
    }

    /// What objects are called in lists: the kind with `List` added.
    pub(crate) fn list_kind(&self) -> String {
        format!("{}List", self.kind.kind())
    }

    /// A field that selectors may name, besides name and namespace.
    pub(crate) fn selectable(&self, field: &str) -> Option<Vec<&'static str>> {
        selectable(self.kind.group(), self.kind.plural(), field)
    }
}

/// The path in the object that a selectable field stands for.
pub(crate) fn selectable(group: &str, plural: &str, field: &str) -> Option<Vec<&'static str>> {
    let fields = selectable_fields(group, plural);
    let field = fields.iter().find(|one| **one == field)?;
    let path = match *field {
        "source" => "source.component",
        "status.podIPs" => "status.podIP",
        "status.successful" => "status.succeeded",
        field => field,
    };
    Some(path.split('.').collect())
}

/// The fields that selectors may name, besides name and namespace.
pub(crate) fn selectable_fields(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

/// Whether this is the version of its kind that the store holds.
fn is_stored_version(kind: &Kind) -> bool {
    let listed = kind.has_verb("list") && kind.plural() != "componentstatuses";
    let other = (kind.group(), kind.plural()) == ("events.k8s.io", "events")
        || (kind.group(), kind.version()) == ("autoscaling", "v1");
    listed && !other
}

/// These groups' keys name the group.
fn in_own_folder(group: &str) -> bool {
    ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&group)
}

fn prefix(kind: &Kind) -> String {
    let folder = match (kind.group(), kind.plural()) {
        ("", "nodes") => "minions",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("", "replicationcontrollers") => "controllers",
        ("networking.k8s.io", "ingresses") => "ingress",
        (group, plural) if in_own_folder(group) => return format!("{ROOT}{group}/{plural}/"),
        (_, plural) => plural,
    };
    format!("{ROOT}{folder}/")
}
