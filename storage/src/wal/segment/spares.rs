//! Spare files, which become segments, and the dropped segments that become spares or are removed.
//! Helper threads do most of this work.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Name;
use crate::vfs::{self, File, Open, Vfs, is_full};
use crate::{Error, Result};

/// Spare files kept: one to roll over to, and eight more, because a checkpoint drops at most about so
/// many segments at once. So a drop need not free blocks, and the log need not reserve new ones.
pub const SPARES_MAX: usize = 9;

/// A file of full size that can become a segment.
#[derive(Clone, Debug)]
pub(in crate::wal) struct Spare {
    pub(in crate::wal) path: PathBuf,
    pub(in crate::wal) bytes: u64,
    /// A dropped segment: every block of it has been written.
    pub(in crate::wal) used: bool,
    /// It may hold records of an earlier life.
    pub(in crate::wal) stale: bool,
    /// The page cache holds it in pieces as large as its writes were. Smaller writes of its next
    /// life would dirty, and be charged for, whole pieces.
    pub(in crate::wal) cached: bool,
}

/// A segment that leaves the log.
#[derive(Clone, Debug)]
pub(in crate::wal) struct Dropped {
    pub(in crate::wal) path: PathBuf,
    pub(in crate::wal) bytes: u64,
}

/// Spare files, shared by the log and the helper thread that prepares them.
#[derive(Clone, Debug)]
pub(in crate::wal) struct Spares {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    /// Held while dropped segments and useless files are removed, so that removal happens in order,
    /// and a caller that needs them gone can wait.
    removing: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<Spare>,
    next_number: u64,
    /// A job is running; at most one at a time.
    preparing: bool,
    /// Segments that left the log, oldest first, still under their names.
    dropped: VecDeque<Dropped>,
    /// Useless files, to be removed.
    useless: Vec<PathBuf>,
    /// Someone waits for the removal.
    hurry: bool,
}

impl Spares {
    /// `next_number` is above those of all existing spares.
    pub(in crate::wal) fn new(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        ready: Vec<Spare>,
        next_number: u64,
    ) -> Self {
        let state = State {
            ready,
            next_number,
            preparing: false,
            dropped: VecDeque::new(),
            useless: Vec::new(),
            hurry: false,
        };
        Spares {
            vfs,
            dir: dir.to_owned(),
            state: Arc::new(Mutex::new(state)),
            removing: Arc::default(),
        }
    }

    pub(in crate::wal) fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::clone(&self.vfs)
    }

    pub(in crate::wal) fn is_empty(&self) -> bool {
        self.state.lock().ready.is_empty()
    }

    /// A spare of at least that size; `fresh`: only one that never held records.
    pub(in crate::wal) fn take(&self, bytes: u64, fresh: bool) -> Option<Spare> {
        let mut state = self.state.lock();
        let fits = |spare: &Spare| spare.bytes >= bytes && !(fresh && spare.stale);
        let fits = state.ready.iter().position(fits)?;
        Some(state.ready.remove(fits))
    }

    /// Makes a file of that size on this thread: reserves its space, writes nothing.
    pub(in crate::wal) fn make(&self, bytes: u64) -> Result<Spare> {
        let number = self.number();
        let (preparing, spare) = (Name::Preparing(number), Name::Spare(number));
        let path = preparing.path(&self.dir);
        let made = self.reserve(&path, bytes);
        if made.is_err() {
            // Best effort: gives the space back to a full disk. Otherwise recovery removes the
            // file.
            let _ = self.vfs.remove(&path);
        }
        made?;
        let to = spare.path(&self.dir);
        self.rename(&path, &to)?;
        Ok(Spare {
            path: to,
            bytes,
            used: false,
            stale: false,
            cached: false,
        })
    }

    pub(in crate::wal) fn put(&self, spare: Spare) {
        self.state.lock().ready.push(spare);
    }

    /// Removes the files that may hold records of an earlier life, and the files left to a job.
    pub(in crate::wal) fn discard_stale(&self) -> Result<()> {
        self.state.lock().hurry = true;
        let removing = self.removing.lock();
        let mut removed = Ok(());
        while let (Ok(()), Some(dropped)) = (&removed, self.next_dropped()) {
            removed = self.remove_durably(&dropped.path);
        }
        let removed = removed.and_then(|()| self.remove_useless(&mut || ()));
        drop(removing);
        let stale: Vec<Spare> = {
            let mut state = self.state.lock();
            state.hurry = false;
            state.ready.extract_if(.., |spare| spare.stale).collect()
        };
        removed?;
        for spare in &stale {
            let path = &spare.path;
            self.vfs.remove(path).map_err(Error::io("remove", path))?;
        }
        if stale.is_empty() {
            Ok(())
        } else {
            self.sync_dir()
        }
    }

    /// Leaves the oldest segment to a [`DropJob`], which renames files and syncs the directory; no
    /// write to the log should wait for that. After a crash it is a segment again, and is dropped
    /// again.
    pub(in crate::wal) fn drop_later(&self, dropped: Dropped) {
        self.state.lock().dropped.push_back(dropped);
    }

    /// Removes a segment while none is left to a job (see `discard_stale`). Durable on return.
    pub(in crate::wal) fn drop_now(&self, dropped: &Dropped) -> Result<()> {
        self.remove_durably(&dropped.path)
    }

    fn next_dropped(&self) -> Option<Dropped> {
        self.state.lock().dropped.pop_front()
    }

    fn remove_durably(&self, path: &Path) -> Result<()> {
        self.vfs.remove(path).map_err(Error::io("remove", path))?;
        self.sync_dir()
    }

    /// Takes all dropped segments out of the log, one by one, each durably before the next: a gap
    /// would count as a loss. The caller holds `removing`. Segments of the wanted size become
    /// spares, up to `SPARES_MAX`.
    fn recycle(&self, wanted: u64) -> Result<()> {
        while let Some(Dropped { path, bytes }) = self.next_dropped() {
            let keep = bytes == wanted && self.state.lock().ready.len() < SPARES_MAX;
            let number = self.number();
            let name = if keep {
                Name::Spare(number)
            } else {
                Name::Preparing(number)
            };
            let to = name.path(&self.dir);
            self.rename(&path, &to)?;
            if keep {
                self.put(Spare {
                    path: to,
                    bytes,
                    used: true,
                    stale: true,
                    cached: true,
                });
            } else {
                self.state.lock().useless.push(to);
            }
            self.sync_dir()?;
        }
        Ok(())
    }

    /// A job for a helper thread after segments were dropped.
    pub(in crate::wal) fn drop_job(&self, wanted: u64) -> Option<DropJob> {
        let state = self.state.lock();
        let files = !state.dropped.is_empty() || !state.useless.is_empty();
        let needed = files || state.ready.iter().any(|spare| spare.cached);
        needed.then(|| DropJob {
            spares: self.clone(),
            wanted,
        })
    }

    /// Takes spares out of the page cache. It does no harm if one becomes a segment meanwhile.
    fn forget_cached(&self) -> Result<()> {
        loop {
            let file = {
                let mut state = self.state.lock();
                let Some(spare) = state.ready.iter_mut().find(|spare| spare.cached) else {
                    return Ok(());
                };
                spare.cached = false;
                let file = self.vfs.open(&spare.path, Open::Existing);
                file.map_err(Error::io("open", &spare.path))?
            };
            file.forget();
        }
    }

    /// Removes useless files in steps, so that the log's syncs do not wait until a whole file is
    /// freed. The caller holds `removing`.
    fn remove_useless(&self, rest: &mut dyn FnMut()) -> Result<()> {
        loop {
            let Some(path) = self.state.lock().useless.pop() else {
                return Ok(());
            };
            let file = self.vfs.open(&path, Open::Existing);
            let file = file.map_err(Error::io("open", &path))?;
            match vfs::shorten(&*file, 0, &mut *rest) {
                // Some file systems need space to free space.
                Err(error) if is_full(&error) => {}
                done => done.map_err(Error::io("truncate", &path))?,
            }
            self.vfs.remove(&path).map_err(Error::io("remove", &path))?;
        }
    }

    /// Gives the spare its name as a segment. Durable on return.
    pub(in crate::wal) fn install(&self, spare: &Spare, to: &Path) -> Result<Arc<dyn File>> {
        self.rename(&spare.path, to)?;
        self.sync_dir()?;
        self.vfs
            .open(to, Open::Existing)
            .map_err(Error::io("open", to))
    }

    /// A job for a helper thread, unless a spare is ready or in preparation.
    pub(in crate::wal) fn job(&self, bytes: u64) -> Option<PrepareJob> {
        let mut state = self.state.lock();
        if state.preparing || !state.ready.is_empty() {
            return None;
        }
        state.preparing = true;
        Some(PrepareJob {
            spares: self.clone(),
            bytes,
        })
    }

    fn reserve(&self, path: &Path, bytes: u64) -> Result<()> {
        let file = self
            .vfs
            .open(path, Open::New)
            .map_err(Error::io("create", path))?;
        file.set_len(bytes).map_err(Error::io("grow", path))?;
        file.sync_data().map_err(Error::io("sync", path))
    }

    fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.next_number += 1;
        state.next_number - 1
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.vfs.rename(from, to).map_err(Error::io("rename", from))
    }

    fn sync_dir(&self) -> Result<()> {
        self.vfs
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))
    }
}

/// Creates a segment file ahead of its use; runs on any thread.
#[derive(Debug)]
pub struct PrepareJob {
    spares: Spares,
    bytes: u64,
}

impl PrepareJob {
    /// A failure loses no records; the log then makes its next file itself.
    pub fn run(self) -> Result<()> {
        let spare = self.spares.make(self.bytes)?;
        self.spares.put(spare);
        Ok(())
    }
}

impl Drop for PrepareJob {
    fn drop(&mut self) {
        self.spares.state.lock().preparing = false;
    }
}

/// The remaining work for dropped segments, some tens of milliseconds each; runs on any thread.
#[derive(Debug)]
pub struct DropJob {
    spares: Spares,
    /// The size of a new segment.
    wanted: u64,
}

impl DropJob {
    /// Files that could not be removed go when the log is opened again. If there are several jobs,
    /// one works at a time: `rest` is called when it may begin, and between pieces of the work, and
    /// may wait.
    pub fn run(self, mut rest: impl FnMut()) -> Result<()> {
        let mut rest = || {
            // The lock is not held during `rest`: the log asks for its spares with every write.
            let hurry = self.spares.state.lock().hurry;
            if !hurry {
                rest();
            }
        };
        let removing = self.spares.removing.lock();
        rest();
        self.spares.recycle(self.wanted)?;
        self.spares.remove_useless(&mut rest)?;
        drop(removing);
        self.spares.forget_cached()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimVfs;

    #[test]
    fn the_log_finds_its_spares_while_the_removal_of_a_file_rests() {
        let (vfs, dir) = (SimVfs::new(1), Path::new("/log"));
        vfs.create_dir_all(dir).unwrap();
        let spares = Spares::new(Arc::new(vfs.clone()), dir, Vec::new(), 1);
        let made = spares.make(4096).unwrap();
        spares.drop_later(Dropped {
            path: made.path,
            bytes: 4096,
        });
        let mut rests = 0;
        let rest = || {
            assert!(spares.state.try_lock().is_some());
            // Nothing is waited for while another removal could be at work.
            assert!(spares.removing.try_lock().is_none());
            rests += 1;
        };
        spares.drop_job(8192).unwrap().run(rest).unwrap();
        assert_eq!(rests, 2);
        assert!(vfs.list(dir).unwrap().is_empty());
    }
}
