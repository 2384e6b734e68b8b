//! One promise to clients per test. The letters are those of the catalogue of bugs that broke these
//! promises elsewhere.

use bytes::Bytes;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use storage::mvcc::KeyRange;

use super::rig::*;
use crate::state::watch::{HISTORY_REVISIONS, MAILBOX_BYTES};

fn put(revision: i64, key: &str) -> Seen {
    (revision, key.into(), false)
}

fn delete(revision: i64, key: &str) -> Seen {
    (revision, key.into(), true)
}

#[test]
fn a_watch_from_now_gets_what_comes_after_it_was_announced() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    let mut client = rig.client();
    client.create(watch("a", 0));
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert!(responses[0].created);
    assert_eq!(header_revision(&responses[0]), 2);
    rig.put("a", "2");
    rig.put("b", "no");
    rig.delete("a");
    let responses = answers(&mut rig, &mut client);
    assert_eq!(all_seen(&responses), [put(3, "a"), delete(5, "a")]);
    assert!(header_revision(&responses[0]) >= 3);
}

#[test]
fn a_watch_from_now_is_not_told_of_a_write_acknowledged_before_it_was_asked_for() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    // Published, but the hub has not run since.
    rig.put("a", "1");
    client.create(watch("a", 0));
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert_eq!(header_revision(&responses[0]), 2);
}

#[test]
fn a_watch_from_the_past_gets_history_then_live_events() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    rig.put("a", "2");
    rig.put("b", "1");
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 2));
    assert_eq!(all_seen(&client.take()), [put(2, "a"), put(3, "a")]);
    rig.put("a", "3");
    assert_eq!(all_seen(&answers(&mut rig, &mut client)), [put(5, "a")]);
}

#[test]
fn m7_events_that_come_while_history_is_read_follow_it_once_and_in_order() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    let mut client = rig.client();
    client.create(watch("a", 1));
    client.turn();
    rig.put("a", "2");
    rig.turn();
    client.read_history();
    rig.put("a", "3");
    rig.turn();
    client.turn();
    // The stream has asked to join; this put comes before the hub reads the request.
    rig.put("a", "4");
    let responses = answers(&mut rig, &mut client);
    let revisions: Vec<i64> = all_seen(&responses).iter().map(|seen| seen.0).collect();
    assert_eq!(revisions, [2, 3, 4, 5]);
}

/// The first watch is canceled while the gap before its first live event is read. The second one
/// has such a gap, too, which opens before that read is done.
#[test]
fn a_read_for_a_canceled_watch_takes_nothing_from_another() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    rig.put("b", "1");
    let mut client = rig.client();
    for key in ["a", "b"] {
        client.create(watch(key, 1));
        client.turn();
        assert!(client.read_history());
        client.turn();
    }
    // Both have asked to join; these come before the hub hears of it.
    rig.put("a", "2");
    rig.put("b", "2");
    rig.turn();
    client.turn();
    client.cancel(0);
    client.turn();
    let responses = answers(&mut rig, &mut client);
    let of_second = responses.iter().filter(|response| response.watch_id == 1);
    let seen: Vec<Seen> = of_second.flat_map(seen).collect();
    assert_eq!(seen, [put(3, "b"), put(5, "b")]);
}

#[test]
fn m6_a_watch_from_the_next_revision_gets_the_write_of_that_revision() {
    let mut rig = Rig::new();
    let listed = rig.put("a", "1");
    let mut client = rig.client();
    client.create(watch("a", listed + 1));
    client.turn();
    // Before the hub reads the request.
    rig.put("a", "2");
    rig.turn();
    rig.put("a", "3");
    let responses = answers(&mut rig, &mut client);
    assert!(responses[0].created);
    assert_eq!(all_seen(&responses), [put(3, "a"), put(4, "a")]);
}

#[test]
fn e15_a_watch_from_a_future_revision_gets_no_event_before_it() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 4));
    rig.put("a", "1");
    rig.put("a", "2");
    assert_eq!(answers(&mut rig, &mut client), []);
    rig.put("a", "3");
    rig.put("a", "4");
    let responses = answers(&mut rig, &mut client);
    assert_eq!(all_seen(&responses), [put(4, "a"), put(5, "a")]);
}

#[test]
fn e14_a_watch_from_a_future_revision_gets_no_progress_before_it() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let request = WatchCreateRequest {
        progress_notify: true,
        ..watch("a", 3)
    };
    created(&mut rig, &mut client, request);
    rig.put("b", "1");
    client.ask_progress();
    client.stream.tick();
    assert_eq!(answers(&mut rig, &mut client), []);
    rig.put("b", "2");
    client.ask_progress();
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert_eq!(responses[0].watch_id, -1);
    assert_eq!(header_revision(&responses[0]), 3);
}

#[test]
fn e5_progress_does_not_overtake_events_still_queued() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(0));
    for round in 0..50 {
        rig.put("a", &"x".repeat(2_000));
        rig.turn();
        if round == 25 {
            client.ask_progress();
            client.turn();
        }
    }
    let responses = answers(&mut rig, &mut client);
    let place = responses
        .iter()
        .position(|response| response.watch_id == -1);
    let place = place.expect("all watchers are synced");
    let promised = header_revision(&responses[place]);
    assert!(promised >= 27, "{promised}");
    let after = all_seen(&responses[place..]);
    assert!(
        after.iter().all(|seen| seen.0 > promised),
        "{after:?} after {promised}"
    );
    assert_eq!(all_seen(&responses).len(), 50);
}

#[test]
fn progress_is_told_only_when_every_watcher_of_the_stream_is_synced() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    client.ask_progress();
    assert_eq!(answers(&mut rig, &mut client), [], "no watchers");
    created(&mut rig, &mut client, watch("a", 0));
    client.ask_progress();
    assert_eq!(answers(&mut rig, &mut client).len(), 1);
    created(&mut rig, &mut client, watch("a", 100));
    client.ask_progress();
    assert_eq!(answers(&mut rig, &mut client), [], "one is in the future");
}

#[test]
fn an_idle_watcher_is_told_its_progress_by_interval() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let notify = |key| WatchCreateRequest {
        progress_notify: true,
        ..watch(key, 0)
    };
    created(&mut rig, &mut client, notify("a"));
    let idle = created(&mut rig, &mut client, notify("b"));
    created(&mut rig, &mut client, watch("c", 0));
    rig.put("a", "1");
    assert_eq!(answers(&mut rig, &mut client).len(), 1);
    client.stream.tick();
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert_eq!(responses[0].watch_id, idle);
    assert_eq!(header_revision(&responses[0]), 2);
    client.stream.tick();
    assert_eq!(answers(&mut rig, &mut client).len(), 2);
}

#[test]
fn e13_a_watch_from_the_compacted_revision_gets_the_deletion_made_there() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    let deleted = rig.delete("a");
    rig.put("b", "1");
    rig.compact(deleted);
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(deleted));
    assert_eq!(all_seen(&client.take()), [delete(3, "a"), put(4, "b")]);
}

#[test]
fn a_watch_from_before_the_compacted_revision_is_announced_then_canceled() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.put("a", "1");
    }
    rig.compact(4);
    let mut client = rig.client();
    client.create(watch("a", 3));
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 2);
    assert!(responses[0].created && !responses[0].canceled);
    assert!(responses[1].canceled && !responses[1].created);
    assert_eq!(responses[1].watch_id, responses[0].watch_id);
    assert_eq!(responses[1].compact_revision, 4);
    assert_eq!(responses[1].cancel_reason, "");
    assert_eq!(header_revision(&responses[1]), 0);
    // Its id stays in use until the client cancels it.
    client.cancel(responses[0].watch_id);
    assert_eq!(answers(&mut rig, &mut client).len(), 1);
}

#[test]
fn a_watcher_that_is_not_behind_loses_nothing_to_a_compaction_at_once() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 0));
    rig.put("a", "1");
    rig.put("a", "2");
    rig.compact(3);
    let responses = answers(&mut rig, &mut client);
    assert_eq!(all_seen(&responses), [put(2, "a"), put(3, "a")]);
    rig.remove_compacted();
}

#[test]
fn a_watcher_finds_in_a_snapshot_what_came_between() {
    let (mut rig, mut leader) = (Rig::new(), Rig::new());
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 0));
    for rig in [&mut rig, &mut leader] {
        rig.put("a", "1");
    }
    rig.turn();
    for value in ["2", "3"] {
        leader.put("a", value);
    }
    rig.replace_with(&leader);
    rig.put("a", "4");
    let responses = answers(&mut rig, &mut client);
    let revisions: Vec<i64> = all_seen(&responses).iter().map(|seen| seen.0).collect();
    assert_eq!(revisions, [2, 3, 4, 5]);
}

#[test]
fn a_watcher_whose_events_are_compacted_in_a_snapshot_is_told_so() {
    let (mut rig, mut leader) = (Rig::new(), Rig::new());
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 0));
    for _ in 0..5 {
        leader.put("a", "1");
    }
    leader.compact(5);
    rig.replace_with(&leader);
    rig.put("a", "2");
    let responses = answers(&mut rig, &mut client);
    assert_eq!(all_seen(&responses), []);
    assert_eq!(responses.len(), 1);
    assert!(responses[0].canceled);
    assert_eq!(responses[0].compact_revision, 5);
}

#[test]
fn refused_watches_are_announced_and_canceled_in_one_message() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let taken = WatchCreateRequest {
        watch_id: 7,
        ..watch("a", 0)
    };
    created(&mut rig, &mut client, taken.clone());
    let empty = WatchCreateRequest {
        range_end: Bytes::from_static(b"a"),
        ..watch("a", 0)
    };
    let cases = [
        (
            watch("a", -1),
            "etcdserver: mvcc: required revision has been compacted",
        ),
        (empty, "mvcc: watcher range is empty"),
        (
            taken,
            "mvcc: duplicate watch ID provided on the WatchStream",
        ),
    ];
    for (request, reason) in cases {
        client.create(request);
        let responses = answers(&mut rig, &mut client);
        assert_eq!(responses.len(), 1);
        assert!(responses[0].created && responses[0].canceled);
        assert_eq!(responses[0].watch_id, -1);
        assert_eq!(responses[0].cancel_reason, reason);
    }
}

/// etcd's proxy watches there to notice that the leader is lost.
#[test]
fn a_watch_may_begin_at_the_last_revision_there_can_be() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    for revision in [i64::MAX - 2, i64::MAX] {
        created(&mut rig, &mut client, watch("a", revision));
    }
    rig.put("a", "1");
    assert_eq!(all_seen(&answers(&mut rig, &mut client)), []);
}

#[test]
fn ids_are_given_from_zero_up_around_those_the_client_chose() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let with_id = |watch_id| WatchCreateRequest {
        watch_id,
        ..watch("a", 0)
    };
    let mut ids = Vec::new();
    for id in [1, -5, 0, 0, 0] {
        ids.push(created(&mut rig, &mut client, with_id(id)));
    }
    assert_eq!(ids, [1, -5, 0, 2, 3]);
    client.cancel(2);
    let canceled = answers(&mut rig, &mut client);
    assert_eq!(canceled.len(), 1);
    assert!(canceled[0].canceled && canceled[0].watch_id == 2);
    assert_eq!(created(&mut rig, &mut client, with_id(0)), 4);
}

#[test]
fn canceling_an_unknown_watch_says_nothing() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    client.cancel(3);
    assert_eq!(answers(&mut rig, &mut client), []);
}

#[test]
fn a_canceled_watch_gets_nothing_more_and_its_slot_can_be_taken() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let id = created(&mut rig, &mut client, watch("a", 0));
    client.cancel(id);
    rig.put("a", "1");
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert!(responses[0].canceled);
    assert_eq!(rig.hub.watchers(), (0, 0));
    created(&mut rig, &mut client, watch("b", 0));
    rig.put("a", "2");
    rig.put("b", "1");
    assert_eq!(all_seen(&answers(&mut rig, &mut client)), [put(4, "b")]);
}

#[test]
fn filters_keep_puts_or_deletions_away() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let filtered = |filters: &[i32]| WatchCreateRequest {
        filters: filters.into(),
        ..watch("a", 0)
    };
    let no_put = created(&mut rig, &mut client, filtered(&[0, 9]));
    let no_delete = created(&mut rig, &mut client, filtered(&[1]));
    created(&mut rig, &mut client, filtered(&[0, 1]));
    rig.put("a", "1");
    rig.delete("a");
    let responses = answers(&mut rig, &mut client);
    let of = |id| -> Vec<Seen> {
        responses
            .iter()
            .filter(|r| r.watch_id == id)
            .flat_map(seen)
            .collect()
    };
    assert_eq!(of(no_put), [delete(3, "a")]);
    assert_eq!(of(no_delete), [put(2, "a")]);
    assert_eq!(all_seen(&responses).len(), 2);
}

#[test]
fn previous_versions_are_told_unless_compacted_or_created_now() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let request = WatchCreateRequest {
        prev_kv: true,
        ..watch("a", 0)
    };
    created(&mut rig, &mut client, request.clone());
    created(&mut rig, &mut client, watch("a", 0));
    rig.put("a", "1");
    rig.put("a", "2");
    rig.delete("a");
    rig.put("a", "3");
    let previous = |responses: &[WatchResponse], id: i64| -> Vec<Option<String>> {
        let events = responses
            .iter()
            .filter(|r| r.watch_id == id)
            .flat_map(|r| &r.events);
        let value = |kv: &etcd_api::mvccpb::KeyValue| String::from_utf8(kv.value.to_vec()).unwrap();
        events
            .map(|event| event.prev_kv.as_ref().map(value))
            .collect()
    };
    let responses = answers(&mut rig, &mut client);
    let some = |value: &str| Some(value.to_owned());
    assert_eq!(previous(&responses, 0), [None, some("1"), some("2"), None]);
    assert_eq!(previous(&responses, 1), [const { None }; 4]);

    rig.compact(4);
    let mut late = rig.client();
    created(
        &mut rig,
        &mut late,
        WatchCreateRequest {
            start_revision: 4,
            ..request
        },
    );
    let responses = late.take();
    assert_eq!(all_seen(&responses), [delete(4, "a"), put(5, "a")]);
    assert_eq!(previous(&responses, 0), [None, None]);
}

#[test]
fn events_of_one_revision_come_in_one_response_in_the_order_of_operations() {
    let mut rig = Rig::new();
    rig.put("c", "1");
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(0));
    rig.write(|write| {
        write.put(b"z", b"1", 0).unwrap();
        write.delete_range(KeyRange::from_wire(b"c", b"")).unwrap();
        write.put(b"a", b"1", 0).unwrap();
    });
    rig.publish();
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert_eq!(
        seen(&responses[0]),
        [put(3, "z"), delete(3, "c"), put(3, "a")]
    );
}

#[test]
fn large_responses_are_cut_into_fragments_for_those_who_allow_it() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let fragment = WatchCreateRequest {
        fragment: true,
        ..watch_all(0)
    };
    let cut = created(&mut rig, &mut client, fragment);
    let whole = created(&mut rig, &mut client, watch_all(0));
    let value = vec![7; FRAGMENT_BYTES / 3];
    rig.write(|write| {
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            write.put(key, &value, 0).unwrap();
        }
    });
    rig.publish();
    let responses = answers(&mut rig, &mut client);
    let of = |id| {
        responses
            .iter()
            .filter(move |response| response.watch_id == id)
    };
    let parts: Vec<(bool, usize)> = of(cut).map(|r| (r.fragment, r.events.len())).collect();
    assert_eq!(parts, [(true, 2), (true, 2), (false, 1)]);
    let parts: Vec<(bool, usize)> = of(whole).map(|r| (r.fragment, r.events.len())).collect();
    assert_eq!(parts, [(false, 5)]);
}

#[test]
fn m9_a_client_that_does_not_read_costs_its_mailbox_and_delays_nobody() {
    let mut rig = Rig::new();
    let mut stuck = rig.client();
    created(&mut rig, &mut stuck, watch_all(0));
    let mut reading = rig.client();
    created(&mut rig, &mut reading, watch_all(0));
    let value = "x".repeat(10_000);
    let writes = 3 * MAILBOX_BYTES / value.len();
    for _ in 0..writes {
        rig.put("a", &value);
        rig.turn();
        // The server continues, but no bytes are taken from the connection.
        stuck.turn();
        rig.settle(&mut reading);
    }
    assert_eq!(all_seen(&reading.take()).len(), writes);
    assert_eq!(rig.hub.watchers(), (2, 1), "the hub has let go of it");
    let events = all_seen(&answers(&mut rig, &mut stuck));
    let revisions: Vec<i64> = events.iter().map(|seen| seen.0).collect();
    let expected: Vec<i64> = (2..2 + writes as i64).collect();
    assert_eq!(
        revisions, expected,
        "it gets everything afterwards, once, in order"
    );
    assert_eq!(rig.hub.watchers(), (2, 2), "and is live again");
}

#[test]
fn f4_r7_a_lagging_watch_is_caught_up_over_many_reads_of_history_and_never_skipped_forward() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let writes = 3 * HISTORY_REVISIONS + 17;
    for _ in 0..writes {
        rig.write(|write| write.put(b"a", b"1", 0).unwrap());
    }
    rig.publish();
    created(&mut rig, &mut client, watch("a", 1));
    let responses = client.take();
    let revisions: Vec<i64> = all_seen(&responses).iter().map(|seen| seen.0).collect();
    assert_eq!(revisions, Vec::from_iter(2..2 + writes));
    assert!(
        responses
            .iter()
            .all(|r| r.events.len() <= HISTORY_REVISIONS as usize)
    );
}

#[test]
fn e8_many_watches_of_one_stream_all_get_their_events() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    for _ in 0..200 {
        rig.put("a", &"x".repeat(5_000));
    }
    for start in 0..100 {
        created(&mut rig, &mut client, watch("a", start));
    }
    rig.put("a", "last");
    rig.settle(&mut client);
    let responses = client.take();
    let last = rig.revision();
    for id in 0..100 {
        let events: Vec<Seen> = responses
            .iter()
            .filter(|r| r.watch_id == id)
            .flat_map(seen)
            .collect();
        assert_eq!(events.last().map(|seen| seen.0), Some(last), "watch {id}");
    }
}

#[test]
fn a_lagging_watch_overtaken_by_a_compaction_is_canceled_with_its_revision() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch("a", 0));
    let value = "x".repeat(100_000);
    for _ in 0..40 {
        rig.put("a", &value);
        rig.turn();
        client.turn();
    }
    rig.compact(rig.revision());
    let responses = answers(&mut rig, &mut client);
    let canceled = responses.last().unwrap();
    assert!(canceled.canceled);
    assert_eq!(canceled.compact_revision, rig.revision());
    let revisions: Vec<i64> = all_seen(&responses).iter().map(|seen| seen.0).collect();
    assert_eq!(
        revisions,
        Vec::from_iter(2..2 + revisions.len() as i64),
        "no gap before it"
    );
}

#[test]
fn m10_the_hub_forgets_a_stream_that_ends() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(0));
    created(&mut rig, &mut client, watch("a", 0));
    assert_eq!(rig.hub.watchers(), (2, 2));
    drop(client);
    rig.turn();
    assert_eq!(rig.hub.watchers(), (0, 0));
    rig.put("a", "1");
    rig.turn();
    assert_eq!(
        rig.handle.seen(),
        2,
        "with nobody watching it follows all the same"
    );
}

#[test]
fn a_stopping_server_ends_every_stream() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(0));
    rig.handle.stop();
    rig.settle(&mut client);
    assert!(client.stream.ended().is_some());
    let mut late = rig.client();
    rig.settle(&mut late);
    assert!(late.stream.ended().is_some());
}
