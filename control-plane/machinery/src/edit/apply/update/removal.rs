//! Removes the fields that a manager applied before and does not name any more.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{Unconverted, Write};
use crate::edit::apply::Error;
use crate::edit::apply::check::Misfits;
use crate::edit::apply::fields::Set;
use crate::edit::apply::managers::{Managers, Owned};
use crate::edit::apply::prune::{fields_of, fields_with_nulls, remove, with_structs};
use crate::edit::apply::typing::Typing;

impl Write<'_> {
    /// Removes what the manager owned before and does not name any more, unless somebody else owns
    /// it.
    pub(super) fn prune(
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
        let rest = with_structs(&fields_in_version(typing, pruned)?, Some(typing));
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
            let rest = structs(&fields_in_version(typing, pruned_then)?);
            let all = structs(&fields_of(typing, &then)?);
            let gone = all.difference(&rest.union(&structs(&owned)));
            pruned = remove(typing, &then, &gone);
            merged = Cow::Owned(then);
        }
        Ok(pruned)
    }
}

/// The fields of an object that [`Write::in_version`] gave.
fn fields_in_version(typing: &dyn Typing, object: Cow<'_, Value>) -> Result<Set, Misfits> {
    match object {
        Cow::Borrowed(same) => fields_of(typing, same),
        Cow::Owned(converted) => fields_with_nulls(typing, &converted),
    }
}
