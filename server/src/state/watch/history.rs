//! Reads a part of the history for watchers of one stream. A value that can run on any thread.

use std::ops::ControlFlow;

use storage::Result;
use storage::mvcc::Reader;

use super::event::{self, Event, Wants};
use super::index::{Index, Span};
use super::{HISTORY_BYTES, HISTORY_INLINE_REVISIONS, HISTORY_REVISIONS};

/// A watcher to read for. `serial` distinguishes it from a later watcher in the same slot.
#[derive(Clone, Debug)]
pub(super) struct ReadFor {
    pub(super) slot: u32,
    pub(super) serial: u64,
    pub(super) span: Span,
    pub(super) next: i64,
    pub(super) wants: Wants,
}

/// One read of history; see the module.
#[derive(Debug)]
pub struct HistoryRead {
    pub(super) reader: Reader,
    pub(super) watchers: Vec<ReadFor>,
    pub(super) from: i64,
    /// The last revision to read; `None`: the newest one.
    pub(super) through: Option<i64>,
}

/// The result of a read.
#[derive(Debug)]
pub struct HistoryDone {
    pub(super) watchers: Vec<ReadFor>,
    /// The read had a fixed end (`through`).
    pub(super) is_gap: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Read {
        events: Vec<Event>,
        /// (index in `watchers`, index in `events`), in revision order.
        hits: Vec<(u32, u32)>,
        /// The last revision that was read.
        through: i64,
        store_revision: i64,
    },
    /// The first revision to read has been compacted.
    Compacted { revision: i64 },
    /// The store could not be read.
    Failed(storage::Error),
}

impl HistoryRead {
    /// True if the read is short and recent enough to run in place.
    pub fn is_short(&self) -> bool {
        let end = self.through.unwrap_or(i64::MAX);
        end.min(self.reader.view().revision()) - self.from < HISTORY_INLINE_REVISIONS
    }

    pub fn run(self) -> HistoryDone {
        let outcome = match self.read() {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error),
        };
        HistoryDone {
            is_gap: self.through.is_some(),
            watchers: self.watchers,
            outcome,
        }
    }

    fn read(&self) -> Result<Outcome> {
        let view = self.reader.view();
        if self.from < view.compacted() {
            return Ok(Outcome::Compacted {
                revision: view.compacted(),
            });
        }
        let end = self.through.unwrap_or(i64::MAX).min(view.revision());
        let end = end.min(self.from.saturating_add(HISTORY_REVISIONS - 1));

        let mut index = Index::default();
        for (place, watcher) in self.watchers.iter().enumerate() {
            index.insert(place as u32, &watcher.span);
        }
        let mut events: Vec<Event> = Vec::new();
        let mut hits = Vec::new();
        let mut bytes = 0;
        let mut through = end;
        if self.from > end {
            // The watchers are already at the newest revision.
            return Ok(Outcome::Read {
                events: Vec::new(),
                hits: Vec::new(),
                through: end,
                store_revision: view.revision(),
            });
        }
        view.changes(self.from, end, &mut |change| {
            let revision = event::revision(&change);
            let is_new = events.last().is_some_and(|last| last.revision < revision);
            if is_new && bytes >= HISTORY_BYTES {
                through = revision - 1;
                return Ok(ControlFlow::Break(()));
            }
            let mut forms: [Option<u32>; 2] = [None, None];
            let mut outcome = Ok(());
            index.find(event::key(&change), |place| {
                let watcher = &self.watchers[place as usize];
                if revision < watcher.next || !watcher.wants.admits(&change) || outcome.is_err() {
                    return;
                }
                let form = usize::from(watcher.wants.prev_kv && event::has_previous(&change));
                if forms[form].is_none() {
                    let encoded = match form {
                        0 => Ok(event::encode(&change, None)),
                        _ => event::encode_with_previous(&view, &change),
                    };
                    match encoded {
                        Ok(event) => {
                            bytes += event.bytes.len();
                            events.push(event);
                            forms[form] = Some((events.len() - 1) as u32);
                        }
                        Err(error) => outcome = Err(error),
                    }
                }
                if let Some(event) = forms[form] {
                    hits.push((place, event));
                }
            });
            outcome.map(|()| ControlFlow::Continue(()))
        })?;
        Ok(Outcome::Read {
            events,
            hits,
            through,
            store_revision: view.revision(),
        })
    }
}
