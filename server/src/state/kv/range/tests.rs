use std::path::Path;
use std::sync::Arc;

use storage::mvcc::{Applied, Options, Store, View};
use storage::vfs::sim::SimVfs;

use super::*;

const KEYS: u64 = 1_500;
/// More steps than any range has rows.
const STEPS_MAX: usize = 10_000;

/// Up to 2,000 keys, each written once or twice, some of them deleted.
fn view() -> View {
    let vfs = Arc::new(SimVfs::new(1));
    let mut store = Store::open(vfs, Path::new("/store"), Options::default()).unwrap();
    let mut write = |index: u64, change: &dyn Fn(&mut storage::mvcc::Write<'_>)| {
        change(&mut store.write(Applied { index, term: 1 }));
    };
    for index in 1..=2 * KEYS {
        let number = index * 7919 % (KEYS + 500);
        let key = format!("k{number:04}").into_bytes();
        let value = vec![(index % 251) as u8; (number % 40) as usize];
        write(index, &|write| match index % 13 {
            0 => assert!(write.delete_range(KeyRange::from_wire(&key, b"")).is_ok()),
            _ => write.put(&key, &value, 0).unwrap(),
        });
    }
    store.publish();
    store.reader().view()
}

fn requests(at: i64) -> Vec<pb::RangeRequest> {
    let mut requests = Vec::new();
    for target in 0..5 {
        for order in 0..3 {
            for limit in [0, 3, 700] {
                for shape in 0..6 {
                    let (key, end) = match shape {
                        1 => ("k0100", "k02"),
                        2 => ("k0107", ""),
                        _ => ("k", "l"),
                    };
                    requests.push(pb::RangeRequest {
                        key: key.into(),
                        range_end: end.into(),
                        limit,
                        sort_target: target,
                        sort_order: order,
                        revision: if shape == 3 { at / 2 } else { 0 },
                        keys_only: shape == 4,
                        min_mod_revision: if shape == 5 { at / 3 } else { 0 },
                        ..Default::default()
                    });
                }
            }
        }
    }
    requests
}

#[test]
fn ranges_read_in_steps_are_those_read_at_once() {
    let view = view();
    for request in requests(view.revision()) {
        let whole = range(&view, &request).unwrap();
        for step in [
            Step {
                rows: 100,
                bytes: usize::MAX,
            },
            Step {
                rows: usize::MAX,
                bytes: 2_000,
            },
        ] {
            let mut reading = Reading::new(&view, request.clone()).unwrap();
            let mut held = 0;
            for _ in 0..STEPS_MAX {
                if reading.step(&view, step).unwrap() {
                    break;
                }
                // A row has a value of about 40 bytes, plus key and encoding.
                assert!(reading.held_bytes() < held + step.bytes.min(1 << 20) + 500);
                held = reading.held_bytes();
            }
            assert!(
                reading.finish(&view).unwrap() == whole,
                "{request:?} by {step:?}"
            );
        }
    }
}

/// Rows that cannot be in the answer are dropped while reading.
#[test]
fn a_sorted_range_with_a_limit_is_the_beginning_of_the_one_without_and_holds_little() {
    let view = view();
    for request in requests(view.revision()) {
        if request.limit == 0 || limits_before_sorting(&request) {
            continue;
        }
        let limited = range(&view, &request).unwrap();
        let unlimited = pb::RangeRequest {
            limit: 0,
            ..request.clone()
        };
        let all = range(&view, &unlimited).unwrap();
        let first: Vec<_> = all.kvs.iter().take(request.limit as usize).collect();
        assert!(limited.kvs.iter().eq(first.iter().copied()), "{request:?}");
        assert_eq!(limited.count, all.count);
        assert_eq!(limited.more, first.len() < all.kvs.len());

        let mut reading = Reading::new(&view, request.clone()).unwrap();
        reading.step(&view, Step::WHOLE).unwrap();
        assert!(reading.found.unsorted.len() <= 2 * (request.limit as usize + 1) + SORT_SLACK);
    }
}

#[test]
fn parts_stay_near_their_size_and_make_up_the_range() {
    let view = view();
    for keys_only in [false, true] {
        let mut request = pb::RangeRequest {
            key: "k".into(),
            range_end: "l".into(),
            revision: view.revision(),
            keys_only,
            ..Default::default()
        };
        let whole = range(&view, &request).unwrap();
        let mut rows = Vec::new();
        for (number, limit) in [10, 1_000]
            .into_iter()
            .chain(std::iter::repeat(0))
            .enumerate()
        {
            assert!(number < STEPS_MAX);
            request.limit = limit;
            let part = part(&view, &request, 4_000).unwrap();
            assert!(part.rows.bytes() < 4_000 + 100);
            assert!(limit == 0 || part.rows.len() <= limit as usize);
            rows.extend(part.rows.iter().map(<[u8]>::to_vec));
            request.key = part.next_key;
            if !part.more {
                break;
            }
        }
        assert!(whole.kvs.iter().eq(rows.iter().map(Vec::as_slice)));
    }
}
