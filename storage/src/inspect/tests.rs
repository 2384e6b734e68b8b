//! Flips every bit of every file: it does no harm, or is reported with its place.

use std::ops::ControlFlow;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::encryption::sample;
use crate::mvcc::{Change, Item, KeyRange, Revision, Want};
use crate::vfs::sim::SimVfs;
use crate::wal::Wal;

const ENTRIES: u64 = 60;
const ENTRY: u8 = 1;

/// Distance between flipped bits: a prime, so that all places of pages and sectors are hit.
/// `STELE_FLIP_STRIDE=1` flips all bits, on as many threads as there are processors.
const STRIDE: u64 = 2477;

/// Bits per unit of a thread's work.
const STRETCH: u64 = 512;

/// No page of the small store is longer.
const RUN_BYTES_MAX: u64 = 16 << 10;

fn places() -> Places {
    Places {
        keys: "/member/keys".into(),
        store: "/member/store".into(),
        log: "/member/log".into(),
    }
}

/// Everything that clients can see, as bytes: there are a million comparisons.
#[derive(Default, PartialEq, Eq)]
struct Seen(Vec<u8>);

impl Seen {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes.len().to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn numbers(&mut self, numbers: &[i64]) {
        for number in numbers {
            self.0.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn item(&mut self, item: &Item<'_>) {
        self.bytes(item.key);
        self.bytes(item.value);
        let revisions = [item.create_revision, item.mod_revision];
        self.numbers(&revisions);
        self.numbers(&[item.version, item.lease]);
    }

    fn revision(&mut self, revision: Revision) {
        self.numbers(&[revision.main, revision.sub]);
    }
}

/// Opens the disk like a server, and returns everything that clients can see.
fn seen(vfs: &SimVfs) -> Result<Seen> {
    let (store, _) = open(vfs)?;
    let mut seen = Seen::default();
    let root = store.root();
    root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        seen.item(&item);
        ControlFlow::Continue(())
    })?;
    root.changes(1, root.revision(), &mut |change| {
        match change {
            Change::Put { revision, item } => {
                seen.revision(revision);
                seen.item(&item);
            }
            Change::Delete { revision, key } => {
                seen.revision(revision);
                seen.bytes(key);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let Applied { index, term } = root.applied();
    seen.numbers(&[root.revision(), root.compacted(), index as i64, term as i64]);
    seen.numbers(&[root.count(KeyRange::ALL, 0)? as i64]);
    Ok(seen)
}

fn open(vfs: &SimVfs) -> Result<(Store, Wal)> {
    let data_keys = sample::keys_of(vfs)?;
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options {
        data_keys: data_keys.clone(),
    };
    let mut store = Store::open(shared.clone(), &places().store, options)?;
    let options = wal::Options {
        segment_bytes: 8 << 10,
        seed: 5,
        data_keys,
        from: 0,
    };
    let (log, _) = Wal::open(shared, &places().log, options, &mut |record| {
        if record.kind == ENTRY && record.index > store.root().applied().index {
            put(&mut store, record.index, record.payload)?;
        }
        Ok(())
    })?;
    Ok((store, log))
}

fn put(store: &mut Store, index: u64, value: &[u8]) -> Result<()> {
    let key = format!("name/{:02}", index * 7 % 40);
    let applied = Applied { index, term: 1 };
    store.write(applied).put(key.as_bytes(), value, 0)
}

/// Two checkpoints, some free pages, some newer log, a spare.
fn small_store(sealed: bool) -> SimVfs {
    let vfs = SimVfs::new(3);
    vfs.create_dir_all(Path::new("/member")).unwrap();
    if sealed {
        sample::give_key(&vfs);
    }
    let (mut store, mut log) = open(&vfs).unwrap();
    for index in 1..=ENTRIES {
        let value = vec![index as u8; 100 + index as usize * 10];
        log.append(ENTRY, index, &[&value]);
        log.append_carried(2, index, &[b"state"]);
        log.write().unwrap();
        log.sync().unwrap();
        put(&mut store, index, &value).unwrap();
        if index % 25 == 0 {
            let job = store.begin_checkpoint().unwrap();
            let behind = store.finish_checkpoint(job.run().unwrap());
            log.drop_before(behind + 1).unwrap();
        }
    }
    vfs.process_killed()
}

fn files(vfs: &SimVfs) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in [Path::new("/member"), &places().store, &places().log] {
        let names = vfs.list(dir).unwrap();
        let paths = names.iter().map(|name| dir.join(name));
        files.extend(paths.filter(|path| vfs.contents(path).is_some()));
    }
    files
}

fn inspected(vfs: &SimVfs, sealed: bool) -> Inspection {
    let keys = sample::key_file(&[1]);
    inspect(Arc::new(vfs.clone()), &places(), sealed.then_some(&keys)).unwrap()
}

/// True if the error names the place of the byte.
fn tells(error: &Error, file: &Path, byte: u64) -> bool {
    match error {
        // For a page to which a meta refers, the place is in the text.
        Error::Corrupt { path, offset, what } => {
            let near = *offset <= byte && byte < offset + RUN_BYTES_MAX;
            path == file && (near || what.contains("meta page") || what.contains("slot"))
        }
        _ => false,
    }
}

/// A range of bits of a file, by their numbers.
struct Stretch {
    file: PathBuf,
    bits: std::ops::Range<u64>,
}

#[derive(Default)]
struct Tally {
    flips: AtomicU64,
    noticed: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn add(counter: &AtomicU64, one: bool) {
        counter.fetch_add(u64::from(one), Ordering::Relaxed);
    }

    fn read(&self) -> [u64; 3] {
        [&self.flips, &self.noticed, &self.refused].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// A disk with one small store on it, and the expected results.
struct Flipped {
    whole: SimVfs,
    sealed: bool,
    expected: Seen,
    tally: Tally,
}

impl Flipped {
    fn flip(&self, file: &Path, bit: u64) {
        let place = format!("bit {bit} of {}", file.display());
        let rotten = self.whole.process_killed();
        rotten.flip(file, bit);
        let damage = inspected(&rotten, self.sealed).damage;
        Tally::add(&self.tally.flips, true);
        Tally::add(&self.tally.noticed, !damage.is_empty());
        for error in &damage {
            assert!(tells(error, file, bit / 8), "{place}: {error}");
        }
        // The inspector changed nothing: the same disk is opened.
        match seen(&rotten) {
            Ok(seen) => assert!(seen == self.expected, "{place}: other data"),
            Err(error) => {
                Tally::add(&self.tally.refused, true);
                assert!(tells(&error, file, bit / 8), "{place}: {error}");
                assert!(!damage.is_empty(), "{place}: the inspector missed {error}");
            }
        }
    }
}

fn flip_everywhere(sealed: bool) {
    let stride = std::env::var("STELE_FLIP_STRIDE");
    let stride = stride.map_or(STRIDE, |text| text.parse().expect("a number"));
    let whole = small_store(sealed);
    let found = inspected(&whole, sealed);
    assert!(found.is_whole(), "{:?}", found.damage);
    let flipped = Flipped {
        expected: seen(&whole.process_killed()).unwrap(),
        sealed,
        tally: Tally::default(),
        whole,
    };
    let stretches: Vec<Stretch> = files(&flipped.whole)
        .into_iter()
        .flat_map(|file| {
            let bits = flipped.whole.contents(&file).unwrap().len() as u64 * 8;
            let starts = (0..bits).step_by((stride * STRETCH) as usize);
            starts.map(move |start| Stretch {
                file: file.clone(),
                bits: start..bits.min(start + stride * STRETCH),
            })
        })
        .collect();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(stretch) =
                    stretches.get(next.fetch_add(1, Ordering::Relaxed) as usize)
                {
                    for bit in stretch.bits.clone().step_by(stride as usize) {
                        flipped.flip(&stretch.file, bit);
                    }
                }
            });
        }
    });
    let [flips, noticed, refused] = flipped.tally.read();
    println!("{flips} bits flipped: {noticed} noticed, {refused} of them fatal, no wrong data");
    assert!(
        noticed > flips / 8 && refused > 0,
        "{flips} {noticed} {refused}"
    );
}

#[test]
fn any_flipped_bit_is_harmless_or_told_with_its_place() {
    flip_everywhere(false);
}

#[test]
fn any_flipped_bit_of_a_sealed_store_is_harmless_or_told_with_its_place() {
    flip_everywhere(true);
}

#[test]
fn a_missing_directory_of_the_store_is_told_beside_all_else() {
    let whole = small_store(false);
    let vfs = SimVfs::new(4);
    vfs.create_dir_all(&places().log).unwrap();
    for path in files(&whole) {
        if !path.starts_with(places().store) {
            vfs.install(&path, &whole.contents(&path).unwrap());
        }
    }
    let found = inspected(&vfs, false);
    assert!(found.log.is_some());
    let damage: Vec<String> = found.damage.iter().map(Error::to_string).collect();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].contains("there is no page file"), "{damage:?}");
}

#[test]
fn inspection_tells_what_is_there_and_changes_nothing() {
    let vfs = small_store(true);
    let before: Vec<_> = files(&vfs).iter().map(|path| vfs.contents(path)).collect();
    let calls = vfs.calls();
    let found = inspected(&vfs, true);
    assert!(found.is_whole(), "{:?}", found.damage);
    assert_eq!(found.keys, Some((1, vec![])));
    let store = found.store.unwrap();
    assert_eq!(store.applied.index, 50);
    assert_eq!(store.revision, 51);
    let entries: Vec<u64> = store.trees.iter().map(|tree| tree.entries).collect();
    assert_eq!(entries, [50, 50, 0, 0]);
    let log = found.log.unwrap();
    assert_eq!(log.segments.last().unwrap().highest, Some(ENTRIES));
    assert!(log.segments.iter().all(|segment| segment.keys == [1]));
    // In a server, another first key in the file would begin a rotation.
    let keys = sample::key_file(&[2, 1]);
    inspect(Arc::new(vfs.clone()), &places(), Some(&keys)).unwrap();
    let error = inspect(Arc::new(vfs.clone()), &places(), None).unwrap_err();
    assert!(error.to_string().contains("no keys are given"), "{error}");
    assert_eq!(vfs.calls(), calls, "nothing is changed");
    let after: Vec<_> = files(&vfs).iter().map(|path| vfs.contents(path)).collect();
    assert!(before == after);
}
