//! Faults on purpose: which requests meet what a real cluster does to its clients now and then.
//!
//! Whether a request meets a fault is a pure function of the seed, of what the request is
//! ([`Request`]), and of how many like it came before. Neither the clock nor the order of unlike
//! requests counts, so that a test that asks the same meets the same faults. Restarts are the
//! exception: they are counted over all requests.
//!
//! Each kind is drawn separately: a kind more in the list changes no draw of the others. A request is refused at most [`IN_A_ROW_MAX`] times in a row, so a
//! client that tries again always succeeds in the end.
//!
//! This module decides and counts; `http::faulted` is what carries the faults out.

mod draw;
mod kind;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use kind::Kind;

/// The user whose requests meet no faults, for what a test itself sets up and checks.
pub const OBSERVER: &str = "stele:observer";
/// Upper bound of the faults of one group that like requests meet in a row.
const IN_A_ROW_MAX: u8 = 2;
/// Upper bound of the unlike requests that are counted. Those beyond meet no faults.
const UNLIKE_MAX: usize = 1 << 20;
/// Lower bound of the number of requests between two restarts.
const RESTART_GAP_MIN: u64 = 8;
/// Bounds of the time for which a watch holds events back, in milliseconds.
const HOLD_MILLIS_MIN: u64 = 100;
const HOLD_MILLIS_MAX: u64 = 1000;
/// Upper bound of the events that pass after a hold before there may be another one.
const BURST_MAX: u64 = 32;
/// Upper bound of the events that a watch delivers before it is ended.
const EVENTS_BEFORE_END_MAX: u64 = 8;
/// Upper bound of the revisions that a stale list is behind.
const LAG_MAX: u64 = 20;

/// The faults of a server, and what it has met so far.
pub struct Faults {
    seed: u64,
    /// By [`Kind`]; 0 for a kind that was not asked for.
    rates: [f64; Kind::ALL.len()],
    state: Mutex<State>,
    injected: [AtomicU64; Kind::ALL.len()],
    restart: Notify,
}

struct State {
    /// By the hash of what the requests are.
    met: HashMap<u64, Met>,
    /// Requests of any kind.
    requests: u64,
    restarts: u64,
    /// The number of the request with which the server goes away.
    next_restart: u64,
}

/// What like requests have met.
#[derive(Default, Clone, Copy)]
struct Met {
    count: u32,
    /// Faults in a row, by group.
    in_a_row: [u8; kind::GROUPS],
}

/// What a request is.
pub(crate) struct Request<'a> {
    pub(crate) user: &'a str,
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    /// Of the object, or of a new one in the body; empty for a collection.
    pub(crate) name: &'a str,
    pub(crate) label_selector: &'a str,
    pub(crate) field_selector: &'a str,
}

/// One request and the faults that it meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meeting {
    /// For people.
    request: String,
    key: u64,
    /// The number of like requests before it.
    nth: u64,
    /// By [`Kind`].
    hits: [bool; Kind::ALL.len()],
}

impl Faults {
    /// Faults of these kinds: `throttling,conflicts=0.5`. A number is the rate, above 0 and at most
    /// 1; `all` stands for every kind. The error lists the kinds that there are.
    pub fn parse(seed: u64, list: &str) -> Result<Faults, String> {
        let mut faults = Faults {
            seed,
            rates: kind::parse(list)?,
            state: Mutex::new(State {
                met: HashMap::new(),
                requests: 0,
                restarts: 0,
                next_restart: 0,
            }),
            injected: Default::default(),
            restart: Notify::new(),
        };
        faults.state.get_mut().next_restart = faults.next_restart(0, 0);
        Ok(faults)
    }

    /// True if faults of this kind were asked for.
    pub fn has(&self, kind: Kind) -> bool {
        self.rates[kind as usize] > 0.0
    }

    /// Waits until the server has to go away and come back.
    pub async fn restart_due(&self) {
        self.restart.notified().await;
    }

    /// The server has to go away.
    pub(crate) fn restart(&self) {
        self.restart.notify_one();
    }

    /// The flags that make the same faults again.
    pub fn flags(&self) -> String {
        let mut list = String::new();
        for kind in Kind::ALL.into_iter().filter(|kind| self.has(*kind)) {
            let comma = if list.is_empty() { "" } else { "," };
            // Writing into a String cannot fail.
            let _ = write!(list, "{comma}{}={}", kind.name(), self.rates[kind as usize]);
        }
        format!("--seed={} --faults={list}", self.seed)
    }

    /// How many faults there were, in the format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let name = "stele_faults_injected_total";
        let mut text = format!("# TYPE {name} counter\n");
        for kind in Kind::ALL {
            let count = self.injected[kind as usize].load(Ordering::Relaxed);
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{name}{{kind={:?}}} {count}", kind.name());
        }
        text
    }

    /// Counts and logs a fault that a request met.
    pub(crate) fn note(&self, kind: Kind, meeting: &Meeting, what: &str) {
        self.injected[kind as usize].fetch_add(1, Ordering::Relaxed);
        let Meeting { request, nth, .. } = meeting;
        tracing::info!("fault {}: {what}: {request}, time {nth}", kind.name());
    }

    /// What a request meets. Each call counts as a request.
    pub(crate) fn meet(&self, request: &Request<'_>) -> Meeting {
        let key = request.hash();
        let mut state = self.state.lock();
        let mut meeting = Meeting {
            request: request.to_string(),
            key,
            nth: 0,
            hits: Default::default(),
        };
        meeting.hits[Kind::Restarts as usize] = self.takes_down(&mut state);
        if state.met.len() >= UNLIKE_MAX && !state.met.contains_key(&key) {
            return meeting;
        }
        let met = state.met.entry(key).or_default();
        meeting.nth = u64::from(met.count);
        met.count = met.count.saturating_add(1);
        let mut hit_groups = [false; kind::GROUPS];
        for kind in Kind::ALL {
            let Some(group) = kind.group() else { continue };
            let drawn = self.draws(kind, key, meeting.nth);
            // A group has one fault at a time: the first of its kinds that is drawn.
            let free = met.in_a_row[group] < IN_A_ROW_MAX && !hit_groups[group];
            if drawn && kind.concerns(request.verb) && free {
                meeting.hits[kind as usize] = true;
                hit_groups[group] = true;
            }
        }
        for (group, hit) in hit_groups.into_iter().enumerate() {
            met.in_a_row[group] = if hit { met.in_a_row[group] + 1 } else { 0 };
        }
        meeting
    }

    /// True for the request with which the server goes away.
    fn takes_down(&self, state: &mut State) -> bool {
        state.requests += 1;
        if !self.has(Kind::Restarts) || state.requests < state.next_restart {
            return false;
        }
        state.restarts += 1;
        state.next_restart = self.next_restart(state.requests, state.restarts);
        true
    }

    fn next_restart(&self, requests: u64, restarts: u64) -> u64 {
        if !self.has(Kind::Restarts) {
            return u64::MAX;
        }
        let mean = 1.0 / self.rates[Kind::Restarts as usize];
        let within = (2.0 * mean) as u64;
        let gap = draw::number(self.seed, Kind::Restarts.name(), restarts, 0) % within.max(1);
        requests.saturating_add(gap.max(RESTART_GAP_MIN))
    }

    fn draws(&self, kind: Kind, key: u64, nth: u64) -> bool {
        draw::hits(self.rates[kind as usize], self.seed, kind.name(), key, nth)
    }

    /// A number below `bound` that belongs to a fault of a request.
    pub(crate) fn below(&self, kind: Kind, meeting: &Meeting, bound: u64) -> u64 {
        // Separate from the number that decided whether there is a fault.
        let key = draw::mix(meeting.key);
        draw::number(self.seed, kind.name(), key, meeting.nth) % bound.max(1)
    }

    /// How many revisions a stale list is behind.
    pub(crate) fn lag(&self, meeting: &Meeting) -> i64 {
        let lag = 1 + self.below(Kind::StaleReads, meeting, LAG_MAX);
        i64::try_from(lag).unwrap_or(1)
    }

    /// The event of a watch, counted from 0, in whose place it ends.
    pub(crate) fn end(&self, kind: Kind, meeting: &Meeting) -> u64 {
        // Digits apart from those that choose how it ends.
        1 + self.below(kind, meeting, u64::MAX) / EVENTS_BEFORE_END_MAX % EVENTS_BEFORE_END_MAX
    }

    /// How long a watch holds its nth event back, and how many events after it pass in a burst.
    pub(crate) fn hold(&self, meeting: &Meeting, event: u64) -> Option<(Duration, u64)> {
        let kind = Kind::WatchDelay;
        let key = meeting.key ^ draw::mix(meeting.nth);
        if !self.draws(kind, key, event) {
            return None;
        }
        let number = draw::number(self.seed, kind.name(), draw::mix(key), event);
        let millis = HOLD_MILLIS_MIN + number % (HOLD_MILLIS_MAX - HOLD_MILLIS_MIN);
        Some((Duration::from_millis(millis), (number >> 32) % BURST_MAX))
    }
}

impl Meeting {
    /// True if the request meets a fault of this kind.
    pub(crate) fn hits(&self, kind: Kind) -> bool {
        self.hits[kind as usize]
    }
}

impl Request<'_> {
    fn hash(&self) -> u64 {
        draw::hash(&[
            self.user,
            self.verb,
            self.group,
            self.resource,
            self.subresource,
            self.namespace,
            self.name,
            self.label_selector,
            self.field_selector,
        ])
    }
}

impl std::fmt::Display for Request<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.verb, self.resource)?;
        for (mark, text) in [(".", self.group), ("/", self.subresource)] {
            if !text.is_empty() {
                write!(out, "{mark}{text}")?;
            }
        }
        if !self.namespace.is_empty() {
            write!(out, " in {}", self.namespace)?;
        }
        if !self.name.is_empty() {
            write!(out, " named {}", self.name)?;
        }
        write!(out, " by {}", self.user)
    }
}
