use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> Queue<&'static str> {
    Queue::new(BackOff {
        first: SECOND,
        last: SECOND * 5,
    })
}

#[test]
fn a_key_wanted_twice_is_given_once() {
    let mut queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.next(SECOND), Some("a"));
    assert_eq!(queue.next(SECOND), Some("b"));
    assert_eq!(queue.next(SECOND), None);
    assert!(queue.is_empty());
}

#[test]
fn a_key_wanted_while_busy_comes_again_only_when_done() {
    let mut queue = queue();
    queue.add("a");
    assert_eq!(queue.next(SECOND), Some("a"));
    queue.add("a");
    assert_eq!(queue.next(SECOND), None);
    queue.done(&"a");
    assert_eq!(queue.next(SECOND), Some("a"));
    queue.done(&"a");
    assert_eq!(queue.next(SECOND), None);
}

#[test]
fn a_delay_is_shortened_but_not_lengthened() {
    let mut queue = queue();
    queue.add_at("a", SECOND * 5);
    queue.add_at("a", SECOND * 3);
    queue.add_at("a", SECOND * 9);
    assert_eq!(queue.wake_at(), Some(SECOND * 3));
    assert_eq!(queue.next(SECOND * 2), None);
    assert_eq!(queue.next(SECOND * 3), Some("a"));
    assert_eq!(queue.wake_at(), None);
}

#[test]
fn failures_double_the_delay_until_forgotten() {
    let mut queue = queue();
    let mut delays = Vec::new();
    for _ in 0..4 {
        delays.push(queue.add_failed("a", Duration::ZERO).as_secs());
        assert_eq!(queue.next(SECOND * 100), Some("a"));
        queue.done(&"a");
    }
    assert_eq!(delays, [1, 2, 4, 5]);
    assert_eq!(queue.failures(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.add_failed("a", SECOND), SECOND);
    assert_eq!(queue.wake_at(), Some(SECOND * 2));
}

#[test]
fn a_key_that_is_ready_does_not_also_wait() {
    let mut queue = queue();
    queue.add("a");
    queue.add_at("a", SECOND * 5);
    queue.add_at("b", SECOND * 5);
    queue.add("b");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.next(SECOND), Some("a"));
    assert_eq!(queue.next(SECOND), Some("b"));
    assert_eq!(queue.next(SECOND * 9), None);
}
