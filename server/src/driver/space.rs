//! Looking how full the disks are, for the applier's space alarm.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storage::vfs::{DiskSpace, Vfs};

use super::{Note, Ports, Shared};
use crate::event::{ApplyEvent, Look};

/// Between two looks. What fills the disk faster is told by the store, which cannot set space aside
/// any more.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whose space it is. The log may have a disk to itself.
pub struct Disks {
    vfs: Arc<dyn Vfs>,
    store_dir: PathBuf,
    log_dir: PathBuf,
    shared: Arc<Shared>,
    /// That one of them cannot be looked at was told.
    failed: bool,
}

impl Disks {
    pub fn new(
        vfs: Arc<dyn Vfs>,
        store_dir: PathBuf,
        log_dir: PathBuf,
        shared: Arc<Shared>,
    ) -> Disks {
        Disks {
            vfs,
            store_dir,
            log_dir,
            shared,
            failed: false,
        }
    }

    /// Asks the system, and tells the applier.
    pub fn look(&mut self, ports: &mut impl Ports) {
        let mut space = |dir: &Path| -> Option<DiskSpace> {
            let found = self.vfs.space(dir);
            let tell = |error| {
                if !std::mem::replace(&mut self.failed, true) {
                    ports.note(Note::CannotLook { dir, error });
                }
            };
            found.map_err(tell).ok()
        };
        // Before the look: what is written meanwhile counts twice rather than not at all.
        let log_bytes = self.shared.log_bytes();
        let look = Look {
            log_bytes,
            store: space(&self.store_dir),
            log: space(&self.log_dir),
        };
        ports.to_apply(ApplyEvent::Looked(look));
    }
}
