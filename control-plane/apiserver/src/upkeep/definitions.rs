//! Follows CustomResourceDefinitions: accepts their names, serves their kinds and empties the
//! collections of those that are deleted.
//!
//! Every server of a store follows all definitions by itself. What is decided about one is written
//! into its status, where the others find it; of two that write at once one fails and decides
//! anew. Each turn begins with all definitions as the watch cache has them, so a restart and a
//! change that was missed are nothing special.

mod cleanup;
mod names;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::basics::clock;
use crate::basics::steps::Step;
use crate::registry::Registry;
use crate::registry::definition::{
    APPROVAL_CONFORMANT, CLEANUP, Condition, ESTABLISHED, NAMES_ACCEPTED, holds,
};
use crate::registry::strategy::builtin;
use crate::resources::catalogue::{Catalogue, Resource, Storage};
use crate::storage::following::Following;
use crate::upkeep::conversion;
use crate::validate::extension::definition::approval::{Approval, State};
use cleanup::Cleanup;
use names::Taken;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Follows the definitions of a store for ever. The step of a start is done when all that were there
/// at the beginning are served.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    let mut follower = Follower {
        registry,
        served: BTreeMap::new(),
        cleaning: BTreeSet::new(),
        cleanups: JoinSet::new(),
    };
    while let Err(error) = follower.run().await {
        tracing::warn!(%error, "the definitions of custom resources cannot be followed");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// What one server does about the definitions.
struct Follower {
    registry: Arc<Registry>,
    /// What is served, by the name of the definition.
    served: BTreeMap<String, Served>,
    /// The uids of definitions whose objects are being deleted.
    cleaning: BTreeSet<String>,
    cleanups: JoinSet<String>,
}

/// A definition that is served.
#[derive(Clone)]
struct Served {
    uid: String,
    /// All that the resources are made of.
    source: Value,
    /// The `apiVersion` that objects are stored in.
    stored_in: String,
    resources: Vec<Arc<Resource>>,
}

/// A definition, and what its status will be.
struct Decided {
    old: Arc<Value>,
    new: Value,
}

impl Follower {
    /// Follows the definitions until something fails.
    async fn run(&mut self) -> Result<(), Status> {
        let registry = Arc::clone(&self.registry);
        let resource = registry.reader.resource(GROUP, "v1", PLURAL)?;
        let storage = resource.stored()?;
        let cache = registry.reader.reflector.cache(storage)?;
        // Begun before the first turn: what changes during a turn wakes for the next one.
        let mut following = Following::begin(cache, storage, "definitions")?;
        loop {
            self.turn(&resource.kind).await?;
            tokio::select! {
                woken = following.changed() => woken?,
                Some(done) = self.cleanups.join_next() => {
                    let uid = done.map_err(|error| Status::internal(&error.to_string()))?;
                    self.cleaning.remove(&uid);
                }
            }
        }
    }

    /// Brings what is served and what the definitions say of themselves in line with them.
    /// A status that cannot be written keeps no kind from being served.
    async fn turn(&mut self, kind: &Kind) -> Result<(), Status> {
        let mut definitions = self.registry.reader.cached_readable(kind, "");
        // Who came first gets the names. Every server sees the same order.
        definitions.sort_by_key(|one| object::resource_version(one).parse::<i64>().ok());
        let mut decided = decide(&definitions);
        self.serve(&decided).await?;
        self.registry.steps.done(Step::Definitions);
        let mut written = Ok(());
        for one in &mut decided {
            // Only what is served here by now is said to be.
            let name = object::name(&one.new);
            if holds(&one.new, NAMES_ACCEPTED) && self.served.contains_key(name) {
                established().set(&mut one.new, clock::now());
            }
            if let Err(error) = self.write(kind, one).await {
                written = Err(error);
            }
        }
        for one in &decided {
            self.clean(kind, &one.old);
        }
        written
    }

    /// Serves the kinds of all definitions whose names were accepted at some time.
    async fn serve(&mut self, decided: &[Decided]) -> Result<(), Status> {
        let reflector = &self.registry.reader.reflector;
        let catalogue = reflector.catalogue();
        let mut wanted = BTreeMap::new();
        for Decided { new, .. } in decided {
            let name = object::name(new);
            if !holds(new, NAMES_ACCEPTED) && !holds(new, ESTABLISHED) {
                continue;
            }
            match self.resources(&catalogue, new) {
                Ok(served) => drop(wanted.insert(name.to_owned(), served)),
                Err(error) => tracing::error!(name, %error, "a definition cannot be served"),
            }
        }
        if wanted == self.served {
            return Ok(());
        }
        let both = || self.served.values().chain(wanted.values());
        let ours: BTreeSet<(&str, &str)> = both().filter_map(Served::place).collect();
        let leaves = |one: &Resource| ours.contains(&(one.kind.group(), one.kind.plural()));
        let joining = wanted.values().flat_map(|one| one.resources.clone());
        reflector.replace(leaves, joining.collect()).await?;
        for one in wanted.values() {
            if let Some(storage) = one.storage() {
                storage.store_in(one.stored_in.clone());
            }
        }
        self.served = wanted;
        Ok(())
    }

    /// What a definition makes served; as before, if it says what it said before.
    fn resources(&self, catalogue: &Catalogue, definition: &Value) -> Result<Served, Status> {
        let source = read::source(definition);
        let uid = object::uid(definition).to_owned();
        let before = self.served.get(object::name(definition));
        let before = before.filter(|before| before.uid == uid);
        if let Some(before) = before.filter(|before| before.source == source) {
            return Ok(before.clone());
        }
        let parsed = read::definition(definition);
        let (group, plural) = (parsed.group.as_str(), &*parsed.names.plural);
        if is_builtin(group, plural) {
            return Err(Status::already_exists(group, plural, &parsed.names.kind));
        }
        // Another definition of the same name has other objects.
        let storage = before.and_then(|_| catalogue.custom_storage(group, plural));
        let schemas = parsed.schemas()?;
        let converter = conversion::converter(definition, &schemas, &self.registry.reader);
        // Open watches would continue with the former converter and its schemas: with a new
        // collection they end.
        let storage = storage.filter(|_| converter.is_none());
        Ok(Served {
            uid,
            source,
            stored_in: parsed.stored_in()?,
            resources: parsed.converted(storage, &schemas, converter.as_ref())?,
        })
    }

    /// Writes the status of a definition if it changed.
    async fn write(&self, kind: &Kind, one: &Decided) -> Result<(), Status> {
        if *one.old == one.new {
            return Ok(());
        }
        match self.registry.update_status(kind, one.new.clone()).await {
            // Its newer state is on its way here.
            Err(error) if error.code == 409 || error.code == 404 => Ok(()),
            written => written,
        }
    }

    /// Deletes the objects of a definition that is being deleted, beside everything else.
    fn clean(&mut self, kind: &Kind, definition: &Value) {
        let uid = object::uid(definition);
        let waits = object::is_deleting(definition) && object::has_finalizer(definition, CLEANUP);
        if waits && self.cleaning.insert(uid.to_owned()) {
            let cleanup = Cleanup {
                registry: Arc::clone(&self.registry),
                kind: kind.clone(),
                name: object::name(definition).to_owned(),
                uid: uid.to_owned(),
            };
            self.cleanups.spawn(async move {
                cleanup.run().await;
                cleanup.uid
            });
        }
    }
}

impl PartialEq for Served {
    /// What is made of equal sources is equal.
    fn eq(&self, other: &Served) -> bool {
        (&self.uid, &self.source) == (&other.uid, &other.source)
    }
}

impl Served {
    /// Its group and plural; `None` if no version is served.
    fn place(&self) -> Option<(&str, &str)> {
        let kind = &self.resources.first()?.kind;
        Some((kind.group(), kind.plural()))
    }

    fn storage(&self) -> Option<&Arc<Storage>> {
        self.resources.first()?.storage.as_ref()
    }
}

/// Decides about the names of all definitions, each after those before it.
fn decide(definitions: &[Arc<Value>]) -> Vec<Decided> {
    let now = clock::now();
    let mut taken = Taken::new(definitions);
    let decide = |old: &Arc<Value>| {
        let mut new = Value::clone(old);
        let condition = taken.accept(&mut new);
        condition.set(&mut new, now);
        if let Some(condition) = approval(&new) {
            condition.set(&mut new, now);
        }
        if !condition.holds && !has(&new, ESTABLISHED) {
            not_established().set(&mut new, now);
        }
        let old = Arc::clone(old);
        Decided { old, new }
    };
    definitions.iter().map(decide).collect()
}

fn has(definition: &Value, condition: &str) -> bool {
    let mut all = object::items(definition, &["status", "conditions"]).iter();
    all.any(|one| one["type"] == condition)
}

/// Whether a definition in a group of Kubernetes itself is approved.
fn approval(definition: &Value) -> Option<Condition> {
    let approval = Approval::of(definition)?;
    let reason = match approval.state {
        State::Approved => "ApprovedAnnotation",
        State::Bypassed => "UnapprovedAnnotation",
        State::Missing => "MissingAnnotation",
        State::Invalid => "InvalidAnnotation",
    };
    Some(Condition {
        kind: APPROVAL_CONFORMANT,
        holds: approval.state == State::Approved,
        reason,
        message: approval.told(),
    })
}

fn established() -> Condition {
    Condition {
        kind: ESTABLISHED,
        holds: true,
        reason: "InitialNamesAccepted",
        message: "the initial names have been accepted".into(),
    }
}

fn not_established() -> Condition {
    Condition {
        kind: ESTABLISHED,
        holds: false,
        reason: "NotAccepted",
        message: "not all names are accepted".into(),
    }
}

fn is_builtin(group: &str, plural: &str) -> bool {
    let mut all = builtin().iter();
    all.any(|one| (one.kind.group(), one.kind.plural()) == (group, plural))
}
