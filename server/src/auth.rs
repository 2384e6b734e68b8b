//! Users, roles and permissions as they apply now, and the authorization of each request. Plain
//! values: the state keeps the rows, and services answer the calls.
//!
//! Every member authorizes every log entry on its own, so the decision must equal etcd's in every
//! detail: if two members decide differently, their data diverges.

mod authorize;
mod credentials;
mod current;
mod encoding;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod image;
mod intervals;
mod kinds;
mod signed;
mod tokens;

pub(crate) use authorize::authorize;
pub use authorize::{check_lease_keys, check_told_keys, check_txn, may_watch, watch_refusal};
pub(crate) use credentials::Credentials;
pub use current::CurrentAuth;
pub(crate) use encoding::decode_base64;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::any_token;
pub(crate) use image::ROOT;
pub(crate) use image::decode_row;
pub use image::{Image, Kind};
pub(crate) use kinds::Tokens;
pub(crate) use tokens::SimpleTokens;

/// A token issued by an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: String,
    /// The text of a simple token.
    pub token: String,
    /// The auth revision to put into a signed token.
    pub auth_revision: u64,
}
