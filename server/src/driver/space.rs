//! Looks at how full the disks are: for the applier's space alarm, and to limit the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storage::vfs::{DiskSpace, Vfs};

use super::{Note, Ports, Published};
use crate::event::{ApplyEvent, Look};
use crate::state::space_alarm;

/// Time between two looks that the applier hears of.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks in that time if the disk is nearly full, because fast writers fill it sooner.
const LOOKS_WHEN_NEARLY_FULL: u32 = 25;

/// The disks of the store and of the log, which may be two.
pub struct Disks {
    vfs: Arc<dyn Vfs>,
    store_dir: PathBuf,
    log_dir: PathBuf,
    shared: Arc<Published>,
    /// It was reported that a look failed.
    failed: bool,
    /// Looks since the last one that the applier heard of.
    looks: u32,
}

impl Disks {
    /// Takes the first look at the log's disk: clients may come before the first [`Disks::look`].
    pub fn new(
        vfs: Arc<dyn Vfs>,
        store_dir: PathBuf,
        log_dir: PathBuf,
        shared: Arc<Published>,
    ) -> Disks {
        let disks = Disks {
            vfs,
            store_dir,
            log_dir,
            shared,
            failed: false,
            looks: 0,
        };
        // A disk that cannot be looked at is reported by the next look.
        if let Ok(disk) = disks.vfs.space(&disks.log_dir) {
            disks.limit_log(disks.shared.log_bytes(), disk);
        }
        disks
    }

    /// Asks the system how full the disks are. Limits the log by the answer, and tells the applier every
    /// [`LOOK_EVERY`]. Returns the time until the next look.
    pub fn look(&mut self, ports: &mut impl Ports) -> Duration {
        let mut space = |dir: &Path| -> Option<DiskSpace> {
            let found = self.vfs.space(dir);
            let tell = |error| {
                if !std::mem::replace(&mut self.failed, true) {
                    ports.note(Note::CannotLook { dir, error });
                }
            };
            found.map_err(tell).ok()
        };
        // Read before the disk: bytes written in between then count twice rather than not at all.
        let log_bytes = self.shared.log_bytes();
        let look = Look {
            store: space(&self.store_dir),
            log: space(&self.log_dir),
        };
        if let Some(disk) = look.log {
            self.limit_log(log_bytes, disk);
        }
        if self.looks == 0 {
            ports.to_apply(ApplyEvent::Looked(look));
        }
        let mut disks = [look.store, look.log].into_iter().flatten();
        if disks.any(space_alarm::is_nearly_full) {
            self.looks = (self.looks + 1) % LOOKS_WHEN_NEARLY_FULL;
            LOOK_EVERY / LOOKS_WHEN_NEARLY_FULL
        } else {
            self.looks = 0;
            LOOK_EVERY
        }
    }

    fn limit_log(&self, log_bytes: u64, disk: DiskSpace) {
        let limit = log_bytes + space_alarm::room_for_log(disk);
        self.shared.set_log_limit(limit);
    }
}
