//! The authorization of one log request, for all operations in it.

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;

use super::{Image, Kind};
use crate::basics::error::Error;
use crate::request::{AuthInfo, Request};

/// The keys attached to a lease; empty if the lease does not exist.
type LeaseKeys<'a> = dyn Fn(i64) -> Result<Vec<bytes::Bytes>, Error> + 'a;

pub(crate) type Denied = Error;

/// Checks that `by` may do everything the request asks for, in etcd's order, so that a request with
/// two faults gets the same error. For a transaction both branches are checked.
pub(crate) fn authorize(
    image: &Image,
    by: &AuthInfo,
    request: &Request,
    lease_keys: &LeaseKeys<'_>,
) -> Result<(), Denied> {
    if !image.enabled {
        return Ok(());
    }
    let decision = Decision {
        image,
        by,
        lease_keys,
    };
    match request {
        Request::Put(put) => decision.put(put),
        Request::DeleteRange(delete) => {
            decision.may(Kind::Write, &delete.key, &delete.range_end)?;
            if delete.prev_kv {
                decision.may(Kind::Read, &delete.key, &delete.range_end)
            } else {
                Ok(())
            }
        }
        Request::Txn(txn) => decision.txn(txn),
        Request::LeaseRevoke(revoke) => decision.lease_puts(revoke.id),
        Request::Auth(_) => image.check_admin(Some(by)),
        // The service checks who may call these; etcd does not check them when it applies.
        Request::Compaction(_)
        | Request::LeaseGrant(_)
        | Request::LeaseCheckpoint(_)
        | Request::Alarm(_)
        | Request::Authenticate(_)
        | Request::ClusterVersionSet(_)
        | Request::ClusterMemberAttrSet(_)
        | Request::DowngradeInfoSet(_)
        | Request::Read => Ok(()),
    }
}

/// The same check for a read-only transaction, which never becomes a log entry.
pub fn check_txn(image: &Image, by: &AuthInfo, txn: &pb::TxnRequest) -> Result<(), Denied> {
    let decision = Decision {
        image,
        by,
        lease_keys: &|_| Ok(Vec::new()),
    };
    decision.txn(txn)
}

/// Checks that `by` may do `kind` with all keys of a lease. For root they are not looked up: a
/// lease may have any number of keys, and root asks about all leases at once.
pub fn check_lease_keys<K: AsRef<[bytes::Bytes]>>(
    image: &Image,
    by: &AuthInfo,
    kind: Kind,
    keys: impl FnOnce() -> Result<K, Error>,
) -> Result<(), Denied> {
    if image.check_admin(Some(by)).is_ok() {
        return Ok(());
    }
    let keys = keys()?;
    let keys = keys.as_ref();
    keys.iter()
        .try_for_each(|key| image.check(by, kind, key, b""))
}

/// Checks that `by` may create this watch.
pub fn may_watch(
    image: &Image,
    by: &AuthInfo,
    create: &pb::WatchCreateRequest,
) -> Result<(), Denied> {
    // An empty key means the first key.
    let key = if create.key.is_empty() {
        &b"\0"[..]
    } else {
        &create.key
    };
    image.check(by, Kind::Read, key, &create.range_end)
}

/// The reason that the client of a refused watch is told. etcd distinguishes only these errors and
/// permission denied.
pub fn watch_refusal(error: &Error) -> String {
    let error = match error {
        Error::InvalidAuthToken | Error::AuthOldRevision | Error::UserEmpty => error,
        _ => &Error::PermissionDenied,
    };
    format!("rpc error: code = {:?} desc = {error}", error.code())
}

struct Decision<'a> {
    image: &'a Image,
    by: &'a AuthInfo,
    lease_keys: &'a LeaseKeys<'a>,
}

impl Decision<'_> {
    fn may(&self, kind: Kind, key: &[u8], range_end: &[u8]) -> Result<(), Denied> {
        self.image.check(self.by, kind, key, range_end)
    }

    fn put(&self, put: &pb::PutRequest) -> Result<(), Denied> {
        self.may(Kind::Write, &put.key, b"")?;
        // A user who may not revoke the lease must not attach a key to it either.
        self.lease_puts(put.lease)?;
        if put.prev_kv {
            self.may(Kind::Read, &put.key, b"")
        } else {
            Ok(())
        }
    }

    fn lease_puts(&self, lease: i64) -> Result<(), Denied> {
        if lease == 0 {
            return Ok(());
        }
        check_lease_keys(self.image, self.by, Kind::Write, || {
            (self.lease_keys)(lease)
        })
    }

    fn txn(&self, txn: &pb::TxnRequest) -> Result<(), Denied> {
        for compare in &txn.compare {
            self.may(Kind::Read, &compare.key, &compare.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match &op.request {
                Some(Op::RequestRange(range)) => {
                    self.may(Kind::Read, &range.key, &range.range_end)?;
                }
                Some(Op::RequestPut(put)) => self.put(put)?,
                Some(Op::RequestDeleteRange(delete)) => {
                    // In the opposite order of a delete outside a transaction.
                    if delete.prev_kv {
                        self.may(Kind::Read, &delete.key, &delete.range_end)?;
                    }
                    self.may(Kind::Write, &delete.key, &delete.range_end)?;
                }
                Some(Op::RequestTxn(nested)) => self.txn(nested)?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use etcd_api::authpb;

    use super::*;

    #[test]
    fn keys_of_leases_are_not_looked_up_for_root() {
        let user = |name: &str, role: &str| authpb::User {
            name: name.to_owned().into(),
            roles: vec![role.to_owned()],
            ..Default::default()
        };
        let users = vec![user("root", "root"), user("other", "none")];
        let image = Image::new(true, 2, users, Vec::new());
        let check = |name: &str, keys: &dyn Fn() -> Result<Vec<Bytes>, Error>| {
            let by = AuthInfo {
                user: name.to_owned(),
                revision: 2,
            };
            check_lease_keys(&image, &by, Kind::Read, keys)
        };
        assert_eq!(check("root", &|| panic!("they are looked up")), Ok(()));
        assert_eq!(check("other", &|| Ok(Vec::new())), Ok(()));
        let one = check("other", &|| Ok(vec![Bytes::from_static(b"a")]));
        assert_eq!(one, Err(Error::PermissionDenied));
    }
}
