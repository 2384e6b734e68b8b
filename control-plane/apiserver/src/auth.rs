//! Who sends a request, and whether they may: two seams in front of the registry.
//!
//! An [`Authenticator`] names the user of a request, an [`Authorizer`] decides what a user may do.
//! Neither knows the other, and neither knows bodies. What may become of an object is decided
//! behind them, by [`crate::admission`].

pub mod authenticate;
pub mod authorize;
pub mod certificate;
pub mod impersonate;
pub mod jwt;
pub mod pki;
pub mod rbac;
pub mod review;
pub mod tls;
pub mod token;
pub mod user;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::storage::reader::Reader;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `system:admin`.
    pub name: String,
    /// Tells users of one name apart; may be empty.
    pub uid: String,
    /// Such as `system:masters`.
    pub groups: Vec<String>,
    /// Whatever else the one who vouches for them says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What is asked for. A request for something that is no resource has only `verb` and `path`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who asks.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the
    /// method in lower case for a path that is no resource.
    pub verb: String,
    /// The API group; empty for core.
    pub api_group: String,
    /// The plural; empty when the path is no resource.
    pub resource: String,
    /// Such as `status`; may be empty.
    pub subresource: String,
    /// The namespace; empty for the cluster's and for all namespaces.
    pub namespace: String,
    /// The object's name; empty when the request is about a collection.
    pub name: String,
    /// The path of the request.
    pub path: String,
}

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Tells who sends a request.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the user of a request. A request that already carries a [`User`] in its extensions
    /// (one from inside the process) is not asked about.
    fn authenticate<'a>(
        &'a self,
        reader: &'a Reader,
        request: &'a http::request::Parts,
    ) -> Answer<'a, User>;

    /// Answers a review of `authentication.k8s.io`: a kind that is never stored and asks who
    /// bears a token, or who the requester is.
    fn review<'a>(
        &'a self,
        _reader: &'a Reader,
        _user: &'a User,
        _kind: &'a Kind,
        _object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async { Err(Status::unknown_path()) })
    }
}

/// Decides what users may do.
pub trait Authorizer: Send + Sync + 'static {
    /// Returns whether a user may; the error is what they are answered. Every path asks this one
    /// function: requests, impersonation, and admission where it depends on further rights.
    fn authorize<'a>(&'a self, reader: &'a Reader, attributes: &'a Attributes) -> Answer<'a, ()>;

    /// Whether a user's requests are worked on however many others are.
    fn is_exempt(&self, user: &User) -> bool {
        rbac::is_master(user)
    }

    /// Answers a review of `authorization.k8s.io`: a kind that is never stored and asks what a
    /// user may do.
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

    /// The roles and bindings that have to be there before requests are served.
    fn initial_policy(&self) -> Vec<Value> {
        Vec::new()
    }
}

/// Takes everybody for the cluster's owner and allows everything, for plain HTTP on loopback.
#[derive(Debug, Default)]
pub struct Open;

impl Authenticator for Open {
    fn authenticate<'a>(&'a self, _: &'a Reader, _: &'a http::request::Parts) -> Answer<'a, User> {
        let groups = vec!["system:masters".into(), "system:authenticated".into()];
        let user = User {
            name: "system:admin".into(),
            groups,
            ..User::default()
        };
        Box::pin(async { Ok(user) })
    }
}

impl Authorizer for Open {
    fn authorize<'a>(&'a self, _: &'a Reader, _: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Everybody would be.
    fn is_exempt(&self, _: &User) -> bool {
        false
    }
}
