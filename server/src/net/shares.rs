//! Places for connections that the hosts at the other end share. Any host may take all of them
//! while nobody else wants one: all members may be on one host. Once all are taken, whoever has
//! fewer gets one of those who have most, so that neither a member nor a stranger keeps the members
//! away.
//!
//! A place is not a descriptor: whoever loses a place loses it at once, and the descriptor is free
//! only when its connection has closed. The quota of `descriptors` counts those.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::descriptors::PEER_PLACES;

/// The address at the other end. All unix sockets are one host.
type Host = Option<IpAddr>;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shares(Arc<Mutex<Held>>);

impl Shares {
    pub(crate) fn for_peers() -> Shares {
        Shares::new(PEER_PLACES)
    }

    fn new(limit: usize) -> Shares {
        Shares(Arc::new(Mutex::new(Held {
            limit,
            places: Vec::with_capacity(limit),
            newest: 0,
            was_full: false,
        })))
    }

    /// A place for a connection from `remote`. `None`: all are taken, and no other host has so many
    /// that it has to give one.
    pub(crate) fn enter(&self, remote: Option<SocketAddr>) -> Option<Place> {
        let host = remote.map(|remote| remote.ip());
        let mut held = self.0.lock();
        if !held.has_room_for(host) {
            return None;
        }
        let (keeper, displaced) = oneshot::channel();
        held.newest += 1;
        let number = held.newest;
        held.places.push(Taken {
            number,
            host,
            _keeper: keeper,
        });
        Some(Place {
            shares: self.clone(),
            number,
            displaced,
        })
    }
}

/// The place of a connection. Dropping it gives it back.
pub(crate) struct Place {
    shares: Shares,
    number: u64,
    /// Resolves when another host has got the place.
    displaced: oneshot::Receiver<Infallible>,
}

impl Place {
    /// Serves a connection until it ends, or loses its place.
    pub(crate) async fn hold(mut self, connection: impl Future<Output = ()>) {
        tokio::select! {
            () = connection => {}
            _ = &mut self.displaced => {}
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let number = self.number;
        let mut held = self.shares.0.lock();
        held.places.retain(|taken| taken.number != number);
    }
}

struct Held {
    limit: usize,
    /// In the order in which they were taken.
    places: Vec<Taken>,
    /// Number of the place that was taken last.
    newest: u64,
    was_full: bool,
}

struct Taken {
    number: u64,
    host: Host,
    /// Dropped with this when another host gets the place.
    _keeper: oneshot::Sender<Infallible>,
}

impl Held {
    fn has_room_for(&mut self, host: Host) -> bool {
        if self.places.len() < self.limit {
            self.was_full = false;
            return true;
        }
        if !std::mem::replace(&mut self.was_full, true) {
            tracing::warn!(
                limit = self.limit,
                "too many open connections of members; whoever has most of them loses some"
            );
        }
        let mut counts: HashMap<Host, usize> = HashMap::new();
        for taken in &self.places {
            *counts.entry(taken.host).or_default() += 1;
        }
        let own = counts.get(&host).copied().unwrap_or_default();
        // Of the host with most places the newest: the streams of members are older.
        let places = self.places.iter().enumerate();
        let most = places.map(|(at, taken)| (counts[&taken.host], at)).max();
        match most {
            // Otherwise the two hosts would take the place from each other in turn.
            Some((count, at)) if count > own + 1 => {
                self.places.remove(at);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn host(number: u8) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, number], 1234)))
    }

    fn take(shares: &Shares, number: u8, count: usize) -> Vec<Place> {
        let taken = (0..count).map(|_| shares.enter(host(number)));
        taken.collect::<Option<_>>().unwrap()
    }

    #[test]
    fn one_host_may_take_all_places_and_gives_them_to_others() {
        let shares = Shares::new(8);
        let mut greedy = take(&shares, 1, 8);
        assert!(shares.enter(host(1)).is_none(), "all are taken");
        let others = take(&shares, 2, 4);
        assert!(shares.enter(host(2)).is_none(), "half of them are enough");
        let lost = greedy.iter_mut().map(|place| place.displaced.try_recv());
        let lost: Vec<bool> = lost.map(|lost| lost == Err(TryRecvError::Closed)).collect();
        assert_eq!(lost, [[false; 4], [true; 4]].concat());
        drop(greedy);
        assert_eq!(take(&shares, 3, 4).len() + others.len(), 8);
    }

    #[test]
    fn a_place_that_is_given_back_is_there_for_all() {
        let shares = Shares::new(1);
        for number in [1, 1, 2, 1] {
            drop(take(&shares, number, 1));
        }
        let last = shares.enter(None);
        assert!(last.is_some() && shares.enter(host(1)).is_none());
    }

    #[tokio::test]
    async fn a_connection_ends_when_its_place_goes_to_another_host() {
        let shares = Shares::new(2);
        let mut places = take(&shares, 1, 2);
        let other = shares.enter(host(2));
        let newest = places.pop().unwrap();
        newest.hold(std::future::pending()).await;
        assert!(other.is_some());
    }
}
