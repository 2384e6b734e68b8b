//! What the driver is given in place of threads, sockets and a clock, and what a turn says.

use std::collections::BTreeSet;
use std::time::Duration;

use raft::{Complaint, ConfState, Message, RoleChange, Ticket, Write};
use server::member::applier::SpaceNews;
use server::member::data_dir::Unusable;
use server::member::driver::{self, Job, Note, Ports, Replies};
use server::member::event::{Answer, ApplyEvent, ConsensusEvent, LogEvent, Outcome, Reply};
use server::state::MemberInfo;
use server::state::hashes::{Compacted, HashJob, Hashes, KvHash};
use storage::mvcc::{Applied, Next, View};

/// What the driver is given in place of threads, sockets and a clock: inboxes, a list of work for
/// helper threads, and a record of what a turn says to the rest of the world.
pub(crate) struct SimPorts {
    pub(super) now: Duration,
    pub to_consensus: Vec<ConsensusEvent>,
    pub to_log: Vec<LogEvent>,
    pub to_apply: Vec<ApplyEvent>,
    pub(super) jobs: Vec<Job>,
    pub(super) hashes: Hashes,
    /// Members once: nothing that they send is heard.
    pub removed: BTreeSet<u64>,
    pub(super) said: Turn,
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

    /// The keys of leases are read at once: when the client looks, the disk may be another one.
    fn answer(&mut self, replies: &mut Replies) {
        let replies = replies.drain(..);
        let read = replies.map(|(slot, reply)| (slot, reply.and_then(with_keys)));
        self.said.replies.extend(read);
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

impl From<server::basics::error::Error> for Fatal {
    fn from(error: server::basics::error::Error) -> Fatal {
        Fatal(error.to_string())
    }
}

impl From<Unusable> for Fatal {
    fn from(error: Unusable) -> Fatal {
        Fatal(error.to_string())
    }
}

/// The answer as request handlers give it to clients.
fn with_keys(mut answer: Answer) -> Reply {
    if let Outcome::Lease(lease) = &mut answer.outcome {
        lease.read_keys()?;
    }
    Ok(answer)
}
