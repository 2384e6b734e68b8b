//! The few calls that loops make on the API, as data, and the seam behind which it is answered:
//! by [`memory::World`] in tests, by an apiserver everywhere else.
//!
//! Objects cross the seam as JSON with `apiVersion` and `kind`; errors are the API's own.

pub mod memory;

use std::fmt;
use std::future::Future;

use serde_json::{Value, json};

use crate::object::{self, Object};
use crate::schema::{self, Kind};
use crate::status::Status;

/// One object of the API.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// One call.
#[derive(Clone)]
pub enum Call {
    /// Reads one object.
    Get {
        /// Of this kind.
        kind: &'static Kind,
        /// In this namespace; empty for objects of the cluster.
        namespace: String,
        /// By this name.
        name: String,
    },
    /// Reads all objects of a kind; the answer is a list with `items`.
    List {
        /// Of this kind.
        kind: &'static Kind,
        /// In this namespace; empty for all.
        namespace: String,
    },
    /// Makes an object, in the namespace its metadata names.
    Create {
        /// Of this kind.
        kind: &'static Kind,
        /// The object.
        object: Object,
    },
    /// Replaces an object, or one subresource of it. A `resourceVersion` in it has to be current.
    Update {
        /// Of this kind.
        kind: &'static Kind,
        /// Such as `status`; empty for the object itself.
        subresource: &'static str,
        /// The object.
        object: Object,
    },
    /// Changes an object. A `metadata.resourceVersion` or `metadata.uid` in the patch has to hold.
    Patch {
        /// Of this kind.
        kind: &'static Kind,
        /// In this namespace; empty for objects of the cluster.
        namespace: String,
        /// By this name.
        name: String,
        /// Such as `status`; empty for the object itself.
        subresource: &'static str,
        /// How to read the patch.
        form: PatchForm,
        /// What changes.
        patch: Value,
    },
    /// Deletes an object, or begins to.
    Delete {
        /// Of this kind.
        kind: &'static Kind,
        /// In this namespace; empty for objects of the cluster.
        namespace: String,
        /// By this name.
        name: String,
        /// How.
        options: DeleteOptions,
    },
    /// Deletes all objects of a kind in a namespace.
    DeleteCollection {
        /// Of this kind.
        kind: &'static Kind,
        /// In this namespace.
        namespace: String,
    },
    /// Puts a pod on a node.
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
    /// Deletes a pod if the budgets over it allow it.
    Evict {
        /// The pod's namespace.
        namespace: String,
        /// The pod.
        pod: String,
        /// How to delete it.
        options: DeleteOptions,
    },
}

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchForm {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists are merged by their keys.
    Strategic,
}

/// How to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Only the object with this uid; empty for any.
    pub uid: String,
    /// Only if it is still at this version; empty for any.
    pub resource_version: String,
    /// Seconds that a pod is given to end; nothing for its own wish.
    pub grace_seconds: Option<i64>,
    /// What becomes of the objects it owns; nothing for the default of its kind.
    pub propagation: Option<Propagation>,
}

/// What becomes of the objects an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// Whoever answers calls.
pub trait Api {
    /// Makes one call. A deletion answers with the object as it is now, or as it last was.
    fn call(&self, call: Call) -> impl Future<Output = Result<Object, Status>> + Send;

    /// Reads one object.
    fn get(&self, target: Target<'_>) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Get {
            kind: target.kind,
            namespace: target.namespace.into(),
            name: target.name.into(),
        })
    }

    /// Makes an object; its `apiVersion` and `kind` say of which kind.
    fn create(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Create {
            kind: kind_of(&object),
            object,
        })
    }

    /// Replaces an object.
    fn update(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Update {
            kind: kind_of(&object),
            subresource: "",
            object,
        })
    }

    /// Replaces an object's status.
    fn update_status(&self, object: Object) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Update {
            kind: kind_of(&object),
            subresource: "status",
            object,
        })
    }

    /// Changes an object.
    fn patch(
        &self,
        target: Target<'_>,
        form: PatchForm,
        patch: Value,
    ) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Patch {
            kind: target.kind,
            namespace: target.namespace.into(),
            name: target.name.into(),
            subresource: "",
            form,
            patch,
        })
    }

    /// Deletes an object, or begins to.
    fn delete(
        &self,
        target: Target<'_>,
        options: DeleteOptions,
    ) -> impl Future<Output = Result<Object, Status>> + Send {
        self.call(Call::Delete {
            kind: target.kind,
            namespace: target.namespace.into(),
            name: target.name.into(),
            options,
        })
    }

    /// Puts a pod on a node.
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

/// The kind of an object, by its `apiVersion` and `kind`, which have to be of the table.
pub fn kind_of(object: &Object) -> &'static Kind {
    let (group, version) = schema::split_api_version(object::api_version(object));
    let kind = object::kind(object);
    let found = schema::kind(group, version, kind);
    found.unwrap_or_else(|| panic!("no kind {kind:?} in {group:?} {version:?}"))
}

impl Call {
    /// The kind it is about.
    pub fn kind(&self) -> &'static Kind {
        match self {
            Call::Get { kind, .. }
            | Call::List { kind, .. }
            | Call::DeleteCollection { kind, .. }
            | Call::Create { kind, .. }
            | Call::Update { kind, .. }
            | Call::Patch { kind, .. }
            | Call::Delete { kind, .. } => kind,
            Call::Bind { .. } | Call::Evict { .. } => pods(),
        }
    }

    /// The namespace it is about; empty for none.
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
        }
    }

    /// The name it is about; empty for none.
    pub fn name(&self) -> &str {
        match self {
            Call::Create { object, .. } | Call::Update { object, .. } => object::name(object),
            Call::Get { name, .. } | Call::Patch { name, .. } | Call::Delete { name, .. } => name,
            Call::Bind { pod, .. } | Call::Evict { pod, .. } => pod,
            Call::List { .. } | Call::DeleteCollection { .. } => "",
        }
    }

    /// Whether it may change anything.
    pub fn writes(&self) -> bool {
        !matches!(self, Call::Get { .. } | Call::List { .. })
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
        }
    }
}

/// Such as `update status of pods default/a`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb())?;
        if let Call::Update { subresource, .. } | Call::Patch { subresource, .. } = self
            && !subresource.is_empty()
        {
            write!(f, " {subresource} of")?;
        }
        let (namespace, name) = (self.namespace(), self.name());
        match namespace {
            "" => write!(f, " {} {name}", self.kind().plural),
            _ => write!(f, " {} {namespace}/{name}", self.kind().plural),
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
    /// Only the object with this uid.
    pub fn of(uid: &str) -> DeleteOptions {
        DeleteOptions {
            uid: uid.into(),
            ..DeleteOptions::default()
        }
    }

    /// The body of the call.
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
    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

fn pods() -> &'static Kind {
    schema::kind("", "v1", "Pod").expect("the table has pods")
}
