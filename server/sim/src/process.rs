//! One run of a member: the actors that `server::runtime` puts on threads, with their inboxes, and
//! when each is to be turned next. What a turn says to the rest of the world comes back as values.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::membershippb;
use raft::durable::{LogWriter, Options};
use raft::{Complaint, Message, Raft, Recovered, RoleKind, Status, Ticket, Write};
use server::cluster::member::{Member, MemberEffects};
use server::config::Config;
use server::data_dir::{DataDir, Found, Unusable};
use server::runtime::event::{ApplyEvent, LogEvent, MemberEvent, Proposal, Reply, ReplySlot};
use server::runtime::node::{self, RequestIds};
use server::state::applier::{Applier, ApplyEffects, Pace};
use server::state::hashes::{Hashes, KvHash};
use server::state::lessor::Lessor;
use server::state::request::Request;
use server::state::snapshot::{self, Form, Received, Receiver};
use server::state::watch::{Hub, HubHandle, Stream, StreamOptions};
use server::state::{self, MemberInfo};
use storage::mvcc::{Applied, CheckpointJob, Reader, SyncJob, View};
use storage::vfs::Lock;
use storage::vfs::sim::SimVfs;

/// Who takes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Member,
    /// The log's thread takes all there is and writes it.
    LogWrite,
    /// ..and then syncs it.
    LogSync,
    Apply,
    Hub,
    /// A helper thread writes a checkpoint, or syncs the store's file.
    Helper,
}

pub(crate) const ACTORS: [Actor; 6] = [
    Actor::Member,
    Actor::LogWrite,
    Actor::LogSync,
    Actor::Apply,
    Actor::Hub,
    Actor::Helper,
];

/// What a member is told when it starts; the same for all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub config: Config,
    pub limits: raft::Limits,
    pub log: Options,
    pub pace: Pace,
}

impl Settings {
    /// Member `name` of a cluster of all of `names`, to be founded or, when one `joins`, there.
    pub(crate) fn new(name: &str, names: &[String], kept_entries: u64, joins: bool) -> Settings {
        let url = |name: &str| format!("http://{name}:2380");
        let state = if joins { "existing" } else { "new" };
        let cluster: Vec<String> = names.iter().map(|n| format!("{n}={}", url(n))).collect();
        let args = [
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={}", url(name)),
            format!("--initial-cluster={}", cluster.join(",")),
            format!("--snapshot-catchup-entries={kept_entries}"),
            format!("--initial-cluster-state={state}"),
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut config = server::config::parse(&args, &[], &no_file)
            .unwrap_or_else(|exit| panic!("the configuration is refused: {exit:?}"));
        config.data_dir = PathBuf::from("/data");
        Settings {
            limits: raft::Limits {
                kept_entries: config.kept_entries(),
                ..raft::Limits::default()
            },
            log: Options {
                kept_entries: config.kept_entries(),
                ..Options::default()
            },
            config,
            pace: Pace::default(),
        }
    }
}

/// What a running cluster tells one that is to join it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub member_id: u64,
    pub cluster_id: u64,
    pub members: Vec<MemberInfo>,
}

pub(crate) struct Process {
    pub member_id: u64,
    pub cluster_id: u64,
    member: Member,
    pub to_member: Vec<MemberEvent>,
    /// The newest write that the log's thread has and has not said to be durable.
    handed_over: Option<Ticket>,
    log: LogWriter,
    pub to_log: Vec<LogEvent>,
    /// Written, and being synced.
    syncing: Option<Ticket>,
    applier: Applier,
    pub to_apply: Vec<ApplyEvent>,
    jobs: VecDeque<Job>,
    hub: Hub,
    hub_inbox: HubHandle,
    hashes: Hashes,
    reader: Reader,
    receiver: Receiver,
    request_ids: RequestIds,
    /// As request handlers see it.
    pub leader: u64,
    term: u64,
    pub sole_voter: bool,
    pub learner: bool,
    /// Members once: nothing that they send is heard.
    pub removed: BTreeSet<u64>,
    /// The world's time of each actor's next turn, in the order of [`ACTORS`].
    pub turns: [Option<u64>; ACTORS.len()],
    _lock: Box<dyn Lock>,
}

enum Job {
    Checkpoint(Box<CheckpointJob>),
    Sync(SyncJob),
    /// A view for this member, and what to say of it.
    Describe(u64),
    Discard(Box<Received>),
}

/// What a turn of the member says.
#[derive(Default)]
pub(crate) struct MemberTurn {
    pub writes: Vec<Write>,
    /// Written and synced at once, by the member's thread itself.
    pub durable: Vec<Ticket>,
    /// ..which did not work: nothing of the turn but `writes` has happened.
    pub failed: Option<Fatal>,
    pub committed: Vec<raft::Entry>,
    pub messages: Vec<Message>,
    /// These travel with a state.
    pub transfers: Vec<(Message, View)>,
    pub replies: Vec<(ReplySlot, Reply)>,
    pub became: Option<raft::RoleChange>,
    /// Who votes and learns has changed, or may have.
    pub conf: Option<raft::ConfState>,
}

/// What a turn of the applier says.
#[derive(Default)]
pub(crate) struct ApplyTurn {
    /// The state was replaced by that of another member.
    pub installed: bool,
    pub replies: Vec<(ReplySlot, Reply)>,
    /// Of histories about to be compacted.
    pub hashes: Vec<KvHash>,
    /// What was asked of the log's thread: nothing before this index is needed here.
    pub drop_log_before: Option<u64>,
    pub cluster_changed: bool,
}

/// The disk, or what is on it, does not let the process go on.
#[derive(Debug)]
pub(crate) struct Fatal(pub String);

impl From<storage::Error> for Fatal {
    fn from(error: storage::Error) -> Fatal {
        Fatal(error.to_string())
    }
}

impl From<server::error::Error> for Fatal {
    fn from(error: server::error::Error) -> Fatal {
        Fatal(error.to_string())
    }
}

impl From<Unusable> for Fatal {
    fn from(error: Unusable) -> Fatal {
        Fatal(error.to_string())
    }
}

impl Process {
    /// As `server::lifecycle` and `server::runtime` do it. `time_of_day` in nanoseconds. What the
    /// log held comes back too, for those who judge it. An empty disk becomes that of a new
    /// cluster, or takes its `place` in a running one. `None`: this member was removed.
    pub(crate) fn start(
        disk: &SimVfs,
        settings: &Settings,
        time_of_day: u64,
        place: Option<Place>,
    ) -> Result<Option<(Process, Recovered)>, Fatal> {
        let options = Options {
            seed: time_of_day,
            ..settings.log.clone()
        };
        let config = &settings.config;
        let data = match (
            DataDir::find_alone(Arc::new(disk.clone()), config, options)?,
            place,
        ) {
            (Found::Used(data), _) => *data,
            (Found::Empty(empty), None) => empty.found(config)?,
            (Found::Empty(empty), Some(place)) => {
                empty.join(place.member_id, place.cluster_id, place.members)?
            }
        };
        if data.was_removed()? {
            return Ok(None);
        }
        let removed = state::removed(data.state.store.root())?;
        let found = data.recovered.clone();
        let receiver = Receiver::new(
            Arc::clone(&data.vfs),
            data.store_dir.clone(),
            data.state.store.options(),
        )?;
        let (voters, learners) = data.voters_and_learners()?;
        let sole_voter = voters == [data.member_id];
        let learner = learners.contains(&data.member_id);
        let raft_config = raft::Config {
            limits: settings.limits,
            heartbeat: config.heartbeat_interval,
            election_timeout: config.election_timeout,
            suspicion: config.suspicion(),
            pre_vote: config.pre_vote,
            learners,
            ..raft::Config::new(data.member_id, voters, time_of_day)
        };
        let last_in_log = data.recovered.entries.last().map_or(0, |entry| entry.index);
        let raft = Raft::new(raft_config, data.recovered, Duration::ZERO);
        let state = data.state;
        let reader = state.store.reader();
        let (hub, hub_inbox) = Hub::new(reader.clone());
        let mut applier = Applier::new(
            state,
            Lessor::new(config.election_timeout),
            hub_inbox.clone(),
            last_in_log,
            config.election_timeout,
            Duration::ZERO,
        )?;
        applier.go_on_from(data.replayed);
        applier.set_pace(settings.pace);
        let process = Process {
            member_id: data.member_id,
            cluster_id: data.cluster_id,
            member: Member::new(raft, time_of_day),
            to_member: Vec::new(),
            handed_over: None,
            log: data.log,
            to_log: Vec::new(),
            syncing: None,
            applier,
            // No member of a simulated cluster is of another make.
            to_apply: vec![ApplyEvent::LeaseCheckpoints { allowed: true }],
            jobs: VecDeque::new(),
            hub,
            hub_inbox,
            hashes: Hashes::default(),
            reader,
            receiver,
            request_ids: RequestIds::new(data.member_id, time_of_day / 1_000_000),
            leader: 0,
            term: 0,
            sole_voter,
            learner,
            removed: removed.into_iter().collect(),
            turns: [None; ACTORS.len()],
            _lock: data.lock,
        };
        Ok(Some((process, found)))
    }

    pub(crate) fn status(&self) -> Status {
        self.member.status()
    }

    pub(crate) fn leads(&self) -> bool {
        self.leader == self.member_id
    }

    pub(crate) fn decides_alone(&self) -> bool {
        let applied_term = self.applier.applied_term();
        node::decides_alone(self.sole_voter, self.leads(), applied_term, self.term)
    }

    /// Everybody, as this member has them.
    pub(crate) fn members(&self) -> Result<Vec<MemberInfo>, Fatal> {
        Ok(state::members(&self.view())?)
    }

    pub(crate) fn view(&self) -> View {
        self.reader.view()
    }

    pub(crate) fn open_stream(&self) -> Stream {
        let options = StreamOptions {
            fragment_bytes: 2 << 20,
        };
        Stream::new(self.hub_inbox.clone(), self.reader.clone(), options)
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
        let proposal = self.encode(request, None);
        self.to_member.push(MemberEvent::Propose(proposal));
    }

    pub(crate) fn encode(&self, request: Request, reply: Option<ReplySlot>) -> Proposal {
        let data = request.encode(self.request_ids.next());
        Proposal {
            request,
            data,
            reply,
            term: None,
        }
    }

    /// When an actor has to be turned though nothing arrives, by the member's own clock.
    pub(crate) fn wakes_at(&self, actor: Actor, now: Duration) -> Option<Duration> {
        match actor {
            Actor::Member if !self.to_member.is_empty() => Some(now),
            Actor::Member => self.member.wake_at(),
            Actor::Apply => self.applier.wake_at(now),
            _ => None,
        }
    }

    /// Whether something waits for this actor.
    pub(crate) fn is_busy(&self, actor: Actor) -> bool {
        match actor {
            Actor::Member => !self.to_member.is_empty(),
            Actor::LogWrite => !self.to_log.is_empty() && self.syncing.is_none(),
            Actor::LogSync => self.syncing.is_some(),
            Actor::Apply => !self.to_apply.is_empty(),
            Actor::Helper => !self.jobs.is_empty(),
            Actor::Hub => false,
        }
    }

    pub(crate) fn turn_member(&mut self, now: Duration) -> MemberTurn {
        let (mut turn, mut effects) = (MemberTurn::default(), MemberEffects::default());
        let mut conf_changes = false;
        for event in &self.to_member {
            match event {
                MemberEvent::Durable { ticket } if Some(*ticket) >= self.handed_over => {
                    self.handed_over = None;
                }
                MemberEvent::ConfChanged { .. } | MemberEvent::SnapshotInstalled => {
                    conf_changes = true;
                }
                _ => {}
            }
        }
        self.member.turn(now, &mut self.to_member, &mut effects);
        turn.conf = conf_changes.then(|| self.member.conf());
        for write in effects.writes.drain(..) {
            let ticket = write.ticket;
            turn.writes.push(write.clone());
            let free = self.handed_over.is_none() && self.syncing.is_none();
            if free && self.member.is_lone(&write) {
                let written = self.log.append(&write).and_then(|()| self.log.sync());
                if let Err(error) = written {
                    turn.failed = Some(error.into());
                    return turn;
                }
                turn.durable.push(ticket);
                self.to_member.push(MemberEvent::Durable { ticket });
            } else {
                self.handed_over = Some(ticket);
                self.to_log.push(LogEvent::Write(write));
            }
        }
        let is_loss = |c: &&Complaint| !matches!(c, Complaint::Refused { .. });
        let loss = effects.complaints.iter().find(is_loss);
        assert!(loss.is_none(), "no disk lost what was durable: {loss:?}");
        turn.messages = effects.messages;
        if let Some(change) = effects.role_change {
            let leads = (change.role == RoleKind::Leader).then_some(change.term);
            self.to_apply.push(ApplyEvent::Leading(leads));
            self.leader = change.leader;
            self.term = change.term;
            turn.became = Some(change);
        }
        if !effects.committed.is_empty() {
            let entries = effects.committed.iter().map(|c| c.entry.clone());
            turn.committed = entries.collect();
            self.to_apply.push(ApplyEvent::Committed(effects.committed));
        }
        for (index, slots) in effects.reads.drain(..) {
            self.to_apply.push(ApplyEvent::Reads { index, slots });
        }
        let wanted = effects.snapshots_wanted.drain(..).map(Job::Describe);
        self.jobs.extend(wanted);
        turn.transfers = effects.transfers;
        if let Some(received) = effects.install.take() {
            self.to_apply.push(ApplyEvent::Install(received));
        }
        self.jobs
            .extend(effects.unwanted.drain(..).map(Job::Discard));
        turn.replies = effects.replies;
        turn
    }

    /// The state that the applier is about to put in place of its own.
    pub(crate) fn to_install(&self) -> Option<Applied> {
        self.to_apply.iter().find_map(|event| match event {
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
        self.to_member
            .push(MemberEvent::SnapshotReceived { message, received });
        Ok(())
    }

    /// Takes all there is and writes it. True when there is something to sync.
    pub(crate) fn write_log(&mut self) -> Result<bool, Fatal> {
        for event in std::mem::take(&mut self.to_log) {
            match event {
                LogEvent::Write(write) => {
                    self.log.append(&write)?;
                    self.syncing = Some(write.ticket);
                }
                LogEvent::DropBefore { index } => {
                    self.log.drop_before(index)?;
                    self.log
                        .finish_drop()
                        .map_or(Ok(()), |job| job.run(|| ()))?;
                }
                LogEvent::Stop => {}
            }
        }
        Ok(self.syncing.is_some())
    }

    /// Syncs what was written; the newest ticket that is durable now. `lie`: only says so.
    pub(crate) fn sync_log(&mut self, lie: bool) -> Result<Option<Ticket>, Fatal> {
        let Some(ticket) = self.syncing.take() else {
            return Ok(None);
        };
        if let Some(job) = self.log.prepare_next() {
            job.run()?;
        }
        if !lie {
            self.log.sync()?;
        }
        self.to_member.push(MemberEvent::Durable { ticket });
        Ok(Some(ticket))
    }

    pub(crate) fn turn_applier(&mut self, now: Duration) -> Result<ApplyTurn, Fatal> {
        let mut effects = ApplyEffects::default();
        self.applier.turn(now, &mut self.to_apply, &mut effects)?;
        let mut turn = ApplyTurn::default();
        for job in effects.hash.drain(..) {
            let (view, revision) = (job.view.clone(), job.revision);
            self.hashes.announce(job);
            self.hashes.run_one();
            turn.hashes.push(self.hashes.at(&view, revision)?);
        }
        if let Some(revision) = effects.advanced
            && !self.hub.advance_if_brief(revision)?
        {
            self.hub_inbox.advanced(revision);
        }
        if effects.cluster_changed {
            let members = self.applier.members()?;
            let own = members.iter().find(|member| member.id == self.member_id);
            self.learner = own.is_some_and(|own| own.is_learner);
            let voters = members.iter().filter(|member| !member.is_learner);
            self.sole_voter = voters.map(|member| member.id).eq([self.member_id]);
            self.removed = self.applier.removed_members()?.into_iter().collect();
            turn.cluster_changed = true;
        }
        for (index, change) in effects.conf_changes.drain(..) {
            self.to_member
                .push(MemberEvent::ConfChanged { index, change });
        }
        turn.installed = effects.installed;
        if effects.installed {
            self.to_member.push(MemberEvent::SnapshotInstalled);
        }
        if let Some(index) = effects.applied {
            self.to_member.push(MemberEvent::Applied { index });
        }
        turn.replies = effects.replies;
        for request in effects.proposals.drain(..) {
            let mut proposal = self.encode(request, None);
            proposal.term = Some(effects.term);
            self.to_member.push(MemberEvent::Propose(proposal));
        }
        turn.drop_log_before = effects.drop_log_before;
        self.jobs.extend(effects.sync.map(Job::Sync));
        self.jobs
            .extend(effects.checkpoint.map(Box::new).map(Job::Checkpoint));
        Ok(turn)
    }

    /// False when there was nothing to do.
    pub(crate) fn turn_hub(&mut self) -> Result<bool, Fatal> {
        Ok(self.hub.turn()?)
    }

    /// Runs the oldest job of the helper threads. True when it was a checkpoint.
    pub(crate) fn run_job(&mut self) -> Result<bool, Fatal> {
        match self.jobs.pop_front() {
            Some(Job::Checkpoint(job)) => {
                let ran = Box::new(job.attempt());
                self.to_apply.push(ApplyEvent::CheckpointRan(ran));
                return Ok(true);
            }
            Some(Job::Sync(job)) => job.run()?,
            Some(Job::Describe(to)) => {
                let view = self.reader.view();
                let snapshot = snapshot::describe(&view)?;
                self.to_member
                    .push(MemberEvent::SnapshotReady { to, snapshot, view });
            }
            // The next one clears what cannot be cleared now.
            Some(Job::Discard(received)) => drop(received.discard()),
            None => {}
        }
        Ok(false)
    }
}
