//! Keeps the objects of flow control: the built-in ones as they must be, and in the status of each
//! schema whether its level exists.
//!
//! Every server of a store does this by itself. Of two that write at once one fails, and finds the
//! state of the other one.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::basics::clock;
use crate::registry::Registry;
use crate::resources::flow_control::{self, AUTO_UPDATE, EXEMPT, GROUP, LEVEL, SCHEMA};
use crate::storage::following::Following;

const PLURALS: [&str; 2] = ["prioritylevelconfigurations", "flowschemas"];
/// The condition of a schema without a level.
const DANGLING: &str = "Dangling";
/// The time from one turn to the next. Two servers that want different objects, of two releases for
/// one, would otherwise change them as fast as the store can.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Creates the built-in objects that are missing, repairs the mandatory ones, and brings the
/// suggested ones up to date unless their owner keeps them.
pub(crate) async fn make(registry: &Registry) -> Result<(), Status> {
    for wanted in flow_control::all() {
        ensure(registry, wanted).await?;
    }
    registry.reader.fresh().await
}

/// Follows the objects of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    while let Err(error) = run(&registry).await {
        tracing::warn!(%error, "the objects of flow control cannot be kept");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Follows the objects until something fails.
async fn run(registry: &Registry) -> Result<(), Status> {
    // Begun before the first turn: what changes during a turn wakes for the next one.
    let [mut levels, mut schemas] = [begin(registry, 0)?, begin(registry, 1)?];
    loop {
        make(registry).await?;
        remove_unknown(registry).await?;
        report(registry).await?;
        tokio::select! {
            changed = levels.changed() => changed?,
            changed = schemas.changed() => changed?,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn begin(registry: &Registry, at: usize) -> Result<Following, Status> {
    let resource = registry.reader.resource(GROUP, "v1", PLURALS[at])?;
    let storage = resource.stored()?;
    let cache = registry.reader.reflector.cache(storage)?;
    Following::begin(cache, storage, "objects of flow control")
}

async fn ensure(registry: &Registry, wanted: &Value) -> Result<(), Status> {
    let kind = kind(object::kind(wanted))?;
    let stored = match registry.reader.cached(kind, "", object::name(wanted)) {
        Some(stored) => stored,
        None => match registry.create(kind, "", wanted.clone()).await {
            // It is on its way into the cache.
            Err(error) if error.reason == "AlreadyExists" => return Ok(()),
            made => return made.map(|_| ()),
        },
    };
    match revised(&stored, wanted) {
        Some(new) => tolerated(registry.update(kind, "", new).await.map(|_| ())),
        None => Ok(()),
    }
}

/// The update of a built-in object; `None` if it is as it must be.
fn revised(stored: &Value, wanted: &Value) -> Option<Value> {
    let is_mandatory =
        flow_control::mandatory(object::kind(wanted), object::name(wanted)).is_some();
    let annotated = auto_update(stored);
    // Nobody has changed an object of the first generation.
    let updates = is_mandatory || annotated.unwrap_or_else(|| object::generation(stored) == 1);
    let mut new = stored.clone();
    if updates && !has_spec(stored, wanted) {
        new["spec"] = wanted["spec"].clone();
    }
    if annotated != Some(updates) {
        let path = ["metadata", "annotations", AUTO_UPDATE];
        object::set(&mut new, &path, updates.to_string().into());
    }
    (new != *stored).then_some(new)
}

/// True if the specs are equal. The owner of a cluster may give the exempt level shares.
fn has_spec(stored: &Value, wanted: &Value) -> bool {
    let mut spec = stored["spec"].clone();
    let is_exempt_level = object::kind(wanted) == LEVEL && object::name(wanted) == EXEMPT;
    if is_exempt_level && spec["exempt"].is_object() {
        spec["exempt"] = wanted["spec"]["exempt"].clone();
    }
    spec == wanted["spec"]
}

/// What the annotation of an object says about updates; `None` if it says nothing clear.
fn auto_update(stored: &Value) -> Option<bool> {
    // What Go takes for a boolean.
    match object::annotation(stored, AUTO_UPDATE)? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Deletes objects that a server of another release has made for itself.
async fn remove_unknown(registry: &Registry) -> Result<(), Status> {
    for name in [SCHEMA, LEVEL] {
        let kind = kind(name)?;
        for stored in registry.reader.cached_readable(kind, "") {
            let mut known = flow_control::all().iter();
            let is_ours = known
                .any(|one| (object::kind(one), object::name(one)) == (name, object::name(&stored)));
            if !is_ours && auto_update(&stored) == Some(true) {
                let (name, uid) = (object::name(&stored), object::uid(&stored));
                tolerated(registry.delete(kind, "", name, uid).await)?;
            }
        }
    }
    Ok(())
}

/// Writes into the status of schemas whether their levels exist.
async fn report(registry: &Registry) -> Result<(), Status> {
    let (schemas, levels) = (kind(SCHEMA)?, kind(LEVEL)?);
    for stored in registry.reader.cached_readable(schemas, "") {
        let level = level_of(&stored);
        let exists = registry.reader.cached(levels, "", level).is_some();
        if let Some(new) = reported(&stored, exists, clock::now()) {
            tolerated(registry.update_status(schemas, new).await)?;
        }
    }
    Ok(())
}

/// The schema with its new condition; `None` if it has that already.
fn reported(stored: &Value, exists: bool, now: Timestamp) -> Option<Value> {
    let level = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {:?}",
        level_of(stored)
    );
    let (status, reason, end) = if exists {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message = format!("{level} {end}");
    let conditions = object::items(stored, &["status", "conditions"]);
    let is_dangling = |one: &Value| one["type"] == DANGLING;
    let is_told = |one: &Value| {
        one["status"] == status && one["reason"] == reason && one["message"] == message
    };
    if conditions
        .iter()
        .any(|one| is_dangling(one) && is_told(one))
    {
        return None;
    }
    let mut all: Vec<Value> = conditions.to_vec();
    all.retain(|one| !is_dangling(one));
    all.push(json!({
        "type": DANGLING, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now.to_seconds(),
    }));
    let mut new = stored.clone();
    object::set(&mut new, &["status", "conditions"], all.into());
    Some(new)
}

fn level_of(schema: &Value) -> &str {
    object::text(schema, &["spec", "priorityLevelConfiguration", "name"])
}

fn kind(name: &str) -> Result<&'static Kind, Status> {
    let kind = schema::kind(GROUP, "v1", name).ok_or_else(Status::unknown_path)?;
    Ok(kind)
}

/// Another writer was faster; its state is on its way here, and wakes for another turn.
fn tolerated(written: Result<(), Status>) -> Result<(), Status> {
    match written {
        Err(error) if error.code == 409 || error.code == 404 => Ok(()),
        written => written,
    }
}
