//! The few API calls that loops make, as data, and the trait that answers them: implemented by
//! `memory::MemoryApi` in tests, and by an apiserver everywhere else.
//!
//! Objects are JSON with `apiVersion` and `kind`; errors are the API's own.

pub mod event;
#[cfg(any(test, feature = "memory"))]
pub mod memory;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{self, Object};
use crate::schema::{self, Kind};
use crate::status::Status;

/// One object of the API.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: &'a Arc<Kind>,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// One API call.
#[derive(Clone)]
pub enum Call {
    /// Reads one object.
    Get {
        /// The kind.
        kind: Arc<Kind>,
        /// The namespace; empty for cluster-scoped objects.
        namespace: String,
        /// The name.
        name: String,
    },
    /// Reads all objects of a kind; the response is a list with `items`.
    List {
        /// The kind.
        kind: Arc<Kind>,
        /// The namespace; empty for all.
        namespace: String,
    },
    /// Reads what is at a path that no kind of the table describes: a `scale`, or metrics.
    Read {
        /// The path with its query.
        path: String,
        /// What is read, as errors name it: for example `pods.metrics.k8s.io`.
        what: String,
    },
    /// Creates an object in the namespace that its metadata names.
    Create {
        /// The kind.
        kind: Arc<Kind>,
        /// The object.
        object: Object,
    },
    /// Replaces an object or one subresource. A `resourceVersion` in it must be the current one.
    Update {
        /// The kind.
        kind: Arc<Kind>,
        /// The subresource, such as `status`; empty for the object itself.
        subresource: &'static str,
        /// The object.
        object: Object,
    },
    /// Patches an object. A `metadata.resourceVersion` or `metadata.uid` in the patch must match.
    Patch {
        /// The kind.
        kind: Arc<Kind>,
        /// The namespace; empty for cluster-scoped objects.
        namespace: String,
        /// The name.
        name: String,
        /// The subresource, such as `status`; empty for the object itself.
        subresource: &'static str,
        /// The type of the patch.
        form: PatchForm,
        /// The patch.
        patch: Value,
    },
    /// Deletes an object, or marks it for deletion.
    Delete {
        /// The kind.
        kind: Arc<Kind>,
        /// The namespace; empty for cluster-scoped objects.
        namespace: String,
        /// The name.
        name: String,
        /// The options.
        options: DeleteOptions,
    },
    /// Deletes all objects of a kind in a namespace.
    DeleteCollection {
        /// The kind.
        kind: Arc<Kind>,
        /// The namespace.
        namespace: String,
    },
    /// Binds a pod to a node.
    Bind {
        /// The pod's namespace.
        namespace: String,
        /// The pod.
        pod: String,
        /// The pod's uid; empty for any.
        uid: String,
        /// The node.
        node: String,
    },
    /// Reads which kinds are served, as an `APIGroupDiscoveryList`.
    Discover {
        /// Those of the core group; of all others if false.
        core: bool,
    },
    /// Deletes a pod if its disruption budgets allow it.
    Evict {
        /// The pod's namespace.
        namespace: String,
        /// The pod.
        pod: String,
        /// The options of the deletion.
        options: DeleteOptions,
    },
}

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchForm {
    /// A merge patch (RFC 7386).
    Merge,
    /// A strategic merge patch: lists are merged by their keys.
    Strategic,
    /// A server-side apply by this field manager, which takes fields from others.
    Apply(&'static str),
}

/// Options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Precondition: the object has this uid; empty for any.
    pub uid: String,
    /// Precondition: the object is at this version; empty for any.
    pub resource_version: String,
    /// The grace period of a pod in seconds; `None` for the pod's own.
    pub grace_seconds: Option<i64>,
    /// What happens to its dependents; `None` for the default of its kind.
    pub propagation: Option<Propagation>,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They stay.
    Orphan,
}

/// An implementation of the API.
pub trait Api {
    /// Makes one call. A deletion returns the object as it is now, or its last state.
    fn call(&self, call: Call) -> impl Future<Output = Result<Object, Status>> + Send;

    /// Reads one object.
    fn get(&self, target: Target<'_>) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Get {
            kind: Arc::clone(target.kind),
            namespace: target.namespace.into(),
            name: target.name.into(),
        })
    }

    /// Creates an object of the kind that its `apiVersion` and `kind` name.
    fn create(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Create {
            kind: Arc::clone(kind_of(&object)),
            object,
        })
    }

    /// Replaces an object.
    fn update(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Update {
            kind: Arc::clone(kind_of(&object)),
            subresource: "",
            object,
        })
    }

    /// Replaces the status of an object.
    fn update_status(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Update {
            kind: Arc::clone(kind_of(&object)),
            subresource: "status",
            object,
        })
    }

    /// Patches an object.
    fn patch(
        &self,
        target: Target<'_>,
        form: PatchForm,
        patch: Value,
    ) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Patch {
            kind: Arc::clone(target.kind),
            namespace: target.namespace.into(),
            name: target.name.into(),
            subresource: "",
            form,
            patch,
        })
    }

    /// Deletes an object, or marks it for deletion.
    fn delete(
        &self,
        target: Target<'_>,
        options: DeleteOptions,
    ) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Delete {
            kind: Arc::clone(target.kind),
            namespace: target.namespace.into(),
            name: target.name.into(),
            options,
        })
    }

    /// Binds a pod to a node.
    fn bind(
        &self,
        pod: &Object,
        node: &str,
    ) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Bind {
            namespace: object::namespace(pod).into(),
            pod: object::name(pod).into(),
            uid: object::uid(pod).into(),
            node: node.into(),
        })
    }
}

/// The kind that an object's `apiVersion` and `kind` name; panics if the table does not have it.
pub fn kind_of(object: &Object) -> &'static Arc<Kind> {
    let (group, version) = schema::split_api_version(object::api_version(object));
    let kind = object::kind(object);
    let found = schema::kind(group, version, kind);
    found.unwrap_or_else(|| panic!("no kind {kind:?} in {group:?} {version:?}"))
}

impl Call {
    /// The kind of the object; `None` for a call that is about none.
    pub fn kind(&self) -> Option<&Arc<Kind>> {
        match self {
            Call::Get { kind, .. }
            | Call::List { kind, .. }
            | Call::DeleteCollection { kind, .. }
            | Call::Create { kind, .. }
            | Call::Update { kind, .. }
            | Call::Patch { kind, .. }
            | Call::Delete { kind, .. } => Some(kind),
            Call::Bind { .. } | Call::Evict { .. } => Some(pods()),
            Call::Discover { .. } | Call::Read { .. } => None,
        }
    }

    /// The namespace of the call; empty for none.
    pub fn namespace(&self) -> &str {
        match self {
            Call::Create { object, .. } | Call::Update { object, .. } => object::namespace(object),
            Call::Get { namespace, .. }
            | Call::List { namespace, .. }
            | Call::DeleteCollection { namespace, .. }
            | Call::Patch { namespace, .. }
            | Call::Delete { namespace, .. }
            | Call::Bind { namespace, .. }
            | Call::Evict { namespace, .. } => namespace,
            Call::Discover { .. } | Call::Read { .. } => "",
        }
    }

    /// The name in the call; empty for none.
    pub fn name(&self) -> &str {
        match self {
            Call::Create { object, .. } | Call::Update { object, .. } => object::name(object),
            Call::Get { name, .. } | Call::Patch { name, .. } | Call::Delete { name, .. } => name,
            Call::Bind { pod, .. } | Call::Evict { pod, .. } => pod,
            Call::List { .. }
            | Call::DeleteCollection { .. }
            | Call::Discover { .. }
            | Call::Read { .. } => "",
        }
    }

    /// True if the call may change something.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Call::Get { .. } | Call::List { .. } | Call::Discover { .. } | Call::Read { .. }
        )
    }

    fn verb(&self) -> &'static str {
        match self {
            Call::Get { .. } => "get",
            Call::List { .. } => "list",
            Call::Create { .. } => "create",
            Call::Update { .. } => "update",
            Call::Patch { .. } => "patch",
            Call::Delete { .. } => "delete",
            Call::DeleteCollection { .. } => "delete all",
            Call::Bind { .. } => "bind",
            Call::Evict { .. } => "evict",
            Call::Discover { .. } => "discover",
            Call::Read { .. } => "read",
        }
    }
}

/// For example `update status of pods default/a`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb())?;
        if let Call::Update { subresource, .. } | Call::Patch { subresource, .. } = self
            && !subresource.is_empty()
        {
            write!(f, " {subresource} of")?;
        }
        if let Call::Read { path, .. } = self {
            return write!(f, " {path}");
        }
        let plural = self.kind().map_or("kinds", |kind| kind.plural());
        let (namespace, name) = (self.namespace(), self.name());
        match namespace {
            "" => write!(f, " {plural} {name}"),
            _ => write!(f, " {plural} {namespace}/{name}"),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match self {
            Call::Create { object, .. } | Call::Update { object, .. } => write!(f, " {object}"),
            Call::Patch { patch, .. } => write!(f, " {patch}"),
            Call::Delete { options, .. } => write!(f, " {options:?}"),
            Call::Bind { node, .. } => write!(f, " to {node}"),
            _ => Ok(()),
        }
    }
}

impl DeleteOptions {
    /// Options with this uid as the precondition.
    pub fn of(uid: &str) -> DeleteOptions {
        DeleteOptions {
            uid: uid.into(),
            ..DeleteOptions::default()
        }
    }

    /// The DeleteOptions body of the call.
    pub fn to_object(&self) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !self.uid.is_empty() {
            object::set(
                &mut body,
                &["preconditions", "uid"],
                self.uid.as_str().into(),
            );
        }
        if !self.resource_version.is_empty() {
            let version = self.resource_version.as_str().into();
            object::set(&mut body, &["preconditions", "resourceVersion"], version);
        }
        if let Some(seconds) = self.grace_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = propagation.name().into();
        }
        body
    }
}

impl Propagation {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

fn pods() -> &'static Arc<Kind> {
    schema::kind("", "v1", "Pod").expect("the table has pods")
}
