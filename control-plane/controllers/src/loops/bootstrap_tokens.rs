//! Bootstrap tokens, with which new nodes introduce themselves: secrets of one type, one for each
//! token. Their loops are off by default, as in Kubernetes.

mod cleaner;
mod signer;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use machinery::time::Timestamp;

use crate::meta;

pub(crate) use cleaner::TokenCleaner;
pub(crate) use signer::BootstrapSigner;

/// The type of the secrets.
pub(crate) const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of the secrets.
const NAMESPACE: &str = "kube-system";

/// How long a token is still good.
enum Life {
    Endless,
    Left(Duration),
    Over,
}

fn is_token(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(TYPE) && meta::namespace(&secret.metadata) == NAMESPACE
}

/// A value of a secret as text; empty if it has none.
fn text<'a>(secret: &'a Secret, key: &str) -> Cow<'a, str> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(&value.0))
}

/// A token whose end cannot be read is over: nobody knows that it was to last.
fn life(secret: &Secret, now: Timestamp) -> Life {
    let end = text(secret, "expiration");
    if end.is_empty() {
        return Life::Endless;
    }
    match Timestamp::parse(&end) {
        Some(end) if end > now => Life::Left(end.since(now)),
        _ => Life::Over,
    }
}
