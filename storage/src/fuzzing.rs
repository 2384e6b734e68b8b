//! Bodies of the fuzz targets; the targets only call them. They panic when something is wrong.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::mvcc::{Applied, KeyRange, Options, Store, Want};
use crate::vfs::Vfs;
use crate::vfs::sim::SimVfs;

/// Bytes as a program of edits, checkpoints, views and restarts on three trees and as many maps.
pub fn btree_model(program: &[u8]) {
    // A program that ends within an operation is one all the same.
    let _ = crate::btree::tests::model::agree(&mut arbitrary::Unstructured::new(program));
}

/// Bytes as a program of writes, compactions, checkpoints and restarts against the multi-version
/// store and a naive history.
pub fn mvcc_model(program: &[u8]) {
    crate::mvcc::agree_with_model(program);
}

/// As `mvcc_model`, on a disk that fails at some call and loses power: what is left is one of the
/// last two checkpoints, whole.
pub fn mvcc_faults(program: &[u8]) {
    crate::mvcc::survive_power_cut(program);
}

/// Bytes as a segment file, or as damage done to a valid log, which is then recovered.
pub fn wal_recover(data: &[u8]) {
    crate::wal::recover_anything(data);
}

/// Bytes as damage to a page file: triples of a position (2 bytes) and what to turn over there.
/// Opening, checking and reading what is left may fail, never panic or run for ever.
pub fn page_decode(data: &[u8]) {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let dir = Path::new("/store");
    let file = dir.join("pages");
    let mut bytes = WHOLE
        .get_or_init(|| small_page_file(dir).contents(&file).unwrap_or_default())
        .clone();
    for damage in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) * 7 % bytes.len();
        bytes[at] ^= damage[2];
    }
    let vfs = SimVfs::new(2);
    vfs.create_dir_all(dir)
        .expect("an empty disk takes a directory");
    vfs.install(&file, &bytes);
    let Ok(store) = Store::open(Arc::new(vfs), dir, Options::default()) else {
        return;
    };
    // Damage that nothing names any more may well go unseen.
    let _ = store.check();
    let _ = store
        .root()
        .range(KeyRange::ALL, 0, Want::Values, &mut |_| {
            ControlFlow::Continue(())
        });
}

fn small_page_file(dir: &Path) -> SimVfs {
    let vfs = SimVfs::new(1);
    let make = || -> crate::Result<()> {
        vfs.create_dir_all(dir)
            .map_err(crate::Error::io("create", dir))?;
        let mut store = Store::open(Arc::new(vfs.clone()), dir, Options::default())?;
        for index in 1..=150u64 {
            let key = format!("key/{:03}", index * 37 % 100);
            store
                .write(Applied { index, term: 1 })
                .put(key.as_bytes(), &[7; 200], 0)?;
        }
        store.publish();
        if let Some(job) = store.begin_checkpoint() {
            let done = job.run()?;
            store.finish_checkpoint(done);
        }
        Ok(())
    };
    make().expect("a disk without faults takes everything");
    vfs
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_damaged_page_file_never_panics() {
        arbtest::arbtest(|u| {
            let damage: Vec<u8> = u.arbitrary()?;
            super::page_decode(&damage);
            Ok(())
        });
    }
}
