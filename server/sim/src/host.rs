//! A machine: its disk outlives the processes on it, its clock and its bad days are its own.

pub(crate) mod clock;
pub(crate) mod process;
pub(crate) mod shadow;

use std::path::{Path, PathBuf};

use raft::{Entry, Index, NodeId};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use clock::Clock;
use process::{Process, Settings};
use shadow::Shadow;
use testkit::Rng;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Killed: what was written is there for the next one, synced or not.
    Killed,
    /// Power was cut: of what was not synced, any part may be lost.
    PowerCut,
}

pub(crate) struct Host {
    pub settings: Settings,
    pub disk: SimVfs,
    pub clock: Clock,
    pub rng: Rng,
    pub shadow: Shadow,
    pub process: Option<Process>,
    /// Counts the processes: what was scheduled for an earlier one is void.
    pub life: u64,
    /// Known from the first start on, or given to it by the cluster that it joins.
    pub id: NodeId,
    /// It belongs to no cluster before one has a place for it.
    pub joins: bool,
    /// A process has begun on its disk.
    pub begun: bool,
    /// This process knows that it was removed, and is about to end.
    pub leaves: bool,
    /// It is a member no more: nothing starts here again.
    pub retired: bool,
    /// This process has said who it is.
    pub published: bool,
    /// Nothing runs, though the clock may.
    pub paused: bool,
    /// What the disk does next when its countdown ends.
    pub crash_to_come: Option<Crash>,
    /// A copy of the disk, and the keys of its time.
    pub image: Option<(SimVfs, Vec<u32>)>,
    /// The disk was put back to an older state when the log had entries up to this one.
    pub rolled_back: Option<Index>,
    /// ..and no process has begun on that yet.
    pub has_old_disk: bool,
    /// The log as it was when this member was forced to go on alone, until it does. All of it counts
    /// as committed from then on, and a start that fails may trim it.
    pub before_force: Vec<Entry>,
    /// Files of its disk in which bytes have changed.
    pub rotten: Vec<PathBuf>,
    /// Somebody complained of its disk: the operator removes it.
    pub is_condemned: bool,
    /// Little room is left, for some time.
    pub is_tight: bool,
    /// Nanoseconds that a sync takes at least.
    pub sync_takes: u64,
    /// ..until this time, and longer.
    pub stalled_until: u64,
    /// Every sync and every checkpoint is slow until then.
    pub slow_disk_until: u64,
    /// Every turn of the applier is.
    pub slow_apply_until: u64,
    /// It is down until then, at least.
    pub restart_at: Option<u64>,
}

impl Host {
    pub(crate) fn new(settings: Settings, mut rng: Rng) -> Host {
        let rate = 1_000_000 - crate::DRIFT + rng.below(2 * crate::DRIFT);
        Host {
            settings,
            disk: SimVfs::new(rng.next()),
            clock: Clock::new(rate),
            sync_takes: *rng.pick(&[50_000, 200_000, 1_000_000, 4_000_000]),
            rng,
            shadow: Shadow::default(),
            process: None,
            life: 0,
            id: 0,
            joins: false,
            begun: false,
            leaves: false,
            retired: false,
            published: false,
            paused: false,
            crash_to_come: None,
            image: None,
            rolled_back: None,
            has_old_disk: false,
            before_force: Vec::new(),
            rotten: Vec::new(),
            is_condemned: false,
            is_tight: false,
            stalled_until: 0,
            slow_disk_until: 0,
            slow_apply_until: 0,
            restart_at: None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Its process is about to find out.
    pub(crate) fn disk_has_failed(&self) -> bool {
        self.disk.exists(Path::new("/")).is_err()
    }

    /// The process is gone; the disk is as the next one finds it.
    pub(crate) fn crash(&mut self, how: Crash) {
        self.process = None;
        self.life += 1;
        self.paused = false;
        self.leaves = false;
        self.published = false;
        self.crash_to_come = None;
        self.is_tight = false;
        self.disk = match how {
            Crash::Killed => self.disk.process_killed(),
            Crash::PowerCut => self.disk.power_cut(self.rng.next()),
        };
        self.disk.set_capacity(u64::MAX);
    }

    /// Keeps a copy of the disk as it is now.
    pub(crate) fn keep_image(&mut self) {
        let image = self.disk.process_killed();
        self.image = Some((image, self.settings.keys.clone()));
    }
}
