//! Writes nodes to the page file: in large pieces, with syncs between them.

use std::fmt;
use std::sync::Arc;

use crate::btree::node::page::{PageRef, UNIT, checksum};
use crate::btree::pages::Shared;
use crate::btree::pages::sealed::PageSealer;
use crate::btree::space::Space;
use crate::btree::space::wipe::Wipe;
use crate::vfs::File;
use crate::{Error, Result};

/// Bytes written at once. Small, because the page cache keeps a large write in one piece: later
/// writes of a single page in it dirty, and are charged for, the whole piece.
const SLICE_BYTES: usize = 16 << 10;

/// Bytes between two syncs, unless a rest says another number. A sync of the log may have to wait
/// for all unsynced bytes in other files: file systems with a journal commit both together.
pub(crate) const SYNC_BYTES: usize = 128 << 10;

/// Writes runs, adjacent ones in one piece.
#[derive(Debug)]
pub(crate) struct Output {
    file: Arc<dyn File>,
    shared: Arc<Shared>,
    /// Its own scope, begun with the first node; see `encryption`.
    sealer: Option<PageSealer>,
    sealed: Vec<u8>,
    buffer: Vec<u8>,
    /// Unit where the buffer will be written.
    start: u64,
    /// Bytes written since the last sync.
    unsynced: usize,
    /// True if it syncs by itself, after each piece.
    syncs: bool,
    /// Bytes of a piece.
    piece_bytes: usize,
    rest: Option<Rest>,
    cuts: Option<Cuts>,
    pub(crate) written: u64,
}

/// Called between the pieces of long work; returns the bytes of the next piece.
struct Rest(Box<dyn FnMut() -> usize + Send + Sync>);

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest")
    }
}

/// Says whether the end of the file may be cut off now.
struct Cuts(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cuts")
    }
}

impl Output {
    pub(crate) fn new(file: Arc<dyn File>, shared: Arc<Shared>) -> Output {
        Output {
            syncs: true,
            ..Output::unsynced(file, shared)
        }
    }

    /// The caller syncs the file.
    pub(crate) fn unsynced(file: Arc<dyn File>, shared: Arc<Shared>) -> Output {
        Output {
            file,
            shared,
            sealer: None,
            sealed: Vec::new(),
            buffer: Vec::new(),
            start: 0,
            unsynced: 0,
            syncs: false,
            piece_bytes: SYNC_BYTES,
            rest: None,
            cuts: None,
            written: 0,
        }
    }

    /// `rest` is called after each piece of the work, and returns the bytes of the next one.
    pub(crate) fn rest_with(&mut self, rest: impl FnMut() -> usize + Send + Sync + 'static) {
        self.rest = Some(Rest(Box::new(rest)));
    }

    /// The end of the file may be cut off only as long as `cuts` returns true.
    pub(crate) fn cut_while(&mut self, cuts: impl Fn() -> bool + Send + Sync + 'static) {
        self.cuts = Some(Cuts(Box::new(cuts)));
    }

    pub(crate) fn may_cut(&self) -> bool {
        self.cuts.as_ref().is_none_or(|Cuts(cuts)| cuts())
    }

    pub(crate) fn rest(&mut self) {
        if let Some(Rest(rest)) = &mut self.rest {
            self.piece_bytes = rest().max(SLICE_BYTES);
        }
    }

    /// Writes a node, sealed if new nodes are sealed.
    pub(crate) fn put_node(&mut self, start: u64, bytes: &[u8]) -> Result<PageRef> {
        if self.sealer.is_none() {
            self.sealer = PageSealer::new(self.shared.sealing())?;
        }
        let Some(sealer) = &self.sealer else {
            return self.put(start, bytes);
        };
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.clear();
        sealed.extend_from_slice(bytes);
        sealer.seal(start, &mut sealed);
        let page = self.put(start, &sealed);
        self.sealed = sealed;
        if page.is_err() {
            // The unit may be given to another node, and no scope may seal a unit twice.
            self.sealer = None;
        }
        page
    }

    pub(crate) fn put(&mut self, start: u64, bytes: &[u8]) -> Result<PageRef> {
        let units = bytes.len() / UNIT;
        self.shared.forget(start, units as u64);
        let end = self.start + (self.buffer.len() / UNIT) as u64;
        if start != end || self.buffer.len() + bytes.len() > SLICE_BYTES {
            self.flush()?;
            self.start = start;
        }
        if bytes.len() > SLICE_BYTES {
            for (i, slice) in bytes.chunks(SLICE_BYTES).enumerate() {
                let offset = start * UNIT as u64 + (i * SLICE_BYTES) as u64;
                self.write_at(slice, offset)?;
            }
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(PageRef {
            id: start,
            units: units as u32,
            crc: checksum(bytes),
        })
    }

    /// Length of the file, without what is in the buffer.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        let len = self.file.len();
        len.map_err(Error::io("read the length of", self.shared.path()))
    }

    /// Writes zeros over some free space.
    pub(crate) fn wipe(&mut self, wipe: &mut Wipe, space: &Space) -> Result<()> {
        let zeros = vec![0; SLICE_BYTES];
        let len = self.file_bytes()?;
        for (start, units) in wipe.next(space, len / UNIT as u64) {
            self.shared.forget(start, units);
            let end = (start + units) * UNIT as u64;
            let mut at = start * UNIT as u64;
            // The last checkpoint may have cut off the end of the file.
            while at < end.min(len) {
                let slice = &zeros[..SLICE_BYTES.min((end - at) as usize)];
                self.write_at(slice, at)?;
                at += slice.len() as u64;
            }
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        // Kept if it cannot be written now: nodes already have their place in it.
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write_at(&buffer, self.start * UNIT as u64);
        self.buffer = buffer;
        written?;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let path = self.shared.path();
        self.file
            .write_at(bytes, offset)
            .map_err(Error::io("write", path))?;
        self.written += bytes.len() as u64;
        self.unsynced += bytes.len();
        if self.syncs && self.unsynced >= self.piece_bytes {
            self.sync()?;
            self.rest();
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        self.file
            .sync_data()
            .map_err(Error::unsynced(self.shared.path()))
    }
}
