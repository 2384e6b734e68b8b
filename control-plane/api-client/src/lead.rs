//! Leader election at work: [`leader`](crate::leader) with a clock and an apiserver.

use std::time::Duration;

use k8s_openapi::jiff;
use machinery::api::{Api, Target};
use machinery::object::Object;
use machinery::schema;
use machinery::status::Status;
use machinery::time::Timestamp;
use tokio::time::Instant;

use crate::Client;
use crate::leader::{ATTEMPT, Election, RETRY, Step};

/// A held lease.
struct Leader {
    client: Client,
    election: Election,
    namespace: String,
    lease: String,
    start: Instant,
    last: Option<Object>,
}

impl Leader {
    /// Waits until this process, `identity`, holds the lease.
    async fn elected(client: Client, namespace: &str, lease: &str, identity: &str) -> Leader {
        let mut leader = Leader {
            election: Election::new(namespace, lease, identity),
            client,
            namespace: namespace.into(),
            lease: lease.into(),
            start: Instant::now(),
            last: None,
        };
        while !leader.round(leader.start.elapsed() + ATTEMPT).await {
            tokio::time::sleep(RETRY).await;
        }
        leader
    }

    /// Renews the lease; returns when renewals failed for so long that another process may hold it.
    async fn lost(&mut self) {
        while let Some(next) = self.election.next_attempt(self.start.elapsed()) {
            tokio::time::sleep_until(self.start + next.begins).await;
            self.round(next.ends).await;
        }
    }

    /// Releases the lease, so that another process can take it at once.
    async fn release(self) {
        let released = self
            .last
            .as_ref()
            .and_then(|last| self.election.released(last));
        if let Some(released) = released
            && let Err(error) = self.client.update(released).await
        {
            tracing::info!(%error, "the lease was not given back and will run out");
        }
    }

    /// Reads the lease, then takes or renews it, and gives up at `ends`; returns whether this process
    /// holds it now.
    async fn round(&mut self, ends: Duration) -> bool {
        let begun = self.start.elapsed();
        let ends = self.start + ends;
        match tokio::time::timeout_at(ends, self.step(begun)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.reason == "Conflict" || error.reason == "AlreadyExists" => {}
            Ok(Err(error)) => tracing::warn!(%error, lease = self.lease, "cannot renew the lease"),
            Err(_) => tracing::warn!(lease = self.lease, "renewing the lease takes too long"),
        }
        self.election.leads(self.start.elapsed())
    }

    async fn step(&mut self, begun: Duration) -> Result<(), Status> {
        let kind = schema::kind("coordination.k8s.io", "v1", "Lease");
        let target = Target {
            kind: kind.expect("the table has leases"),
            namespace: &self.namespace,
            name: &self.lease,
        };
        let found = match self.client.get(target).await {
            Ok(lease) => Some(lease),
            Err(error) if error.reason == "NotFound" => None,
            Err(error) => return Err(error),
        };
        let written = match self.election.step(found.as_ref(), begun, now()) {
            Step::Wait => return Ok(()),
            Step::Create(lease) => self.client.create(lease).await?,
            Step::Update(lease) => self.client.update(lease).await?,
        };
        self.last = Some(written);
        // Counts from before the call: the lease may be older than its response.
        self.election.written(begun);
        Ok(())
    }
}

/// The lease could not be renewed, so another process may be the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostLease;

impl std::fmt::Display for LostLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the lease could not be renewed")
    }
}

impl std::error::Error for LostLease {}

/// The right to work: a held lease, or none for a process without election.
pub struct Mandate(Option<Leader>);

impl Mandate {
    /// Waits until this process may work: with an `identity`, until it holds the lease; without,
    /// not at all. `None` if `stop` completes first.
    pub async fn win(
        client: &Client,
        namespace: &str,
        lease: &str,
        identity: Option<&str>,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Option<Mandate> {
        let Some(identity) = identity else {
            return Some(Mandate(None));
        };
        let leader = tokio::select! {
            () = stop => return None,
            leader = Leader::elected(client.clone(), namespace, lease, identity) => leader,
        };
        tracing::info!(identity, "elected");
        Some(Mandate(Some(leader)))
    }

    /// Runs `work` until it ends or the lease is lost. The lease is released only after the work
    /// was dropped, so that another process starts only when nothing is in flight any more.
    pub async fn hold(self, work: impl Future<Output = ()>) -> Result<(), LostLease> {
        let Mandate(Some(mut leader)) = self else {
            work.await;
            return Ok(());
        };
        tokio::select! {
            () = work => {}
            () = leader.lost() => return Err(LostLease),
        }
        leader.release().await;
        Ok(())
    }
}

/// The wall time.
pub fn now() -> Timestamp {
    let now = jiff::Timestamp::now();
    Timestamp {
        seconds: now.as_second(),
        nanos: u32::try_from(now.subsec_nanosecond()).unwrap_or(0),
    }
}
