//! The faults injected into members: first every kind in turn, then in random order.
#![expect(
    clippy::disallowed_methods,
    reason = "waits for processes, and not for ever"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use rustix::process::Signal;
use testkit::disk::Disk;
use testkit::mesh::{Mesh, Path};

use super::{MEMBERS, ON_SMALL_DISK};
use crate::harness::fleet::{PATIENCE, Process};
use crate::harness::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Kill,
    KillTwo,
    KillAll,
    Stop,
    Terminate,
    Hold,
    HoldOneWay,
    Cut,
    CutPair,
    Slow,
    FillDisk,
}

pub(super) const FAULTS: [Fault; 11] = [
    Fault::Kill,
    Fault::Hold,
    Fault::Terminate,
    Fault::HoldOneWay,
    Fault::Stop,
    Fault::Cut,
    Fault::FillDisk,
    Fault::CutPair,
    Fault::KillTwo,
    Fault::Slow,
    Fault::KillAll,
];

pub(super) struct Nemesis {
    pub(super) members: Vec<Process>,
    pub(super) mesh: Mesh,
    /// None where the machine does not let us.
    pub(super) disk: Option<Disk>,
    pub(super) rng: Rng,
    pub(super) struck: BTreeMap<Fault, usize>,
}

impl Nemesis {
    /// One fault from its beginning to its end, with some quiet behind it.
    pub(super) async fn strike(&mut self, fault: Fault) {
        let victim = self.victim().await;
        let other = (victim + 1 + self.rng.below(MEMBERS - 1)) % MEMBERS;
        println!("{fault:?} {victim} {other}");
        *self.struck.entry(fault).or_default() += 1;
        match fault {
            Fault::Kill => self.down(&[victim]).await,
            Fault::KillTwo => self.down(&[victim, other]).await,
            Fault::KillAll => self.down(&[0, 1, 2]).await,
            Fault::Stop => {
                self.members[victim].signal(Signal::STOP);
                self.rest(300, 2700).await;
                self.members[victim].signal(Signal::CONT);
            }
            Fault::Terminate => self.terminate(victim).await,
            Fault::Hold => self.mesh.isolate(victim, Path::Held),
            Fault::HoldOneWay => self.mesh.set(victim, other, Path::Held),
            Fault::Cut => self.mesh.isolate(victim, Path::Cut),
            Fault::CutPair => {
                self.mesh.set(victim, other, Path::Cut);
                self.mesh.set(other, victim, Path::Cut);
            }
            Fault::Slow => {
                let delay = self.rng.between(5, 80) as u64;
                self.mesh.set_all(Path::Slow(Duration::from_millis(delay)));
            }
            Fault::FillDisk => self.fill_disk().await,
        }
        self.rest(400, 1600).await;
        self.mesh.set_all(Path::Open);
        self.all_live();
        self.rest(100, 700).await;
    }

    /// The leader, more often than not.
    async fn victim(&mut self) -> usize {
        if self.rng.percent(60) {
            for (at, member) in self.members.iter().enumerate() {
                let asked = tokio::time::timeout(Duration::from_millis(500), leads(&member.url));
                if asked.await == Ok(Some(true)) {
                    return at;
                }
            }
        }
        self.rng.below(MEMBERS)
    }

    async fn down(&mut self, victims: &[usize]) {
        for victim in victims {
            self.members[*victim].kill();
        }
        self.rest(100, 1500).await;
        for victim in victims {
            self.up(*victim);
        }
    }

    pub(super) fn up(&mut self, at: usize) {
        self.members[at].start();
        self.mesh.runs_as(at, self.members[at].pid());
    }

    async fn terminate(&mut self, victim: usize) {
        self.members[victim].signal(Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while self.members[victim].is_alive() {
            assert!(
                Instant::now() < until,
                "{victim} does not stop:\n{}",
                self.members[victim].log()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.members[victim].kill();
        self.rest(0, 1000).await;
        self.up(victim);
    }

    /// A member that cannot write ends rather than break a promise, and lives again when there is
    /// room.
    async fn fill_disk(&mut self) {
        let Some(disk) = &self.disk else { return };
        disk.fill().unwrap();
        self.rest(2000, 4000).await;
        let Some(disk) = &self.disk else { return };
        disk.empty().unwrap();
        if !self.members[ON_SMALL_DISK].is_alive() {
            println!("{ON_SMALL_DISK} has ended on a full disk");
            self.members[ON_SMALL_DISK].kill();
            self.up(ON_SMALL_DISK);
        }
    }

    async fn rest(&mut self, least: i64, most: i64) {
        let millis = self.rng.between(least, most) as u64;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Nobody has ended who was not told to.
    pub(super) fn all_live(&mut self) {
        for member in &mut self.members {
            if !member.is_alive() {
                // The one whose disk was full may notice a moment later.
                let of_disk = member.log().contains("No space left on device");
                assert!(of_disk, "{} has ended:\n{}", member.name, member.log());
                member.kill();
                member.start();
            }
        }
        for (at, member) in self.members.iter().enumerate() {
            self.mesh.runs_as(at, member.pid());
        }
    }
}

async fn leads(url: &str) -> Option<bool> {
    let client = Client::connect(url.to_owned()).await.ok()?;
    let status = client.maintenance().status(pb::StatusRequest {}).await;
    let status = status.ok()?.into_inner();
    Some(status.header?.member_id == status.leader)
}
