//! Bodies of the fuzz targets: each takes any bytes and may never panic.

use crate::bbolt::read::{Database, Error};
use crate::bbolt::seal_metas;
use crate::schema::{Alarm, Lease, RevisionKey, Row};

/// Bytes as a database file, its metas' checksums put right so that what is behind them is
/// reached: reading ends in rows or in an error.
pub fn bbolt_read(data: &[u8]) {
    let mut file = data.to_vec();
    seal_metas(&mut file);
    let Ok(database) = Database::open(&file[..]) else {
        return;
    };
    let whole = database.check().is_ok();
    let Ok(buckets) = database.buckets() else {
        assert!(!whole, "a checked file has buckets");
        return;
    };
    for bucket in buckets {
        let read = database.rows(&bucket, &mut |key, value| {
            let _ = (RevisionKey::decode(key), Row::decode(value));
            let _ = (Alarm::decode(key), Lease::decode(value));
            Ok::<(), Error>(())
        });
        assert!(read.is_ok() || !whole, "a checked file can be read");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_a_database_or_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            super::bbolt_read(&bytes);
            Ok(())
        });
    }
}
