use etcd_api::etcdserverpb::ResponseHeader;

use super::*;

fn asked(key: &'static str, end: &'static str) -> RangeRequest {
    RangeRequest {
        key: key.into(),
        range_end: end.into(),
        ..RangeRequest::default()
    }
}

fn answer(revision: i64) -> RangeResponse {
    RangeResponse {
        header: Some(ResponseHeader {
            revision,
            ..ResponseHeader::default()
        }),
        ..RangeResponse::default()
    }
}

fn add(cache: &mut Cache, request: &RangeRequest, revision: i64) {
    cache.add(question(request), request, &answer(revision));
}

fn knows(cache: &mut Cache, request: &RangeRequest) -> bool {
    cache.get(&question(request), request.revision, 0) != Known::Nothing
}

/// Nothing is left behind in the indexes.
fn check(cache: &Cache) {
    assert_eq!(cache.uses.len(), cache.len());
    let questions = cache.keys.values().chain(cache.ranges.values());
    let indexed: usize = questions.map(HashSet::len).sum();
    let present = cache.entries.values().filter(|entry| entry.range.is_some());
    assert_eq!(indexed, present.count());
    let bytes = cache.entries.values().map(|entry| entry.bytes);
    assert_eq!(cache.bytes, bytes.sum::<usize>());
}

#[test]
fn a_write_removes_exactly_the_answers_it_touches() {
    let questions = [
        asked("a", ""),
        asked("b", ""),
        asked("a", "b"),
        asked("b", "d"),
        asked("b", "\0"),
        asked("\0", "\0"),
    ];
    let cases: [(&[u8], &[u8], [bool; 6]); 6] = [
        (b"a", b"", [false, true, false, true, true, false]),
        (b"b", b"", [true, false, true, false, false, false]),
        (b"z", b"", [true, true, true, true, false, false]),
        (b"c", b"e", [true, true, true, false, false, false]),
        (b"b", b"\0", [true, false, true, false, false, false]),
        (b"d", b"c", [true, true, true, true, false, false]),
    ];
    for (key, end, left) in cases {
        let mut cache = Cache::default();
        for question in &questions {
            add(&mut cache, question, 5);
        }
        cache.forget(key, end);
        let seen = questions
            .clone()
            .map(|question| knows(&mut cache, &question));
        assert_eq!(seen, left, "{key:?} to {end:?}");
        check(&cache);
    }
}

#[test]
fn the_least_recently_used_answers_go_first() {
    let mut cache = Cache::default();
    let at = |revision| RangeRequest {
        revision,
        ..asked("a", "")
    };
    for revision in 1..=ENTRIES_MAX as i64 {
        add(&mut cache, &at(revision), 9);
    }
    assert!(knows(&mut cache, &at(1)));
    add(&mut cache, &at(9999), 9999);
    assert_eq!(cache.len(), ENTRIES_MAX);
    assert!(knows(&mut cache, &at(1)) && !knows(&mut cache, &at(2)));
    check(&cache);
}

#[test]
fn answers_older_than_an_acknowledged_write_are_not_kept() {
    let mut cache = Cache::default();
    cache.written_at(7);
    add(&mut cache, &asked("a", ""), 6);
    assert_eq!(cache.len(), 0);
    add(&mut cache, &asked("a", ""), 7);
    assert!(knows(&mut cache, &asked("a", "")));
}

#[test]
fn revisions_that_are_compacted_are_refused() {
    let mut cache = Cache::default();
    let old = RangeRequest {
        revision: 3,
        ..asked("a", "")
    };
    add(&mut cache, &old, 9);
    cache.compact(5);
    assert_eq!(cache.get(&question(&old), 3, 0), Known::Compacted);
    add(&mut cache, &old, 9);
    assert_eq!(cache.len(), 0);
    // An old revision is not touched by writes.
    let kept = RangeRequest { revision: 6, ..old };
    add(&mut cache, &kept, 9);
    cache.forget(b"a", b"");
    assert!(knows(&mut cache, &kept));
}

#[test]
fn what_is_cleared_leaves_no_answer_but_the_newest_write() {
    let mut cache = Cache::default();
    cache.written_at(5);
    add(&mut cache, &asked("a", ""), 5);
    cache.clear();
    assert!(!knows(&mut cache, &asked("a", "")));
    add(&mut cache, &asked("a", ""), 4);
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_question_is_the_same_whatever_consistency_it_asks_for() {
    let range = asked("a", "");
    let serializable = RangeRequest {
        serializable: true,
        ..range.clone()
    };
    assert_eq!(question(&range), question(&serializable));
    assert_ne!(question(&range), question(&asked("b", "")));
}

#[test]
fn an_answer_that_is_too_old_is_not_known() {
    let mut cache = Cache::default();
    let request = asked("a", "");
    add(&mut cache, &request, 5);
    for (least, known) in [(6, false), (5, true)] {
        let found = cache.get(&question(&request), 0, least);
        assert_eq!(found != Known::Nothing, known, "{least}");
    }
    add(&mut cache, &request, 6);
    check(&cache);
    assert_ne!(cache.get(&question(&request), 0, 6), Known::Nothing);
}

#[test]
fn a_write_of_very_many_keys_leaves_nothing() {
    let mut cache = Cache::default();
    let (all, one, other) = (asked("\0", "\0"), asked("b", ""), asked("c", "d"));
    for request in [&all, &one, &other] {
        add(&mut cache, request, 5);
    }
    let touch = |count: usize| vec![(Bytes::from("b"), Bytes::new()); count];
    cache.forget_all(&touch(TOUCHED_MAX));
    assert!(!knows(&mut cache, &all) && !knows(&mut cache, &one));
    assert!(knows(&mut cache, &other));
    check(&cache);
    cache.forget_all(&touch(TOUCHED_MAX + 1));
    assert_eq!(cache.len(), 0);
    check(&cache);
}
