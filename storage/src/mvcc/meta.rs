//! The bytes that this module adds to the meta page.

use super::chores::compact::Compaction;
use super::keys::{PlaceSet, RING_BYTES, Ring};
use super::{Applied, Revision};

/// This module's data in the meta page, so that it moves together with the trees:
/// ```text
/// offset  size  name
///      0     1  format version, 4; 1 to 3 are read as well
///      1     8  revision
///      9     8  compacted
///     17     8  applied index
///     25     8  applied term
///     33     8  compaction: next main revision to look at
///     41     8  compaction: next sub revision to look at
///     49     1  1: the compaction is done; 2: the key tree knows the size of all values. Version 1
///               knows of none
///     50     3  the delta trees (see `keys`): place of the open one, closed ones, merging ones; not
///               before version 3, where there are none
///     53     2  a bit for each place whose delta tree has its filter in the side tree; not before
///               version 4
/// ```
/// Numbers are big-endian.
pub(super) struct Meta {
    pub(super) revision: i64,
    pub(super) compacted: i64,
    pub(super) applied: Applied,
    pub(super) compaction: Compaction,
    /// Every live row of the key tree has the size of its value.
    pub(super) sized: bool,
    pub(super) ring: Ring,
    pub(super) filters: PlaceSet,
}

const META_VERSION: u8 = 4;
const META_VERSION_OLDEST: u8 = 1;
/// From this version on there are delta trees.
const META_VERSION_OF_DELTAS: u8 = 3;
/// From this version on their filters are kept.
const META_VERSION_OF_FILTERS: u8 = 4;

const DONE: u8 = 1;
const SIZED: u8 = 2;
const META_BYTES_PLAIN: usize = 50;
const META_BYTES_WITH_RING: usize = META_BYTES_PLAIN + RING_BYTES;
const META_BYTES: usize = META_BYTES_WITH_RING + size_of::<PlaceSet>();

impl Meta {
    /// etcd's numbers for a store that was never written.
    pub(super) const EMPTY: Meta = Meta {
        revision: 1,
        compacted: -1,
        applied: Applied { index: 0, term: 0 },
        compaction: Compaction::NONE,
        sized: true,
        ring: Ring::NONE,
        filters: 0,
    };

    pub(super) fn encode(&self) -> [u8; META_BYTES] {
        let numbers = [
            self.revision as u64,
            self.compacted as u64,
            self.applied.index,
            self.applied.term,
            self.compaction.next.main as u64,
            self.compaction.next.sub as u64,
        ];
        let mut out = [0; META_BYTES];
        out[0] = META_VERSION;
        for (place, number) in out[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        let done = if self.compaction.done { DONE } else { 0 };
        let sized = if self.sized { SIZED } else { 0 };
        out[META_BYTES_PLAIN - 1] = done | sized;
        out[META_BYTES_PLAIN..META_BYTES_WITH_RING].copy_from_slice(&self.ring.encode());
        out[META_BYTES_WITH_RING..].copy_from_slice(&self.filters.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Meta> {
        if bytes.is_empty() {
            return Some(Meta::EMPTY);
        }
        let (plain, rest) = bytes.split_first_chunk::<META_BYTES_PLAIN>()?;
        let (ring, rest) = match plain[0] {
            META_VERSION_OLDEST..META_VERSION_OF_DELTAS => (Ring::NONE, rest),
            META_VERSION_OF_DELTAS..=META_VERSION => {
                let (ring, rest) = rest.split_first_chunk()?;
                (Ring::decode(*ring)?, rest)
            }
            _ => return None,
        };
        let filters = match plain[0] {
            META_VERSION_OF_FILTERS.. => PlaceSet::from_be_bytes(rest.try_into().ok()?),
            _ if rest.is_empty() => 0,
            _ => return None,
        };
        let number = |i: usize| {
            let (number, _) = plain[1 + 8 * i..].split_first_chunk()?;
            Some(u64::from_be_bytes(*number))
        };
        Some(Meta {
            revision: number(0)? as i64,
            compacted: number(1)? as i64,
            applied: Applied {
                index: number(2)?,
                term: number(3)?,
            },
            compaction: Compaction {
                next: Revision {
                    main: number(4)? as i64,
                    sub: number(5)? as i64,
                },
                done: plain[META_BYTES_PLAIN - 1] & DONE != 0,
            },
            sized: plain[META_BYTES_PLAIN - 1] & SIZED != 0,
            ring,
            filters,
        })
    }
}
