//! Counts operations on keys as etcd's metrics do.

use std::ops::AddAssign;

use etcd_api::etcdserverpb as pb;

/// Operations on keys. Operations inside a transaction count like single ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub ranges: u64,
    pub puts: u64,
    pub deletes: u64,
    /// Transactions with more than one operation on keys.
    pub txns: u64,
    /// Bytes of the keys and values of the puts.
    pub put_bytes: u64,
}

impl Tally {
    pub fn range(&mut self) {
        self.ranges += 1;
    }

    pub fn put(&mut self, request: &pb::PutRequest) {
        // A put reads its key only if the request needs the previous value.
        if request.prev_kv || request.ignore_value || request.ignore_lease {
            self.ranges += 1;
        }
        self.puts += 1;
        self.put_bytes += (request.key.len() + request.value.len()) as u64;
    }

    pub fn delete_range(&mut self, request: &pb::DeleteRangeRequest) {
        if request.prev_kv {
            self.ranges += 1;
        }
        self.deletes += 1;
    }

    /// Counts an operation that is on its own, not part of a transaction.
    pub fn lone(&mut self, count: impl FnOnce(&mut Tally)) {
        let mut tally = Tally::default();
        count(&mut tally);
        tally.end(self);
    }

    /// A revoked lease deletes its keys as one transaction would.
    pub fn revoke(&mut self, deletes: u64) {
        self.lone(|tally| tally.deletes = deletes);
    }

    /// Ends one store transaction: more than one operation counts as a transaction.
    pub fn end(self, total: &mut Tally) {
        let operations = self.ranges + self.puts + self.deletes;
        *total += self;
        total.txns += u64::from(operations > 1);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.ranges += other.ranges;
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.txns += other.txns;
        self.put_bytes += other.put_bytes;
    }
}
