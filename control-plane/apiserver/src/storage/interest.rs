//! Finds the watchers that a change concerns, without asking each of them.
//!
//! Watchers of the same part of a collection form a group. A group remembers the numbers of the
//! changes that concern it. Its watchers read and wake for those alone. A watcher may fall any
//! distance behind the ring of all changes, as long as no change that concerned it was dropped from
//! the ring.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::sync::watch;

use crate::storage::change::{Change, Missed};

/// The part of a collection that a watcher follows. The watcher may filter further, but never needs
/// more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Interest {
    /// The prefix of the keys: the folder of the collection or of a namespace.
    pub(crate) folder: String,
    /// A selectable field of the stored kind and its required value.
    pub(crate) field: Option<(String, String)>,
}

/// All groups of a collection.
#[derive(Default)]
pub(crate) struct Groups {
    groups: HashMap<Interest, Group>,
    /// Number of groups that select by each field. Only these fields of a change are read.
    fields: BTreeMap<String, usize>,
}

struct Group {
    /// Numbers of the changes that concern the group and that its watchers may still read.
    numbers: VecDeque<u64>,
    /// `numbers` is complete from this number on.
    complete_from: u64,
    /// A watcher whose position is before this number has missed a change.
    missed_before: u64,
    watchers: usize,
    changed: watch::Sender<u64>,
}

impl Interest {
    /// True if a change concerns this part, in its state before or after.
    fn concerns(&self, change: &Change) -> bool {
        let has = |(field, value): &(String, String)| {
            let mut states = [Some(&change.after), change.before.as_ref()]
                .into_iter()
                .flatten();
            states.any(|state| state.field(field) == value.as_str())
        };
        change.after.key.starts_with(&self.folder) && self.field.as_ref().is_none_or(has)
    }
}

impl Groups {
    /// Adds a watcher that has seen everything before `next`. `changes` are all remembered changes
    /// from there on, with their numbers.
    pub(crate) fn join<'a>(
        &mut self,
        interest: &Interest,
        next: u64,
        end: u64,
        changes: impl Iterator<Item = (u64, &'a Change)>,
    ) -> watch::Receiver<u64> {
        let fields = &mut self.fields;
        let group = self.groups.entry(interest.clone()).or_insert_with(|| {
            if let Some((field, _)) = &interest.field {
                *fields.entry(field.clone()).or_default() += 1;
            }
            Group {
                numbers: VecDeque::new(),
                complete_from: end,
                missed_before: 0,
                watchers: 0,
                changed: watch::Sender::new(0),
            }
        });
        if next < group.complete_from {
            let older = changes.filter(|(number, _)| *number < group.complete_from);
            let older: Vec<u64> = older
                .filter(|(_, change)| interest.concerns(change))
                .map(|(number, _)| number)
                .collect();
            for number in older.into_iter().rev() {
                group.numbers.push_front(number);
            }
            group.complete_from = next;
        }
        group.watchers += 1;
        group.changed.subscribe()
    }

    /// Removes a watcher.
    pub(crate) fn leave(&mut self, interest: &Interest) {
        let Some(group) = self.groups.get_mut(interest) else {
            return;
        };
        group.watchers -= 1;
        if group.watchers > 0 {
            return;
        }
        self.groups.remove(interest);
        if let Some((field, _)) = &interest.field
            && let Some(count) = self.fields.get_mut(field)
        {
            *count -= 1;
            if *count == 0 {
                self.fields.remove(field);
            }
        }
    }

    /// Adds a change to the groups it concerns, and forgets numbers before `first`.
    pub(crate) fn note(&mut self, number: u64, change: &Change, prefix: &str, first: u64) {
        if self.groups.is_empty() {
            return;
        }
        let key: &str = &change.after.key;
        let namespace = key.rfind('/').map_or(key, |at| &key[..=at]);
        let mut folders = vec![prefix];
        folders.extend((namespace != prefix).then_some(namespace));
        let mut fields = vec![None];
        for field in self.fields.keys() {
            let value = |state: &crate::storage::stored::Stored| state.field(field).into_owned();
            let after = value(&change.after);
            let before = change.before.as_deref().map(value);
            fields.extend(
                before
                    .filter(|before| *before != after)
                    .map(|before| Some((field.clone(), before))),
            );
            fields.push(Some((field.clone(), after)));
        }
        for folder in folders {
            for field in &fields {
                let interest = Interest {
                    folder: folder.to_owned(),
                    field: field.clone(),
                };
                if let Some(group) = self.groups.get_mut(&interest) {
                    group.forget_before(first);
                    group.numbers.push_back(number);
                    group.changed.send_replace(number + 1);
                }
            }
        }
    }

    /// Tells all watchers that they missed changes.
    pub(crate) fn reset(&mut self, end: u64) {
        for group in self.groups.values_mut() {
            group.numbers.clear();
            group.complete_from = end;
            group.missed_before = end;
            group.changed.send_replace(end);
        }
    }

    /// Wakes all watchers.
    pub(crate) fn wake(&self) {
        for group in self.groups.values() {
            group.changed.send_modify(|_| {});
        }
    }

    /// The numbers from `next` on that concern this part. An error if one of them is before
    /// `first`: that change is no longer remembered.
    pub(crate) fn numbers(
        &self,
        interest: &Interest,
        next: u64,
        first: u64,
    ) -> Result<impl Iterator<Item = u64>, Missed> {
        let group = self.groups.get(interest).ok_or(Missed::TooOld)?;
        if next < group.missed_before {
            return Err(Missed::TooOld);
        }
        let from = group.numbers.partition_point(|number| *number < next);
        let mut numbers = group.numbers.range(from..).copied().peekable();
        if numbers.peek().is_some_and(|number| *number < first) {
            return Err(Missed::TooOld);
        }
        Ok(numbers)
    }

    /// Number of watchers.
    pub(crate) fn watchers(&self) -> usize {
        self.groups.values().map(|group| group.watchers).sum()
    }
}

impl Group {
    fn forget_before(&mut self, first: u64) {
        while let Some(number) = self.numbers.front().copied().filter(|one| *one < first) {
            self.numbers.pop_front();
            self.missed_before = number + 1;
        }
    }
}
