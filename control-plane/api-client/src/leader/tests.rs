use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn wall() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

fn election(identity: &str) -> Election {
    Election::new("kube-system", "kube-controller-manager", identity)
}

fn at_version(lease: &Object, version: i64) -> Object {
    let mut lease = lease.clone();
    object::set_resource_version(&mut lease, version);
    lease
}

#[test]
fn the_first_to_come_makes_the_lease_and_renews_it() {
    let mut a = election("a");
    let Step::Create(lease) = a.step(None, SECOND, wall()) else {
        panic!("there was none");
    };
    assert!(!a.leads(SECOND));
    a.written(SECOND);
    assert!(a.leads(SECOND * 5));
    assert_eq!(lease["spec"]["holderIdentity"], "a");
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    let Step::Update(lease) = a.step(Some(&lease), SECOND * 3, wall()) else {
        panic!("it is ours");
    };
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
}

#[test]
fn who_cannot_renew_stops_before_another_may_take_over() {
    let mut a = election("a");
    let mut b = election("b");
    let Step::Create(lease) = a.step(None, SECOND, wall()) else {
        panic!("there was none");
    };
    a.written(SECOND);
    let lease = at_version(&lease, 1);
    assert_eq!(b.step(Some(&lease), SECOND * 2, wall()), Step::Wait);
    assert_eq!(b.step(Some(&lease), SECOND * 16, wall()), Step::Wait);
    assert!(!a.leads(SECOND * 11));
    let Step::Update(taken) = b.step(Some(&lease), SECOND * 17, wall()) else {
        panic!("it is over");
    };
    assert_eq!(taken["spec"]["holderIdentity"], "b");
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
}

/// The attempts fail at once or hang until they are given up.
#[test]
fn no_attempt_to_renew_outlasts_the_right_to_work() {
    const MILLI: Duration = Duration::from_millis(1);
    for hangs_from in 0..5 {
        let mut a = election("a");
        a.written(SECOND);
        let mut now = SECOND + MILLI * 7;
        let mut attempts = 0..;
        while let Some(Attempt { begins, ends }) = a.next_attempt(now) {
            assert!(now <= begins && begins <= ends && ends <= SECOND + RENEW);
            let hangs = attempts.next() >= Some(hangs_from);
            now = if hangs { ends } else { begins + MILLI };
        }
        assert_eq!(now, SECOND + RENEW, "hangs from attempt {hangs_from} on");
    }
}

#[test]
fn a_lease_that_changes_is_alive_whatever_its_times_say() {
    let mut a = election("a");
    let mut b = election("b");
    let Step::Create(lease) = a.step(None, SECOND, wall()) else {
        panic!("there was none");
    };
    for second in 1..60 {
        let renewed = at_version(&lease, second / 14);
        let now = SECOND * second as u32;
        assert_eq!(b.step(Some(&renewed), now, wall()), Step::Wait);
    }
}

#[test]
fn a_lease_given_back_is_taken_at_once() {
    let mut a = election("a");
    let mut b = election("b");
    let Step::Create(lease) = a.step(None, SECOND, wall()) else {
        panic!("there was none");
    };
    let free = a.released(&lease).unwrap();
    assert_eq!(b.released(&lease), None);
    let Step::Update(taken) = b.step(Some(&free), SECOND, wall()) else {
        panic!("it is free");
    };
    assert_eq!(taken["spec"]["holderIdentity"], "b");
}
