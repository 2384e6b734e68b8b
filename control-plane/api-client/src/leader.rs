//! Who of several copies of a program works: the one that holds a Lease and renews it.
//!
//! [`Election::step`] decides, given the lease as it was just read; the caller reads, writes and
//! waits. A lease is over when it has not *changed* for its duration by the caller's own clock,
//! so clocks of different machines are never compared.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::json;

/// How long a lease lasts that is not renewed.
pub const LEASE_SECONDS: u64 = 15;
/// How long the holder tries to renew before it gives up: well before others take over.
pub const RENEW: Duration = Duration::from_secs(10);
/// How long to wait between two tries.
pub const RETRY: Duration = Duration::from_secs(2);

/// One copy's part in the election of a lease.
#[derive(Debug)]
pub struct Election {
    namespace: String,
    lease: String,
    identity: String,
    /// The version of the lease last seen, and when it was first seen.
    seen: Option<(String, Duration)>,
    /// When this copy last renewed, while it holds the lease.
    renewed: Option<Duration>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Create this lease.
    Create(Object),
    /// Replace the lease by this.
    Update(Object),
    /// Wait, and read again: another copy holds it.
    Wait,
}

impl Election {
    /// A copy called `identity`.
    pub fn new(namespace: &str, lease: &str, identity: &str) -> Election {
        Election {
            namespace: namespace.into(),
            lease: lease.into(),
            identity: identity.into(),
            seen: None,
            renewed: None,
        }
    }

    /// What to do, now that the lease was read; `now` counts from any fixed moment.
    pub fn step(&mut self, lease: Option<&Object>, now: Duration, wall: Timestamp) -> Step {
        let Some(lease) = lease else {
            return Step::Create(self.claimed(None, wall));
        };
        let holder = object::text(lease, &["spec", "holderIdentity"]);
        if holder == self.identity {
            return Step::Update(self.claimed(Some(lease), wall));
        }
        self.renewed = None;
        let version = object::resource_version(lease);
        let since = match &self.seen {
            Some((seen, since)) if seen == version => *since,
            _ => {
                self.seen = Some((version.to_owned(), now));
                now
            }
        };
        let seconds = object::integer(lease, &["spec", "leaseDurationSeconds"]);
        let lasts = seconds.and_then(|s| u64::try_from(s).ok());
        let over = since + Duration::from_secs(lasts.unwrap_or(LEASE_SECONDS));
        if holder.is_empty() || now >= over {
            Step::Update(self.claimed(Some(lease), wall))
        } else {
            Step::Wait
        }
    }

    /// The write that a step asked for, begun at `now`, went well.
    pub fn written(&mut self, now: Duration) {
        self.renewed = Some(now);
    }

    /// Whether this copy may work.
    pub fn leads(&self, now: Duration) -> bool {
        self.renewed.is_some_and(|at| now < at + RENEW)
    }

    /// The lease given back, for others to take at once, as it was last read.
    pub fn released(&self, lease: &Object) -> Option<Object> {
        let held = object::text(lease, &["spec", "holderIdentity"]) == self.identity;
        held.then(|| {
            let mut lease = lease.clone();
            object::set(&mut lease, &["spec", "holderIdentity"], "".into());
            object::set(&mut lease, &["spec", "leaseDurationSeconds"], 1.into());
            lease
        })
    }

    fn claimed(&self, lease: Option<&Object>, wall: Timestamp) -> Object {
        let held =
            |lease: &&Object| object::text(lease, &["spec", "holderIdentity"]) == self.identity;
        let mine = lease.is_some_and(|lease| held(&lease));
        let mut object = lease.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"namespace": self.namespace, "name": self.lease},
            })
        });
        let changes = object::integer(&object, &["spec", "leaseTransitions"]).unwrap_or(0);
        let now = wall.to_micros();
        let mut set = |key: &str, value: serde_json::Value| {
            object::set(&mut object, &["spec", key], value);
        };
        set("holderIdentity", self.identity.as_str().into());
        set("leaseDurationSeconds", LEASE_SECONDS.into());
        set("renewTime", now.as_str().into());
        if !mine {
            set("acquireTime", now.as_str().into());
            let changes = changes + i64::from(lease.is_some());
            set("leaseTransitions", changes.into());
        }
        object
    }
}
