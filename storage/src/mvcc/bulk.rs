//! Applies many log entries at once if each is a single put: most of what a start after a crash
//! replays. The key tree is changed in key order, so that leaves are in the processor's cache when
//! several puts fall into one. History grows in log order.

use super::key::Stamp;
use super::store::SPILL_BYTES_PER_STEP;
use super::{Applied, Revision, Store, SyncJob};
use crate::Result;

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
    /// each; their history is spilled, too. After an error the store must not be used. Returns the
    /// job of [`Store::spill`].
    pub fn put_all(&mut self, puts: &[LonePut<'_>]) -> Result<Option<SyncJob>> {
        let Some(last) = puts.last() else {
            return Ok(None);
        };
        let in_order = |pair: &[LonePut<'_>]| pair[0].applied.index < pair[1].applied.index;
        assert!(self.root.applied.index < puts[0].applied.index && puts.windows(2).all(in_order));
        self.touch();
        let first = self.root.revision + 1;
        let revision_of = |i: usize| Revision {
            main: first + i as i64,
            sub: 0,
        };
        let mut stamps = vec![Stamp::default(); puts.len()];
        for i in by_key(puts) {
            let put = &puts[i];
            let (stamp, old_lease) =
                self.push_put(put.key, put.value, revision_of(i), put.lease)?;
            stamps[i] = stamp;
            self.move_lease(put.key, old_lease, put.lease)?;
        }
        let (mut sync, mut unspilled) = (None, 0);
        for (i, (put, stamp)) in puts.iter().zip(stamps).enumerate() {
            self.push_row(put.key, put.value, revision_of(i), stamp)?;
            unspilled += put.key.len() + put.value.len();
            if unspilled >= SPILL_BYTES_PER_STEP {
                unspilled = 0;
                sync = self.spill()?.or(sync);
            }
        }
        self.root.revision = revision_of(puts.len() - 1).main;
        self.root.applied = last.applied;
        Ok(sync)
    }
}

/// Puts of the same key stay in log order.
fn by_key(puts: &[LonePut<'_>]) -> impl Iterator<Item = usize> {
    // Most comparisons end in the first bytes, which are adjacent here.
    let mut order: Vec<(u64, usize)> = puts.iter().map(|put| prefix(put.key)).zip(0..).collect();
    order.sort_unstable_by(|a, b| {
        let rest = || (puts[a.1].key, a.1).cmp(&(puts[b.1].key, b.1));
        a.0.cmp(&b.0).then_with(rest)
    });
    order.into_iter().map(|(_, i)| i)
}

/// Orders keys by their first bytes, as far as these differ.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}
