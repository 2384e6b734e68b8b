//! The read side of a page file: checked access to pages through a mapping. Knows nothing of what
//! is being written.

pub(super) mod readers;
pub(super) mod resident;
pub(super) mod sealed;

use std::borrow::Cow;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::kind::TreeKind;
use super::node::Node;
use super::node::page::{Page, PageRef, UNIT, checksum, validate};
use crate::encryption::DataKeys;
use crate::vfs::{File, Map};
use crate::{Error, Result};
use readers::{GuardWatch, ReaderGuard, VerifiedUnits};
use resident::Residency;
use sealed::Sealing;

/// The first two units are the meta slots.
pub(super) const FIRST_UNIT: u64 = 2;

/// The smallest mapping: address space is cheap, but mapping again is not.
const WINDOW_UNITS_MIN: u64 = (1 << 30) / UNIT as u64;

/// Units that one call asks the system to read (128 KiB). Linux reads no more for a call than the
/// disk takes at once, or than it reads ahead of a file (128 KiB by default), whichever is more. The
/// rest of a longer range would be read 4 KiB at a time, when it is needed.
const FETCHED_UNITS: usize = (128 << 10) / UNIT;

/// Before this process first reads a page of so many units, it has the system read all of it, and does
/// not ask whether it is missing. At a start nothing shows yet that pages are missing, and each unit
/// would wait for the disk by itself.
const LONG_UNITS: u32 = 16;

/// Each window doubles: this many reach 2^47 bytes, all that a process can address.
const WINDOWS: usize = 18;

/// Reads pages of one page file. One value per checkpoint generation. While an `Arc` of it is held,
/// no page is reused that a tree cloned in that generation may reach.
#[derive(Debug)]
pub(crate) struct Pages {
    shared: Arc<Shared>,
    readers: ReaderGuard,
}

/// State shared by all generations.
#[derive(Debug)]
pub(super) struct Shared {
    opened_at: PathBuf,
    /// Set once, when it has got another name.
    renamed_to: OnceLock<PathBuf>,
    file: Arc<dyn File>,
    /// Length of the file in units; references must point inside.
    units: AtomicU64,
    /// Window `n` covers the first `WINDOW_UNITS_MIN << n` units. A run is read through the first
    /// window that holds it completely, so growing never moves what readers have borrowed.
    windows: [OnceLock<Window>; WINDOWS],
    /// Units locked in memory; 0 if none.
    locked: AtomicU64,
    residency: Residency,
    /// `None` if nothing is sealed.
    sealing: Option<Sealing>,
}

#[derive(Debug)]
struct Window {
    map: Arc<dyn Map>,
    verified: VerifiedUnits,
}

impl Window {
    fn is_resident(&self, page: PageRef) -> bool {
        let (start, len) = bytes_of(page);
        self.map.is_resident(start, len)
    }
}

/// Where a page of the file begins, and its length, in bytes.
fn bytes_of(page: PageRef) -> (u64, u64) {
    (page.id * UNIT as u64, page.units as u64 * UNIT as u64)
}

/// The bytes of a node: in place, or a decrypted copy that may be shared.
#[derive(Clone, Debug)]
pub(super) enum Bytes<'a> {
    InPlace(&'a [u8]),
    Decrypted(Arc<[u8]>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::InPlace(bytes) => bytes,
            Bytes::Decrypted(bytes) => bytes,
        }
    }
}

/// A node to read, in memory or on disk.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) image: Bytes<'a>,
    pub(super) children: &'a [Option<Arc<Node>>],
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn of(node: &'a Node) -> View<'a> {
        View {
            image: Bytes::InPlace(node.image.bytes()),
            children: &node.children,
        }
    }

    pub(super) fn on_disk(
        pages: &'a Pages,
        page: PageRef,
        kind: &TreeKind,
        level: u8,
    ) -> Result<View<'a>> {
        Ok(View {
            image: pages.read(page, kind, level)?,
            children: &[],
        })
    }

    #[inline]
    pub(super) fn page(&self) -> Page<'_> {
        Page(&self.image)
    }
}

fn window_for(end_unit: u64) -> usize {
    let windows = end_unit.div_ceil(WINDOW_UNITS_MIN).max(1);
    windows.next_power_of_two().trailing_zeros() as usize
}

impl Shared {
    pub(super) fn new(
        path: &Path,
        file: Arc<dyn File>,
        units: u64,
        data_keys: Option<Arc<DataKeys>>,
    ) -> Result<Shared> {
        let shared = Shared {
            opened_at: path.to_owned(),
            renamed_to: OnceLock::new(),
            file,
            units: AtomicU64::new(0),
            windows: [const { OnceLock::new() }; WINDOWS],
            locked: AtomicU64::new(0),
            residency: Residency::default(),
            sealing: data_keys.map(Sealing::new),
        };
        shared.map_through(units)?;
        shared.set_units(units);
        Ok(shared)
    }

    /// Names the file in errors.
    pub(super) fn path(&self) -> &Path {
        self.renamed_to.get().unwrap_or(&self.opened_at)
    }

    /// The file has got another name, its last one.
    pub(super) fn renamed(&self, path: &Path) {
        let _ = self.renamed_to.set(path.to_owned());
    }

    pub(super) fn sealing(&self) -> Option<&Sealing> {
        self.sealing.as_ref()
    }

    /// Creates the windows for a file of that length.
    pub(super) fn map_through(&self, units: u64) -> Result<()> {
        for (n, window) in self.windows.iter().enumerate().take(window_for(units) + 1) {
            if window.get().is_some() {
                continue;
            }
            let units = WINDOW_UNITS_MIN << n;
            let map = self.file.map(units * UNIT as u64);
            let map = map.map_err(Error::io("map", self.path()))?;
            let verified = VerifiedUnits::new(units);
            // Only the one running checkpoint job calls this after opening: never set twice.
            let _ = window.set(Window { map, verified });
        }
        Ok(())
    }

    /// Locks the whole file in memory from now on.
    pub(super) fn lock(&self) -> Result<()> {
        self.lock_through(self.units())
    }

    pub(super) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Acquire) > 0
    }

    /// The file has this many units now: locks the new ones if the rest is locked.
    pub(super) fn relock(&self, units: u64) -> Result<()> {
        if self.is_locked() {
            self.lock_through(units)
        } else {
            Ok(())
        }
    }

    /// Locks one window, the one that covers the whole file: the others map the same memory.
    fn lock_through(&self, units: u64) -> Result<()> {
        // Only opening the file and the one running checkpoint job come here.
        let before = self.locked.swap(units, Ordering::AcqRel);
        let window = |units| self.windows[window_for(units)].get();
        let is_same = before > 0 && window_for(before) == window_for(units);
        if before > 0
            && !is_same
            && let Some(old) = window(before)
        {
            old.map.unlock(0, before * UNIT as u64);
        }
        let from = if is_same { before.min(units) } else { 0 };
        let new = window(units).expect("mapped as far as references point");
        let locked = new
            .map
            .lock(from * UNIT as u64, (units - from) * UNIT as u64);
        locked.map_err(|error| {
            const WAY_OUT: &str =
                "RLIMIT_MEMLOCK must allow for the whole file (ulimit -l, systemd's LimitMEMLOCK=)";
            let error = io::Error::new(error.kind(), format!("{error}: {WAY_OUT}"));
            Error::io("lock in memory", self.path())(error)
        })
    }

    /// From now on references may point up to `units`.
    pub(super) fn set_units(&self, units: u64) {
        self.units.store(units, Ordering::Release);
    }

    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Acquire)
    }

    /// Forgets that these units were verified; call before they are written.
    pub(super) fn forget(&self, start: u64, units: u64) {
        if let Some(sealing) = &self.sealing {
            (start..start + units).for_each(|unit| sealing.decrypted.forget(unit));
        }
        for window in self.windows.iter().filter_map(OnceLock::get) {
            window.verified.remove(start..start + units);
        }
    }

    fn was_read(&self, page: PageRef) -> bool {
        let window = self.window_of(page);
        window.is_none_or(|window| window.verified.contains(page.id))
    }

    fn is_missing(&self, page: PageRef) -> bool {
        let window = self.window_of(page);
        window.is_some_and(|window| self.residency.is_missing(|| window.is_resident(page)))
    }

    /// The window through which the page is read; `None` if it is beyond the end of the file.
    fn window_of(&self, page: PageRef) -> Option<&Window> {
        let end = page.id.saturating_add(page.units as u64);
        if end > self.units() {
            return None;
        }
        let window = self.windows[window_for(end)].get();
        Some(window.expect("mapped as far as references point"))
    }

    /// Asks the system to read units that will be needed.
    fn fetch(&self, units: Range<u64>) {
        let window = self.windows.get(window_for(units.end));
        let Some(window) = window.and_then(OnceLock::get) else {
            return;
        };
        for start in units.clone().step_by(FETCHED_UNITS) {
            let end = units.end.min(start + FETCHED_UNITS as u64);
            let len = (end - start) * UNIT as u64;
            window.map.will_need(start * UNIT as u64, len);
        }
    }

    fn corrupt(&self, page: PageRef, offset: usize, what: &str) -> Error {
        let start = page.id.saturating_mul(UNIT as u64);
        let what = format!("{what} (page {}, {} units)", page.id, page.units);
        Error::corrupt(self.path(), start.saturating_add(offset as u64), what)
    }

    /// The window of a run inside the file.
    fn locate(&self, page: PageRef) -> Result<&Window> {
        let is_page = page.units > 0 && page.id >= FIRST_UNIT;
        let window = self.window_of(page).filter(|_| is_page);
        window.ok_or_else(|| self.corrupt(page, 0, "reference outside of the file"))
    }

    /// The bytes of a run, unverified.
    fn run<'w>(&self, page: PageRef, window: &'w Window) -> Result<Cow<'w, [u8]>> {
        let (start, len) = bytes_of(page);
        let bytes = window.map.read(start, len as usize);
        bytes.map_err(Error::io("read", self.path()))
    }

    /// Asks the system to read runs that will be read one after the other.
    pub(super) fn read_ahead(&self, runs: &[PageRef]) -> Result<()> {
        for run in runs {
            self.locate(*run)?;
            self.fetch(run.id..run.id + u64::from(run.units));
        }
        Ok(())
    }

    /// Reads any run; checks its checksum on every call.
    pub(super) fn read_checked(&self, page: PageRef) -> Result<Cow<'_, [u8]>> {
        let window = self.locate(page)?;
        let bytes = self.run(page, window)?;
        if checksum(&bytes) != page.crc {
            return Err(self.corrupt(page, 0, "checksum does not match"));
        }
        Ok(bytes)
    }

    #[inline]
    fn read(&self, page: PageRef, kind: &TreeKind, level: u8) -> Result<Bytes<'_>> {
        if let Some(sealing) = &self.sealing
            && let Some(opened) = sealing.decrypted.get(page.id)
        {
            return self.of_kind(Bytes::Decrypted(opened), page, kind, level);
        }
        let window = self.locate(page)?;
        let verified = window.verified.contains(page.id);
        self.before_read(page, window, verified)?;
        let bytes = self.run(page, window)?;
        let bytes = match &self.sealing {
            Some(sealing) if verified && sealed::is_sealed(&bytes) => {
                self.open(sealing, page, &bytes)?
            }
            _ if verified => in_place(bytes),
            _ => {
                let bytes = self.verify(bytes, page, kind, level)?;
                window.verified.insert(page.id);
                bytes
            }
        };
        self.of_kind(bytes, page, kind, level)
    }

    /// Before a page is read that may not be in memory: fails if this thread may not wait for it,
    /// and otherwise has all of a long page read at once. A walk has announced its pages before.
    #[inline]
    fn before_read(&self, page: PageRef, window: &Window, was_read: bool) -> Result<()> {
        let is_resident = || window.is_resident(page);
        let may_wait = resident::may_wait();
        if may_wait && page.units == 1 {
            // The read is the same, whether the page is missing or not.
            self.residency.sample(is_resident);
            return Ok(());
        }
        let is_missing = if was_read || may_wait {
            self.residency.seems_missing(is_resident)
        } else {
            self.residency.is_missing(is_resident)
        };
        if !may_wait && is_missing {
            resident::refuse();
            return Err(self.corrupt(page, 0, "not in memory, and not to be waited for"));
        }
        if is_missing || !was_read && page.units >= LONG_UNITS {
            self.fetch(page.id..page.id + page.units as u64);
        }
        Ok(())
    }

    /// A cheap check that keeps a wrong reference to a verified page from doing harm: a child is
    /// always one level below its parent, so that no path is endless.
    #[inline]
    fn of_kind<'p>(
        &self,
        bytes: Bytes<'p>,
        page: PageRef,
        kind: &TreeKind,
        level: u8,
    ) -> Result<Bytes<'p>> {
        let seen = Page(&bytes);
        if seen.level() != level || seen.tree() != kind.id || seen.units() != page.units {
            return Err(self.corrupt(page, 0, "reference to a page of another kind"));
        }
        Ok(bytes)
    }

    #[cold]
    fn verify<'p>(
        &self,
        bytes: Cow<'p, [u8]>,
        page: PageRef,
        kind: &TreeKind,
        level: u8,
    ) -> Result<Bytes<'p>> {
        if checksum(&bytes) != page.crc {
            return Err(self.corrupt(page, 0, "checksum does not match"));
        }
        let bytes = match &self.sealing {
            Some(sealing) if sealed::is_sealed(&bytes) => self.open(sealing, page, &bytes)?,
            _ => in_place(bytes),
        };
        match validate(&bytes, kind, level) {
            Ok(()) => Ok(bytes),
            Err((offset, what)) => Err(self.corrupt(page, offset, what)),
        }
    }

    /// Decrypts a sealed page, and caches the result.
    #[cold]
    fn open(&self, sealing: &Sealing, page: PageRef, sealed: &[u8]) -> Result<Bytes<'static>> {
        let opened = sealing.open(page.id, sealed);
        let opened = opened.map_err(|what| self.corrupt(page, 0, &what))?;
        sealing.decrypted.put(page.id, &opened);
        Ok(Bytes::Decrypted(opened))
    }
}

fn in_place(bytes: Cow<'_, [u8]>) -> Bytes<'_> {
    match bytes {
        Cow::Borrowed(bytes) => Bytes::InPlace(bytes),
        // Only the simulated disk returns copies.
        Cow::Owned(bytes) => Bytes::Decrypted(bytes.into()),
    }
}

impl Pages {
    pub(super) fn new(shared: Arc<Shared>) -> Pages {
        Pages {
            shared,
            readers: ReaderGuard::new(),
        }
    }

    /// A watch that shows when the last reader of these pages is gone.
    pub(super) fn watch(&self) -> GuardWatch {
        self.readers.watch()
    }

    /// The id of the key that seals a node on disk; nothing is verified.
    pub(super) fn key_of(&self, page: PageRef) -> Result<u32> {
        let bytes = self.shared.run(page, self.shared.locate(page)?)?;
        Ok(sealed::key_id(&bytes))
    }

    /// A node on disk; verified the first time.
    #[inline]
    pub(super) fn read(&self, page: PageRef, kind: &TreeKind, level: u8) -> Result<Bytes<'_>> {
        self.shared.read(page, kind, level)
    }

    /// Announces that these pages will be read, in this order. Does nothing for pages that were
    /// read before and are in memory still, since a system call costs more than looking there: the
    /// last page tells it of all.
    pub(super) fn announce(&self, pages: impl DoubleEndedIterator<Item = PageRef> + Clone) {
        let (shared, last) = (&self.shared, pages.clone().next_back());
        let all = last.is_some_and(|last| shared.is_missing(last));
        let mut run = 0..0;
        for page in pages.filter(|page| all || !shared.was_read(*page)) {
            let end = page.id.saturating_add(page.units as u64);
            if page.id == run.end {
                run.end = end;
                continue;
            }
            shared.fetch(std::mem::replace(&mut run, page.id..end));
        }
        shared.fetch(run);
    }

    /// True if pages were missing from memory not long ago, so that it pays to announce single ones.
    #[inline]
    pub(crate) fn are_often_missing(&self) -> bool {
        self.shared.residency.is_doubtful()
    }

    /// Announces a page that is read soon, if it is not in memory.
    pub(super) fn announce_one(&self, page: PageRef) {
        if self.shared.is_missing(page) {
            self.shared.fetch(page.id..page.id + page.units as u64);
        }
    }

    /// A node on disk; its checksum and structure are verified in any case.
    pub(super) fn read_again(
        &self,
        page: PageRef,
        kind: &TreeKind,
        level: u8,
    ) -> Result<Bytes<'_>> {
        let bytes = self.shared.run(page, self.shared.locate(page)?)?;
        self.shared.verify(bytes, page, kind, level)
    }

    /// Child `index` of a branch.
    #[inline]
    pub(super) fn child<'a>(
        &'a self,
        kind: &TreeKind,
        parent: &View<'a>,
        index: usize,
    ) -> Result<View<'a>> {
        if let Some(Some(node)) = parent.children.get(index) {
            return Ok(View::of(node));
        }
        let page = parent.page();
        let image = self.read(page.child(index), kind, page.level() - 1)?;
        Ok(View {
            image,
            children: &[],
        })
    }
}
