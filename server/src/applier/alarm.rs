//! This member's space alarm: the one place where it is raised and taken back. What is known of the
//! space comes here, whoever finds out: looks at the disk, changes that were turned away, the store.

use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use storage::mvcc::Stats;

use super::ApplyEffects;
use crate::error::Error;
use crate::event::{Look, ReplySlot};
use crate::state::request::Request;
use crate::state::space_alarm::{self, Alarm, Guard, Reading};

/// An alarm that was asked for and is not there after so many looks has got lost on its way.
const LOOKS_UNTIL_LOST: u32 = 2;

/// What operators hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceNews {
    /// The disk is nearly full, and the alarm on its way.
    Low { available: u64 },
    /// There is space again, and the alarm is being taken back.
    Back { available: u64, in_use: u64 },
    /// The alarm that was asked for does not come.
    AlarmLost,
}

pub(super) struct SpaceAlarm {
    guard: Guard,
    member_id: u64,
    /// As of the last look.
    is_low: bool,
    /// In the state, as of the last turn.
    is_raised: bool,
    /// This member's, and not a client's who is to take it back. It stays so until the alarm is
    /// gone: one that seems lost may still come.
    is_own: bool,
    /// It was asked for, so many looks ago.
    asked: Option<u32>,
    /// What the largest change turned away since then would have taken.
    refused_bytes: u64,
    /// Those whose changes were turned away, and who are to find the alarm in place.
    waiting: Vec<ReplySlot>,
    /// The log was told to do without files made ahead.
    log_is_short: bool,
}

impl SpaceAlarm {
    /// Whose alarm it is that `is_raised` at a start is not known any more: it counts as ours.
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

    /// Whether space on the disk is low.
    pub(super) fn is_low(&self) -> bool {
        self.is_low
    }

    /// ..or the log has found none for its next file.
    pub(super) fn refuses(&self) -> bool {
        self.is_low || self.log_is_short
    }

    pub(super) fn member_id(&self) -> u64 {
        self.member_id
    }

    /// A change was turned away. The first one raises the alarm, which from then on refuses them
    /// all where they are applied.
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

    /// True while space is low, and once after: what found none is to try again.
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

    /// Once: each alarm takes space in the log.
    fn raise(&mut self, effects: &mut ApplyEffects) {
        if self.asked.is_none() {
            self.asked = Some(0);
            self.is_own = true;
            effects.alarm = Some(self.request(AlarmAction::Activate));
        }
    }

    /// Whether the alarm `is_raised` in the state now.
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

    fn request(&self, action: AlarmAction) -> Request {
        Request::Alarm(pb::AlarmRequest {
            action: action as i32,
            member_id: self.member_id,
            alarm: pb::AlarmType::Nospace as i32,
        })
    }
}

#[cfg(test)]
mod tests;
