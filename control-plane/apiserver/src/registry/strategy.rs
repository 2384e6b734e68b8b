//! The strategies: what distinguishes each resource from the others, by group and resource.
//!
//! Every kind takes the same path through [`crate::registry::write`] and its neighbours. Where
//! kinds differ, these look into the strategy; no other place compares a kind with a name. A
//! resource without a row has [`DEFAULT`], so a kind of another group is never mistaken for a
//! built-in kind with its name.

mod cluster;
mod core_group;
mod job;
mod namespace;
mod pod;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::HashMap;
use std::sync::LazyLock;

use machinery::schema::Kind;
use serde_json::Value;

use crate::auth::User;
use crate::resources::catalogue::Resource;
use crate::validate::Rules;

/// How objects of one resource are created, changed and deleted.
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    /// The API group and the plural; all versions share a strategy.
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// Which changes increase `metadata.generation`.
    pub(crate) generation: Generation,
    /// True if a new object keeps the status it comes with.
    pub(crate) keeps_status_on_create: bool,
    /// True if a PUT may create the object.
    pub(crate) allow_create_on_update: bool,
    /// True if a PUT may omit the version that it replaces.
    pub(crate) allow_unconditional_update: bool,
    /// True if a deletion returns the object instead of a status.
    pub(crate) returns_deleted_object: bool,
    /// What a deletion waits for.
    pub(crate) deletion: Deletion,
    /// True if a deletion without a propagation policy orphans the dependents.
    pub(crate) orphans_dependents: bool,
    /// True if objects expire after an hour.
    pub(crate) expires: bool,
    /// True if objects get addresses and ports.
    pub(crate) allocates: bool,
    /// True if a create is not stored, but assigns a pod to a node.
    pub(crate) binds_pods: bool,
    /// True if the selector is a plain map of labels.
    pub(crate) has_plain_selector: bool,
    /// Initializes a new object, besides identity and times.
    pub(crate) prepare_for_create: fn(&mut Value),
    /// Writes the requester into a new object.
    pub(crate) set_requester: fn(&User, &mut Value),
    /// Restores or sets fields in an update, from the old state to the new one.
    pub(crate) prepare_for_update: fn(&Value, &mut Value),
    /// Subresources that write only a part of the object.
    pub(crate) subresources: &'static [Subresource],
    pub(crate) rules: Rules,
    /// Returns a warning about a new object that is valid.
    pub(crate) warnings_on_create: fn(&Value) -> Option<String>,
    /// Names the feature of an object that has no effect here.
    pub(crate) without_effect: fn(&Value) -> Option<&'static str>,
    /// The error for an unknown field in a field selector.
    pub(crate) unknown_field: UnknownField,
}

/// The name of a subresource, and its preparation of an update from the old to the new state.
pub(crate) type Subresource = (&'static str, fn(&Value, &mut Value));

/// Which changes increase `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    Never,
    /// Changes of anything except metadata and status.
    OfSpec,
    /// Changes of annotations, too: other objects inherit them.
    OfSpecAndAnnotations,
}

/// What a deletion waits for, besides finalizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    AtOnce,
    /// For the node's agent, during the grace period.
    Gracefully,
    /// For the finalizers of the spec, which stand for the objects inside.
    AfterContent,
}

/// The error for an unknown field in a field selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownField {
    /// The message for kinds without fields of their own.
    MetadataAlone,
    /// The message for kinds that convert field names.
    NotSupported,
    /// The same with this kind.
    NotSupportedFor(&'static str),
}

/// The strategy of most resources.
pub(crate) const DEFAULT: Strategy = Strategy {
    group: "",
    resource: "",
    generation: Generation::Never,
    keeps_status_on_create: false,
    allow_create_on_update: false,
    allow_unconditional_update: true,
    returns_deleted_object: false,
    deletion: Deletion::AtOnce,
    orphans_dependents: false,
    expires: false,
    allocates: false,
    binds_pods: false,
    has_plain_selector: false,
    prepare_for_create: |_| {},
    set_requester: |_, _| {},
    prepare_for_update: |_, _| {},
    subresources: &[],
    rules: Rules::DEFAULT,
    warnings_on_create: |_| None,
    without_effect: |_| None,
    unknown_field: UnknownField::MetadataAlone,
};

static OTHER: Strategy = DEFAULT;

static ROWS: LazyLock<HashMap<(&str, &str), &Strategy>> = LazyLock::new(|| {
    let rows = core_group::ROWS
        .iter()
        .chain(workload::ROWS)
        .chain(cluster::ROWS);
    rows.map(|row| ((row.group, row.resource), row)).collect()
});

/// Returns the strategy of a resource.
pub(crate) fn of(resource: &Resource) -> &'static Strategy {
    of_kind(resource.kind)
}

/// Returns the strategy of a kind.
pub(crate) fn of_kind(kind: &Kind) -> &'static Strategy {
    let row = ROWS.get(&(kind.group, kind.plural));
    row.copied().unwrap_or(&OTHER)
}

impl Strategy {
    /// Returns the preparation of an update through a subresource, if it has its own.
    pub(crate) fn prepare_subresource(&self, name: &str) -> Option<fn(&Value, &mut Value)> {
        let mut all = self.subresources.iter();
        all.find(|(one, _)| *one == name)
            .map(|(_, prepare)| *prepare)
    }

    /// Returns a warning about an object that is stored and has no effect here.
    pub(crate) fn warning_without_effect(&self, object: &Value) -> Option<String> {
        let what = (self.without_effect)(object)?;
        let resource = self.resource;
        Some(format!(
            "this server keeps {resource} but does not act on them: {what}"
        ))
    }
}
