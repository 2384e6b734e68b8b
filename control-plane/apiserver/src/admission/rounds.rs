//! The rounds in which plugins change an object.

use std::collections::BTreeSet;

use serde_json::Value;

/// What happened to one write so far. If policies or webhooks changed the object, all plugins see
/// it a second time, but only once more: two webhooks that disagree would go on forever.
#[derive(Default)]
pub(super) struct Rounds {
    /// True in the second round.
    pub(super) again: bool,
    /// A policy or a webhook changed the object: there has to be a second round.
    pub(super) changed: bool,
    pub(super) policies: Turns,
    pub(super) webhooks: Turns,
}

/// Who takes part in the second round, of the policies or of the webhooks.
#[derive(Default)]
pub(super) struct Turns {
    /// Asked since the last change, of those that want to see changes by others.
    asked: BTreeSet<String>,
    /// To ask in the second round.
    due: BTreeSet<String>,
    /// One of them wrote the object, maybe as it was.
    written: bool,
    /// The object when the last of them had been asked.
    left: Value,
}

impl Turns {
    /// Begins a round. In the second one the object has passed the other plugins.
    pub(super) fn begin(&mut self, again: bool, object: &Value) {
        if again && self.left != *object {
            self.note_change();
        }
    }

    /// Those asked so far have not seen the object as it is now.
    pub(super) fn note_change(&mut self) {
        self.due.append(&mut self.asked);
    }

    pub(super) fn note_write(&mut self) {
        self.written = true;
    }

    pub(super) fn is_written(&self) -> bool {
        self.written
    }

    /// Notes one that wants to see changes by others.
    pub(super) fn ask(&mut self, id: String) {
        self.asked.insert(id);
    }

    pub(super) fn is_due(&self, id: &str) -> bool {
        self.due.contains(id)
    }

    /// Ends a round.
    pub(super) fn end(&mut self, object: &Value) {
        self.left = object.clone();
    }
}
