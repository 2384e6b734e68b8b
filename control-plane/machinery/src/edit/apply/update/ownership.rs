//! What a write takes from other managers, and where it conflicts with them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Unconverted, Write};
use crate::edit::apply::Error;
use crate::edit::apply::compare::{Comparison, compare};
use crate::edit::apply::conflicts::Conflicts;
use crate::edit::apply::fields::Set;
use crate::edit::apply::managers::{Manager, Managers};
use crate::edit::apply::prune::reconciled;

/// What a write takes from the managers of one version. It is the same for all of them, who may be
/// thousands.
struct Taken {
    changed: Set,
    removed: Set,
}

impl Taken {
    fn of(found: Comparison) -> Taken {
        Taken {
            changed: found.modified.union(&found.added),
            removed: found.removed,
        }
    }
}

impl Write<'_> {
    /// Adapts all sets to types in which more is owned as a whole than before. Managers of versions
    /// that are not known any more are dropped.
    pub(super) fn reconcile(&self, live: &Value, managers: &mut Managers) -> Result<(), Error> {
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
    pub(super) fn filter(&self, version: &str, set: &Set) -> Set {
        if self.versions.resets(version) {
            self.reset.filtered(set)
        } else {
            set.clone()
        }
    }

    /// Takes from the other managers what a write changes or removes; `workflow` is the manager
    /// that keeps what it has. Without force, a change of what another one owns is a conflict. If
    /// it fails, the managers are of no use any more.
    pub(super) fn arbitrate(
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
        let of_own = Taken::of(found.clone());
        let mut by_version = BTreeMap::from([(self.api_version.to_owned(), of_own)]);
        let mut conflicts = Conflicts::default();
        for (manager, mut owned) in std::mem::take(&mut managers.0) {
            if Some(&manager) == workflow {
                managers.0.insert(manager, owned);
                continue;
            }
            let version = &owned.api_version;
            if !by_version.contains_key(version) {
                let Some(found) = self.compare_in(version, old, new)? else {
                    // Nobody can tell what the names of its fields mean.
                    continue;
                };
                by_version.insert(version.clone(), Taken::of(found));
            }
            let taken = &by_version[version];
            let lost = owned.set.intersection(&taken.changed);
            owned.set = owned.set.difference(&lost).difference(&taken.removed);
            if !force {
                conflicts.add(&manager, lost);
            }
            managers.0.insert(manager, owned);
        }
        if !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
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
}
