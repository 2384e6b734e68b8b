use etcd_api::mvccpb::{Event, KeyValue};
use prost::Message as _;

use super::*;

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision,
        ..ResponseHeader::default()
    })
}

fn wish(start: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: "a".into(),
        start_revision: start,
        ..WatchCreateRequest::default()
    }
}

fn events(revisions: &[i64]) -> Heard {
    let event = |revision: &i64| Event {
        r#type: i32::from(*revision % 2 == 0),
        kv: Some(KeyValue {
            key: "a".into(),
            mod_revision: *revision,
            ..KeyValue::default()
        }),
        prev_kv: Some(KeyValue::default()),
    };
    Heard {
        header: header(revisions.last().copied().unwrap_or(100)),
        events: Events::new(revisions.iter().map(event).collect()),
        end: None,
    }
}

/// The hub, and what it asked of the cluster and told clients since the last look.
#[derive(Default)]
struct Rig(Hub);

impl Rig {
    fn create(&mut self, stream: u64, wish: WatchCreateRequest, now: i64) {
        self.0.create(stream, &Along::default(), wish, header(now));
    }

    /// Watches begun (broadcast, revision) and ended.
    fn asked(&mut self) -> (Vec<(i64, i64)>, Vec<i64>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for action in &self.0.actions {
            match action {
                Action::Begin {
                    broadcast,
                    revision,
                    ..
                } => begun.push((*broadcast, *revision)),
                Action::End { broadcast, .. } => ended.push(*broadcast),
                Action::Answer(..) => {}
            }
        }
        (begun, ended)
    }

    /// Stream, watch, and the revisions of its events, for answers with events.
    fn seen(&mut self) -> Vec<(u64, i64, Vec<i64>)> {
        let answers = self.0.actions.drain(..).filter_map(|action| match action {
            Action::Answer(stream, answer) if !answer.events.is_empty() => {
                let revision = |event: &Bytes| {
                    let event = Event::decode(event.clone()).unwrap();
                    event.kv.unwrap().mod_revision
                };
                let revisions = answer.events.iter().map(revision).collect();
                Some((stream, answer.watch_id, revisions))
            }
            _ => None,
        });
        answers.collect()
    }

    fn answers(&mut self) -> Vec<raw::WatchResponse> {
        let answers = self.0.actions.drain(..).filter_map(|action| match action {
            Action::Answer(_, answer) => Some(answer),
            _ => None,
        });
        answers.collect()
    }
}

#[test]
fn watches_of_a_range_share_a_broadcast_and_see_each_event_once() {
    let mut rig = Rig::default();
    rig.create(1, wish(0), 10);
    rig.create(2, wish(0), 12);
    rig.create(2, wish(20), 12);
    assert_eq!(rig.asked(), (vec![(1, 11)], vec![]));
    assert_eq!(rig.0.coalesced(), 2);
    rig.0.actions.clear();
    // The second client has seen revision 12 already, the third watch begins in the future.
    rig.0.hear(1, &events(&[11, 12]));
    assert_eq!(rig.seen(), [(1, 0, vec![11, 12])]);
    rig.0.hear(1, &events(&[13]));
    assert_eq!(rig.seen(), [(1, 0, vec![13]), (2, 0, vec![13])]);
    rig.0.hear(1, &events(&[20]));
    assert_eq!(
        rig.seen(),
        [(1, 0, vec![20]), (2, 0, vec![20]), (2, 1, vec![20])]
    );
    assert_eq!(rig.0.saved_events, 6);
}

#[test]
fn history_is_read_apart_until_it_is_level() {
    let mut rig = Rig::default();
    rig.create(1, wish(0), 10);
    rig.0.hear(1, &events(&[15]));
    rig.create(2, wish(3), 15);
    // Just as far, so it may share.
    rig.create(3, wish(3), 15);
    // It would have to wait for the history of others.
    rig.create(4, wish(14), 15);
    assert_eq!(rig.asked(), (vec![(1, 11), (2, 3), (3, 14)], vec![]));
    rig.0.actions.clear();
    rig.0.hear(2, &events(&[5, 9]));
    assert_eq!(rig.seen(), [(2, 0, vec![5, 9]), (3, 0, vec![5, 9])]);
    rig.0.hear(2, &events(&[15]));
    assert_eq!(rig.asked(), (vec![], vec![2]));
    assert_eq!(rig.seen(), [(2, 0, vec![15]), (3, 0, vec![15])]);
    rig.0.hear(1, &events(&[16]));
    let all = [1, 2, 3].map(|stream| (stream, 0, vec![16]));
    assert_eq!(rig.seen(), all);
    assert_eq!(rig.0.coalesced(), 2);
}

#[test]
fn each_watch_gets_what_it_asked_for() {
    let mut rig = Rig::default();
    rig.create(
        1,
        WatchCreateRequest {
            filters: vec![FilterType::Noput as i32],
            prev_kv: true,
            watch_id: 7,
            ..wish(0)
        },
        10,
    );
    let progress = WatchCreateRequest {
        progress_notify: true,
        ..wish(0)
    };
    rig.create(1, progress, 10);
    rig.0.actions.clear();
    rig.0.hear(1, &events(&[11, 12]));
    let answers = rig.answers();
    let event =
        |answer: &raw::WatchResponse, at: usize| Event::decode(answer.events[at].clone()).unwrap();
    let [short, whole] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!((short.watch_id, short.events.len()), (0, 2));
    assert_eq!(event(short, 0).prev_kv, None);
    assert_eq!((whole.watch_id, whole.events.len()), (7, 1));
    assert!(event(whole, 0).prev_kv.is_some());
    assert_eq!(event(whole, 0).kv.unwrap().mod_revision, 12);
    // A notification of progress.
    rig.0.hear(1, &events(&[]));
    let answers = rig.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].watch_id, answers[0].header), (0, header(100)));
}

#[test]
fn ids_are_unique_on_a_stream() {
    let mut rig = Rig::default();
    let chosen = WatchCreateRequest {
        watch_id: 1,
        ..wish(0)
    };
    rig.create(1, wish(0), 5);
    rig.create(1, chosen.clone(), 5);
    rig.create(1, wish(0), 5);
    rig.create(1, chosen, 5);
    rig.create(2, wish(0), 5);
    let ids: Vec<i64> = rig.answers().iter().map(|answer| answer.watch_id).collect();
    assert_eq!(ids, [0, 1, 2, NO_WATCH_ID, 0]);
}

#[test]
fn the_last_to_leave_ends_the_broadcast() {
    let mut rig = Rig::default();
    rig.create(1, wish(0), 5);
    rig.create(2, wish(0), 5);
    rig.0.actions.clear();
    rig.0.cancel(1, 0);
    rig.0.cancel(1, 0);
    assert_eq!(rig.asked(), (vec![], vec![]));
    let answers = rig.answers();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].canceled && answers[0].cancel_reason.is_empty());
    rig.0.gone(2);
    assert_eq!(rig.asked(), (vec![], vec![1]));
    assert!(rig.0.broadcasts.is_empty() && rig.0.by_range.is_empty());
    assert!(rig.0.watches.is_empty() && rig.0.next_ids.len() == 1);
}

#[test]
fn a_compaction_ends_only_watches_whose_history_is_gone() {
    let mut rig = Rig::default();
    rig.create(1, wish(0), 10);
    rig.create(2, wish(0), 50);
    rig.0.actions.clear();
    let compacted = Heard {
        end: Some(End {
            compact_revision: 40,
            reason: "compacted".to_owned(),
        }),
        ..events(&[])
    };
    rig.0.hear(1, &compacted);
    assert_eq!(rig.asked(), (vec![(2, 51)], vec![1]));
    let answers = rig.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].canceled, answers[0].compact_revision),
        (true, 40)
    );
    rig.0.hear(2, &events(&[101]));
    assert_eq!(rig.seen(), [(2, 0, vec![101])]);
}

#[test]
fn a_watch_that_begins_again_after_a_compaction_still_reads_history() {
    let mut rig = Rig::default();
    rig.create(1, wish(150), 200);
    rig.0.hear(1, &events(&[160]));
    rig.0.actions.clear();
    // The header of such an end has no revision.
    let end = End {
        compact_revision: 155,
        reason: String::new(),
    };
    let heard = Heard {
        header: header(0),
        events: Events::default(),
        end: Some(end),
    };
    rig.0.hear(1, &heard);
    assert_eq!(rig.asked(), (vec![(2, 161)], vec![1]));
    rig.0.actions.clear();
    // What it has to read is not for a watch of what comes.
    rig.create(2, wish(0), 200);
    assert_eq!(rig.asked(), (vec![(3, 201)], vec![]));
}

/// It joins one that has not come so far yet, whose progress says nothing of what it was told.
#[test]
fn progress_of_what_comes_before_a_watch_is_not_told_to_it() {
    let mut rig = Rig::default();
    let progress = |start| WatchCreateRequest {
        progress_notify: true,
        ..wish(start)
    };
    rig.create(1, progress(0), 10);
    rig.create(2, progress(0), 150);
    rig.create(3, progress(1000), 150);
    assert_eq!(rig.0.coalesced(), 2);
    rig.0.actions.clear();
    let mut told = |revision| {
        let heard = Heard {
            header: header(revision),
            ..events(&[])
        };
        rig.0.hear(1, &heard);
        let told = rig.0.actions.drain(..).filter_map(|action| match action {
            Action::Answer(stream, _) => Some(stream),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(100), [1]);
    assert_eq!(told(150), [1, 2]);
    assert_eq!(told(998), [1, 2]);
    assert_eq!(told(999), [1, 2, 3], "all before it was heard");
}
