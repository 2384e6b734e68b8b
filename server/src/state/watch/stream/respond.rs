//! Converts a batch of events to responses: decides their size and where to split them.

use super::{Batch, Ended, WatchStream};
use crate::state::watch::RESPONSE_BYTES;
use crate::state::watch::response::{Fields, Out, TooLarge};

impl WatchStream {
    /// Sends one watcher's events, as many as fit into one response. Returns true if none are left.
    pub(super) fn respond(&mut self, slot: u32, out: &mut Out) -> bool {
        let WatchStream {
            slots,
            batch,
            options,
            ..
        } = self;
        // The watcher may have been canceled since, so its slot is empty or has no events.
        let Some(watcher) = &mut slots[slot as usize] else {
            return true;
        };
        if watcher.pending.is_empty() {
            return true;
        }
        let rest = &watcher.pending[watcher.sent..];
        let mut taken = 0;
        let mut bytes = 0;
        for place in rest {
            let event = &batch.events[*place as usize];
            // A response never ends within a revision.
            let may_end =
                taken > 0 && batch.events[rest[taken - 1] as usize].revision != event.revision;
            if may_end && bytes + event.bytes.len() > RESPONSE_BYTES {
                break;
            }
            taken += 1;
            bytes += event.bytes.len();
        }
        let events = &rest[..taken];
        let revision = batch.store_revision;
        let sent = if watcher.fragment {
            respond_in_fragments(
                watcher.id,
                revision,
                events,
                batch,
                options.fragment_bytes,
                out,
            )
        } else {
            let fields = Fields {
                watch_id: watcher.id,
                ..Fields::default()
            };
            let events = events.iter().map(|place| &batch.events[*place as usize]);
            out.events(revision, &fields, events)
        };
        if let Err(TooLarge { bytes }) = sent {
            self.ended = Some(Ended::TooLarge(bytes));
            return true;
        }
        watcher.idle = false;
        watcher.sent += taken;
        if watcher.sent < watcher.pending.len() {
            return false;
        }
        watcher.pending.clear();
        watcher.sent = 0;
        true
    }
}

/// Each fragment is as large as the limit allows, with at least one event. All but the last are
/// marked as fragments.
fn respond_in_fragments(
    watch_id: i64,
    revision: i64,
    events: &[u32],
    batch: &Batch,
    limit: usize,
    out: &mut Out,
) -> Result<(), TooLarge> {
    let whole = Fields {
        watch_id,
        ..Fields::default()
    };
    let part = Fields {
        watch_id,
        fragment: true,
        ..Fields::default()
    };
    let event = |place: &u32| &batch.events[*place as usize];
    let bytes: usize = events.iter().map(|place| event(place).bytes.len()).sum();
    if out.frame_len(revision, &whole) + bytes < limit || events.len() < 2 {
        return out.events(revision, &whole, events.iter().map(event));
    }
    let frame = out.frame_len(revision, &part);
    let mut rest = events;
    while !rest.is_empty() {
        let mut bytes = frame;
        let mut taken = 0;
        for place in rest {
            bytes += event(place).bytes.len();
            if taken > 0 && bytes >= limit {
                break;
            }
            taken += 1;
        }
        let (now, later) = rest.split_at(taken);
        let fields = if later.is_empty() { &whole } else { &part };
        out.events(revision, fields, now.iter().map(event))?;
        rest = later;
    }
    Ok(())
}
