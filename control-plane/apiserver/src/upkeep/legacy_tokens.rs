//! Records the use of tokens that never expire: the label of each secret has the day on which its
//! token was last used. Kubernetes' control loop that cleans up such secrets goes by it, and by the
//! config map that says since when it is recorded (`registry/builtin.rs`).
//!
//! Every server of a store does this by itself; of two that write at once one is enough.

use std::sync::Arc;

use machinery::schema;
use machinery::status::Status;
use serde_json::Value;

use crate::basics::clock;
use crate::registry::Registry;

/// Records uses for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    let Some(issuer) = &registry.issuer else {
        return;
    };
    registry.reader.reflector.loaded().await;
    loop {
        let (namespace, name) = issuer.used.next().await;
        let marked = |secret: &mut Value| issuer.used.mark(secret, clock::now());
        if let Err(error) = change(&registry, &namespace, &name, marked).await {
            // The next use tries again.
            tracing::debug!(%error, namespace, name, "the use of a token is not recorded");
        }
    }
}

async fn change(
    registry: &Registry,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<(), Status> {
    let kind = schema::resource("", "v1", "secrets").ok_or_else(Status::unknown_path)?;
    let mut secret = Value::clone(&*registry.reader.get(kind, namespace, name).await?);
    change(&mut secret);
    registry.update(kind, namespace, secret).await.map(|_| ())
}
