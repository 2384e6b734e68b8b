//! Encryption at rest: which keys exist, and what is sealed under which. `btree::sealed` describes
//! how a page is sealed, `wal::sealed` how a record of the log is.
//!
//! ```text
//!  key file / command (a KMS)      member/keys                  pages and log
//!  ┌─────────────────────┐ wraps ┌──────────────────┐ HKDF  ┌────────────────────────┐
//!  │ id, key-encryption  │──────►│ id, random data  │──────►│ subkey of one salt and │
//!  │ key; first: new     │       │ key, sealed      │ salt  │ purpose; AES-256-GCM   │
//!  └─────────────────────┘       └──────────────────┘       └────────────────────────┘
//! ```
//!
//! Everything that holds users' data is sealed: whole tree pages except their headers (lengths and
//! levels), and whole payloads of log records. The meta pages, the lists of free space and the
//! heads of records stay clear. Checksums cover the bytes as stored on disk: damage shows without a
//! key.
//!
//! # Why no nonce repeats
//!
//! Each call of AES-GCM has a *scope*, whose random salt of 128 bits makes the subkey, and a
//! *position*, which is the nonce.
//!
//! 1. **Within a scope no position comes twice.** The pages of one checkpoint, or of one spill
//!    between checkpoints, are a scope (`btree::checkpoint::output::Output` draws its salt with the first
//!    page and is dropped with the job). Its position is the first unit of a run, and the runs are
//!    disjoint, because nothing it allocated is free again before the checkpoint after the next
//!    (`btree::space`). One stretch of a log segment is a scope. Its position is the place in the
//!    segment's stream, which only grows while the scope lives. A record is sealed once, when it is
//!    appended, and a later write of the same sector repeats the sealed bytes. A wrapped data key
//!    is a separate scope with one position. So is a scratch file (`scratch`), under a key that is
//!    drawn for it and kept only in memory: its position is the number of a block, and each block
//!    is sealed once, in order.
//! 2. **A scope never outlives its process**, nor the checkpoint or segment it is for. Recovery
//!    that cuts a torn record and continues in its place in the stream first begins a new scope, so
//!    the lost record and its successor there have different subkeys. When a power cut interrupts a
//!    checkpoint, the next try draws a new salt. When the disk is full, a checkpoint later writes
//!    the same sealed bytes again, or draws a new salt for the node that failed. After any other
//!    failed write the process ends.
//! 3. **Nothing must be remembered for that.** There is no counter on disk that a crash could lose
//!    or an old copy of the directory could turn back. Two servers started from copies of one
//!    directory have the same data keys and different salts.
//! 4. **Salts differ**: of n scopes under one data key any two share one with probability below
//!    n²/2^129. A hundred scopes per second for a century (2^39 of them, spills included): below
//!    2^-51. Even then the same position would have to be written in both. The purpose is part of
//!    the derivation, so a page and a record can never share a subkey.
//!
//! Two conditions remain. The operating system's random numbers do not repeat. The memory of a
//! *running* server is not resumed twice: a virtual machine's snapshot with memory that is resumed
//! two times repeats the positions of an open scope; copies of its disk do not.
//!
//! A scope seals at most a segment (2^31 bytes) or a checkpoint; at 1 TiB in one checkpoint that is
//! 2^36 blocks, an advantage below 2^-55. One call seals less than 2^32 bytes.
//!
//! # Rotation
//!
//! When the key file has a new first key, a data key is made for it, durably in `member/keys`,
//! before anything is sealed under it. From then on each new checkpoint and log segment uses it.
//! Older data stays readable, and the directory is *mixed*, until all pages were written again, the
//! log was dropped up to there and free space was wiped. Then `retire` forgets the other keys. It
//! waits while there is a store beside the one in use, which may be installed: its pages are only
//! looked through once it is. Key id 0 means no key: encryption is turned on and off by the same
//! steps.

mod cipher;
pub(crate) mod decrypted;
mod key_file;
mod keyring;
#[cfg(any(test, fuzzing))]
pub(crate) mod sample;
mod scratch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::vfs::Vfs;
use crate::{Error, Result};
use cipher::Key;
pub(crate) use cipher::{Purpose, SALT_BYTES, Salt, Subkey, TAG_BYTES};
pub use decrypted::DECRYPTED_BYTES;
pub use key_file::KeyFile;
use keyring::{Entry, Keyring};
pub use scratch::{Scratch, ScratchWriter};

/// The key id of data that is not sealed.
pub const CLEAR: u32 = 0;

/// Most keys in use at one time, and in one key file.
pub const KEYS_MAX: usize = 32;

/// Subkeys cached for reading pages, one per checkpoint that wrote them: about 150 KB.
const SUBKEYS_MAX: usize = 256;

/// The keys of one data directory, shared by its log and its page file.
#[derive(Debug)]
pub struct DataKeys {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    state: RwLock<State>,
    /// Equal to the one in `state`, readable without its lock at every write.
    active: AtomicU32,
    /// Number of changes of the active key so far, plus one.
    epoch: AtomicU64,
    /// The newest epoch for which the whole log is sealed like new records.
    log_settled: AtomicU64,
    subkeys: Mutex<HashMap<(u32, Salt), Arc<Subkey>>>,
    /// Shared with each [`Kept`].
    kept: Arc<()>,
}

/// While it exists, no key is forgotten.
#[derive(Debug)]
pub(crate) struct Kept {
    _kept: Arc<()>,
}

#[derive(Debug, Default)]
struct State {
    /// As stored on disk.
    ring: Keyring,
    /// The data keys of its entries.
    keys: BTreeMap<u32, Key>,
}

/// A new scope.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) key: u32,
    pub(crate) salt: Salt,
    pub(crate) subkey: Subkey,
}

impl DataKeys {
    /// Opens the keys stored at `path` with those of the key file, and switches to its first one.
    /// `None` if nothing is sealed here and no key is given. `is_new`: the directory holds no data.
    /// Refuses before anything is written if a key in use is missing or differs.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        keys: Option<&KeyFile>,
        is_new: bool,
    ) -> Result<Option<Arc<DataKeys>>> {
        let found = Keyring::read(&*vfs, path)?;
        let Some(keys) = keys else {
            return match found {
                None => Ok(None),
                Some(ring) => Err(refuse(
                    path,
                    format!(
                        "the data is sealed under {}, and no keys are given",
                        names(ring.entries.iter().map(|entry| entry.id))
                    ),
                )),
            };
        };
        let ring = found.unwrap_or(Keyring {
            clear_left: !is_new,
            ..Keyring::default()
        });
        let data_keys = DataKeys {
            vfs,
            path: path.to_owned(),
            state: RwLock::default(),
            active: AtomicU32::new(CLEAR),
            epoch: AtomicU64::new(1),
            log_settled: AtomicU64::new(0),
            subkeys: Mutex::default(),
            kept: Arc::default(),
        };
        let state = data_keys.with_keys(ring, keys)?;
        data_keys.active.store(state.ring.active, Ordering::Release);
        *data_keys.state.write() = state;
        Ok(Some(Arc::new(data_keys)))
    }

    /// Takes a changed key file. Returns true if new writes are now sealed differently.
    pub fn change(&self, keys: &KeyFile) -> Result<bool> {
        let mut state = self.state.write();
        let before = state.ring.active;
        *state = self.with_keys(state.ring.clone(), keys)?;
        let is_other = state.ring.active != before;
        if is_other {
            self.active.store(state.ring.active, Ordering::Release);
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        Ok(is_other)
    }

    /// The id of the key for new writes; `CLEAR` if they are not sealed.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Acquire)
    }

    /// Ids of other keys that may seal older data.
    pub fn others(&self) -> Vec<u32> {
        let state = self.state.read();
        let ring = &state.ring;
        let ids = ring.entries.iter().map(|entry| entry.id);
        let clear = ring.clear_left && ring.active != CLEAR;
        let ids = clear.then_some(CLEAR).into_iter().chain(ids);
        ids.filter(|id| *id != ring.active).collect()
    }

    /// True if older data may be sealed differently from new writes.
    pub fn is_mixed(&self) -> bool {
        self.state.read().ring.is_mixed()
    }

    /// Changes whenever new writes begin to be sealed differently, even if that is as they once
    /// were.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Reports that the log, asked at `epoch`, holds no older data.
    pub(crate) fn log_is_settled(&self, epoch: u64) {
        self.log_settled.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Keeps all keys that are or become active from now on, for pages that re-encryption does not
    /// look at yet.
    pub(crate) fn keep(&self) -> Kept {
        Kept {
            _kept: Arc::clone(&self.kept),
        }
    }

    /// True if a [`Kept`] exists.
    pub(crate) fn are_kept(&self) -> bool {
        Arc::strong_count(&self.kept) > 1
    }

    /// Forgets all keys except the active one, if none is kept and the log is settled, too; the
    /// caller states that the page file was settled at `epoch`. Durable on return.
    pub(crate) fn retire(&self, epoch: u64) -> Result<bool> {
        let mut state = self.state.write();
        let settled = self.log_settled.load(Ordering::Acquire).min(epoch);
        // Whoever keeps the keys asked for that before it sealed anything, under this lock.
        if settled != self.epoch() || self.are_kept() {
            return Ok(false);
        }
        if !state.ring.is_mixed() {
            return Ok(true);
        }
        let active = state.ring.active;
        let ring = Keyring {
            active,
            // Writes are clear from now on, until there is a key again.
            clear_left: active == CLEAR,
            entries: state.ring.entry(active).cloned().into_iter().collect(),
        };
        if active == CLEAR {
            Keyring::remove(&*self.vfs, &self.path)?;
        } else {
            ring.write(&*self.vfs, &self.path)?;
        }
        state.keys.retain(|id, _| *id == active);
        state.ring = ring;
        self.subkeys.lock().retain(|(id, _), _| *id == active);
        Ok(true)
    }

    /// A scope under the active key; `None` if new writes stay clear.
    pub(crate) fn scope(&self, purpose: Purpose) -> Result<Option<Scope>> {
        let state = self.state.read();
        let id = state.ring.active;
        let Some(key) = state.keys.get(&id) else {
            return Ok(None);
        };
        let salt = cipher::random().map_err(Error::io("draw a salt for", &self.path))?;
        Ok(Some(Scope {
            key: id,
            salt,
            subkey: Subkey::derive(key, purpose, &salt),
        }))
    }

    /// The subkey of a scope found on disk; `None` if its key is missing.
    pub(crate) fn subkey(&self, id: u32, purpose: Purpose, salt: &Salt) -> Option<Subkey> {
        let state = self.state.read();
        let key = state.keys.get(&id)?;
        Some(Subkey::derive(key, purpose, salt))
    }

    /// Like `subkey` for pages, cached: pages read together often come from one checkpoint.
    pub(crate) fn page_subkey(&self, id: u32, salt: &Salt) -> Option<Arc<Subkey>> {
        if let Some(subkey) = self.subkeys.lock().get(&(id, *salt)) {
            return Some(subkey.clone());
        }
        let subkey = Arc::new(self.subkey(id, Purpose::Page, salt)?);
        let mut subkeys = self.subkeys.lock();
        if subkeys.len() >= SUBKEYS_MAX {
            subkeys.clear();
        }
        subkeys.insert((id, *salt), subkey.clone());
        Some(subkey)
    }

    /// Opens the ring with `keys` and makes their first one active, durably.
    fn with_keys(&self, mut ring: Keyring, keys: &KeyFile) -> Result<State> {
        let mut plain = BTreeMap::new();
        for entry in &ring.entries {
            let id = entry.id;
            let Some(key) = keys.keys.get(&id) else {
                let what = format!("data is sealed under key {id}, which {} lacks", keys.name);
                return Err(refuse(&self.path, what));
            };
            let Some(data) = entry.unwrap(key) else {
                let what = format!(
                    "data is sealed under another key {id} than that of {}",
                    keys.name
                );
                return Err(refuse(&self.path, what));
            };
            plain.insert(id, data);
        }
        let first = keys.first;
        if first == ring.active {
            return Ok(State { ring, keys: plain });
        }
        if first != CLEAR && ring.entry(first).is_none() {
            if ring.entries.len() >= KEYS_MAX {
                let what = format!("{KEYS_MAX} keys are in use, there is no room for key {first}");
                return Err(refuse(&self.path, what));
            }
            let (entry, data) = Entry::make(first, &keys.keys[&first])
                .map_err(Error::io("draw a key for", &self.path))?;
            ring.entries.push(entry);
            plain.insert(first, data);
        }
        // A new directory holds nothing clear: `clear_left` is false then, and stays so for a key.
        ring.clear_left |= first == CLEAR;
        ring.active = first;
        ring.write(&*self.vfs, &self.path)?;
        Ok(State { ring, keys: plain })
    }
}

fn refuse(path: &Path, what: String) -> Error {
    Error::Encryption {
        path: path.to_owned(),
        what,
    }
}

fn names(ids: impl Iterator<Item = u32>) -> String {
    let ids: Vec<String> = ids.map(|id| format!("key {id}")).collect();
    ids.join(" and ")
}
