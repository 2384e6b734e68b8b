use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use storage::mvcc::{Options, Store};
use storage::vfs::DiskSpace;
use storage::vfs::sim::SimVfs;
use tokio::sync::oneshot::Receiver;

use super::leases::checkpoint_request;
use super::*;
use crate::member::event::admission::{Admission, Limits};
use crate::request::Request;
use crate::state::snapshot::{self, Form};
use crate::state::watch::Hub;
use crate::telemetry::metrics::Chore;

const STORE: &str = "/store";
const ELECTION: Now = Now::from_secs(1);
const LEASE: i64 = 7;
const TTL: i64 = 5;

struct Stage {
    applier: Applier,
    next_index: u64,
}

impl Stage {
    fn new() -> Stage {
        Stage::on(&SimVfs::new(1))
    }

    fn on(vfs: &SimVfs) -> Stage {
        let vfs = Arc::new(vfs.clone());
        let store = Store::open(vfs, Path::new(STORE), Options::default()).unwrap();
        let (_, hub) = Hub::new(store.reader());
        let state = State::new(store, 1).unwrap();
        let lessor = Lessor::new(ELECTION);
        Stage {
            applier: Applier::new(state, lessor, hub, 0, ELECTION, Now::ZERO).unwrap(),
            next_index: 1,
        }
    }

    /// An entry; `None` is a leader's first entry.
    fn entry(&mut self, term: raft::Term, request: Option<Request>) -> Committed {
        let index = self.next_index;
        self.next_index += 1;
        Committed {
            entry: raft::Entry {
                term,
                index,
                kind: raft::EntryKind::Normal,
                data: request
                    .as_ref()
                    .map_or_else(Default::default, |r| r.encode(index)),
            },
            request,
            reply: None,
        }
    }

    fn apply(&mut self, at: Now, entries: Vec<Committed>) -> ApplyEffects {
        self.turn(at, ApplyEvent::Committed(entries))
    }

    fn turn(&mut self, at: Now, event: ApplyEvent) -> ApplyEffects {
        let mut effects = ApplyEffects::default();
        let turned = self.applier.turn(at, &mut vec![event], &mut effects);
        turned.unwrap();
        effects
    }

    fn ask(&mut self, at: Now, call: LeaseCall) -> (ApplyEffects, Receiver<Reply>) {
        let (slot, reply) = slot();
        (self.turn(at, ApplyEvent::Lease(call, slot)), reply)
    }
}

fn slot() -> (ReplySlot, Receiver<Reply>) {
    let permit = Admission::new(Limits {
        requests: 1,
        bytes: 1 << 20,
    })
    .admit(0)
    .unwrap();
    ReplySlot::new(permit)
}

fn grant() -> Request {
    let (id, ttl) = (LEASE, TTL);
    Request::LeaseGrant(pb::LeaseGrantRequest { id, ttl })
}

fn remaining(seconds: i64) -> Request {
    checkpoint_request(vec![(LEASE, seconds)])
}

fn is_revoke(request: &Request) -> bool {
    matches!(request, Request::LeaseRevoke(_))
}

#[test]
fn a_leader_takes_leases_over_as_earlier_ones_left_them() {
    let at = Now::from_secs;
    let mut stage = Stage::new();
    // Under the leader of term 1, a renewal took back the checkpoint. When this member was elected
    // it had applied the checkpoint, but not the renewal.
    let before = vec![
        stage.entry(1, Some(grant())),
        stage.entry(1, Some(remaining(2))),
    ];
    stage.apply(at(0), before);
    stage.turn(at(10), ApplyEvent::Leading(Some(2)));
    let (effects, _reply) = stage.ask(
        at(10),
        LeaseCall::TimeToLive {
            id: LEASE,
            keys: false,
        },
    );
    assert!(
        effects.replies.is_empty(),
        "answered by who does not lead yet"
    );
    let back = vec![stage.entry(1, Some(remaining(0)))];
    let effects = stage.apply(at(10), back);
    assert!(effects.replies.is_empty() && effects.proposals.is_empty());
    let own = vec![stage.entry(2, None)];
    let effects = stage.apply(at(10), own);
    let (_, told) = &effects.replies[0];
    let Ok(Answer {
        outcome: Outcome::Lease(answer),
        ..
    }) = told
    else {
        panic!("{told:?}");
    };
    assert_eq!(answer.ttl, TTL + ELECTION.as_secs() as i64);
    // With only two seconds and an election timeout left, the lease would be gone by this time.
    let effects = stage.apply(at(14), Vec::new());
    assert!(
        !effects.proposals.iter().any(is_revoke),
        "{:?}",
        effects.proposals
    );
    let effects = stage.apply(at(17), Vec::new());
    assert!(effects.proposals.iter().any(is_revoke));
    assert_eq!(effects.term, 2);
}

#[test]
fn who_is_no_leader_any_more_revokes_nothing_and_keeps_nobody_waiting() {
    let at = Now::from_secs;
    let mut stage = Stage::new();
    let entries = vec![stage.entry(1, Some(grant()))];
    stage.apply(at(0), entries);
    stage.turn(at(1), ApplyEvent::Leading(Some(2)));
    let (effects, _reply) = stage.ask(at(1), LeaseCall::Leases);
    assert!(effects.replies.is_empty());
    let effects = stage.turn(at(2), ApplyEvent::Leading(None));
    assert_eq!(effects.replies.len(), 1);
    let entries = vec![stage.entry(3, None)];
    let effects = stage.apply(at(60), entries);
    assert!(effects.proposals.is_empty(), "{:?}", effects.proposals);
    assert_eq!(stage.applier.wake_at(at(60)), None);
}

/// Leads in term 2. The store gives the lease two seconds.
fn with_written_lease() -> Stage {
    let mut stage = Stage::new();
    stage.turn(Now::ZERO, ApplyEvent::LeaseCheckpoints { allowed: true });
    let before = vec![
        stage.entry(1, Some(grant())),
        stage.entry(1, Some(remaining(2))),
    ];
    stage.apply(Now::ZERO, before);
    stage.turn(Now::ZERO, ApplyEvent::Leading(Some(2)));
    let own = vec![stage.entry(2, None)];
    stage.apply(Now::ZERO, own);
    stage
}

fn renewed(reply: &Reply) -> i64 {
    match reply {
        Ok(Answer {
            outcome: Outcome::Lease(answer),
            ..
        }) => answer.ttl,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_client_hears_of_a_renewal_before_the_store_does() {
    let mut stage = with_written_lease();
    let call = LeaseCall::KeepAlive { id: LEASE };
    let (effects, _first) = stage.ask(Now::ZERO, call.clone());
    assert_eq!(effects.proposals, [remaining(0)]);
    assert!(effects.replies.is_empty());
    let (effects, _second) = stage.ask(Now::ZERO, call.clone());
    assert!(effects.replies.is_empty(), "the row still says two seconds");
    assert!(effects.proposals.is_empty(), "it is on its way");
    let back = vec![stage.entry(2, Some(remaining(0)))];
    let effects = stage.apply(Now::ZERO, back);
    let ttls: Vec<i64> = effects.replies.iter().map(|(_, r)| renewed(r)).collect();
    assert_eq!(ttls, [TTL, TTL]);
    let (effects, _third) = stage.ask(Now::ZERO, call);
    assert_eq!(effects.replies.len(), 1, "nothing is in the way any more");
}

#[test]
fn a_leader_that_is_none_any_more_answers_no_renewal() {
    let mut stage = with_written_lease();
    let call = LeaseCall::KeepAlive { id: LEASE };
    let (_, _waiting) = stage.ask(Now::ZERO, call.clone());
    let effects = stage.turn(Now::ZERO, ApplyEvent::Leading(None));
    assert!(matches!(effects.replies[..], [(_, Err(Error::Timeout))]));
    let (effects, _late) = stage.ask(Now::ZERO, call);
    assert!(matches!(effects.replies[..], [(_, Err(Error::Timeout))]));
}

#[test]
fn a_lease_that_is_revoked_first_is_not_renewed() {
    let mut stage = with_written_lease();
    let (_, _waiting) = stage.ask(Now::ZERO, LeaseCall::KeepAlive { id: LEASE });
    let id = LEASE;
    let revoke = Request::LeaseRevoke(pb::LeaseRevokeRequest { id });
    let entries = vec![
        stage.entry(2, Some(revoke)),
        stage.entry(2, Some(remaining(0))),
    ];
    let effects = stage.apply(Now::ZERO, entries);
    let ttls: Vec<i64> = effects.replies.iter().map(|(_, r)| renewed(r)).collect();
    assert_eq!(ttls, [0], "there is no such lease");
}

fn put_under_lease(key: &'static [u8]) -> Request {
    Request::Put(pb::PutRequest {
        key: Bytes::from_static(key),
        lease: LEASE,
        ..Default::default()
    })
}

#[test]
fn the_keys_of_a_lease_are_those_at_the_answer_though_they_are_read_later() {
    let mut stage = with_written_lease();
    let put = vec![stage.entry(2, Some(put_under_lease(b"a")))];
    let (slot, _reply) = slot();
    let (id, keys) = (LEASE, true);
    // In one turn: what it applies is there when it answers.
    let mut events = vec![
        ApplyEvent::Lease(LeaseCall::TimeToLive { id, keys }, slot),
        ApplyEvent::Committed(put),
    ];
    let mut effects = ApplyEffects::default();
    let turned = stage.applier.turn(Now::ZERO, &mut events, &mut effects);
    turned.unwrap();
    let Some((_, Ok(applied))) = effects.replies.pop() else {
        panic!("no answer");
    };
    let Outcome::Lease(mut answer) = applied.outcome else {
        panic!("no answer about a lease");
    };
    let later = vec![stage.entry(2, Some(put_under_lease(b"b")))];
    stage.apply(Now::ZERO, later);
    assert!(answer.keys.is_empty(), "not read by the applier");
    answer.read_keys().unwrap();
    assert_eq!(answer.keys, [Bytes::from_static(b"a")]);
}

#[test]
fn beside_other_members_than_ours_leases_are_not_written_down_and_rows_are_taken_back() {
    let mut stage = with_written_lease();
    let effects = stage.turn(Now::ZERO, ApplyEvent::LeaseCheckpoints { allowed: false });
    assert_eq!(effects.proposals, [remaining(0)]);
    let (id, ttl) = (8, 100);
    let long = Request::LeaseGrant(pb::LeaseGrantRequest { id, ttl });
    let long = vec![stage.entry(2, Some(long))];
    stage.apply(Now::ZERO, long);
    let is_row = |request: &Request| matches!(request, Request::LeaseCheckpoint(_));
    let at = Now::from_secs(50);
    let effects = stage.apply(at, Vec::new());
    assert!(!effects.proposals.iter().any(is_row));
    let (effects, _reply) = stage.ask(at, LeaseCall::CheckpointAll);
    let (_, Ok(applied)) = &effects.replies[0] else {
        panic!("{:?}", effects.replies);
    };
    let Outcome::Lease(answer) = &applied.outcome else {
        panic!("{applied:?}");
    };
    assert_eq!(answer.checkpoints, []);
    let effects = stage.turn(at, ApplyEvent::LeaseCheckpoints { allowed: true });
    assert!(effects.proposals.iter().any(is_row));
}

fn nospace(action: AlarmAction) -> pb::AlarmRequest {
    pb::AlarmRequest {
        action: action as i32,
        member_id: 7,
        alarm: pb::AlarmType::Nospace as i32,
    }
}

/// What member 7 proposes when it looks at a disk with space, under an alarm from the log.
fn proposed_under(alarm: Bytes) -> Option<pb::AlarmRequest> {
    let disk = Some(DiskSpace {
        total: 1 << 40,
        available: 1 << 39,
    });
    let looked = Look {
        store: disk,
        log: disk,
    };
    let mut stage = Stage::new();
    stage.applier.set_guard(Guard::new(0, true), 7);
    let mut raised = stage.entry(1, None);
    raised.entry.data = alarm;
    stage.apply(Now::ZERO, vec![raised]);
    assert!(stage.applier.state.has_space_alarm(7));
    let looks = (0..2).map(|_| stage.turn(Now::ZERO, ApplyEvent::Looked(looked)));
    looks.filter_map(|effects| effects.alarm).last()
}

#[test]
fn an_alarm_that_an_earlier_run_asked_for_is_taken_back_and_a_clients_is_not() {
    let raise = nospace(AlarmAction::Activate);
    let own = proposed_under(Request::encode_own_alarm(&raise, 1));
    assert_eq!(own, Some(nospace(AlarmAction::Deactivate)));
    let clients = proposed_under(Request::Alarm(raise).encode(1));
    assert_eq!(clients, None);
}

#[test]
fn the_clock_that_times_steps_may_have_begun_at_any_time() {
    let mut stage = Stage::new();
    let read = std::cell::Cell::new(0);
    stage.applier.set_step_clock(Box::new(move || {
        read.set(read.get() + 1);
        Now::from_secs(1_000_000) + Now::from_millis(read.get())
    }));
    // The first step of the removal that a crash may have interrupted.
    let effects = stage.apply(Now::ZERO, Vec::new());
    assert_eq!(
        effects.counts.chores,
        [(Chore::Removal, Now::from_millis(1))]
    );
    assert!(stage.applier.removal_steps.is_due(Now::from_millis(2)));
}

#[test]
fn entries_that_took_long_start_a_checkpoint() {
    thread_local! { static WORKED: Cell<u64> = const { Cell::new(1_000_000_000) } }
    fn clock<const MS: u64>() -> Duration {
        WORKED.set(WORKED.get() + MS);
        Duration::from_millis(WORKED.get())
    }
    let checkpoint_after = |clock| {
        let mut stage = Stage::new();
        stage.applier.set_pace(BackgroundLimits {
            log_bytes_for_replay: 1,
            ..BackgroundLimits::default()
        });
        stage.applier.set_work_clock(clock);
        let entries = vec![stage.entry(1, Some(put()))];
        let is_due = stage.apply(Now::ZERO, entries).checkpoint.is_some();
        assert_eq!(stage.applier.unsaved.entries, u64::from(!is_due));
        is_due
    };
    assert!(!checkpoint_after(clock::<600>));
    assert!(checkpoint_after(clock::<700>));
}

fn put() -> Request {
    Request::Put(pb::PutRequest {
        key: b"key"[..].into(),
        ..Default::default()
    })
}

#[test]
fn a_compaction_that_is_refused_when_it_is_applied_leaves_no_digest() {
    let alarm = |action| {
        Request::Alarm(pb::AlarmRequest {
            action,
            member_id: 7,
            alarm: pb::AlarmType::Corrupt as i32,
        })
    };
    let compaction = Request::Compaction(pb::CompactionRequest {
        revision: 2,
        physical: false,
    });
    let mut stage = Stage::new();
    let raise = alarm(AlarmAction::Activate as i32);
    let requests = [put(), raise, compaction.clone()];
    let entries = requests.map(|request| stage.entry(1, Some(request)));
    let effects = stage.apply(Now::ZERO, entries.into());
    assert_eq!(effects.applied, Some(3));
    assert!(effects.hash.is_empty());
    let requests = [alarm(AlarmAction::Deactivate as i32), compaction];
    let entries = requests.map(|request| stage.entry(1, Some(request)));
    let effects = stage.apply(Now::ZERO, entries.into());
    assert_eq!(effects.hash.len(), 1);
}

/// The newest entry of a received state.
const RECEIVED: storage::mvcc::Applied = storage::mvcc::Applied { index: 9, term: 1 };

/// A state that another member sent to the store on this disk.
fn received(vfs: &SimVfs) -> Box<Received> {
    let other = Arc::new(SimVfs::new(7));
    let mut other = Store::open(other, Path::new(STORE), Options::default()).unwrap();
    other.write(RECEIVED).put(b"received", b"", 0).unwrap();
    other.publish();
    let view = other.reader().view();
    let message = raft::Message {
        from: 1,
        to: 2,
        term: 1,
        body: raft::Body::Snapshot(snapshot::describe(&view).unwrap()),
    };
    let mut bytes = Vec::new();
    raft::wire::encode_message(&message, &mut bytes);
    let mut body = (bytes.len() as u64).to_be_bytes().to_vec();
    body.append(&mut bytes);
    snapshot::rows::write(&view, &mut body).unwrap();
    let receiver = snapshot::Receiver::new(Arc::new(vfs.clone()), STORE.into(), Options::default());
    let receiving = receiver.unwrap().begin().unwrap();
    let (_, received) = receiving.read(Form::Rows, &mut &body[..]).unwrap();
    Box::new(received)
}

#[test]
fn a_received_state_replaces_one_whose_checkpoint_waits_for_space() {
    let vfs = SimVfs::new(1);
    let mut stage = Stage::on(&vfs);
    stage.applier.set_pace(BackgroundLimits {
        log: LogBounds {
            bytes: 1,
            ..LogBounds::DIRECT
        },
        ..BackgroundLimits::default()
    });
    let received = received(&vfs);
    let entries = vec![stage.entry(1, Some(put()))];
    let job = stage.apply(Now::ZERO, entries).checkpoint.expect("due");
    vfs.full_after(0, u64::MAX);
    let attempt = job.attempt();
    assert!(matches!(attempt, Ok(Attempt::Full(..))), "{attempt:?}");
    stage.turn(Now::ZERO, ApplyEvent::CheckpointRan(Box::new(attempt)));
    assert!(stage.applier.is_short());
    let effects = stage.turn(Now::ZERO, ApplyEvent::Install(received));
    assert!(effects.installed);
    assert_eq!(effects.applied, Some(RECEIVED.index));
    vfs.full_after(0, 0);
    stage.applier.state.store.reserve(true).unwrap();
    stage.next_index = RECEIVED.index + 1;
    let entries = vec![stage.entry(1, Some(put()))];
    let job = stage.apply(Now::ZERO, entries).checkpoint.expect("due");
    let ran = ApplyEvent::CheckpointRan(Box::new(job.attempt()));
    let effects = stage.turn(Now::ZERO, ran);
    assert_eq!(effects.drop_log_before, Some(RECEIVED.index + 1));
}

#[test]
fn views_of_an_installed_state_are_not_as_old_as_those_of_the_one_before() {
    let vfs = SimVfs::new(1);
    let mut stage = Stage::on(&vfs);
    stage.applier.set_pace(BackgroundLimits {
        log: LogBounds {
            bytes: 1,
            ..LogBounds::DIRECT
        },
        ..BackgroundLimits::default()
    });
    let received = received(&vfs);
    let before = stage.applier.reader.view();
    for _ in 0..5 {
        let entries = vec![stage.entry(1, Some(put()))];
        let job = stage.apply(Now::ZERO, entries).checkpoint.expect("due");
        let ran = ApplyEvent::CheckpointRan(Box::new(job.attempt()));
        stage.turn(Now::ZERO, ran);
    }
    let later = Now::from_secs(100);
    assert_eq!(stage.apply(later, Vec::new()).oldest_view, later);
    stage.turn(later, ApplyEvent::Install(received));
    let after = stage.applier.reader.view();
    stage.apply(later, Vec::new());
    let effects = stage.apply(later + later, Vec::new());
    assert_eq!(
        effects.oldest_view,
        Now::ZERO,
        "no newer generation has begun"
    );
    drop((before, after));
}

#[test]
fn rows_of_an_answer_are_read_for_a_client_that_still_waits_and_for_nobody_else() {
    const VALUE_BYTES: usize = 1000;
    let mut stage = Stage::new();
    // Each look at the clock is a second after the one before, so every entry is slow.
    let looks = Cell::new(0);
    let clock = move || {
        looks.set(looks.get() + 1);
        Now::from_secs(looks.get())
    };
    let stopwatch = Stopwatch::new(Now::ZERO, clock);
    stage.applier.set_stopwatch(stopwatch);
    let mut size_of_answer = |reply: Option<ReplySlot>| {
        let put = Request::Put(pb::PutRequest {
            key: b"key"[..].into(),
            value: vec![0; VALUE_BYTES].into(),
            ..Default::default()
        });
        let delete = Request::DeleteRange(pb::DeleteRangeRequest {
            key: b"key"[..].into(),
            prev_kv: true,
            ..Default::default()
        });
        let put = stage.entry(1, Some(put));
        let delete = Committed {
            reply,
            ..stage.entry(1, Some(delete))
        };
        let effects = stage.apply(Now::ZERO, vec![put, delete]);
        let size = effects.slow[1].response.strip_prefix("size:").unwrap();
        size.parse::<usize>().unwrap()
    };
    let (waits, _reply) = slot();
    let (has_left, _) = slot();
    assert!(size_of_answer(Some(waits)) > VALUE_BYTES);
    assert!(size_of_answer(Some(has_left)) < VALUE_BYTES);
    assert!(size_of_answer(None) < VALUE_BYTES);
}
