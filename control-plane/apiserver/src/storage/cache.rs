//! The watch cache of one collection: its objects as last heard of, and the changes that led there.
//!
//! The reflector alone writes. Watchers hold a cursor into a ring of changes and fetch what they
//! have not seen: none of them is ever waited for, and one that falls behind the ring is told so.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use machinery::status::Status;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::storage::change::{Change, Missed};
use crate::storage::interest::{Groups, Interest};
use crate::storage::stored::Stored;

/// The changes a collection remembers: a watcher this far behind starts over.
const CHANGES_MAX: usize = 4096;

/// A watcher's place in the changes of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// What a list of a collection has.
#[derive(Default)]
pub(crate) struct Content {
    items: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Keys whose values are no objects, and why.
    unreadable: BTreeMap<Arc<str>, String>,
}

/// What the store says of a key.
pub(crate) struct Heard {
    pub(crate) key: Arc<str>,
    pub(crate) revision: i64,
    /// The new value, or `None` when the key is gone; an error if the value is no object.
    pub(crate) stored: Result<Option<Stored>, Status>,
}

/// One collection.
pub(crate) struct Cache {
    state: RwLock<State>,
    /// What all its keys begin with.
    prefix: Arc<str>,
}

struct State {
    items: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Keys whose newest values are no objects, and why. `items` may have what was there before.
    unreadable: BTreeMap<Arc<str>, String>,
    /// Rising revisions; the last one has number `next - 1`.
    ring: VecDeque<Arc<Change>>,
    next: u64,
    /// Changes after this revision are all in the ring.
    known_after: i64,
    /// Of the last change.
    revision: i64,
    groups: Groups,
    /// Revision of the last list, which has all changes up to it.
    listed: i64,
    /// Changes that came before the first list; `None` once that is there.
    early: Option<Vec<Heard>>,
    closed: bool,
}

impl Cache {
    /// A cache that keeps changes back until its first [`Cache::reset`].
    pub(crate) fn new(prefix: Arc<str>) -> Cache {
        let state = State {
            items: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            ring: VecDeque::new(),
            next: 0,
            known_after: 0,
            revision: 0,
            groups: Groups::default(),
            listed: 0,
            early: Some(Vec::new()),
            closed: false,
        };
        Cache {
            state: RwLock::new(state),
            prefix,
        }
    }

    /// Starts over from everything there is at a revision. Watchers see that they missed changes.
    pub(crate) fn reset(&self, content: Content, revision: i64) {
        let mut state = self.state.write();
        state.items = content.items;
        state.unreadable = content.unreadable;
        state.ring.clear();
        // One number is left out: a cursor of before lies behind the ring, even an up-to-date one.
        state.next += 1;
        state.known_after = revision;
        state.revision = revision;
        state.listed = revision;
        let next = state.next;
        state.groups.reset(next);
        let early = state.early.take().unwrap_or_default();
        state.apply_all(&self.prefix, early);
    }

    /// Takes the changes of one message of the store, all at once. The list of a collection that
    /// joins may be newer than the message.
    pub(crate) fn apply(&self, changes: Vec<Heard>) {
        let mut state = self.state.write();
        if let Some(early) = &mut state.early {
            return early.extend(changes);
        }
        state.apply_all(&self.prefix, changes);
    }

    /// The collection is no longer served: its watchers are told so, and there are no new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        state.groups.wake();
    }

    /// Whether everything below a folder can be shown. A list without what cannot be read would
    /// say that it is not there.
    pub(crate) fn check(&self, folder: &str) -> Result<(), Status> {
        self.state.read().check(folder)
    }

    /// Everything below a folder in the order of keys; an error if part of it cannot be read.
    pub(crate) fn all(&self, folder: &str) -> Result<Vec<Arc<Stored>>, Status> {
        let state = self.state.read();
        state.check(folder)?;
        Ok(state.below(folder))
    }

    /// The object of a key; an error if its newest value cannot be read.
    pub(crate) fn readable(&self, key: &str) -> Result<Option<Arc<Stored>>, Status> {
        let state = self.state.read();
        match state.unreadable.get(key) {
            Some(why) => Err(undecodable(key, why)),
            None => Ok(state.items.get(key).cloned()),
        }
    }

    /// Number of keys whose newest values are no objects.
    pub(crate) fn unreadable(&self) -> usize {
        self.state.read().unreadable.len()
    }

    /// The object of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.state.read().items.get(key).cloned()
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.state.read().items.len()
    }

    /// Everything below a folder in the order of keys, with the place to watch on from and the
    /// revision of the last change.
    pub(crate) fn snapshot(&self, folder: &str) -> (Vec<Arc<Stored>>, Cursor, i64) {
        let state = self.state.read();
        (state.below(folder), Cursor(state.next), state.revision)
    }

    /// The place behind all changes.
    pub(crate) fn end(&self) -> Cursor {
        Cursor(self.state.read().next)
    }

    /// The place right behind a revision.
    pub(crate) fn after(&self, revision: i64) -> Result<Cursor, Missed> {
        let state = self.state.read();
        if revision < state.known_after {
            return Err(Missed::TooOld);
        }
        let newer = state
            .ring
            .iter()
            .rev()
            .take_while(|change| change.revision > revision);
        Ok(Cursor(state.next - newer.count() as u64))
    }

    /// At most so many changes from a place on, which moves behind them.
    pub(crate) fn changes(
        &self,
        cursor: &mut Cursor,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, Missed> {
        let state = self.state.read();
        let behind = state.next.saturating_sub(cursor.0);
        if behind > state.ring.len() as u64 {
            return Err(Missed::TooOld);
        }
        let first = state.ring.len() - behind as usize;
        let found: Vec<_> = state.ring.iter().skip(first).take(most).cloned().collect();
        cursor.0 += found.len() as u64;
        Ok(found)
    }

    /// How many watch it.
    pub(crate) fn watchers(&self) -> usize {
        self.state.read().groups.watchers()
    }

    /// Adds a watcher of a part from a place on. What it gets wakes when there are more changes
    /// in that part. The watcher must [`Cache::leave`].
    pub(crate) fn join(
        &self,
        interest: &Interest,
        cursor: Cursor,
    ) -> Result<watch::Receiver<u64>, Missed> {
        let mut state = self.state.write();
        state.check_open()?;
        let State {
            ring, next, groups, ..
        } = &mut *state;
        let first = *next - ring.len() as u64;
        if cursor.0 < first {
            return Err(Missed::TooOld);
        }
        let seen = (cursor.0 - first) as usize;
        let unseen = ring.iter().skip(seen).map(|change| &**change);
        Ok(groups.join(interest, cursor.0, *next, (cursor.0..).zip(unseen)))
    }

    /// Takes a watcher of a part away.
    pub(crate) fn leave(&self, interest: &Interest) {
        self.state.write().groups.leave(interest);
    }

    /// At most so many changes of a part from a place on, which moves behind them.
    pub(crate) fn changes_of(
        &self,
        interest: &Interest,
        cursor: &mut Cursor,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, Missed> {
        let state = self.state.read();
        state.check_open()?;
        let first = state.next - state.ring.len() as u64;
        let numbers = state.groups.numbers(interest, cursor.0, first)?;
        let mut found = Vec::new();
        for number in numbers.take(most) {
            found.push(Arc::clone(&state.ring[(number - first) as usize]));
            cursor.0 = number + 1;
        }
        if found.len() < most {
            cursor.0 = state.next;
        }
        Ok(found)
    }
}

impl Content {
    /// Number of keys whose values are no objects.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable.len()
    }

    /// Adds the value of a key.
    pub(crate) fn insert(&mut self, key: &str, stored: Result<Stored, Status>) {
        match stored {
            Ok(stored) => drop(self.items.insert(Arc::clone(&stored.key), Arc::new(stored))),
            Err(error) => drop(self.unreadable.insert(key.into(), error.message)),
        }
    }
}

fn undecodable(key: &str, why: &str) -> Status {
    Status::internal(&format!("unable to decode {key}: {why}"))
}

impl State {
    fn check(&self, folder: &str) -> Result<(), Status> {
        let behind = (Bound::Included(folder), Bound::Unbounded);
        match self.unreadable.range::<str, _>(behind).next() {
            Some((key, why)) if key.starts_with(folder) => Err(undecodable(key, why)),
            _ => Ok(()),
        }
    }

    fn below(&self, folder: &str) -> Vec<Arc<Stored>> {
        let behind = (Bound::Included(folder), Bound::Unbounded);
        let all = self.items.range::<str, _>(behind);
        let below = all.take_while(|(key, _)| key.starts_with(folder));
        below.map(|(_, stored)| Arc::clone(stored)).collect()
    }

    fn check_open(&self) -> Result<(), Missed> {
        if self.closed {
            return Err(Missed::Closed);
        }
        Ok(())
    }

    /// Applies what is not in the list already: an older state must not take the place of a newer
    /// one, not even for a moment.
    fn apply_all(&mut self, prefix: &str, changes: Vec<Heard>) {
        let listed = self.listed;
        for heard in changes.into_iter().filter(|one| one.revision > listed) {
            self.apply(prefix, heard);
        }
    }

    fn apply(&mut self, prefix: &str, heard: Heard) {
        let Heard {
            key,
            revision,
            stored,
        } = heard;
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // That the object is gone is not said: things would be deleted on its account.
                self.unreadable.insert(key, error.message);
                return;
            }
        };
        self.unreadable.remove(&key);
        let change = match stored {
            Some(stored) => {
                let stored = Arc::new(stored);
                let before = self.items.insert(key, Arc::clone(&stored));
                Change::put(stored, before)
            }
            None => match self.items.remove(&*key) {
                Some(before) => Change::delete(before, revision),
                None => return,
            },
        };
        if self.ring.len() == CHANGES_MAX
            && let Some(oldest) = self.ring.pop_front()
        {
            self.known_after = oldest.revision;
        }
        let first = self.next - self.ring.len() as u64;
        self.groups.note(self.next, &change, prefix, first);
        self.ring.push_back(Arc::new(change));
        self.next += 1;
        self.revision = revision;
    }
}
