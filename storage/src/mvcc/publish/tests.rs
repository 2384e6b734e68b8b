//! Real threads, many times: covers what loom's bounded search cannot reach (all slots, long runs).
//! Miri runs these, too.

#![expect(clippy::disallowed_methods, reason = "threads are what is tested here")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Publisher;

#[test]
fn readers_see_values_in_order_while_the_writer_replaces_them() {
    let rounds = if cfg!(miri) { 50 } else { 20_000u64 };
    let mut publisher = Publisher::new(Arc::new((0u64, 0u64)));
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (subscriber, done) = (publisher.subscribe(), done.clone());
            thread::spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let value = subscriber.load();
                    assert_eq!(value.1, value.0 * 3);
                    assert!(value.0 >= last);
                    last = value.0;
                }
            })
        })
        .collect();
    for n in 1..=rounds {
        publisher.publish(Arc::new((n, n * 3)));
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(publisher.subscribe().load().0, rounds);
}

#[test]
fn value_is_dropped_when_it_is_replaced_and_nobody_holds_it() {
    let first = Arc::new(1);
    let mut publisher = Publisher::new(first.clone());
    let held = publisher.subscribe().load();
    publisher.publish(Arc::new(2));
    assert_eq!(Arc::strong_count(&first), 2, "ours and `held`");
    drop(held);
    assert_eq!(Arc::strong_count(&first), 1);
}
