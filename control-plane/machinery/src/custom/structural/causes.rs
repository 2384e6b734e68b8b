//! What is wrong with a schema, or with an object, as far as it is told.

use crate::basics::budget::Room;
use crate::status::Cause;

/// Errors in the order in which they are found.
#[derive(Debug, Default)]
pub(super) struct Causes {
    all: Vec<Cause>,
    room: Room,
}

impl Causes {
    pub(super) fn push(&mut self, cause: Cause) {
        if !self.is_full() {
            self.room.take(cause.field.len() + cause.message.len());
            self.all.push(cause);
        }
    }

    pub(super) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        causes.into_iter().for_each(|cause| self.push(cause));
    }

    /// Sorts them as Kubernetes does.
    pub(super) fn sort(&mut self) {
        let told = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
        self.all.sort_by_cached_key(told);
    }

    /// True if no more errors are told: to look for them is useless.
    pub(super) fn is_full(&self) -> bool {
        !self.room.is_left()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.all.iter()
    }
}

impl IntoIterator for Causes {
    type Item = Cause;
    type IntoIter = std::vec::IntoIter<Cause>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl From<Causes> for Vec<Cause> {
    fn from(causes: Causes) -> Vec<Cause> {
        causes.all
    }
}
