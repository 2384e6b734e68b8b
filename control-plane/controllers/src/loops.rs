//! What every loop is: what wakes it, and what it decides.

use std::time::Duration;

use machinery::time::Timestamp;

use crate::cache::{Caches, Changed, Key};
use crate::decision::{Decision, Note};

/// A loop: brings one kind of thing to what is wanted, key by key. It keeps nothing between
/// decisions, so that one that starts anew goes on where the last one was stopped.
pub(crate) trait Loop: Send + Sync {
    /// What Kubernetes calls it.
    fn name(&self) -> &'static str;

    /// What its Events say they come from.
    fn component(&self) -> String {
        format!("{}-controller", self.name())
    }

    /// Which keys a change concerns.
    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key));

    /// Whether a touched place of the graph concerns it.
    fn touched(&self, _: &Caches, _: &str, _: &mut dyn FnMut(Key)) {}

    /// What to tell people of a change, whatever is decided about it.
    fn note(&self, _: &Changed) -> Option<Note> {
        None
    }

    /// A key of its own that is wanted again and again: one without name.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// What to do about a key, by what is known now.
    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision;
}

/// What a decision may look at.
pub(crate) struct Context<'a> {
    pub(crate) caches: &'a Caches,
    pub(crate) now: Timestamp,
    /// What went wrong with the key last time.
    pub(crate) failure: Option<&'a Failure>,
}

/// A call that did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Whether it was to make something; otherwise to delete or to change it.
    pub(crate) creating: bool,
    pub(crate) deleting: bool,
    pub(crate) message: String,
}

/// The key of the turns of [`Loop::period`].
pub(crate) fn turn() -> Key {
    (String::new(), String::new())
}
