//! `snapshot status`: the content of a database file, and a digest of all its rows.

use std::collections::HashSet;

use etcd_files::bbolt::read::{Database, Error, Source};
use etcd_files::schema::{self, RevisionKey, Row};

use crate::print::Report;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    hash: u32,
    revision: i64,
    total_key: usize,
    total_size: u64,
    version: String,
}

/// Reads and checks the whole file.
pub(crate) fn status<S: Source>(database: &Database<S>) -> Result<Status, Fault> {
    database.check()?;
    let mut status = Status {
        hash: 0,
        revision: 0,
        total_key: 0,
        total_size: database.used_bytes(),
        version: String::new(),
    };
    let mut live: HashSet<Vec<u8>> = HashSet::new();
    for bucket in database.buckets()? {
        status.hash = crc32c::crc32c_append(status.hash, &bucket.name);
        let is_key = bucket.name == schema::KEY.as_bytes();
        let is_meta = bucket.name == schema::META.as_bytes();
        database.rows(&bucket, &mut |key, value| {
            status.hash = crc32c::crc32c_append(status.hash, key);
            status.hash = crc32c::crc32c_append(status.hash, value);
            if is_meta && key == schema::STORAGE_VERSION {
                status.version = String::from_utf8_lossy(value).into_owned();
            }
            if is_key {
                let bad = || Fault(format!("cannot parse revision key: {}", key.escape_ascii()));
                let revision = RevisionKey::decode(key).ok_or_else(bad)?;
                let row = Row::decode(value).ok_or_else(bad)?;
                status.revision = revision.main;
                if revision.tombstone {
                    live.remove(row.key)
                } else {
                    !live.contains(row.key) && live.insert(row.key.to_vec())
                };
            }
            Ok::<(), Fault>(())
        })?;
    }
    status.total_key = live.len();
    Ok(status)
}

/// Why a file cannot be reported on.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) String);

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Io(error) => Fault(error.to_string()),
            damaged => Fault(format!(
                "snapshot file integrity check failed. 1 errors found.\n{damaged}"
            )),
        }
    }
}

impl Report for Status {
    fn table(&self) -> Vec<(&'static str, String)> {
        vec![
            ("hash", format!("{:x}", self.hash)),
            ("revision", self.revision.to_string()),
            ("total keys", self.total_key.to_string()),
            ("total size", humanized(self.total_size)),
            ("version", self.version.clone()),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Hash", self.hash.to_string()),
            ("Revision", self.revision.to_string()),
            ("Keys", self.total_key.to_string()),
            ("Size", self.total_size.to_string()),
            ("Version", self.version.clone()),
        ]
    }

    fn json(&self) -> String {
        format!(
            "{{\"hash\":{},\"revision\":{},\"totalKey\":{},\"totalSize\":{},\"version\":{:?}}}",
            self.hash, self.revision, self.total_key, self.total_size, self.version
        )
    }
}

/// Bytes with decimal units, one decimal place below ten: `9.8 MB`, `20 kB`.
pub fn humanized(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let power = bytes.ilog10() / 3;
    let scale = 10f64.powi(3 * power as i32);
    let value = (bytes as f64 / scale * 10.0 + 0.5).floor() / 10.0;
    let unit = UNITS[power as usize];
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_from_etcdutl() {
        let read = [
            (0, "0 B"),
            (9, "9 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (20480, "20 kB"),
            (9_950_000, "10 MB"),
            (82_854_982, "83 MB"),
            (1_234_567_890, "1.2 GB"),
        ];
        for (bytes, text) in read {
            assert_eq!(humanized(bytes), text);
        }
    }
}
