//! Users, roles and permissions as they apply now, and the authorization of each request. Plain
//! values: the rows are kept by [`crate::state`], calls are answered in [`crate::api::grpc`].
//!
//! Every member authorizes every log entry on its own, so the decision must equal etcd's in every
//! detail: if two members decide differently, their data diverges.

mod authorize;
mod credentials;
mod encoding;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod image;
mod intervals;
mod kinds;
mod shared;
mod signed;
mod tokens;

pub use authorize::{Denied, authorize, check_lease_keys, check_txn};
pub use credentials::Credentials;
pub(crate) use encoding::decode_base64;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::any_token;
pub(crate) use image::decode_row;
pub use image::{Image, Kind, ROOT, User};
pub use kinds::Tokens;
pub use shared::Shared;
pub use signed::Signed;
pub use tokens::SimpleTokens;

/// The user a request is made for, as in the header of its log entry: the user's name, and the auth
/// revision at which the user was authenticated. The default is no user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthInfo {
    pub user: String,
    /// 0 if there is no user: auth revisions begin at 1.
    pub revision: u64,
}
