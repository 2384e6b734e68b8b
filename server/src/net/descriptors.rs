//! File descriptors are shared by clients, the store and the other members. This module limits the
//! connections of each kind of listener, so that clients cannot use up the descriptors of the log.
//!
//! A quota does not look at who connects. Which host gets one of the connections that the members
//! have is decided by `shares`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::net::socket::BindError;
use crate::net::workers::Workers;

/// A limit on descriptors that is too low, with all below it: etcd's number.
const TOO_LOW: u64 = 150;

/// Client connections that a low limit allows as well, if etcd allows as many: they may take what a
/// large cluster needs.
const CLIENTS_MIN: u64 = 50;

/// Descriptors of the store and its log, of listeners and output.
const FILES_MAX: u64 = 30;

/// Descriptors of an event loop.
const OF_EVENT_LOOP: u64 = 4;

/// Event loops besides those of the workers: that of the peers, and that of TLS handshakes.
const OTHER_LOOPS: u64 = 2;

/// Connections to all listeners for metrics and health together.
const METRICS_CONNECTIONS_MAX: usize = 16;

/// Connections from other members, and at most as many are open to them. Each opens about five, and
/// up to eight more while it asks about leases; a cluster has at most seven members.
const PEER_CONNECTIONS_MAX: usize = 80;

/// The places that the hosts of members share. The rest is for connections that have lost their
/// place and are not closed yet, so that those that take the places rarely wait.
pub(super) const PEER_PLACES: usize = PEER_CONNECTIONS_MAX - 2;

/// Raises the limit on open files of this process to its hard limit, as Go's runtime does.
pub fn raise_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Ok(());
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// Limits the open connections of one kind. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quota {
    permits: Arc<Semaphore>,
    was_full: Arc<AtomicBool>,
    kind: &'static str,
    limit: usize,
}

impl Quota {
    fn new(kind: &'static str, limit: usize) -> Quota {
        Quota {
            permits: Arc::new(Semaphore::new(limit)),
            was_full: Arc::default(),
            kind,
            limit,
        }
    }

    /// One quota for all client listeners together. Fails if not even one client would fit.
    pub(crate) fn for_clients() -> Result<Quota, BindError> {
        let limit = match getrlimit(Resource::Nofile).current {
            None => Semaphore::MAX_PERMITS as u64,
            Some(limit) => clients_under(limit, reserved()).ok_or_else(|| {
                BindError(format!(
                    "file descriptor limit of etcd process is too low; please set higher \
                     (limit: {limit}, recommended-limit: {TOO_LOW})"
                ))
            })?,
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Quota::new("client", limit.min(Semaphore::MAX_PERMITS)))
    }

    pub(crate) fn for_metrics() -> Quota {
        Quota::new("metrics", METRICS_CONNECTIONS_MAX)
    }

    pub(crate) fn for_peers() -> Quota {
        Quota::new("peer", PEER_CONNECTIONS_MAX)
    }

    /// Waits until one more connection is allowed; the connection holds the permit while it is
    /// open.
    pub(crate) async fn admit(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            self.was_full.store(false, Ordering::Relaxed);
            return permit;
        }
        if !self.was_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                kind = self.kind,
                limit = self.limit,
                "too many open connections; accepting no more until one closes"
            );
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }
}

/// Descriptors that clients do not get: what this process needs in the largest cluster.
fn reserved() -> u64 {
    let loops = Workers::suitable_count() as u64 + OTHER_LOOPS;
    let connections = 2 * PEER_CONNECTIONS_MAX + METRICS_CONNECTIONS_MAX;
    FILES_MAX + loops * OF_EVENT_LOOP + connections as u64
}

/// The client connections that a limit on descriptors allows; `None` if it is too low.
fn clients_under(limit: u64, reserved: u64) -> Option<u64> {
    let as_etcd = limit.checked_sub(TOO_LOW).filter(|clients| *clients > 0)?;
    Some(limit.saturating_sub(reserved).max(as_etcd.min(CLIENTS_MIN)))
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn clients_leave_what_a_cluster_of_seven_needs() {
        // On two cores.
        let reserved = 218;
        let clients = |limit| clients_under(limit, reserved);
        assert_eq!([0, 150].map(clients), [None; 2]);
        // As many as with etcd, and then no more until the reserve is there.
        assert_eq!([151, 200].map(clients), [Some(1), Some(50)]);
        assert_eq!([201, 268].map(clients), [Some(50); 2]);
        assert_eq!([269, 1024].map(clients), [Some(51), Some(806)]);
        assert!(super::reserved() >= reserved, "{}", super::reserved());
    }

    #[test]
    fn accepting_pauses_at_the_limit_and_goes_on_when_one_closes() {
        let quota = Quota::new("client", 2);
        let mut context = Context::from_waker(Waker::noop());
        let mut admitted = || match pin!(quota.admit()).poll(&mut context) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        };
        let (first, second) = (admitted(), admitted());
        assert!(first.is_some() && second.is_some());
        assert!(admitted().is_none());
        drop(first);
        assert!(admitted().is_some());
    }
}
