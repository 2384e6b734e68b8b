//! What one driver leaves to another.

use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use parking_lot::Mutex;
use raft::durable::{LogWriter, Options};
use raft::{
    ConfChange, ConfChangeKind, Config, HardState, Position, Raft, Recovered, Ticket, Write,
};
use storage::mvcc::Store;
use storage::vfs::sim::SimVfs;

use super::apply::ApplyDriver;
use super::consensus::ConsensusDriver;
use super::log::Log;
use super::published::Standing;
use super::watch::Watch;
use super::*;
use crate::member::applier::{Applier, BackgroundLimits, LogBounds};
use crate::member::cluster::consensus::Consensus;
use crate::member::event::{Committed, Proposal};
use crate::request::Request;
use crate::state::State;
use crate::state::lessor::Lessor;
use crate::state::watch::Hub;

const LOG: &str = "/log";
const STORE: &str = "/store";
const TERM: u64 = 1;
const NOW: Now = Now::ZERO;

/// Keeps what the drivers hand over.
#[derive(Default)]
struct Kept {
    to_log: Vec<LogEvent>,
    to_apply: Vec<ApplyEvent>,
    jobs: Vec<Job>,
}

impl Ports for Kept {
    fn now(&self) -> Now {
        NOW
    }

    fn to_consensus(&mut self, _: ConsensusEvent) {}

    fn to_consensus_quietly(&mut self, _: ConsensusEvent) {}

    fn to_log(&mut self, event: LogEvent) {
        self.to_log.push(event);
    }

    fn to_apply(&mut self, event: ApplyEvent) {
        self.to_apply.push(event);
    }

    fn answer(&mut self, replies: &mut Replies) {
        replies.clear();
    }

    fn send(&mut self, messages: &mut Vec<Message>) {
        messages.clear();
    }

    fn send_snapshot(&mut self, _: Message, _: View) {}

    fn set_members(&mut self, _: &[MemberInfo], _: &[u64]) {}

    fn start(&mut self, job: Job) {
        self.jobs.push(job);
    }

    fn digest(&mut self, _: HashJob) {}

    fn compaction_ended(&mut self, _: Compacted) {}

    fn note(&mut self, _: Note<'_>) {}
}

impl Kept {
    fn take_checkpoint(&mut self) -> Option<Job> {
        let is_checkpoint = |job: &mut Job| matches!(job, Job::Checkpoint(..));
        self.jobs.extract_if(.., is_checkpoint).next()
    }
}

/// The log and the applier of a member. Each entry starts a checkpoint.
struct Stage {
    vfs: SimVfs,
    log: Log,
    apply: ApplyDriver,
    reader: storage::mvcc::Reader,
    kept: Kept,
}

impl Stage {
    fn new() -> Stage {
        let vfs = SimVfs::new(1);
        let (writer, _) = open_log(&vfs, Position::default());
        let store = open_store(&vfs);
        let reader = store.reader();
        let (hub, inbox) = Hub::new(reader.clone());
        let watch = Watch::new(hub, inbox.clone());
        let state = State::new(store, 1).unwrap();
        let lessor = Lessor::new(Now::from_secs(1));
        let mut applier = Applier::new(state, lessor, inbox, 0, Now::from_secs(1), NOW).unwrap();
        applier.set_pace(BackgroundLimits {
            log: LogBounds {
                entries: 1,
                ..LogBounds::DIRECT
            },
            ..BackgroundLimits::default()
        });
        let shared = Arc::new(Published::new(1, Standing::default()));
        let ids = Arc::new(RequestIds::new(1, 0));
        Stage {
            vfs,
            log: Log::new(writer, Arc::clone(&shared)),
            apply: ApplyDriver::new(applier, 1, watch, ids, shared).unwrap(),
            reader,
            kept: Kept::default(),
        }
    }

    /// As when the other members have acknowledged the entry before this one's disk has: the write
    /// waits for its sync, and the entry is applied.
    fn commit(&mut self, index: u64) {
        let entry = put(index);
        self.kept.to_log.push(LogEvent::Write(write(index, &entry)));
        let committed = Committed {
            entry,
            request: None,
            reply: None,
        };
        self.kept
            .to_apply
            .push(ApplyEvent::Committed(vec![committed]));
        self.turn_applier();
        assert_eq!(self.reader.view().applied().index, index);
    }

    fn turn_applier(&mut self) {
        let mut events = std::mem::take(&mut self.kept.to_apply);
        self.apply.turn(NOW, &mut events, &mut self.kept).unwrap();
    }

    fn write_log(&mut self) {
        let mut events = std::mem::take(&mut self.kept.to_log);
        self.log.write(&mut events, &mut self.kept).unwrap();
    }

    fn run(&mut self, checkpoint: Job) {
        let Done::Apply(done) = checkpoint.run(&self.reader, || 0).unwrap() else {
            panic!("the applier hears of a checkpoint");
        };
        self.kept.to_apply.push(done);
        self.turn_applier();
    }
}

fn open_log(vfs: &SimVfs, applied: Position) -> (LogWriter, u64) {
    let vfs = Arc::new(vfs.clone());
    let (writer, opened) =
        LogWriter::open(vfs, Path::new(LOG), applied, Options::default()).unwrap();
    let last = opened.recovered.entries.last();
    (writer, last.map_or(0, |entry| entry.index))
}

fn open_store(vfs: &SimVfs) -> Store {
    let options = storage::mvcc::Options::default();
    Store::open(Arc::new(vfs.clone()), Path::new(STORE), options).unwrap()
}

fn put(index: u64) -> raft::Entry {
    let request = Request::Put(pb::PutRequest {
        key: "key".into(),
        value: index.to_be_bytes().to_vec().into(),
        ..Default::default()
    });
    raft::Entry {
        term: TERM,
        index,
        kind: raft::EntryKind::Normal,
        data: request.encode(index),
    }
}

fn write(ticket: Ticket, entry: &raft::Entry) -> Write {
    Write {
        ticket,
        reset: None,
        entries: vec![entry.clone()],
        hard_state: Some(HardState {
            term: TERM,
            vote: 1,
            commit: entry.index - 1,
        }),
    }
}

#[test]
fn a_checkpoint_waits_until_the_log_has_its_entries_on_disk() {
    let mut stage = Stage::new();
    stage.commit(1);
    assert!(stage.kept.take_checkpoint().is_none(), "not even written");
    stage.write_log();
    assert!(stage.kept.take_checkpoint().is_none(), "not synced");
    stage.log.sync(&mut stage.kept).unwrap();
    let checkpoint = stage.kept.take_checkpoint().unwrap();
    // More is applied meanwhile, and not on disk. The checkpoint does not hold it.
    stage.commit(2);
    stage.run(checkpoint);
    stage.write_log();
    for seed in 0..20 {
        let disk = stage.vfs.power_cut(seed);
        let applied = open_store(&disk).root().applied();
        let position = Position {
            term: applied.term,
            index: applied.index,
        };
        let (_, last) = open_log(&disk, position);
        assert_eq!(applied.index, 1);
        assert!(last >= 1, "the log ends at {last}");
    }
}

#[test]
fn a_checkpoint_starts_at_once_when_the_log_has_nothing_to_sync() {
    let mut stage = Stage::new();
    stage.commit(1);
    let is_write = |event: &mut LogEvent| matches!(event, LogEvent::Write(_));
    let mut writes: Vec<LogEvent> = stage.kept.to_log.extract_if(.., is_write).collect();
    stage.log.write(&mut writes, &mut stage.kept).unwrap();
    stage.log.sync(&mut stage.kept).unwrap();
    assert!(stage.kept.take_checkpoint().is_none());
    stage.write_log();
    assert!(stage.kept.take_checkpoint().is_some());
}

/// The checkpoint after an install would drop them, too, but an idle member makes none.
#[test]
fn files_of_the_log_before_an_installed_state_go_when_its_reset_is_durable() {
    let vfs = SimVfs::new(1);
    let options = Options {
        segment_bytes: 4096,
        ..Options::default()
    };
    let disk = Arc::new(vfs.clone());
    let (writer, _) = LogWriter::open(disk, Path::new(LOG), Position::default(), options).unwrap();
    let shared = Arc::new(Published::new(1, Standing::default()));
    let (mut log, mut kept) = (Log::new(writer, shared), Kept::default());
    let (last, installed) = (200, 300);
    let mut writes: Vec<LogEvent> = (1..=last)
        .map(|index| LogEvent::Write(write(index, &put(index))))
        .collect();
    log.write(&mut writes, &mut kept).unwrap();
    log.sync(&mut kept).unwrap();
    let reset = Write {
        ticket: last + 1,
        reset: Some(Position {
            term: TERM,
            index: installed,
        }),
        entries: Vec::new(),
        hard_state: Some(HardState {
            term: TERM,
            vote: 1,
            commit: installed,
        }),
    };
    log.write(&mut vec![LogEvent::Write(reset)], &mut kept)
        .unwrap();
    let clears = |kept: &Kept| {
        let clears = |job: &Job| matches!(job, Job::ClearLog(_));
        kept.jobs.iter().any(clears)
    };
    assert!(!clears(&kept), "a power cut may take the reset back");
    log.sync(&mut kept).unwrap();
    assert!(clears(&kept));
}

/// Consensus of member 1, the only voter, with a learner. Everything it writes is durable at once.
struct Leading {
    driver: ConsensusDriver,
    shared: Arc<Published>,
    kept: Kept,
}

impl Leading {
    fn new() -> Leading {
        let (writer, _) = open_log(&SimVfs::new(1), Position::default());
        let shared = Arc::new(Published::new(1, Standing::default()));
        let log = Arc::new(Mutex::new(Log::new(writer, Arc::clone(&shared))));
        let config = Config {
            learners: vec![2],
            ..Config::new(1, vec![1], 1)
        };
        let raft = Raft::new(config, Recovered::default(), NOW);
        let consensus = Consensus::new(raft, 1);
        let mut leading = Leading {
            driver: ConsensusDriver::new(consensus, 1, log, Arc::clone(&shared)),
            shared,
            kept: Kept::default(),
        };
        while !leading.shared.leads() || leading.shared.leadership.committed() == 0 {
            leading.turn(Vec::new());
        }
        leading
    }

    fn turn(&mut self, mut events: Vec<ConsensusEvent>) {
        let now = self.driver.consensus().wake_at().unwrap_or(NOW);
        self.driver.turn(now, &mut events, &mut self.kept).unwrap();
        let durable = self.kept.to_log.drain(..).filter_map(|event| match event {
            LogEvent::Write(Write { ticket, .. }) => Some(ConsensusEvent::Durable { ticket }),
            _ => None,
        });
        events.extend(durable);
        if !events.is_empty() {
            self.turn(events);
        }
    }

    fn propose(&mut self) {
        let request = Request::Put(pb::PutRequest::default());
        let data = request.encode(1);
        self.turn(vec![ConsensusEvent::Propose(Proposal {
            request,
            data,
            reply: None,
            term: None,
        })]);
    }
}

/// The learner may have applied, and shown, what was committed before consensus heard of its
/// removal.
#[test]
fn who_is_left_alone_asks_before_it_reads_until_it_has_applied_what_others_may_know() {
    let mut leading = Leading::new();
    let first = leading.shared.leadership.committed();
    leading.propose();
    leading.propose();
    let (removal, last) = (first + 1, first + 2);
    let shared = Arc::clone(&leading.shared);
    assert_eq!(shared.leadership.committed(), last);
    // The applier is slow: it has applied the removal alone.
    let alone = Standing {
        alone: true,
        learner: false,
    };
    shared.progress.publish(removal, shared.leadership.term());
    shared.progress.set_standing(alone);
    assert!(!shared.decides_alone(), "raft still sends to the learner");
    leading.turn(vec![ConsensusEvent::ConfChanged {
        index: removal,
        change: Some(ConfChange {
            id: 1,
            kind: ConfChangeKind::RemoveNode,
            node: 2,
            context: Default::default(),
        }),
    }]);
    assert!(!shared.decides_alone(), "the learner may know more");
    shared.progress.publish(last, shared.leadership.term());
    assert!(shared.decides_alone());
}
