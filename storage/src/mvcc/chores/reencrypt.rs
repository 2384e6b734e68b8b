//! Re-encryption: after the active key has changed, everything written before is written again, in
//! steps between other work, until nothing needs the old keys. Then they are forgotten.
//!
//! | phase | what happens | ends when |
//! |---|---|---|
//! | pages | all trees are walked; pages under other keys become dirty | the walk is over |
//! | wiping | checkpoints: both metas name new pages, old ones become free, zeros go over them | free space is wiped |
//! | log | checkpoints let the log drop older records | all segments are under the active key |
//!
//! A store that is being received beside this one keeps all keys (`DataKeys::keep`). If it replaces
//! this one, the walk begins again in its pages.
//!
//! Nothing of this is recorded on disk except the keys in use: a restart walks again, and finds
//! most pages done.

use super::rewrite::Place;
use crate::Result;
use crate::btree::Unfit;
use crate::encryption::DataKeys;
use crate::mvcc::Store;

/// Progress of re-encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reencryption {
    /// What must happen next for it to continue.
    pub next: Next,
    /// Bytes of pages looked at in this walk; `total_bytes` is approximate.
    pub walked_bytes: u64,
    pub total_bytes: u64,
    /// Key ids: that of new writes, and others that may still be in use. 0 means clear.
    pub active: u32,
    pub others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another step, at any time.
    Step,
    /// A checkpoint must begin or end: a running one, or one of [`Store::begin_checkpoint`], which
    /// now always has work.
    Checkpoint,
    /// A store that is being received beside this one must be installed or dropped: it keeps the
    /// keys, and no checkpoint of this one would help.
    Wait,
    /// Nothing: the other keys are forgotten.
    Done,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// Epoch of the keys; 0 if no walk is running.
    epoch: u64,
    place: Place,
    walked: u64,
    over: bool,
}

impl Store {
    /// True if data may be sealed differently from new writes.
    pub fn needs_reencryption(&self) -> bool {
        self.file
            .data_keys()
            .is_some_and(|data_keys| data_keys.is_mixed())
    }

    /// Continues re-encryption; looks at about `budget` bytes of pages.
    pub fn reencrypt_step(&mut self, budget: u64) -> Result<Reencryption> {
        let Some(data_keys) = self
            .file
            .data_keys()
            .filter(|data_keys| data_keys.is_mixed())
            .cloned()
        else {
            return Ok(self.reencryption(Next::Done, None));
        };
        let epoch = data_keys.epoch();
        if self.file.checkpoint_running() {
            return Ok(self.reencryption(Next::Checkpoint, Some(&data_keys)));
        }
        if self.walk.epoch != epoch {
            self.file.end_wipe();
            self.walk = Walk {
                epoch,
                ..Walk::default()
            };
        }
        if !self.walk.over {
            self.walk_on(data_keys.active(), budget)?;
            return Ok(self.reencryption(Next::Step, Some(&data_keys)));
        }
        let wiped = self.file.wipe().is_some_and(|wipe| wipe.is_done());
        if wiped && data_keys.retire(epoch)? {
            self.walk = Walk::default();
            self.file.end_wipe();
            return Ok(self.reencryption(Next::Done, Some(&data_keys)));
        }
        if wiped && data_keys.are_kept() {
            return Ok(self.reencryption(Next::Wait, Some(&data_keys)));
        }
        self.settle_space();
        Ok(self.reencryption(Next::Checkpoint, Some(&data_keys)))
    }

    fn walk_on(&mut self, key: u32, budget: u64) -> Result<()> {
        let mut place = std::mem::take(&mut self.walk.place);
        let (looked_at, over) =
            self.rewrite_step(&mut place, Unfit::NotSealedUnder(key), budget)?;
        self.walk.place = place;
        self.walk.walked += looked_at;
        self.walk.over = over;
        if over {
            self.file.begin_wipe();
        }
        Ok(())
    }

    fn reencryption(&self, next: Next, data_keys: Option<&DataKeys>) -> Reencryption {
        let stats = self.stats();
        Reencryption {
            next,
            walked_bytes: self.walk.walked,
            total_bytes: stats.in_use_bytes.max(self.walk.walked),
            active: data_keys.map_or(0, DataKeys::active),
            others: data_keys.map_or(Vec::new(), DataKeys::others),
        }
    }
}
