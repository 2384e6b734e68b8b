//! Looks whether other servers are there, and writes it into the status of their APIServices.
//!
//! Every server of a store does this by itself, and all write the same; of two that write at once
//! one fails, and finds the status of the other one.

use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};

use super::Aggregator;
use crate::basics::clock;
use crate::basics::steps::Step;
use crate::registry::Registry;
use crate::registry::api_service::{self, AVAILABLE, GROUP, PLURAL, is_remote};
use crate::registry::definition::Condition;
use crate::storage::following::Following;
use crate::storage::reader::Reader;
use crate::webhook::address::SERVICE_NAME;

/// The port of a service if an APIService names none.
const DEFAULT_PORT: i64 = 443;
/// How often each server is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How soon again if one is not there.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How often a server is asked before it is said not to be there: its endpoints may differ.
const LOOKS: usize = 3;
/// Servers that are looked at at one time.
const AT_ONCE: usize = 16;
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Follows the APIServices of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>, aggregator: Arc<Aggregator>) {
    registry.reader.reflector.loaded().await;
    while let Err(error) = run(&registry, &aggregator).await {
        tracing::warn!(%error, "the APIServices cannot be followed");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn run(registry: &Arc<Registry>, aggregator: &Arc<Aggregator>) -> Result<(), Status> {
    let resource = registry.reader.resource(GROUP, "v1", PLURAL)?;
    let storage = resource.stored()?;
    let cache = registry.reader.reflector.cache(storage)?;
    // Begun before the first turn: what changes during a turn wakes for the next one.
    let mut following = Following::begin(cache, storage, "APIServices")?;
    loop {
        let services = registry.reader.cached_readable(&resource.kind, "");
        aggregator.keep(&services);
        // Servers that are away delay nobody.
        registry.steps.done(Step::Aggregation);
        let pause = if turn(registry, aggregator, services).await? {
            LOOK_EVERY
        } else {
            LOOK_AGAIN
        };
        // Endpoints come and go without a change here.
        if let Ok(changed) = tokio::time::timeout(pause, following.changed()).await {
            changed?;
        }
    }
}

/// Looks at all servers; true if all are there.
async fn turn(
    registry: &Arc<Registry>,
    aggregator: &Arc<Aggregator>,
    services: Vec<Arc<Value>>,
) -> Result<bool, Status> {
    let mut running = JoinSet::new();
    let mut all_are_there = true;
    let take = |done: Option<Result<Result<bool, Status>, JoinError>>| match done {
        Some(Ok(is_there)) => is_there,
        Some(Err(error)) => Err(Status::internal(&error.to_string())),
        None => Ok(true),
    };
    for service in services {
        if running.len() >= AT_ONCE {
            all_are_there &= take(running.join_next().await)?;
        }
        let (registry, aggregator) = (Arc::clone(registry), Arc::clone(aggregator));
        running.spawn(async move { look(&registry, &aggregator, &service).await });
    }
    while !running.is_empty() {
        all_are_there &= take(running.join_next().await)?;
    }
    Ok(all_are_there)
}

/// Looks at one server and writes what is new about it; true if it is there.
async fn look(
    registry: &Registry,
    aggregator: &Aggregator,
    service: &Value,
) -> Result<bool, Status> {
    let kind = super::kind().ok_or_else(Status::unknown_path)?;
    let condition = condition(&registry.reader, aggregator, service).await;
    let mut new = service.clone();
    condition.set(&mut new, clock::now());
    // The same failure may be told in other words each time: of another endpoint, for one.
    if new != *service && !is_told(service, &condition) {
        match registry.update_status(kind, new).await {
            // Its newer state is on its way here.
            Err(error) if error.code == 409 || error.code == 404 => {}
            written => written?,
        }
    }
    Ok(condition.holds)
}

/// True if an APIService says for this reason that its server is not there.
fn is_told(service: &Value, condition: &Condition) -> bool {
    let mut told = object::items(service, &["status", "conditions"]).iter();
    !condition.holds
        && told.any(|one| {
            one["type"] == AVAILABLE
                && one["status"] == "False"
                && one["reason"] == condition.reason
        })
}

/// The condition of an APIService now.
async fn condition(reader: &Reader, aggregator: &Aggregator, service: &Value) -> Condition {
    let found = |holds: bool, reason: &'static str, message: String| Condition {
        kind: AVAILABLE,
        holds,
        reason,
        message,
    };
    if !is_remote(service) {
        return api_service::local();
    }
    if let Err((reason, message)) = endpoints(reader, &service["spec"]["service"]) {
        return found(false, reason, message);
    }
    let peer = aggregator.peer(service);
    let mut failed = String::new();
    for _ in 0..LOOKS {
        match peer.look(reader).await {
            Ok(()) => return found(true, "Passed", "all checks passed".to_owned()),
            Err(why) => failed = why,
        }
    }
    found(false, "FailedDiscoveryCheck", failed)
}

/// Checks that a service has endpoints; the error is a reason and a message.
fn endpoints(reader: &Reader, reference: &Value) -> Result<(), (&'static str, String)> {
    let text = |key: &str| object::text(reference, &[key]);
    let (namespace, name) = (text("namespace"), text("name"));
    let port = object::integer(reference, &["port"]).unwrap_or(DEFAULT_PORT);
    let what = format!("service/{name} in {namespace:?}");
    let kind = |group, plural| schema::resource(group, "v1", plural);
    let found = kind("", "services").and_then(|kind| reader.cached(kind, namespace, name));
    let Some(found) = found else {
        return Err(("ServiceNotFound", format!("{what} is not present")));
    };
    if object::text(&found, &["spec", "type"]) != "ClusterIP" {
        return Ok(());
    }
    let mut ports = object::items(&found, &["spec", "ports"]).iter();
    let Some(of_service) = ports.find(|one| object::integer(one, &["port"]) == Some(port)) else {
        let why = format!("{what} is not listening on port {port}");
        return Err(("ServicePortError", why));
    };
    let port_name = object::text(of_service, &["name"]);
    let slices = kind("discovery.k8s.io", "endpointslices")
        .map(|kind| reader.cached_with_label(kind, namespace, (SERVICE_NAME, name)))
        .unwrap_or_default();
    if slices.is_empty() {
        let why = format!("cannot find endpointslices for {what}");
        return Err(("EndpointsNotFound", why));
    }
    let is_not_ready = Some(&Value::Bool(false));
    let serves = |slice: &Arc<Value>| {
        let mut endpoints = object::items(slice, &["endpoints"]).iter();
        let mut ports = object::items(slice, &["ports"]).iter();
        endpoints.any(|one| object::at(one, &["conditions", "ready"]) != is_not_ready)
            && ports.any(|one| object::text(one, &["name"]) == port_name)
    };
    if slices.iter().any(serves) {
        return Ok(());
    }
    let why = format!("endpointslices for {what} have no addresses with port name {port_name:?}");
    Err(("MissingEndpoints", why))
}
