//! The names of the headers that every call is asked for. As constants they are looked up without
//! being parsed each time.

use http::{HeaderMap, HeaderName};

/// A user's token.
pub(crate) static TOKEN: HeaderName = HeaderName::from_static("token");

/// Set by a client that wants an error when there is no leader.
pub(crate) static HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");

pub(crate) static CLIENT_API_VERSION: HeaderName = HeaderName::from_static("client-api-version");

/// The client's deadline.
pub(crate) static GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The code that a call ends with.
pub(crate) static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The text of an error.
pub(crate) static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The value of `grpc-status`, if present.
pub(super) fn status_code(headers: &HeaderMap) -> Option<usize> {
    headers.get(&GRPC_STATUS)?.to_str().ok()?.parse().ok()
}
