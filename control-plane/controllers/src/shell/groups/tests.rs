use super::*;

/// The milliseconds, since its start, at which discovery is read within 80 seconds if what makes
/// kinds changes at these.
fn read_at(every: Duration, changes: &[u64]) -> Vec<u64> {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut next = Next::new(every, start);
    let (mut changes, mut read) = (changes.iter().copied().peekable(), Vec::new());
    loop {
        if let Some(ms) = changes.next_if(|ms| at(*ms) < next.due) {
            next.changed(at(ms));
        } else if next.due > at(80_000) {
            return read;
        } else {
            read.push((next.due - start).as_millis() as u64);
            next.was_read(next.due);
        }
    }
}

#[test]
fn discovery_is_read_soon_after_a_change_and_once_more() {
    let watched = |changes: &[u64]| read_at(WATCHED_EVERY, changes);
    assert_eq!(watched(&[]), [60_000]);
    assert_eq!(watched(&[10_000]), [10_500, 12_500, 72_500]);
    // A change before it is read once more, and two at one time.
    let twice = watched(&[10_000, 11_000, 11_000]);
    assert_eq!(twice, [10_500, 11_500, 13_500, 73_500]);
    // Ten changes a second: it is read as often as one needs, and not put off by the next.
    let many: Vec<u64> = (0..20).map(|number| 10_000 + number * 100).collect();
    assert_eq!(
        watched(&many),
        [10_500, 11_000, 11_500, 12_000, 14_000, 74_000]
    );
}

#[test]
fn discovery_is_read_often_if_nobody_watches_what_makes_kinds() {
    assert_eq!(read_at(EVERY, &[])[..3], [5_000, 10_000, 15_000]);
}
