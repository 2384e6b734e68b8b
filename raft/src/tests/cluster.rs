//! Members with simulated disks, state machines and a network that delivers nothing by itself.
//! Raft's promises are checked after every step.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::log;
use crate::message::{
    ConfChange, ConfState, Entry, EntryKind, HardState, Index, Message, NodeId, Position, Snapshot,
    Term,
};
use crate::{
    Complaint, Config, Fetch, Input, LogPart, Now, Output, Proposal, Proposed, Raft, Read,
    Recovered, RoleKind, Write, wire,
};

/// The id of a change that the server refuses at apply.
pub(super) const REFUSED: u64 = u64::MAX;
/// Upper bound of members at the start of a log.
const FOUNDERS_MAX: Index = 5;

/// The log on disk: what is durable, and the writes a power cut would lose.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) base: Position,
    pub(super) entries: Vec<Entry>,
    pub(super) hard_state: HardState,
    pub(super) unsynced: VecDeque<Write>,
}

impl Disk {
    fn apply(&mut self, write: Write) {
        if let Some(base) = write.reset {
            self.base = base;
            self.entries.clear();
        }
        if let Some(first) = write.entries.first() {
            assert!(first.index > self.base.index);
            self.entries
                .truncate((first.index - self.base.index - 1) as usize);
            assert_eq!(
                first.index,
                self.base.index + self.entries.len() as Index + 1
            );
        }
        self.entries.extend(write.entries);
        if let Some(state) = write.hard_state {
            self.hard_state = state;
        }
    }

    /// What a fetch finds.
    pub(super) fn find(&self, fetch: &Fetch) -> Option<LogPart> {
        let index = fetch.from - 1;
        let term = self.term_at(index)?;
        let rest = &self.entries[(index - self.base.index) as usize..];
        let rest = rest.iter().take_while(|entry| entry.index <= fetch.through);
        let count = log::count_within(rest.clone(), fetch.bytes);
        Some(LogPart {
            prev: Position { term, index },
            entries: rest.take(count).cloned().collect(),
        })
    }

    /// Durable, or in a write that is not synced yet.
    fn was_given(&self, entry: &Entry) -> bool {
        let writes = self.unsynced.iter();
        self.term_at(entry.index) == Some(entry.term)
            || writes.flat_map(|write| &write.entries).any(|e| e == entry)
    }

    fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        let offset = index.checked_sub(self.base.index + 1)?;
        self.entries.get(offset as usize).map(|entry| entry.term)
    }
}

/// A state machine that reduces everything it applied to a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) applied: Position,
    pub(super) hash: u64,
    pub(super) conf: ConfState,
}

impl Machine {
    fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.index, self.applied.index + 1, "applied out of order");
        self.applied = entry.position();
        for byte in entry.data.iter().chain(&entry.term.to_le_bytes()) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) config: Config,
    /// `None` while crashed.
    pub(super) raft: Option<Raft>,
    pub(super) disk: Disk,
    pub(super) machine: Machine,
    /// The machine as a crash leaves it.
    pub(super) checkpoint: Machine,
    pub(super) reads: Vec<Read>,
    pub(super) wanted: Vec<NodeId>,
    pub(super) install: Option<Snapshot>,
    pub(super) proposed: Option<Proposed>,
    pub(super) complaints: Vec<Complaint>,
    /// Syncs at once, without a command.
    pub(super) fast_disk: bool,
    /// Applies at once.
    pub(super) fast_apply: bool,
    pub(super) to_apply: VecDeque<Entry>,
    /// Fetches find what is on the disk; otherwise nothing.
    pub(super) keeps_log: bool,
    pub(super) fetches: VecDeque<Fetch>,
    out: Output,
}

impl Node {
    pub(super) fn raft(&self) -> &Raft {
        self.raft.as_ref().expect("it is up")
    }
}

#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) now: Now,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) network: Vec<Message>,
    /// Events, for scripts.
    pub(super) trace: Vec<String>,
    /// Everything ever applied anywhere, with the machine's hash after it.
    chosen: BTreeMap<Index, (Position, u64)>,
    /// The term of the member that applied it first: leaders of later terms must have it.
    chosen_in: BTreeMap<Index, Term>,
    leaders: BTreeMap<Term, NodeId>,
    /// The members after each change, as seen by the member that applied it first.
    confs: BTreeMap<Index, ConfState>,
    pub(super) installs: usize,
    /// Fetches that found something.
    pub(super) fetched: usize,
    /// Snapshots are made and installed only on command.
    pub(super) snapshots_by_hand: bool,
    /// A message comes that no correct member sends, or a disk has lost durable data.
    pub(super) is_unsound: bool,
}

impl Cluster {
    /// Members that know each other from the start, with empty logs.
    pub(super) fn new(voters: &[NodeId]) -> Cluster {
        let mut cluster = Cluster::default();
        for id in voters {
            cluster.add(Config::new(*id, voters.to_vec(), 1));
        }
        cluster
    }

    /// Like a real start of a cluster: the members are the first entries of every log.
    pub(super) fn bootstrapped(voters: &[NodeId]) -> Cluster {
        let members: Vec<_> = voters.iter().map(|id| (*id, Bytes::new())).collect();
        let mut cluster = Cluster::default();
        for id in voters {
            let recovered = crate::bootstrap(&members);
            cluster.add(Config::new(*id, vec![], 1));
            let disk = &mut cluster.node(*id).disk;
            disk.entries = recovered.entries;
            disk.hard_state = recovered.hard_state;
            cluster.start(*id);
        }
        cluster
    }

    pub(super) fn add(&mut self, config: Config) {
        let machine = Machine {
            conf: ConfState {
                voters: config.voters.clone(),
                learners: config.learners.clone(),
                ..ConfState::default()
            },
            ..Machine::default()
        };
        let node = Node {
            raft: None,
            disk: Disk::default(),
            checkpoint: machine.clone(),
            machine,
            reads: Vec::new(),
            wanted: Vec::new(),
            install: None,
            proposed: None,
            complaints: Vec::new(),
            fast_disk: true,
            fast_apply: true,
            to_apply: VecDeque::new(),
            keeps_log: false,
            fetches: VecDeque::new(),
            out: Output::default(),
            config,
        };
        let id = node.config.id;
        self.nodes.insert(id, node);
        self.start(id);
    }

    /// Starts from what is durable.
    pub(super) fn start(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        node.machine = node.checkpoint.clone();
        node.disk.unsynced.clear();
        node.to_apply.clear();
        node.wanted.clear();
        node.fetches.clear();
        node.install = None;
        let applied = node.machine.applied;
        let disk = &mut node.disk;
        if disk.term_at(applied.index) != Some(applied.term) {
            // The machine took a snapshot, but the write that records it was lost.
            disk.base = applied;
            disk.entries.clear();
            disk.hard_state.commit = disk.hard_state.commit.min(applied.index);
            if disk.hard_state.term < applied.term {
                disk.hard_state = HardState {
                    term: applied.term,
                    vote: 0,
                    commit: applied.index,
                };
            }
        }
        let recovered = Recovered {
            hard_state: disk.hard_state,
            base: disk.base,
            entries: disk.entries.clone(),
            applied: applied.index,
        };
        let mut config = node.config.clone();
        config.voters.clone_from(&node.machine.conf.voters);
        config.learners.clone_from(&node.machine.conf.learners);
        config.seed ^= now.as_nanos() as u64;
        node.raft = Some(Raft::new(config, recovered, now));
    }

    pub(super) fn crash(&mut self, id: NodeId) {
        let node = self.node(id);
        node.raft = None;
        node.disk.unsynced.clear();
        node.to_apply.clear();
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a known member")
    }

    pub(super) fn raft(&self, id: NodeId) -> &Raft {
        self.nodes[&id].raft()
    }

    pub(super) fn up(&self) -> Vec<NodeId> {
        let up = self.nodes.iter().filter(|(_, node)| node.raft.is_some());
        up.map(|(id, _)| *id).collect()
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        let leads = |id: &NodeId| self.raft(*id).status().role == RoleKind::Leader;
        let leaders = self.up().into_iter().filter(leads);
        leaders.max_by_key(|id| self.raft(*id).status().term)
    }

    /// One input, and everything that follows from it inside the member.
    pub(super) fn step(&mut self, id: NodeId, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.now;
            let node = self.node(id);
            let Some(raft) = &mut node.raft else {
                return;
            };
            let mut out = std::mem::take(&mut node.out);
            raft.step(now, input, &mut out);
            self.take(id, &mut out, &mut inputs);
            self.node(id).out = out;
            self.check(id);
        }
    }

    /// Several inputs of one turn, as servers give them: those that may join are fed together.
    pub(super) fn step_together(&mut self, id: NodeId, inputs: Vec<Input>) {
        for input in inputs {
            let now = self.now;
            match &mut self.node(id).raft {
                None => return,
                Some(raft) if raft.joins(&input) => raft.feed(now, input),
                Some(_) => {
                    self.finish(id);
                    self.step(id, input);
                }
            }
        }
        self.finish(id);
    }

    fn finish(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        let Some(raft) = &mut node.raft else {
            return;
        };
        let mut out = std::mem::take(&mut node.out);
        raft.finish(now, &mut out);
        let mut inputs = VecDeque::new();
        self.take(id, &mut out, &mut inputs);
        self.node(id).out = out;
        self.check(id);
        for input in inputs {
            self.step(id, input);
        }
    }

    fn take(&mut self, id: NodeId, out: &mut Output, inputs: &mut VecDeque<Input>) {
        if let Some(change) = &out.role_change {
            self.trace.push(format!(
                "{id} is {:?} of term {}, leader {}",
                change.role, change.term, change.leader
            ));
        }
        let node = self.node(id);
        if let Some(write) = out.write.take() {
            let ticket = write.ticket;
            node.disk.unsynced.push_back(write);
            if node.fast_disk {
                inputs.extend(sync(&mut node.disk, ticket));
            }
        }
        node.to_apply.extend(out.committed.drain(..));
        if out.proposed.is_some() {
            node.proposed = out.proposed;
        }
        node.complaints.append(&mut out.complaints);
        node.reads.append(&mut out.reads);
        node.wanted.append(&mut out.snapshots_wanted);
        let fetches = out.fetches.drain(..);
        if node.keeps_log {
            node.fetches.extend(fetches);
        } else {
            inputs.extend(fetches.map(|fetch| Input::Fetched { fetch, found: None }));
        }
        node.install = out.install.take().or(node.install.take());
        if node.fast_apply {
            inputs.extend(self.apply(id));
        }
        for message in out.messages.drain(..) {
            let mut bytes = Vec::with_capacity(wire::message_size_hint(&message));
            wire::encode_message(&message, &mut bytes);
            let again = wire::decode_message(&bytes.into());
            assert_eq!(again.as_ref(), Ok(&message));
            self.network.push(message);
        }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self, id: NodeId) {
        let node = self.node(id);
        if let Some(newest) = node.disk.unsynced.back() {
            let ticket = newest.ticket;
            if let Some(input) = sync(&mut node.disk, ticket) {
                self.step(id, input);
            }
        }
    }

    pub(super) fn apply_all(&mut self, id: NodeId) {
        for input in self.apply(id) {
            self.step(id, input);
        }
    }

    fn apply(&mut self, id: NodeId) -> Vec<Input> {
        let node = self.nodes.get_mut(&id).expect("a known member");
        let mut inputs = Vec::new();
        while let Some(entry) = node.to_apply.pop_front() {
            let index = entry.index;
            assert!(
                node.disk.was_given(&entry),
                "applied before the disk was given it"
            );
            node.machine.apply(&entry);
            let now_chosen = (entry.position(), node.machine.hash);
            let term = node.raft.as_ref().map_or(0, |raft| raft.status().term);
            self.chosen_in.entry(index).or_insert(term);
            let chosen = *self.chosen.entry(index).or_insert(now_chosen);
            assert_eq!(
                chosen, now_chosen,
                "state machines of {id} and others differ"
            );
            if entry.kind == EntryKind::ConfChange {
                let change = wire::decode_conf_change(&entry.data).unwrap();
                let change = (change.id != REFUSED).then_some(change);
                if let Some(change) = &change {
                    change_conf(&mut node.machine.conf, change);
                }
                check_conf(&mut self.confs, index, &node.machine.conf);
                inputs.push(Input::ConfChanged { index, change });
            }
            inputs.push(Input::Applied { index });
        }
        inputs
    }

    /// Delivers the messages that `pick` chooses; those sent meanwhile wait.
    pub(super) fn deliver(&mut self, mut pick: impl FnMut(&Message) -> bool) -> usize {
        let (now, later) = std::mem::take(&mut self.network)
            .into_iter()
            .partition(|m| pick(m));
        self.network = later;
        let now: Vec<Message> = now;
        let count = now.len();
        for message in now {
            if self.nodes.contains_key(&message.to) {
                self.step(message.to, Input::Receive(message));
            }
        }
        count
    }

    /// Delivers, syncs, applies and serves snapshots until nothing is left to do.
    pub(super) fn settle(&mut self) {
        self.settle_among(&self.up());
    }

    /// Like `settle`, but among these members only; messages to others are lost.
    pub(super) fn settle_among(&mut self, ids: &[NodeId]) {
        for round in 0.. {
            assert!(round < 10_000, "the cluster never rests");
            let mut busy = false;
            for id in ids {
                busy |= self.serve_snapshots(*id) | self.serve_fetch(*id);
            }
            let picked = |m: &Message| ids.contains(&m.from) && ids.contains(&m.to);
            self.network.retain(picked);
            busy |= self.deliver(|_| true) > 0;
            if !busy {
                return;
            }
        }
    }

    pub(super) fn serve_snapshots(&mut self, id: NodeId) -> bool {
        !self.snapshots_by_hand && (self.take_snapshot(id) || self.make_snapshot(id))
    }

    /// Answers the oldest fetch.
    pub(super) fn serve_fetch(&mut self, id: NodeId) -> bool {
        let node = self.node(id);
        let Some(fetch) = node.fetches.pop_front() else {
            return false;
        };
        let found = node.disk.find(&fetch);
        self.fetched += usize::from(found.is_some());
        self.step(id, Input::Fetched { fetch, found });
        true
    }

    /// Installs the received snapshot as the machine.
    pub(super) fn take_snapshot(&mut self, id: NodeId) -> bool {
        let Some(snapshot) = self.node(id).install.take() else {
            return false;
        };
        self.install(id, &snapshot, true);
        true
    }

    /// Makes one of the wanted snapshots.
    pub(super) fn make_snapshot(&mut self, id: NodeId) -> bool {
        let node = self.node(id);
        let Some(to) = node.wanted.pop() else {
            return false;
        };
        let snapshot = Snapshot {
            position: node.machine.applied,
            conf: node.machine.conf.clone(),
            data: Bytes::copy_from_slice(&node.machine.hash.to_le_bytes()),
        };
        self.step(id, Input::SnapshotReady { to, snapshot });
        true
    }

    pub(super) fn install(&mut self, id: NodeId, snapshot: &Snapshot, report: bool) {
        self.installs += 1;
        let hash = u64::from_le_bytes(snapshot.data.as_ref().try_into().unwrap());
        assert_eq!(
            self.chosen[&snapshot.position.index],
            (snapshot.position, hash)
        );
        let node = self.node(id);
        assert!(node.to_apply.is_empty() || !node.fast_apply);
        node.to_apply.clear();
        node.machine = Machine {
            applied: snapshot.position,
            hash,
            conf: snapshot.conf.clone(),
        };
        node.checkpoint = node.machine.clone();
        if report {
            self.step(id, Input::SnapshotInstalled { ok: true });
        }
    }

    /// A checkpoint holds nothing that the log on disk lacks.
    pub(super) fn checkpoint(&mut self, id: NodeId) {
        let node = self.node(id);
        let applied = node.machine.applied;
        if node.disk.term_at(applied.index) == Some(applied.term) {
            node.checkpoint = node.machine.clone();
        }
    }

    /// Time passes; every member handles what is due.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let due = |cluster: &Cluster, id: NodeId| {
            let at = cluster.raft(id).wake_at()?;
            Some((at.max(cluster.now), id))
        };
        while let Some((at, id)) = self.up().into_iter().filter_map(|id| due(self, id)).min() {
            if at > end {
                break;
            }
            self.now = at;
            self.step(id, Input::Tick);
        }
        self.now = end;
    }

    /// Makes `id` the leader; all others follow.
    pub(super) fn elect(&mut self, id: NodeId) {
        self.pass(self.nodes[&id].config.election_timeout / 4);
        self.step(id, Input::Campaign);
        self.settle();
        assert_eq!(self.leader(), Some(id), "{id} is not elected");
    }

    pub(super) fn propose(&mut self, id: NodeId, data: &'static str) -> Option<Proposed> {
        self.step(id, Input::Propose(vec![Proposal::normal(data)]));
        self.node(id).proposed.take()
    }

    pub(super) fn propose_change(&mut self, id: NodeId, change: &ConfChange) {
        let proposal = Proposal {
            kind: EntryKind::ConfChange,
            data: wire::encode_conf_change(change),
        };
        self.step(id, Input::Propose(vec![proposal]));
    }

    pub(super) fn chosen_count(&self) -> usize {
        self.chosen.len()
    }

    fn check(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        let Some(raft) = &node.raft else {
            return;
        };
        assert!(
            self.is_unsound || node.complaints.is_empty(),
            "{:?}",
            node.complaints
        );
        let status = raft.status();
        assert!(
            status.applied <= status.commit && status.commit <= status.last,
            "{status:?}"
        );
        assert!(status.durable <= status.last, "{status:?}");
        if status.role != RoleKind::Leader {
            return;
        }
        // Election safety: one leader per term.
        let known = self.leaders.insert(status.term, id);
        assert!(
            known.is_none_or(|known| known == id),
            "two leaders of term {}",
            status.term
        );
        if known.is_none() {
            // Leader completeness: it has everything committed in earlier terms. A leader that gets
            // its votes late may already be behind a later term.
            let earlier = self.chosen_in.iter().filter(|(_, at)| **at < status.term);
            for (position, _) in earlier.map(|(index, _)| &self.chosen[index]) {
                let held = raft.term_at(position.index);
                let gone = held.is_none() && position.index <= status.applied;
                assert!(
                    gone || held == Some(position.term),
                    "leader {id} lacks {position:?}"
                );
            }
        }
    }

    /// Log matching: same index and term, same entry and everything before it.
    pub(super) fn check_logs(&self) {
        let logs: Vec<_> = self.up().into_iter().map(|id| self.log(id)).collect();
        for a in &logs {
            for b in &logs {
                let same = a
                    .iter()
                    .filter(|(i, e)| b.get(*i).is_some_and(|o| o.term == e.term));
                let Some((newest, _)) = same.last() else {
                    continue;
                };
                for (index, entry) in a.range(..=*newest) {
                    assert!(
                        b.get(index).is_none_or(|other| other == entry),
                        "logs differ"
                    );
                }
            }
        }
    }

    /// Membership changes in each leader's log that nobody applied yet: at most one.
    pub(super) fn check_changes(&self) {
        let applied = self.chosen.keys().next_back().copied().unwrap_or(0);
        for id in self.up() {
            let status = self.raft(id).status();
            if status.role != RoleKind::Leader || status.commit < FOUNDERS_MAX {
                continue;
            }
            let log = self.log(id);
            let open = log.range(applied + 1..);
            let open = open.filter(|(_, entry)| entry.kind == EntryKind::ConfChange);
            assert!(open.count() <= 1, "{id} has two changes under way: {log:?}");
        }
    }

    pub(super) fn log(&self, id: NodeId) -> BTreeMap<Index, Entry> {
        let entries = self.raft(id).entries();
        entries
            .into_iter()
            .map(|entry| (entry.index, entry))
            .collect()
    }
}

/// All members see the same change, and majorities before and after it overlap.
fn check_conf(confs: &mut BTreeMap<Index, ConfState>, index: Index, conf: &ConfState) {
    let known = confs.entry(index).or_insert_with(|| conf.clone());
    assert_eq!(known, conf, "members differ after the change at {index}");
    if let Some((_, before)) = confs.range(..index).next_back() {
        let gone = before.voters.iter().filter(|id| !conf.voters.contains(id));
        let new = conf.voters.iter().filter(|id| !before.voters.contains(id));
        assert!(gone.count() + new.count() <= 1, "{before:?} to {conf:?}");
    }
}

fn sync(disk: &mut Disk, through: u64) -> Option<Input> {
    let mut newest = None;
    while disk
        .unsynced
        .front()
        .is_some_and(|write| write.ticket <= through)
    {
        if let Some(write) = disk.unsynced.pop_front() {
            newest = Some(write.ticket);
            disk.apply(write);
        }
    }
    newest.map(|ticket| Input::Durable { ticket })
}

fn change_conf(conf: &mut ConfState, change: &ConfChange) {
    let mut members = crate::membership::Membership::new(&conf.voters, &conf.learners);
    members.apply(change);
    *conf = members.conf_state();
}
