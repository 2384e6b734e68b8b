//! What clients and checks may use: connections, requests that run, large answers, time of the store.

pub(crate) mod sending;
pub(crate) mod slots;

use std::time::Duration;

/// How long the store may take to answer a check in Kubernetes, unless something else is asked for.
const STORE_WITHIN: Duration = Duration::from_secs(2);

/// How long the store may take to answer the checks of it.
#[derive(Clone, Copy, Debug)]
pub struct StoreChecks {
    /// For the check of all probes.
    pub health: Duration,
    /// For the further one of `/readyz`.
    pub readiness: Duration,
}

impl Default for StoreChecks {
    fn default() -> StoreChecks {
        StoreChecks {
            health: STORE_WITHIN,
            readiness: STORE_WITHIN,
        }
    }
}

/// Limits on what clients may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Upper bound of open connections.
    pub connections: usize,
    /// Time for a client to complete the handshake and the head of its first request.
    pub head: Duration,
    /// Time that a connection may have no request in progress.
    pub idle: Duration,
    /// Upper bound of concurrent requests that read; 0 for none. A watch counts only until it has
    /// started.
    pub reads: usize,
    /// Upper bound of concurrent requests that write; 0 for none.
    pub writes: usize,
    /// True if priority and fairness shares the sum of both bounds among the users.
    pub fair: bool,
}

impl Default for Limits {
    /// Kubernetes' limits, except that it does not limit connections.
    fn default() -> Limits {
        Limits {
            connections: 8192,
            head: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            reads: 400,
            writes: 200,
            fair: true,
        }
    }
}
