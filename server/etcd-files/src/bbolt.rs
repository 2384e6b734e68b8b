//! bbolt files, etcd's database: reading any file, writing fresh ones.
//!
//! ```text
//! file     pages of one size (4096 where etcd usually runs); 0 and 1 are the metas
//! page     id u64 | flags u16 | count u16 | overflow u32 | body; overflow = further pages it runs over
//! meta     magic u32 | version u32 | page size u32 | 0 u32 | root u64 | 0 u64 | free list u64 | pages u64 | txid u64 | FNV-1a u64
//! leaf     per entry: flags u32 (1: a bucket) | position u32 | key length u32 | value length u32; then keys and values
//! branch   per entry: position u32 | key length u32 | child u64; then keys
//! bucket   root page u64 (0: a leaf page's image follows) | sequence u64
//! ```
//! All numbers are little endian; a position counts from its own entry. etcd has one level of
//! buckets: the root tree holds only bucket names.

pub mod read;
pub mod write;

#[cfg(test)]
mod tests;

/// The page size of every file written here, and of etcd's where memory pages have this size.
pub const PAGE_BYTES: usize = 4096;

const HEADER_BYTES: usize = 16;
const ELEMENT_BYTES: usize = 16;
/// Root page and sequence, before the image of an inline bucket.
const BUCKET_BYTES: usize = 16;
const META_BYTES: usize = 64;
const META_SUMMED_BYTES: usize = 56;

const FLAG_BRANCH: u16 = 0x01;
const FLAG_LEAF: u16 = 0x02;
const FLAG_META: u16 = 0x04;

/// Marks a leaf entry as a bucket.
const ENTRY_BUCKET: u32 = 1;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Stored in a meta page if the file has no free list: bbolt then finds free pages by walking.
const NO_FREE_LIST: u64 = u64::MAX;

/// Pages 0 and 1.
const META_PAGES: u64 = 2;

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Makes the checksums of both metas right, so that readers get past them.
#[cfg(any(test, fuzzing))]
pub(crate) fn seal_metas(file: &mut [u8]) {
    for page in file.chunks_mut(PAGE_BYTES).take(META_PAGES as usize) {
        if let Some(meta) = page.get_mut(HEADER_BYTES..HEADER_BYTES + META_BYTES) {
            let sum = fnv1a(&meta[..META_SUMMED_BYTES]);
            meta[META_SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
