//! Who asks, and whether they may: the seam between the server and what it is told of people.
//!
//! The server asks a [`Gate`] twice for each request, and once for each object it is to keep.
//! It knows nothing of tokens, certificates and roles; a gate knows nothing of paths and bodies.

pub mod admission;
pub mod authenticate;
pub mod authority;
pub mod certificate;
pub mod impersonate;
pub mod jwt;
pub mod pki;
pub mod rbac;
pub mod review;
pub mod setup;
pub mod tls;
pub mod token;
pub mod user;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::Api;

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

/// A write on its way to the store.
#[derive(Debug, Clone)]
pub struct Admission<'a> {
    /// Who sends it.
    pub user: &'a User,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// What it is.
    pub kind: &'static Kind,
    /// Such as `status`; may be empty. The object is then what the subresource takes.
    pub subresource: &'a str,
    /// Its namespace; empty for the cluster's.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is stored now, if anything.
    pub old: Option<&'a Value>,
}

/// What a gate answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Decides about people. `api` reads and writes objects without asking the gate again.
pub trait Gate: Send + Sync + 'static {
    /// Who sends this request. A request that already carries a [`User`] in its extensions (one
    /// from inside the process) is not asked about.
    fn authenticate<'a>(
        &'a self,
        api: &'a Api,
        request: &'a http::request::Parts,
    ) -> Answer<'a, User>;

    /// Whether they may; the error is what they are answered.
    fn authorize<'a>(&'a self, api: &'a Api, attributes: &'a Attributes) -> Answer<'a, ()>;

    /// Whether a user's requests are worked on however many others are.
    fn is_exempt(&self, user: &User) -> bool {
        rbac::is_master(user)
    }

    /// Changes or refuses a write; the object of a deletion is null.
    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        _admission: Admission<'a>,
        _object: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Answers a review: a kind that can only be created and is never stored, such as
    /// `selfsubjectaccessreviews`.
    fn review<'a>(
        &'a self,
        _api: &'a Api,
        _user: &'a User,
        _kind: &'static Kind,
        _namespace: &'a str,
        _object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async { Err(Status::unknown_path()) })
    }

    /// Answers a TokenRequest for this service account.
    fn issue_token<'a>(
        &'a self,
        _api: &'a Api,
        _service_account: &'a Value,
        _request: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async { Err(Status::unknown_path()) })
    }

    /// Makes the objects it needs, once the namespaces are there and before requests are served.
    fn prepare<'a>(&'a self, _api: &'a Api) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Serves a path of its own, such as the keys that tokens are signed with.
    fn document(&self, _path: &str) -> Option<Value> {
        None
    }
}

/// A gate that lets everybody do everything, for plain HTTP on loopback.
#[derive(Debug, Default)]
pub struct Open;

impl Gate for Open {
    fn authenticate<'a>(&'a self, _: &'a Api, _: &'a http::request::Parts) -> Answer<'a, User> {
        let groups = vec!["system:masters".into(), "system:authenticated".into()];
        let user = User {
            name: "system:admin".into(),
            groups,
            ..User::default()
        };
        Box::pin(async { Ok(user) })
    }

    fn authorize<'a>(&'a self, _: &'a Api, _: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Everybody would be.
    fn is_exempt(&self, _: &User) -> bool {
        false
    }
}
