//! Bindings: the role that each gives, and the users, groups and service accounts that get it.

use std::fmt;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::auth::User;
use crate::auth::user::service_account;

/// The role that a binding refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// The binding that grants a right, described as Kubernetes does.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    /// Namespace of the binding; empty for a cluster binding.
    pub(super) namespace: &'a str,
    pub(super) binding: &'a Binding,
    pub(super) subject: &'a Subject,
}

impl RoleRef {
    /// Reads the reference of a binding.
    pub fn of(binding: &Value) -> RoleRef {
        RoleRef {
            kind: object::text(binding, &["roleRef", "kind"]).to_owned(),
            name: object::text(binding, &["roleRef", "name"]).to_owned(),
        }
    }

    /// The resource of the role. A binding of another kind is refused by the rules of bindings, but
    /// only after the writer's rights are checked.
    pub fn resource(&self) -> Result<&'static str, Status> {
        match self.kind.as_str() {
            "Role" => Ok("roles"),
            "ClusterRole" => Ok("clusterroles"),
            other => {
                let why = format!("unsupported role reference kind: {other:?}");
                Err(Status::new(500, "", &why))
            }
        }
    }
}

impl Binding {
    pub(super) fn of(value: &Value) -> Binding {
        let subjects = object::items(value, &["subjects"]).iter();
        Binding {
            role: RoleRef::of(value),
            subjects: subjects
                .map(|subject| Subject {
                    kind: object::text(subject, &["kind"]).to_owned(),
                    name: object::text(subject, &["name"]).to_owned(),
                    namespace: object::text(subject, &["namespace"]).to_owned(),
                })
                .collect(),
        }
    }
}

impl Subject {
    pub(super) fn is(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = self.home(binding_namespace);
                !namespace.is_empty()
                    && service_account(&user.name) == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }

    /// Namespace of a service account: the binding's, unless the subject names another.
    fn home<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            binding_namespace
        } else {
            &self.namespace
        }
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoleRef { kind, name: role } = &self.binding.role;
        if self.namespace.is_empty() {
            write!(out, "ClusterRoleBinding {:?}", self.name)?;
        } else {
            let place = format!("{}/{}", self.name, self.namespace);
            write!(out, "RoleBinding {place:?}")?;
        }
        write!(out, " of {kind} {role:?} to {} ", self.subject.kind)?;
        if self.subject.kind == "ServiceAccount" {
            let place = format!(
                "{}/{}",
                self.subject.name,
                self.subject.home(self.namespace)
            );
            write!(out, "{place:?}")
        } else {
            write!(out, "{:?}", self.subject.name)
        }
    }
}
