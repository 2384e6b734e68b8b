//! What clients and checks may use: connections, requests that run, large answers, time of the store.

pub(crate) mod sending;
pub(crate) mod slots;

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer of the store to a check counts for others that ask for it.
const SHARED_FOR: Duration = Duration::from_millis(200);
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

/// The last answers of the store to the checks of it.
#[derive(Default)]
pub(crate) struct StoreAnswers {
    pub(crate) health: StoreAnswer,
    pub(crate) readiness: StoreAnswer,
}

/// One of them. Probes need no credentials and wait for nobody, so many of them share an answer:
/// otherwise each would be a request to the store.
#[derive(Default)]
pub(crate) struct StoreAnswer(Mutex<Option<(Instant, Result<(), String>)>>);

impl StoreAnswer {
    /// Returns the last answer, or that of `ask` if it is too old.
    pub(crate) async fn or_ask(
        &self,
        ask: impl Future<Output = Result<(), String>>,
    ) -> Result<(), String> {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < SHARED_FOR
        {
            return answer.clone();
        }
        let answer = ask.await;
        *last = Some((Instant::now(), answer.clone()));
        answer
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn checks_at_one_time_share_an_answer() {
        let (last, asked) = (StoreAnswer::default(), AtomicUsize::new(0));
        let ask = async || {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Err("down".to_owned())
        };
        let answers = join_all((0..100).map(|_| last.or_ask(ask()))).await;
        assert!(answers.iter().all(|one| *one == Err("down".to_owned())));
        // It is less than all even on a machine that stops in between.
        assert!(asked.load(Ordering::Relaxed) < 100);
    }
}
