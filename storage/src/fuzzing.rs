//! Bodies of the fuzz targets, which only call them. A body panics if something is wrong.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::mvcc::{Applied, Item, KeyRange, Options, Store, Want};
use crate::vfs::os::OsVfs;
use crate::vfs::sim::SimVfs;
use crate::vfs::{Open, Vfs};

/// Runs bytes as a program of edits, checkpoints, views and restarts on three trees and as many
/// maps.
pub fn btree_model(program: &[u8]) {
    // A program that ends within an operation counts, too.
    let _ = crate::btree::tests::model::agree(&mut arbitrary::Unstructured::new(program));
}

/// Like `btree_model`, on a disk that fails at some call or has too little room. What is left is
/// one of the last two checkpoints, whole, and the program continues from there.
pub fn btree_faults(program: &[u8]) {
    crate::btree::tests::faults::survive(program);
}

/// Runs bytes as a program of writes, compactions, checkpoints and restarts against the
/// multi-version store and a naive history.
pub fn mvcc_model(program: &[u8]) {
    crate::mvcc::agree_with_model(program);
}

/// Like `mvcc_model`, on a disk that fails at some call and loses power. What is left is one of the
/// last two checkpoints, whole.
pub fn mvcc_faults(program: &[u8]) {
    crate::mvcc::survive_power_cut(program);
}

/// Takes bytes as a segment file, or as damage to a valid log, and recovers the result.
pub fn wal_recover(data: &[u8]) {
    crate::wal::recover_anything(data);
}

/// Takes bytes as damage to a page file: triples of a position (2 bytes) and the bits to flip
/// there. Opening, checking and reading the result may fail, but never panic or run for ever. Every
/// other input is also written to a real file and read through a real mapping, which then grows.
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
    if data.len().is_multiple_of(2) {
        let vfs = SimVfs::new(2);
        vfs.create_dir_all(dir)
            .expect("an empty disk takes a directory");
        vfs.install(&file, &bytes);
        read_and_go_on(Arc::new(vfs), dir);
        return;
    }
    let name = format!("stele-page-decode-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    lay_down(&dir, &bytes).expect("room for a small file");
    read_and_go_on(Arc::new(OsVfs), &dir);
    std::fs::remove_dir_all(&dir).expect("it is ours");
}

fn lay_down(dir: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = dir.join("pages");
    OsVfs.create_dir_all(dir)?;
    if OsVfs.exists(&path)? {
        OsVfs.remove(&path)?;
    }
    OsVfs.open(&path, Open::New)?.write_at(bytes, 0)
}

fn read_and_go_on(vfs: Arc<dyn Vfs>, dir: &Path) {
    let Ok(mut store) = Store::open(vfs, dir, Options::default()) else {
        return;
    };
    let read = |store: &Store| {
        let mut each = |_: Item<'_>| ControlFlow::Continue(());
        store
            .root()
            .range(KeyRange::ALL, 0, Want::Values, &mut each)
    };
    // Damage where nothing refers to may go unseen.
    let checked = store.check();
    let all = read(&store);
    if checked.is_err() || all.is_err() {
        return;
    }
    let index = store.root().applied().index + 1;
    let mut go_on = || -> crate::Result<()> {
        let mut write = store.write(Applied { index, term: 1 });
        write.put(b"one", &[3; 40_000], 0)?;
        write.put(b"two", &[4; 9_000], 0)?;
        drop(write);
        store.publish();
        if let Some(job) = store.begin_checkpoint() {
            let done = job.run()?;
            store.finish_checkpoint(done);
        }
        store.publish();
        while !store.release_step(1000) {}
        read(&store)
    };
    go_on().expect("what is whole takes more");
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
