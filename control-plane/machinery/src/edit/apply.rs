//! Server-side apply: who owns which fields of an object, and how configurations are merged.
//!
//! Each write has a manager. An update owns what it changes. An applied configuration owns what it
//! names: fields that it named before and does not name any more are removed, unless somebody else
//! owns them. To change a field that another manager owns is a conflict.
//!
//! `fields` has the sets of fields and `fieldsv1` their form in JSON. `typing` says what must be
//! known of a type, which comes from the table of built-in kinds or from the schema of a custom
//! resource (`custom`). `check`, `compare`, `merge` and `prune` walk over values together with
//! their types. `managers` is `metadata.managedFields`, `update` has the rules above and kubectl's
//! way here from client-side apply, `conflicts` what they refuse, and `scale` the managers of a
//! Scale.

mod check;
mod compare;
mod conflicts;
mod custom;
mod fields;
mod fieldsv1;
mod managers;
mod merge;
mod overlay;
mod prune;
mod scale;
#[cfg(test)]
mod tests;
mod typing;
mod update;
mod value;

pub use check::{Misfit, Misfits};
pub use compare::{Comparison, compare};
pub use conflicts::{Conflict, Conflicts};
pub use custom::Custom;
pub use fields::{Element, Path, Set};
pub use fieldsv1::{InOrder, Malformed};
pub use managers::{Manager, Managers, Operation, Owned, equal_without_times};
pub use merge::merge;
pub use overlay::overlay;
pub use prune::fields_of;
pub use scale::{Replicas, to_parent, to_scale};
pub use typing::{
    Forms, Identity, List, Map, Member, Scalar, Typing, UntypedAtomic, UntypedDeduced,
};
pub use update::{Reset, Unconverted, Versions, Write};

/// Why a write fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Other managers own fields that the configuration changes.
    Conflicts(Conflicts),
    /// The request is wrong.
    Refused(String),
    /// An object does not fit its type.
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Refused(why) | Error::Failed(why) => f.write_str(why),
            Error::Conflicts(conflicts) => write!(f, "{conflicts}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Misfits> for Error {
    fn from(misfits: Misfits) -> Error {
        Error::Failed(misfits.to_string())
    }
}
