//! The decision of a loop about one key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::Resource;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use machinery::api::{Call, DeleteOptions, PatchForm};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::kinds::Kinds;
use crate::known::{Key, Known, kind_of, to_object};
use crate::scalings::Past;
use crate::{meta, used_claims};

/// The calls to make, in order until one fails that others depend on, and when to look at the key
/// again.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) steps: Vec<Step>,
    /// Look at the key again after this time, even if nothing changes.
    pub(crate) after: Option<Duration>,
    /// Events for the decision itself, whatever becomes of its calls.
    pub(crate) notes: Vec<Note>,
    /// What the decision takes for its key, of what all keys of the loop may have. The loop's other
    /// decisions know of it until its calls are made: else several would want the same.
    pub(crate) takes: Option<String>,
    /// Calls whose answers the loop needs before it can decide: it is asked again with them. There
    /// are no steps then.
    pub(crate) questions: Vec<Call>,
    /// What to remember of the autoscaler that the key is.
    pub(crate) past: Option<Past>,
}

/// The answers to the questions of a loop about a key, for as long as it asks more.
#[derive(Debug, Default)]
pub(crate) struct Answers(BTreeMap<String, Result<Object, Status>>);

/// One call, and the Events for its success and failure.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) call: Call,
    pub(crate) done: Option<Note>,
    pub(crate) failed: Vec<Note>,
    /// How many of the next calls depend on this one; `None` if all that follow do.
    pub(crate) dependent: Option<usize>,
    /// The call only checks whether the object with this uid exists.
    pub(crate) asks: Option<String>,
    /// The call only checks that there is no object of this name.
    pub(crate) absent: bool,
    /// The call only checks that the object of this name, if there is one, has another uid.
    pub(crate) replaced: Option<String>,
    /// The decision is good as long as the apiserver serves these kinds.
    pub(crate) kinds: Option<Arc<Kinds>>,
    /// The decision is good as long as none of the listed pods uses one of these claims.
    pub(crate) unused: Vec<Arc<PersistentVolumeClaim>>,
    /// The call creates a review of access, and this is the error if that does not allow it.
    pub(crate) refused: Option<&'static str>,
}

/// A message about an object, to become an Event.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    /// `involvedObject`.
    pub(crate) about: Value,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    /// `{}` is replaced by the name of the object in the response, or by the error.
    pub(crate) message: String,
}

impl Decision {
    /// Nothing to do.
    pub(crate) fn nothing() -> Decision {
        Decision::default()
    }

    /// A decision with one call.
    pub(crate) fn of(call: Call) -> Decision {
        let mut decision = Decision::default();
        decision.push(call);
        decision
    }

    /// A decision that waits for the answers to these calls.
    pub(crate) fn asking(questions: Vec<Call>) -> Decision {
        Decision {
            questions,
            ..Decision::default()
        }
    }

    pub(crate) fn push(&mut self, call: Call) -> &mut Step {
        self.steps.push(Step {
            call,
            done: None,
            failed: Vec::new(),
            dependent: None,
            asks: None,
            absent: false,
            replaced: None,
            kinds: None,
            unused: Vec::new(),
            refused: None,
        });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// The step that comes after this one if its call failed; `None` if that ends the decision, as it
    /// does if the error is not about the object: the next call would get it, too.
    pub(crate) fn after_failure(&self, at: usize, error: &Status) -> Option<usize> {
        const OF_THE_SERVER: [&str; 3] = ["ServiceUnavailable", "TooManyRequests", "Unauthorized"];
        if OF_THE_SERVER.contains(&error.reason) {
            return None;
        }
        let dependent = self.steps[at].dependent?;
        Some(at + 1 + dependent).filter(|next| *next < self.steps.len())
    }

    /// Look at the key again after this time, or earlier if that was already requested.
    pub(crate) fn again(&mut self, after: Duration) {
        let earlier = self.after.map_or(after, |has| has.min(after));
        self.after = Some(earlier);
    }

    /// Look at the key again when this time is over; `None` changes nothing.
    pub(crate) fn again_if(&mut self, left: Option<Duration>) {
        if let Some(left) = left {
            self.again(left);
        }
    }
}

impl Answers {
    /// The answer to a call; `None` if it was not asked for.
    pub(crate) fn to(&self, call: &Call) -> Option<&Result<Object, Status>> {
        self.0.get(&call.to_string())
    }

    /// True if nothing was asked yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, call: &Call, answer: Result<Object, Status>) {
        self.0.insert(call.to_string(), answer);
    }
}

impl Step {
    /// Returns an error if this response ends the decision.
    pub(crate) fn verdict(&self, answer: &Result<Object, Status>) -> Result<(), Status> {
        match (&self.call, answer) {
            (Call::Get { .. }, Err(error)) if self.may_be_absent() && is_absent(error) => Ok(()),
            (Call::Get { .. }, Ok(found)) if self.absent || self.is_not_replaced(found) => {
                let why = "something is there that was taken for gone";
                Err(Status::new(409, "Conflict", why))
            }
            // An absent object need not be deleted.
            (Call::Delete { .. }, Err(error)) if is_absent(error) => Ok(()),
            (Call::List { kind, .. }, Err(error))
                if self.unused.is_empty() && is_served_by_nobody(kind, error) =>
            {
                Ok(())
            }
            (_, Err(error)) => Err(error.clone()),
            (Call::Discover { .. }, Ok(groups)) => match &self.kinds {
                Some(kinds) if !kinds.agree_with(groups) => {
                    Err(Status::unavailable("kinds came or went"))
                }
                _ => Ok(()),
            },
            (Call::List { .. }, Ok(list)) => {
                match (&*self.unused, object::items(list, &["items"])) {
                    ([], []) => Ok(()),
                    ([], _) => Err(Status::unavailable("something is left that was to be gone")),
                    (claims, pods) => unused(claims, pods),
                }
            }
            (Call::Create { .. }, Ok(review)) => match self.refused {
                Some(why) if review["status"]["allowed"] != true => {
                    Err(Status::new(403, "Forbidden", why))
                }
                _ => Ok(()),
            },
            (_, Ok(_)) => Ok(()),
        }
    }

    /// If the call fails, only this many of the next ones are not made: the others are about other
    /// objects, which must not wait for the one that nobody can change.
    pub(crate) fn only_for(&mut self, next: usize) -> &mut Step {
        self.dependent = Some(next);
        self
    }

    /// Creates an Event if the call succeeds.
    pub(crate) fn tell(&mut self, note: Note) -> &mut Step {
        self.done = Some(note);
        self
    }

    /// Creates an Event if the call fails; several are possible.
    pub(crate) fn tell_failure(&mut self, note: Note) -> &mut Step {
        self.failed.push(note);
        self
    }

    /// True if the call only asks for an object that may be gone.
    fn may_be_absent(&self) -> bool {
        self.asks.is_some() || self.absent || self.replaced.is_some()
    }

    /// True if an object is still there that was taken for replaced.
    fn is_not_replaced(&self, found: &Object) -> bool {
        let expected = self.replaced.as_deref();
        expected.is_some_and(|uid| uid == object::uid(found))
    }
}

/// True if the apiserver looked for the object of a call and did not find it. A path that it does not
/// serve, or not yet, has the same reason, and names no object.
pub(crate) fn is_absent(error: &Status) -> bool {
    error.reason == "NotFound" && !error.details.name.is_empty()
}

/// True if discovery lists a kind whose collection no server has: as for Kubernetes, there are no
/// objects then. An apiserver has its own kinds, so of those this says that it is not ready.
fn is_served_by_nobody(kind: &Kind, error: &Status) -> bool {
    let is_built_in = schema::resource(kind.group(), kind.version(), kind.plural()).is_some();
    !is_built_in && [404, 405].contains(&error.code)
}

/// An error if one of the pods uses one of the claims, which are of the same namespace. A pod that
/// cannot be read may use any.
fn unused(claims: &[Arc<PersistentVolumeClaim>], pods: &[Object]) -> Result<(), Status> {
    let names = claims
        .iter()
        .map(|claim| (meta::name(&claim.metadata), claim));
    let by_name: BTreeMap<&str, &Arc<PersistentVolumeClaim>> = names.collect();
    for pod in pods {
        let Ok(pod) = Pod::deserialize(pod) else {
            return Err(Status::unavailable("a pod cannot be read"));
        };
        for name in used_claims::named(&pod) {
            let claim = by_name.get(name.as_str());
            if claim.is_some_and(|claim| used_claims::uses(&pod, claim)) {
                let namespace = meta::namespace(&pod.metadata);
                let why = format!("a pod uses the claim {namespace}/{name}");
                return Err(Status::unavailable(why));
            }
        }
    }
    Ok(())
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

/// The call that creates an object.
pub(crate) fn create<T: Known>(object: &T) -> Call {
    Call::Create {
        kind: kind_of::<T>().clone(),
        object: to_object(object),
    }
}

/// The call that replaces an object; fails if the object's version is not current.
pub(crate) fn update<T: Known>(object: &T) -> Call {
    Call::Update {
        kind: kind_of::<T>().clone(),
        subresource: "",
        object: to_object(object),
    }
}

/// The call that replaces an object's status, in the same way.
pub(crate) fn update_status<T: Known>(object: &T) -> Call {
    Call::Update {
        kind: kind_of::<T>().clone(),
        subresource: "status",
        object: to_object(object),
    }
}

/// The call that replaces the approval of a certificate request, in the same way.
pub(crate) fn update_approval(request: &CertificateSigningRequest) -> Call {
    Call::Update {
        kind: kind_of::<CertificateSigningRequest>().clone(),
        subresource: "approval",
        object: to_object(request),
    }
}

/// The call that patches an object in its known version; a newer version is a conflict.
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

/// The call that applies a merge patch.
pub(crate) fn merge(kind: &Arc<Kind>, namespace: &str, name: &str, patch: Value) -> Call {
    patched(kind, namespace, name, PatchForm::Merge, patch)
}

/// The call that applies a strategic merge patch.
pub(crate) fn strategic(kind: &Arc<Kind>, namespace: &str, name: &str, patch: Value) -> Call {
    patched(kind, namespace, name, PatchForm::Strategic, patch)
}

/// The call that applies fields of an object, which are this manager's from then on. An object that
/// has taken the place of this one is a conflict.
pub(crate) fn apply<T: Known>(object: &T, manager: &'static str, fields: Value) -> Call {
    let (kind, metadata) = (kind_of::<T>(), object.metadata());
    let mut fields = fields;
    object::set_type(&mut fields, &kind.api_version(), kind.kind());
    for (key, value) in [
        ("namespace", meta::namespace(metadata)),
        ("name", meta::name(metadata)),
        ("uid", meta::uid(metadata)),
    ] {
        if !value.is_empty() {
            object::set(&mut fields, &["metadata", key], value.into());
        }
    }
    patched(
        kind,
        meta::namespace(metadata),
        meta::name(metadata),
        PatchForm::Apply(manager),
        fields,
    )
}

fn patched(kind: &Arc<Kind>, namespace: &str, name: &str, form: PatchForm, patch: Value) -> Call {
    Call::Patch {
        kind: Arc::clone(kind),
        namespace: namespace.into(),
        name: name.into(),
        subresource: "",
        form,
        patch,
    }
}

/// The call that deletes an object in its known state.
pub(crate) fn delete<T: Known>(object: &T) -> Call {
    delete_with(object, DeleteOptions::default())
}

/// The call that deletes an object in its known state, with options.
pub(crate) fn delete_with<T: Known>(object: &T, options: DeleteOptions) -> Call {
    let metadata = object.metadata();
    Call::Delete {
        kind: kind_of::<T>().clone(),
        namespace: meta::namespace(metadata).into(),
        name: meta::name(metadata).into(),
        options: DeleteOptions {
            uid: meta::uid(metadata).into(),
            ..options
        },
    }
}

/// The key of a cluster-scoped object.
pub(crate) fn cluster_key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

/// The key of an object's controller, if that is of type `T`.
pub(crate) fn controller_key<T: Resource, O: Known>(object: &O) -> Option<Key> {
    let metadata = object.metadata();
    let owner = meta::controller(metadata)?;
    let (group, _) = machinery::schema::split_api_version(&owner.api_version);
    let is_it = owner.kind == T::KIND && group == T::GROUP;
    is_it.then(|| (meta::namespace(metadata).to_owned(), owner.name.clone()))
}
