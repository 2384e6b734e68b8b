//! Looks at how full the disks are: for the applier's space alarm, and to limit the log, what is
//! written to it and what is kept of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storage::vfs::{DiskSpace, Vfs};

use super::{Note, Ports, Published};
use crate::member::event::{ApplyEvent, LogEvent, Look};
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
    /// Most bytes of the log to keep for members that were away.
    keep_bytes: u64,
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
        keep_bytes: u64,
    ) -> Disks {
        let disks = Disks {
            vfs,
            store_dir,
            log_dir,
            shared,
            keep_bytes,
            failed: false,
            looks: 0,
        };
        // A disk that cannot be looked at is reported by the next look.
        let disk = disks.vfs.space(&disks.log_dir).ok();
        if let Some(disk) = disk {
            disks.limit_log(disks.shared.log_bytes(), disk);
        }
        disks.limit_kept(disk);
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
        if self.limit_kept(look.log) {
            ports.to_log(LogEvent::Shrink);
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

    /// What is kept is the first to go when the disk fills up: it goes while there is still space for
    /// all else, so that it never costs clients a write. Until then, a member that is being fed finds
    /// all that it needs, be it more than the flag says. Returns true if there may be too much of it.
    fn limit_kept(&self, disk: Option<DiskSpace>) -> bool {
        let kept = self.shared.log_kept_bytes();
        let room = disk.map_or(u64::MAX, |disk| space_alarm::room_for_kept(disk, kept));
        // A member that is alone feeds nobody, and its writes are cheapest into the files that its
        // checkpoints set free.
        let useless = self.shared.space.is_low() || self.shared.progress.is_alone();
        let useless = useless || self.keep_bytes == 0;
        let room = if useless { 0 } else { room };
        let limit = room.min(self.keep_bytes);
        self.shared.set_log_keep(limit, room);
        kept > limit
    }

    fn limit_log(&self, log_bytes: u64, disk: DiskSpace) {
        let limit = log_bytes + space_alarm::room_for_log(disk);
        self.shared.set_log_limit(limit);
    }
}

#[cfg(test)]
mod tests {
    use storage::vfs::sim::SimVfs;

    use super::*;
    use crate::member::driver::published::Standing;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_kept_of_the_log_is_limited_by_the_flag_and_shrinks_with_the_space() {
        let vfs = SimVfs::new(1);
        let log_dir = PathBuf::from("/log");
        vfs.create_dir_all(&log_dir).unwrap();
        let shared = Arc::new(Published::new(1, Standing::default()));
        let shared_vfs = Arc::new(vfs.clone());
        let disks = Disks::new(
            shared_vfs,
            "/store".into(),
            log_dir.clone(),
            Arc::clone(&shared),
            100 * MIB,
        );
        assert_eq!(
            shared.log_keep().bytes,
            100 * MIB,
            "clients may come at once"
        );
        let look = || disks.limit_kept(disks.vfs.space(&log_dir).ok());
        shared.set_log_kept(100 * MIB);
        assert!(!look());
        vfs.set_capacity(300 * MIB);
        assert!(look(), "an eighth of what would be there without it");
        assert_eq!(shared.log_keep().bytes, 50 * MIB);
        assert_eq!(shared.log_keep().fed_bytes, 50 * MIB);
        shared.set_log_kept(50 * MIB);
        assert!(look());
        shared.set_log_kept(40 * MIB);
        assert!(!look());
        assert!(!disks.limit_kept(None), "nobody knows");
        assert_eq!(shared.log_keep().bytes, 100 * MIB);
        assert_eq!(shared.log_keep().fed_bytes, u64::MAX, "not by the flag");
    }

    #[test]
    fn a_member_that_is_alone_keeps_nothing() {
        let shared = Arc::new(Published::new(1, Standing::default()));
        let (store_dir, log_dir) = ("/store".into(), "/log".into());
        let vfs = Arc::new(SimVfs::new(1));
        let disks = Disks::new(vfs, store_dir, log_dir, Arc::clone(&shared), MIB);
        shared.set_log_kept(1);
        let alone = Standing {
            alone: true,
            learner: false,
        };
        shared.progress.set_standing(alone);
        assert!(disks.limit_kept(None));
        assert_eq!(shared.log_keep().bytes, 0);
        assert_eq!(shared.log_keep().fed_bytes, 0);
        // A learner is fed, too.
        shared.progress.set_standing(Standing::default());
        assert!(!disks.limit_kept(None));
        assert_eq!(shared.log_keep().bytes, MIB);
    }

    #[test]
    fn nothing_is_kept_while_space_is_low() {
        let vfs = SimVfs::new(1);
        let shared = Arc::new(Published::new(1, Standing::default()));
        let (store_dir, log_dir) = ("/store".into(), "/log".into());
        let disks = Disks::new(Arc::new(vfs), store_dir, log_dir, Arc::clone(&shared), MIB);
        shared.set_log_kept(1);
        assert!(!disks.limit_kept(None));
        let stats = storage::mvcc::Stats::default();
        shared.space.publish(&stats, true, true);
        assert!(disks.limit_kept(None));
        assert_eq!(shared.log_keep().bytes, 0);
        assert_eq!(shared.log_keep().fed_bytes, 0);
    }
}
