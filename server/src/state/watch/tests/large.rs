//! Revisions with more events than may be held.

use bytes::Bytes;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;
use storage::mvcc::KeyRange;

use super::rig::*;
use crate::state::watch::{Ended, OUT_BYTES, RevisionLimits};

const KEYS: usize = 500;
const VALUE_BYTES: usize = 1000;

/// An event of a deletion takes some 20 bytes, and about 160 in memory: a hundred fit.
const LIMITS: RevisionLimits = RevisionLimits {
    held_bytes: 20_000,
    piece_bytes: 3_000,
    piece_changes: 70,
    message_bytes: 1 << 20,
};

fn key(i: usize) -> String {
    format!("key/{i:04}")
}

fn all_keys() -> WatchCreateRequest {
    WatchCreateRequest {
        range_end: Bytes::from_static(b"key0"),
        ..watch("key/", 0)
    }
}

/// A store with all keys.
fn filled(limits: RevisionLimits) -> Rig {
    let mut rig = Rig::with_limits(limits);
    fill(&mut rig);
    rig
}

/// Puts all keys, in one revision.
fn fill(rig: &mut Rig) -> i64 {
    rig.write(|write| {
        for i in 0..KEYS {
            let value = [b'v'; VALUE_BYTES];
            write.put(key(i).as_bytes(), &value, 0).unwrap();
        }
    });
    rig.publish();
    rig.revision()
}

/// Deletes all keys, in one revision.
fn delete_all(rig: &mut Rig) -> i64 {
    rig.write(|write| {
        let range = KeyRange::from_wire(b"key/", b"key0");
        assert_eq!(write.delete_range(range).unwrap(), KEYS as u64);
    });
    rig.publish();
    rig.revision()
}

fn all_of(revision: i64, is_delete: bool) -> Vec<Seen> {
    (0..KEYS).map(|i| (revision, key(i), is_delete)).collect()
}

fn of_watch(responses: &[WatchResponse], id: i64) -> Vec<Seen> {
    let responses = responses.iter().filter(|response| response.watch_id == id);
    responses.flat_map(seen).collect()
}

fn previous_bytes(responses: &[WatchResponse]) -> usize {
    let events = responses.iter().flat_map(|response| &response.events);
    let previous = events.filter_map(|event| event.prev_kv.as_ref());
    previous.map(|kv| kv.value.len()).sum()
}

/// Lets the stream work until a part of a revision is sent and the rest is not.
fn begin_to_tell(rig: &mut Rig, client: &mut Client) {
    rig.turn();
    for _ in 0..1000 {
        client.turn();
        if !client.stream.accepts() {
            return;
        }
        client.read_history();
    }
    panic!("nothing is sent in pieces");
}

#[test]
fn a_large_revision_is_one_message_between_those_before_and_after_it() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    created(&mut rig, &mut client, watch_all(0));
    let before = rig.put("a", "1");
    let revision = delete_all(&mut rig);
    let after = rig.put("a", "2");
    let responses = answers(&mut rig, &mut client);
    let mut expected = vec![(before, "a".to_owned(), false)];
    expected.extend(all_of(revision, true));
    expected.push((after, "a".to_owned(), false));
    assert_eq!(all_seen(&responses), expected);
    let large = responses.iter().find(|response| response.events.len() > 1);
    assert_eq!(large.map(|response| response.events.len()), Some(KEYS));
    assert!(responses.iter().all(|response| !response.fragment));
    assert_eq!(rig.hub.watchers(), (1, 1), "it is live again");
}

#[test]
fn a_large_revision_comes_in_fragments_for_those_who_allow_it() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    let request = WatchCreateRequest {
        fragment: true,
        ..all_keys()
    };
    created(&mut rig, &mut client, request);
    let revision = delete_all(&mut rig);
    rig.put("key/after", "1");
    let mut responses = answers(&mut rig, &mut client);
    let after = responses.pop().unwrap();
    assert_eq!(after.events.len(), 1);
    assert_eq!(all_seen(&responses), all_of(revision, true));
    let (last, parts) = responses.split_last().unwrap();
    assert!(!last.fragment && parts.len() > 2);
    for part in parts {
        let bytes = part.encoded_len();
        assert!(part.fragment && bytes > LIMITS.piece_bytes / 2, "{bytes}");
    }
    let most = responses.iter().map(Message::encoded_len).max().unwrap();
    assert!(most < LIMITS.piece_bytes + 64, "{most}");
}

#[test]
fn a_large_revision_detaches_nobody_who_gets_little_of_it() {
    let mut rig = filled(LIMITS);
    let (mut beside, mut both) = (rig.client(), rig.client());
    created(&mut rig, &mut beside, watch("key/0007", 0));
    let all = created(&mut rig, &mut both, all_keys());
    let one = created(&mut rig, &mut both, watch("key/0007", 0));
    let revision = delete_all(&mut rig);
    rig.turn();
    assert_eq!(rig.hub.watchers(), (3, 1));
    let of_one = [(revision, key(7), true)];
    assert_eq!(all_seen(&answers(&mut rig, &mut beside)), of_one);
    let responses = answers(&mut rig, &mut both);
    assert_eq!(of_watch(&responses, all), all_of(revision, true));
    assert_eq!(of_watch(&responses, one), of_one);
    assert_eq!(rig.hub.watchers(), (3, 3));
}

#[test]
fn watches_that_get_too_much_only_together_all_get_their_part() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    let mut expected = Vec::new();
    for i in (0..KEYS).step_by(50) {
        let request = WatchCreateRequest {
            range_end: key(i + 50).into(),
            ..watch(&key(i), 0)
        };
        let id = created(&mut rig, &mut client, request);
        expected.push((id, i));
    }
    let revision = delete_all(&mut rig);
    let responses = answers(&mut rig, &mut client);
    let all = all_of(revision, true);
    for (id, i) in expected {
        assert_eq!(of_watch(&responses, id), all[i..i + 50], "watch {id}");
        let messages = responses.iter().filter(|response| response.watch_id == id);
        assert_eq!(messages.count(), 1);
    }
}

#[test]
fn two_large_revisions_in_a_row_come_one_after_the_other() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    let whole = created(&mut rig, &mut client, all_keys());
    let request = WatchCreateRequest {
        fragment: true,
        ..all_keys()
    };
    let in_fragments = created(&mut rig, &mut client, request);
    let mut expected = all_of(delete_all(&mut rig), true);
    expected.extend(all_of(fill(&mut rig), false));
    let responses = answers(&mut rig, &mut client);
    for id in [whole, in_fragments] {
        assert_eq!(of_watch(&responses, id), expected);
    }
    // Fragments with nothing between them: each run ends with the last fragment of its watch.
    for pair in responses.windows(2) {
        assert!(!pair[0].fragment || pair[0].watch_id == pair[1].watch_id);
    }
}

/// The deletion is written in steps while it is read.
#[test]
fn a_large_revision_is_told_whether_it_is_written_or_not() {
    for fragment in [false, true] {
        let mut rig = filled(LIMITS);
        rig.store.set_keys_deleted_at_once(10);
        let mut client = rig.client();
        let request = WatchCreateRequest {
            fragment,
            prev_kv: true,
            ..all_keys()
        };
        created(&mut rig, &mut client, request);
        let revision = delete_all(&mut rig);
        assert!(rig.store.root().is_deleting());
        begin_to_tell(&mut rig, &mut client);
        client.step();
        rig.store.delete_step(100).unwrap();
        rig.store.publish();
        client.step();
        rig.store.delete_step(usize::MAX).unwrap();
        rig.store.publish();
        let responses = answers(&mut rig, &mut client);
        assert_eq!(all_seen(&responses), all_of(revision, true));
        assert_eq!(previous_bytes(&responses), KEYS * VALUE_BYTES);
    }
}

#[test]
fn a_watch_canceled_before_a_large_revision_is_sent_gets_none_of_it() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    let id = created(&mut rig, &mut client, all_keys());
    delete_all(&mut rig);
    rig.turn();
    // The stream sees that there is too much, and begins to measure it.
    for _ in 0..3 {
        client.turn();
        client.read_history();
    }
    assert!(client.stream.accepts());
    client.cancel(id);
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert!(responses[0].canceled);
    assert_eq!(rig.hub.watchers(), (0, 0));
}

#[test]
fn requests_and_events_wait_until_a_large_revision_is_complete() {
    for fragment in [false, true] {
        let mut rig = filled(LIMITS);
        let mut client = rig.client();
        let request = WatchCreateRequest {
            fragment,
            ..all_keys()
        };
        let large = created(&mut rig, &mut client, request);
        let small = created(&mut rig, &mut client, watch("a", 0));
        let revision = delete_all(&mut rig);
        begin_to_tell(&mut rig, &mut client);
        rig.put("a", "1");
        rig.turn();
        client.ask_progress();
        client.stream.tick();
        client.cancel(large);
        let responses = answers(&mut rig, &mut client);
        assert_eq!(of_watch(&responses, large), all_of(revision, true));
        assert_eq!(of_watch(&responses, small).len(), 1);
        let is_part =
            |response: &WatchResponse| response.watch_id == large && !response.events.is_empty();
        let last = responses.iter().rposition(is_part).unwrap();
        assert!(responses[..last].iter().all(is_part));
    }
}

#[test]
fn a_compaction_leaves_a_message_that_is_begun_whole() {
    for fragment in [false, true] {
        let mut rig = filled(LIMITS);
        let mut client = rig.client();
        let request = WatchCreateRequest {
            fragment,
            prev_kv: true,
            ..all_keys()
        };
        let id = created(&mut rig, &mut client, request);
        let revision = delete_all(&mut rig);
        begin_to_tell(&mut rig, &mut client);
        rig.put("key/a", "1");
        let compacted = rig.put("key/a", "2");
        rig.turn();
        rig.compact(compacted);
        let responses = answers(&mut rig, &mut client);
        assert_eq!(of_watch(&responses, id), all_of(revision, true));
        assert_eq!(previous_bytes(&responses), KEYS * VALUE_BYTES);
        let last = responses.last().unwrap();
        assert!(last.canceled && last.compact_revision == compacted);
    }
}

#[test]
fn a_large_revision_that_is_compacted_before_it_is_sent_is_not_sent() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    created(&mut rig, &mut client, all_keys());
    delete_all(&mut rig);
    let compacted = rig.put("a", "1");
    rig.turn();
    rig.compact(compacted);
    let responses = answers(&mut rig, &mut client);
    assert_eq!(responses.len(), 1);
    assert!(responses[0].canceled);
    assert_eq!(responses[0].compact_revision, compacted);
}

/// Neither for a client that takes what it gets nor for one that takes nothing.
#[test]
fn a_large_revision_is_never_held_as_a_whole() {
    let event_bytes = VALUE_BYTES + 100;
    for fragment in [false, true] {
        let mut rig = filled(LIMITS);
        let (mut reading, mut stuck) = (rig.client(), rig.client());
        for client in [&mut reading, &mut stuck] {
            let request = WatchCreateRequest {
                fragment,
                prev_kv: true,
                ..all_keys()
            };
            created(&mut rig, client, request);
        }
        let revision = delete_all(&mut rig);
        let is_busy = |stuck: &mut Client| stuck.turn() | stuck.read_history();
        while rig.turn() | is_busy(&mut stuck) {}
        let most = OUT_BYTES + 3 * LIMITS.piece_bytes;
        assert!(stuck.most_held >= OUT_BYTES, "{}", stuck.most_held);
        assert!(stuck.most_held < most, "{}", stuck.most_held);
        for client in [&mut reading, &mut stuck] {
            let responses = answers(&mut rig, client);
            assert_eq!(all_seen(&responses), all_of(revision, true));
            assert_eq!(previous_bytes(&responses), KEYS * VALUE_BYTES);
        }
        let most = LIMITS.held_bytes + event_bytes;
        assert!(rig.hub.most_open() < most, "{}", rig.hub.most_open());
        assert!(reading.most_held < most, "{}", reading.most_held);
    }
}

#[test]
fn a_message_that_would_be_too_large_is_not_begun() {
    let mut rig = filled(RevisionLimits {
        message_bytes: 5_000,
        ..LIMITS
    });
    let mut client = rig.client();
    created(&mut rig, &mut client, all_keys());
    delete_all(&mut rig);
    assert_eq!(answers(&mut rig, &mut client), []);
    let Some(Ended::TooLarge(bytes)) = client.stream.ended() else {
        panic!("{:?}", client.stream.ended());
    };
    assert!((KEYS * 15..KEYS * 30).contains(bytes), "{bytes}");
}

#[test]
fn a_stream_ends_whose_view_is_given_up() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    created(&mut rig, &mut client, all_keys());
    delete_all(&mut rig);
    begin_to_tell(&mut rig, &mut client);
    let view = client.stream.take_held_view().unwrap();
    assert!(view.is_held());
    view.give_up();
    assert!(!view.is_held());
    assert_eq!(answers(&mut rig, &mut client), []);
    assert!(matches!(client.stream.ended(), Some(Ended::GivenUp)));
}

#[test]
fn a_view_is_held_no_longer_than_the_revision_is_sent() {
    let mut rig = filled(LIMITS);
    let mut client = rig.client();
    created(&mut rig, &mut client, all_keys());
    delete_all(&mut rig);
    begin_to_tell(&mut rig, &mut client);
    let view = client.stream.take_held_view().unwrap();
    assert!(view.is_held());
    rig.settle(&mut client);
    assert!(!view.is_held());
}
