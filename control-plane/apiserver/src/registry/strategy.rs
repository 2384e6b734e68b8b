//! What is particular about each resource: one strategy for each, found by group and resource.
//!
//! Every kind takes the same way through [`crate::registry::verbs::write`] and its neighbours. Where a
//! kind differs from the others, they look into its strategy; no other place compares a kind with
//! a name. A resource without a row has [`DEFAULT`], so that a kind of another group that is
//! called like one of ours is not taken for it.

mod certificate_request;
mod claim;
mod cluster;
mod core_group;
mod custom;
mod devices;
mod disabled;
mod job;
mod namespace;
mod pod;
mod slice;
#[cfg(test)]
mod tests;
mod tls;
mod volume;
mod warnings;
mod workload;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use machinery::apply::Reset;
use machinery::object::{self, map_mut};
use machinery::schema::{self, Kind};
use serde_json::Value;

use crate::auth::User;
use crate::registry::printers::{self, Layout};
use crate::resources::catalogue::{ROOT, Resource, Storage};
use crate::resources::convert::Conversion;
use crate::resources::fields::{self, Selectable};
use crate::resources::hidden::Hidden;
use crate::validate::Rules;

/// How objects of one resource are created, changed and deleted.
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    /// The API group and the plural; all versions share a strategy.
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// How its objects are stored.
    pub(crate) stored: Stored,
    /// The folder of its keys; empty if that is the plural.
    pub(crate) folder: &'static str,
    /// The version that objects are written in, and how it differs from the one that they have in
    /// memory; `None` if it is the same.
    pub(crate) written_in: Option<(&'static str, Conversion)>,
    /// Versions that are not stored, and how they differ from the stored one.
    pub(crate) conversions: &'static [(&'static str, Conversion)],
    /// The fields that selectors may name, besides name and namespace.
    pub(crate) selectable: &'static [fields::Row],
    /// The field that is stored but not shown for some objects.
    pub(crate) hides: Option<Hidden>,
    /// What tables show.
    pub(crate) columns: &'static Layout,
    /// Each event of a watch as a table has the columns, not only the first.
    pub(crate) repeats_columns: bool,
    /// The number that the rows of tables are sorted by; empty for their usual order.
    pub(crate) rows_by: &'static [&'static str],
    /// What the row of an object says of it besides its cells.
    pub(crate) row_conditions: fn(&Value) -> Option<Value>,
    /// When `metadata.generation` counts.
    pub(crate) generation: Generation,
    /// A new object may bring its status along.
    pub(crate) keeps_status_on_create: bool,
    /// A PUT may create the object.
    pub(crate) allow_create_on_update: bool,
    /// A PUT may leave out the version that it replaces.
    pub(crate) allow_unconditional_update: bool,
    /// A deletion is answered by the object instead of a status.
    pub(crate) returns_deleted_object: bool,
    /// What a deletion waits for.
    pub(crate) deletion: Deletion,
    /// A deletion that says nothing of its dependents leaves them alone.
    pub(crate) orphans_dependents: bool,
    /// Nothing depends on the objects, so a deletion never waits for dependents.
    pub(crate) has_no_dependents: bool,
    /// Objects are kept for an hour only.
    pub(crate) expires: bool,
    /// Objects get addresses and ports.
    pub(crate) allocates: bool,
    /// A creation is not stored, it assigns a pod to a node.
    pub(crate) binds_pods: bool,
    /// The selector is a plain map of labels.
    pub(crate) has_plain_selector: bool,
    /// Where the spec of a pod is in an object; empty if it has none.
    pub(crate) pod_spec: &'static [&'static str],
    /// An update of the status may change the labels.
    pub(crate) labels_with_status: bool,
    /// What a new object gets besides identity and times.
    pub(crate) prepare_for_create: fn(&mut Value),
    /// Writes into a new object who sends it.
    pub(crate) set_requester: fn(&User, &mut Value),
    /// What an update keeps or gets, given the old state and the new one.
    pub(crate) prepare_for_update: fn(&Value, &mut Value),
    /// What an update of the status gets, given the old state and the new one.
    pub(crate) prepare_for_status_update: fn(&Value, &mut Value),
    /// A new object without labels has those of its template, also those that the server adds.
    pub(crate) borrows_labels: bool,
    /// What field managers cannot own through a path besides the usual: the subresource, empty for
    /// the object itself, and the fields that such a write cannot change.
    pub(crate) resets: &'static [(&'static str, Kept)],
    /// Subresources through which only a part of the object is written, and how.
    pub(crate) subresources: &'static [Subresource],
    pub(crate) rules: Rules,
    /// What every response warns of: the kind is deprecated.
    pub(crate) deprecated: Option<&'static str>,
    /// What is decided about a request depends on the objects, so the next request after a write
    /// has to be served with what was written.
    pub(crate) decides_about_requests: bool,
    /// What to warn of when a new object is about to get what a strategy adds to it.
    pub(crate) early_warnings: fn(&Value) -> Vec<String>,
    /// What to warn of when an object is created or changed, though it keeps the rules, given the old
    /// state of one that is changed.
    pub(crate) warnings: fn(Option<&Value>, &Value) -> Vec<String>,
    /// The same when the status is changed, given the new state.
    pub(crate) status_warnings: fn(&Value) -> Vec<String>,
    /// What to warn of when a deletion says nothing of the dependents.
    pub(crate) warning_on_delete: Option<&'static str>,
    /// Annotations that a conversion makes, so that metadata alone does not have them.
    pub(crate) annotations_of_whole: &'static [&'static str],
    /// What Kubernetes' conversion writes into an object without content, such as a bookmark's.
    pub(crate) complete_empty: fn(&mut Value),
    /// What an object is stored without.
    pub(crate) without_effect: fn(&Value) -> Option<&'static str>,
    /// How a field selector is refused that names an unknown field.
    pub(crate) unknown_field: UnknownField,
}

/// The name of a subresource, and what its updates make of an old state and a new one.
pub(crate) type Subresource = (&'static str, fn(&Value, &mut Value));

/// Which fields a write keeps as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// These and what is below them.
    Fields(&'static [&'static [&'static str]]),
    /// All but what matches one of these patterns; `None` fits any element.
    AllBut(&'static [&'static [Option<&'static str>]]),
}

/// A status that is written with none of the metadata.
pub(crate) const STATUS_ALONE: &[(&str, Kept)] =
    &[("status", Kept::Fields(&[&["metadata"], &["spec"]]))];

/// How the objects of a resource are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In protobuf, in a folder that is called like the resource.
    ByPlural,
    /// In JSON, in a folder below one that is called like the group.
    UnderGroup,
    /// As objects of the resource with the same name in the core group.
    WithCore,
    /// Not at all: they are only answered.
    Never,
}

/// When `metadata.generation` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    Never,
    /// It is 1 forever.
    OfCreation,
    /// When anything but metadata and status changes.
    OfSpec,
    /// The same, before the fields of features that are off are dropped.
    OfSentSpec,
    /// When anything but metadata and status changes, but a new object has none.
    OfUpdates,
    /// When labels change, too.
    OfLabels,
    /// When annotations change, too: others inherit them.
    OfSpecAndAnnotations,
    /// When anything but metadata changes, the status included.
    OfAllButMetadata,
}

/// What a deletion waits for, besides finalizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    AtOnce,
    /// The node's agent, as long as the object's grace lasts.
    Gracefully,
    /// The finalizers of the spec, which stand for the objects inside.
    AfterContent,
    /// The objects of the kind that the object defines.
    AfterInstances,
}

/// How a field selector is refused that names an unknown field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownField {
    /// In the words of kinds without fields of their own.
    MetadataAlone,
    /// In the words of kinds that convert the names of fields.
    NotSupported,
    /// The same with this kind.
    NotSupportedFor(&'static str),
    /// The same with this group, version and kind. Such kinds have no namespace to select by.
    OfKind(&'static str),
}

/// A resource that is like most.
pub(crate) const DEFAULT: Strategy = Strategy {
    group: "",
    resource: "",
    stored: Stored::ByPlural,
    folder: "",
    written_in: None,
    conversions: &[],
    selectable: &[],
    hides: None,
    columns: &printers::DEFAULT,
    repeats_columns: false,
    rows_by: &[],
    row_conditions: |_| None,
    generation: Generation::Never,
    keeps_status_on_create: false,
    allow_create_on_update: false,
    allow_unconditional_update: true,
    returns_deleted_object: false,
    deletion: Deletion::AtOnce,
    orphans_dependents: false,
    has_no_dependents: false,
    expires: false,
    allocates: false,
    binds_pods: false,
    has_plain_selector: false,
    pod_spec: &[],
    labels_with_status: false,
    prepare_for_create: |_| {},
    set_requester: |_, _| {},
    prepare_for_update: |_, _| {},
    prepare_for_status_update: |_, _| {},
    borrows_labels: false,
    resets: &[],
    subresources: &[],
    rules: Rules::DEFAULT,
    deprecated: None,
    early_warnings: |_| Vec::new(),
    warnings: |_, _| Vec::new(),
    status_warnings: |_| Vec::new(),
    warning_on_delete: None,
    annotations_of_whole: &[],
    complete_empty: |_| {},
    decides_about_requests: false,
    without_effect: |_| None,
    unknown_field: UnknownField::MetadataAlone,
};

static OTHER: Strategy = DEFAULT;

static ROWS: LazyLock<HashMap<(&str, &str), &Strategy>> = LazyLock::new(|| {
    let rows = core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::rows());
    rows.map(|row| ((row.group, row.resource), row)).collect()
});

static BUILTIN: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    let mut storages: HashMap<(&str, &str), Arc<Storage>> = HashMap::new();
    for kind in schema::kinds() {
        let row = of_builtin(kind);
        let stored = [Stored::ByPlural, Stored::UnderGroup].contains(&row.stored);
        if stored && kind.has_verb("list") && row.conversion(kind).is_none() {
            let place = (kind.group(), kind.plural());
            storages.insert(place, Arc::new(row.storage(kind)));
        }
    }
    let resources = schema::kinds().iter().map(|kind| {
        let row = of_builtin(kind);
        let group = match row.stored {
            Stored::WithCore => "",
            _ => kind.group(),
        };
        let storage = storages.get(&(group, kind.plural()));
        Arc::new(Resource {
            kind: Arc::clone(kind),
            storage: storage.cloned(),
            selectable: row.selectable(),
            conversion: row.conversion(kind),
            custom: None,
        })
    });
    resources.collect()
});

/// Every built-in resource, in the order of the table.
pub(crate) fn builtin() -> &'static [Arc<Resource>] {
    &BUILTIN
}

/// The strategy of a resource.
pub(crate) fn of(resource: &Resource) -> &'static Strategy {
    match (&resource.custom, resource.has_status()) {
        (None, _) => of_builtin(&resource.kind),
        (Some(_), true) => &custom::WITH_STATUS,
        (Some(_), false) => &custom::WHOLE,
    }
}

/// Whether objects of a collection are kept for an hour only.
pub(crate) fn expires(storage: &Storage) -> bool {
    !storage.custom && of_builtin(&storage.kind).expires
}

fn of_builtin(kind: &Kind) -> &'static Strategy {
    let row = ROWS.get(&(kind.group(), kind.plural()));
    row.copied().unwrap_or(&OTHER)
}

impl Strategy {
    fn storage(&self, kind: &Arc<Kind>) -> Storage {
        let folder = match self.folder {
            "" => kind.plural(),
            folder => folder,
        };
        let under_group = self.stored == Stored::UnderGroup;
        let prefix = if under_group {
            format!("{ROOT}{}/{folder}/", kind.group())
        } else {
            format!("{ROOT}{folder}/")
        };
        let mut storage =
            Storage::builtin(Arc::clone(kind), prefix, under_group, self.selectable());
        storage.hidden = self.hides;
        match self.written_in {
            Some((version, conversion)) => storage.written_in(version, conversion),
            None => storage,
        }
    }

    fn selectable(&self) -> Selectable {
        self.selectable.iter().map(Into::into).collect()
    }

    fn conversion(&self, kind: &Kind) -> Option<Conversion> {
        let mut all = self.conversions.iter();
        all.find(|(version, _)| *version == kind.version())
            .map(|(_, conversion)| *conversion)
    }

    /// What an update through a subresource makes of the object, if that is particular.
    pub(crate) fn prepare_subresource(&self, name: &str) -> Option<fn(&Value, &mut Value)> {
        let mut all = self.subresources.iter();
        all.find(|(one, _)| *one == name)
            .map(|(_, prepare)| *prepare)
    }

    /// What a write through a subresource, or through none, cannot change.
    pub(crate) fn reset(&self, resource: &Resource, subresource: &str) -> Reset {
        let mut all = self.resets.iter();
        let particular = all.find(|(one, _)| *one == subresource);
        match particular {
            Some((_, Kept::Fields(paths))) => Reset::of(paths),
            Some((_, Kept::AllBut(patterns))) => Reset::AllBut(patterns),
            None if subresource == "status" => Reset::of(&[&["spec"]]),
            None if subresource.is_empty() && resource.has_status() => Reset::of(&[&["status"]]),
            None => Reset::of(&[]),
        }
    }

    /// Drops what a write may not set as long as its feature is off.
    pub(crate) fn drop_disabled(&self, old: Option<&Value>, new: &mut Value) {
        if self.pod_spec.is_empty() {
            return;
        }
        let before = old.and_then(|old| object::at(old, self.pod_spec));
        let place = format!("/{}", self.pod_spec.join("/"));
        if let Some(spec) = new.pointer_mut(&place).filter(|spec| spec.is_object()) {
            disabled::drop_from(before, spec);
        }
    }

    /// What to warn of whenever an object is written.
    pub(crate) fn warnings_of(&self, object: &Value) -> Option<String> {
        let what = (self.without_effect)(object)?;
        let resource = self.resource;
        Some(format!(
            "this server keeps {resource} but does not act on them: {what}"
        ))
    }
}

/// Restores one part of an object from the old state.
pub(crate) fn keep(old: &Value, new: &mut Value, key: &str) {
    match old.get(key) {
        Some(value) => map_mut(new).insert(key.into(), value.clone()),
        None => map_mut(new).remove(key),
    };
}
