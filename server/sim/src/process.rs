//! One run of a member: the actors and the driver that `server::runtime` puts on threads, with
//! inboxes, and when each is to be turned next. What a turn says to the rest of the world comes back
//! as values.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::membershippb;
use parking_lot::Mutex;
use raft::durable::Options;
use raft::{Complaint, ConfState, Message, Recovered, RoleChange, Status, Ticket, Write};
use server::applier::{BackgroundLimits, SpaceNews};
use server::config::{ClusterState, Config};
use server::data_dir::{DataDir, EmptyDir, Found, Unusable, newcomer};
use server::driver::apply::ApplyDriver;
use server::driver::consensus::ConsensusDriver;
use server::driver::log::Log;
use server::driver::space::Disks;
use server::driver::watch::Watch;
use server::driver::{self, Actors, Done, Hurry, Job, Note, Ports, Published, Replies, RequestIds};
use server::event::{ApplyEvent, ConsensusEvent, LogEvent, Proposal, ReplySlot};
use server::request::Request;
use server::state::hashes::{Compacted, HashJob, Hashes, KvHash};
use server::state::snapshot::{Form, Receiver};
use server::state::watch::{StreamOptions, WatchStream};
use server::state::{self, MemberInfo};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::{Applied, Next, Reader, View};
use storage::vfs::Lock;
use storage::vfs::sim::SimVfs;

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

/// What a member is told when it starts; the same for all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub config: Config,
    pub limits: raft::Limits,
    pub log: Options,
    pub pace: BackgroundLimits,
    /// Ids of keys, the one for new data in front; none: nothing is encrypted.
    pub keys: Vec<u32>,
}

impl Settings {
    /// Member `name` of a cluster of all of `names`, to be founded or, when one `joins`, there.
    pub(crate) fn new(
        name: &str,
        names: &[String],
        (kept_entries, keep_bytes): (u64, u64),
        joins: bool,
    ) -> Settings {
        let url = |name: &str| format!("http://{name}:2380");
        let state = if joins { "existing" } else { "new" };
        let cluster: Vec<String> = names.iter().map(|n| format!("{n}={}", url(n))).collect();
        let args = [
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={}", url(name)),
            format!("--initial-cluster={}", cluster.join(",")),
            format!("--snapshot-catchup-entries={kept_entries}"),
            format!("--wal-keep-bytes={keep_bytes}"),
            format!("--initial-cluster-state={state}"),
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut config = server::config::parse(&args, &[], &no_file)
            .unwrap_or_else(|exit| panic!("the configuration is refused: {exit:?}"));
        config.data_dir = PathBuf::from("/data");
        Settings {
            limits: config.raft_limits(),
            log: Options {
                kept_entries: config.kept_entries(),
                ..Options::default()
            },
            config,
            pace: BackgroundLimits::default(),
            keys: Vec::new(),
        }
    }
}

impl Settings {
    /// It is to be a member of a cluster that runs.
    pub(crate) fn joins(&self) -> bool {
        self.config.initial_cluster_state == ClusterState::Existing
    }

    /// The least TTL of a lease, in seconds: one and a half election timeouts, rounded up.
    pub(crate) fn min_lease_ttl(&self) -> i64 {
        let millis = self.config.election_timeout.as_millis() as u64;
        (millis + millis / 2).div_ceil(1000) as i64
    }

    /// As an operator would write it.
    pub(crate) fn key_file(&self) -> Option<KeyFile> {
        if self.keys.is_empty() {
            return None;
        }
        let line = |id: &u32| format!("{id} {}\n", format!("{id:02x}").repeat(32));
        let text: String = self.keys.iter().map(line).collect();
        let keys = KeyFile::parse("keys", &text);
        Some(keys.unwrap_or_else(|error| panic!("the keys are refused: {error}")))
    }
}

/// What a running member tells `member_id`, whose disk is empty.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub member_id: u64,
    pub cluster_id: u64,
    /// What the one that tells has applied.
    pub applied: u64,
    pub members: Vec<MemberInfo>,
}

impl Told {
    /// Whether the one that is told is a member.
    pub(crate) fn knows(&self) -> bool {
        self.members.iter().any(|m| m.id == self.member_id)
    }
}

/// What becomes of a start.
pub(crate) enum Start {
    /// With what the log held, for those who judge it.
    Runs {
        process: Box<Process>,
        found: Recovered,
        /// The disk was empty.
        is_new: bool,
    },
    /// This member was removed.
    Removed,
    /// Others know the member whose disk is empty.
    Refused(String),
}

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
    pub ports: SimPorts,
    /// The world's time of each actor's next turn, in the order of [`ACTORS`].
    pub turns: [Option<u64>; ACTORS.len()],
    _lock: Box<dyn Lock>,
}

/// What the driver is given in place of threads, sockets and a clock: inboxes, a list of work for
/// helper threads, and a record of what a turn says to the rest of the world.
pub(crate) struct SimPorts {
    now: Duration,
    pub to_consensus: Vec<ConsensusEvent>,
    pub to_log: Vec<LogEvent>,
    pub to_apply: Vec<ApplyEvent>,
    jobs: Vec<Job>,
    hashes: Hashes,
    /// Members once: nothing that they send is heard.
    pub removed: BTreeSet<u64>,
    said: Turn,
}

/// What a turn says.
#[derive(Default)]
pub(crate) struct Turn {
    pub writes: Vec<Write>,
    /// What is durable by now.
    pub durable: Option<Ticket>,
    /// The actor could not go on: what the turn says beside this is what was said until then.
    pub failed: Option<Fatal>,
    pub committed: Vec<raft::Entry>,
    pub messages: Vec<Message>,
    /// These travel with a state.
    pub transfers: Vec<(Message, View)>,
    pub replies: Replies,
    pub became: Option<RoleChange>,
    /// Who votes and learns has changed, or may have.
    pub conf: Option<ConfState>,
    /// The state was replaced by that of another member.
    pub installed: bool,
    /// Of histories about to be compacted.
    pub hashes: Vec<KvHash>,
    pub cluster_changed: bool,
    /// A checkpoint with everything up to here is being written.
    pub saves: Option<Applied>,
    /// Only this key is needed from now on.
    pub reencrypted: Option<u32>,
    pub space_news: Vec<SpaceNews>,
    pub complaints: Vec<Complaint>,
    /// Entries read from the log on disk for other members.
    pub fetched: usize,
}

impl Ports for SimPorts {
    fn now(&self) -> Duration {
        self.now
    }

    fn to_consensus(&mut self, event: ConsensusEvent) {
        self.said.installed |= matches!(event, ConsensusEvent::SnapshotInstalled);
        self.to_consensus.push(event);
    }

    fn to_consensus_quietly(&mut self, event: ConsensusEvent) {
        self.to_consensus(event);
    }

    fn to_log(&mut self, event: LogEvent) {
        self.to_log.push(event);
    }

    fn to_apply(&mut self, event: ApplyEvent) {
        if let ApplyEvent::Committed(entries) = &event {
            let entries = entries.iter().map(|committed| committed.entry.clone());
            self.said.committed.extend(entries);
        }
        self.to_apply.push(event);
    }

    fn answer(&mut self, replies: &mut Replies) {
        self.said.replies.append(replies);
    }

    fn send(&mut self, messages: &mut Vec<Message>) {
        self.said.messages.append(messages);
    }

    fn send_snapshot(&mut self, message: Message, view: View) {
        self.said.transfers.push((message, view));
    }

    fn set_members(&mut self, _: &[MemberInfo], removed: &[u64]) {
        self.removed = removed.iter().copied().collect();
        self.said.cluster_changed = true;
    }

    fn start(&mut self, job: Job) {
        self.jobs.push(job);
    }

    fn digest(&mut self, job: HashJob) {
        let (view, revision) = (job.view.clone(), job.revision);
        self.hashes.announce(job);
        self.hashes.run_one();
        match self.hashes.at(&view, revision) {
            Ok(hash) => self.said.hashes.push(hash),
            Err(error) => self.said.failed = Some(error.into()),
        }
    }

    fn compaction_ended(&mut self, compacted: Compacted) {
        self.hashes.ended(compacted);
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Write(write) => self.said.writes.push(write.clone()),
            Note::Synced { through, .. } => self.said.durable = Some(through),
            Note::RoleChanged { change, .. } => self.said.became = Some(*change),
            Note::Complaint(complaint) => {
                self.said.complaints.push(complaint);
            }
            Note::Reencryption(progress) if progress.next == Next::Done => {
                self.said.reencrypted = Some(progress.active);
            }
            Note::Fetched { entries, .. } => self.said.fetched += entries.len(),
            Note::Space(news) => self.said.space_news.push(news),
            _ => {}
        }
    }
}

/// The disk, or what is on it, does not let the process go on.
#[derive(Debug)]
pub(crate) struct Fatal(pub String);

impl From<driver::Fatal> for Fatal {
    fn from(fatal: driver::Fatal) -> Fatal {
        Fatal(fatal.to_string())
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
    /// As `server::lifecycle` does it. `time_of_day` in nanoseconds. An empty disk becomes that of a
    /// new cluster, or takes its place in a running one, if what it is told lets it.
    pub(crate) fn start(
        disk: &SimVfs,
        settings: &Settings,
        time_of_day: u64,
        told: &[Told],
    ) -> Result<Start, Fatal> {
        let options = Options {
            seed: time_of_day,
            ..settings.log.clone()
        };
        let (config, vfs) = (&settings.config, Arc::new(disk.clone()));
        let keys = settings.key_file();
        let data = match DataDir::find_alone(vfs, config, keys.as_ref(), options)? {
            Found::Used(data) => *data,
            Found::Empty(empty) => match begin(*empty, settings, told) {
                Err(Unusable::Start(why)) => return Ok(Start::Refused(why)),
                begun => begun?,
            },
        };
        if data.was_removed()? {
            return Ok(Start::Removed);
        }
        let removed = state::removed(data.state.store.root())?;
        let (found, is_new) = (data.recovered.clone(), data.is_new);
        let run = driver::Settings {
            limits: settings.limits,
            pace: settings.pace,
            stopwatch: None,
            time_of_day: Duration::from_nanos(time_of_day),
            now: Duration::ZERO,
        };
        let actors = Actors::new(data, config, run)?;
        let process = Process {
            member_id: actors.member_id,
            cluster_id: actors.cluster_id,
            consensus: actors.consensus,
            log: actors.log,
            lied_through: None,
            apply: actors.apply,
            watch: actors.watch,
            disks: actors.disks,
            next_look: Duration::ZERO,
            shared: actors.shared,
            quota: config.quota_backend_bytes.unwrap_or(0),
            request_ids: actors.request_ids,
            reader: actors.reader,
            receiver: actors.receiver,
            data_keys: actors.data_keys,
            ports: SimPorts {
                now: Duration::ZERO,
                to_consensus: Vec::new(),
                to_log: Vec::new(),
                // No member of a simulated cluster is of another make.
                to_apply: vec![ApplyEvent::LeaseCheckpoints { allowed: true }],
                jobs: Vec::new(),
                hashes: Hashes::default(),
                removed: removed.into_iter().collect(),
                said: Turn::default(),
            },
            turns: [None; ACTORS.len()],
            _lock: actors.lock,
        };
        Ok(Start::Runs {
            process: Box::new(process),
            found,
            is_new,
        })
    }

    pub(crate) fn status(&self) -> Status {
        self.consensus.consensus().status()
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
        let proposal = self.encode(request, None);
        self.ports
            .to_consensus
            .push(ConsensusEvent::Propose(proposal));
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
        let done = job.run(&self.reader, || ()).map(|done| match done {
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

/// What the member may do with an empty directory.
fn begin(empty: EmptyDir, settings: &Settings, told: &[Told]) -> Result<DataDir, Unusable> {
    if let Some(told) = told.first().filter(|_| settings.joins()) {
        newcomer::may_join(told.member_id, &told.members).map_err(Unusable::Start)?;
        return empty.join(told.member_id, told.cluster_id, told.members.clone());
    }
    for told in told {
        newcomer::may_bootstrap(&settings.config, &told.members).map_err(Unusable::Start)?;
    }
    empty.found(&settings.config)
}
