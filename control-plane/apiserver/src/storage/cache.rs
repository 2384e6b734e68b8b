//! The last known objects of one collection, and the changes that led there.
//!
//! Only the feed writes. Watchers hold a cursor into a ring of changes and fetch what they have not
//! seen. No watcher is ever waited for; one that falls behind the ring gets [`TooOld`].

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::status::Status;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::storage::interest::{Groups, Interest};
use crate::storage::stored::Stored;

/// Number of changes that a collection remembers. A watcher further behind starts over.
const CHANGES_MAX: usize = 4096;

/// One change of one object.
pub(crate) struct Change {
    pub(crate) revision: i64,
    /// The object after the change. After a deletion: its last state, at the revision of the
    /// deletion.
    pub(crate) entry: Arc<Stored>,
    /// The object before the change.
    pub(crate) before: Option<Arc<Stored>>,
    pub(crate) deleted: bool,
    /// One event for each encoding of watches.
    frames: [OnceLock<Bytes>; 2],
}

impl Change {
    pub(crate) fn put(entry: Arc<Stored>, before: Option<Arc<Stored>>) -> Change {
        let revision = entry.revision;
        Change {
            revision,
            entry,
            before,
            deleted: false,
            frames: Default::default(),
        }
    }

    pub(crate) fn delete(before: Arc<Stored>, revision: i64) -> Change {
        // An object with this revision was encoded before, so it can be encoded again. If that
        // fails, watchers get the old revision: a deletion must not be lost.
        let entry = before.at(revision).map_or_else(
            |error| {
                tracing::error!(key = %before.key, %error, "a deleted object keeps its revision");
                Arc::clone(&before)
            },
            Arc::new,
        );
        Change {
            revision,
            entry,
            before: Some(before),
            deleted: true,
            frames: Default::default(),
        }
    }

    /// The event of this change in one encoding; written once for all watchers.
    pub(crate) fn frame(
        &self,
        protobuf: bool,
        write: impl FnOnce(&Change) -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        let place = &self.frames[usize::from(protobuf)];
        if let Some(frame) = place.get() {
            return Ok(frame.clone());
        }
        let frame = write(self)?;
        Ok(place.get_or_init(|| frame).clone())
    }
}

/// A watcher's position among the changes of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// The changes at this position are no longer remembered.
pub(crate) struct TooOld;

/// One collection.
pub(crate) struct Cache {
    state: RwLock<State>,
    /// The prefix of all its keys.
    prefix: &'static str,
}

struct State {
    items: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Keys whose newest values cannot be decoded, and why. `items` may hold the value before.
    unreadable: BTreeMap<Arc<str>, String>,
    /// In order of revisions; the last change has number `next - 1`.
    ring: VecDeque<Arc<Change>>,
    next: u64,
    /// The ring has all changes after this revision.
    known_after: i64,
    /// Revision of the last change.
    revision: i64,
    groups: Groups,
}

impl Cache {
    pub(crate) fn new(prefix: &'static str) -> Cache {
        let state = State {
            items: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            ring: VecDeque::new(),
            next: 0,
            known_after: 0,
            revision: 0,
            groups: Groups::default(),
        };
        Cache {
            state: RwLock::new(state),
            prefix,
        }
    }

    /// Replaces all objects with the state at a revision. Watchers get [`TooOld`].
    pub(crate) fn reset(&self, items: BTreeMap<Arc<str>, Arc<Stored>>, revision: i64) {
        let mut state = self.state.write();
        state.items = items;
        state.unreadable.clear();
        state.ring.clear();
        // One number is skipped, so that every older cursor lies behind the ring, even an
        // up-to-date one.
        state.next += 1;
        state.known_after = revision;
        state.revision = revision;
        let next = state.next;
        state.groups.reset(next);
    }

    /// Applies the changes of one message of the store, all at once.
    pub(crate) fn apply(&self, changes: Vec<(Arc<str>, i64, Option<Stored>)>) {
        let mut state = self.state.write();
        for (key, revision, entry) in changes {
            state.apply(self.prefix, key, revision, entry);
        }
    }

    /// The newest value of a key cannot be decoded. Watchers are not told that the object is gone:
    /// controllers would delete its dependents.
    pub(crate) fn set_unreadable(&self, key: &str, why: &Status) {
        let mut state = self.state.write();
        state.unreadable.insert(key.into(), why.message.clone());
    }

    /// An error if an object below a folder cannot be decoded. A list without it would say that it
    /// does not exist.
    pub(crate) fn check(&self, folder: &str) -> Result<(), Status> {
        let state = self.state.read();
        let mut behind = state
            .unreadable
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded));
        match behind.next() {
            Some((key, why)) if key.starts_with(folder) => {
                Err(Status::internal(&format!("unable to decode {key}: {why}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the object of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.state.read().items.get(key).cloned()
    }

    /// Returns everything below a folder in the order of keys, the cursor to watch from, and the
    /// revision of the last change.
    pub(crate) fn snapshot(&self, folder: &str) -> (Vec<Arc<Stored>>, Cursor, i64) {
        let state = self.state.read();
        let all = state
            .items
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded));
        let below = all.take_while(|(key, _)| key.starts_with(folder));
        let entries = below.map(|(_, entry)| Arc::clone(entry)).collect();
        (entries, Cursor(state.next), state.revision)
    }

    /// The cursor after all changes.
    pub(crate) fn end(&self) -> Cursor {
        Cursor(self.state.read().next)
    }

    /// The cursor right after a revision.
    pub(crate) fn after(&self, revision: i64) -> Result<Cursor, TooOld> {
        let state = self.state.read();
        if revision < state.known_after {
            return Err(TooOld);
        }
        let newer = state
            .ring
            .iter()
            .rev()
            .take_while(|change| change.revision > revision);
        Ok(Cursor(state.next - newer.count() as u64))
    }

    /// Returns up to `most` changes from a cursor, and moves the cursor behind them.
    pub(crate) fn changes(
        &self,
        cursor: &mut Cursor,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let state = self.state.read();
        let behind = state.next.saturating_sub(cursor.0);
        if behind > state.ring.len() as u64 {
            return Err(TooOld);
        }
        let first = state.ring.len() - behind as usize;
        let found: Vec<_> = state.ring.iter().skip(first).take(most).cloned().collect();
        cursor.0 += found.len() as u64;
        Ok(found)
    }

    /// Number of watchers.
    pub(crate) fn watchers(&self) -> usize {
        self.state.read().groups.watchers()
    }

    /// Adds a watcher of a part of the collection, from a cursor on. The receiver wakes when that
    /// part has more changes. The watcher must call [`Cache::leave`].
    pub(crate) fn join(
        &self,
        interest: &Interest,
        cursor: Cursor,
    ) -> Result<watch::Receiver<u64>, TooOld> {
        let mut state = self.state.write();
        let State {
            ring, next, groups, ..
        } = &mut *state;
        let first = *next - ring.len() as u64;
        if cursor.0 < first {
            return Err(TooOld);
        }
        let seen = (cursor.0 - first) as usize;
        let unseen = ring.iter().skip(seen).map(|change| &**change);
        Ok(groups.join(interest, cursor.0, *next, (cursor.0..).zip(unseen)))
    }

    /// Removes a watcher of a part.
    pub(crate) fn leave(&self, interest: &Interest) {
        self.state.write().groups.leave(interest);
    }

    /// Returns up to `most` changes of a part from a cursor, and moves the cursor behind them.
    pub(crate) fn changes_of(
        &self,
        interest: &Interest,
        cursor: &mut Cursor,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let state = self.state.read();
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

impl State {
    fn apply(&mut self, prefix: &str, key: Arc<str>, revision: i64, entry: Option<Stored>) {
        self.unreadable.remove(&key);
        let change = match entry {
            Some(entry) => {
                let entry = Arc::new(entry);
                let before = self.items.insert(key, Arc::clone(&entry));
                Change::put(entry, before)
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
