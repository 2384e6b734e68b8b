//! A revision of which one watcher has too many events to hold them. They are read and sent in pieces,
//! each when the connection has taken the one before.
//!
//! **Nothing comes between the pieces.** A watcher without fragments gets one message: its events are
//! read twice, for their length and to be sent, and whatever came between the pieces would be taken for
//! a part of them. Fragments are messages, but clients put them together and lose what comes between. So
//! once a part is sent (`is_telling`), the stream takes no request, nothing from its mailbox and no other
//! read until the rest is sent, too; [`Out`] insists. While lengths are added up, all goes on.

use super::catch_up::phase_of;
use super::{Ended, Phase, WatchStream};
use crate::state::watch::history::{HeldView, HistoryRead, Long, Step};
use crate::state::watch::response::{Fields, Out};

impl WatchStream {
    /// The view that a long revision is read from, if it was taken since the last call. As long as
    /// it is held, what it needs of the store stays.
    pub fn take_held_view(&mut self) -> Option<HeldView> {
        self.held_view.take()
    }

    /// The next piece, or the first one of the next watcher that has to be read for alone.
    pub(super) fn next_piece(&mut self) -> Option<HistoryRead> {
        let long = match self.long.take() {
            Some(long) => long,
            None => self.begin_long()?,
        };
        Some(HistoryRead::of_long(long))
    }

    pub(super) fn take_long(&mut self, mut long: Box<Long>, step: Step, out: &mut Out) {
        let phase = phase_of(long.is_gap);
        if !self.is_still(&long.of, phase) {
            // Its client canceled it while its events were measured.
            assert!(!self.is_telling, "canceled within a revision");
            return;
        }
        match step {
            Step::Failed(error) => self.ended = Some(Ended::Failed(error)),
            Step::GivenUp => self.ended = Some(Ended::GivenUp),
            Step::Compacted { revision } => {
                self.take_compacted(std::slice::from_ref(&long.of), revision, phase, out);
            }
            Step::End if !long.is_sending => self.begin_message(long, out),
            Step::End => {
                self.send_piece(&mut long, false, out);
                self.finish_long(&long, out);
            }
            // A fragment is sent when it is known whether it is the last one.
            Step::Paused if long.in_fragments => self.long = Some(long),
            Step::Paused | Step::Full => {
                if long.is_sending {
                    self.send_piece(&mut long, true, out);
                }
                self.long = Some(long);
            }
        }
    }

    fn begin_long(&mut self) -> Option<Box<Long>> {
        let slot = self.next_alone()?;
        let of = self.read_for(slot)?;
        let is_in_fragments = self.watcher(slot).fragment;
        let long = Box::new(Long::new(
            of,
            self.gap.is_some(),
            self.reader.view(),
            is_in_fragments.then_some(self.options.fragment_bytes),
            self.hub.limits(),
        ));
        self.held_view = Some(long.held_view());
        Some(long)
    }

    /// A watcher whose turn it is, if it has to be read for alone.
    fn next_alone(&mut self) -> Option<u32> {
        if let Some((filling, _)) = &self.gap {
            let mut filling = filling.iter().copied();
            return filling.find(|slot| self.is_alone(*slot, Phase::Filling));
        }
        self.drop_not_behind();
        let first = self.behind.front().copied()?;
        if self.is_alone(first, Phase::Behind) {
            self.behind.pop_front()
        } else {
            None
        }
    }

    fn is_alone(&self, slot: u32, phase: Phase) -> bool {
        self.slots[slot as usize]
            .as_ref()
            .is_some_and(|watcher| watcher.phase == phase && watcher.is_alone)
    }

    /// Everything was measured: begins the one message of a watcher without fragments.
    fn begin_message(&mut self, mut long: Box<Long>, out: &mut Out) {
        if long.measured == 0 {
            // A compaction took them all.
            return self.finish_long(&long, out);
        }
        let fields = Fields {
            watch_id: self.watcher(long.of.slot).id,
            ..Fields::default()
        };
        let bytes = out.frame_len(long.store_revision, &fields) + long.measured;
        if bytes > self.hub.limits().message_bytes {
            self.ended = Some(Ended::TooLarge(bytes));
            return;
        }
        out.begin(long.store_revision, &fields, long.measured);
        self.is_telling = true;
        long.begin_sending();
        self.long = Some(long);
    }

    fn send_piece(&mut self, long: &mut Long, is_followed: bool, out: &mut Out) {
        let (piece, events) = long.take_piece();
        if piece.is_empty() {
            return;
        }
        let watcher = self.watcher(long.of.slot);
        watcher.idle = false;
        if long.in_fragments {
            let fields = Fields {
                watch_id: watcher.id,
                fragment: is_followed,
                ..Fields::default()
            };
            out.begin(long.store_revision, &fields, piece.len());
        }
        out.piece(piece, events);
        self.is_telling = true;
    }

    fn finish_long(&mut self, long: &Long, out: &Out) {
        assert!(out.is_whole(), "a part of a revision is missing");
        self.is_telling = false;
        let slot = long.of.slot;
        let watcher = self.watcher(slot);
        watcher.next = watcher.next.max(long.of.next + 1);
        watcher.is_alone = false;
        if !long.is_gap {
            self.behind.push_back(slot);
        }
    }
}
