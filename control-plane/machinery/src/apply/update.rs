//! Who owns what after a write, and what an applied configuration makes of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use super::check::{Misfits, check};
use super::compare::{Comparison, compare};
use super::fields::{Path, Set};
use super::managers::{Manager, Managers, Operation, Owned, is_reset};
use super::merge::merge;
use super::prune::{fields_of, reconciled, remove, with_structs};
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

/// A field of an applied configuration that another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: Manager,
    /// The field.
    pub path: Path,
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
        super::last_applied::apply(self, live, config, &managers, force)
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
    pub(super) fn attempt(
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

    /// Adapts all sets to types in which more is owned as a whole than before. Managers of versions
    /// that are not known any more are dropped.
    fn reconcile(&self, live: &Value, managers: &mut Managers) -> Result<(), Error> {
        let mut known = BTreeMap::new();
        for owned in managers.0.values() {
            let version = &owned.api_version;
            if known.contains_key(version) {
                continue;
            }
            let is_known = match self.in_version(live, version) {
                Ok(_) => true,
                Err(Unconverted::Unknown) => false,
                Err(Unconverted::Failed(why)) => return Err(Error::Failed(why)),
            };
            known.insert(version.clone(), is_known);
        }
        managers.0.retain(|_, owned| {
            let typing = self.versions.typing(&owned.api_version);
            let Some(typing) = typing.filter(|_| known[&owned.api_version]) else {
                return false;
            };
            if let Some(set) = reconciled(&owned.set, typing) {
                owned.set = set;
            }
            true
        });
        Ok(())
    }

    /// A set of this version without what the write cannot change.
    fn filter(&self, version: &str, set: &Set) -> Set {
        if self.versions.resets(version) {
            self.reset.filtered(set)
        } else {
            set.clone()
        }
    }

    /// Takes from the other managers what a write changes or removes; `workflow` is the manager
    /// that keeps what it has. Without force, a change of what another one owns is a conflict.
    fn arbitrate(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        workflow: Option<&Manager>,
        force: bool,
    ) -> Result<Comparison, Error> {
        let found = compare(self.typing()?, old, new)
            .map_err(|why| Error::Failed(format!("failed to compare objects: {why}")))?
            .filtered(|set| self.filter(self.api_version, set));
        let mut by_version = BTreeMap::from([(self.api_version.to_owned(), found.clone())]);
        let mut conflicts = Vec::new();
        let mut kept = BTreeMap::new();
        for (manager, owned) in &managers.0 {
            if Some(manager) == workflow {
                kept.insert(manager.clone(), owned.clone());
                continue;
            }
            let version = &owned.api_version;
            if !by_version.contains_key(version) {
                let Some(found) = self.compare_in(version, old, new)? else {
                    // Nobody can tell what the names of its fields mean.
                    continue;
                };
                by_version.insert(version.clone(), found);
            }
            let found = &by_version[version];
            let changed = found.modified.clone().union(&found.added);
            let lost = owned.set.intersection(&changed);
            conflicts.extend(lost.paths().into_iter().map(|path| Conflict {
                manager: manager.clone(),
                path,
            }));
            let mut owned = owned.clone();
            owned.set = owned.set.difference(&lost).difference(&found.removed);
            kept.insert(manager.clone(), owned);
        }
        if !force && !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
        managers.0 = kept;
        managers.drop_empty();
        Ok(found)
    }

    /// Compares the objects in a version; `None` if it is not known any more.
    fn compare_in(
        &self,
        version: &str,
        old: &Value,
        new: &Value,
    ) -> Result<Option<Comparison>, Error> {
        let (old, new) = match (self.in_version(old, version), self.in_version(new, version)) {
            (Err(Unconverted::Unknown), _) | (Ok(_), Err(Unconverted::Unknown)) => return Ok(None),
            (Err(why), _) => return Err(why.within("failed to convert old object")),
            (_, Err(why)) => return Err(why.within("failed to convert new object")),
            (Ok(old), Ok(new)) => (old, new),
        };
        let Some(typing) = self.versions.typing(version) else {
            return Ok(None);
        };
        let found = compare(typing, &old, &new)
            .map_err(|why| Error::Failed(format!("failed to compare objects: {why}")))?;
        Ok(Some(found.filtered(|set| self.filter(version, set))))
    }

    /// Removes what the manager owned before and does not name any more, unless somebody else owns
    /// it.
    fn prune(
        &self,
        merged: Value,
        managers: &Managers,
        before: Option<&Owned>,
    ) -> Result<Value, Error> {
        let Some(before) = before.filter(|before| !before.set.is_empty()) else {
            return Ok(merged);
        };
        let version = before.api_version.as_str();
        let (typing, then) = match (
            self.versions.typing(version),
            self.in_version(&merged, version),
        ) {
            (None, _) | (_, Err(Unconverted::Unknown)) => return Ok(merged),
            (_, Err(why)) => {
                let what = "failed to prune fields: \
                            failed to convert merged object to last applied version";
                return Err(why.within(what));
            }
            (Some(typing), Ok(then)) => (typing, then),
        };
        let last = with_structs(&before.set, Some(typing));
        let pruned = remove(typing, &then, &last);
        let pruned = self.with_owned(then.clone(), pruned, version, managers)?;
        // Only what the manager owned goes, not what is below it.
        let what = "failed to prune fields: failed add back dangling items: \
                    failed to convert pruned object to last applied version";
        let pruned = self.in_version(&pruned, version);
        let pruned = pruned.map_err(|why| why.within(what))?;
        let rest = with_structs(&fields_of(typing, &pruned)?, Some(typing));
        let all = with_structs(&fields_of(typing, &then)?, Some(typing));
        let gone = all.difference(&rest).intersection(&last);
        let pruned = remove(typing, &then, &gone);
        let pruned = self.in_version(&pruned, self.api_version);
        let pruned = pruned.map_err(|why| why.within("failed to prune fields"))?;
        Ok(pruned.into_owned())
    }

    /// Adds what any manager owns back to a pruned object, version by version.
    fn with_owned<'a>(
        &self,
        mut merged: Cow<'a, Value>,
        mut pruned: Value,
        first: &str,
        managers: &Managers,
    ) -> Result<Value, Error> {
        let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
        for owned in managers.0.values() {
            let set = by_version.remove(owned.api_version.as_str());
            let set = set.unwrap_or_default().union(&owned.set);
            by_version.insert(&owned.api_version, set);
        }
        // A conversion may need what the first version has.
        let of_first = by_version.remove_entry(first);
        for (version, owned) in of_first.into_iter().chain(by_version) {
            let Some(typing) = self.versions.typing(version) else {
                continue;
            };
            let about = |which: &str, why: Unconverted| {
                why.within(&format!(
                    "failed to prune fields: failed add back owned items: \
                     failed to convert {which} object at version {version}"
                ))
            };
            let then = self.in_version(&merged, version);
            let then = then.map_err(|why| about("merged", why))?.into_owned();
            let pruned_then = self.in_version(&pruned, version);
            let pruned_then = pruned_then.map_err(|why| about("pruned", why))?;
            let structs = |set: &Set| with_structs(set, Some(typing));
            let rest = structs(&fields_of(typing, &pruned_then)?);
            let all = structs(&fields_of(typing, &then)?);
            let gone = all.difference(&rest.union(&structs(&owned)));
            pruned = remove(typing, &then, &gone);
            merged = Cow::Owned(then);
        }
        Ok(pruned)
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
