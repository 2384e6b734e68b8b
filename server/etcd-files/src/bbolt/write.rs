//! Writing a bbolt file front to back, in memory bounded by one path of pages.
//!
//! The metas come first and name the root and the number of pages, so the rows are needed twice:
//! [`Layout::of`] only counts, and takes their lengths alone if the content knows these sooner;
//! [`Layout::write`] runs the same code with bytes. Pages get their numbers in the order in which
//! they fill up; a branch follows its last child.
//!
//! The result is compact: leaves are filled from left to right, nothing is free. Three rules of bbolt
//! beyond its format are kept: a branch has at least two children (bbolt asserts it when it
//! deletes), small buckets are inside their parent's leaf, and a leaf has at least two entries unless
//! there is no other: two values of 4 KiB take three pages, where each alone would take two.

use std::io::{self, Write};

use super::*;

/// Buckets up to a quarter page are inside the root's leaf, as in bbolt.
const INLINE_BYTES_MAX: usize = PAGE_BYTES / 4;

/// Least entries of a leaf that has a next one.
const LEAF_ENTRIES_MIN: usize = 2;

/// Most entries of one page; bbolt reserves 0xFFFF.
const PAGE_ENTRIES_MAX: usize = 0xFFFE;

/// The content of a file: buckets in bytewise order of their names, and each bucket's rows in order
/// of their keys. It is read twice, though perhaps only lengths the first time, and must be the
/// same both times.
pub trait Content {
    /// Made of errors of the output, and of `InvalidData` if no file can be made of the content.
    type Error: From<io::Error>;

    fn buckets(&self) -> &[&'static str];

    /// Calls `row` with each key and its value, which is in parts.
    fn rows(&self, bucket: &str, row: &mut RowSink<'_, Self::Error>) -> Result<(), Self::Error>;

    /// Calls `row` with the lengths of each key and its value, and returns true, if they are found
    /// with less work than by [`Content::rows`]. After false the calls do not count.
    fn lengths(
        &self,
        _bucket: &str,
        _row: &mut LengthSink<'_, Self::Error>,
    ) -> Result<bool, Self::Error> {
        Ok(false)
    }
}

/// Takes one row: a key, not empty, and a value in parts.
pub type RowSink<'a, E> = dyn FnMut(&[u8], &[&[u8]]) -> Result<(), E> + 'a;

/// Takes the lengths of one row: of its key, and of its value.
pub type LengthSink<'a, E> = dyn FnMut(usize, usize) -> Result<(), E> + 'a;

/// Size of a file, and the place of its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    root: u64,
    pages: u64,
}

impl Layout {
    /// Counts. Reads everything once, or the lengths that the content knows.
    pub fn of<C: Content>(content: &C) -> Result<Layout, C::Error> {
        let mut pages = Pages::new(None, u64::MAX);
        let root = write_buckets(content, &mut pages)?;
        Ok(Layout {
            root,
            pages: pages.next,
        })
    }

    pub fn file_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    /// Writes the file: exactly [`Layout::file_bytes`] bytes, and never more, because the reader
    /// was told so many.
    pub fn write<C: Content>(&self, content: &C, out: &mut dyn Write) -> Result<(), C::Error> {
        for id in 0..META_PAGES {
            out.write_all(&self.meta(id))?;
        }
        let mut pages = Pages::new(Some(out), self.pages);
        let root = write_buckets(content, &mut pages)?;
        if root != self.root || pages.next != self.pages {
            let now = format!("{} pages with the root in page {root}", pages.next);
            let (root, pages) = (self.root, self.pages);
            return Err(
                changed(&format!("{now}, not {pages} with the root in page {root}")).into(),
            );
        }
        Ok(())
    }

    fn meta(&self, id: u64) -> Vec<u8> {
        let mut page = header(id, FLAG_META, 0, 0);
        for number in [MAGIC, VERSION, PAGE_BYTES as u32, 0] {
            page.extend_from_slice(&number.to_le_bytes());
        }
        // The first page is the newer one, as in a snapshot from etcd.
        let txid = META_PAGES - id;
        for number in [self.root, 0, NO_FREE_LIST, self.pages, txid] {
            page.extend_from_slice(&number.to_le_bytes());
        }
        let sum = fnv1a(&page[HEADER_BYTES..HEADER_BYTES + META_SUMMED_BYTES]);
        page.extend_from_slice(&sum.to_le_bytes());
        page.resize(PAGE_BYTES, 0);
        page
    }
}

/// Writes all buckets and the tree of their names; returns the page of its root.
fn write_buckets<C: Content>(content: &C, pages: &mut Pages<'_>) -> Result<u64, C::Error> {
    let mut root = Tree::new(ENTRY_BUCKET);
    let mut before = "";
    for &name in content.buckets() {
        assert!(before < name, "buckets come in order of their names");
        before = name;
        let tree = match counted(content, name, pages)? {
            Some(tree) => tree,
            None => {
                let mut tree = Tree::new(0);
                content.rows(name, &mut |key, value| Ok(tree.push(pages, key, value)?))?;
                tree
            }
        };
        let value = tree.finish_bucket(pages)?;
        root.push(pages, name.as_bytes(), &[&value])?;
    }
    Ok(root.finish(pages)?)
}

/// A bucket of which only the lengths are needed and known.
fn counted<C: Content>(
    content: &C,
    bucket: &str,
    pages: &mut Pages<'_>,
) -> Result<Option<Tree>, C::Error> {
    if pages.out.is_some() {
        return Ok(None);
    }
    let (mut tree, before) = (Tree::new(0), pages.next);
    if content.lengths(bucket, &mut |key, value| Ok(tree.count(pages, key, value)?))? {
        return Ok(Some(tree));
    }
    pages.next = before;
    Ok(None)
}

/// Assigns page numbers and takes finished pages; without an output it only counts.
struct Pages<'a> {
    out: Option<&'a mut dyn Write>,
    next: u64,
    /// The number after the last page that there may be.
    end: u64,
}

impl<'a> Pages<'a> {
    fn new(out: Option<&'a mut dyn Write>, end: u64) -> Pages<'a> {
        Pages {
            out,
            next: META_PAGES,
            end,
        }
    }

    /// Writes one page and its overflow pages, padded; returns its number.
    fn put(&mut self, flags: u16, entries: &Entries) -> io::Result<u64> {
        let id = self.next;
        let size = HEADER_BYTES + entries.bytes;
        let run = size.div_ceil(PAGE_BYTES);
        self.next += run as u64;
        if self.next > self.end {
            return Err(changed(&format!("more than {} pages", self.end)));
        }
        if let Some(out) = &mut self.out {
            let count = entries.spans.len();
            out.write_all(&header(id, flags, count, run - 1))?;
            out.write_all(&entries.table())?;
            out.write_all(&entries.data)?;
            out.write_all(&[0; PAGE_BYTES][..run * PAGE_BYTES - size])?;
        }
        Ok(id)
    }
}

fn changed(now: &str) -> io::Error {
    unwritable(format!(
        "the content changed between two readings of it: {now}"
    ))
}

/// An error that the content causes, and not the output: see [`Content::Error`].
fn unwritable(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The entries of a page under construction.
#[derive(Default)]
struct Entries {
    /// Leaf: flags, key length, value length. Branch: child, key length.
    spans: Vec<Span>,
    /// Keys and values in order; while only counting, only their lengths are kept.
    data: Vec<u8>,
    /// Bytes that the entries take, including their headers.
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Span {
    Leaf { flags: u32, key: u32, value: u32 },
    Branch { child: u64, key: u32 },
}

impl Entries {
    fn size_of(key: usize, value: usize) -> usize {
        ELEMENT_BYTES + key + value
    }

    fn fits(&self, size: usize) -> bool {
        HEADER_BYTES + self.bytes + size <= PAGE_BYTES && self.spans.len() < PAGE_ENTRIES_MAX
    }

    /// The table of entries: each holds the distance from itself to its key.
    fn table(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.spans.len() * ELEMENT_BYTES);
        let mut data_before = 0;
        for (place, span) in self.spans.iter().enumerate() {
            let position = ((self.spans.len() - place) * ELEMENT_BYTES + data_before) as u32;
            match *span {
                Span::Leaf { flags, key, value } => {
                    for number in [flags, position, key, value] {
                        table.extend_from_slice(&number.to_le_bytes());
                    }
                    data_before += (key + value) as usize;
                }
                Span::Branch { child, key } => {
                    table.extend_from_slice(&position.to_le_bytes());
                    table.extend_from_slice(&key.to_le_bytes());
                    table.extend_from_slice(&child.to_le_bytes());
                    data_before += key as usize;
                }
            }
        }
        table
    }

    fn clear(&mut self) {
        self.spans.clear();
        self.data.clear();
        self.bytes = 0;
    }
}

/// A tree under construction, from its left edge: the leaf being filled, and the branch being
/// filled on each level above.
struct Tree {
    flags: u32,
    leaf: Entries,
    /// The first key of the leaf being filled, which its parent stores.
    first_key: Vec<u8>,
    branches: Vec<Branch>,
}

/// The branch page being filled on one level.
#[derive(Default)]
struct Branch {
    /// First key and page of each child.
    children: Vec<(Vec<u8>, u64)>,
    bytes: usize,
}

impl Tree {
    fn new(flags: u32) -> Tree {
        Tree {
            flags,
            leaf: Entries::default(),
            first_key: Vec::new(),
            branches: Vec::new(),
        }
    }

    fn push(&mut self, pages: &mut Pages<'_>, key: &[u8], value: &[&[u8]]) -> io::Result<()> {
        let value_bytes = value.iter().map(|part| part.len()).sum();
        if self.make_entry(pages, key.len(), value_bytes)? {
            self.first_key.extend_from_slice(key);
        }
        // While only counting, bytes are kept as long as the bucket may become an inline one: its
        // image is part of the root's leaf.
        if pages.out.is_some() || self.may_be_inline() {
            self.leaf.data.extend_from_slice(key);
            value
                .iter()
                .for_each(|part| self.leaf.data.extend_from_slice(part));
        }
        Ok(())
    }

    /// The same for an entry of these lengths, only to count: its bytes are zeros.
    fn count(&mut self, pages: &mut Pages<'_>, key: usize, value: usize) -> io::Result<()> {
        if self.make_entry(pages, key, value)? {
            self.first_key.resize(key, 0);
        }
        if self.may_be_inline() {
            let bytes = self.leaf.data.len() + key + value;
            self.leaf.data.resize(bytes, 0);
        }
        Ok(())
    }

    /// Makes room for an entry of these lengths. Returns true if it is the first one of a leaf: its
    /// key is then to be put into `first_key`, which is empty.
    fn make_entry(&mut self, pages: &mut Pages<'_>, key: usize, value: usize) -> io::Result<bool> {
        let size = Entries::size_of(key, value);
        if self.leaf.spans.len() >= LEAF_ENTRIES_MIN && !self.leaf.fits(size) {
            self.close_leaf(pages)?;
        }
        let is_first = self.leaf.spans.is_empty();
        if is_first {
            self.first_key.clear();
        }
        let too_long = |_| unwritable("a key or value of more than 4 GiB".to_owned());
        self.leaf.spans.push(Span::Leaf {
            flags: self.flags,
            key: u32::try_from(key).map_err(too_long)?,
            value: u32::try_from(value).map_err(too_long)?,
        });
        self.leaf.bytes += size;
        Ok(is_first)
    }

    fn may_be_inline(&self) -> bool {
        self.branches.is_empty() && HEADER_BYTES + self.leaf.bytes <= INLINE_BYTES_MAX
    }

    fn close_leaf(&mut self, pages: &mut Pages<'_>) -> io::Result<()> {
        let id = pages.put(FLAG_LEAF, &self.leaf)?;
        self.leaf.clear();
        let key = std::mem::take(&mut self.first_key);
        self.add_child(pages, 0, key, id)
    }

    /// Puts a child into the branch being filled on `level`. When that is full, all its children
    /// except the last become a page, so that a branch always keeps at least two.
    fn add_child(
        &mut self,
        pages: &mut Pages<'_>,
        level: usize,
        key: Vec<u8>,
        id: u64,
    ) -> io::Result<()> {
        if level == self.branches.len() {
            self.branches.push(Branch::default());
        }
        let branch = &mut self.branches[level];
        let size = Entries::size_of(key.len(), 0);
        let full = HEADER_BYTES + branch.bytes + size > PAGE_BYTES
            || branch.children.len() >= PAGE_ENTRIES_MAX;
        let mut closed = None;
        if full && branch.children.len() > 2 {
            let last = branch.children.split_off(branch.children.len() - 1);
            closed = Some(std::mem::replace(&mut branch.children, last));
            branch.bytes = branch.measured();
        }
        branch.children.push((key, id));
        branch.bytes += size;
        match closed {
            Some(children) => self.close_branch(pages, level, children),
            None => Ok(()),
        }
    }

    fn close_branch(
        &mut self,
        pages: &mut Pages<'_>,
        level: usize,
        children: Vec<(Vec<u8>, u64)>,
    ) -> io::Result<()> {
        let mut entries = Entries::default();
        for (key, child) in &children {
            entries.spans.push(Span::Branch {
                child: *child,
                key: key.len() as u32,
            });
            entries.bytes += Entries::size_of(key.len(), 0);
            entries.data.extend_from_slice(key);
        }
        let id = pages.put(FLAG_BRANCH, &entries)?;
        let first = children.into_iter().next();
        let (key, _) = first.expect("a branch has children");
        self.add_child(pages, level + 1, key, id)
    }

    /// Closes the open pages, from the leaf up; returns the root's page.
    fn finish(mut self, pages: &mut Pages<'_>) -> io::Result<u64> {
        if self.branches.is_empty() || !self.leaf.spans.is_empty() {
            self.close_leaf(pages)?;
        }
        let mut level = 0;
        loop {
            let children = std::mem::take(&mut self.branches[level].children);
            if let ([(_, only)], true) = (&children[..], level + 1 == self.branches.len()) {
                return Ok(*only);
            }
            self.close_branch(pages, level, children)?;
            level += 1;
        }
    }

    /// Like `finish`, but returns a bucket's value: a page number, or the whole image.
    fn finish_bucket(self, pages: &mut Pages<'_>) -> io::Result<Vec<u8>> {
        let mut value = Vec::with_capacity(BUCKET_BYTES);
        if self.may_be_inline() {
            value.extend_from_slice(&[0; BUCKET_BYTES]);
            value.extend_from_slice(&header(0, FLAG_LEAF, self.leaf.spans.len(), 0));
            value.extend_from_slice(&self.leaf.table());
            value.extend_from_slice(&self.leaf.data);
            return Ok(value);
        }
        value.extend_from_slice(&self.finish(pages)?.to_le_bytes());
        value.resize(BUCKET_BYTES, 0);
        Ok(value)
    }
}

impl Branch {
    fn measured(&self) -> usize {
        self.children
            .iter()
            .map(|(key, _)| Entries::size_of(key.len(), 0))
            .sum()
    }
}

fn header(id: u64, flags: u16, count: usize, overflow: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&id.to_le_bytes());
    header.extend_from_slice(&flags.to_le_bytes());
    header.extend_from_slice(&(count as u16).to_le_bytes());
    header.extend_from_slice(&(overflow as u32).to_le_bytes());
    header
}
