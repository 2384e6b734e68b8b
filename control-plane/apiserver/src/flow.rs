//! Priority and fairness: who waits when the server has too much to do.
//!
//! - [`rules`] finds the schema of a request, which names its level and tells its flow.
//! - [`machine`] shares the seats of the server among levels, and those of a level among flows.
//! - This module connects both with the objects in the caches, the clock and the tasks that wait.
//!
//! A change of the objects takes effect with the next request. No lock is held while a task waits.

pub(crate) mod histogram;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod rules;
pub(crate) mod width;

use std::sync::Arc;
use std::time::Duration;

use machinery::schema;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::resources::flow_control::{GROUP, LEVEL, SCHEMA};
use crate::storage::cache::{Cache, Cursor};
use crate::storage::reader::Reader;
use machine::{Asking, Decision, Machine, Now, Outcome, Ticket};
use rules::{Flow, Rules};

type Wakers = Machine<oneshot::Sender<()>>;

/// The seats of a server, and the rules about them.
pub(crate) struct FlowControl {
    machine: Mutex<Wakers>,
    known: RwLock<Known>,
    /// Longest time that a request waits for its seats.
    patience: Duration,
    begun: Instant,
}

/// The rules, and the places of the caches that they are from.
#[derive(Default)]
struct Known {
    rules: Arc<Rules>,
    places: Vec<(Arc<Cache>, Cursor)>,
}

/// The seats of a request. It gives them back when it is dropped.
pub(crate) struct Seats<'a> {
    control: &'a FlowControl,
    ticket: Ticket,
    outcome: Outcome,
}

/// A request that gets no seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

impl FlowControl {
    /// Shares out so many seats. No request waits longer than `patience`.
    pub(crate) fn new(seats: u32, patience: Duration) -> FlowControl {
        FlowControl {
            machine: Mutex::new(Machine::new(seats)),
            known: RwLock::default(),
            patience,
            begun: Instant::now(),
        }
    }

    /// The rules at the state of the caches.
    pub(crate) fn rules(&self, reader: &Reader) -> Arc<Rules> {
        {
            let known = self.known.read();
            if known.is_current() {
                return Arc::clone(&known.rules);
            }
        }
        let mut known = self.known.write();
        if !known.is_current() {
            *known = Known::read(reader);
            let levels = known.rules.levels();
            self.with(|machine, now| machine.configure(levels, now));
        }
        Arc::clone(&known.rules)
    }

    /// Takes seats, after a wait if there are none. `counts` is false for a request that gave its
    /// seats back while it waited for its client.
    pub(crate) async fn enter(
        &self,
        flow: &Flow,
        seats: u32,
        counts: bool,
    ) -> Result<Seats<'_>, Refused> {
        let asking = Asking {
            level: &flow.schema.level.name,
            schema: &flow.schema.name,
            flow: flow.hash,
            seats,
            counts,
        };
        let mut woken = None;
        let decision = self.with(|machine, now| {
            machine.ask(&asking, now, || {
                let (waker, waits) = oneshot::channel();
                woken = Some(waits);
                waker
            })
        });
        let seats = |ticket| Seats {
            control: self,
            ticket,
            outcome: Outcome::Done,
        };
        match (decision, woken) {
            (Decision::Refused(why), _) => {
                tracing::debug!(?why, schema = %flow.schema.name, "there are too many requests");
                Err(Refused)
            }
            (Decision::Waits(ticket), Some(woken)) => {
                // From here on, a request that is given up leaves its place.
                let mut seats = seats(ticket);
                if let Ok(Ok(())) = tokio::time::timeout(self.patience, woken).await {
                    return Ok(seats);
                }
                seats.outcome = Outcome::TimedOut;
                Err(Refused)
            }
            (Decision::Runs(ticket) | Decision::Waits(ticket), _) => Ok(seats(ticket)),
        }
    }

    /// Works with the machine, and then wakes the requests that have begun to run.
    fn with<T>(&self, work: impl FnOnce(&mut Wakers, Now) -> T) -> T {
        let (result, woken) = {
            let mut machine = self.machine.lock();
            let result = work(&mut machine, self.begun.elapsed());
            (result, machine.woken())
        };
        for waker in woken {
            // If nobody waits any more, the ticket is about to be given back.
            let _ = waker.send(());
        }
        result
    }
}

impl Drop for Seats<'_> {
    fn drop(&mut self) {
        let (ticket, outcome) = (&self.ticket, self.outcome);
        self.control
            .with(|machine, now| machine.leave(ticket, outcome, now));
    }
}

impl Known {
    fn is_current(&self) -> bool {
        let mut all = self.places.iter();
        !self.places.is_empty() && all.all(|(cache, place)| cache.end() == *place)
    }

    fn read(reader: &Reader) -> Known {
        let mut places = Vec::new();
        let [levels, schemas] = [LEVEL, SCHEMA].map(|kind| {
            let found = objects(reader, kind);
            let (objects, place) = found.unwrap_or_default();
            places.extend(place);
            objects
        });
        let rules = Arc::new(Rules::new(&schemas, &levels));
        // Without all caches, the next request has to look again.
        if places.len() < 2 {
            places.clear();
        }
        Known { rules, places }
    }
}

type Objects = (Vec<Value>, Option<(Arc<Cache>, Cursor)>);

/// The objects of a kind in its cache, and the place of the cache.
fn objects(reader: &Reader, kind: &str) -> Option<Objects> {
    let kind = schema::kind(GROUP, "v1", kind)?;
    let resource = reader.resource_of(kind).ok()?;
    let storage = resource.storage.as_ref()?;
    let cache = reader.reflector.cache(storage).ok()?;
    let (stored, place, _) = cache.snapshot(&storage.folder(""));
    let objects = stored.iter().filter_map(|one| one.decode().ok()).collect();
    Some((objects, Some((cache, place))))
}
