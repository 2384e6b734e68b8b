//! What a call claims about its caller, not verified yet.

use std::sync::Arc;

/// Attached to a call's extensions if it has any. The token takes precedence over a certificate,
/// even if the token is not valid.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub token: Option<Arc<str>>,
    /// The common name of a verified certificate, if certificates name users.
    pub common_name: Option<Arc<str>>,
}

impl Credentials {
    /// The token in a header, without the scheme that some clients put before it.
    pub(crate) fn token_of(header: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(header);
        text.strip_prefix("Bearer ").unwrap_or(&text).into()
    }
}

/// A token is as secret as a password, so `Debug` does not show it.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("has_token", &self.token.is_some())
            .field("common_name", &self.common_name)
            .finish()
    }
}
