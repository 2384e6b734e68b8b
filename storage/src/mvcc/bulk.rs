//! Applies many log entries at once if each is a single put: most of what a start after a crash
//! replays. The key tree is changed in key order, so that leaves are in the processor's cache when
//! several puts fall into one. History grows in log order. Where pages are missing, as after a start
//! with nothing in the page cache, the disk looks for the leaves of many keys at once.
//!
//! Changes that go into a delta tree do so without a step of a merge: a start must be short, and
//! the puts after it merge what waits.

use super::key::Stamp;
use super::keys::Heads;
use super::store::SPILL_BYTES_PER_STEP;
use super::write::{lease_of, put_stamp};
use super::{Applied, Revision, Root, Store, SyncJob};
use crate::Result;

/// Keys that the disk looks for at the same time. Whether pages are missing shows after a few of them.
const KEYS_ANNOUNCED: usize = 256;

/// A log entry that is one put: it gets its own main revision.
#[derive(Clone, Copy, Debug)]
pub struct LonePut<'a> {
    pub applied: Applied,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// 0 for no lease.
    pub lease: i64,
}

impl Store {
    /// Applies entries in log order. The result is that of one [`Write::put`](super::Write::put)
    /// each; their history is spilled, too. `found` is what a view found for these puts. After an
    /// error the store must not be used. Returns the job of [`Store::spill`].
    pub fn put_all(
        &mut self,
        puts: &[LonePut<'_>],
        found: Option<Found>,
    ) -> Result<Option<SyncJob>> {
        let Some(last) = puts.last() else {
            return Ok(None);
        };
        let in_order = |pair: &[LonePut<'_>]| pair[0].applied.index < pair[1].applied.index;
        assert!(self.root.applied.index < puts[0].applied.index && puts.windows(2).all(in_order));
        self.touch();
        let first = self.root.revision + 1;
        let stamps = if self.looks_for_keys() {
            let found = found.filter(|found| self.is_usable(found, puts));
            let found = found.map_or_else(|| self.root.find_for(puts), Ok)?;
            self.put_in_delta(puts, first, found)?
        } else {
            self.put_each(puts, first)?
        };
        let (mut sync, mut unspilled) = (None, 0);
        for (i, (put, stamp)) in puts.iter().zip(stamps).enumerate() {
            self.push_row(put.key, put.value, revision_of(first, i), stamp)?;
            unspilled += put.key.len() + put.value.len();
            if unspilled >= SPILL_BYTES_PER_STEP {
                unspilled = 0;
                sync = self.spill()?.or(sync);
            }
        }
        self.root.revision = revision_of(first, puts.len() - 1).main;
        self.root.applied = last.applied;
        Ok(sync)
    }

    /// Puts versions from the main revision `first` on into the trees of keys, each where it belongs;
    /// returns their stamps.
    fn put_each(&mut self, puts: &[LonePut<'_>], first: i64) -> Result<Vec<Stamp>> {
        let mut stamps = vec![Stamp::default(); puts.len()];
        let order: Vec<usize> = by_key(puts).collect();
        for (done, &i) in order.iter().enumerate() {
            if done.is_multiple_of(KEYS_ANNOUNCED) {
                self.root.announce_next(puts, &order[done..]);
            }
            let put = &puts[i];
            let (stamp, old_lease) =
                self.push_put(put.key, put.value, revision_of(first, i), put.lease)?;
            stamps[i] = stamp;
            self.move_lease(put.key, old_lease, put.lease)?;
        }
        Ok(stamps)
    }

    /// The same, all into the open delta tree.
    fn put_in_delta(
        &mut self,
        puts: &[LonePut<'_>],
        first: i64,
        found: Found,
    ) -> Result<Vec<Stamp>> {
        let mut stamps = vec![Stamp::default(); puts.len()];
        for (i, older) in found.order.into_iter().zip(found.newest) {
            let (put, revision) = (&puts[i], revision_of(first, i));
            self.note_key(put.key);
            let make = |old| put_stamp(old, put.value, revision, put.lease);
            let (stamp, old) = self.push_delta_after(put.key, revision, older, make)?;
            self.move_lease(put.key, lease_of(old), put.lease)?;
            stamps[i] = stamp;
        }
        Ok(stamps)
    }

    /// True if [`Root::find_for`] helps [`Store::put_all`] now: it would have to look itself.
    pub fn looks_for_keys(&self) -> bool {
        !self.is_direct() && !self.root.is_deleting()
    }

    /// Whether all changes since the view are in the tree that is open now, and was open then.
    pub(super) fn is_usable(&self, found: &Found, puts: &[LonePut<'_>]) -> bool {
        found.era == self.root.keys.era() && found.order.len() == puts.len()
    }
}

/// What a state of the store knows of the keys of puts. The puts themselves may be applied to a
/// later state.
#[derive(Debug)]
pub struct Found {
    /// The puts by key; those of the same key in log order.
    order: Vec<usize>,
    /// For each of these the newest version of its key.
    newest: Vec<Option<Stamp>>,
    /// See [`KeyTrees::era`](super::keys::KeyTrees::era).
    era: u64,
}

impl Root {
    /// Looks for the keys of `puts`, which may be applied later; on any thread.
    pub fn find_for(&self, puts: &[LonePut<'_>]) -> Result<Found> {
        let order: Vec<usize> = by_key(puts).collect();
        let mut newest = Vec::with_capacity(puts.len());
        let mut heads = Heads::new(self);
        let mut announced = 0;
        for same in order.chunk_by(|a, b| puts[*a].key == puts[*b].key) {
            if newest.len() >= announced {
                announced = newest.len() + KEYS_ANNOUNCED;
                self.announce_next(puts, &order[newest.len()..]);
            }
            let stamp = heads.stamp(puts[same[0]].key)?;
            newest.resize(newest.len() + same.len(), stamp);
        }
        Ok(Found {
            order,
            newest,
            era: self.keys.era(),
        })
    }

    /// Before the next of `puts`, by key, are looked for one after the other: the disk looks for all of
    /// them together.
    fn announce_next(&self, puts: &[LonePut<'_>], next: &[usize]) {
        let next = next.iter().take(KEYS_ANNOUNCED);
        self.announce_ascending(next.map(|i| puts[*i].key));
    }
}

/// Of put number `i`, if the first one has main revision `first`.
fn revision_of(first: i64, i: usize) -> Revision {
    Revision {
        main: first + i as i64,
        sub: 0,
    }
}

/// Puts of the same key stay in log order.
fn by_key(puts: &[LonePut<'_>]) -> impl Iterator<Item = usize> {
    // Most comparisons end in the first bytes in which keys differ, which are adjacent here.
    let common = common_len(puts);
    let first_bytes = puts.iter().map(|put| prefix(&put.key[common..]));
    let mut order: Vec<(u64, usize)> = first_bytes.zip(0..).collect();
    order.sort_unstable_by(|a, b| {
        let rest = || (puts[a.1].key, a.1).cmp(&(puts[b.1].key, b.1));
        a.0.cmp(&b.0).then_with(rest)
    });
    order.into_iter().map(|(_, i)| i)
}

/// Length of what all keys begin with.
fn common_len(puts: &[LonePut<'_>]) -> usize {
    let Some((first, rest)) = puts.split_first() else {
        return 0;
    };
    rest.iter().fold(first.key.len(), |len, put| {
        let both = first.key[..len].iter().zip(put.key);
        both.take_while(|(a, b)| a == b).count()
    })
}

/// Orders keys by their first bytes, as far as these differ.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_ordered_by_key_whatever_their_keys_begin_with() {
        let applied = Applied { index: 1, term: 1 };
        let put = |key| LonePut {
            applied,
            key,
            value: b"",
            lease: 0,
        };
        let keys: [&[u8]; 8] = [
            b"/a/2",
            b"/a/1/longer than eight bytes",
            b"/a/",
            b"/a/1/longer than any",
            b"/a/2",
            b"/a/\0\0",
            b"/a/1",
            b"/a/\0",
        ];
        for others in [&[b"/b".as_slice()][..], &[b""], &[]] {
            let puts: Vec<LonePut<'_>> = keys.iter().chain(others).map(|key| put(*key)).collect();
            let mut expected: Vec<usize> = (0..puts.len()).collect();
            expected.sort_by_key(|i| (puts[*i].key, *i));
            assert_eq!(by_key(&puts).collect::<Vec<_>>(), expected);
        }
        assert_eq!(by_key(&[]).count(), 0);
    }
}
