//! Readers of two generations, and the writer that rewrites a unit in between, in every
//! interleaving.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{GuardWatch, ReaderGuard, VerifiedUnits};

const UNIT: u64 = 70;
const OLD: u32 = 1;
const NEW: u32 = 2;

/// A file of one unit; loom reports a read during a write.
struct Disk {
    unit: UnsafeCell<u32>,
    verified: VerifiedUnits,
    rewritten: AtomicBool,
}

// Loom's cell checks how it is shared.
#[expect(unsafe_code, reason = "loom's cell stands for the mapped file")]
// SAFETY: every access is checked by loom: that is the test.
unsafe impl Sync for Disk {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Send for Disk {}

struct Pages {
    disk: Arc<Disk>,
    readers: ReaderGuard,
}

impl Pages {
    fn read(&self, expected: u32) {
        let is_verified = self.disk.verified.contains(UNIT);
        // SAFETY: loom checks that nobody writes meanwhile.
        #[expect(unsafe_code, reason = "loom's cell stands for the mapped file")]
        let found = self.disk.unit.with(|unit| unsafe { *unit });
        assert_eq!(found, expected);
        // Marks the unit only after its checksum was compared.
        if !is_verified {
            self.disk.verified.insert(UNIT);
        }
    }
}

fn pages(disk: &Arc<Disk>) -> (Arc<Pages>, GuardWatch) {
    let pages = Pages {
        disk: Arc::clone(disk),
        readers: ReaderGuard::new(),
    };
    let watch = pages.readers.watch();
    (Arc::new(pages), watch)
}

#[test]
fn loom_a_unit_is_rewritten_only_after_its_last_reader_and_is_not_verified_then() {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let disk = Arc::new(Disk {
            unit: UnsafeCell::new(OLD),
            verified: VerifiedUnits::new(100),
            rewritten: AtomicBool::new(false),
        });
        let (old, watch) = pages(&disk);
        let readers = [0, 1].map(|_| {
            let old = Arc::clone(&old);
            thread::spawn(move || {
                old.read(OLD);
                drop(old);
            })
        });
        drop(old);
        if watch.is_gone() {
            disk.verified.remove(UNIT..UNIT + 1);
            // SAFETY: loom checks that nobody reads meanwhile.
            #[expect(unsafe_code, reason = "loom's cell stands for the mapped file")]
            disk.unit.with_mut(|unit| unsafe { *unit = NEW });
            assert!(
                !disk.verified.contains(UNIT),
                "marked by a reader that is gone"
            );
            disk.rewritten.store(true, Ordering::Release);
            let (new, _) = pages(&disk);
            new.read(NEW);
        }
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        let rewritten = disk.rewritten.load(Ordering::Acquire);
        let (last, _) = pages(&disk);
        last.read(if rewritten { NEW } else { OLD });
    });
}
