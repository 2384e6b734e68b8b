//! Which client's watch is fed by which watch of the cluster: a state machine without I/O.
//!
//! A *broadcast* is a watch of the cluster, at a position in its history. A client's watch joins one
//! of the same range that has not passed its own position, or begins one. It does not join one that
//! still reads history that the client does not want. A broadcast that catches up with another is
//! merged into it. Every client's watch has a position of its own, below which it has seen everything.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::etcdserverpb::{ResponseHeader, WatchCreateRequest};
use etcd_api::raw;

use super::events::Events;
use crate::proxy::forward::Along;

/// No watch has this id: etcd's, for those that could not begin.
pub(super) const NO_WATCH_ID: i64 = -1;

/// etcd's text.
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// Larger broadcasts are not merged into others, as in etcd.
const MERGED_MAX: usize = 5;

/// Key and end.
type Range = (Bytes, Bytes);

/// A client's watch: its stream and its id there.
type WatchOf = (u64, i64);

/// What a change of the hub leads to.
#[derive(Debug)]
pub(super) enum Action {
    /// An answer on a client's stream.
    Answer(u64, raw::WatchResponse),
    /// Begin a watch of the cluster for this user.
    Begin {
        broadcast: i64,
        user: Along,
        range: Range,
        revision: i64,
    },
    /// A watch of the cluster that was begun for this user is not used any more.
    End { broadcast: i64, user: Along },
}

/// A response of the cluster to one of its watches.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) header: Option<ResponseHeader>,
    pub(super) events: Events,
    pub(super) end: Option<End>,
}

/// Why a watch of the cluster has ended.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// 0 unless history before it is gone.
    pub(super) compact_revision: i64,
    pub(super) reason: String,
}

#[derive(Debug, Default)]
pub(super) struct Hub {
    broadcasts: HashMap<i64, Broadcast>,
    last_broadcast: i64,
    by_range: HashMap<Range, BTreeSet<i64>>,
    watches: BTreeMap<WatchOf, Watch>,
    /// The newest revision of the cluster that was heard of.
    newest: i64,
    /// The id that a stream's next watch may get.
    next_ids: HashMap<u64, i64>,
    pub(super) actions: Vec<Action>,
    /// Events that were sent to a watch without being asked for again.
    pub(super) saved_events: u64,
}

#[derive(Debug)]
struct Broadcast {
    user: Along,
    range: Range,
    /// Everything below has been heard.
    next: i64,
    /// The cluster's revision when it was begun. It reads history until it has passed that.
    began_at: i64,
    watches: BTreeSet<WatchOf>,
}

#[derive(Debug)]
struct Watch {
    broadcast: i64,
    /// Everything below has been seen or was not asked for.
    next: i64,
    wants_progress: bool,
    wants_previous: bool,
    without_puts: bool,
    without_deletes: bool,
    header: Option<ResponseHeader>,
}

impl Hub {
    /// Watches that share their broadcast with an earlier one.
    pub(super) fn coalesced(&self) -> usize {
        self.watches.len() - self.broadcasts.len()
    }

    /// Begins a client's watch. `now` is the cluster's state at which it was found to be allowed.
    pub(super) fn create(
        &mut self,
        stream: u64,
        user: &Along,
        wish: WatchCreateRequest,
        now: Option<ResponseHeader>,
    ) {
        let next_id = self.next_ids.entry(stream).or_default();
        let mut id = wish.watch_id;
        if id == 0 {
            while self.watches.contains_key(&(stream, *next_id)) {
                *next_id += 1;
            }
            id = *next_id;
            *next_id += 1;
        } else if self.watches.contains_key(&(stream, id)) {
            self.refuse(stream, now, DUPLICATE_ID.to_owned());
            return;
        }
        let revision = now.map_or(0, |header| header.revision);
        self.newest = self.newest.max(revision);
        let has = |filter: FilterType| wish.filters.contains(&(filter as i32));
        let watch = Watch {
            broadcast: 0,
            next: match wish.start_revision {
                0 => revision + 1,
                start => start,
            },
            wants_progress: wish.progress_notify,
            wants_previous: wish.prev_kv,
            without_puts: has(FilterType::Noput),
            without_deletes: has(FilterType::Nodelete),
            header: now,
        };
        let created = raw::WatchResponse {
            header: now,
            watch_id: id,
            created: true,
            ..raw::WatchResponse::default()
        };
        self.actions.push(Action::Answer(stream, created));
        let range = (wish.key, wish.range_end);
        self.join((stream, id), watch, user, range, revision);
    }

    /// Answers that a watch cannot begin.
    pub(super) fn refuse(&mut self, stream: u64, now: Option<ResponseHeader>, reason: String) {
        let refused = raw::WatchResponse {
            header: Some(now.unwrap_or_default()),
            watch_id: NO_WATCH_ID,
            created: true,
            canceled: true,
            cancel_reason: reason,
            ..raw::WatchResponse::default()
        };
        self.actions.push(Action::Answer(stream, refused));
    }

    /// `now` is a revision of the cluster, not older than what the client has seen of it.
    fn join(&mut self, of: WatchOf, mut watch: Watch, user: &Along, range: Range, now: i64) {
        let alike = self.by_range.entry(range.clone()).or_default();
        let fits = |id: &&i64| {
            let Broadcast { next, began_at, .. } = self.broadcasts[id];
            next == watch.next || (next <= watch.next && next > began_at)
        };
        let found = alike.iter().find(fits).copied();
        let id = found.unwrap_or_else(|| {
            self.last_broadcast += 1;
            let id = self.last_broadcast;
            alike.insert(id);
            let broadcast = Broadcast {
                user: user.clone(),
                range: range.clone(),
                next: watch.next,
                began_at: now,
                watches: BTreeSet::new(),
            };
            self.broadcasts.insert(id, broadcast);
            self.actions.push(Action::Begin {
                broadcast: id,
                user: user.clone(),
                range,
                revision: watch.next,
            });
            id
        });
        if let Some(broadcast) = self.broadcasts.get_mut(&id) {
            broadcast.watches.insert(of);
        }
        watch.broadcast = id;
        self.watches.insert(of, watch);
    }

    /// Ends a client's watch at its wish.
    pub(super) fn cancel(&mut self, stream: u64, id: i64) {
        let Some(watch) = self.leave((stream, id)) else {
            return;
        };
        let canceled = raw::WatchResponse {
            header: watch.header,
            watch_id: id,
            canceled: true,
            ..raw::WatchResponse::default()
        };
        self.actions.push(Action::Answer(stream, canceled));
    }

    /// Ends all watches of a stream that is gone.
    pub(super) fn gone(&mut self, stream: u64) {
        let all = self.watches.range((stream, i64::MIN)..=(stream, i64::MAX));
        let all: Vec<WatchOf> = all.map(|(of, _)| *of).collect();
        for of in all {
            self.leave(of);
        }
        self.next_ids.remove(&stream);
    }

    fn leave(&mut self, of: WatchOf) -> Option<Watch> {
        let watch = self.watches.remove(&of)?;
        if let Some(broadcast) = self.broadcasts.get_mut(&watch.broadcast) {
            broadcast.watches.remove(&of);
            if broadcast.watches.is_empty() {
                self.end(watch.broadcast);
            }
        }
        Some(watch)
    }

    fn end(&mut self, id: i64) {
        if let Some(broadcast) = self.forget(id) {
            self.actions.push(Action::End {
                broadcast: id,
                user: broadcast.user,
            });
        }
    }

    fn forget(&mut self, id: i64) -> Option<Broadcast> {
        let broadcast = self.broadcasts.remove(&id)?;
        if let Some(alike) = self.by_range.get_mut(&broadcast.range) {
            alike.remove(&id);
            if alike.is_empty() {
                self.by_range.remove(&broadcast.range);
            }
        }
        Some(broadcast)
    }

    /// Passes a response of the cluster on to the clients' watches that it is for.
    pub(super) fn hear(&mut self, id: i64, heard: &Heard) {
        if let Some(end) = &heard.end {
            self.ended(id, heard.header, end);
            return;
        }
        let revision = heard.header.map_or(0, |header| header.revision);
        self.newest = self.newest.max(revision);
        let Some(broadcast) = self.broadcasts.get_mut(&id) else {
            return;
        };
        broadcast.next = broadcast
            .next
            .max(heard.events.next().unwrap_or(revision + 1));
        let watches: Vec<WatchOf> = broadcast.watches.iter().copied().collect();
        self.saved_events += watches.len().saturating_sub(1) as u64;
        for of in watches {
            let Some(watch) = self.watches.get_mut(&of) else {
                continue;
            };
            if let Some(response) = watch.response(of.1, heard) {
                self.actions.push(Action::Answer(of.0, response));
            }
        }
        self.merge(id);
    }

    /// Moves the watches of a broadcast to another one, if one has caught up with the other: that
    /// they have heard the same last event shows it.
    fn merge(&mut self, id: i64) {
        let Some(broadcast) = self.broadcasts.get(&id) else {
            return;
        };
        if broadcast.watches.len() >= MERGED_MAX {
            return;
        }
        let alike = self.by_range.get(&broadcast.range);
        let mut others = alike.into_iter().flatten().filter(|other| **other != id);
        let Some(into) = others.find(|other| self.broadcasts[other].next == broadcast.next) else {
            return;
        };
        let into = *into;
        let moved = broadcast.watches.clone();
        for of in &moved {
            if let Some(watch) = self.watches.get_mut(of) {
                watch.broadcast = into;
            }
        }
        if let Some(into) = self.broadcasts.get_mut(&into) {
            into.watches.extend(moved);
        }
        self.end(id);
    }

    /// The cluster has ended a watch. What was gone of its history need not be gone of that of every
    /// client's watch.
    fn ended(&mut self, id: i64, header: Option<ResponseHeader>, end: &End) {
        let Some(broadcast) = self.forget(id) else {
            return;
        };
        for of in broadcast.watches {
            let Some(watch) = self.watches.remove(&of) else {
                continue;
            };
            if end.compact_revision > 0 && watch.next >= end.compact_revision {
                // A member that ends a watch for a compaction need not say which revision it has.
                let now = header.map_or(0, |header| header.revision).max(self.newest);
                self.join(of, watch, &broadcast.user, broadcast.range.clone(), now);
                continue;
            }
            let canceled = raw::WatchResponse {
                header: header.or(watch.header),
                watch_id: of.1,
                canceled: true,
                compact_revision: end.compact_revision,
                cancel_reason: end.reason.clone(),
                ..raw::WatchResponse::default()
            };
            self.actions.push(Action::Answer(of.0, canceled));
        }
        self.actions.push(Action::End {
            broadcast: id,
            user: broadcast.user,
        });
    }
}

impl Watch {
    /// What the client gets of a response; `None` if nothing is for it.
    fn response(&mut self, id: i64, heard: &Heard) -> Option<raw::WatchResponse> {
        let is_progress = heard.events.is_empty();
        let wanted = |event: &super::events::Shared| {
            let is_filtered = if event.is_delete {
                self.without_deletes
            } else {
                self.without_puts
            };
            event.revision >= self.next && !is_filtered
        };
        let events = heard.events.encoded(wanted, self.wants_previous);
        if let Some(next) = heard.events.next() {
            self.next = self.next.max(next);
        }
        let nothing = if is_progress {
            // It may have joined a watch of the cluster that is not where it begins yet.
            let heard = heard.header.map_or(0, |header| header.revision);
            !self.wants_progress || heard.saturating_add(1) < self.next
        } else {
            events.is_empty()
        };
        if nothing {
            return None;
        }
        self.header = heard.header;
        Some(raw::WatchResponse {
            header: heard.header,
            watch_id: id,
            events,
            ..raw::WatchResponse::default()
        })
    }
}

#[cfg(test)]
mod tests;
