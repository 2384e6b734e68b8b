//! The content of etcd's database, row by row.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | alarm | `AlarmMember` | nothing |
//! | auth, authRoles, authUsers | names | `authEnabled`, `authRevision`; `Role`; `User` |
//! | cluster | `clusterVersion`, `downgrade` | text, JSON |
//! | key | revision key | `KeyValue` |
//! | lease | id, 8 bytes | `Lease` |
//! | members, members_removed | id in hex | JSON; `removed` |
//! | meta | `consistent_index`, `term`, `confState`, `storageVersion`, the compact revisions | below |
//!
//! ```text
//! revision key   main i64 | '_' | sub i64 | 't' on a tombstone only; numbers big endian
//! KeyValue       protobuf, fields ascending, zero fields left out; a tombstone has only its key
//! ```

use std::fmt::Write;

use crate::proto::{self, field_bytes, int_bytes, put_bytes_head, put_int};

pub const ALARM: &str = "alarm";
pub const AUTH: &str = "auth";
pub const AUTH_ROLES: &str = "authRoles";
pub const AUTH_USERS: &str = "authUsers";
pub const CLUSTER: &str = "cluster";
pub const KEY: &str = "key";
pub const LEASE: &str = "lease";
pub const MEMBERS: &str = "members";
pub const MEMBERS_REMOVED: &str = "members_removed";
pub const META: &str = "meta";

/// All buckets, in the order they have in a file.
pub const BUCKETS: [&str; 10] = [
    ALARM,
    AUTH,
    AUTH_ROLES,
    AUTH_USERS,
    CLUSTER,
    KEY,
    LEASE,
    MEMBERS,
    MEMBERS_REMOVED,
    META,
];

// Keys of the bucket `meta`, in their order.
pub const CONF_STATE: &[u8] = b"confState";
pub const CONSISTENT_INDEX: &[u8] = b"consistent_index";
pub const FINISHED_COMPACT_REVISION: &[u8] = b"finishedCompactRev";
pub const SCHEDULED_COMPACT_REVISION: &[u8] = b"scheduledCompactRev";
pub const STORAGE_VERSION: &[u8] = b"storageVersion";
pub const TERM: &[u8] = b"term";

/// Length of a revision key without the tombstone mark.
pub const REVISION_KEY_BYTES: usize = 17;
const TOMBSTONE_MARK: u8 = b't';

/// A key at one revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevisionKey {
    pub main: i64,
    pub sub: i64,
    pub tombstone: bool,
}

impl RevisionKey {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.main.to_be_bytes());
        out.push(b'_');
        out.extend_from_slice(&self.sub.to_be_bytes());
        if self.tombstone {
            out.push(TOMBSTONE_MARK);
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<RevisionKey> {
        let (number, mark) = bytes.split_first_chunk::<REVISION_KEY_BYTES>()?;
        let (main, sub) = number.split_first_chunk::<8>()?;
        let (b'_', sub) = sub.split_first()? else {
            return None;
        };
        let tombstone = match mark {
            [] => false,
            [TOMBSTONE_MARK] => true,
            _ => return None,
        };
        Some(RevisionKey {
            main: i64::from_be_bytes(*main),
            sub: i64::from_be_bytes(sub.try_into().ok()?),
            tombstone,
        })
    }

    /// The encoding of `scheduledCompactRev` and `finishedCompactRev`.
    pub fn of_compaction(main: i64) -> RevisionKey {
        RevisionKey {
            main,
            sub: 0,
            tombstone: false,
        }
    }
}

impl<'a> Row<'a> {
    /// Everything of a `KeyValue` before the value's own bytes.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        put_bytes_head(out, 1, self.key);
        out.extend_from_slice(self.key);
        put_int(out, 2, self.create_revision);
        put_int(out, 3, self.mod_revision);
        put_int(out, 4, self.version);
        put_bytes_head(out, 5, self.value);
    }

    /// Everything after the value's bytes.
    pub fn encode_tail(&self, out: &mut Vec<u8>) {
        put_int(out, 6, self.lease);
    }

    /// Bytes of the whole, if the value has so many.
    pub fn encoded_bytes(&self, value: usize) -> usize {
        let numbers = [
            self.create_revision,
            self.mod_revision,
            self.version,
            self.lease,
        ];
        let numbers: usize = numbers.into_iter().map(int_bytes).sum();
        field_bytes(self.key.len()) + numbers + field_bytes(value)
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Row<'a>> {
        let mut row = Row::default();
        proto::fields(bytes, |field, value| {
            match field {
                1 => row.key = value.bytes()?,
                2 => row.create_revision = value.varint()? as i64,
                3 => row.mod_revision = value.varint()? as i64,
                4 => row.version = value.varint()? as i64,
                5 => row.value = value.bytes()?,
                6 => row.lease = value.varint()? as i64,
                _ => {}
            }
            Some(())
        })?;
        Some(row)
    }
}

/// A row of the bucket `lease`; its key is the id in 8 bytes, big endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub id: i64,
    pub ttl: i64,
    /// 0 means the full TTL.
    pub remaining_ttl: i64,
}

impl Lease {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_int(&mut out, 1, self.id);
        put_int(&mut out, 2, self.ttl);
        put_int(&mut out, 3, self.remaining_ttl);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Lease> {
        let mut lease = Lease::default();
        proto::fields(bytes, |field, value| {
            match field {
                1 => lease.id = value.varint()? as i64,
                2 => lease.ttl = value.varint()? as i64,
                3 => lease.remaining_ttl = value.varint()? as i64,
                _ => {}
            }
            Some(())
        })?;
        Some(lease)
    }
}

/// A key of the bucket `alarm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarm {
    pub member: u64,
    /// 1: no space, 2: corrupt.
    pub kind: i32,
}

impl Alarm {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_int(&mut out, 1, self.member as i64);
        put_int(&mut out, 2, i64::from(self.kind));
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Alarm> {
        let mut alarm = Alarm::default();
        proto::fields(bytes, |field, value| {
            match field {
                1 => alarm.member = value.varint()?,
                2 => alarm.kind = value.varint()? as i32,
                _ => {}
            }
            Some(())
        })?;
        Some(alarm)
    }
}

/// The JSON of `meta/confState`.
pub fn conf_state(voters: &[u64], learners: &[u64]) -> String {
    let list = |ids: &[u64]| {
        let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
        ids.join(",")
    };
    let mut out = format!("{{\"voters\":[{}],", list(voters));
    if !learners.is_empty() {
        let _ = write!(out, "\"learners\":[{}],", list(learners));
    }
    out.push_str("\"auto_leave\":false}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_keys_are_read_back_and_anything_else_is_refused() {
        for tombstone in [false, true] {
            let key = RevisionKey {
                main: 0x0102_0304_0506_0708,
                sub: 9,
                tombstone,
            };
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            assert_eq!(bytes.len(), REVISION_KEY_BYTES + usize::from(tombstone));
            assert_eq!(RevisionKey::decode(&bytes), Some(key));
            assert_eq!(RevisionKey::decode(&bytes[..16]), None);
            bytes.push(b'x');
            assert_eq!(RevisionKey::decode(&bytes), None);
        }
    }

    #[test]
    fn rows_are_read_back() {
        let row = Row {
            key: b"k",
            value: b"value",
            create_revision: 2,
            mod_revision: 300,
            version: 3,
            lease: -5,
        };
        let mut bytes = Vec::new();
        row.encode_head(&mut bytes);
        bytes.extend_from_slice(row.value);
        row.encode_tail(&mut bytes);
        assert_eq!(Row::decode(&bytes), Some(row));
        assert_eq!(row.encoded_bytes(row.value.len()), bytes.len());
        assert_eq!(Row::decode(b""), Some(Row::default()));
        assert_eq!(Row::decode(&bytes[..4]), None);
    }

    #[test]
    fn the_length_of_a_row_is_known_without_its_value() {
        let value = vec![0; 1 << 14];
        for length in [0, 1, 127, 128, (1 << 14) - 1, 1 << 14] {
            for number in [0, 1, 127, 128, i64::MAX, -1] {
                let row = Row {
                    key: &value[..length],
                    value: &value[..length],
                    create_revision: number,
                    mod_revision: number,
                    version: number,
                    lease: number,
                };
                let mut bytes = Vec::new();
                row.encode_head(&mut bytes);
                bytes.extend_from_slice(row.value);
                row.encode_tail(&mut bytes);
                let without = Row { value: b"", ..row };
                assert_eq!(without.encoded_bytes(length), bytes.len());
            }
        }
    }

    #[test]
    fn leases_alarms_and_conf_states_have_etcds_form() {
        let lease = Lease {
            id: 0x390d_a1fb_b0ce_5208,
            ttl: 60,
            remaining_ttl: 0,
        };
        assert_eq!(Lease::decode(&lease.encode()), Some(lease));
        let alarm = Alarm {
            member: u64::MAX,
            kind: 1,
        };
        assert_eq!(Alarm::decode(&alarm.encode()), Some(alarm));
        assert_eq!(
            conf_state(&[1, 18446744073709551615], &[]),
            "{\"voters\":[1,18446744073709551615],\"auto_leave\":false}"
        );
        assert_eq!(
            conf_state(&[1], &[2]),
            "{\"voters\":[1],\"learners\":[2],\"auto_leave\":false}"
        );
    }
}
