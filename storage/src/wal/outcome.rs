//! What recovery finds: the segments of the log, the records to be carried on, and where the log
//! continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::segment::{Segment, Spare};
use super::{Carry, Record, Recovery};
use crate::Result;
use crate::vfs::File;

/// The segment in which the log continues.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) segment: Segment,
    pub(super) file: Arc<dyn File>,
    pub(super) seed: u32,
    /// Checksum of the last record.
    pub(super) crc: u32,
    pub(super) len: u64,
    /// The stream bytes in the sector that is not full, and the start of its first record.
    pub(super) open: Vec<u8>,
    pub(super) first: Option<usize>,
    /// Nothing may be appended: sectors behind the end hold pieces of incomplete records, or the
    /// format is an older one.
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Found {
    /// Oldest first, without the tail.
    pub(super) older: Vec<Segment>,
    pub(super) tail: Option<Tail>,
    /// Highest index of any record.
    pub(super) highest: u64,
    pub(super) carries: BTreeMap<u8, Carry>,
    /// Kinds of carried records that the newest segment holds.
    pub(super) in_tail: BTreeSet<u8>,
    pub(super) spares: Vec<Spare>,
    /// Above the numbers of all spares.
    pub(super) next_number: u64,
    pub(super) recovery: Recovery,
}

impl Found {
    pub(super) fn new(spares: Vec<Spare>, next_number: u64) -> Found {
        Found {
            older: Vec::new(),
            tail: None,
            highest: 0,
            carries: BTreeMap::new(),
            in_tail: BTreeSet::new(),
            spares,
            next_number,
            recovery: Recovery {
                records: 0,
                end: 'Q',
                removed: None,
            },
        }
    }
}

pub(super) type Visit<'a> = dyn FnMut(Record<'_>) -> Result<()> + 'a;
