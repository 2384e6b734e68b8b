//! What a loop wants done about one key.

use std::time::Duration;

use k8s_openapi::Resource;
use machinery::object::{self, Object};
use machinery::schema::Kind;
use machinery::status::Status;
use machinery::world::{Call, DeleteOptions, PatchForm};
use serde_json::{Value, json};

use crate::cache::{Key, Known, kind_of, to_object};
use crate::meta;

/// What a loop wants done: calls in order, the rest left out when one fails, and when to look again.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) steps: Vec<Step>,
    /// Look again after this long, even if nothing changes.
    pub(crate) after: Option<Duration>,
}

/// One call, and what to tell people of it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) call: Call,
    pub(crate) done: Option<Note>,
    pub(crate) failed: Option<Note>,
    /// The call only asks whether the object with this uid is there.
    pub(crate) asks: Option<String>,
}

/// A line for people, about an object: an Event.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    /// `involvedObject`.
    pub(crate) about: Value,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    /// `{}` stands for the name of the object in the answer, or for the error.
    pub(crate) message: String,
}

impl Decision {
    /// Nothing to do.
    pub(crate) fn nothing() -> Decision {
        Decision::default()
    }

    /// One call.
    pub(crate) fn of(call: Call) -> Decision {
        let mut decision = Decision::default();
        decision.push(call);
        decision
    }

    pub(crate) fn push(&mut self, call: Call) -> &mut Step {
        self.steps.push(Step {
            call,
            done: None,
            failed: None,
            asks: None,
        });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// Look again after this long, or earlier if something else wants so.
    pub(crate) fn again(&mut self, after: Duration) {
        let earlier = self.after.map_or(after, |has| has.min(after));
        self.after = Some(earlier);
    }

    /// Look again when this is over, if it is not yet.
    pub(crate) fn again_if(&mut self, left: Option<Duration>) {
        if let Some(left) = left {
            self.again(left);
        }
    }
}

impl Step {
    /// Whether the answer lets the decision go on.
    pub(crate) fn verdict(&self, answer: &Result<Object, Status>) -> Result<(), Status> {
        let gone = |error: &Status| error.reason == "NotFound";
        match (&self.call, answer) {
            (Call::Get { .. }, Err(error)) if self.asks.is_some() && gone(error) => Ok(()),
            // What is not there need not be deleted, and a kind that is not served has no objects.
            (
                Call::Delete { .. } | Call::DeleteCollection { .. } | Call::List { .. },
                Err(error),
            ) if gone(error) => Ok(()),
            (_, Err(error)) => Err(error.clone()),
            (Call::List { .. }, Ok(list)) => match object::items(list, &["items"]) {
                [] => Ok(()),
                _ => Err(Status::unavailable("something is left that was to be gone")),
            },
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Tells people when it went well.
    pub(crate) fn tell(&mut self, note: Note) -> &mut Step {
        self.done = Some(note);
        self
    }

    /// Tells people when it did not.
    pub(crate) fn tell_failure(&mut self, note: Note) -> &mut Step {
        self.failed = Some(note);
        self
    }
}

impl Note {
    pub(crate) fn new<T: Known>(about: &T, reason: &'static str, message: String) -> Note {
        let metadata = about.metadata();
        let mut reference = json!({
            "apiVersion": kind_of::<T>().api_version(), "kind": T::KIND,
            "name": meta::name(metadata), "uid": meta::uid(metadata),
            "resourceVersion": meta::resource_version(metadata),
        });
        if kind_of::<T>().namespaced() {
            reference["namespace"] = meta::namespace(metadata).into();
        }
        Note {
            about: reference,
            warning: false,
            reason,
            message,
        }
    }

    pub(crate) fn warning(mut self) -> Note {
        self.warning = true;
        self
    }
}

/// Makes an object.
pub(crate) fn create<T: Known>(object: &T) -> Call {
    Call::Create {
        kind: kind_of::<T>(),
        object: to_object(object),
    }
}

/// Replaces an object's status; the version in it has to be current.
pub(crate) fn update_status<T: Known>(object: &T) -> Call {
    Call::Update {
        kind: kind_of::<T>(),
        subresource: "status",
        object: to_object(object),
    }
}

/// Changes an object as it is known now; a later version is a conflict.
pub(crate) fn change<T: Known>(object: &T, patch: Value) -> Call {
    let mut patch = patch;
    let metadata = object.metadata();
    for (key, value) in [
        ("uid", meta::uid(metadata)),
        ("resourceVersion", meta::resource_version(metadata)),
    ] {
        object::set(&mut patch, &["metadata", key], value.into());
    }
    merge(
        kind_of::<T>(),
        meta::namespace(metadata),
        meta::name(metadata),
        patch,
    )
}

/// Lays a document over an object.
pub(crate) fn merge(kind: &'static Kind, namespace: &str, name: &str, patch: Value) -> Call {
    patched(kind, namespace, name, PatchForm::Merge, patch)
}

/// Patches an object by the rules that its kind has for lists.
pub(crate) fn strategic(kind: &'static Kind, namespace: &str, name: &str, patch: Value) -> Call {
    patched(kind, namespace, name, PatchForm::Strategic, patch)
}

fn patched(
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    form: PatchForm,
    patch: Value,
) -> Call {
    Call::Patch {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        subresource: "",
        form,
        patch,
    }
}

/// Deletes an object, if it is still the one known.
pub(crate) fn delete<T: Known>(object: &T) -> Call {
    delete_with(object, DeleteOptions::default())
}

/// Deletes an object, if it is still the one known.
pub(crate) fn delete_with<T: Known>(object: &T, options: DeleteOptions) -> Call {
    let metadata = object.metadata();
    Call::Delete {
        kind: kind_of::<T>(),
        namespace: meta::namespace(metadata).into(),
        name: meta::name(metadata).into(),
        options: DeleteOptions {
            uid: meta::uid(metadata).into(),
            ..options
        },
    }
}

/// The key of a cluster object.
pub(crate) fn cluster_key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

/// The key of the owner in an object's namespace, if it is of type `T`.
pub(crate) fn controller_key<T: Resource, O: Known>(object: &O) -> Option<Key> {
    let metadata = object.metadata();
    let owner = meta::controller(metadata)?;
    let (group, _) = machinery::schema::split_api_version(&owner.api_version);
    let is_it = owner.kind == T::KIND && group == T::GROUP;
    is_it.then(|| (meta::namespace(metadata).to_owned(), owner.name.clone()))
}
