//! Reads for several watchers at once: each change is read once, and encoded at most once in each form.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use storage::Result;
use storage::mvcc::{Change, View};

use super::{Aside, Group, Outcome};
use crate::state::watch::event::{self, Event};
use crate::state::watch::index::Index;
use crate::state::watch::{HISTORY_BYTES, HISTORY_REVISIONS, HIT_BYTES, MAILBOX_HITS};

/// What a read has found so far.
struct Found<'a> {
    group: &'a Group,
    view: &'a View,
    /// Without the watchers put aside.
    index: Index,
    events: Vec<Event>,
    hits: Vec<(u32, u32)>,
    /// Of `events`.
    bytes: usize,
    /// The revision being read, and what was found before it.
    revision: i64,
    events_before: usize,
    hits_before: usize,
    /// Memory that is taken by what was found of this revision.
    cost: usize,
    aside: BTreeMap<u32, Aside>,
}

impl Group {
    /// `None`: there are more than `most` changes to look at.
    pub(super) fn read(&self, most: usize) -> Result<Option<Outcome>> {
        let view = self.reader.view();
        if self.from < view.compacted() {
            return Ok(Some(Outcome::Compacted {
                revision: view.compacted(),
            }));
        }
        let end = self.through.unwrap_or(i64::MAX).min(view.revision());
        let end = end.min(self.from.saturating_add(HISTORY_REVISIONS - 1));
        let mut found = Found::new(self, &view);
        let mut through = end;
        if self.from > end {
            // The watchers are already at the newest revision.
            return Ok(Some(found.outcome(through)));
        }
        let mut looked_at = 0;
        view.changes(self.from, end, &mut |change| {
            looked_at += 1;
            if looked_at > most {
                return Ok(ControlFlow::Break(()));
            }
            let revision = event::revision(&change);
            if revision != found.revision {
                if found.is_full() {
                    through = revision - 1;
                    return Ok(ControlFlow::Break(()));
                }
                found.begin(revision);
            }
            found.take(&change)?;
            Ok(if found.has_watchers() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        Ok((looked_at <= most).then(|| found.outcome(through)))
    }
}

impl<'a> Found<'a> {
    fn new(group: &'a Group, view: &'a View) -> Found<'a> {
        let mut index = Index::default();
        for (place, watcher) in group.watchers.iter().enumerate() {
            index.insert(place as u32, &watcher.span);
        }
        Found {
            group,
            view,
            index,
            events: Vec::new(),
            hits: Vec::new(),
            bytes: 0,
            revision: 0,
            events_before: 0,
            hits_before: 0,
            cost: 0,
            aside: BTreeMap::new(),
        }
    }

    /// True if the read is to end with the revision that it has come to.
    fn is_full(&self) -> bool {
        self.bytes >= HISTORY_BYTES || self.hits.len() >= MAILBOX_HITS || !self.aside.is_empty()
    }

    fn has_watchers(&self) -> bool {
        self.aside.len() < self.group.watchers.len()
    }

    fn begin(&mut self, revision: i64) {
        self.revision = revision;
        self.events_before = self.events.len();
        self.hits_before = self.hits.len();
        self.cost = 0;
    }

    fn take(&mut self, change: &Change<'_>) -> Result<()> {
        let (group, view, revision) = (self.group, self.view, self.revision);
        let Found {
            index,
            events,
            hits,
            bytes,
            cost,
            ..
        } = self;
        let mut forms: [Option<u32>; 2] = [None, None];
        let mut outcome = Ok(());
        index.find(event::key(change), |place| {
            let watcher = &group.watchers[place as usize];
            if revision < watcher.next || !watcher.wants.admits(change) || outcome.is_err() {
                return;
            }
            let form = usize::from(watcher.wants.takes_previous(change));
            if forms[form].is_none() {
                match event::encode_for(view, change, watcher.wants) {
                    Ok(event) => {
                        *bytes += event.bytes.len();
                        *cost += event.cost();
                        events.push(event);
                        forms[form] = Some((events.len() - 1) as u32);
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            if let Some(event) = forms[form] {
                *cost += HIT_BYTES;
                hits.push((place, event));
            }
        });
        outcome?;
        if self.cost > self.group.limits.held_bytes {
            self.put_aside();
        }
        Ok(())
    }

    /// Puts the watchers aside that have most events of this revision, so that the others' take no
    /// more than half of the limit.
    ///
    /// Each read gets at least one watcher further, or finds one that has to be alone: if none is
    /// left, then the one with the fewest events has more than half of the limit.
    fn put_aside(&mut self) {
        let mut costs: BTreeMap<u32, usize> = BTreeMap::new();
        for (place, event) in &self.hits[self.hits_before..] {
            let cost = HIT_BYTES + self.events[*event as usize].cost();
            *costs.entry(*place).or_default() += cost;
        }
        let costs = costs.into_iter().map(|(place, cost)| (cost, place));
        let mut costs: Vec<(usize, u32)> = costs.collect();
        costs.sort_unstable();
        let most = self.group.limits.held_bytes / 2;
        let mut kept = 0;
        for (cost, place) in costs {
            kept += cost;
            if kept > most {
                let aside = if cost > most {
                    Aside::Alone
                } else {
                    Aside::Again
                };
                self.aside.insert(place, aside);
                self.index.remove(place);
            }
        }
        self.drop_events_put_aside();
    }

    /// Leaves of this revision only the events that a watcher gets that is not put aside.
    fn drop_events_put_aside(&mut self) {
        let events = self.events.split_off(self.events_before);
        let hits = self.hits.split_off(self.hits_before);
        let mut places: Vec<Option<u32>> = vec![None; events.len()];
        self.cost = 0;
        for (place, event) in hits {
            if self.aside.contains_key(&place) {
                continue;
            }
            let before = event as usize - self.events_before;
            let event = *places[before].get_or_insert_with(|| {
                let event = events[before].clone();
                self.cost += event.cost();
                self.events.push(event);
                (self.events.len() - 1) as u32
            });
            self.cost += HIT_BYTES;
            self.hits.push((place, event));
        }
        self.bytes = self.events.iter().map(|event| event.bytes.len()).sum();
    }

    fn outcome(self, through: i64) -> Outcome {
        let through = if self.aside.is_empty() {
            through
        } else {
            self.revision
        };
        Outcome::Read {
            events: self.events,
            hits: self.hits,
            through,
            aside: self.aside,
            store_revision: self.view.revision(),
        }
    }
}
