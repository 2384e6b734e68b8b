//! What goes wrong, and when. Each run has its own mix: some bugs need one kind of trouble alone.

pub(crate) mod members;

use std::path::Path;

use server::member::event::ConsensusEvent;
use storage::vfs::Vfs;

use crate::host::Crash;
use crate::nemesis::members::Wish;
use crate::world::{Event, Failed, MILLI, SECOND, World};
use testkit::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    PowerCut,
    /// The disk fails at a call to come: a crash in the middle of whatever is being written.
    CrashAtCall,
    /// No room is left.
    DiskFull,
    /// So little room is left that the space alarm is due.
    DiskLow,
    /// A sync takes long.
    Stall,
    /// A disk is put back to an older state.
    RollBack,
    /// A disk is lost, and an empty one is in its place.
    WipeDisk,
    /// Bytes on a disk change.
    BitRot,
    /// A sector of a disk comes back empty.
    LoseSector,
    /// All members but one are lost for good.
    ForceNewCluster,
    /// For seconds, all of them do.
    SlowDisk,
    /// For seconds, entries are applied slowly.
    SlowApply,
    /// New data is encrypted with another key.
    ChangeKeys,
    Isolate,
    Split,
    CutOneWay,
    SlowLink,
    Mend,
    /// The process is stopped; its clock goes on.
    Pause,
    /// The machine sleeps, and its clock with it.
    Suspend,
    /// The time of day changes; the next start sees it.
    SetTimeOfDay,
    Transfer,
    /// Everybody at once.
    PowerCutForAll,
    Members(Wish),
}

const FAULTS: [Fault; 30] = [
    Fault::Kill,
    Fault::PowerCut,
    Fault::CrashAtCall,
    Fault::DiskFull,
    Fault::DiskLow,
    Fault::Stall,
    Fault::RollBack,
    Fault::WipeDisk,
    Fault::BitRot,
    Fault::LoseSector,
    Fault::ForceNewCluster,
    Fault::SlowDisk,
    Fault::SlowApply,
    Fault::ChangeKeys,
    Fault::Isolate,
    Fault::Split,
    Fault::CutOneWay,
    Fault::SlowLink,
    Fault::Mend,
    Fault::Pause,
    Fault::Suspend,
    Fault::SetTimeOfDay,
    Fault::Transfer,
    Fault::PowerCutForAll,
    Fault::Members(Wish::AddLearner),
    Fault::Members(Wish::AddVoter),
    Fault::Members(Wish::Promote),
    Fault::Members(Wish::Remove),
    Fault::Members(Wish::Replace),
    Fault::Members(Wish::Update),
];

/// An operator waits for the old keys to be of no use before there are more of them.
const KEYS_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct Nemesis {
    pub rng: Rng,
    faults: Vec<Fault>,
    /// Nanoseconds between two of them.
    between: u64,
    lasts: u64,
}

impl Nemesis {
    /// `only`: the name of the one fault there is to be.
    pub(crate) fn new(mut rng: Rng, only: Option<&str>) -> Nemesis {
        let kept = *rng.pick(&[150, 400, 700, 1000]);
        let mut faults: Vec<Fault> = FAULTS.into_iter().filter(|_| rng.chance(kept)).collect();
        faults.push(Fault::Mend);
        if let Some(only) = only {
            faults = FAULTS
                .into_iter()
                .filter(|fault| format!("{fault:?}") == only)
                .collect();
            assert!(!faults.is_empty(), "there are {FAULTS:?}");
        }
        Nemesis {
            faults,
            between: *rng.pick(&[100 * MILLI, 300 * MILLI, 1000 * MILLI]),
            lasts: rng.between(6 * SECOND, 20 * SECOND),
            rng,
        }
    }

    /// How long the trouble goes on, in nanoseconds.
    pub(crate) fn lasts(&self) -> u64 {
        self.lasts
    }
}

impl World {
    pub(crate) fn strike(&mut self) -> Result<(), Failed> {
        if self.healed_at.is_some() {
            return Ok(());
        }
        let nemesis = &mut self.nemesis;
        let fault = *nemesis.rng.pick(&nemesis.faults);
        let present: Vec<usize> = (0..self.hosts.len())
            .filter(|host| !self.hosts[*host].retired)
            .collect();
        let victim = *nemesis.rng.pick(&present);
        // Whoever leads is the more interesting half of the time.
        let favoured = nemesis.rng.chance(400);
        let again = nemesis.rng.about(nemesis.between);
        let victim = match self.leader() {
            Some(leader) if favoured => leader,
            _ => victim,
        };
        self.at(self.now + again, Event::Nemesis);
        self.inflict(fault, victim);
        Ok(())
    }

    fn inflict(&mut self, fault: Fault, victim: usize) {
        match fault {
            Fault::Kill | Fault::PowerCut | Fault::PowerCutForAll => {
                let how = match fault {
                    Fault::Kill => Crash::Killed,
                    _ => Crash::PowerCut,
                };
                let all = fault == Fault::PowerCutForAll;
                let victims = if all {
                    0..self.hosts.len()
                } else {
                    victim..victim + 1
                };
                for host in victims {
                    if self.hosts[host].is_up() {
                        self.crash(host, how);
                    }
                }
            }
            Fault::CrashAtCall | Fault::DiskFull | Fault::DiskLow | Fault::Stall => {
                self.hurt_disk(fault, victim);
            }
            Fault::RollBack | Fault::WipeDisk | Fault::BitRot | Fault::LoseSector => {
                // Any disk will do that may be lost, and that has an older state.
                let hosts = self.hosts.len();
                let mut order = (victim..hosts).chain(0..victim);
                let _ = match fault {
                    Fault::RollBack => order.any(|host| self.roll_back(host)),
                    Fault::WipeDisk => order.any(|host| self.wipe(host)),
                    Fault::BitRot => order.any(|host| self.rot(host)),
                    _ => order.any(|host| self.lose_sector(host)),
                };
            }
            // Once in a run, and not in most: others have to go on for long, too.
            Fault::ForceNewCluster => {
                if self.figures.forced == 0 && self.nemesis.rng.chance(20) {
                    self.force_new_cluster();
                }
            }
            Fault::SlowDisk | Fault::SlowApply => {
                // A leader's disk is not to be waited for.
                let leader = self.leader().filter(|_| self.nemesis.rng.chance(500));
                self.slow_down(fault, leader.unwrap_or(victim));
            }
            Fault::ChangeKeys => self.change_keys(victim),
            Fault::Pause | Fault::Suspend => self.stop(fault == Fault::Suspend, victim),
            Fault::SetTimeOfDay => {
                let hour = 3600 * SECOND;
                let jump = self.nemesis.rng.below(2 * hour);
                let clock = &mut self.hosts[victim].clock;
                clock.time_of_day = clock.time_of_day + jump - hour;
                self.note(&format!("h{victim} has another time of day"));
            }
            Fault::Transfer => {
                let to = self.hosts[victim].id;
                let from = self.leader();
                if let Some(from) = from
                    && let Some(process) = &mut self.hosts[from].process
                {
                    process
                        .ports
                        .to_consensus
                        .push(ConsensusEvent::Transfer { to });
                    self.note(&format!("h{from} is to hand over to h{victim}"));
                    self.schedule(from);
                }
            }
            Fault::Members(wish) => self.wish(wish),
            _ => self.hurt_links(fault, victim),
        }
    }

    fn hurt_disk(&mut self, fault: Fault, victim: usize) {
        let rng = &mut self.nemesis.rng;
        let host = &mut self.hosts[victim];
        // A start that fails half-way is of interest, too.
        if host.crash_to_come.is_some() || (!host.is_up() && fault != Fault::CrashAtCall) {
            return;
        }
        let how = if rng.chance(500) {
            Crash::Killed
        } else {
            Crash::PowerCut
        };
        match fault {
            Fault::CrashAtCall => {
                let calls = rng.below(*rng.clone().pick(&[5, 50, 300]));
                host.crash_to_come = Some(how);
                host.disk.fail_after(calls);
                self.note(&format!("h{victim} fails after {calls} calls of its disk"));
            }
            Fault::DiskFull => {
                host.crash_to_come = Some(how);
                host.is_tight = true;
                host.disk.set_capacity(0);
                self.figures.tight += 1;
                self.note(&format!("h{victim} has no room left"));
            }
            Fault::DiskLow => {
                let Ok(space) = host.disk.space(Path::new("/")) else {
                    return;
                };
                let used = space.total - space.available;
                host.crash_to_come = Some(how);
                host.is_tight = true;
                host.disk.set_capacity(used + used / 20);
                let life = host.life;
                let lasts = rng.between(SECOND, 5 * SECOND);
                self.figures.tight += 1;
                self.note(&format!("h{victim} has little room left"));
                let host = victim;
                self.at(self.now + lasts, Event::Room { host, life });
            }
            _ => {
                host.stalled_until = self.now + rng.between(100 * MILLI, 3 * SECOND);
                self.note(&format!("h{victim} has a disk that stalls"));
            }
        }
    }

    fn slow_down(&mut self, fault: Fault, victim: usize) {
        let lasts = self.nemesis.rng.between(SECOND, 6 * SECOND);
        let host = &mut self.hosts[victim];
        let (until, what) = if fault == Fault::SlowDisk {
            (&mut host.slow_disk_until, "a slow disk")
        } else {
            (&mut host.slow_apply_until, "a slow applier")
        };
        *until = self.now + lasts;
        self.figures.slow += 1;
        self.note(&format!("h{victim} has {what} for {} ms", lasts / MILLI));
    }

    /// There is room again.
    pub(crate) fn make_room(&mut self, host: usize, life: u64) {
        let this = &mut self.hosts[host];
        if this.life == life && std::mem::take(&mut this.is_tight) {
            this.crash_to_come = None;
            this.disk.set_capacity(u64::MAX);
            self.note(&format!("h{host} has room again"));
        }
    }

    /// The operator puts a new key in front of the others. Only one that runs, or starts, takes it.
    fn change_keys(&mut self, victim: usize) {
        let host = &mut self.hosts[victim];
        let keys = &mut host.settings.keys;
        let Some(newest) = keys.iter().max().copied() else {
            return;
        };
        if keys.len() >= KEYS_MAX {
            return;
        }
        keys.insert(0, newest + 1);
        let file = host.settings.key_file();
        let mut what = format!("h{victim} is to encrypt with key {}", newest + 1);
        if let (Some(process), Some(file)) = (&mut host.process, file)
            && let Err(error) = process.change_keys(&file)
        {
            // As the server does, which looks again and again: with the next start.
            what = format!("{what}, and cannot: {error}");
        }
        self.note(&what);
        self.schedule(victim);
    }

    fn stop(&mut self, clock_too: bool, victim: usize) {
        let rng = &mut self.nemesis.rng;
        let long = rng.between(
            20 * MILLI,
            *rng.clone().pick(&[300 * MILLI, 2 * SECOND, 5 * SECOND]),
        );
        let host = &mut self.hosts[victim];
        if host.paused || !host.is_up() {
            return;
        }
        host.paused = true;
        if clock_too {
            host.clock.suspend(self.now);
        }
        if let Some(process) = &mut host.process {
            process.turns = Default::default();
        }
        self.figures.pauses += 1;
        let what = if clock_too { "sleeps" } else { "is stopped" };
        self.note(&format!("h{victim} {what} for {} ms", long / MILLI));
        self.at(self.now + long, Event::Resume(victim));
    }

    fn hurt_links(&mut self, fault: Fault, victim: usize) {
        let count = self.hosts.len();
        let rng = &mut self.nemesis.rng;
        let other = (victim + 1 + rng.below(count as u64 - 1) as usize) % count;
        match fault {
            Fault::Isolate => {
                self.net.split(count, &[victim]);
                self.note(&format!("h{victim} is cut off"));
            }
            Fault::Split => {
                let mut part: Vec<usize> = (0..count).filter(|_| rng.chance(500)).collect();
                part.truncate(count - 1);
                self.net.split(count, &part);
                self.note(&format!("{part:?} are cut off"));
            }
            Fault::CutOneWay => {
                self.net.cut(victim, other);
                self.note(&format!("nothing gets from h{victim} to h{other}"));
            }
            Fault::SlowLink => {
                let most = *rng.pick(&[1500 * MILLI, 1500 * MILLI, 8 * SECOND]);
                let by = rng.between(10 * MILLI, most);
                self.net.slow_down((victim, other), by);
                self.note(&format!(
                    "h{victim} to h{other} takes {} ms more",
                    by / MILLI
                ));
            }
            _ => {
                self.net.mend();
                self.note("all links are mended");
                return;
            }
        }
        self.figures.partitions += 1;
    }
}
