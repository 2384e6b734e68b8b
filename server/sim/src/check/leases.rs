//! A lease ends neither before its time nor never: from the latest renewal that was acknowledged,
//! counted from when it was asked for, its keys stay for the granted time, as a clock as fast as
//! any of the members' counts it; and once nobody renews it and the cluster is well, it goes.

use std::collections::BTreeMap;

use super::Verdict;

const SECOND: u64 = 1_000_000_000;

#[derive(Debug)]
struct Lease {
    ttl: u64,
    /// When the latest acknowledged grant or renewal was asked for.
    renewed_at: u64,
    /// A client asked for its revocation: it may end at any time.
    revoked: bool,
    ended_at: Option<u64>,
}

#[derive(Debug)]
pub struct Leases {
    leases: BTreeMap<i64, Lease>,
    /// Parts in a million of the fastest clock's speed.
    fastest: u64,
    expired: u64,
}

impl Leases {
    pub fn new(fastest: u64) -> Leases {
        Leases {
            leases: BTreeMap::new(),
            fastest,
            expired: 0,
        }
    }

    /// The log has the beginning of a lease; an earlier one of that name has ended.
    pub fn begins(&mut self, id: i64, ttl_seconds: i64) {
        // A revocation of an earlier lease of that name may still be on its way.
        let revoked = self.leases.get(&id).is_some_and(|earlier| earlier.revoked);
        let lease = Lease {
            ttl: ttl_seconds as u64 * SECOND,
            renewed_at: 0,
            revoked,
            ended_at: None,
        };
        self.leases.insert(id, lease);
    }

    /// A grant, or a keep-alive, was answered with a time to live.
    pub fn renewed(&mut self, id: i64, asked_at: u64) -> Verdict {
        let Some(lease) = self.leases.get_mut(&id) else {
            return Ok(());
        };
        lease.renewed_at = lease.renewed_at.max(asked_at);
        self.judge(id)
    }

    /// A keep-alive asked for at `asked_at` was told that there is no such lease. It may have run
    /// out, and not be revoked yet; and it may have been granted since.
    pub fn is_gone(&self, id: i64, asked_at: u64, now: u64) -> Verdict {
        let Some(lease) = self.leases.get(&id) else {
            return Ok(());
        };
        let is_over = now >= lease.renewed_at + self.shortest(lease);
        if lease.revoked || is_over || lease.renewed_at > asked_at {
            return Ok(());
        }
        Err(format!(
            "lease {id:x} of {} s, renewed by who asked at {} ms, is said to be gone at {} ms",
            lease.ttl / SECOND,
            lease.renewed_at / 1_000_000,
            now / 1_000_000
        ))
    }

    pub fn revokes(&mut self, id: i64) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.revoked = true;
        }
    }

    /// Some member applied the end of this lease, the first one to do so.
    pub fn ended(&mut self, id: i64, now: u64) -> Verdict {
        let Some(lease) = self.leases.get_mut(&id) else {
            return Ok(());
        };
        if lease.ended_at.is_none() {
            lease.ended_at = Some(now);
            self.expired += u64::from(!lease.revoked);
        }
        self.judge(id)
    }

    fn judge(&self, id: i64) -> Verdict {
        let lease = &self.leases[&id];
        let ttl = self.shortest(lease);
        match lease.ended_at {
            Some(ended_at) if !lease.revoked && ended_at < lease.renewed_at + ttl => Err(format!(
                "lease {id:x} of {} s, renewed by who asked at {} ms, ended at {} ms",
                lease.ttl / SECOND,
                lease.renewed_at / 1_000_000,
                ended_at / 1_000_000
            )),
            _ => Ok(()),
        }
    }

    /// Nanoseconds for which it lasts by the fastest clock.
    fn shortest(&self, lease: &Lease) -> u64 {
        lease.ttl / self.fastest * 1_000_000
    }

    /// The cluster has been well, and nobody renewed anything, for longer than any lease lasts.
    /// `left` are those that some member still has.
    pub fn at_rest(&self, host: usize, left: &[i64]) -> Verdict {
        match left {
            [] => Ok(()),
            left => Err(format!("host {host} keeps leases for ever: {left:x?}")),
        }
    }

    pub fn expired(&self) -> u64 {
        self.expired
    }
}
