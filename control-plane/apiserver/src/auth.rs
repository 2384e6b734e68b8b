//! Authentication and authorization: the two seams in front of the registry.
//!
//! An [`Authenticator`] returns the user of a request, an [`Authorizer`] decides what a user may
//! do. Neither knows the other, and neither reads bodies. Behind them, [`crate::admission`] decides
//! what an object may become.

pub mod authenticate;
pub mod authorize;
pub mod certificate;
mod follow;
pub mod impersonate;
pub(crate) mod metrics;
pub mod notes;
mod open;
pub mod pki;
pub mod review;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls;
pub mod user;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use impersonate::Impersonated;
use machinery::schema::Kind;
use machinery::selector::{FieldSelector, LabelSelector};
use machinery::status::Status;
use notes::Notes;
pub use open::Open;
use serde_json::Value;

use crate::storage::reader::Reader;

/// A user of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `system:admin`.
    pub name: String,
    /// Distinguishes users with the same name; may be empty.
    pub uid: String,
    /// Such as `system:masters`.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a request asks for. A request for a path that is no resource has only `verb` and `path`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The user who asks.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; the
    /// method in lower case for a path that is no resource.
    pub verb: String,
    /// True if the path is one of resources, even if it names none: `/api/v1//pods` is none of the
    /// paths that roles for paths are about.
    pub of_resource: bool,
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The version of the API group. Only webhooks see it.
    pub api_version: String,
    /// The plural; empty when the path is no resource.
    pub resource: String,
    /// Such as `status`; may be empty.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The object's name; empty when the request is about a collection.
    pub name: String,
    /// The path of the request.
    pub path: String,
    /// The field selector of a list, a watch or a deletion of a collection.
    pub fields: FieldSelector,
    /// The label selector of the same.
    pub labels: LabelSelector,
}

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the request is allowed.
    pub allowed: bool,
    /// True if it is refused, whatever further authorizers would say.
    pub denied: bool,
    /// The binding that allows it, or the roles that could not be found.
    pub reason: String,
    /// What went wrong on the way to it.
    pub error: Option<String>,
}

impl Decision {
    /// The request is allowed.
    pub fn allow(reason: String) -> Decision {
        Decision {
            allowed: true,
            reason,
            ..Decision::default()
        }
    }

    /// The request is refused unless another authorizer allows it.
    pub fn refuse(reason: String) -> Decision {
        Decision {
            reason,
            ..Decision::default()
        }
    }

    /// What its user is told of a refusal.
    pub fn told(&self) -> String {
        match (&self.error, self.reason.as_str()) {
            (Some(error), "") => error.clone(),
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason.to_owned(),
        }
    }
}

/// A future answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Finds out who sends a request.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the user of a request. It is not called for a request that already carries a
    /// [`User`] in its extensions, which comes from inside the process.
    fn authenticate<'a>(
        &'a self,
        reader: &'a Reader,
        request: &'a http::request::Parts,
        notes: &'a Notes,
    ) -> Answer<'a, User>;

    /// Returns as whom a request is served, if its user asks to act as another one and may. `asked`
    /// is what the request asks for.
    fn impersonate<'a>(
        &'a self,
        _reader: &'a Reader,
        _asked: &'a Attributes,
        _request: &'a http::request::Parts,
    ) -> Answer<'a, Option<Impersonated>> {
        Box::pin(async { Ok(None) })
    }

    /// Answers a review of `authentication.k8s.io`: a kind that is never stored and asks whose a
    /// token is, or who the requester is.
    fn review<'a>(
        &'a self,
        _reader: &'a Reader,
        _user: &'a User,
        _kind: &'a Kind,
        _object: Value,
        _notes: &'a Notes,
    ) -> Answer<'a, Value> {
        Box::pin(async { Err(Status::unknown_path()) })
    }
}

/// Decides what users may do.
pub trait Authorizer: Send + Sync + 'static {
    /// Allows, or returns the error for the user. Every decision takes this one function: requests,
    /// impersonation, and admission where it depends on further rights.
    fn authorize<'a>(&'a self, reader: &'a Reader, attributes: &'a Attributes) -> Answer<'a, ()>;

    /// Decides, and says why. An error means that there is no decision.
    fn decide<'a>(
        &'a self,
        reader: &'a Reader,
        attributes: &'a Attributes,
    ) -> Answer<'a, Decision> {
        Box::pin(async move {
            let allowed = match self.authorize(reader, attributes).await {
                Ok(()) => true,
                Err(status) if status.code == 403 => false,
                Err(status) => return Err(status),
            };
            Ok(Decision {
                allowed,
                ..Default::default()
            })
        })
    }

    /// True if the user's requests are served however many others are in progress.
    fn is_exempt(&self, user: &User) -> bool {
        authorize::rbac::is_master(user)
    }

    /// Answers a review of `authorization.k8s.io`: a kind that is never stored and asks what a user
    /// may do.
    fn review<'a>(
        &'a self,
        _reader: &'a Reader,
        _user: &'a User,
        _kind: &'a Kind,
        _namespace: &'a str,
        _object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async { Err(Status::unknown_path()) })
    }

    /// The roles and bindings that must exist before requests are served.
    fn initial_policy(&self) -> Vec<Value> {
        Vec::new()
    }
}
