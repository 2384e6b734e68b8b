//! Bodies of the fuzz targets: each takes any bytes and must never panic.

use std::io;

use crate::bbolt::read::{Database, Error};
use crate::bbolt::seal_metas;
use crate::bbolt::write::{Content, Layout, RowSink};
use crate::schema::{Alarm, Lease, RevisionKey, Row};

/// Factor for positions in a program of damage, so that two bytes reach every page.
const STRIDE: usize = 3;

/// Takes bytes as a database file; then as damage to a good one, in threes: a position (2 bytes)
/// and the bits to flip there.
pub fn bbolt_read(data: &[u8]) {
    read_anything(data.to_vec());
    let mut file = small_file();
    for damage in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) * STRIDE % file.len();
        file[at] ^= damage[2];
    }
    read_anything(file);
}

/// Reading ends in rows or in an error. The metas' checksums are corrected first, so that the rest
/// of the file is reached.
fn read_anything(mut file: Vec<u8>) {
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
        let _ = database.get(&bucket, b"row 007");
    }
}

/// One bucket inside the root's leaf, and one with a branch, leaves and a value of several pages.
struct Small;

impl Content for Small {
    type Error = io::Error;

    fn buckets(&self) -> &[&'static str] {
        &["alarm", "key"]
    }

    fn rows(&self, bucket: &str, row: &mut RowSink<'_, io::Error>) -> io::Result<()> {
        if bucket == "alarm" {
            return row(&[1; 12], &[b""]);
        }
        for number in 0..40u8 {
            let length = if number == 20 { 9_000 } else { 400 };
            let value = vec![number; length];
            row(format!("row {number:03}").as_bytes(), &[&value])?;
        }
        Ok(())
    }
}

fn small_file() -> Vec<u8> {
    let mut file = Vec::new();
    let made = Layout::of(&Small).and_then(|layout| layout.write(&Small, &mut file));
    made.expect("memory takes everything");
    file
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_that_is_damaged_was_good() {
        let file = super::small_file();
        let database = super::Database::open(&file[..]).unwrap();
        database.check().unwrap();
        assert!(file.len() < super::STRIDE << 16, "damage reaches its end");
    }

    #[test]
    fn any_bytes_are_a_database_or_refused() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            super::bbolt_read(&bytes);
            Ok(())
        });
    }
}
