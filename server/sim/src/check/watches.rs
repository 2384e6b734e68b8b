//! etcd's promises to watchers: *ordered* (revisions do not go back), *unique* (no change twice),
//! *reliable* (none is left out), *atomic* (the changes of one revision come together),
//! *resumable* (who comes back with the next revision misses nothing, or is told that it is
//! compacted), *bookmarkable* (a progress response of revision R comes after all changes up to R).
//! All of it is one rule: a watcher that has heard of everything up to R, and is now told of
//! everything up to S, must have been told exactly what the history has in (R, S].

use super::Verdict;
use crate::model::{Event, Model};

/// One watcher through all its streams.
#[derive(Clone, Debug)]
pub struct WatchRecord {
    pub name: String,
    /// Inclusive; the end exclusive.
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    /// Filters.
    pub no_puts: bool,
    pub no_deletes: bool,
    /// All changes up to here were told, or need not be.
    pub seen: i64,
    /// Told since, in order.
    told: Vec<(i64, Event)>,
    /// The response before this one was a fragment of the same revision.
    in_fragments: bool,
    pub events: u64,
}

impl WatchRecord {
    /// Changes after revision `seen` are to be told.
    pub fn new(name: String, start: &[u8], end: &[u8], seen: i64) -> WatchRecord {
        WatchRecord {
            name,
            start: start.to_vec(),
            end: end.to_vec(),
            no_puts: false,
            no_deletes: false,
            seen,
            told: Vec::new(),
            in_fragments: false,
            events: 0,
        }
    }

    fn wants(&self, event: &Event) -> bool {
        let is_filtered = if event.value.is_some() {
            self.no_puts
        } else {
            self.no_deletes
        };
        !is_filtered && event.key >= self.start && event.key < self.end
    }

    /// A response with `events`; `fragment` when the next one belongs to it.
    pub fn hears(&mut self, model: &Model, events: Vec<(i64, Event)>, fragment: bool) -> Verdict {
        self.events += events.len() as u64;
        self.told.extend(events);
        self.in_fragments = fragment;
        let Some(newest) = self.told.last().map(|(revision, _)| *revision) else {
            return Ok(());
        };
        if fragment {
            Ok(())
        } else {
            self.hears_of_all_through(model, newest)
        }
    }

    /// A bookmark, or the end of a response: nothing up to `through` is still to come.
    pub fn hears_of_all_through(&mut self, model: &Model, through: i64) -> Verdict {
        if through < self.seen {
            return Err(format!(
                "{} was told of {}, then that {through} is the newest",
                self.name, self.seen
            ));
        }
        let told = std::mem::take(&mut self.told);
        let history = model.changes(self.seen, through);
        let all = history.flat_map(|(revision, events)| events.iter().map(move |e| (revision, e)));
        let mut wanted = all.filter(|(_, event)| self.wants(event));
        for (revision, event) in &told {
            match wanted.next() {
                Some(next) if next == (*revision, event) => {}
                other => {
                    return Err(format!(
                        "{} has heard of all up to {}, is told {event:?} at {revision}, and the next would be {other:?}",
                        self.name, self.seen
                    ));
                }
            }
        }
        if let Some((revision, event)) = wanted.next() {
            return Err(format!(
                "{} was told that nothing up to {through} is to come, and never {event:?} at {revision}",
                self.name
            ));
        }
        self.seen = self.seen.max(through);
        Ok(())
    }

    /// The stream ends. What was told of in part is told again.
    pub fn is_cut_off(&mut self) {
        self.told.clear();
        self.in_fragments = false;
    }

    /// What it wanted next is compacted: it goes on from there.
    pub fn skips_to(&mut self, revision: i64) {
        self.is_cut_off();
        self.seen = self.seen.max(revision);
    }
}
