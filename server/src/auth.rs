//! Who may do what: users, roles and permissions as they are in force, and the decision about each
//! request. Plain values: the rows are kept by [`crate::state`], calls are answered in
//! [`crate::api::grpc`].
//!
//! Every member decides about every entry of the log by itself, so the decision must be etcd's to
//! the last corner: where two members differ, their data does, too.

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

/// On whose behalf a request is made, as the header of its log entry says: the user, and the auth
/// revision that the user was known at. The default is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthInfo {
    pub user: String,
    /// 0 when no user was given: real ones begin at 1.
    pub revision: u64,
}
