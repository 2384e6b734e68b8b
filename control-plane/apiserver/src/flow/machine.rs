//! The scheduler of seats: which requests run, wait or are refused. It is a plain state machine;
//! time is an argument, and waking a request is its caller's work.
//!
//! A request takes as many seats as it is wide, while it runs. Levels share the seats of the server:
//!
//! - A level has its nominal share. Of that it lends a part to others, and keeps the rest, its
//!   floor, for itself alone.
//! - What no level keeps is the pool. A level that needs more than its floor takes from the pool,
//!   up to its ceiling: the nominal share and what it may borrow.
//! - When seats get free, the level that uses the smallest part of its nominal share comes first. If
//!   the pool has too little for that level, the others leave the pool alone until it has enough, so a
//!   wide request does not starve.
//!
//! Kubernetes moves lent seats between levels every ten seconds, by the demand in that time. Here a
//! free seat is lent at once, and returned when the request in it ends. Floors and ceilings are the
//! same.
//!
//! Within a level, fair queuing decides, see [`level`].

mod hand;
mod level;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use level::Level;
pub(crate) use level::{Counts, Outcome, Refusal};

/// Time since the machine was made.
pub(crate) type Now = Duration;

/// The limits of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelSpec {
    pub(crate) name: Arc<str>,
    /// True for the level whose requests run at once, however many there are.
    pub(crate) exempt: bool,
    /// Its share of the server's seats, relative to that of the others.
    pub(crate) shares: u32,
    /// The percentage of its nominal seats that others may use.
    pub(crate) lendable: u32,
    /// The percentage of its nominal seats that it may use of others; `None` for no limit.
    pub(crate) borrowing: Option<u32>,
    /// `None` if requests that find no seat are refused.
    pub(crate) queuing: Option<Queuing>,
}

/// The queues of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Queuing {
    pub(crate) queues: u32,
    /// Queues in the hand of a flow.
    pub(crate) hand: u32,
    /// Upper bound of the requests that wait in one queue.
    pub(crate) length: u32,
}

/// A request that asks for seats.
pub(crate) struct Asking<'a> {
    pub(crate) level: &'a Arc<str>,
    pub(crate) schema: &'a Arc<str>,
    /// The hash of the flow that the request belongs to.
    pub(crate) flow: u64,
    pub(crate) seats: u32,
    /// False for a request that has run before, and gave its seats back to wait for its client.
    pub(crate) counts: bool,
}

/// A request that runs or waits, until [`Machine::leave`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    level: Arc<str>,
    id: u64,
}

/// What becomes of a request that asks.
#[derive(Debug)]
pub(crate) enum Decision {
    Runs(Ticket),
    Waits(Ticket),
    Refused(Refusal),
}

/// All levels. `W` wakes a waiting request.
pub(crate) struct Machine<W> {
    /// The seats of the server, as configured.
    configured: u32,
    /// The sum of the nominal seats: rounding up makes it slightly more than is configured.
    total: u32,
    levels: BTreeMap<Arc<str>, Level<W>>,
    next: u64,
    /// Requests that wait, in all levels.
    waiting: usize,
    /// True while a level waits for the pool, which then is left alone by the others.
    pool_wanted: bool,
    woken: Vec<W>,
}

impl<W> Machine<W> {
    /// A machine without levels.
    pub(crate) fn new(seats: u32) -> Machine<W> {
        Machine {
            configured: seats,
            total: 0,
            levels: BTreeMap::new(),
            next: 0,
            waiting: 0,
            pool_wanted: false,
            woken: Vec::new(),
        }
    }

    /// Replaces the limits. A level that is missing now takes no further requests, and is forgotten
    /// when its last one has left.
    pub(crate) fn configure(&mut self, specs: &[LevelSpec], now: Now) {
        for level in self.levels.values_mut() {
            level.retired = true;
        }
        for spec in specs {
            match self.levels.get_mut(&spec.name) {
                Some(level) => level.configure(spec.clone()),
                None => {
                    let level = Level::new(spec.clone());
                    self.levels.insert(Arc::clone(&spec.name), level);
                }
            }
        }
        self.levels
            .retain(|_, level| !(level.retired && level.is_idle()));
        self.share_out();
        self.dispatch(now);
    }

    /// Takes a request. `waker` is called for only if it has to wait.
    pub(crate) fn ask(&mut self, asking: &Asking, now: Now, waker: impl FnOnce() -> W) -> Decision {
        let free = self.pool();
        let idle = self.waiting == 0;
        let pool_wanted = self.pool_wanted;
        let id = self.next;
        let Some(level) = self.levels.get_mut(asking.level) else {
            return Decision::Refused(Refusal::ConcurrencyLimit);
        };
        self.next += 1;
        let ticket = Ticket {
            level: Arc::clone(asking.level),
            id,
        };
        let seats = level.charged(asking.seats);
        // Nobody overtakes a request that waits in the same level.
        let is_first = idle || level.waiting() == 0;
        let runs = match level.fit(seats, free) {
            Fit::Now => is_first,
            Fit::FromPool => is_first && !pool_wanted,
            Fit::NoPool | Fit::Full => false,
        };
        if runs || level.spec.exempt {
            level.run(id, asking, seats, now);
            return Decision::Runs(ticket);
        }
        if let Err(refusal) = level.enqueue(id, asking, now, waker) {
            return Decision::Refused(refusal);
        }
        self.waiting += 1;
        self.dispatch(now);
        if self.levels[asking.level].runs(id) {
            Decision::Runs(ticket)
        } else {
            Decision::Waits(ticket)
        }
    }

    /// Takes a request out, whether it runs or still waits, and starts others in its seats.
    pub(crate) fn leave(&mut self, ticket: &Ticket, why: Outcome, now: Now) {
        let Some(level) = self.levels.get_mut(&ticket.level) else {
            return;
        };
        if level.leave(ticket.id, why, now) {
            self.waiting -= 1;
        }
        if level.retired && level.is_idle() {
            self.levels.remove(&ticket.level);
            self.share_out();
        }
        self.dispatch(now);
    }

    /// The wakers of requests that have begun to run since the last call.
    pub(crate) fn woken(&mut self) -> Vec<W> {
        std::mem::take(&mut self.woken)
    }

    /// All levels with their names.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&Arc<str>, &Level<W>)> {
        self.levels.iter()
    }

    /// Distributes the seats of the server by the shares of the levels.
    fn share_out(&mut self) {
        let all = self.levels.values();
        let shares: u64 = all.map(|level| u64::from(level.spec.shares)).sum();
        self.total = 0;
        for level in self.levels.values_mut() {
            let seats = u64::from(self.configured) * u64::from(level.spec.shares);
            // No more than what is configured.
            let nominal = u32::try_from(seats.div_ceil(shares.max(1))).unwrap_or(u32::MAX);
            level.resize(nominal, self.configured);
            self.total = self.total.saturating_add(nominal);
        }
    }

    /// Seats that no level keeps and no request uses.
    fn pool(&self) -> u32 {
        let all = self.levels.values();
        let taken = all.map(|level| level.executing_seats().max(level.floor()));
        self.total
            .saturating_sub(taken.fold(0, u32::saturating_add))
    }

    /// Starts as many waiting requests as fit.
    fn dispatch(&mut self, now: Now) {
        while self.waiting > 0 {
            let Some(name) = self.next_level(now) else {
                return;
            };
            let Some(level) = self.levels.get_mut(&name) else {
                return;
            };
            self.woken.extend(level.start_next(now));
            self.waiting -= 1;
        }
        self.pool_wanted = false;
    }

    /// The level whose next request can start: of those that can, the one that uses the smallest
    /// part of its nominal seats.
    fn next_level(&mut self, now: Now) -> Option<Arc<str>> {
        let free = self.pool();
        let mut waiting: Vec<(&Arc<str>, &Level<W>)> = self
            .levels
            .iter()
            .filter(|(_, level)| level.waiting() > 0)
            .collect();
        waiting.sort_by(|(_, one), (_, other)| one.usage().total_cmp(&other.usage()));
        let mut pool_wanted = false;
        let mut found = None;
        for (name, level) in waiting {
            match level.fit(level.next_seats(now), free) {
                Fit::Full => {}
                Fit::NoPool => pool_wanted = true,
                Fit::FromPool if pool_wanted => {}
                Fit::Now | Fit::FromPool => {
                    found = Some(Arc::clone(name));
                    break;
                }
            }
        }
        self.pool_wanted = pool_wanted;
        found
    }
}

/// Whether seats for one more request are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The level has them itself.
    Now,
    /// The pool has them.
    FromPool,
    /// The pool has too few.
    NoPool,
    /// The level has reached its ceiling.
    Full,
}
