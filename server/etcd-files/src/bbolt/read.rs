//! Reads a bbolt file: any page size, either meta, any depth. For any bytes, reading ends in rows
//! or in an error that names page and offset. It never panics, never loops, and never takes more
//! memory than the file is long.

mod page;

use std::fmt;
use std::io;

use super::*;
use page::{FLAG_FREE_LIST, Meta, PAGE_SHIFTS, Page, read_meta, u32_at, u64_at};

/// The source of the bytes: a file, or memory.
pub trait Source {
    fn len(&self) -> io::Result<u64>;
    /// Fills all of `buf`, or fails with `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl Source for &[u8] {
    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.get(start..)?.get(..buf.len()));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[derive(Debug)]
pub enum Error {
    Io(io::Error),
    /// The bytes are not those of a bbolt file.
    Damaged {
        page: u64,
        /// In the file; for an inline bucket, in its image.
        offset: u64,
        what: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Damaged { page, offset, what } => {
                write!(f, "page {page} (byte {offset}): {what}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Branches have at least two children, so no tree over 64-bit page numbers is higher.
const DEPTH_MAX: usize = 64;

/// An open file. Every call reads it again.
#[derive(Debug)]
pub struct Database<S> {
    source: S,
    page_bytes: u64,
    meta: Meta,
}

/// A bucket of the root tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub name: Vec<u8>,
    root: BucketRoot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BucketRoot {
    Page(u64),
    /// The image of a leaf, and the page that holds it.
    Inline {
        image: Vec<u8>,
        page: u64,
    },
}

/// The callback of a walk: a key and its value.
type EachRow<'a, E> = dyn FnMut(&[u8], &[u8]) -> std::result::Result<(), E> + 'a;
/// The same, and the entry's flags and page.
type EachEntry<'a, E> = dyn FnMut(u32, &[u8], &[u8], u64) -> std::result::Result<(), E> + 'a;

impl<S: Source> Database<S> {
    /// Chooses the newer valid meta. Fails if neither is valid.
    pub fn open(source: S) -> Result<Database<S>> {
        let len = source.len()?;
        let mut found: Vec<Meta> = Vec::new();
        let mut flaw = None;
        match read_meta(&source, 0, 0) {
            Ok(meta) => found.push(meta),
            Err(error) => flaw = Some(error),
        }
        let sizes: Vec<u64> = match found.first() {
            Some(meta) => vec![u64::from(meta.page_bytes)],
            None => PAGE_SHIFTS.map(|shift| 1 << shift).collect(),
        };
        for size in sizes {
            if let Ok(meta) = read_meta(&source, 1, size)
                && u64::from(meta.page_bytes) == size
            {
                found.push(meta);
                break;
            }
        }
        let Some(meta) = found.into_iter().max_by_key(|meta| meta.txid) else {
            return Err(flaw.unwrap_or_else(|| damaged(0, 0, "no meta page")));
        };
        let page_bytes = u64::from(meta.page_bytes);
        if meta.pages > len / page_bytes {
            let what = format!("the file ends before page {}, its last", meta.pages);
            return Err(damaged(0, len, what));
        }
        Ok(Database {
            source,
            page_bytes,
            meta,
        })
    }

    /// Bytes in use from the start; a live file is longer.
    pub fn used_bytes(&self) -> u64 {
        self.meta.pages * self.page_bytes
    }

    /// All buckets, in order of their names.
    pub fn buckets(&self) -> Result<Vec<Bucket>> {
        self.buckets_seen(&mut self.nothing_seen())
    }

    fn buckets_seen(&self, seen: &mut Seen) -> Result<Vec<Bucket>> {
        let mut found = Vec::new();
        let root = self.read_page(self.meta.root, seen)?;
        self.walk(&root, seen, 0, None, &mut |flags, name, value, page| {
            if flags & ENTRY_BUCKET == 0 {
                return Err(self.damaged(page, "a plain key beside the buckets"));
            }
            let Some((head, image)) = value.split_at_checked(BUCKET_BYTES) else {
                return Err(self.damaged(page, "a bucket's value is too short"));
            };
            let root = match u64_at(head, 0) {
                Some(0) | None => BucketRoot::Inline {
                    image: image.to_vec(),
                    page,
                },
                Some(root) => BucketRoot::Page(root),
            };
            found.push(Bucket {
                name: name.to_vec(),
                root,
            });
            Ok(())
        })?;
        Ok(found)
    }

    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>> {
        let buckets = self.buckets()?;
        Ok(buckets.into_iter().find(|bucket| bucket.name == name))
    }

    /// Calls `f` with each row of the bucket, in order.
    pub fn rows<E: From<Error>>(
        &self,
        bucket: &Bucket,
        f: &mut EachRow<'_, E>,
    ) -> std::result::Result<(), E> {
        self.rows_seen(bucket, &mut self.nothing_seen(), f)
    }

    fn rows_seen<E: From<Error>>(
        &self,
        bucket: &Bucket,
        seen: &mut Seen,
        f: &mut EachRow<'_, E>,
    ) -> std::result::Result<(), E> {
        let root = match &bucket.root {
            BucketRoot::Page(page) => self.read_page(*page, seen)?,
            BucketRoot::Inline { image, page } => {
                Page::parse(image.clone(), *page, 0).map_err(E::from)?
            }
        };
        self.walk(&root, seen, 0, None, &mut |flags, key, value, page| {
            if flags & ENTRY_BUCKET != 0 {
                return Err(self.damaged(page, "a bucket within a bucket").into());
            }
            f(key, value)
        })
    }

    /// The value of one key.
    pub fn get(&self, bucket: &Bucket, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.rows(bucket, &mut |row, value| {
            if row == key {
                found = Some(value.to_vec());
            }
            Ok::<(), Error>(())
        })?;
        Ok(found)
    }

    /// Reads everything: every page is in place and used once, keys are in order, no page is both
    /// used and free.
    pub fn check(&self) -> Result<()> {
        let mut seen = self.nothing_seen();
        for bucket in self.buckets_seen(&mut seen)? {
            self.rows_seen(&bucket, &mut seen, &mut |_, _| Ok::<(), Error>(()))?;
        }
        let Some(free) = self.free_list(&mut seen)? else {
            return Ok(()); // then every page not reached is free
        };
        for page in free {
            seen.mark(page, 1)
                .map_err(|what| self.damaged(page, format!("in the free list, but {what}")))?;
        }
        match (META_PAGES..self.meta.pages).find(|page| !seen.is_marked(*page)) {
            Some(page) => Err(self.damaged(page, "neither used nor free")),
            None => Ok(()),
        }
    }

    fn free_list(&self, seen: &mut Seen) -> Result<Option<Vec<u64>>> {
        if self.meta.free_list == NO_FREE_LIST {
            return Ok(None);
        }
        let page = self.read_page(self.meta.free_list, seen)?;
        if page.flags != FLAG_FREE_LIST {
            return Err(self.damaged(page.id, "not a page of the free list"));
        }
        let body = &page.image[HEADER_BYTES..];
        let (count, ids) = match page.count {
            0xFFFF => (u64_at(body, 0), body.get(8..).unwrap_or_default()),
            count => (Some(count as u64), body),
        };
        let ids = usize::try_from(count.unwrap_or_default())
            .ok()
            .and_then(|count| ids.get(..count.checked_mul(8)?))
            .ok_or_else(|| self.damaged(page.id, "the free list runs over its page"))?;
        let (ids, _) = ids.as_chunks::<8>();
        Ok(Some(ids.iter().map(|id| u64::from_le_bytes(*id)).collect()))
    }

    fn nothing_seen(&self) -> Seen {
        Seen::new(self.meta.pages)
    }

    fn damaged(&self, page: u64, what: impl Into<String>) -> Error {
        damaged(page, page.saturating_mul(self.page_bytes), what)
    }

    fn read_page(&self, id: u64, seen: &mut Seen) -> Result<Page> {
        if id < META_PAGES || id >= self.meta.pages {
            return Err(self.damaged(id, "no page of this file"));
        }
        let offset = id * self.page_bytes;
        let mut image = vec![0; self.page_bytes as usize];
        self.source.read_at(&mut image, offset)?;
        let overflow = u64::from(u32_at(&image, 12).unwrap_or_default());
        if overflow >= self.meta.pages - id {
            return Err(self.damaged(id, "runs over the end of the file"));
        }
        seen.mark(id, overflow + 1)
            .map_err(|what| self.damaged(id, what))?;
        if overflow > 0 {
            let first = image.len();
            image.resize(first + (overflow * self.page_bytes) as usize, 0);
            self.source
                .read_at(&mut image[first..], offset + self.page_bytes)?;
        }
        let page = Page::parse(image, id, offset)?;
        if page.own_id != id {
            let what = format!("calls itself page {}", page.own_id);
            return Err(self.damaged(id, what));
        }
        Ok(page)
    }

    /// `within`: no key is below the first bound, none at or above the second.
    fn walk<E: From<Error>>(
        &self,
        page: &Page,
        seen: &mut Seen,
        depth: usize,
        within: Option<(&[u8], Option<&[u8]>)>,
        f: &mut EachEntry<'_, E>,
    ) -> std::result::Result<(), E> {
        if depth == DEPTH_MAX {
            return Err(page.damaged(0, "the tree is too high").into());
        }
        let mut before: Option<&[u8]> = None;
        for place in 0..page.count {
            let entry = page.entry(place)?;
            let at = HEADER_BYTES + place * ELEMENT_BYTES;
            let bounds = |(low, high): (&[u8], Option<&[u8]>)| {
                low <= entry.key && high.is_none_or(|high| entry.key < high)
            };
            if before.is_some_and(|before| before >= entry.key) || !within.is_none_or(bounds) {
                return Err(page.damaged(at, "its keys are out of order").into());
            }
            before = Some(entry.key);
            if page.flags == FLAG_LEAF {
                f(entry.flags, entry.key, entry.value, page.id)?;
                continue;
            }
            let next = if place + 1 < page.count {
                Some(page.entry(place + 1)?.key)
            } else {
                within.and_then(|(_, high)| high)
            };
            let child = self.read_page(entry.child, seen)?;
            self.walk(&child, seen, depth + 1, Some((entry.key, next)), f)?;
        }
        Ok(())
    }
}

/// One bit per page.
struct Seen {
    bits: Vec<u64>,
    pages: u64,
}

impl Seen {
    fn new(pages: u64) -> Seen {
        Seen {
            bits: vec![0; pages.div_ceil(64) as usize],
            pages,
        }
    }

    fn mark(&mut self, first: u64, count: u64) -> std::result::Result<(), &'static str> {
        for page in first..first.saturating_add(count) {
            if page < META_PAGES || page >= self.pages {
                return Err("it is no page of this file");
            }
            if self.is_marked(page) {
                return Err("it is used twice");
            }
            self.bits[(page / 64) as usize] |= 1 << (page % 64);
        }
        Ok(())
    }

    fn is_marked(&self, page: u64) -> bool {
        self.bits[(page / 64) as usize] & 1 << (page % 64) != 0
    }
}

fn damaged(page: u64, offset: u64, what: impl Into<String>) -> Error {
    let what = what.into();
    Error::Damaged { page, offset, what }
}
