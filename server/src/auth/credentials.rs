//! What a call says about who makes it, before anybody has looked whether it is true.

use std::sync::Arc;

/// Travels in the extensions of a call that has any. The token counts even if there is a certificate,
/// and even if it is not valid.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub token: Option<Arc<str>>,
    /// The common name of a certificate that was verified, where certificates name users.
    pub common_name: Option<Arc<str>>,
}

impl Credentials {
    /// The text of a header, without the scheme that some clients put in front of a token.
    pub fn token_of(header: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(header);
        text.strip_prefix("Bearer ").unwrap_or(&text).into()
    }
}

/// A token is as good as a password: logs do not show it.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("has_token", &self.token.is_some())
            .field("common_name", &self.common_name)
            .finish()
    }
}
