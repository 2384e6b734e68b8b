use super::*;

fn replicating(matched: Index, next: Index) -> Progress {
    let mut progress = Progress::new(matched + 1);
    progress.acknowledged(matched, 0);
    for last in matched + 1..next {
        progress.sent(last, 10);
    }
    progress
}

#[test]
fn a_probe_waits_for_its_answer() {
    let mut progress = Progress::new(5);
    progress.sent(9, 100);
    assert_eq!(progress.flow, Flow::Probe { paused: true });
    assert_eq!(progress.next, 5);
    progress.acknowledged(9, 0);
    assert_eq!(
        (progress.flow, progress.matched, progress.next),
        (Flow::Replicate, 9, 10)
    );
}

#[test]
fn a_refused_probe_steps_back_to_the_hint() {
    let mut progress = Progress::new(50);
    progress.sent(60, 0);
    assert_eq!(progress.refused(49, 20), Refusal::SteppedBack);
    assert_eq!(
        (progress.flow, progress.next),
        (Flow::Probe { paused: false }, 21)
    );
    // A repeated refusal answers nothing that was asked.
    assert_eq!(progress.refused(49, 20), Refusal::Old);
    // A hint that is no step back still counts as one.
    assert_eq!(progress.refused(20, 90), Refusal::SteppedBack);
    assert_eq!(progress.next, 20);
}

#[test]
fn a_refusal_while_replicating_starts_over_behind_what_matched() {
    let mut progress = replicating(3, 8);
    assert_eq!(progress.refused(2, 0), Refusal::Old);
    assert_eq!(progress.refused(6, 4), Refusal::SteppedBack);
    assert_eq!(
        (progress.flow, progress.next),
        (Flow::Probe { paused: false }, 4)
    );
}

#[test]
fn a_log_is_lost_when_one_new_append_after_the_other_is_refused() {
    let mut progress = replicating(40, 45);
    progress.probe();
    // Refusals of what was sent before, as often as that was: they overtook each other.
    for _ in 0..5 {
        assert_eq!(progress.refused(40, 39), Refusal::Old);
    }
    progress.sent(0, 0);
    assert_eq!(progress.refused(40, 39), Refusal::Doubtful);
    for _ in 0..5 {
        assert_eq!(progress.refused(40, 39), Refusal::Old, "asked once");
    }
    progress.sent(0, 0);
    assert_eq!(progress.refused(40, 39), Refusal::Doubtful);
    assert!(!progress.has_lost_log());
    progress.sent(0, 0);
    assert_eq!(progress.refused(40, 39), Refusal::LostLog);
    assert!(progress.has_lost_log());
}

#[test]
fn old_answers_change_nothing() {
    let mut progress = replicating(7, 9);
    progress.acknowledged(5, 0);
    assert_eq!((progress.matched, progress.next), (7, 9));
}

#[test]
fn the_window_fills_by_count_and_by_bytes_and_one_answer_frees_many() {
    let few = Limits {
        inflight_messages: 3,
        ..Limits::default()
    };
    let small = Limits {
        inflight_bytes: 25,
        ..Limits::default()
    };
    let mut progress = replicating(0, 3);
    assert!(!progress.inflight.is_full(&few) && !progress.inflight.is_full(&small));
    progress.sent(3, 10);
    assert!(progress.inflight.is_full(&few) && progress.inflight.is_full(&small));
    progress.acknowledged(2, 0);
    assert_eq!(
        (progress.inflight.queue.len(), progress.inflight.bytes),
        (1, 10)
    );
}

#[test]
fn a_snapshot_ends_when_the_log_goes_on_from_what_is_held() {
    let mut progress = replicating(3, 4);
    progress.await_snapshot(35);
    progress.flow = under_way(40);
    progress.acknowledged(9, 30);
    assert_eq!(progress.flow, under_way(40));
    progress.acknowledged(40, 30);
    assert_eq!((progress.flow, progress.next), (Flow::Replicate, 41));
}

#[test]
fn a_probe_after_a_snapshot_begins_behind_it() {
    let mut progress = replicating(3, 4);
    progress.flow = under_way(40);
    progress.probe();
    assert_eq!(progress.next, 41);
    progress.await_snapshot(35);
    progress.probe();
    assert_eq!(progress.next, 4);
}

#[test]
fn the_log_is_needed_behind_what_a_follower_has_or_gets_until_it_is_silent() {
    let mut progress = replicating(3, 4);
    progress.active = true;
    assert_eq!(progress.needs_after(2), Some(3));
    assert_eq!(progress.needs_after(4), None, "what it needs is gone");
    progress.await_snapshot(35);
    assert_eq!(progress.needs_after(30), Some(35));
    progress.flow = under_way(40);
    progress.active = false;
    assert_eq!(
        progress.needs_after(30),
        Some(40),
        "a transfer tells its end"
    );
    progress.probe();
    assert_eq!(progress.needs_after(30), None, "it is silent");
    progress.was_active = true;
    assert_eq!(progress.needs_after(30), Some(40));
}

fn under_way(holds: Index) -> Flow {
    Flow::Snapshot { holds, sent: true }
}
