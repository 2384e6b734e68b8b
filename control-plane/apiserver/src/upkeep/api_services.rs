//! Keeps an APIService for each version of a group that this server serves itself, so that clients
//! that list APIServices see those, too.
//!
//! Those of built-in groups are made once, at the start; those of custom resources come and go with
//! the definitions. A label says which are kept like this; others are left alone. Every server of a
//! store does this by itself.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::basics::steps::Step;
use crate::registry::Registry;
use crate::registry::api_service::{CUSTOM_PRIORITIES, GROUP, PLURAL, version_priority};
use crate::registry::strategy::builtin;
use crate::storage::following::Following;

/// The label that says how an APIService is kept.
const KEPT: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Its value where only a start of a server makes it so.
const AT_START: &str = "onstart";
/// Its value where it follows the definitions.
const ALWAYS: &str = "true";
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How long to wait before looking again whether definitions can be read: one that cannot be wakes
/// nobody when it is deleted.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Keeps the APIServices of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    let mut is_start = true;
    while let Err(error) = run(&registry, &mut is_start).await {
        tracing::warn!(%error, "the APIServices of this server cannot be kept");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Follows the definitions until something fails. The first turn is that of a start.
async fn run(registry: &Registry, is_start: &mut bool) -> Result<(), Status> {
    let reader = &registry.reader;
    let services = reader.resource(GROUP, "v1", PLURAL)?;
    let definitions = reader.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
    let begin = |storage, what| {
        let cache = reader.reflector.cache(storage)?;
        Following::begin(cache, storage, what)
    };
    // Begun before the first turn: what changes during a turn wakes for the next one.
    let mut services_changed = begin(services.stored()?, "APIServices")?;
    let mut definitions_changed = begin(definitions.stored()?, "definitions")?;
    let mut all_known = true;
    loop {
        let stored = reader.cached_readable(&services.kind, "");
        // The definitions of those APIServices were there before them.
        reader.fresh().await?;
        let unreadable = reader.cached_list(&definitions.kind, "").err();
        if let (Some(error), true) = (&unreadable, all_known) {
            tracing::warn!(%error, "the APIServices of custom resources stay: not all definitions can be read");
        }
        all_known = unreadable.is_none();
        let mut wanted = of_definitions(&reader.cached_readable(&definitions.kind, ""));
        if *is_start {
            wanted.extend(of_builtin());
        }
        let turn = Turn {
            is_start: *is_start,
            all_known,
        };
        turn.bring(registry, &services.kind, &stored, wanted)
            .await?;
        *is_start = false;
        registry.steps.done(Step::Registration);
        tokio::select! {
            changed = services_changed.changed() => changed?,
            changed = definitions_changed.changed() => changed?,
            () = tokio::time::sleep(LOOK_AGAIN_AFTER), if !all_known => {}
        }
    }
}

/// One turn over all APIServices.
struct Turn {
    /// The first turn of a server also brings those of built-in groups into order.
    is_start: bool,
    /// False if a definition cannot be read. Its APIServices are not wanted then, but not left over.
    all_known: bool,
}

impl Turn {
    /// Creates, changes and deletes what is not as wanted.
    async fn bring(
        &self,
        registry: &Registry,
        kind: &Kind,
        stored: &[Arc<Value>],
        mut wanted: BTreeMap<String, Value>,
    ) -> Result<(), Status> {
        for one in stored {
            let kept = object::text(one, &["metadata", "labels", KEPT]);
            let at_start = kept == AT_START && self.is_start;
            let is_ours = kept == ALWAYS || at_start;
            let written = match wanted.remove(object::name(one)) {
                None if at_start || is_ours && self.all_known => {
                    // A client may have made another one of this name since.
                    let (name, uid) = (object::name(one), object::uid(one));
                    registry.delete(kind, "", name, uid).await
                }
                Some(new) if is_ours && new["spec"] != one["spec"] => {
                    let mut changed = Value::clone(one);
                    changed["spec"] = new["spec"].clone();
                    registry.update(kind, "", changed).await.map(|_| ())
                }
                _ => Ok(()),
            };
            tolerated(written)?;
        }
        // Together, so that the store syncs them together.
        let made = wanted.into_values().map(|new| async {
            let made = registry.create(kind, "", new).await;
            tolerated(made.map(|_| ()))
        });
        try_join_all(made).await.map(|_| ())
    }
}

/// Another writer was faster; its state is on its way here, and wakes for another turn.
fn tolerated(written: Result<(), Status>) -> Result<(), Status> {
    match written {
        Err(error) if error.code == 409 || error.code == 404 => Ok(()),
        written => written,
    }
}

/// The APIServices of built-in groups, by name.
fn of_builtin() -> BTreeMap<String, Value> {
    // Whoever could not read APIServices would not look for theirs.
    let ours = builtin().iter().filter(|one| one.kind.group() != GROUP);
    let all = ours.map(|one| {
        let priorities = (one.kind.priority(), version_priority(one));
        service(one.kind.group(), one.kind.version(), priorities, AT_START)
    });
    all.collect()
}

/// The APIServices of custom resources, by name.
fn of_definitions(definitions: &[Arc<Value>]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for definition in definitions {
        let group = object::text(definition, &["spec", "group"]);
        let versions = object::items(definition, &["spec", "versions"]).iter();
        for version in versions.filter(|version| version["served"] == true) {
            let version = object::text(version, &["name"]);
            all.extend([service(group, version, CUSTOM_PRIORITIES, ALWAYS)]);
        }
    }
    all
}

/// An APIService of this server, and its name.
fn service(group: &str, version: &str, priorities: (u32, u32), kept: &str) -> (String, Value) {
    let name = format!("{version}.{group}");
    let mut service = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
        "metadata": {"name": name, "labels": {KEPT: kept}},
        "spec": {
            "version": version,
            "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
        },
    });
    if !group.is_empty() {
        service["spec"]["group"] = group.into();
    }
    (name, service)
}
