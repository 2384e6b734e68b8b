//! The authorization of one log request, for all operations in it.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;

use super::{Image, Kind};
use crate::basics::error::Error;
use crate::request::{AuthInfo, Request};

/// The first key attached to a lease that is not less than the given one. None if the lease does
/// not exist.
type FirstKey<'a> = dyn Fn(i64, &[u8]) -> Result<Option<Vec<u8>>, Error> + 'a;

pub(crate) type Denied = Error;

/// Checks that `by` may do everything the request asks for, in etcd's order, so that a request with
/// two faults gets the same error. For a transaction both branches are checked.
pub(crate) fn authorize(
    image: &Image,
    by: &AuthInfo,
    request: &Request,
    first_key: &FirstKey<'_>,
) -> Result<(), Denied> {
    if !image.enabled {
        return Ok(());
    }
    let decision = Decision {
        image,
        by,
        first_key,
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
        first_key: &|_, _| Ok(None),
    };
    decision.txn(txn)
}

/// Checks that `by` may do `kind` with all keys of a lease. `first_key` looks for the first one
/// that is not less than the given key.
///
/// A lease may have any number of keys, and every put to it asks this, also when it is applied. So
/// keys are skipped up to the end of the permission that covers the one found, and root's are not
/// looked up at all.
pub fn check_lease_keys(
    image: &Image,
    by: &AuthInfo,
    kind: Kind,
    first_key: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, Error>,
) -> Result<(), Denied> {
    if image.check_admin(Some(by)).is_ok() {
        return Ok(());
    }
    let mut from = &b""[..];
    while let Some(key) = first_key(from)? {
        from = image.check_from(by, kind, &key)?;
        if from.is_empty() {
            break;
        }
    }
    Ok(())
}

/// The same for keys that another member has told, in any order.
pub fn check_told_keys(
    image: &Image,
    by: &AuthInfo,
    kind: Kind,
    keys: &[Bytes],
) -> Result<(), Denied> {
    if image.check_admin(Some(by)).is_ok() {
        return Ok(());
    }
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
    first_key: &'a FirstKey<'a>,
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
        check_lease_keys(self.image, self.by, Kind::Write, |from| {
            (self.first_key)(lease, from)
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
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::ops::Bound;

    use arbtest::arbitrary::{self, Unstructured};
    use etcd_api::authpb;

    use super::*;

    const REVISION: u64 = 2;

    /// Begin and end.
    type Range = (Vec<u8>, Vec<u8>);
    type Texts<'a> = &'a [(&'a str, &'a str)];

    /// Root, and a user who may write these ranges.
    fn image(ranges: &[Range]) -> Image {
        let user = |name: &str, role: &str| authpb::User {
            name: name.to_owned().into(),
            roles: vec![role.to_owned()],
            ..Default::default()
        };
        let permissions = ranges.iter().map(|(key, range_end)| authpb::Permission {
            perm_type: authpb::permission::Type::Write as i32,
            key: Bytes::copy_from_slice(key),
            range_end: Bytes::copy_from_slice(range_end),
        });
        let role = authpb::Role {
            name: Bytes::from_static(b"r"),
            key_permission: permissions.collect(),
        };
        let users = vec![user("root", "root"), user("other", "r")];
        Image::new(true, REVISION, users, vec![role])
    }

    fn by(user: &str) -> AuthInfo {
        AuthInfo {
            user: user.to_owned(),
            revision: REVISION,
        }
    }

    /// The keys of a lease, and how often one was looked for.
    struct Lease {
        keys: BTreeSet<Vec<u8>>,
        looks: Cell<usize>,
    }

    impl Lease {
        fn new(keys: impl IntoIterator<Item = Vec<u8>>) -> Lease {
            Lease {
                keys: keys.into_iter().collect(),
                looks: Cell::new(0),
            }
        }

        fn check(&self, image: &Image, by: &AuthInfo, kind: Kind) -> Result<(), Denied> {
            check_lease_keys(image, by, kind, |from| {
                self.looks.set(self.looks.get() + 1);
                let rest = (Bound::Included(from), Bound::Unbounded);
                Ok(self.keys.range::<[u8], _>(rest).next().cloned())
            })
        }
    }

    fn ranges(ranges: Texts<'_>) -> Vec<Range> {
        let owned = ranges
            .iter()
            .map(|(key, end)| (key.as_bytes().to_vec(), end.as_bytes().to_vec()));
        owned.collect()
    }

    fn lease(keys: &[&str]) -> Lease {
        Lease::new(keys.iter().map(|key| key.as_bytes().to_vec()))
    }

    #[test]
    fn keys_of_leases_are_not_looked_up_for_root() {
        let image = image(&[]);
        let lease = lease(&["a"]);
        for revision in [0, 1, REVISION] {
            let root = AuthInfo {
                revision,
                ..by("root")
            };
            assert_eq!(lease.check(&image, &root, Kind::Read), Ok(()));
        }
        assert_eq!(lease.looks.get(), 0);
    }

    #[test]
    fn a_lease_is_permitted_if_none_of_its_keys_is_in_a_gap() {
        let neighbours = &[("a", "c"), ("c", "e")][..];
        let apart = &[("a", "c"), ("d", "f")][..];
        let nested = &[("a", "z"), ("b", "c"), ("b", "")][..];
        let cases: [(Texts<'_>, &[&str], bool); 24] = [
            (&[], &[], true),
            (&[], &["a"], false),
            (&[("b", "d")], &[], true),
            (&[("b", "d")], &["b", "c", "cz"], true),
            (&[("b", "d")], &["a", "c"], false),
            (&[("b", "d")], &["az"], false),
            (&[("b", "d")], &["b", "d"], false),
            (&[("b", "d")], &["c", "z"], false),
            (&[("b", "")], &["b"], true),
            (&[("b", "")], &["b", "b\0"], false),
            (&[("b", "")], &["a", "b"], false),
            (neighbours, &["a", "bz", "c", "dz"], true),
            (neighbours, &["a", "e"], false),
            (apart, &["a", "bz", "d", "ez"], true),
            (apart, &["a", "c", "d"], false),
            (apart, &["a", "cz", "d"], false),
            (apart, &["a", "d", "f"], false),
            (nested, &["a", "b", "bz", "c", "y"], true),
            (nested, &["a", "b", "z"], false),
            (&[("m", "\0")], &["m", "zz"], true),
            (&[("m", "\0")], &["lz", "m"], false),
            (&[("a", ""), ("m", "\0")], &["a", "m"], true),
            (&[("a", ""), ("m", "\0")], &["a", "b", "m"], false),
            (&[("\0", "\0")], &["\0", "a", "zz"], true),
        ];
        for (permitted, keys, expected) in cases {
            let said = lease(keys).check(&image(&ranges(permitted)), &by("other"), Kind::Write);
            let denied = Err(Error::PermissionDenied);
            let expected = if expected { Ok(()) } else { denied };
            assert_eq!(said, expected, "{permitted:?} {keys:?}");
        }
    }

    #[test]
    fn who_asks_counts_only_if_the_lease_has_keys() {
        let image = image(&ranges(&[("a", "b")]));
        let old = AuthInfo {
            revision: REVISION - 1,
            ..by("other")
        };
        let cases = [
            (AuthInfo::default(), Error::UserEmpty),
            (old, Error::AuthOldRevision),
            (by("nobody"), Error::PermissionDenied),
        ];
        for (by, error) in cases {
            assert_eq!(lease(&[]).check(&image, &by, Kind::Write), Ok(()));
            assert_eq!(lease(&["a"]).check(&image, &by, Kind::Write), Err(error));
        }
        let reads = lease(&["a"]).check(&image, &by("other"), Kind::Read);
        assert_eq!(reads, Err(Error::PermissionDenied));
        let damaged = || Error::Damaged("a page".to_owned());
        let unread = check_lease_keys(&image, &by("other"), Kind::Write, |_| Err(damaged()));
        assert_eq!(unread, Err(damaged()));
    }

    /// Neither the keys of a permission are looked at one by one, nor the permissions without keys.
    #[test]
    fn a_look_at_a_lease_is_taken_for_each_permission_that_has_keys_of_it() {
        let name = |i: usize| format!("k/{i:05}").into_bytes();
        let many = Lease::new((0..10_000).map(name));
        let looks = |lease: &Lease, ranges: &[Range], expected: Result<(), Error>| {
            lease.looks.set(0);
            let said = lease.check(&image(ranges), &by("other"), Kind::Write);
            assert_eq!(said, expected, "{} ranges", ranges.len());
            lease.looks.get()
        };
        let denied = || Err(Error::PermissionDenied);
        assert_eq!(looks(&many, &[], denied()), 1);
        assert_eq!(looks(&many, &ranges(&[("k/", "k0")]), Ok(())), 2);
        assert_eq!(looks(&many, &ranges(&[("k/", "\0")]), Ok(())), 1);
        let apart = ranges(&[("a", "b"), ("k/0", "k/00500"), ("k/00500", "k0")]);
        assert_eq!(looks(&many, &apart, Ok(())), 3);
        let gap = ranges(&[("k/0", "k/00500"), ("k/00501", "k0")]);
        assert_eq!(looks(&many, &gap, denied()), 2);
        let fine: Vec<Range> = (0..1000).map(|i| (name(2 * i), name(2 * i + 1))).collect();
        let few = Lease::new([0, 1000, 1998].map(name));
        assert_eq!(looks(&few, &fine, Ok(())), 4);
    }

    fn short_key(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
        let len = u.int_in_range(1..=2)?;
        (0..len)
            .map(|_| Ok(b'a' + u.int_in_range(0..=4)?))
            .collect()
    }

    /// The rule without a tree: every key has to be in a range.
    fn simple(ranges: &[Range], by: &AuthInfo, kind: Kind, keys: &[Bytes]) -> Result<(), Denied> {
        if by.user == "root" {
            return Ok(());
        }
        let has = |key: &[u8], (begin, end): &Range| match &end[..] {
            [] => key == begin,
            [0] => key >= &begin[..],
            end => key >= &begin[..] && key < end,
        };
        keys.iter().try_for_each(|key| match by.revision {
            0 => Err(Error::UserEmpty),
            1 => Err(Error::AuthOldRevision),
            _ if by.user == "other"
                && kind == Kind::Write
                && ranges.iter().any(|range| has(key, range)) =>
            {
                Ok(())
            }
            _ => Err(Error::PermissionDenied),
        })
    }

    #[test]
    fn a_lease_is_judged_as_each_of_its_keys_would_be() {
        arbtest::arbtest(|u| {
            let mut ranges = Vec::new();
            for _ in 0..u.int_in_range(0..=8)? {
                let end = match u.int_in_range(0..=7)? {
                    0 => Vec::new(),
                    1 => vec![0],
                    _ => short_key(u)?,
                };
                // Also such as end before they begin: rows of an old store may have them.
                ranges.push((short_key(u)?, end));
            }
            let image = image(&ranges);
            let mut keys = BTreeSet::new();
            for _ in 0..u.int_in_range(0..=6)? {
                keys.insert(short_key(u)?);
            }
            let lease = Lease::new(keys);
            let mut keys: Vec<Bytes> = lease.keys.iter().cloned().map(Bytes::from).collect();
            for user in ["root", "other", "nobody"] {
                let revision = match u.int_in_range(0..=5)? {
                    revision @ 0..=1 => revision,
                    _ => REVISION,
                };
                let by = AuthInfo {
                    revision,
                    ..by(user)
                };
                for kind in [Kind::Read, Kind::Write] {
                    let expected = simple(&ranges, &by, kind, &keys);
                    lease.looks.set(0);
                    assert_eq!(
                        lease.check(&image, &by, kind),
                        expected,
                        "{by:?} {ranges:?}"
                    );
                    assert!(lease.looks.get() <= keys.len().min(ranges.len()) + 1);
                    keys.reverse();
                    assert_eq!(check_told_keys(&image, &by, kind, &keys), expected);
                }
            }
            Ok(())
        });
    }
}
