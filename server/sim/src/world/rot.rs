//! Disks that rot: bytes change at rest, or a sector comes back empty, and nobody is told. A member
//! may go on for as long as it reads nothing of that. Then it ends, refuses to start, or answers
//! with an error; each time it names the file, and the operator puts another machine in its place.
//!
//! A changed byte is always noticed, so it counts like a disk that is lost: one at a time, and a
//! majority is whole. An empty sector at the end of the log looks as if power had been cut before
//! it was written, and a vote or an entry may be gone with it. So it comes under the conditions of
//! older disks only.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::inspect::{Places, inspect};
use storage::mvcc::{KeyRange, View, Want};
use storage::vfs::sim::BLOCK_BYTES;

use super::{Event, Failed, MILLI, SECOND, World};
use crate::canary::Canary;
use crate::check::agreement::BUCKETS;
use crate::host::{Crash, Host};

/// The keys of the log's files end so.
const LOG: &str = "wal";
/// A file that waits to become a segment of the log. It holds nothing, and nobody reads it before it
/// has another name.
const SPARE: &str = "spare-";
/// Bytes that change at once.
const BYTES_MAX: u64 = 4;

/// A place on a disk.
struct Place {
    path: PathBuf,
    offset: u64,
}

impl World {
    /// Some bytes on the host's disk change. False if that could cost the cluster its majority.
    pub(crate) fn rot(&mut self, host: usize) -> bool {
        let this = &self.hosts[host];
        let others = self.members.voters().filter(|id| *id != this.id).count();
        let is_spared = !this.begun
            || this.retired
            || !self.belongs(host)
            || self.misses_entries()
            || self.members.is_changing()
            // It will be all that is left, and nobody could take its place.
            || this.settings.config.force_new_cluster
            || (self.votes(host) && others < 2);
        if is_spared {
            return false;
        }
        let Some(place) = self.any_place(host) else {
            return false;
        };
        let rng = &mut self.nemesis.rng;
        let this = &mut self.hosts[host];
        for _ in 0..rng.between(1, BYTES_MAX + 1) {
            let near = place.offset / 64 * 64 + rng.below(64);
            let mask = 1 << rng.below(8);
            // The canary: the next start reads what was never written, and the disk is whole.
            if self.canary != Some(Canary::UncheckedLog) {
                this.disk.rot(&place.path, near, mask);
            }
        }
        self.notes_rot(host, &place, "has changed");
        let inspected = self.now + self.nemesis.rng.between(SECOND, 5 * SECOND);
        self.at(inspected, Event::Inspect);
        true
    }

    /// Power is cut, and a sector of the host's disk comes back empty. False if that could lose
    /// what was promised to clients.
    pub(crate) fn lose_sector(&mut self, host: usize) -> bool {
        if !self.may_lose(host) {
            return false;
        }
        let had = self.hosts[host].shadow.newest.last();
        self.crash(host, Crash::PowerCut);
        let Some(place) = self.any_place(host) else {
            return true;
        };
        let this = &mut self.hosts[host];
        let sector = BLOCK_BYTES as u64;
        let start = place.offset / sector * sector;
        let bytes = this.disk.on_disk(&place.path).unwrap_or_default();
        let bytes = bytes.iter().enumerate().skip(start as usize);
        for (offset, byte) in bytes.take(BLOCK_BYTES) {
            this.disk.rot(&place.path, offset as u64, *byte);
        }
        // A process begins on what is left.
        this.disk = this.disk.process_killed();
        this.rolled_back = Some(had);
        this.has_old_disk = true;
        self.notes_rot(host, &place, "is lost");
        true
    }

    fn notes_rot(&mut self, host: usize, place: &Place, what: &str) {
        self.figures.rotten += 1;
        self.hosts[host].rotten.push(place.path.clone());
        let (path, offset) = (place.path.display(), place.offset);
        self.note(&format!("h{host}: {path} {what} at {offset}"));
    }

    /// Mostly one that holds something.
    fn any_place(&mut self, host: usize) -> Option<Place> {
        let rng = &mut self.nemesis.rng;
        let disk = &self.hosts[host].disk;
        let wants_log = rng.chance(500);
        let of_kind = |path: &Path| path.extension().is_some_and(|e| e == LOG) == wants_log;
        let mut files = disk.files();
        let is_spare = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(SPARE.as_bytes())
        };
        files.retain(|(path, bytes)| *bytes > 0 && of_kind(path) && !is_spare(path));
        let (path, _) = files
            .get(rng.below(files.len().max(1) as u64) as usize)?
            .clone();
        let bytes = disk.on_disk(&path)?;
        let sectors = bytes.chunks(BLOCK_BYTES).enumerate();
        let used = sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
        let used: Vec<u64> = used.map(|(number, _)| number as u64).collect();
        let sector = if used.is_empty() || rng.chance(150) {
            rng.below(bytes.len().div_ceil(BLOCK_BYTES) as u64)
        } else {
            *rng.pick(&used)
        };
        let offset = sector * BLOCK_BYTES as u64 + rng.below(BLOCK_BYTES as u64);
        Some(Place { path, offset })
    }

    /// A process ends, does not start, or gives an error to a client, because of `what`. True if
    /// its disk has rotted. Then it must say where.
    pub(crate) fn finds_rot(&mut self, host: usize, what: &str) -> Result<bool, Failed> {
        let finds = self.names_rot(host, what)?;
        if finds {
            self.note(&format!("h{host} finds its disk damaged: {what}"));
            self.condemn(host);
        }
        Ok(finds)
    }

    /// The same, and nobody does anything about it.
    pub(crate) fn names_rot(&self, host: usize, what: &str) -> Result<bool, Failed> {
        let this = &self.hosts[host];
        if this.rotten.is_empty() {
            return Ok(false);
        }
        let hides = self.canary == Some(Canary::NamelessRot);
        let is_named = |path: &PathBuf| {
            // An empty log may be any that is missing.
            let dir = path.parent().unwrap_or(path);
            what.contains(&*path.to_string_lossy()) || what.contains(&*dir.to_string_lossy())
        };
        let rotten = rotten_files(this);
        if hides || !rotten.iter().any(is_named) {
            let what = format!("host {host} does not say that {rotten:?} is damaged, but: {what}");
            return Err(("bit rot", what));
        }
        Ok(true)
    }

    /// The operator puts another machine in its place.
    pub(crate) fn condemn(&mut self, host: usize) {
        if !std::mem::replace(&mut self.hosts[host].is_condemned, true) {
            self.figures.found += usize::from(!self.hosts[host].rotten.is_empty());
            self.at(self.now + 200 * MILLI, Event::Operator(host));
        }
    }

    /// Somebody starts a member with a damaged disk again and again, until it is taken away.
    pub(super) fn starts_in_vain(&mut self, host: usize) {
        let again = self.now + self.rng.between(SECOND, 3 * SECOND);
        self.at(again, Event::Start(host));
    }

    /// The operator inspects every disk that has rotted unnoticed, as `stele utl inspect` does.
    pub(super) fn inspect_disks(&mut self) -> Result<(), Failed> {
        let mut again = false;
        for host in 0..self.hosts.len() {
            let this = &self.hosts[host];
            if this.rotten.is_empty() || this.retired || this.is_condemned {
                continue;
            }
            match damage(this) {
                // An older view, or a file that is used again, may still lead to it.
                Ok(None) if !this.disk.rotted().is_empty() => again = true,
                Ok(None) => {
                    self.note(&format!("h{host} has a disk that is whole again"));
                    self.hosts[host].rotten.clear();
                }
                Ok(Some(what)) | Err(what) => {
                    self.finds_rot(host, &what)?;
                }
            }
        }
        if again {
            self.at(self.now + 2 * SECOND, Event::Inspect);
        }
        Ok(())
    }
}

/// What the inspector says of the disk, as the next process would find it.
fn damage(host: &Host) -> Result<Option<String>, String> {
    let member = host.settings.config.data_dir.join("member");
    let places = Places {
        keys: member.join("keys"),
        store: member.join("store"),
        log: host.settings.config.log_dir(),
    };
    let disk = Arc::new(host.disk.process_killed());
    let keys = host.settings.key_file();
    let found = inspect(disk, &places, keys.as_ref()).map_err(|error| error.to_string())?;
    let damage = found.damage.iter().map(ToString::to_string);
    // A crash may have torn the meta page of a checkpoint: that is no rot, and whole by the next one.
    let rotten = rotten_files(host);
    let mut of_rot = damage.filter(|what| {
        let mut rotten = rotten.iter();
        rotten.any(|path| what.contains(&*path.to_string_lossy()))
    });
    Ok(of_rot.next())
}

/// The files that rotted, by the names that they had then and have now: a segment of the log may be
/// used again.
fn rotten_files(host: &Host) -> Vec<PathBuf> {
    let mut files = host.rotten.clone();
    files.extend(host.disk.rotted());
    files
}

/// Whether all of a member's state can be read.
pub(super) fn is_readable(view: &View) -> storage::Result<()> {
    view.range(KeyRange::ALL, 0, Want::Values, &mut |_| {
        ControlFlow::Continue(())
    })?;
    view.changes(0, i64::MAX, &mut |_| Ok(ControlFlow::Continue(())))?;
    let mut buckets = BUCKETS.into_iter();
    buckets.try_for_each(|bucket| {
        view.side_scan(bucket, b"", &mut |_, _| ControlFlow::Continue(()))
            .map(drop)
    })
}
