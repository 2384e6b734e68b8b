//! One revision for one watcher, of which it has too many events to hold them: read in pieces.
//!
//! All pieces come from one view, held until the last: a message whose length was sent must have that
//! length, so no compaction may take an event or a previous version from its middle. Since a client that
//! takes nothing would keep the view's pages from reuse for ever, whoever knows the time may give the
//! view up ([`HeldView`]); then the stream ends.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use storage::Result;
use storage::mvcc::{Change, Revision, View};

use super::ReadFor;
use crate::state::watch::RevisionLimits;
use crate::state::watch::event;

/// Header and other fields of a fragment take less.
const FRAME_BYTES: usize = 64;

/// The view that a stream holds while it sends a long revision.
#[derive(Clone, Debug)]
pub struct HeldView(Weak<Mutex<Option<View>>>);

/// See the module.
#[derive(Debug)]
pub(in crate::state::watch) struct Long {
    /// `next` is the revision.
    pub(in crate::state::watch) of: ReadFor,
    /// The watcher is in a gap.
    pub(in crate::state::watch) is_gap: bool,
    pub(in crate::state::watch) store_revision: i64,
    /// The revision may be sent in several messages.
    pub(in crate::state::watch) in_fragments: bool,
    /// Not set while the events' lengths are added up.
    pub(in crate::state::watch) is_sending: bool,
    /// The sum so far.
    pub(in crate::state::watch) measured: usize,
    view: Arc<Mutex<Option<View>>>,
    /// The last change looked at, and its key.
    last: Option<(Revision, Vec<u8>)>,
    /// Events read and not taken by the stream yet.
    piece: BytesMut,
    events: u64,
    piece_bytes: usize,
    piece_changes: usize,
}

/// How far one step came.
#[derive(Debug)]
pub(in crate::state::watch) enum Step {
    /// It has looked at many changes. Whether another event follows is not known.
    Paused,
    /// The piece has no room for the next event.
    Full,
    /// There are no more events.
    End,
    /// The revision was compacted before the first step.
    Compacted {
        revision: i64,
    },
    /// The view was given up.
    GivenUp,
    Failed(storage::Error),
}

impl HeldView {
    /// False once the revision is sent, or the view is given up.
    pub fn is_held(&self) -> bool {
        let view = self.0.upgrade();
        view.is_some_and(|view| view.lock().is_some())
    }

    /// Lets the view's pages be reused. The stream ends with its next read.
    pub fn give_up(&self) {
        if let Some(view) = self.0.upgrade() {
            *view.lock() = None;
        }
    }
}

impl Long {
    /// `fragment_bytes`: the limit for fragments, if the client takes them.
    pub(in crate::state::watch) fn new(
        of: ReadFor,
        is_gap: bool,
        view: View,
        fragment_bytes: Option<usize>,
        limits: RevisionLimits,
    ) -> Long {
        let fragment_bytes = fragment_bytes.map(|bytes| bytes.saturating_sub(FRAME_BYTES));
        let piece_bytes = limits.piece_bytes;
        Long {
            of,
            is_gap,
            store_revision: view.revision(),
            in_fragments: fragment_bytes.is_some(),
            // The length of a fragment is known when its piece is.
            is_sending: fragment_bytes.is_some(),
            measured: 0,
            view: Arc::new(Mutex::new(Some(view))),
            last: None,
            piece: BytesMut::new(),
            events: 0,
            piece_bytes: fragment_bytes.map_or(piece_bytes, |bytes| bytes.min(piece_bytes)),
            piece_changes: limits.piece_changes,
        }
    }

    pub(in crate::state::watch) fn held_view(&self) -> HeldView {
        HeldView(Arc::downgrade(&self.view))
    }

    /// Starts again at the first event, to send what was measured.
    pub(in crate::state::watch) fn begin_sending(&mut self) {
        self.is_sending = true;
        self.last = None;
    }

    /// The events read, encoded, and their number.
    pub(in crate::state::watch) fn take_piece(&mut self) -> (Bytes, u64) {
        let events = std::mem::take(&mut self.events);
        (self.piece.split().freeze(), events)
    }

    /// Reads the next piece; goes on with the one before if that was not taken.
    pub(super) fn read(&mut self) -> Step {
        let Some(view) = self.view.lock().clone() else {
            return Step::GivenUp;
        };
        if self.of.next < view.compacted() {
            return Step::Compacted {
                revision: view.compacted(),
            };
        }
        self.read_from(&view).unwrap_or_else(Step::Failed)
    }

    fn read_from(&mut self, view: &View) -> Result<Step> {
        let from = self.last.clone();
        let main = self.of.next;
        let mut looked_at = 0;
        let mut step = Step::End;
        let mut look = |change: Change<'_>| -> Result<ControlFlow<()>> {
            if looked_at == self.piece_changes {
                step = Step::Paused;
                return Ok(ControlFlow::Break(()));
            }
            looked_at += 1;
            if !self.take(view, &change)? {
                step = Step::Full;
                return Ok(ControlFlow::Break(()));
            }
            let (last, key) = self.last.get_or_insert_default();
            *last = event::place(&change);
            key.clear();
            key.extend_from_slice(event::key(&change));
            Ok(ControlFlow::Continue(()))
        };
        match &from {
            None => view.changes(main, main, &mut look)?,
            Some((last, key)) => view.changes_behind(*last, key, main, &mut look)?,
        }
        Ok(step)
    }

    /// Adds the change's event to the piece if the watcher gets it; returns false if there is no room.
    fn take(&mut self, view: &View, change: &Change<'_>) -> Result<bool> {
        let ReadFor { span, wants, .. } = &self.of;
        if !span.contains(event::key(change)) || !wants.admits(change) {
            return Ok(true);
        }
        event::measured(view, change, *wants, |event| {
            let len = event.encoded_len();
            if !self.is_sending {
                self.measured += len;
                return true;
            }
            let fits = self.piece.is_empty() || self.piece.len() + len <= self.piece_bytes;
            if fits {
                event.put(&mut self.piece);
                self.events += 1;
            }
            fits
        })
    }
}

#[cfg(test)]
impl Long {
    pub(in crate::state::watch) fn bytes_held(&self) -> usize {
        self.piece.len()
    }
}
