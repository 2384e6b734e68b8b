use storage::vfs::DiskSpace;

use super::*;
use crate::member::event::Reply;
use crate::member::event::admission::{Admission, Limits};

fn slot() -> (ReplySlot, tokio::sync::oneshot::Receiver<Reply>) {
    let admission = Admission::new(Limits {
        requests: 10,
        bytes: 10,
    });
    ReplySlot::new(admission.admit(0).unwrap())
}

fn alarm() -> SpaceAlarm {
    SpaceAlarm::new(Guard::new(1 << 20, true), 7, false)
}

fn free() -> Look {
    let disk = Some(DiskSpace {
        total: 1 << 40,
        available: 1 << 39,
    });
    Look {
        store: disk,
        log: disk,
    }
}

#[test]
fn many_who_are_turned_away_ask_for_one_alarm_and_find_it_in_place() {
    let (mut alarm, mut effects) = (alarm(), ApplyEffects::default());
    let (first, _) = slot();
    alarm.refused(10, first, &mut effects);
    assert!(effects.alarm.take().is_some());
    let (second, _) = slot();
    alarm.refused(20, second, &mut effects);
    assert!(effects.alarm.is_none() && effects.replies.is_empty());
    alarm.note(true, &mut effects);
    assert_eq!(effects.replies.len(), 2);
    let (third, _) = slot();
    alarm.refused(10, third, &mut effects);
    assert_eq!(effects.replies.len(), 3);
    assert!(effects.alarm.is_none());
}

#[test]
fn an_alarm_that_got_lost_keeps_nobody_waiting_and_is_asked_for_anew() {
    let (mut alarm, mut effects) = (alarm(), ApplyEffects::default());
    let (first, _) = slot();
    alarm.refused(10, first, &mut effects);
    effects.alarm = None;
    alarm.look(free(), &Stats::default(), &mut effects);
    assert!(effects.replies.is_empty());
    alarm.look(free(), &Stats::default(), &mut effects);
    assert_eq!(effects.replies.len(), 1);
    assert_eq!(effects.space_news, [SpaceNews::AlarmLost]);
    let (second, _) = slot();
    alarm.refused(10, second, &mut effects);
    assert!(effects.alarm.is_some());
}

#[test]
fn one_that_comes_late_is_ours_and_goes_when_there_is_space() {
    let (mut alarm, mut effects) = (alarm(), ApplyEffects::default());
    let (first, _) = slot();
    alarm.refused(10, first, &mut effects);
    for _ in 0..LOOKS_UNTIL_LOST {
        alarm.look(free(), &Stats::default(), &mut effects);
    }
    effects.alarm = None;
    alarm.note(true, &mut effects);
    for _ in 0..2 {
        alarm.look(free(), &Stats::default(), &mut effects);
    }
    let clear = alarm.request(AlarmAction::Deactivate);
    assert_eq!(effects.alarm, Some(clear));
}

#[test]
fn the_log_makes_files_ahead_again_when_there_is_plenty() {
    let (mut alarm, mut effects) = (alarm(), ApplyEffects::default());
    alarm.log_is_short(&mut effects);
    assert_eq!(effects.log_is_short.take(), Some(true));
    alarm.look(free(), &Stats::default(), &mut effects);
    assert_eq!(effects.log_is_short.take(), Some(false));
    alarm.look(free(), &Stats::default(), &mut effects);
    assert_eq!(effects.log_is_short.take(), None);
}
