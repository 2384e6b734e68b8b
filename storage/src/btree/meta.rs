//! The meta page: the only place that says where everything else is. Two slots, units 0 and 1,
//! written in turn: the slot of generation g is g modulo 2.
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | crc | CRC-32 of the rest of the unit; CRC-32C before version 3 |
//! | 4 | 8 | magic | `SteleDB\0` |
//! | 12 | 4 | version | 3; 1 and 2 are read as well; 1 has zero for the bytes of all trees |
//! | 16 | 8 | generation | number of the checkpoint |
//! | 24 | 8 | units | length of the file |
//! | 32 | 16 | free list | its newest record: first unit `u64`, units `u32`, crc `u32`; all zero: nothing is free |
//! | 48 | 4 | key id | that new pages were sealed under; zero: none, they are clear |
//! | 52 | 28 | | zero |
//! | 80 | 4 | trees | how many |
//! | 84 | 4 | user | length of the user meta |
//! | 88 | 40 each | tree | id `u8`, level `u8`, bytes (high) `u16`; units `u32`, crc `u32`, bytes (low) `u32`, first unit `u64` (0: empty), entries `u64`, count `u64` |
//! | | | user meta | |

use crate::btree::kind::TreeKind;
use crate::btree::node::Link;
use crate::btree::node::page::{PageRef, UNIT, u32_at, u64_at};
use crate::btree::pages::FIRST_UNIT;
use crate::btree::tree::Tree;
use crate::btree::{LEVELS_MAX, TREES_MAX, USER_META_BYTES_MAX, Weight};

const MAGIC: [u8; 8] = *b"SteleDB\0";
const VERSION: u32 = 3;

/// The oldest version that is read: of files whose trees have no sums of bytes.
const VERSION_OLDEST: u32 = 1;
/// From this version on, the checksum is CRC-32; before, it is CRC-32C.
const VERSION_OF_CRC32: u32 = 3;
const TREES: usize = 88;
const TREE_BYTES: usize = 40;

const _: () = assert!(TREES + TREES_MAX * TREE_BYTES + USER_META_BYTES_MAX <= UNIT);

#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) generation: u64,
    pub(crate) units: u64,
    pub(crate) free_list: Option<PageRef>,
    /// The key that sealed this checkpoint's pages; older pages may have other keys.
    pub(crate) key: u32,
    pub(crate) roots: Vec<Root>,
    pub(crate) user: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub(crate) tree: u8,
    pub(crate) level: u8,
    pub(crate) page: Option<PageRef>,
    pub(crate) len: u64,
    pub(crate) weight: Weight,
}

impl Root {
    /// The tree with this root; nothing of it is in memory.
    pub(crate) fn tree(&self, kind: TreeKind) -> Tree {
        let level = self.level;
        Tree {
            kind,
            root: self.page.map(|page| Link::Disk { page, level }),
            len: self.len,
            weight: self.weight,
        }
    }
}

fn put_ref(bytes: &mut Vec<u8>, page: Option<PageRef>) {
    let (id, units, crc) = page.map_or((0, 0, 0), |p| (p.id, p.units, p.crc));
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&units.to_le_bytes());
    bytes.extend_from_slice(&crc.to_le_bytes());
}

fn checksum(bytes: &[u8]) -> u32 {
    if u32_at(bytes, 12) >= VERSION_OF_CRC32 {
        crc32fast::hash(&bytes[4..])
    } else {
        crc32c::crc32c(&bytes[4..])
    }
}

impl Meta {
    pub(crate) fn offset(generation: u64) -> u64 {
        generation % 2 * UNIT as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.user.len() <= USER_META_BYTES_MAX && self.roots.len() <= TREES_MAX);
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.units.to_le_bytes());
        put_ref(&mut bytes, self.free_list);
        bytes.extend_from_slice(&self.key.to_le_bytes());
        bytes.resize(80, 0);
        bytes.extend_from_slice(&(self.roots.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.user.len() as u32).to_le_bytes());
        for root in &self.roots {
            let (id, units, crc) = root.page.map_or((0, 0, 0), |p| (p.id, p.units, p.crc));
            let weight = root.weight.cut();
            let high = (weight.bytes >> u32::BITS) as u16;
            bytes.extend_from_slice(&[root.tree, root.level]);
            bytes.extend_from_slice(&high.to_le_bytes());
            bytes.extend_from_slice(&units.to_le_bytes());
            bytes.extend_from_slice(&crc.to_le_bytes());
            bytes.extend_from_slice(&(weight.bytes as u32).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&root.len.to_le_bytes());
            bytes.extend_from_slice(&weight.count.to_le_bytes());
        }
        bytes.extend_from_slice(&self.user);
        bytes.resize(UNIT, 0);
        let crc = checksum(&bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes one unit; the error says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta, String> {
        assert_eq!(bytes.len(), UNIT);
        if bytes.iter().all(|b| *b == 0) {
            return Err("never written".to_owned());
        }
        if u32_at(bytes, 0) != checksum(bytes) {
            return Err("checksum does not match".to_owned());
        }
        if bytes[4..12] != MAGIC {
            return Err("not a page file of Stele".to_owned());
        }
        if !(VERSION_OLDEST..=VERSION).contains(&u32_at(bytes, 12)) {
            return Err(format!("unknown format version {}", u32_at(bytes, 12)));
        }
        if bytes[52..80].iter().any(|b| *b != 0) {
            return Err("reserved bytes are set".to_owned());
        }
        let (trees, user) = (u32_at(bytes, 80) as usize, u32_at(bytes, 84) as usize);
        if trees > TREES_MAX || user > USER_META_BYTES_MAX {
            return Err("more trees or user meta than there can be".to_owned());
        }
        let list = PageRef {
            id: u64_at(bytes, 32),
            units: u32_at(bytes, 40),
            crc: u32_at(bytes, 44),
        };
        let user_start = TREES + trees * TREE_BYTES;
        let meta = Meta {
            generation: u64_at(bytes, 16),
            units: u64_at(bytes, 24),
            free_list: (list.id != 0).then_some(list),
            key: u32_at(bytes, 48),
            roots: (0..trees)
                .map(|i| root(&bytes[TREES + i * TREE_BYTES..]))
                .collect(),
            user: bytes[user_start..user_start + user].to_vec(),
        };
        if meta.roots.iter().any(|root| root.level >= LEVELS_MAX) {
            return Err("a tree higher than there can be".to_owned());
        }
        if meta.units < FIRST_UNIT || meta.units > u64::MAX / UNIT as u64 {
            return Err("impossible file length".to_owned());
        }
        Ok(meta)
    }
}

fn root(bytes: &[u8]) -> Root {
    let page = PageRef {
        id: u64_at(bytes, 16),
        units: u32_at(bytes, 4),
        crc: u32_at(bytes, 8),
    };
    Root {
        tree: bytes[0],
        level: bytes[1],
        page: (page.id != 0).then_some(page),
        len: u64_at(bytes, 24),
        weight: Weight {
            count: u64_at(bytes, 32),
            bytes: u64::from(u16::from_le_bytes([bytes[2], bytes[3]])) << u32::BITS
                | u64::from(u32_at(bytes, 12)),
        },
    }
}
