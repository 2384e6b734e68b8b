//! Keys, their file, and the data on disk under them.

use std::ops::ControlFlow;

use super::sample::{key_file, open};
use super::*;
use crate::mvcc::{self, Applied, Incoming, KeyRange, Loader, Next, Position, Store, Want};
use crate::vfs::sim::SimVfs;
use crate::wal::{self, Wal};

const STORE: &str = "/member/store";
const LOG: &str = "/member/log";

/// Part of every key and every value, and of nothing else.
const KEY_TEXT: &str = "secret-name";
const VALUE_TEXT: &str = "secret-content";

fn refusal(vfs: &SimVfs, ids: &[u32]) -> String {
    let before = files(vfs);
    let error = open(vfs, ids, false).unwrap_err();
    assert!(matches!(error, Error::Encryption { .. }), "{error}");
    assert!(files(vfs) == before, "a refusal touches nothing");
    error.to_string()
}

/// All files of the data directory.
fn files(vfs: &SimVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for dir in ["/member", STORE, LOG] {
        for name in vfs.list(Path::new(dir)).unwrap_or_default() {
            let path = Path::new(dir).join(name);
            let bytes = vfs.contents(&path).unwrap();
            files.push((path, bytes));
        }
    }
    files
}

/// Files that contain users' data in clear, and how often.
fn plaintext(vfs: &SimVfs) -> Vec<(PathBuf, usize)> {
    let count = |bytes: &[u8], text: &str| {
        let windows = bytes.windows(text.len());
        windows.filter(|window| *window == text.as_bytes()).count()
    };
    let files = files(vfs).into_iter().map(|(path, bytes)| {
        let found = count(&bytes, KEY_TEXT) + count(&bytes, VALUE_TEXT);
        (path, found)
    });
    files.filter(|(_, found)| *found > 0).collect()
}

/// A log and a store, used as the server uses them.
struct Member {
    data_keys: Arc<DataKeys>,
    store: Store,
    log: Wal,
    last: u64,
}

impl Member {
    fn open(vfs: &SimVfs, ids: &[u32], is_new: bool) -> Result<Member> {
        let data_keys = open(vfs, ids, is_new)?.expect("keys are given");
        Member::with(vfs, Some(data_keys.clone())).map(|(store, log, last)| Member {
            data_keys,
            store,
            log,
            last,
        })
    }

    fn with(vfs: &SimVfs, data_keys: Option<Arc<DataKeys>>) -> Result<(Store, Wal, u64)> {
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let options = mvcc::Options {
            data_keys: data_keys.clone(),
        };
        let mut store = Store::open(shared.clone(), Path::new(STORE), options)?;
        let options = wal::Options {
            segment_bytes: 16 << 10,
            seed: 1,
            data_keys,
            from: 0,
        };
        let mut last = store.root().applied().index;
        let (log, _) = Wal::open(shared, Path::new(LOG), options, &mut |record| {
            if record.kind == 1 && record.index > last {
                last = record.index;
                assert_eq!(record.payload, value(last));
                put(&mut store, last)?;
            }
            Ok(())
        })?;
        Ok((store, log, last))
    }

    fn write(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            self.last += 1;
            self.log.append(1, self.last, &[&value(self.last)]);
            if self.last.is_multiple_of(3) {
                self.log
                    .append_carried(2, self.last, &[VALUE_TEXT.as_bytes()]);
            }
            self.log.write()?;
            self.log.sync()?;
            put(&mut self.store, self.last)?;
        }
        self.store.publish();
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        if let Some(job) = self.store.begin_checkpoint() {
            let done = job.run()?;
            let behind = self.store.finish_checkpoint(done);
            self.log.drop_before(behind + 1)?;
            // Every third time the segments are left for a hurried removal.
            if let Some(job) = self
                .log
                .finish_drop()
                .filter(|_| !self.last.is_multiple_of(3))
            {
                job.run(|| ())?;
            }
        }
        self.store.publish();
        while !self.store.release_step(1000) {}
        Ok(())
    }

    /// Re-encrypts, with writes in between, until nothing needs other keys.
    fn reencrypt(&mut self) -> Result<()> {
        for round in 0..ROUNDS_MAX {
            let progress = self.store.reencrypt_step(16 << 10)?;
            match progress.next {
                Next::Step => assert!(progress.walked_bytes <= progress.total_bytes),
                Next::Checkpoint | Next::Wait => self.checkpoint()?,
                Next::Done => return Ok(()),
            }
            if round % 3 == 0 && round < 30 {
                self.write(1)?;
            }
        }
        panic!("re-sealing does not come to its end");
    }

    /// Everything written exists.
    fn check(&self) {
        self.store.check().unwrap();
        let mut keys = 0;
        let root = self.store.root();
        root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
            keys += 1;
            assert!(item.value.starts_with(VALUE_TEXT.as_bytes()));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(keys, self.last.min(KEYS));
    }
}

const KEYS: u64 = 70;

/// Most steps that a re-encryption may take here.
const ROUNDS_MAX: u64 = 300;

fn value(index: u64) -> Vec<u8> {
    let len = if index.is_multiple_of(11) { 9_000 } else { 150 };
    format!("{VALUE_TEXT} {index} ")
        .repeat(len / 20)
        .into_bytes()
}

fn put(store: &mut Store, index: u64) -> Result<()> {
    let key = format!("{KEY_TEXT}/{:03}", index * 37 % KEYS);
    let applied = Applied { index, term: 1 };
    store.write(applied).put(key.as_bytes(), &value(index), 0)
}

#[test]
fn keys_that_a_restart_finds_after_a_failure_are_not_lost_by_a_power_cut() {
    for calls in 0.. {
        let vfs = SimVfs::new(calls);
        // The server creates the directory; it is durable before there are keys.
        vfs.create_dir_all(Path::new("/member")).unwrap();
        vfs.fail_after(calls);
        let done = open(&vfs, &[1], true).is_ok();
        let image = vfs.process_killed();
        open(&image, &[1], true).unwrap();
        let used = image.contents(Path::new("/member/keys"));
        for seed in 0..8 {
            let found = image.power_cut(seed).contents(Path::new("/member/keys"));
            assert!(found == used, "call {calls}, seed {seed}");
        }
        if done {
            assert!(calls > 3, "few calls prove little: {calls}");
            break;
        }
    }
}

#[test]
fn no_key_and_no_value_is_in_any_file() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[1], true).unwrap();
    for round in 1..=5 {
        member.write(40).unwrap();
        member.check();
        if round % 2 == 0 {
            member.checkpoint().unwrap();
        }
        assert_eq!(plaintext(&vfs), []);
        // Killed, and power cut, in the middle of it.
        let vfs = vfs.power_cut(round);
        let again = Member::open(&vfs, &[1], false).unwrap();
        assert_eq!(again.last, member.last);
        again.check();
        assert_eq!(plaintext(&vfs), []);
    }
    assert!(!member.data_keys.is_mixed());
    // The search does find plaintext.
    let clear = SimVfs::new(1);
    let (mut store, mut log, _) = Member::with(&clear, None).unwrap();
    log.append(1, 1, &[&value(1)]);
    log.write().unwrap();
    put(&mut store, 1).unwrap();
    store.begin_checkpoint().unwrap().run().unwrap();
    assert_eq!(plaintext(&clear).len(), 2);
}

#[test]
fn wrong_and_missing_keys_are_refused_by_name_before_anything_is_touched() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[2], true).unwrap();
    member.write(10).unwrap();
    drop(member);
    assert_eq!(
        refusal(&vfs, &[1]),
        "/member/keys: data is sealed under key 2, which keys.txt lacks"
    );
    assert_eq!(
        refusal(&vfs, &[0]),
        "/member/keys: data is sealed under key 2, which keys.txt lacks"
    );
    let other = KeyFile::parse("other.txt", &format!("2 {}", "ab".repeat(32))).unwrap();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let path = Path::new("/member/keys");
    let error = DataKeys::open(shared.clone(), path, Some(&other), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/member/keys: data is sealed under another key 2 than that of other.txt"
    );
    let error = DataKeys::open(shared, path, None, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/member/keys: the data is sealed under key 2, and no keys are given"
    );
    let bytes = vfs.contents(path).unwrap();
    vfs.install(path, &bytes[..100]);
    let error = open(&vfs, &[2], false).unwrap_err().to_string();
    assert!(
        error.starts_with("/member/keys is damaged at byte 100"),
        "{error}"
    );
    vfs.install(path, &bytes);
    Member::open(&vfs, &[2], false).unwrap().check();
    // The ring is missing; the key file's keys are right, but a new ring's are not the data's.
    vfs.remove(path).unwrap();
    let error = Member::open(&vfs, &[2], false).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("key 2"), "{error}");
}

#[test]
fn no_two_scopes_share_a_salt_and_equal_bytes_differ_when_sealed() {
    let vfs = SimVfs::new(1);
    let data_keys = open(&vfs, &[1], true).unwrap().unwrap();
    let salts: std::collections::BTreeSet<Salt> = (0..1000)
        .map(|_| data_keys.scope(Purpose::Page).unwrap().unwrap().salt)
        .collect();
    assert_eq!(salts.len(), 1000);
    // Two servers started from an old copy of the directory write the same entries.
    let mut member = Member::open(&vfs, &[1], false).unwrap();
    member.write(5).unwrap();
    drop(member);
    let segments = [0, 1].map(|_| {
        let copy = vfs.process_killed();
        let mut member = Member::open(&copy, &[1], false).unwrap();
        member.write(20).unwrap();
        member.checkpoint().unwrap();
        files(&copy)
    });
    let mut compared = 0;
    for ((path, one), (_, two)) in segments[0].iter().zip(&segments[1]) {
        // After the common part, sixteen equal bytes in both must be zeros or clear headers; sealed
        // payloads are long.
        let same = one.iter().zip(two).skip(8192).collect::<Vec<_>>();
        for stretch in same.chunks(64) {
            let equal = stretch.iter().all(|(a, b)| a == b);
            let blank = stretch.iter().all(|(a, _)| **a == 0);
            let sealed = stretch.iter().filter(|(a, _)| **a != 0).count() > 48;
            assert!(!(equal && sealed) || blank, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 100);
}

#[test]
fn a_key_file_that_lacks_a_key_in_use_changes_nothing_online() {
    let vfs = SimVfs::new(1);
    let data_keys = open(&vfs, &[1], true).unwrap().unwrap();
    assert!(!data_keys.change(&key_file(&[1, 7])).unwrap());
    assert!(data_keys.change(&key_file(&[2])).is_err());
    assert_eq!(data_keys.active(), 1);
    assert!(data_keys.change(&key_file(&[2, 1])).unwrap());
    assert_eq!((data_keys.active(), data_keys.others()), (2, vec![1]));
    // Old data may still be under key 1.
    let error = open(&vfs, &[2], false).unwrap_err();
    assert!(error.to_string().contains("key 1"), "{error}");
    let again = open(&vfs, &[2, 1], false).unwrap().unwrap();
    assert_eq!((again.active(), again.others()), (2, vec![1]));
}

/// A clear store with pages in use, pages freed, old segments and spares, all full of plaintext.
fn clear_member(vfs: &SimVfs) -> u64 {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    shared.create_dir_all(Path::new("/member")).unwrap();
    let (mut store, mut log, _) = Member::with(vfs, None).unwrap();
    for index in 1..=150 {
        log.append(1, index, &[&value(index)]);
        log.write().unwrap();
        log.sync().unwrap();
        put(&mut store, index).unwrap();
        if index % 25 == 0 {
            let job = store.begin_checkpoint().unwrap();
            let behind = store.finish_checkpoint(job.run().unwrap());
            log.drop_before(behind + 1).unwrap();
            log.finish_drop()
                .map_or(Ok(()), |job| job.run(|| ()))
                .unwrap();
            store.publish();
            while !store.release_step(1000) {}
        }
    }
    let spares = |(path, _): &&(PathBuf, usize)| path.to_string_lossy().contains("spare");
    let found = plaintext(vfs);
    assert!(found.iter().any(|file| spares(&file)), "{found:?}");
    150
}

#[test]
fn turned_on_for_an_existing_store_it_leaves_no_plaintext() {
    let vfs = SimVfs::new(1);
    let last = clear_member(&vfs);
    let mut member = Member::open(&vfs, &[1], false).unwrap();
    assert_eq!(
        (member.last, member.data_keys.others()),
        (last, vec![CLEAR])
    );
    assert!(member.store.needs_reencryption());
    member.write(5).unwrap();
    member.reencrypt().unwrap();
    assert!(!member.store.needs_reencryption());
    assert_eq!(plaintext(&vfs), []);
    member.check();
    for seed in 0..4 {
        let cut = vfs.power_cut(seed);
        assert_eq!(plaintext(&cut), []);
        Member::open(&cut, &[1], false).unwrap().check();
    }
}

#[test]
fn rotation_makes_the_old_key_superfluous() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[1], true).unwrap();
    for _ in 0..4 {
        member.write(40).unwrap();
        member.checkpoint().unwrap();
    }
    assert!(member.data_keys.change(&key_file(&[2, 1])).unwrap());
    member.write(10).unwrap();
    // Until it ends, a restart needs both.
    let halfway = vfs.process_killed();
    assert!(Member::open(&halfway, &[2], false).is_err());
    let mut restarted = Member::open(&halfway, &[2, 1], false).unwrap();
    restarted.check();
    for (member, vfs) in [(&mut member, &vfs), (&mut restarted, &halfway)] {
        member.reencrypt().unwrap();
        member.check();
        assert_eq!(plaintext(vfs), []);
        let again = Member::open(&vfs.process_killed(), &[2], false).unwrap();
        assert_eq!(again.last, member.last);
        again.check();
        assert!(Member::open(&vfs.process_killed(), &[1], false).is_err());
    }
}

#[test]
fn turned_off_again_no_key_is_needed() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[1], true).unwrap();
    member.write(100).unwrap();
    member.checkpoint().unwrap();
    member.data_keys.change(&key_file(&[0, 1])).unwrap();
    member.write(10).unwrap();
    member.reencrypt().unwrap();
    member.check();
    let last = member.last;
    drop(member);
    assert!(open(&vfs, &[0], false).unwrap().is_some());
    let (store, _, found) = Member::with(&vfs.process_killed(), None).unwrap();
    store.check().unwrap();
    assert_eq!(found, last);
    assert!(!vfs.exists(Path::new("/member/keys")).unwrap());
    // Encryption is turned on again: data written since then is clear and must go.
    let mut member = Member::open(&vfs, &[3], false).unwrap();
    assert_eq!(member.data_keys.others(), [CLEAR]);
    member.reencrypt().unwrap();
    member.check();
    assert_eq!(plaintext(&vfs), []);
}

#[test]
fn a_second_change_in_the_middle_of_the_first_is_carried_to_its_end() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[1], true).unwrap();
    member.write(100).unwrap();
    member.checkpoint().unwrap();
    member.data_keys.change(&key_file(&[2, 1])).unwrap();
    for _ in 0..3 {
        member.store.reencrypt_step(4096).unwrap();
    }
    member.checkpoint().unwrap();
    member.data_keys.change(&key_file(&[1, 2])).unwrap();
    member.reencrypt().unwrap();
    member.check();
    Member::open(&vfs, &[1], false).unwrap().check();
}

#[test]
fn a_view_that_is_held_keeps_old_pages_and_the_key_to_them() {
    let vfs = SimVfs::new(1);
    let mut member = Member::open(&vfs, &[1], true).unwrap();
    member.write(100).unwrap();
    member.checkpoint().unwrap();
    let view = member.store.reader().view();
    let rows = |view: &mvcc::View| {
        let mut rows = 0;
        let mut count = |_: mvcc::Item<'_>| {
            rows += 1;
            ControlFlow::Continue(())
        };
        view.range(KeyRange::ALL, 0, Want::Values, &mut count)
            .unwrap();
        rows
    };
    assert_eq!(rows(&view), KEYS);
    member.data_keys.change(&key_file(&[2, 1])).unwrap();
    for _ in 0..60 {
        match member.store.reencrypt_step(16 << 10).unwrap().next {
            Next::Step => {}
            Next::Checkpoint => member.checkpoint().unwrap(),
            Next::Wait | Next::Done => panic!("a view still reads what key 1 is for"),
        }
    }
    assert_eq!(rows(&view), KEYS);
    drop(view);
    member.reencrypt().unwrap();
    member.check();
}

/// Loads what the store holds beside it, under the key that is active now.
fn load(vfs: &SimVfs, member: &Member) -> Incoming {
    let options = mvcc::Options {
        data_keys: Some(member.data_keys.clone()),
    };
    let mut loader =
        Loader::create(Arc::new(vfs.clone()), Path::new(STORE), options).expect("a whole disk");
    let root = member.store.root();
    root.changes(0, i64::MAX, &mut |change| {
        loader.push(change)?;
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    let position = Position {
        revision: root.revision(),
        compacted: root.compacted(),
        removed_through: root.compacted(),
        applied: root.applied(),
    };
    loader.finish(position).unwrap()
}

/// Re-encryption looks through the store in use alone.
#[test]
fn a_store_that_may_be_installed_keeps_the_keys_of_its_pages() {
    for is_installed in [true, false] {
        let vfs = SimVfs::new(1);
        let mut member = Member::open(&vfs, &[1], true).unwrap();
        member.write(100).unwrap();
        member.checkpoint().unwrap();
        let incoming = load(&vfs, &member);
        member.data_keys.change(&key_file(&[2, 1])).unwrap();
        let mut waits = false;
        for _ in 0..60 {
            match member.store.reencrypt_step(16 << 10).unwrap().next {
                Next::Step => {}
                Next::Checkpoint => {
                    assert!(!waits, "a checkpoint does not help");
                    member.checkpoint().unwrap();
                }
                Next::Wait => waits = true,
                Next::Done => panic!("key 1 seals what is about to be installed"),
            }
        }
        assert!(waits);
        if is_installed {
            member.store.replace(incoming).unwrap();
            // Its keys seal pages as long as it is held.
            drop(member.store.take_retired());
            member.check();
        } else {
            incoming.discard().unwrap();
        }
        member.reencrypt().unwrap();
        member.check();
        assert_eq!(plaintext(&vfs), []);
        let again = Member::open(&vfs.process_killed(), &[2], false).unwrap();
        assert_eq!(again.last, member.last);
        again.check();
    }
}

#[test]
fn power_cut_at_any_call_of_re_sealing_loses_nothing_and_re_sealing_goes_on() {
    let whole = SimVfs::new(1);
    clear_member(&whole);
    let start = whole.process_killed();
    let run = |vfs: &SimVfs| -> Result<u64> {
        let mut member = Member::open(vfs, &[1], false)?;
        member.reencrypt()?;
        Ok(member.last)
    };
    let mut cuts = 0;
    for call in 0.. {
        let vfs = start.process_killed();
        vfs.fail_after(call);
        let finished = run(&vfs).is_ok();
        for survival in 0..2 {
            let cut = vfs.power_cut(survival * 1000 + call);
            let mut member = Member::open(&cut, &[1], false)
                .unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert!(member.last >= 150, "call {call}: {}", member.last);
            member.check();
            cuts += 1;
            if !finished && (call + survival).is_multiple_of(7) {
                member.reencrypt().unwrap();
                member.check();
                assert_eq!(plaintext(&cut), [], "call {call}");
            }
        }
        if finished {
            println!("{call} calls, {cuts} cuts, nothing lost");
            assert!(call > 60, "re-sealing made next to no calls: {call}");
            assert_eq!(plaintext(&vfs), []);
            return;
        }
    }
}
