//! Upgrades stores made before the key tree knew the sizes of values. This happens once, before
//! anything else, in steps that keep dirty memory small. A crash in between loses nothing: the next
//! start skips the sizes that are known.

use crate::Result;
use crate::mvcc::key;
use crate::mvcc::key::{StampBytes, VersionKey};
use crate::mvcc::load::DIRTY_BYTES_MAX;
use crate::mvcc::{Root, Store};

/// Rows looked at between two checks of the memory in use.
const ROWS_PER_STEP: usize = 4096;

impl Store {
    /// True if [`Root::usage`] misses bytes.
    pub fn lacks_sizes(&self) -> bool {
        self.unsized_from.is_some()
    }

    /// Puts the size of every live key's value into the key tree; `false` if the disk is too full.
    /// Nothing else may use the store meanwhile.
    pub fn learn_sizes(&mut self) -> Result<bool> {
        while let Some(from) = self.unsized_from.take() {
            self.unsized_from = self.learn_step(&from)?;
            self.touch();
            let is_much = self.stats().dirty_bytes >= DIRTY_BYTES_MAX;
            if is_much && !self.checkpoint_alone()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the key to continue from.
    fn learn_step(&mut self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        // A store that lacks sizes is older than deltas.
        assert!(self.root.keys.is_plain());
        let Store { root, file, .. } = self;
        let Looked { found, next } = unsized_rows(root, from)?;
        for row in found {
            let (key, revision) = root.split(&row)?;
            let Some((_, mut stamp)) = root.version_at(key, revision.main)? else {
                return Err(root.damaged(format!("no version {revision:?} of a key")));
            };
            let change = root
                .revisions
                .get(&root.pages, &key::revision_key(revision))?;
            let Some(change) = change else {
                return Err(root.damaged(format!("row {revision:?} is not in the revision tree")));
            };
            stamp.size = Some(root.row(&change, revision)?.value.len() as u64);
            drop(change);
            let stamp = StampBytes::new(&stamp, revision);
            root.keys.base.insert(file.writer(), &row, stamp.as_ref())?;
        }
        Ok(next)
    }
}

/// Rows of the key tree that were looked at.
#[derive(Default)]
struct Looked {
    /// Rows of live keys without a size.
    found: Vec<Vec<u8>>,
    /// The key to continue from.
    next: Option<Vec<u8>>,
}

/// Looks at the next rows.
fn unsized_rows(root: &Root, from: &[u8]) -> Result<Looked> {
    let mut looked = Looked::default();
    let mut cursor = root.keys.cursor(&root.pages);
    let mut more = cursor.seek(&VersionKey::newest_of(from))?;
    for _ in 0..ROWS_PER_STEP {
        if !more {
            return Ok(looked);
        }
        let (_, revision) = root.split(cursor.key())?;
        let lacks_size = root.stamp(cursor.value(), revision)?.size.is_none();
        if key::is_live_head(cursor.value()) && lacks_size {
            looked.found.push(cursor.key().to_vec());
        }
        more = cursor.next()?;
    }
    if !more {
        return Ok(looked);
    }
    let (key, _) = root.split(cursor.key())?;
    // A key whose newest version was looked at has no other live version. It may have more versions
    // than a step has rows, so the walk does not begin with it again.
    looked.next = Some(if key::is_live_head(cursor.value()) {
        key.to_vec()
    } else {
        [key, &[0]].concat()
    });
    Ok(looked)
}
