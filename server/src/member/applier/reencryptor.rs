//! Paces re-encryption after a change of keys: its steps run between other work, and the checkpoints
//! that it needs keep a distance. The store does the work of a step.

use raft::Now;
use storage::mvcc::{Next, Reencryption, Store};

/// Bytes of changed pages at which re-encryption asks for a checkpoint.
const DIRTY_BYTES_MAX: u64 = 48 << 20;
/// Pause between two of its requests for a checkpoint. About five checkpoints finish re-sealing;
/// views held long add more.
const CHECKPOINT_PAUSE: Now = Now::from_millis(100);
/// Pause between two looks whether a state that is being received still keeps the old keys.
const KEPT_PAUSE: Now = Now::from_millis(1000);
/// Number of progress reports for one walk.
const TOLD_PARTS: u64 = 10;

#[derive(Debug)]
pub(super) struct Reencryptor {
    at_work: bool,
    not_before: Now,
    wants_checkpoint: bool,
    /// The part of the walk and the next kind of step at the last report.
    told: Option<(u64, Next)>,
}

/// What a turn did.
#[derive(Debug, Default)]
pub(super) struct Did {
    /// It took a step.
    pub(super) looked: bool,
    /// Progress that should be reported.
    pub(super) told: Option<Reencryption>,
}

impl Reencryptor {
    pub(super) fn new(store: &Store) -> Reencryptor {
        Reencryptor {
            at_work: store.needs_reencryption(),
            not_before: Now::ZERO,
            wants_checkpoint: false,
            told: None,
        }
    }

    /// Starts after a change of keys.
    pub(super) fn begin(&mut self) {
        self.at_work = true;
        self.told = None;
    }

    /// When the next step is due even if no event arrives. The end of a checkpoint is an event.
    pub(super) fn wake_at(&self, now: Now, checkpoint_running: bool) -> Option<Now> {
        (self.at_work && !checkpoint_running).then(|| self.not_before.max(now))
    }

    /// True if it needs a checkpoint. Returns true once.
    pub(super) fn takes_checkpoint(&mut self) -> bool {
        std::mem::take(&mut self.wants_checkpoint)
    }

    /// Takes one step, which looks at `bytes` of pages.
    pub(super) fn turn(
        &mut self,
        now: Now,
        bytes: u64,
        store: &mut Store,
        checkpoint_running: bool,
    ) -> storage::Result<Did> {
        if !self.at_work || checkpoint_running || now < self.not_before {
            return Ok(Did::default());
        }
        if store.stats().dirty_bytes >= DIRTY_BYTES_MAX {
            self.wants_checkpoint = true;
            // It does not begin if the disk is full.
            self.not_before = now + CHECKPOINT_PAUSE;
            return Ok(Did::default());
        }
        let progress = store.reencrypt_step(bytes)?;
        match progress.next {
            Next::Step => {}
            Next::Checkpoint => {
                self.wants_checkpoint = true;
                self.not_before = now + CHECKPOINT_PAUSE;
            }
            Next::Wait => self.not_before = now + KEPT_PAUSE,
            Next::Done => self.at_work = false,
        }
        let parts = progress.walked_bytes * TOLD_PARTS / progress.total_bytes.max(1);
        let now = Some((parts, progress.next));
        let is_new = self.told != now;
        self.told = now;
        Ok(Did {
            looked: true,
            told: is_new.then_some(progress),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use storage::encryption::{DataKeys, KeyFile};
    use storage::mvcc::{Applied, Loader, Options};
    use storage::vfs::Vfs;
    use storage::vfs::sim::SimVfs;

    use super::*;

    /// Of the first `count` keys, the last of which comes first.
    fn keys(count: usize) -> KeyFile {
        let lines = (1..=count)
            .rev()
            .map(|id| format!("{id} {}\n", "ab".repeat(32)));
        KeyFile::parse("keys", &lines.collect::<String>()).unwrap()
    }

    /// A store whose data is sealed under the first key.
    fn sealed(vfs: &Arc<dyn Vfs>) -> (Store, Arc<DataKeys>) {
        vfs.create_dir_all(Path::new("/member/store")).unwrap();
        let path = Path::new("/member/keys");
        let data_keys = DataKeys::open(Arc::clone(vfs), path, Some(&keys(1)), true);
        let data_keys = data_keys.unwrap().unwrap();
        let options = Options {
            data_keys: Some(Arc::clone(&data_keys)),
        };
        let store = Store::open(Arc::clone(vfs), Path::new("/member/store"), options);
        (store.unwrap(), data_keys)
    }

    #[test]
    fn a_checkpoint_that_does_not_begin_is_asked_for_again_after_a_pause() {
        let value = vec![7; 1 << 20];
        let (mut store, data_keys) = sealed(&(Arc::new(SimVfs::new(1)) as Arc<dyn Vfs>));
        for index in 1..=DIRTY_BYTES_MAX / value.len() as u64 {
            let applied = Applied { index, term: 1 };
            let key = index.to_be_bytes();
            store.write(applied).put(&key, &value, 0).unwrap();
        }
        assert!(store.stats().dirty_bytes >= DIRTY_BYTES_MAX);
        assert!(data_keys.change(&keys(2)).unwrap());
        let mut reencryptor = Reencryptor::new(&store);
        for now in [Now::ZERO, CHECKPOINT_PAUSE] {
            assert_eq!(reencryptor.wake_at(now, false), Some(now));
            reencryptor.turn(now, 256 << 10, &mut store, false).unwrap();
            assert!(reencryptor.takes_checkpoint());
            let again = Some(now + CHECKPOINT_PAUSE);
            assert_eq!(reencryptor.wake_at(now, false), again, "not at once");
        }
    }

    #[test]
    fn it_asks_for_no_checkpoints_while_a_state_that_is_received_keeps_the_keys() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let (mut store, data_keys) = sealed(&vfs);
        let applied = Applied { index: 1, term: 1 };
        store.write(applied).put(b"key", b"value", 0).unwrap();
        checkpoint(&mut store);
        let options = Options {
            data_keys: Some(Arc::clone(&data_keys)),
        };
        let received = Loader::create(vfs, Path::new("/member/store"), options).unwrap();
        assert!(data_keys.change(&keys(2)).unwrap());
        let mut reencryptor = Reencryptor::new(&store);
        let (mut now, mut checkpoints) = (Now::ZERO, 0);
        for _ in 0..50 {
            now = reencryptor.wake_at(now, false).unwrap();
            reencryptor.turn(now, 256 << 10, &mut store, false).unwrap();
            if reencryptor.takes_checkpoint() {
                checkpoints += 1;
                checkpoint(&mut store);
            }
            store.publish();
        }
        assert!(checkpoints < 10, "{checkpoints}");
        drop(received);
        now = reencryptor.wake_at(now, false).unwrap();
        reencryptor.turn(now, 256 << 10, &mut store, false).unwrap();
        assert!(reencryptor.takes_checkpoint());
    }

    fn checkpoint(store: &mut Store) -> u64 {
        let job = store.begin_checkpoint().unwrap();
        store.finish_checkpoint(job.run().unwrap())
    }

    #[test]
    fn it_comes_to_its_end_with_a_bounded_number_of_checkpoints_and_lines() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let (mut store, data_keys) = sealed(&vfs);
        let wal_options = storage::wal::Options {
            segment_bytes: 64 << 10,
            data_keys: Some(Arc::clone(&data_keys)),
            ..Default::default()
        };
        let (mut log, _) =
            storage::wal::Wal::open(vfs, Path::new("/member/log"), wal_options, &mut |_| Ok(()))
                .unwrap();
        for index in 1..=2000 {
            let applied = Applied { index, term: 1 };
            let key = index.to_be_bytes();
            store.write(applied).put(&key, &[7; 300], 0).unwrap();
            log.append(1, index, &[&key]);
        }
        log.write().unwrap();
        log.sync().unwrap();
        let mut reencryptor = Reencryptor::new(&store);
        assert_eq!(reencryptor.wake_at(Now::ZERO, false), None);
        checkpoint(&mut store);
        assert!(data_keys.change(&keys(2)).unwrap());
        reencryptor.begin();
        let (mut now, mut checkpoints, mut told) = (Now::ZERO, 0, Vec::new());
        while let Some(at) = reencryptor.wake_at(now, false) {
            now = at;
            let did = reencryptor.turn(now, 256 << 10, &mut store, false);
            told.extend(did.unwrap().told);
            if reencryptor.takes_checkpoint() {
                checkpoints += 1;
                let needed_from = checkpoint(&mut store);
                log.drop_before(needed_from + 1).unwrap();
            }
            store.publish();
            assert!(checkpoints < 10, "{told:?}");
        }
        assert!(told.len() < 20, "{told:?}");
        assert_eq!(told.last().unwrap().next, Next::Done);
        assert!(data_keys.others().is_empty());
    }
}
