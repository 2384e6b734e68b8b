use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use storage::mvcc::{Applied, Options, Store};
use storage::vfs::sim::SimVfs;

use super::super::chores::READERS_PATIENCE;
use super::super::{Applier, ApplyEffects};
use super::*;
use crate::member::event::admission::{Admission, Limits};
use crate::member::event::{ApplyEvent, Committed};
use crate::request::Request;
use crate::state::State;
use crate::state::lessor::Lessor;
use crate::state::watch::Hub;

const LARGE: Stats = Stats {
    file_bytes: 1 << 30,
    in_use_bytes: 1 << 30,
    waiting_bytes: 0,
    vacant_bytes: 0,
    dirty_bytes: 0,
    list_bytes: 0,
    views: 0,
    viewed_bytes: 0,
    checkpoint: 0,
    oldest_view: 0,
    has_deltas: false,
    is_short: false,
};
const SECOND: Now = Now::from_secs(1);

/// True if removal runs a second after a compaction.
fn runs(urgent: bool, superseded: u64, stats: &Stats) -> bool {
    let mut removal = Removal::interrupted(None);
    removal.ended(Now::ZERO, 0, true);
    removal.compacted(Now::ZERO);
    removal.begin(SECOND, urgent, superseded, 100, stats);
    removal.is_running()
}

#[test]
fn it_waits_for_readers_but_not_for_ever() {
    let mut removal = Removal::interrupted(None);
    assert!(!removal.wait_for_readers(SECOND, false));
    assert!(removal.wait_for_readers(SECOND * 2, true));
    assert!(
        !removal.wait_for_readers(SECOND * 3, false),
        "they are gone"
    );
    assert!(removal.wait_for_readers(SECOND * 61, true));
    assert!(!removal.wait_for_readers(SECOND * 62, true), "a minute");
    removal.ended(Now::ZERO, 0, true);
    removal.go_on(None);
    assert!(removal.wait_for_readers(SECOND * 63, true), "the next one");
    assert!(!removal.wait_for_readers(SECOND * 124, true));
    removal.go_on(None);
    assert!(
        removal.wait_for_readers(SECOND * 125, true),
        "another state"
    );
}

#[test]
fn a_client_waits_for_readers_while_it_is_there_and_the_readers_are() {
    let limits = Limits {
        requests: 1,
        bytes: 0,
    };
    let admission = Admission::new(limits);
    let mut removal = Removal::interrupted(None);
    assert!(removal.wait_for_readers(SECOND, true));
    assert!(!removal.keeps_a_client_waiting(), "nobody asked");
    let (slot, reply) = ReplySlot::new(admission.admit(0).unwrap());
    removal.ask(7, slot);
    assert!(removal.keeps_a_client_waiting());
    removal.wait_for_readers(SECOND * 2, false);
    assert!(!removal.keeps_a_client_waiting(), "the readers are gone");
    removal.wait_for_readers(SECOND * 3, true);
    assert!(removal.keeps_a_client_waiting());
    drop(reply);
    assert!(!removal.keeps_a_client_waiting(), "the client has left");
}

#[test]
fn it_waits_until_there_is_enough_but_not_for_ever() {
    assert!(!runs(false, 59, &LARGE));
    assert!(runs(false, 60, &LARGE), "worth its cost");
    assert!(runs(true, 0, &LARGE), "the space is wanted");
    let small = Stats {
        in_use_bytes: 1 << 20,
        ..LARGE
    };
    assert!(runs(false, 1, &small), "cheap");

    let mut removal = Removal::interrupted(None);
    assert!(removal.is_running(), "one that a crash interrupted");
    removal.ended(Now::ZERO, 0, true);
    removal.compacted(Now::ZERO);
    removal.begin(SECOND, false, 1, 100, &LARGE);
    assert_eq!(removal.due_at(), Some(PATIENCE));
    removal.begin(PATIENCE, false, 1, 100, &LARGE);
    assert!(removal.is_running());
    assert_eq!(removal.due_at(), None);
}

#[test]
fn compactions_each_second_delay_it_but_not_for_ever() {
    let mut removal = Removal::interrupted(None);
    removal.ended(Now::ZERO, 0, true);
    removal.compacted(Now::ZERO);
    for second in 1..600 {
        let now = SECOND * second;
        removal.compacted(now);
        assert_eq!(removal.due_at(), Some((now + PATIENCE).min(PATIENCE_MAX)));
        removal.begin(now, false, 1, 100, &LARGE);
        assert!(!removal.is_running());
    }
    removal.begin(PATIENCE_MAX, false, 1, 100, &LARGE);
    assert!(removal.is_running());
}

#[test]
fn what_is_compacted_while_it_runs_waits_anew_unless_a_client_asks_for_it() {
    let limits = Limits {
        requests: 2,
        bytes: 0,
    };
    let admission = Admission::new(limits);
    let mut removal = Removal::interrupted(None);
    for revision in [7, 9] {
        let (slot, _) = ReplySlot::new(admission.admit(0).unwrap());
        removal.ask(revision, slot);
        removal.compacted(SECOND);
        assert!(removal.is_running());
    }
    assert_eq!(removal.ended(SECOND * 2, 7, false).len(), 1);
    assert_eq!(removal.due_at(), Some(SECOND * 2), "another asks");
    removal.begin(SECOND * 2, false, 0, 100, &LARGE);
    assert!(removal.is_running());
    assert_eq!(removal.ended(SECOND * 3, 9, false).len(), 1);
    assert_eq!(removal.due_at(), Some(SECOND * 3 + PATIENCE));
    removal.begin(SECOND * 4, false, 1, 100, &LARGE);
    assert!(!removal.is_running());
}

/// Every other key has a superseded version.
const KEYS: u64 = 40_000;
const VALUE: &[u8] = &[7; 4096];

/// Applies events at their times, and runs the checkpoints.
struct Stage {
    applier: Applier,
    now: Now,
}

impl Stage {
    fn turn(&mut self, event: Option<ApplyEvent>) -> ApplyEffects {
        let (mut effects, mut next) = (ApplyEffects::default(), event);
        loop {
            let mut events = next.take().into_iter().collect();
            let turned = self.applier.turn(self.now, &mut events, &mut effects);
            turned.unwrap();
            let Some(job) = effects.checkpoint.take() else {
                return effects;
            };
            next = Some(ApplyEvent::CheckpointRan(Box::new(job.attempt())));
        }
    }

    fn pass(&mut self, time: Now) {
        let until = self.now + time;
        while let Some(at) = self.applier.wake_at(self.now).filter(|at| *at <= until) {
            self.now = at;
            self.turn(None);
        }
        self.now = until;
    }
}

#[test]
fn removal_waits_for_a_reader_that_holds_much_back_and_uses_its_places_then() {
    let (mut stage, _hub, reader) = compacted(None);
    stage.pass(PATIENCE + SECOND * 30);
    let [waiting, later] = [Now::ZERO, SECOND * 20].map(|time| {
        stage.pass(time);
        let wakes = stage.applier.wake_at(stage.now).unwrap();
        assert!(wakes > stage.now && wakes <= stage.now + READERS_PATIENCE);
        assert!(stage.applier.removal.is_running());
        assert!(!stage.applier.hurries_hash(), "no client waits");
        let rows = stage.applier.state.store.root().superseded_rows();
        (rows, stage.applier.stats().file_bytes)
    });
    assert_eq!(waiting, later);
    drop(reader);
    stage.pass(SECOND);
    assert!(!stage.applier.removal.is_running());
    assert_eq!(stage.applier.stats().file_bytes, waiting.1);
}

#[test]
fn the_hash_hurries_while_a_client_waits_for_the_removal_behind_it() {
    let limits = Limits {
        requests: 1,
        bytes: 0,
    };
    let admission = Admission::new(limits);
    let (slot, _reply) = ReplySlot::new(admission.admit(0).unwrap());
    let (mut stage, _hub, reader) = compacted(Some(slot));
    assert!(!stage.applier.hurries_hash(), "nothing is held back yet");
    let hurries_after_a_second = |stage: &mut Stage| {
        stage.pass(SECOND);
        stage.applier.hurries_hash()
    };
    assert!((0..30).any(|_| hurries_after_a_second(&mut stage)));
    assert!(stage.applier.removal.is_running());
    drop(reader);
    assert!(!hurries_after_a_second(&mut stage));
    assert!(!stage.applier.removal.is_running());
}

/// A compaction that a client may wait for, and what the hash of it reads.
fn compacted(reply: Option<ReplySlot>) -> (Stage, Hub, ApplyEffects) {
    let vfs = Arc::new(SimVfs::new(1));
    let mut store = Store::open(vfs, Path::new("/store"), Options::default()).unwrap();
    for index in 1..=KEYS + KEYS / 2 {
        let key = if index <= KEYS {
            index
        } else {
            2 * (index - KEYS)
        };
        let mut write = store.write(Applied { index, term: 1 });
        write.put(&key.to_be_bytes(), VALUE, 0).unwrap();
    }
    store.publish();
    let (mut hub, handle) = Hub::new(store.reader());
    let state = State::new(store, 1).unwrap();
    let lessor = Lessor::new(SECOND);
    let applier = Applier::new(state, lessor, handle, 0, SECOND, Now::ZERO).unwrap();
    let mut stage = Stage {
        applier,
        now: Now::ZERO,
    };
    stage.pass(SECOND * 5);
    let index = KEYS + KEYS / 2 + 1;
    let request = Request::Compaction(pb::CompactionRequest {
        revision: stage.applier.state.store.root().revision(),
        physical: reply.is_some(),
    });
    let entry = raft::Entry {
        term: 1,
        index,
        data: request.encode(index),
        ..Default::default()
    };
    let committed = Committed {
        entry,
        request: Some(request),
        reply,
    };
    // The hash of the compaction reads the store as it was before.
    let reader = stage.turn(Some(ApplyEvent::Committed(vec![committed])));
    assert_eq!(reader.hash.len(), 1);
    let revision = stage.applier.state.store.root().revision();
    assert!(hub.advance_if_brief(revision).unwrap());
    (stage, hub, reader)
}

#[test]
fn a_removal_that_a_stop_interrupted_is_told_when_it_ends() {
    const PUTS: u64 = 10;
    let vfs = Arc::new(SimVfs::new(1));
    let open = || {
        let store = Store::open(vfs.clone(), Path::new("/store"), Options::default()).unwrap();
        let (hub, handle) = Hub::new(store.reader());
        let (state, lessor) = (State::new(store, 1).unwrap(), Lessor::new(SECOND));
        let applier = Applier::new(state, lessor, handle, 0, SECOND, SECOND).unwrap();
        let now = SECOND;
        (Stage { applier, now }, hub)
    };
    let (mut stage, _hub) = open();
    let store = &mut stage.applier.state.store;
    for index in 1..=PUTS {
        let mut write = store.write(Applied { index, term: 1 });
        write.put(b"k", VALUE, 0).unwrap();
    }
    let applied = Applied {
        index: PUTS + 1,
        term: 1,
    };
    store.write(applied).compact(5).unwrap();
    store.publish();
    save(&mut stage);
    drop(stage);

    let (mut stage, mut hub) = open();
    let revision = stage.applier.state.store.root().revision();
    assert!(hub.advance_if_brief(revision).unwrap());
    let effects = stage.turn(None);
    let told = effects.compacted.unwrap();
    assert_eq!((told.revision, told.rows), (5, 3));

    save(&mut stage);
    drop(stage);

    let (mut stage, mut hub) = open();
    assert!(hub.advance_if_brief(revision).unwrap());
    assert!(stage.turn(None).compacted.is_none(), "told once");
}

fn save(stage: &mut Stage) {
    let store = &mut stage.applier.state.store;
    let saved = store.begin_checkpoint().unwrap().run().unwrap();
    store.finish_checkpoint(saved);
}
