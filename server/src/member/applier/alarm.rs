//! This member's space alarm. Only this module raises and clears it. It learns about space from
//! looks at the disks, refused changes and the store.

use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use storage::mvcc::Stats;

use super::effects::{ApplyEffects, SpaceNews};
use crate::basics::error::Error;
use crate::member::event::{Look, ReplySlot};
use crate::state::space_alarm::{self, Alarm, Guard, Reading};

/// Looks after which a proposed alarm that is not in the state counts as lost.
const LOOKS_UNTIL_LOST: u32 = 2;

pub(super) struct SpaceAlarm {
    guard: Guard,
    member_id: u64,
    /// Space was low at the last look.
    is_low: bool,
    /// The alarm was in the state at the last turn.
    is_raised: bool,
    /// This member raised the alarm, so this member clears it; a client clears its own. True until
    /// the alarm is gone, because an alarm that seems lost may still arrive.
    is_own: bool,
    /// Number of looks since the alarm was proposed.
    asked: Option<u32>,
    /// The most bytes that a change refused since then would have taken.
    refused_bytes: u64,
    /// Refused clients. They are answered when the alarm is in the state.
    waiting: Vec<ReplySlot>,
    /// The log makes no files in advance, because it found no space for one.
    log_is_short: bool,
}

impl SpaceAlarm {
    /// An alarm that `is_raised` at the start counts as this member's own, because nobody knows who
    /// raised it.
    pub(super) fn new(guard: Guard, member_id: u64, is_raised: bool) -> SpaceAlarm {
        SpaceAlarm {
            guard,
            member_id,
            is_low: false,
            is_raised,
            is_own: is_raised,
            asked: None,
            refused_bytes: 0,
            waiting: Vec::new(),
            log_is_short: false,
        }
    }

    /// True if space on the disk is low.
    pub(super) fn is_low(&self) -> bool {
        self.is_low
    }

    /// True if requests that take space are refused: space is low, or the log found none for its next
    /// file.
    pub(super) fn refuses(&self) -> bool {
        self.is_low || self.log_is_short
    }

    pub(super) fn member_id(&self) -> u64 {
        self.member_id
    }

    /// A change was refused. The first one raises the alarm; from then on the alarm refuses all of
    /// them when they are applied.
    pub(super) fn refused(&mut self, needed: u64, slot: ReplySlot, effects: &mut ApplyEffects) {
        self.refused_bytes = self.refused_bytes.max(needed);
        if self.is_raised {
            effects.replies.push((slot, Err(Error::NoSpace)));
            return;
        }
        self.waiting.push(slot);
        self.raise(effects);
    }

    pub(super) fn log_is_short(&mut self, effects: &mut ApplyEffects) {
        self.log_is_short = true;
        effects.log_is_short = Some(true);
    }

    /// Returns true while space is low, and once after that: whatever found no space tries again then.
    pub(super) fn look(&mut self, look: Look, stats: &Stats, effects: &mut ApplyEffects) -> bool {
        effects.look = Some(look);
        if look.log.is_some_and(space_alarm::has_plenty) && self.log_is_short {
            self.log_is_short = false;
            effects.log_is_short = Some(false);
        }
        let disk = space_alarm::fuller([look.store, look.log]);
        let in_use = stats.in_use_bytes + stats.dirty_bytes;
        let verdict = self.guard.look(&Reading {
            disk,
            is_short: stats.is_short || self.log_is_short,
            in_use_bytes: in_use,
            refused_bytes: self.refused_bytes,
            raised: self.is_raised,
            is_own: self.is_own,
        });
        let was_low = std::mem::replace(&mut self.is_low, verdict.is_low);
        self.forget_lost(effects);
        let available = disk.map_or(0, |disk| disk.available);
        match verdict.alarm {
            Some(Alarm::Raise) => {
                if !self.is_own {
                    effects.space_news.push(SpaceNews::Low { available });
                }
                self.raise(effects);
            }
            Some(Alarm::Clear) => {
                effects
                    .space_news
                    .push(SpaceNews::Back { available, in_use });
                effects.alarm = Some(self.request(AlarmAction::Deactivate));
            }
            None => {}
        }
        was_low || self.is_low
    }

    /// Proposes the alarm once, because each proposal takes space in the log.
    fn raise(&mut self, effects: &mut ApplyEffects) {
        if self.asked.is_none() {
            self.asked = Some(0);
            self.is_own = true;
            effects.alarm = Some(self.request(AlarmAction::Activate));
        }
    }

    /// A member raises its alarm by itself. An earlier run of this member may have proposed that.
    pub(super) fn own_applied(&mut self, alarm: &pb::AlarmRequest) {
        self.is_own |= *alarm == self.request(AlarmAction::Activate);
    }

    /// Another state has replaced the state. As at a start, an alarm that comes with it counts as
    /// this member's own.
    pub(super) fn installed(&mut self, is_raised: bool) {
        self.is_own |= is_raised && !self.is_raised;
    }

    /// Notes whether the alarm `is_raised` in the state.
    pub(super) fn note(&mut self, is_raised: bool, effects: &mut ApplyEffects) {
        if std::mem::replace(&mut self.is_raised, is_raised) == is_raised {
            return;
        }
        self.asked = None;
        if is_raised {
            self.answer(effects);
        } else {
            self.is_own = false;
            self.refused_bytes = 0;
        }
    }

    fn forget_lost(&mut self, effects: &mut ApplyEffects) {
        self.asked = self.asked.map(|looks| looks + 1);
        if self.asked.is_some_and(|looks| looks >= LOOKS_UNTIL_LOST) {
            self.asked = None;
            effects.space_news.push(SpaceNews::AlarmLost);
            self.answer(effects);
        }
    }

    fn answer(&mut self, effects: &mut ApplyEffects) {
        let waiting = self.waiting.drain(..);
        effects
            .replies
            .extend(waiting.map(|slot| (slot, Err(Error::NoSpace))));
    }

    fn request(&self, action: AlarmAction) -> pb::AlarmRequest {
        pb::AlarmRequest {
            action: action as i32,
            member_id: self.member_id,
            alarm: pb::AlarmType::Nospace as i32,
        }
    }
}

#[cfg(test)]
mod tests;
