//! One run of a member: the actors and the driver that `server::runtime` puts on threads, with
//! inboxes, and when each is to be turned next. What a turn says to the rest of the world comes back
//! as values.

mod ports;
mod settings;
mod start;

use std::sync::Arc;
use std::time::Duration;

use etcd_api::membershippb;
use parking_lot::Mutex;
use raft::{Status, Ticket};
use server::auth::{CurrentAuth, Image};
use server::member::driver::apply::ApplyDriver;
use server::member::driver::consensus::ConsensusDriver;
use server::member::driver::log::Log;
use server::member::driver::space::Disks;
use server::member::driver::watch::Watch;
use server::member::driver::{self, Done, Hurry, Job, Ports, Published, RequestIds};
use server::member::event::{ApplyEvent, ConsensusEvent, LogEvent, Proposal, ReplySlot};
use server::request::{AuthInfo, Request};
use server::state::snapshot::{Form, Receiver};
use server::state::watch::{StreamOptions, WatchStream};
use server::state::{self, MemberInfo};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::{Applied, CHECKPOINT_PIECE_BYTES, Reader, View};
use storage::vfs::Lock;

pub(crate) use ports::{Fatal, SimPorts, Turn};
pub(crate) use settings::Settings;
pub(crate) use start::{ClusterView, Start, entries_on};

/// Who takes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Consensus,
    /// The log's thread takes all there is and writes it.
    LogWrite,
    /// ..and then syncs it.
    LogSync,
    Apply,
    Hub,
    /// A helper thread does one of the jobs.
    Helper,
    /// Looks how full the disk is.
    Space,
}

pub(crate) const ACTORS: [Actor; 7] = [
    Actor::Consensus,
    Actor::LogWrite,
    Actor::LogSync,
    Actor::Apply,
    Actor::Hub,
    Actor::Helper,
    Actor::Space,
];

pub(crate) struct Process {
    pub member_id: u64,
    pub cluster_id: u64,
    consensus: ConsensusDriver,
    log: Arc<Mutex<Log>>,
    /// The canary: the log was said to be durable through here.
    lied_through: Option<Ticket>,
    apply: ApplyDriver,
    watch: Watch,
    disks: Disks,
    /// When the disks are looked at next.
    next_look: Duration,
    pub shared: Arc<Published>,
    /// 0: none.
    quota: u64,
    request_ids: Arc<RequestIds>,
    reader: Reader,
    receiver: Receiver,
    data_keys: Option<Arc<DataKeys>>,
    /// Users and roles, as request handlers see them.
    auth: Arc<CurrentAuth>,
    /// The canary: those before a state of another member came.
    forgotten: Option<Arc<Image>>,
    pub ports: SimPorts,
    /// The world's time of each actor's next turn, in the order of [`ACTORS`].
    pub turns: [Option<u64>; ACTORS.len()],
    _lock: Box<dyn Lock>,
}

impl Process {
    pub(crate) fn status(&self) -> Status {
        self.consensus.consensus().status()
    }

    /// Whether others vote, by the membership that this member has applied.
    pub(crate) fn has_other_voters(&self) -> bool {
        self.consensus.consensus().conf().voters.len() > 1
    }

    pub(crate) fn leads(&self) -> bool {
        self.shared.leads()
    }

    /// As request handlers see it.
    pub(crate) fn learns(&self) -> bool {
        self.shared.progress.is_learner()
    }

    /// Everybody, as this member has them.
    pub(crate) fn members(&self) -> Result<Vec<MemberInfo>, Fatal> {
        Ok(state::members(&self.view())?)
    }

    pub(crate) fn view(&self) -> View {
        self.reader.view()
    }

    pub(crate) fn auth(&self) -> &CurrentAuth {
        &self.auth
    }

    /// Who may do what, by what this member has applied.
    pub(crate) fn image(&self) -> Arc<Image> {
        let forgotten = self.forgotten.clone();
        forgotten.unwrap_or_else(|| self.auth.image())
    }

    /// The canary: the users and roles of a state that comes are not taken in.
    pub(crate) fn forgets_roles(&mut self) {
        self.forgotten = Some(self.image());
    }

    pub(crate) fn open_stream(&self, fragment_bytes: usize) -> WatchStream {
        let options = StreamOptions { fragment_bytes };
        WatchStream::new(self.watch.inbox().clone(), self.reader.clone(), options)
    }

    /// Asks the cluster to note the member's name.
    pub(crate) fn publish(&mut self, name: String) {
        let request = Request::ClusterMemberAttrSet(membershippb::ClusterMemberAttrSetRequest {
            member_id: self.member_id,
            member_attributes: Some(membershippb::Attributes {
                client_urls: vec![format!("http://{name}:2379")],
                name,
            }),
        });
        let proposal = self.encode(request, &AuthInfo::default(), None);
        self.ports
            .to_consensus
            .push(ConsensusEvent::Propose(proposal));
    }

    pub(crate) fn encode(
        &self,
        request: Request,
        by: &AuthInfo,
        reply: Option<ReplySlot>,
    ) -> Proposal {
        let data = request.encode_by(self.request_ids.next(), by);
        Proposal {
            request,
            data,
            reply,
            term: None,
        }
    }

    /// The space that a change takes for which there is none: request handlers turn it away.
    pub(crate) fn turns_away(&self, request: &Request) -> Option<u64> {
        let needed = state::space_needed(request);
        // Here, what is under way weighs nothing.
        let fits = self.shared.admits(needed, 0, self.quota);
        (!fits).then_some(needed)
    }

    /// New writes are encrypted with the first of these keys, and the rest is to follow.
    pub(crate) fn change_keys(&mut self, keys: &KeyFile) -> storage::Result<()> {
        if let Some(data_keys) = &self.data_keys
            && data_keys.change(keys)?
        {
            self.ports.to_apply.push(ApplyEvent::KeysChanged);
        }
        Ok(())
    }

    /// When an actor has to be turned though nothing arrives, by the member's own clock.
    pub(crate) fn wakes_at(&self, actor: Actor, now: Duration) -> Option<Duration> {
        match actor {
            Actor::Consensus if !self.ports.to_consensus.is_empty() => Some(now),
            Actor::Consensus => self.consensus.consensus().wake_at(),
            Actor::Apply => self.apply.wake_at(now),
            Actor::Space => Some(self.next_look),
            _ => None,
        }
    }

    /// Whether something waits for this actor.
    pub(crate) fn is_busy(&self, actor: Actor) -> bool {
        let is_synced = || {
            let unsynced = self.log.lock().unsynced();
            unsynced <= self.lied_through
        };
        match actor {
            Actor::Consensus => !self.ports.to_consensus.is_empty(),
            Actor::LogWrite => !self.ports.to_log.is_empty() && is_synced(),
            Actor::LogSync => !is_synced(),
            Actor::Apply => !self.ports.to_apply.is_empty(),
            Actor::Helper => !self.ports.jobs.is_empty(),
            Actor::Hub | Actor::Space => false,
        }
    }

    /// What was said since the last turn, and why the turn ended, if it did so early.
    fn said<T>(&mut self, turned: Result<T, driver::Fatal>) -> Turn {
        let mut turn = std::mem::take(&mut self.ports.said);
        if let Err(fatal) = turned {
            turn.failed = Some(fatal.into());
        }
        turn
    }

    pub(crate) fn turn_member(&mut self, now: Duration) -> Turn {
        self.ports.now = now;
        let mut events = std::mem::take(&mut self.ports.to_consensus);
        let changes_conf = |event: &ConsensusEvent| {
            matches!(
                event,
                ConsensusEvent::ConfChanged { .. } | ConsensusEvent::SnapshotInstalled
            )
        };
        let conf_changes = events.iter().any(changes_conf);
        let turned = self.consensus.turn(now, &mut events, &mut self.ports);
        self.ports.to_consensus.splice(0..0, events);
        let mut turn = self.said(turned);
        turn.conf = conf_changes.then(|| self.consensus.consensus().conf());
        turn
    }

    /// The state that the applier is about to put in place of its own.
    pub(crate) fn to_install(&self) -> Option<Applied> {
        self.ports.to_apply.iter().find_map(|event| match event {
            ApplyEvent::Install(received) => Some(received.applied()),
            _ => None,
        })
    }

    /// Takes in a state from another member, as far as it came. An error tells the sender.
    pub(crate) fn receive_snapshot(&mut self, form: Form, bytes: &[u8]) -> Result<(), String> {
        let Some(receiving) = self.receiver.begin() else {
            return Err("another one is being received".to_owned());
        };
        let (message, received) = receiving
            .read(form, &mut &*bytes)
            .map_err(|error| error.to_string())?;
        let received = Box::new(received);
        self.ports
            .to_consensus
            .push(ConsensusEvent::SnapshotReceived { message, received });
        Ok(())
    }

    /// Takes all there is and writes it.
    pub(crate) fn write_log(&mut self) -> Turn {
        let mut events = std::mem::take(&mut self.ports.to_log);
        let written = self.log.lock().write(&mut events, &mut self.ports);
        self.said(written)
    }

    pub(crate) fn sync_log(&mut self) -> Turn {
        let synced = self.log.lock().sync(&mut self.ports);
        self.said(synced)
    }

    /// The canary: says that what was written is durable.
    pub(crate) fn lie_of_log(&mut self) -> Turn {
        self.lied_through = self.log.lock().unsynced();
        if let Some(ticket) = self.lied_through {
            self.ports
                .to_consensus
                .push(ConsensusEvent::Durable { ticket });
        }
        Turn {
            durable: self.lied_through,
            ..Turn::default()
        }
    }

    /// The canary: checkpoints start though the log has not synced what they hold.
    pub(crate) fn hurry_checkpoints(&mut self) {
        for event in std::mem::take(&mut self.ports.to_log) {
            match event {
                LogEvent::Checkpoint(job) => {
                    self.ports.start(Job::Checkpoint(job, Hurry::default()));
                }
                event => self.ports.to_log.push(event),
            }
        }
    }

    pub(crate) fn turn_applier(&mut self, now: Duration) -> Turn {
        self.ports.now = now;
        let mut events = std::mem::take(&mut self.ports.to_apply);
        let turned = self.apply.turn(now, &mut events, &mut self.ports);
        self.said(turned)
    }

    /// False when there was nothing to do.
    pub(crate) fn turn_hub(&mut self) -> Result<bool, Fatal> {
        Ok(self.watch.turn(|_, was_busy| was_busy)?)
    }

    pub(crate) fn look_at_disks(&mut self, now: Duration) {
        let wait = self.disks.look(&mut self.ports);
        self.next_look = now + wait;
    }

    pub(crate) fn jobs(&self) -> usize {
        self.ports.jobs.len()
    }

    /// Runs one of the jobs: helper threads may end in any order.
    pub(crate) fn run_job(&mut self, place: usize) -> Turn {
        let job = self.ports.jobs.remove(place);
        let saves = match &job {
            Job::Checkpoint(job, _) => Some(job.applied()),
            _ => None,
        };
        let done = job
            .run(&self.reader, || CHECKPOINT_PIECE_BYTES)
            .map(|done| match done {
                Done::Nothing => {}
                Done::Consensus(event) => self.ports.to_consensus.push(event),
                Done::Apply(event) => self.ports.to_apply.push(event),
            });
        Turn {
            saves,
            ..self.said(done)
        }
    }
}
