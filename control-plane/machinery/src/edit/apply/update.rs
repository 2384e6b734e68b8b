//! Who owns what after a write, and what an applied configuration makes of an object.

mod last_applied;
mod ownership;
mod removal;

use std::borrow::Cow;

use serde_json::Value;

use super::Error;
use super::check::{Misfits, check};
use super::fields::Set;
use super::managers::{Manager, Managers, Operation, Owned, is_reset};
use super::merge::merge;
use super::prune::fields_of;
use super::typing::Typing;
use super::value::equal;
use crate::{object, schema};

/// The manager of what was there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Fields that nobody owns.
const UNOWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// The versions of a kind: managers may have written in different ones.
pub trait Versions: Sync {
    /// The type of the kind's objects in a version; `None` if it is not known.
    fn typing(&self, api_version: &str) -> Option<&dyn Typing>;

    /// An object of the request's version without fields, as the decoder of bodies shows it.
    fn empty(&self) -> Value;

    /// The object in another version. It need not fit the type of that version: a field that only
    /// one of them has may still be there, and then the write fails.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted>;

    /// True if [`Write::reset`] names fields of this version, too.
    fn resets(&self, _api_version: &str) -> bool {
        true
    }
}

/// Why there is no object in another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconverted {
    /// The version is not known any more. What its managers own is forgotten.
    Unknown,
    /// The conversion fails, and so does the write.
    Failed(String),
}

/// Fields that a write through one path cannot change.
#[derive(Debug, Clone)]
pub enum Reset {
    /// These fields and what is below them.
    Fields(Set),
    /// All that does not match one of these patterns, as [`Set::matching`] reads them.
    AllBut(&'static [&'static [Option<&'static str>]]),
}

/// One write.
pub struct Write<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The subresource; may be empty.
    pub subresource: &'a str,
    /// What the write cannot change.
    pub reset: &'a Reset,
    /// The name of the manager.
    pub manager: &'a str,
    /// The time, in RFC 3339 in UTC with whole seconds.
    pub now: &'a str,
}

impl Reset {
    /// A reset of the fields at these paths of names.
    pub fn of(paths: &[&[&str]]) -> Reset {
        Reset::Fields(Set::of_names(paths))
    }

    fn filtered(&self, set: &Set) -> Set {
        match self {
            Reset::Fields(fields) => set.without(fields),
            Reset::AllBut(patterns) => set.matching(patterns),
        }
    }
}

impl Unconverted {
    /// The error of a write that needs the object.
    fn within(self, what: &str) -> Error {
        match self {
            Unconverted::Unknown => Error::Failed(format!("{what}: no corresponding type")),
            Unconverted::Failed(why) => Error::Failed(format!("{what}: {why}")),
        }
    }
}

impl Write<'_> {
    /// Writes the managers into `new`, the state that an update makes of `live`. A new object has
    /// an empty live one of its version.
    pub fn update(&self, live: &Value, new: &mut Value) -> Result<(), Error> {
        let managers = self.managers_for(live, new);
        object::remove(new, &["metadata", "managedFields"]);
        // An object without managers stays so, unless it is new.
        if managers.0.is_empty() && !object::uid(live).is_empty() {
            return Ok(());
        }
        let manager = Manager::new(
            self.manager,
            Operation::Update,
            self.api_version,
            self.subresource,
        );
        let managers = self.updated(live, new, managers, manager)?;
        managers.write(new);
        Ok(())
    }

    /// The managers that an update starts from. A client that does not know about managers may
    /// have lost them, so the live ones count then.
    fn managers_for(&self, live: &Value, new: &Value) -> Managers {
        if !self.subresource.is_empty() {
            return Managers::readable(live);
        }
        if is_reset(new) {
            return Managers::default();
        }
        match Managers::of(new) {
            Ok(managers) if !managers.0.is_empty() => managers,
            _ => Managers::readable(live),
        }
    }

    /// The managers after an update.
    fn updated(
        &self,
        live: &Value,
        new: &Value,
        mut managers: Managers,
        manager: Manager,
    ) -> Result<Managers, Error> {
        let typing = self.typing()?;
        check(typing, new, true)?;
        check(typing, live, true)?;
        self.reconcile(live, &mut managers)?;
        let found = self.arbitrate(live, new, &mut managers, None, true)?;
        let set = found.modified.union(&found.added);
        let set = set.difference(&Set::of_names(&UNOWNED));
        if !set.is_empty() {
            let before = managers.0.remove(&manager).map(|owned| owned.set);
            let owned = Owned {
                set: set.union(&before.unwrap_or_default()),
                api_version: self.api_version.to_owned(),
                time: Some(self.now.to_owned()),
            };
            managers.0.insert(manager, owned);
        }
        managers.cap();
        Ok(managers)
    }

    /// Merges a configuration into the live object. The result has its managers.
    pub fn apply(&self, live: &Value, config: &Value, force: bool) -> Result<Value, Error> {
        self.check_config(config)?;
        let managers = Managers::of(live)
            .map_err(|why| Error::Failed(format!("failed to decode managed fields: {why}")))?;
        let managers = self.with_first(live, managers)?;
        last_applied::apply(self, live, config, &managers, force)
    }

    /// Fields of an object that has no managers belong to whoever wrote before the first apply.
    fn with_first(&self, live: &Value, managers: Managers) -> Result<Managers, Error> {
        if !managers.0.is_empty() {
            return Ok(managers);
        }
        let name = BEFORE_FIRST_APPLY;
        let operation = Operation::Update;
        let manager = Manager::new(name, operation, self.api_version, self.subresource);
        self.updated(&self.versions.empty(), live, managers, manager)
            .map_err(|why| {
                let subject = self.subject(live);
                Error::Failed(format!(
                    "failed to create manager for existing fields: \
                     failed to convert new object ({subject}) to smd typed: {why}"
                ))
            })
    }

    fn check_config(&self, config: &Value) -> Result<(), Error> {
        if object::at(config, &["metadata", "managedFields"]).is_some_and(|one| !one.is_null()) {
            let why = "metadata.managedFields must be nil";
            return Err(Error::Refused(why.to_owned()));
        }
        Ok(())
    }

    /// One attempt to apply. The result has its managers.
    fn attempt(
        &self,
        live: &Value,
        config: &Value,
        managers: &Managers,
        force: bool,
    ) -> Result<Value, Error> {
        let typing = self.typing()?;
        check(typing, config, false)
            .map_err(|why| self.about("failed to create typed patch object", config, &why))?;
        check(typing, live, true)
            .map_err(|why| self.about("failed to create typed live object", live, &why))?;
        let operation = Operation::Apply;
        let manager = Manager::new(self.manager, operation, self.api_version, self.subresource);
        // A manager keeps its time when the version that it worked in is not known any more.
        let last = managers.0.get(&manager).and_then(|one| one.time.clone());
        let mut managers = managers.clone();
        self.reconcile(live, &mut managers)?;
        let merged = merge(typing, live, config)
            .map_err(|why| Error::Failed(format!("failed to merge config: {why}")))?;
        let set = fields_of(typing, config)
            .map_err(|why| Error::Failed(format!("failed to get field set: {why}")))?;
        let before = managers.0.get(&manager).cloned();
        let owned = Owned {
            set: self.filter(self.api_version, &set),
            api_version: self.api_version.to_owned(),
            time: last,
        };
        managers.0.insert(manager.clone(), owned);
        let new = self.prune(merged, &managers, before.as_ref())?;
        self.arbitrate(live, &new, &mut managers, Some(&manager), force)?;
        let changed = !equal(live, &new);
        if let Some(owned) = managers.0.get_mut(&manager) {
            owned.set = owned.set.difference(&Set::of_names(&UNOWNED));
            if changed {
                owned.time = Some(self.now.to_owned());
            }
        }
        managers.drop_empty();
        let mut result = if changed { new } else { live.clone() };
        managers.write(&mut result);
        Ok(result)
    }

    fn about(&self, what: &str, object: &Value, why: &Misfits) -> Error {
        Error::Failed(format!("{what} ({}): {why}", self.subject(object)))
    }

    /// The name and the type of an object, as messages show them.
    fn subject(&self, object: &Value) -> String {
        let (namespace, name) = (object::namespace(object), object::name(object));
        let (group, version) = schema::split_api_version(self.api_version);
        let kind = object::kind(object);
        format!("{namespace}/{name}; {group}/{version}, Kind={kind}")
    }

    fn typing(&self) -> Result<&dyn Typing, Error> {
        let typing = self.versions.typing(self.api_version);
        typing.ok_or_else(|| Error::Failed(format!("no type for {}", self.api_version)))
    }

    /// The object in a version. One that is converted must fit its type.
    fn in_version<'a>(
        &self,
        object: &'a Value,
        version: &str,
    ) -> Result<Cow<'a, Value>, Unconverted> {
        if object::api_version(object) == version {
            return Ok(Cow::Borrowed(object));
        }
        let converted = self.versions.convert(object, version)?;
        let typing = self.versions.typing(version).ok_or(Unconverted::Unknown)?;
        let checked = check(typing, &converted, false);
        checked.map_err(|misfits| Unconverted::Failed(misfits.to_string()))?;
        Ok(Cow::Owned(converted))
    }
}
