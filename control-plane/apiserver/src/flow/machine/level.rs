//! One level: its queues, and what it counts.
//!
//! Flows are dealt hands of queues by their hash, and a request joins the least loaded queue of the
//! hand of its flow. So a flow that fills its queues leaves most others a queue without it.
//!
//! The queues are served by fair queuing in virtual time, which is work: seats times seconds. Each
//! queue stands at the work that it has got, requests in progress included, and the queue that is
//! furthest behind is next. A queue that gets its first request begins where the one furthest
//! behind stands: it saves no claims while it has nothing to do.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::histogram::Histogram;
use super::hand::deal;
use super::{Asking, Fit, LevelSpec, Now};

/// The least work of a request per seat, until it has ended: several that start at the same time
/// count, too.
const ESTIMATE: f64 = 0.003;
/// Upper bound of the part of its level's nominal seats that one request takes.
const SEATS_PART_MAX: f64 = 0.15;

/// Why a request does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no seat, and its level has no queues.
    ConcurrencyLimit,
    /// Its queue is full.
    QueueFull,
}

/// How a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done, or its client has gone.
    Done,
    /// It has waited too long.
    TimedOut,
}

/// What has become of the requests of a schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) dispatched: u64,
    pub(crate) refused_for_concurrency: u64,
    pub(crate) refused_for_queue: u64,
    pub(crate) timed_out: u64,
    pub(crate) cancelled: u64,
    pub(crate) in_queue: u64,
    pub(crate) executing: u64,
    pub(crate) executing_seats: u64,
    /// Waits of requests that were started, and of those that were not.
    pub(crate) waits: [Histogram; 2],
}

pub(crate) struct Level<W> {
    pub(crate) spec: LevelSpec,
    /// True if it takes no further requests.
    pub(crate) retired: bool,
    nominal: u32,
    floor: u32,
    ceiling: u32,
    /// Queues with requests; the others have no state.
    queues: BTreeMap<u32, Queue<W>>,
    running: HashMap<u64, Running>,
    waiting: usize,
    executing_seats: u32,
    /// By the name of the schema.
    counts: BTreeMap<Arc<str>, Counts>,
}

struct Queue<W> {
    waiting: VecDeque<Waiting<W>>,
    executing: u32,
    executing_seats: u32,
    /// The sum of the times when its running requests began, in seconds, each as often as it has
    /// seats.
    begun: f64,
    /// The work of its requests that have ended, and where it began.
    done: f64,
}

struct Waiting<W> {
    id: u64,
    schema: Arc<str>,
    seats: u32,
    counts: bool,
    arrived: Now,
    waker: W,
}

struct Running {
    schema: Arc<str>,
    queue: Option<u32>,
    seats: u32,
    started: Now,
}

impl<W> Level<W> {
    pub(super) fn new(spec: LevelSpec) -> Level<W> {
        Level {
            spec,
            retired: false,
            nominal: 0,
            floor: 0,
            ceiling: 0,
            queues: BTreeMap::new(),
            running: HashMap::new(),
            waiting: 0,
            executing_seats: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Replaces the limits. Requests that wait keep their places.
    pub(super) fn configure(&mut self, spec: LevelSpec) {
        self.spec = spec;
        self.retired = false;
    }

    pub(super) fn resize(&mut self, nominal: u32, server: u32) {
        let part = |percent: u32| {
            let seats = (u64::from(nominal) * u64::from(percent) + 50) / 100;
            u32::try_from(seats).unwrap_or(u32::MAX)
        };
        let borrowed = self.spec.borrowing.map_or(server, part);
        self.nominal = nominal;
        self.floor = nominal.saturating_sub(part(self.spec.lendable));
        self.ceiling = nominal.saturating_add(borrowed);
    }

    /// The nominal seats.
    pub(crate) fn nominal(&self) -> u32 {
        self.nominal
    }

    /// Seats that no other level gets.
    pub(crate) fn floor(&self) -> u32 {
        self.floor
    }

    /// Upper bound of its seats, those of the pool included.
    pub(crate) fn ceiling(&self) -> u32 {
        self.ceiling
    }

    pub(crate) fn executing_seats(&self) -> u32 {
        self.executing_seats
    }

    /// Number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of queues with requests that wait.
    pub(crate) fn active_queues(&self) -> usize {
        let queues = self.queues.values();
        queues.filter(|queue| !queue.waiting.is_empty()).count()
    }

    /// Number of requests that run.
    pub(crate) fn executing(&self) -> usize {
        self.running.len()
    }

    /// What has become of the requests, by schema.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&Arc<str>, &Counts)> {
        self.counts.iter()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.running.is_empty()
    }

    pub(super) fn runs(&self, id: u64) -> bool {
        self.running.contains_key(&id)
    }

    /// The part of the nominal seats that is in use.
    pub(super) fn usage(&self) -> f64 {
        if self.nominal == 0 {
            return f64::INFINITY;
        }
        f64::from(self.executing_seats) / f64::from(self.nominal)
    }

    /// Seats that a request of this width takes. It must fit into its level, with others beside it.
    pub(super) fn charged(&self, seats: u32) -> u32 {
        let most = match self.spec.queuing {
            Some(queuing) => {
                let part = (f64::from(self.nominal) * SEATS_PART_MAX).ceil() as u32;
                part.min(self.nominal / queuing.hand.max(1))
            }
            None => self.nominal,
        };
        seats.clamp(1, most.max(1))
    }

    /// Whether these seats are free for one more request, given those in the pool.
    pub(super) fn fit(&self, seats: u32, pool: u32) -> Fit {
        let after = self.executing_seats.saturating_add(seats);
        // Below its floor it takes nothing of the pool.
        let taken = after.saturating_sub(self.executing_seats.max(self.floor));
        if after > self.ceiling {
            Fit::Full
        } else if taken == 0 {
            Fit::Now
        } else if taken <= pool {
            Fit::FromPool
        } else {
            Fit::NoPool
        }
    }

    /// Starts a request that has not waited.
    pub(super) fn run(&mut self, id: u64, asking: &Asking, seats: u32, now: Now) {
        let queue = self.choose(asking.flow);
        let counts = counts_of(&mut self.counts, asking.schema);
        if asking.counts {
            counts.dispatched += 1;
            counts.waits[0].add(Duration::ZERO);
        }
        self.begin(id, Arc::clone(asking.schema), queue, seats, now);
    }

    /// Puts a request into a queue of its flow.
    pub(super) fn enqueue(
        &mut self,
        id: u64,
        asking: &Asking,
        now: Now,
        waker: impl FnOnce() -> W,
    ) -> Result<(), Refusal> {
        let place = self.spec.queuing.zip(self.choose(asking.flow));
        let counts = counts_of(&mut self.counts, asking.schema);
        let Some((queuing, at)) = place else {
            counts.refused_for_concurrency += 1;
            return Err(Refusal::ConcurrencyLimit);
        };
        let found = self.queues.get(&at);
        if found.is_some_and(|queue| queue.waiting.len() >= queuing.length as usize) {
            counts.refused_for_queue += 1;
            return Err(Refusal::QueueFull);
        }
        counts.in_queue += 1;
        queue_at(&mut self.queues, at, now)
            .waiting
            .push_back(Waiting {
                id,
                schema: Arc::clone(asking.schema),
                seats: asking.seats,
                counts: asking.counts,
                arrived: now,
                waker: waker(),
            });
        self.waiting += 1;
        Ok(())
    }

    /// Seats of the request that is next; 0 if none waits.
    pub(super) fn next_seats(&self, now: Now) -> u32 {
        let queue = self.next_queue(now).and_then(|at| self.queues.get(&at));
        let first = queue.and_then(|queue| queue.waiting.front());
        first.map_or(0, |first| self.charged(first.seats))
    }

    /// Starts the request that is next, and returns its waker.
    pub(super) fn start_next(&mut self, now: Now) -> Option<W> {
        let at = self.next_queue(now)?;
        let first = self.queues.get_mut(&at)?.waiting.pop_front()?;
        self.waiting -= 1;
        let counts = counts_of(&mut self.counts, &first.schema);
        counts.in_queue -= 1;
        if first.counts {
            counts.dispatched += 1;
        }
        counts.waits[0].add(now.saturating_sub(first.arrived));
        let seats = self.charged(first.seats);
        self.begin(first.id, first.schema, Some(at), seats, now);
        Some(first.waker)
    }

    /// Takes out a request. True if it waited.
    pub(super) fn leave(&mut self, id: u64, why: Outcome, now: Now) -> bool {
        if let Some(running) = self.running.remove(&id) {
            self.end(&running, now);
            return false;
        }
        let found = self.queues.iter_mut().find_map(|(at, queue)| {
            let place = queue.waiting.iter().position(|one| one.id == id)?;
            Some((*at, queue.waiting.remove(place)?))
        });
        let Some((at, gone)) = found else {
            return false;
        };
        self.waiting -= 1;
        let counts = counts_of(&mut self.counts, &gone.schema);
        counts.in_queue -= 1;
        counts.waits[1].add(now.saturating_sub(gone.arrived));
        match why {
            Outcome::TimedOut => counts.timed_out += 1,
            Outcome::Done => counts.cancelled += 1,
        }
        self.forget_idle(at);
        true
    }

    fn begin(&mut self, id: u64, schema: Arc<str>, queue: Option<u32>, seats: u32, now: Now) {
        let counts = counts_of(&mut self.counts, &schema);
        counts.executing += 1;
        counts.executing_seats += u64::from(seats);
        self.executing_seats = self.executing_seats.saturating_add(seats);
        if let Some(at) = queue {
            let queue = queue_at(&mut self.queues, at, now);
            queue.executing += 1;
            queue.executing_seats += seats;
            queue.begun += f64::from(seats) * now.as_secs_f64();
        }
        let running = Running {
            schema,
            queue,
            seats,
            started: now,
        };
        self.running.insert(id, running);
    }

    fn end(&mut self, ended: &Running, now: Now) {
        let counts = counts_of(&mut self.counts, &ended.schema);
        counts.executing -= 1;
        counts.executing_seats -= u64::from(ended.seats);
        self.executing_seats = self.executing_seats.saturating_sub(ended.seats);
        let Some(at) = ended.queue else { return };
        if let Some(queue) = self.queues.get_mut(&at) {
            let took = now.saturating_sub(ended.started).as_secs_f64();
            let seats = f64::from(ended.seats);
            queue.executing -= 1;
            queue.executing_seats -= ended.seats;
            queue.begun -= seats * ended.started.as_secs_f64();
            queue.done += seats * took;
        }
        self.forget_idle(at);
    }

    fn forget_idle(&mut self, at: u32) {
        let found = self.queues.get(&at);
        if found.is_some_and(|queue| queue.waiting.is_empty() && queue.executing == 0) {
            self.queues.remove(&at);
        }
    }

    /// The queue with requests that wait whose first one would end first in virtual time.
    fn next_queue(&self, now: Now) -> Option<u32> {
        let all = self.queues.iter().filter_map(|(at, queue)| {
            let first = queue.waiting.front()?;
            let ends = queue.stands(now) + f64::from(self.charged(first.seats)) * ESTIMATE;
            Some((ends, *at))
        });
        all.min_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, at)| at)
    }

    /// The least loaded queue of a flow's hand; `None` if the level has no queues.
    fn choose(&self, flow: u64) -> Option<u32> {
        let queuing = self.spec.queuing?;
        let load = |at: &u32| {
            self.queues
                .get(at)
                .map_or((0, 0), |queue| (queue.waiting.len(), queue.executing_seats))
        };
        deal(flow, queuing).min_by_key(load)
    }
}

impl<W> Queue<W> {
    /// The virtual time of the queue.
    fn stands(&self, now: Now) -> f64 {
        let seats = f64::from(self.executing_seats);
        let in_progress = seats * now.as_secs_f64() - self.begun;
        self.done + in_progress.max(0.0) + seats * ESTIMATE
    }
}

fn counts_of<'a>(counts: &'a mut BTreeMap<Arc<str>, Counts>, schema: &Arc<str>) -> &'a mut Counts {
    counts.entry(Arc::clone(schema)).or_default()
}

/// The queue of this number. A new one begins where the queue stands that is furthest behind.
fn queue_at<W>(queues: &mut BTreeMap<u32, Queue<W>>, at: u32, now: Now) -> &mut Queue<W> {
    let behind = if queues.contains_key(&at) {
        0.0
    } else {
        let all = queues.values().map(|queue| queue.stands(now));
        all.min_by(f64::total_cmp).unwrap_or(0.0)
    };
    queues.entry(at).or_insert_with(|| Queue {
        waiting: VecDeque::new(),
        executing: 0,
        executing_seats: 0,
        begun: 0.0,
        done: behind,
    })
}
