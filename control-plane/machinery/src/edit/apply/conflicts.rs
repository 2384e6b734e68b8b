//! Conflicts: what a configuration changes though other managers own it.

use std::collections::BTreeMap;
use std::fmt;

use super::fields::Set;
use super::managers::Manager;
use crate::basics::budget::Room;

/// Fields of an applied configuration that other managers own with other values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts(BTreeMap<Manager, Set>);

/// One conflict, as messages have it.
pub struct Conflict<'a> {
    /// The other manager.
    pub manager: &'a Manager,
    /// The path of the field.
    pub path: String,
}

impl Conflicts {
    /// Adds the fields that a manager owns; nothing if there are none.
    pub(super) fn add(&mut self, manager: &Manager, fields: Set) {
        if !fields.is_empty() {
            self.0.insert(manager.clone(), fields);
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conflicts that are about none of these fields.
    #[must_use]
    pub(super) fn without(&self, fields: &Set) -> Conflicts {
        let mut rest = Conflicts::default();
        for (manager, own) in &self.0 {
            rest.add(manager, own.difference(fields));
        }
        rest
    }

    /// Manager by manager, as many as are told.
    pub fn told(&self) -> Vec<Conflict<'_>> {
        let mut room = Room::default();
        let mut told = Vec::new();
        for (manager, fields) in &self.0 {
            let paths = fields.shown(&mut room);
            told.extend(paths.into_iter().map(|path| Conflict { manager, path }));
        }
        told
    }

    fn count(&self) -> usize {
        self.0.values().map(Set::len).sum()
    }
}

/// The message about these conflicts.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, told) = (self.count(), self.told());
        if let (1, [Conflict { manager, path }]) = (count, told.as_slice()) {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {path}"
            );
        }
        write!(f, "Apply failed with {count} conflicts:")?;
        let mut separator = ' ';
        let mut last = None;
        for Conflict { manager, path } in &told {
            if last != Some(*manager) {
                write!(f, "{separator}conflicts with {manager}:")?;
                last = Some(*manager);
            }
            separator = '\n';
            write!(f, "\n- {path}")?;
        }
        match count - told.len() {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
