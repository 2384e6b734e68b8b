//! Leader election: of several copies of a program, the one that holds and renews a Lease works.
//!
//! [`Election::step`] decides, given the lease as it was just read; the caller reads, writes and
//! waits. A lease is expired if it has not *changed* for its duration by the caller's own clock,
//! so clocks of different machines are never compared.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::json;

/// Duration of a lease, in seconds.
pub const LEASE_SECONDS: u64 = 15;
/// How long the holder tries to renew before it gives up: shorter than the lease's duration.
pub const RENEW: Duration = Duration::from_secs(10);
/// Delay between two attempts.
pub const RETRY: Duration = Duration::from_secs(2);
/// Limit for one attempt.
pub const ATTEMPT: Duration = Duration::from_secs(LEASE_SECONDS / 3);

/// The state of one process in an election.
#[derive(Debug)]
pub struct Election {
    namespace: String,
    lease: String,
    identity: String,
    /// The version of the lease last seen, and when this version was first seen.
    seen: Option<(String, Duration)>,
    /// When this process last renewed, while it holds the lease.
    renewed: Option<Duration>,
}

/// An attempt to renew the lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// When it begins.
    pub begins: Duration,
    /// When it is given up.
    pub ends: Duration,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Create the lease with this content.
    Create(Object),
    /// Replace the lease with this.
    Update(Object),
    /// Wait and read again: another process holds the lease.
    Wait,
}

impl Election {
    /// A process named `identity`.
    pub fn new(namespace: &str, lease: &str, identity: &str) -> Election {
        Election {
            namespace: namespace.into(),
            lease: lease.into(),
            identity: identity.into(),
            seen: None,
            renewed: None,
        }
    }

    /// The next step after reading the lease; `now` counts from any fixed moment.
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

    /// The write of a step, begun at `now`, succeeded.
    pub fn written(&mut self, now: Duration) {
        self.renewed = Some(now);
    }

    /// True if this process may work.
    pub fn leads(&self, now: Duration) -> bool {
        self.next_attempt(now).is_some()
    }

    /// The next attempt of a process that may work. It ends before the right to work does: if it
    /// hung for longer, the lease could run out meanwhile, and another process would work, too.
    pub fn next_attempt(&self, now: Duration) -> Option<Attempt> {
        let until = self.renewed? + RENEW;
        let begins = (now + RETRY).min(until);
        let ends = (begins + ATTEMPT).min(until);
        (now < until).then_some(Attempt { begins, ends })
    }

    /// The last read lease, released so that others can take it at once; `None` if not held.
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
