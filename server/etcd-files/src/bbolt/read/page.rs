//! Single pages: a meta page, and the entries of a leaf or branch. Every position is checked
//! before it is used.

use std::io;

use super::{Error, Result, Source, damaged};
use crate::bbolt::{
    ELEMENT_BYTES, FLAG_BRANCH, FLAG_LEAF, FLAG_META, HEADER_BYTES, MAGIC, META_BYTES,
    META_SUMMED_BYTES, VERSION, fnv1a,
};

pub(super) const FLAG_FREE_LIST: u16 = 0x10;

/// Page sizes tried for the second meta if the first does not give one: 1 KiB to 16 MiB.
pub(super) const PAGE_SHIFTS: std::ops::RangeInclusive<u32> = 10..=24;

#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) page_bytes: u32,
    pub(super) root: u64,
    pub(super) free_list: u64,
    pub(super) pages: u64,
    pub(super) txid: u64,
}

pub(super) fn read_meta<S: Source>(source: &S, id: u64, offset: u64) -> Result<Meta> {
    let mut bytes = [0; HEADER_BYTES + META_BYTES];
    source
        .read_at(&mut bytes, offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(id, offset, "the file ends within its metas"),
            _ => Error::Io(error),
        })?;
    let (head, meta) = bytes.split_at(HEADER_BYTES);
    let number = |at| u64_at(meta, at).unwrap_or_default();
    let word = |at| u32_at(meta, at).unwrap_or_default();
    if word(0) != MAGIC || word(4) != VERSION || u16_at(head, 8) != Some(FLAG_META) {
        return Err(damaged(id, offset, "not a meta page of bbolt"));
    }
    if fnv1a(&meta[..META_SUMMED_BYTES]) != number(META_SUMMED_BYTES) {
        return Err(damaged(id, offset, "the meta's checksum does not match"));
    }
    let page_bytes = word(8);
    if !PAGE_SHIFTS.contains(&page_bytes.trailing_zeros()) || !page_bytes.is_power_of_two() {
        return Err(damaged(id, offset, "an impossible page size"));
    }
    Ok(Meta {
        page_bytes,
        root: number(16),
        free_list: number(32),
        pages: number(40),
        txid: number(48),
    })
}

/// A page, including its overflow pages.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) image: Vec<u8>,
    pub(super) id: u64,
    pub(super) own_id: u64,
    /// File offset of the image.
    offset: u64,
    pub(super) flags: u16,
    pub(super) count: usize,
}

pub(super) struct Entry<'a> {
    pub(super) flags: u32,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) child: u64,
}

impl Page {
    pub(super) fn parse(image: Vec<u8>, id: u64, offset: u64) -> Result<Page> {
        let (Some(own_id), Some(flags), Some(count)) =
            (u64_at(&image, 0), u16_at(&image, 8), u16_at(&image, 10))
        else {
            return Err(damaged(id, offset, "too short for a page"));
        };
        if ![FLAG_LEAF, FLAG_BRANCH, FLAG_FREE_LIST].contains(&flags) {
            return Err(damaged(
                id,
                offset,
                format!("an unknown kind of page, {flags:#x}"),
            ));
        }
        Ok(Page {
            image,
            id,
            own_id,
            offset,
            flags,
            count: usize::from(count),
        })
    }

    pub(super) fn damaged(&self, at: usize, what: impl Into<String>) -> Error {
        damaged(self.id, self.offset + at as u64, what)
    }

    pub(super) fn entry(&self, place: usize) -> Result<Entry<'_>> {
        let at = HEADER_BYTES + place * ELEMENT_BYTES;
        let entry = self.parse_entry(at);
        entry.ok_or_else(|| self.damaged(at, "an entry that is not within its page"))
    }

    fn parse_entry(&self, at: usize) -> Option<Entry<'_>> {
        let entry = self.image.get(at..)?;
        let word = |place| u32_at(entry, place).map(|word| word as usize);
        match self.flags {
            FLAG_LEAF => {
                let (key, rest) = entry.get(word(4)?..)?.split_at_checked(word(8)?)?;
                Some(Entry {
                    flags: u32_at(entry, 0)?,
                    key,
                    value: rest.get(..word(12)?)?,
                    child: 0,
                })
            }
            FLAG_BRANCH => Some(Entry {
                flags: 0,
                key: entry.get(word(0)?..)?.get(..word(4)?)?,
                value: &[],
                child: u64_at(entry, 8)?,
            }),
            _ => None,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
