//! What authentication and authorization need before requests are served: the default roles and
//! bindings, and the authority of client certificates.

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};

use crate::auth::authorize::rbac::{self, bootstrap};
use crate::basics::steps::Step;
use crate::registry::Registry;

/// The namespace of the cluster's own objects.
const SYSTEM: &str = "kube-system";
/// Attempts to write an object that others write too.
const TRIES_MAX: usize = 5;
/// Number of roles written concurrently, so that the store syncs them together.
const AT_ONCE: usize = 16;

/// Publishes the authority of client certificates, stores the default roles and bindings, and adds
/// to existing ones what is missing.
pub(crate) async fn make(registry: &Arc<Registry>) -> Result<(), Status> {
    publish_first(registry).await?;
    let mut running = JoinSet::new();
    for wanted in registry.authorizer.initial_policy() {
        if running.len() >= AT_ONCE {
            finished(running.join_next().await)?;
        }
        let registry = Arc::clone(registry);
        running.spawn(async move { ensure(&registry, &wanted).await });
    }
    while !running.is_empty() {
        finished(running.join_next().await)?;
    }
    registry.reader.fresh().await?;
    registry.steps.done(Step::Roles);
    Ok(())
}

fn finished(done: Option<Result<Result<(), Status>, JoinError>>) -> Result<(), Status> {
    match done {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(Status::internal(&error.to_string())),
        None => Ok(()),
    }
}

/// Publishes the authorities that there were at the start, once: a start that is tried again must
/// not take back newer ones, which were read since.
pub(crate) async fn publish_first(registry: &Registry) -> Result<(), Status> {
    if registry.steps.has(Step::Authorities) {
        return Ok(());
    }
    let settings = &registry.settings;
    let proxies = settings.proxies.as_ref().map(|proxies| proxies.authority());
    publish_authorities(registry, settings.client_authority.as_deref(), proxies).await?;
    registry.steps.done(Step::Authorities);
    Ok(())
}

/// Publishes who may authenticate clients, for servers that delegate authentication to this one: the
/// authority of client certificates, and the proxies that name users with theirs.
pub(crate) async fn publish_authorities(
    registry: &Registry,
    of_clients: Option<&str>,
    of_proxies: Option<&str>,
) -> Result<(), Status> {
    let mut data = Vec::new();
    if let Some(authority) = of_clients {
        data.push(("client-ca-file", authority.to_owned()));
    }
    if let (Some(proxies), Some(authority)) = (&registry.settings.proxies, of_proxies) {
        data.extend(proxies.published(authority));
    }
    if data.is_empty() {
        return Ok(());
    }
    let kind = schema::resource("", "v1", "configmaps").ok_or_else(Status::unknown_path)?;
    let name = "extension-apiserver-authentication";
    let with_data = |mut map: Value| {
        for (key, text) in &data {
            object::set(&mut map, &["data", key], text.as_str().into());
        }
        map
    };
    for _ in 0..TRIES_MAX {
        let wanted = with_data(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": SYSTEM },
        }));
        match registry.create(kind, SYSTEM, wanted).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            made => return made.map(|_| ()),
        }
        let stored = registry.reader.get(kind, SYSTEM, name).await?;
        let new = with_data(Value::clone(&stored));
        if new == *stored {
            return Ok(());
        }
        match registry.update(kind, SYSTEM, new).await {
            Err(error) if error.code == 409 || error.code == 404 => {}
            written => return written.map(|_| ()),
        }
    }
    let why = "it is being changed all the time";
    Err(Status::conflict("", kind.plural(), name, why))
}

/// Creates an object of the default policy, or adds to it what is missing.
async fn ensure(registry: &Registry, wanted: &Value) -> Result<(), Status> {
    let kind = schema::kind(rbac::GROUP, "v1", object::kind(wanted));
    let kind = kind.ok_or_else(Status::unknown_path)?;
    let (namespace, name) = (object::namespace(wanted), object::name(wanted));
    let reader = &registry.reader;
    for _ in 0..TRIES_MAX {
        let stored = match reader.cached(kind, namespace, name) {
            Some(stored) => stored,
            None => match registry.create(kind, namespace, wanted.clone()).await {
                Err(error) if error.reason == "AlreadyExists" => {
                    reader.get(kind, namespace, name).await?
                }
                made => return made.map(|_| ()),
            },
        };
        let Some(new) = bootstrap::reconciled(&stored, wanted) else {
            return Ok(());
        };
        match registry.update(kind, namespace, new).await {
            Err(error) if error.code == 409 => reader.fresh().await?,
            written => return written.map(|_| ()),
        }
    }
    Err(Status::conflict(
        rbac::GROUP,
        kind.plural(),
        name,
        "it is being changed all the time",
    ))
}
