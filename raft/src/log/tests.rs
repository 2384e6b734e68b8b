use super::*;

fn entry(term: Term, index: Index) -> Entry {
    Entry {
        term,
        index,
        ..Entry::default()
    }
}

fn at(term: Term, index: Index) -> Position {
    Position { term, index }
}

/// A log of entries 1.. with these terms, all durable, none committed.
fn log(terms: &[Term]) -> Log {
    let entries = terms
        .iter()
        .zip(1..)
        .map(|(term, index)| entry(*term, index));
    Log::new(Position::default(), entries.collect(), 0, 0)
}

/// Hands the new entries to the writer under this ticket.
fn issue(log: &mut Log, ticket: Ticket) -> Vec<Entry> {
    let mut write = Write {
        ticket,
        ..Write::default()
    };
    log.fill(&mut write);
    log.issue(&write);
    write.entries
}

fn terms(log: &Log) -> Vec<Term> {
    log.entries.iter().map(|entry| entry.term).collect()
}

#[test]
fn a_late_append_cuts_nothing_off() {
    let mut log = log(&[1, 1, 2, 2]);
    assert_eq!(log.accept(at(1, 1), vec![entry(1, 2)]), 2);
    assert_eq!(terms(&log), [1, 1, 2, 2]);
}

#[test]
fn the_first_entry_that_differs_replaces_the_rest() {
    let mut log = log(&[1, 1, 2, 2, 2]);
    assert_eq!(log.accept(at(1, 2), vec![entry(2, 3), entry(3, 4)]), 4);
    assert_eq!(terms(&log), [1, 1, 2, 3]);
    assert_eq!(log.durable(), 3);
    assert_eq!(issue(&mut log, 1), [entry(3, 4)]);
}

#[test]
fn an_answer_for_replaced_entries_vouches_for_none() {
    // 1. Entries 2 and 3 of term 1 go to the disk with ticket 1.
    // 2. A new leader replaces them; its entry 2 goes with ticket 2.
    // 3. Ticket 1 comes back: entry 2 of term 2 is not durable yet.
    let mut log = log(&[1]);
    log.accept(at(1, 1), vec![entry(1, 2), entry(1, 3)]);
    issue(&mut log, 1);
    log.accept(at(1, 1), vec![entry(2, 2)]);
    issue(&mut log, 2);
    assert_eq!(log.ticket_of(2), 2);
    log.saved(1);
    assert_eq!(log.durable(), 1);
    log.saved(2);
    assert_eq!(log.durable(), 2);
    assert_eq!(log.ticket_of(2), 0);
}

#[test]
fn hints_skip_terms_that_cannot_match() {
    // The example of a follower with a long tail of old terms, and of a leader with one: each names
    // the last position where the other might agree.
    let follower = log(&[1, 1, 1, 2, 2, 2]);
    assert_eq!(follower.newest_possible_match(6, 1), at(1, 3));
    assert_eq!(follower.newest_possible_match(9, 5), at(2, 6));
    let leader = log(&[1, 1, 4, 4, 4, 4]);
    assert_eq!(leader.newest_possible_match(6, 3), at(1, 2));
    assert_eq!(leader.newest_possible_match(6, 0), at(0, 0));
}

#[test]
fn before_the_base_a_hint_names_no_term() {
    let log = Log::new(at(5, 10), vec![entry(5, 11)], 10, 10);
    assert_eq!(log.newest_possible_match(11, 4), at(0, 9));
    assert_eq!(log.newest_possible_match(3, 4), at(0, 3));
}

#[test]
fn what_is_committed_is_handed_out_once_whatever_is_durable() {
    let mut log = log(&[1]);
    log.push(1, EntryKind::Normal, "x".into());
    issue(&mut log, 1);
    log.commit_to(1);
    let mut out = Vec::new();
    log.take_committed(&mut out);
    assert_eq!(out, [entry(1, 1)]);
    log.commit_to(2);
    log.take_committed(&mut out);
    assert_eq!(log.durable(), 1);
    log.saved(1);
    log.take_committed(&mut out);
    assert_eq!(out.iter().map(|e| e.index).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn what_is_not_durable_stays_in_memory_though_it_is_applied() {
    // A follower that needs entries before the base is fed from the disk, which must have them.
    let mut log = log(&[1, 1]);
    log.push(1, EntryKind::Normal, "x".into());
    log.push(1, EntryKind::Normal, "y".into());
    issue(&mut log, 1);
    log.commit_to(4);
    log.take_committed(&mut Vec::new());
    let limits = Limits {
        kept_entries: 0,
        ..Limits::default()
    };
    log.applied_to(4, &limits, None);
    assert_eq!(log.base(), at(1, 2));
    log.saved(1);
    log.applied_to(4, &limits, None);
    assert_eq!(log.base(), at(1, 4));
}

#[test]
fn replaced_entries_count_as_unsaved_until_the_writer_is_done_with_them() {
    let mut log = log(&[1]);
    assert_eq!(log.unsaved_bytes(), 0);
    log.accept(at(1, 1), vec![entry(1, 2), entry(1, 3)]);
    issue(&mut log, 1);
    log.accept(at(1, 1), vec![entry(2, 2)]);
    issue(&mut log, 2);
    assert_eq!(log.unsaved_bytes(), 3 * ENTRY_OVERHEAD_BYTES);
    log.saved(1);
    assert_eq!(log.unsaved_bytes(), ENTRY_OVERHEAD_BYTES);
    log.saved(2);
    assert_eq!(log.unsaved_bytes(), 0);
}

#[test]
fn applied_entries_are_kept_up_to_the_limits() {
    let mut log = log(&[1; 100]);
    log.commit_to(90);
    log.take_committed(&mut Vec::new());
    let limits = Limits {
        kept_entries: 10,
        ..Limits::default()
    };
    log.applied_to(50, &limits, None);
    assert_eq!(log.base(), at(1, 40));
    let limits = Limits {
        kept_bytes: 3 * ENTRY_OVERHEAD_BYTES,
        ..limits
    };
    log.applied_to(60, &limits, None);
    assert_eq!(log.base(), at(1, 57));
    assert_eq!(log.kept_bytes, 3 * ENTRY_OVERHEAD_BYTES);
    assert_eq!((log.last(), log.entries.len()), (at(1, 100), 43));
}

#[test]
fn entries_that_somebody_needs_are_kept_up_to_their_bytes_whatever_their_number() {
    let mut log = log(&[1; 100]);
    log.commit_to(90);
    log.take_committed(&mut Vec::new());
    let limits = Limits {
        kept_entries: 10,
        kept_bytes: 40 * ENTRY_OVERHEAD_BYTES,
        ..Limits::default()
    };
    log.applied_to(30, &limits, Some(15));
    assert_eq!(log.base(), at(1, 15));
    log.applied_to(60, &limits, Some(15));
    assert_eq!(log.base(), at(1, 20));
    log.applied_to(61, &limits, Some(70));
    assert_eq!(log.base(), at(1, 51));
}

#[test]
fn a_reset_log_is_written_as_such_and_goes_on_from_there() {
    let mut log = log(&[1, 1]);
    log.push(1, EntryKind::Normal, "x".into());
    issue(&mut log, 1);
    log.reset(at(4, 20));
    log.accept(at(4, 20), vec![entry(4, 21)]);
    let mut write = Write {
        ticket: 2,
        ..Write::default()
    };
    assert!(log.fill(&mut write));
    log.issue(&write);
    assert_eq!(write.reset, Some(at(4, 20)));
    assert_eq!(write.entries, [entry(4, 21)]);
    log.saved(1);
    assert_eq!(log.durable(), 20);
    log.saved(2);
    assert_eq!(log.durable(), 21);
}

#[test]
fn a_slice_stops_at_its_bytes_but_is_never_empty() {
    let mut log = log(&[]);
    for _ in 0..4 {
        log.push(1, EntryKind::Normal, vec![0; 100].into());
    }
    let count = |bytes| log.slice(2, bytes).len();
    assert_eq!(
        (count(0), count(164), count(328), count(1000)),
        (1, 1, 2, 3)
    );
    assert!(log.slice(5, 1000).is_empty());
}
