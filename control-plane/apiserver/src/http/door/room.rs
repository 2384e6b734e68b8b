//! The places for connections, and which connection is ended for a new one when all are taken.
//!
//! A new connection is never turned away: it may be a probe, or the owner of the cluster who looks
//! for the reason. Whoever holds the most places gives one up.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::auth::User;
use crate::auth::user::ANONYMOUS;
use crate::http::limits::Limits;
use crate::http::metrics::ENDED;

/// How long a new connection may be silent before it can be ended for another holder's: a handshake
/// and the head of a request take less.
const SETTLING: Duration = Duration::from_secs(1);
/// Pause between two lines in the log about requests that were ended.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// All open connections of a listener.
pub(super) struct Places {
    most: usize,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    /// The last line in the log about requests that were ended.
    told: Mutex<Option<Instant>>,
}

/// One connection, shared by its requests and by [`Places`].
pub(super) struct Connection {
    number: u64,
    opened: Instant,
    address: Option<IpAddr>,
    use_: Mutex<Use>,
    /// Signals that the connection must end, as a rule to make room for another one.
    ended: Notify,
}

struct Use {
    /// Requests whose response has not been sent completely.
    requests: usize,
    /// Those of them that are watches.
    watches: usize,
    /// True once a request had a complete head.
    begun: bool,
    /// End of the last request.
    since: Instant,
    /// Who sent the last request that had credentials.
    user: Option<Arc<str>>,
    /// True if it was ended with requests in progress.
    cut: bool,
}

/// Who a connection belongs to, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Address(Option<IpAddr>),
    User(Arc<str>),
}

/// What a connection is doing. What is lost least by its end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Nothing,
    /// Their clients watch again from where they were.
    Watches,
    Requests,
}

/// A connection as [`to_end`] sees it.
struct Seen {
    number: u64,
    holder: Holder,
    doing: Doing,
    /// Start of the time that it has done nothing, or of the connection.
    since: Instant,
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        Places {
            most,
            open: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Adds a connection, and ends another one if there are too many.
    pub(super) fn admit(&self, number: u64, address: Option<IpAddr>) -> Arc<Connection> {
        let connection = Arc::new(Connection::new(number, address));
        let mut open = self.open.lock();
        if open.len() >= self.most {
            let seen: Vec<_> = open.values().map(|one| one.seen()).collect();
            if let Some(seen) = to_end(&seen, connection.opened)
                && let Some(ended) = open.remove(&seen.number)
            {
                ended.end(seen.doing);
                self.tell(seen);
            }
        }
        open.insert(number, Arc::clone(&connection));
        connection
    }

    /// Takes a connection away that has ended.
    pub(super) fn leave(&self, connection: &Connection) {
        self.open.lock().remove(&connection.number);
    }

    fn tell(&self, ended: &Seen) {
        ENDED.count(&[match ended.doing {
            Doing::Nothing => "nothing",
            Doing::Watches => "watches",
            Doing::Requests => "requests",
        }]);
        let (now, mut told) = (Instant::now(), self.told.lock());
        let is_due = told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        if ended.doing > Doing::Nothing && is_due {
            *told = Some(now);
            let (most, holder) = (self.most, &ended.holder);
            tracing::warn!(
                most,
                ?holder,
                "too many connections: those of the client that has the most are ended for new ones"
            );
        }
    }
}

/// The connection to end for a new one. One that does nothing is the first, unless a single holder
/// has more than half of all places: then those who wait for nothing would lose theirs to it.
fn to_end(all: &[Seen], now: Instant) -> Option<&Seen> {
    let mut places: HashMap<&Holder, usize> = HashMap::new();
    for one in all {
        *places.entry(&one.holder).or_default() += 1;
    }
    let largest = places.values().copied().max()?;
    if largest * 2 <= all.len() {
        let is_silent =
            |one: &&Seen| one.doing == Doing::Nothing && now.duration_since(one.since) >= SETTLING;
        let silent = all.iter().filter(is_silent);
        if let Some(longest) = silent.min_by_key(|one| (one.since, one.number)) {
            return Some(longest);
        }
    }
    all.iter()
        .filter(|one| places.get(&one.holder) == Some(&largest))
        .min_by_key(|one| (one.doing, one.since, one.number))
}

impl Connection {
    fn new(number: u64, address: Option<IpAddr>) -> Connection {
        let opened = Instant::now();
        Connection {
            number,
            opened,
            address,
            use_: Mutex::new(Use {
                requests: 0,
                watches: 0,
                begun: false,
                since: opened,
                user: None,
                cut: false,
            }),
            ended: Notify::new(),
        }
    }

    fn seen(&self) -> Seen {
        let one = self.use_.lock();
        let (doing, since) = match (one.requests, one.watches) {
            (0, _) => (Doing::Nothing, one.since),
            (requests, watches) if requests == watches => (Doing::Watches, self.opened),
            _ => (Doing::Requests, self.opened),
        };
        let user = one.user.clone();
        Seen {
            number: self.number,
            holder: user.map_or(Holder::Address(self.address), Holder::User),
            doing,
            since,
        }
    }

    fn end(&self, doing: Doing) {
        self.use_.lock().cut = doing > Doing::Nothing;
        self.ended.notify_one();
    }

    /// Waits until the connection must end.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// True if it makes room although it has requests: they are not waited for.
    pub(super) fn is_cut(&self) -> bool {
        self.use_.lock().cut
    }

    /// Waits until the connection must make room although it has requests.
    pub(super) async fn cut(&self) {
        while !self.is_cut() {
            self.ended().await;
        }
    }

    /// Notes whose request it has. Without credentials the address says more.
    fn note(&self, user: &User) {
        let mut one = self.use_.lock();
        if one.user.as_deref() != Some(&*user.name) && user.name != ANONYMOUS {
            one.user = Some(user.name.as_str().into());
        }
    }

    /// Waits until the connection has been silent for too long, counted from `from` or later.
    ///
    /// The first request switches the timeout, perhaps to the shorter one, and does not wake this
    /// function. So it looks again after the shorter timeout at the latest.
    pub(super) async fn silent(&self, from: Instant, limits: Limits) {
        let shorter = limits.head.min(limits.idle);
        loop {
            let until = {
                let one = self.use_.lock();
                let patience = if one.begun { limits.idle } else { limits.head };
                match one.requests {
                    0 => one.since.max(from) + patience,
                    _ => Instant::now() + patience,
                }
            };
            let now = Instant::now();
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until.min(now + shorter)).await;
        }
    }
}

/// The connection of a request, in its extensions.
#[derive(Clone)]
pub(super) struct Through(Arc<Connection>);

impl Through {
    pub(super) fn new(connection: &Arc<Connection>) -> Through {
        Through(Arc::clone(connection))
    }

    /// Notes who sent the request.
    pub(super) fn note(&self, user: &User) {
        self.0.note(user);
    }

    /// Ends the connection once the requests that it has are answered.
    pub(super) fn let_go(&self) {
        self.0.ended.notify_one();
    }
}

/// Counts a request as long as this value exists.
pub(super) struct AtWork {
    connection: Arc<Connection>,
    is_watch: bool,
}

impl AtWork {
    pub(super) fn begin(connection: &Arc<Connection>) -> AtWork {
        let mut one = connection.use_.lock();
        one.requests += 1;
        one.begun = true;
        AtWork {
            connection: Arc::clone(connection),
            is_watch: false,
        }
    }

    /// The request is a watch, which has begun.
    pub(super) fn watches(&mut self) {
        if !std::mem::replace(&mut self.is_watch, true) {
            self.connection.use_.lock().watches += 1;
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut one = self.connection.use_.lock();
        one.requests -= 1;
        one.watches -= usize::from(self.is_watch);
        one.since = Instant::now();
    }
}
