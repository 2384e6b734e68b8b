//! Loom runs these through every interleaving within the preemption bound, including the
//! reorderings that the memory model allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as PlainAtomicUsize, Ordering::SeqCst};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{Publisher, Subscriber};

/// Bounds the search: three preemptions find every known weakening of the protocol within
/// seconds.
const PREEMPTIONS: usize = 3;

fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}

/// Counts its own drops; a torn write would show as a pair that does not match.
struct Value {
    number: usize,
    double: usize,
    drops: Arc<PlainAtomicUsize>,
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_eq!(self.double, 2 * self.number, "dropped twice or torn");
        self.double = usize::MAX;
        self.drops.fetch_add(1, SeqCst);
    }
}

fn value(number: usize, drops: &Arc<PlainAtomicUsize>) -> Arc<Value> {
    Arc::new(Value {
        number,
        double: 2 * number,
        drops: drops.clone(),
    })
}

fn take(subscriber: &Subscriber<Value>) -> usize {
    let value = subscriber.load();
    assert_eq!(value.double, 2 * value.number);
    value.number
}

#[test]
fn loom_reader_never_sees_a_torn_or_freed_value() {
    explore(|| {
        let drops = Arc::new(PlainAtomicUsize::new(0));
        let mut publisher = Publisher::new(value(0, &drops));
        let subscriber = publisher.subscribe();
        let reader = thread::spawn(move || {
            let first = take(&subscriber);
            let second = take(&subscriber);
            assert!(first <= second, "time went backwards");
        });
        for number in 1..=3 {
            publisher.publish(value(number, &drops));
        }
        reader.join().unwrap();
        drop(publisher);
        assert_eq!(drops.load(SeqCst), 4, "each value is dropped exactly once");
    });
}

#[test]
fn loom_two_readers_do_not_disturb_each_other() {
    explore(|| {
        let drops = Arc::new(PlainAtomicUsize::new(0));
        let mut publisher = Publisher::new(value(0, &drops));
        let readers = [publisher.subscribe(), publisher.subscribe()]
            .map(|subscriber| thread::spawn(move || take(&subscriber)));
        publisher.publish(value(1, &drops));
        publisher.publish(value(2, &drops));
        for reader in readers {
            reader.join().unwrap();
        }
        drop(publisher);
        assert_eq!(drops.load(SeqCst), 3);
    });
}

#[test]
fn loom_publish_is_seen_by_who_saw_a_flag_set_after_it() {
    explore(|| {
        let drops = Arc::new(PlainAtomicUsize::new(0));
        let mut publisher = Publisher::new(value(0, &drops));
        let subscriber = publisher.subscribe();
        let flag = Arc::new(AtomicBool::new(false));
        let seen = flag.clone();
        let reader = thread::spawn(move || {
            if seen.load(Ordering::Acquire) {
                assert_eq!(take(&subscriber), 1);
            }
        });
        publisher.publish(value(1, &drops));
        flag.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn loom_old_value_goes_as_soon_as_nobody_takes_it() {
    explore(|| {
        let drops = Arc::new(PlainAtomicUsize::new(0));
        let mut publisher = Publisher::new(value(0, &drops));
        publisher.publish(value(1, &drops));
        assert_eq!(drops.load(SeqCst), 1);
    });
}
