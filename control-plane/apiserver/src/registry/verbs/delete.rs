//! Deletion: at once, or by a mark, after which the holders of finalizers and the node's agent do
//! the rest.

use std::sync::Arc;
use std::time::Duration;

use machinery::object::{self, metadata_mut};
use machinery::status::{Cause, Status};
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::admission::{Attributes, DELETE};
use crate::auth::Answer;
use crate::basics::clock;
use crate::registry::allocate;
use crate::registry::definition;
use crate::registry::options::dry_run;
use crate::registry::strategy;
use crate::registry::verbs::edit::{Edit, Edited, Step};
use crate::registry::verbs::write::precondition;
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::storage::decoded::DecodedObject;
use crate::storage::views;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry: bool,
}

/// What happens to the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

impl Options {
    /// Parses a DeleteOptions object.
    pub(crate) fn of(options: &Value) -> Result<Options, Status> {
        let text = |path: &[&str]| object::at(options, path)?.as_str().map(str::to_owned);
        let orphan = options.get("orphanDependents").and_then(Value::as_bool);
        let given = propagation(options.get("propagationPolicy").and_then(Value::as_str))?;
        if given.is_some() && orphan.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let value = options["propagationPolicy"].clone();
            return Err(invalid(Cause::invalid("propagationPolicy", &value, why)));
        }
        let values = object::items(options, &["dryRun"]).iter();
        let mut causes = Vec::new();
        let dry = dry_run(values.filter_map(Value::as_str), &mut causes);
        if let Some(cause) = causes.pop() {
            return Err(invalid(cause));
        }
        Ok(Options {
            grace: object::integer(options, &["gracePeriodSeconds"]),
            uid: text(&["preconditions", "uid"]),
            version: text(&["preconditions", "resourceVersion"]),
            propagation: given.or_else(|| orphan.map(|orphan| orphaning(&orphan.to_string()))),
            dry,
        })
    }
}

impl Options {
    /// The options as an object, for those who are asked about the deletion.
    fn to_object(&self) -> Value {
        let mut object = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(seconds) = self.grace {
            object["gracePeriodSeconds"] = seconds.into();
        }
        for (key, asked) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(asked) = asked {
                object["preconditions"][key] = asked.as_str().into();
            }
        }
        if let Some(propagation) = self.propagation {
            object["propagationPolicy"] = propagation.name().into();
        }
        if self.dry {
            object["dryRun"] = json!(["All"]);
        }
        object
    }

    /// Checks that an object of this group and kind is the one that the request expects.
    pub(crate) fn check(&self, current: &Value, (group, kind): (&str, &str)) -> Result<(), Status> {
        let (uid, version) = (object::uid(current), object::resource_version(current));
        let name = object::name(current);
        let fail = |why: String| Err(Status::conflict(group, kind, name, &why));
        match (&self.uid, &self.version) {
            (Some(asked), _) if asked != uid => fail(format!(
                "the UID in the precondition ({asked}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            )),
            (_, Some(asked)) if asked != version => fail(format!(
                "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            )),
            _ => Ok(()),
        }
    }
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
    }
}

/// Parses `propagationPolicy`.
pub(crate) fn propagation(text: Option<&str>) -> Result<Option<Propagation>, Status> {
    Ok(match text {
        None | Some("") => None,
        Some("Orphan") => Some(Propagation::Orphan),
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some(other) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            let cause = Cause::not_supported("propagationPolicy", &other.into(), &known);
            return Err(invalid(cause));
        }
    })
}

/// Parses `orphanDependents`, the older form.
pub(crate) fn orphaning(text: &str) -> Propagation {
    match text {
        "false" | "0" => Propagation::Background,
        _ => Propagation::Orphan,
    }
}

fn invalid(cause: Cause) -> Status {
    Status::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause])
}

impl Writer<'_> {
    /// Deletes one object, or marks it for deletion.
    pub(crate) async fn delete(&self, name: &str, options: Options) -> Result<Edited, Status> {
        self.end(name, options, false).await
    }

    /// The same after admission in another form, such as an eviction.
    pub(crate) async fn delete_admitted(
        &self,
        name: &str,
        options: Options,
    ) -> Result<Edited, Status> {
        self.end(name, options, true).await
    }

    async fn end(&self, name: &str, options: Options, admitted: bool) -> Result<Edited, Status> {
        let storage = self.resource.stored()?;
        let key = storage.key(self.namespace, name);
        let dry = self.dry || options.dry;
        let mut deletion = Deletion {
            writer: self,
            admitted,
            dry,
            resource: &self.resource,
            name,
            options,
        };
        let edited = self
            .registry
            .edit(storage, &key, dry, &mut deletion)
            .await?;
        self.settle(edited.entry_ref().revision).await;
        if let Edited::Deleted(decoded) = &edited
            && !dry
        {
            let (registry, old) = (self.registry, &decoded.object);
            let at = decoded.revision;
            allocate::replaced(registry, &self.resource, at, old, &Value::Null).await;
        }
        Ok(match edited {
            Edited::Deleted(decoded) => Edited::Deleted(decoded.shown(storage)),
            edited => edited,
        })
    }
}

/// One deletion of one object.
struct Deletion<'a> {
    writer: &'a Writer<'a>,
    admitted: bool,
    dry: bool,
    resource: &'a Resource,
    name: &'a str,
    options: Options,
}

impl Edit for Deletion<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        Box::pin(async move {
            let Some(current) = current else {
                return Err(self.resource.not_found(self.name));
            };
            if !self.admitted {
                // A webhook that converts is called only if somebody looks at the object: namespaces
                // and owners go while it is broken.
                let chain = &self.writer.registry.admission;
                let looks = || chain.looks_at_objects(self.writer.user);
                let old = if self.resource.converted().is_none() || looks() {
                    views::of_decoded(self.resource, current).await?
                } else {
                    Arc::clone(&current.object)
                };
                let options = self.options.to_object();
                let admission = Attributes {
                    dry: self.dry,
                    options: &options,
                    ..self.writer.admission(DELETE, "", self.name, Some(&old))
                };
                chain.admit(&admission, &mut Value::Null).await?;
            }
            self.decide(&current.object, clock::now())
        })
    }
}

/// The effect of a pod's grace period.
enum Grace {
    /// No grace period: delete the pod, or mark it if it has finalizers.
    None,
    /// The pod is already marked, and this deletion changes nothing.
    Pending,
    /// The pod is marked; the grace period has this many seconds.
    Marked(i64),
}

impl Deletion<'_> {
    /// Decides about one state; a pure function.
    fn decide(&self, current: &Value, now: Timestamp) -> Result<Step, Status> {
        self.preconditions(current)?;
        let mut object = current.clone();
        let grace = match strategy::of(self.resource).deletion {
            strategy::Deletion::AfterContent => return Ok(self.after_content(object, now)),
            strategy::Deletion::Gracefully => self.grace(&mut object, now),
            strategy::Deletion::AfterInstances if !object::is_deleting(&object) => {
                definition::begin_deletion(&mut object, now);
                return Ok(Step::Put(object));
            }
            strategy::Deletion::AtOnce | strategy::Deletion::AfterInstances => Grace::None,
        };
        if let Grace::Pending = grace {
            return Ok(Step::Keep);
        }
        self.set_finalizers(&mut object);
        let held = object::finalizers(&object).next().is_some();
        Ok(match grace {
            Grace::Marked(seconds) if seconds > 0 || held => Step::Put(object),
            Grace::None if held => {
                mark(&mut object, now);
                Step::Put(object)
            }
            _ => Step::Delete(object),
        })
    }

    fn preconditions(&self, current: &Value) -> Result<(), Status> {
        if strategy::of(self.resource).deletion == strategy::Deletion::AfterContent {
            let (uid, version) = (object::uid(current), object::resource_version(current));
            return self.preconditions_of_store(uid, version);
        }
        // The store names the kind in its own version.
        let storage = self.resource.storage.as_ref();
        let kind = storage.map_or(&self.resource.kind, |storage| &storage.kind);
        self.options.check(current, (kind.group(), kind.kind()))
    }

    /// The same for kinds that check before they ask the store.
    fn preconditions_of_store(&self, uid: &str, version: &str) -> Result<(), Status> {
        let kind = &self.resource.kind;
        for (what, asked, has) in [
            ("UID", &self.options.uid, uid),
            ("ResourceVersion", &self.options.version, version),
        ] {
            if let Some(asked) = asked.as_ref().filter(|asked| *asked != has) {
                let why = precondition(what, asked, has);
                let (group, plural) = (kind.group(), kind.plural());
                return Err(Status::conflict(group, plural, self.name, &why));
            }
        }
        Ok(())
    }

    /// A namespace is deleted after its content. The finalizers of its spec stand for the content.
    fn after_content(&self, mut object: Value, now: Timestamp) -> Step {
        let content = !object::items(&object, &["spec", "finalizers"]).is_empty();
        let already = object::is_deleting(&object);
        self.set_finalizers(&mut object);
        let held = content || object::finalizers(&object).next().is_some();
        if !held {
            return Step::Delete(object);
        }
        if already {
            return Step::Keep;
        }
        let metadata = metadata_mut(&mut object);
        metadata.insert("deletionTimestamp".into(), now.to_seconds().into());
        object::set(&mut object, &["status", "phase"], "Terminating".into());
        Step::Put(object)
    }

    fn grace(&self, pod: &mut Value, now: Timestamp) -> Grace {
        let asked = self
            .options
            .grace
            .map(|seconds| if seconds < 0 { 1 } else { seconds });
        if object::is_deleting(pod) {
            return self.shorten(pod, asked, now);
        }
        let own = object::integer(pod, &["spec", "terminationGracePeriodSeconds"]);
        let phase = object::text(pod, &["status", "phase"]);
        let unbound = object::text(pod, &["spec", "nodeName"]).is_empty();
        let seconds = if unbound || phase == "Failed" || phase == "Succeeded" {
            0
        } else {
            asked.or(own).unwrap_or(0)
        };
        let seconds = if seconds < 0 { 1 } else { seconds };
        let at = now.plus(Duration::from_secs(seconds.unsigned_abs()));
        let generation = object::generation(pod);
        let metadata = metadata_mut(pod);
        metadata.insert("deletionTimestamp".into(), at.to_seconds().into());
        metadata.insert("deletionGracePeriodSeconds".into(), seconds.into());
        if generation > 0 {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        Grace::Marked(seconds)
    }

    /// A second deletion can only shorten the grace period.
    fn shorten(&self, pod: &mut Value, asked: Option<i64>, now: Timestamp) -> Grace {
        let has = object::deletion_grace_seconds(pod).unwrap_or(0);
        if has == 0 {
            return Grace::None;
        }
        let Some(mut asked) = asked.filter(|asked| *asked < has) else {
            return Grace::Pending;
        };
        let end = object::deletion_timestamp(pod)
            .and_then(Timestamp::parse)
            .unwrap_or(now);
        let mut at = Timestamp {
            seconds: end.seconds - has + asked,
            nanos: 0,
        };
        if at.seconds < now.seconds {
            at = now;
            asked = asked.min(1);
        }
        let metadata = metadata_mut(pod);
        metadata.insert("deletionTimestamp".into(), at.to_seconds().into());
        metadata.insert("deletionGracePeriodSeconds".into(), asked.into());
        Grace::Marked(asked)
    }

    /// Sets the finalizers that request the propagation from the garbage collector.
    fn set_finalizers(&self, object: &mut Value) {
        if strategy::of(self.resource).has_no_dependents {
            return;
        }
        let had = |finalizer: &str| object::has_finalizer(object, finalizer);
        let (orphan, foreground) = match self.options.propagation {
            Some(policy) => (
                policy == Propagation::Orphan,
                policy == Propagation::Foreground,
            ),
            None if had(ORPHAN) || had(FOREGROUND) => (had(ORPHAN), had(FOREGROUND)),
            None => (strategy::of(self.resource).orphans_dependents, false),
        };
        let others = object::finalizers(object).filter(|one| ![ORPHAN, FOREGROUND].contains(one));
        let mut finalizers: Vec<Value> = others.map(Value::from).collect();
        if orphan {
            finalizers.push(ORPHAN.into());
        }
        if foreground {
            finalizers.push(FOREGROUND.into());
        }
        if finalizers.is_empty() {
            metadata_mut(object).remove("finalizers")
        } else {
            metadata_mut(object).insert("finalizers".into(), finalizers.into())
        };
    }
}

/// Marks an object that only finalizers keep.
fn mark(object: &mut Value, now: Timestamp) {
    let generation = object::generation(object);
    let metadata = metadata_mut(object);
    if !metadata.contains_key("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), now.to_seconds().into());
        if generation > 0 {
            metadata.insert("generation".into(), (generation + 1).into());
        }
    }
    metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
}
