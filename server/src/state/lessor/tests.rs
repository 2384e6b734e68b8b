use std::collections::{BTreeMap, VecDeque};

use super::*;

const ELECTION: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_lease_expires_at_its_deadline_and_not_before() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 2, at(100));
    assert!(lessor.expired(at(2_099), 10).is_empty());
    assert_eq!(lessor.expired(at(2_100), 10), [7]);
}

#[test]
fn an_expired_lease_is_handed_out_once_per_retry_period() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 2, at(0));
    assert_eq!(lessor.expired(at(2_000), 10), [7]);
    assert!(lessor.expired(at(4_999), 10).is_empty());
    assert_eq!(lessor.expired(at(5_000), 10), [7]);
    lessor.revoke(7);
    assert!(lessor.expired(at(60_000), 10).is_empty());
    lessor.checkpoints(at(60_000), 10);
    assert_eq!(lessor.next_wake(10), None, "nothing is left of it");
}

#[test]
fn a_crowd_of_expired_leases_is_handed_out_as_revokes_come_in() {
    let mut lessor = Lessor::new(ELECTION);
    (1..=7).for_each(|id| lessor.grant(id, 2, at(0)));
    assert_eq!(lessor.expired(at(2_000), 3), [1, 2, 3]);
    assert!(lessor.expired(at(2_000), 3).is_empty());
    lessor.checkpoints(at(2_000), 10);
    let next = lessor.next_wake(3);
    assert_eq!(
        next,
        Some(at(4_000)),
        "checkpoints; the next three wait for revokes"
    );
    lessor.revoke(2);
    assert_eq!(lessor.next_wake(3), Some(at(2_000)));
    assert_eq!(lessor.expired(at(2_100), 3), [4]);
    // The revokes of two of the first were lost: they still count, and are retried.
    assert_eq!(lessor.expired(at(5_000), 3), [1, 3]);
    assert_eq!(lessor.expired(at(5_100), 3), [4]);
    [1, 3, 4].into_iter().for_each(|id| lessor.revoke(id));
    assert_eq!(lessor.expired(at(5_200), 3), [5, 6, 7]);
}

#[test]
fn an_expired_lease_cannot_be_renewed() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 2, at(0));
    assert_eq!(lessor.renew(7, at(2_000)), None);
    assert_eq!(
        lessor.remaining(7, at(2_500)).unwrap().remaining,
        Duration::ZERO
    );
    assert_eq!(lessor.renew(8, at(0)), None);
}

#[test]
fn renewing_restores_the_whole_granted_ttl() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 10, at(0));
    let renewal = lessor.renew(7, at(9_000)).unwrap();
    assert_eq!(
        renewal,
        Renewal {
            ttl: 10,
            takes_back: false,
            waits_for: None,
        }
    );
    assert!(lessor.expired(at(18_999), 10).is_empty());
    assert_eq!(lessor.expired(at(19_000), 10), [7]);
}

#[test]
fn a_lease_granted_again_under_its_old_id_does_not_inherit_the_old_deadline() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 2, at(0));
    lessor.revoke(7);
    lessor.grant(7, 100, at(1_000));
    assert!(lessor.expired(at(50_000), 10).is_empty());
    assert_eq!(lessor.expired(at(101_000), 10), [7]);
}

#[test]
fn restored_leases_get_their_remaining_time_and_an_election_timeout() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.restore([(1, 60, 5), (2, 60, 0)], at(0));
    assert!(lessor.expired(at(5_999), 10).is_empty());
    assert_eq!(lessor.expired(at(6_000), 10), [1]);
    assert_eq!(
        lessor.expired(at(60_999), 10),
        [1],
        "handed out again, its revoke never came"
    );
    assert_eq!(lessor.expired(at(61_000), 10), [2]);
}

#[test]
fn all_leases_are_listed_with_their_ends() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(1, 30, at(0));
    lessor.grant(2, 10, at(0));
    lessor.grant(3, 20, at(0));
    lessor.renew(2, at(500)).unwrap();
    let mut ends = lessor.ends();
    ends.sort_unstable();
    assert_eq!(ends, [(at(10_500), 2), (at(20_000), 3), (at(30_000), 1)]);
    assert_eq!(lessor.remaining(3, at(500)).unwrap().remaining, at(19_500));
}

#[test]
fn a_lease_renewed_each_third_of_its_ttl_is_never_written_down() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 60, at(0));
    let mut rows = 0;
    for second in 1..600 {
        if second % 20 == 0 {
            lessor.renew(7, at(second * 1000)).unwrap();
        }
        let written = lessor.checkpoints(at(second * 1000), 10).len();
        // Until its first renewal it counts as not renewed.
        if second > 20 {
            rows += written;
        }
    }
    assert_eq!(rows, 0);
}

#[test]
fn a_lease_nobody_renews_is_written_down_every_eighth_of_its_ttl() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 80, at(0));
    let mut rows = Vec::new();
    for second in 1..80 {
        rows.extend(lessor.checkpoints(at(second * 1000), 10));
    }
    assert_eq!(
        rows,
        [
            (7, 70),
            (7, 60),
            (7, 50),
            (7, 40),
            (7, 30),
            (7, 20),
            (7, 10)
        ]
    );
}

/// Whether a row must be reset for the renewal, and what the renewal waits for.
fn renewal(lessor: &mut Lessor, id: i64, now: Duration) -> (bool, Option<u64>) {
    let renewal = lessor.renew(id, now).unwrap();
    (renewal.takes_back, renewal.waits_for)
}

#[test]
fn every_renewal_of_a_lease_that_is_written_down_waits_until_the_row_is_taken_back() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 80, at(0));
    assert_eq!(lessor.checkpoints(at(10_000), 10), [(7, 70)]);
    assert_eq!(renewal(&mut lessor, 7, at(11_000)), (true, Some(2)));
    // The second renewal, before the reset is in the store: a crash now would expire the lease
    // early.
    assert_eq!(renewal(&mut lessor, 7, at(11_500)), (false, Some(2)));
    assert_eq!(lessor.applied(7, 70), 1);
    assert_eq!(lessor.applied(7, 0), u64::MAX);
    assert_eq!(renewal(&mut lessor, 7, at(12_000)), (false, None));

    let mut restored = Lessor::new(ELECTION);
    restored.restore([(7, 80, 70)], at(0));
    assert_eq!(renewal(&mut restored, 7, at(1_000)), (true, Some(1)));
}

#[test]
fn rows_that_got_lost_are_taken_back_again_and_keep_nobody_waiting_for_ever() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.restore([(7, 80, 70)], at(0));
    assert_eq!(renewal(&mut lessor, 7, at(1_000)), (true, Some(1)));
    assert_eq!(renewal(&mut lessor, 7, at(3_999)), (false, Some(1)));
    // One reset is as good as the other: whichever is applied, all renewals before it are answered.
    assert_eq!(renewal(&mut lessor, 7, at(4_000)), (true, Some(1)));
    // The second row was applied, the first never.
    assert_eq!(lessor.applied(7, 0), 1);
    // The store holds no short time, and none is on its way.
    assert_eq!(renewal(&mut lessor, 7, at(4_500)), (false, None));
    assert_eq!(renewal(&mut lessor, 7, at(7_000)), (false, None));
    // The next short time is waited for as ever.
    assert_eq!(lessor.checkpoints(at(60_000), 10), [(7, 27)]);
    assert_eq!(renewal(&mut lessor, 7, at(61_000)), (true, Some(4)));
    assert_eq!(lessor.applied(7, 27), 3);
    assert_eq!(lessor.applied(7, 0), u64::MAX);
}

#[test]
fn beside_members_of_etcd_nothing_is_written_down_and_what_was_is_taken_back() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 80, at(0));
    lessor.grant(8, 80, at(0));
    assert_eq!(lessor.checkpoints(at(10_000), 10).len(), 2);
    lessor.renew(8, at(10_000)).unwrap();
    lessor.allow_checkpoints(false);
    assert_eq!(lessor.next_wake(10), Some(Duration::ZERO));
    assert_eq!(lessor.checkpoints(at(11_000), 10), [(7, 0)]);
    assert_eq!(lessor.checkpoints(at(60_000), 10), []);
    assert_eq!(lessor.checkpoint_all(at(60_000)), []);
    assert_eq!(
        lessor.next_wake(10),
        Some(at(80_000)),
        "only the leases' ends"
    );
    lessor.allow_checkpoints(true);
    assert!(!lessor.checkpoints(at(60_000), 10).is_empty());

    let mut restored = Lessor::new(ELECTION);
    restored.allow_checkpoints(false);
    restored.restore([(7, 80, 70), (8, 80, 0)], at(0));
    assert_eq!(restored.checkpoints(at(0), 10), [(7, 0)]);
}

#[test]
fn a_follower_keeps_one_note_of_a_lease_that_etcd_checkpoints() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.allow_checkpoints(false);
    lessor.grant(7, 80, at(0));
    lessor.grant(8, 80, at(0));
    for left in (1..=70).rev() {
        lessor.applied(7, left);
        lessor.applied(8, left);
    }
    assert_eq!(lessor.to_take_back.len(), 2);
    lessor.revoke(8);
    assert_eq!(lessor.to_take_back.len(), 1, "its lease is gone");
    assert_eq!(lessor.checkpoints(at(10_000), 10), [(7, 0)]);
    assert_eq!(lessor.checkpoints(at(20_000), 10), []);
}

#[test]
fn checkpoints_stay_below_their_rate_and_the_rest_follows_later() {
    let mut lessor = Lessor::new(ELECTION);
    let leases = 2 * i64::from(CHECKPOINT_ROWS_PER_SECOND) + 10;
    for id in 1..=leases {
        lessor.grant(id, 80, at(0));
    }
    let limit = CHECKPOINT_ROWS_PER_SECOND as usize;
    assert_eq!(lessor.checkpoints(at(10_000), usize::MAX).len(), limit);
    assert_eq!(lessor.checkpoints(at(10_100), usize::MAX).len(), 0);
    assert_eq!(lessor.next_wake(10), Some(at(11_000)));
    assert_eq!(lessor.checkpoints(at(11_000), usize::MAX).len(), limit);
    assert_eq!(lessor.checkpoints(at(12_000), usize::MAX).len(), 10);
}

#[test]
fn a_graceful_stop_writes_every_lease_that_has_spent_a_second() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(1, 60, at(0));
    lessor.grant(2, 60, at(9_500));
    lessor.grant(3, 5, at(0));
    assert_eq!(lessor.checkpoint_all(at(10_000)), [(1, 50)]);
}

fn assert_heaps_are_short(lessor: &Lessor) {
    let most = HEAP_FACTOR * lessor.len() + HEAP_SLACK;
    for heap in [&lessor.deadlines, &lessor.checkpoints] {
        let (entries, leases) = (heap.len(), lessor.len());
        assert!(entries <= most, "{entries} entries of {leases} leases");
    }
}

#[test]
fn leases_that_come_and_go_leave_nothing_behind() {
    const TTL: i64 = 1_000_000;
    const AT_ONCE: i64 = 3_000;
    const LAST: i64 = 30_000;
    for case in 0..4 {
        let (leads, may_checkpoint) = (case % 2 == 0, case / 2 == 0);
        let mut lessor = Lessor::new(ELECTION);
        lessor.allow_checkpoints(may_checkpoint);
        // These stay.
        (1..=10).for_each(|id| lessor.grant(id, TTL, at(0)));
        for id in 11..=LAST {
            lessor.grant(id, TTL, at(0));
            assert_heaps_are_short(&lessor);
            if id > 10 + AT_ONCE {
                lessor.revoke(id - AT_ONCE);
                assert_heaps_are_short(&lessor);
            }
            if leads {
                assert!(lessor.expired(at(1), 10).is_empty());
                assert!(lessor.checkpoints(at(1), 10).is_empty());
            }
        }
        for id in LAST - AT_ONCE + 1..=LAST {
            lessor.revoke(id);
            assert_heaps_are_short(&lessor);
        }
        let written = if may_checkpoint { 10 } else { 0 };
        let rows: Vec<(i64, i64)> = (1..=written).map(|id| (id, 870_000)).collect();
        assert_eq!(lessor.checkpoints(at(130_000_000), 20), rows);
        let all: Vec<i64> = (1..=10).collect();
        assert_eq!(lessor.expired(at(1_000_000_000), 20), all);
    }
}

/// A lease of a lessor that has no heaps and looks at every lease.
struct PlainLease {
    ttl: i64,
    deadline: Duration,
    /// Its place among those that expire together: its deadline when that was last looked at.
    place: Duration,
    /// When to hand it out again.
    again: Option<Duration>,
}

impl PlainLease {
    fn new(ttl: i64, now: Duration) -> PlainLease {
        let deadline = now + seconds(ttl);
        PlainLease {
            ttl,
            deadline,
            place: deadline,
            again: None,
        }
    }
}

/// The leases handed out again, by id, and those handed out first, in order.
fn plain_expired(leases: &mut BTreeMap<i64, PlainLease>, now: Duration) -> (Vec<i64>, Vec<i64>) {
    let (mut again, mut first) = (Vec::new(), Vec::new());
    for (id, lease) in leases {
        if lease.again.is_some_and(|at| at > now) {
            continue;
        }
        if lease.deadline > now {
            if lease.place <= now {
                lease.place = lease.deadline;
            }
            continue;
        }
        if lease.again.replace(now + EXPIRED_RETRY).is_some() {
            again.push(*id);
        } else {
            first.push((lease.place, *id));
        }
    }
    first.sort_unstable();
    (again, first.into_iter().map(|(_, id)| id).collect())
}

#[test]
fn what_expires_is_the_same_as_without_heaps() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut lessor = Lessor::new(ELECTION);
    let mut plain: BTreeMap<i64, PlainLease> = BTreeMap::new();
    let (mut now, mut expirations) = (at(0), 0);
    for step in 0..100_000 {
        let id = rng.i64(1..=500);
        let is_free = !plain.contains_key(&id);
        if is_free {
            // Most of the long ones are revoked long before their time.
            let long = rng.bool();
            let ttl = rng.i64(if long { 1_000..100_000 } else { 2..60 });
            lessor.grant(id, ttl, now);
            plain.insert(id, PlainLease::new(ttl, now));
        } else if rng.bool() {
            lessor.revoke(id);
            plain.remove(&id);
        } else if let Some(lease) = plain.get_mut(&id) {
            let renewed = lessor.renew(id, now).is_some();
            assert_eq!(renewed, lease.deadline > now);
            if renewed {
                lease.deadline = lease.deadline.max(now + seconds(lease.ttl));
            }
        }
        assert_heaps_are_short(&lessor);
        if rng.u8(..8) == 0 {
            now += at(rng.u64(..2_000));
        }
        // Now it leads, now it follows.
        if step / 5_000 % 2 == 0 || rng.u8(..16) > 0 {
            continue;
        }
        lessor.checkpoints(now, 10);
        let (again, first) = plain_expired(&mut plain, now);
        let mut expired = lessor.expired(now, usize::MAX);
        expired[..again.len()].sort_unstable();
        assert_eq!(expired, [again, first].concat());
        expirations += expired.len();
        for id in expired {
            // Some revokes are lost.
            if rng.u8(..4) > 0 {
                lessor.revoke(id);
                plain.remove(&id);
            }
        }
    }
    assert!(expirations > 1_000, "only {expirations} expirations");
}

/// A naive model of the lessor's guarantees.
#[derive(Default)]
struct Model {
    /// id → (ttl, earliest moment it may expire)
    leases: BTreeMap<i64, (i64, Duration)>,
    /// id → remaining time in the store
    rows: BTreeMap<i64, i64>,
    /// Rows in flight, in log order.
    log: VecDeque<(i64, i64)>,
    /// Unacknowledged renewals: lease, what they wait for, and the expiry they would promise.
    waiting: Vec<(i64, u64, Duration)>,
}

impl Model {
    /// Applies the oldest row in flight.
    fn commit(&mut self, lessor: Option<&mut Lessor>) {
        let Some((id, remaining)) = self.log.pop_front() else {
            return;
        };
        if self.leases.contains_key(&id) {
            self.rows.insert(id, remaining);
        }
        let settled = lessor.map_or(0, |lessor| lessor.applied(id, remaining));
        let leases = &mut self.leases;
        self.waiting.retain(|(waits, rows, end)| {
            let answered = *waits == id && *rows <= settled;
            if answered && let Some((_, promised)) = leases.get_mut(&id) {
                *promised = (*promised).max(*end);
            }
            !answered
        });
    }

    fn end(&mut self, id: i64) {
        self.leases.remove(&id);
        self.rows.remove(&id);
        // All rows of a lease are applied before its id is granted again.
        self.log.retain(|(row, _)| *row != id);
        self.waiting.retain(|(waits, ..)| *waits != id);
    }
}

#[test]
fn leases_agree_with_a_model_over_random_renewals_time_jumps_losses_and_new_leaders() {
    arbtest::arbtest(|u| {
        let mut now = at(0);
        let mut lessor = Lessor::new(ELECTION);
        let mut model = Model::default();
        for _ in 0..u.int_in_range(1..=200)? {
            let id = u.int_in_range(1..=4)?;
            match u.int_in_range(0..=12)? {
                0..=1 if !model.leases.contains_key(&id) => {
                    // The id is free again, and its waiting renewals are gone.
                    let ttl = u.int_in_range(2..=100)?;
                    lessor.grant(id, ttl, now);
                    model.leases.insert(id, (ttl, now + seconds(ttl)));
                }
                // Renewals by several clients, one after the other.
                2..=4 => {
                    let renewal = lessor.renew(id, now);
                    let alive = model.leases.get_mut(&id).filter(|(_, end)| *end > now);
                    assert!(
                        alive.is_none() || renewal.is_some(),
                        "a living lease is renewed"
                    );
                    let Some(renewal) = renewal else { continue };
                    if renewal.takes_back {
                        model.log.push_back((id, 0));
                    }
                    let end = now + seconds(renewal.ttl);
                    let (ttl, promised) = model.leases.get_mut(&id).unwrap();
                    assert_eq!(renewal.ttl, *ttl);
                    match renewal.waits_for {
                        None => *promised = (*promised).max(end),
                        Some(rows) => model.waiting.push((id, rows, end)),
                    }
                }
                5..=6 => now += at(u.int_in_range(0..=3_000)?),
                7 => now += at(u.int_in_range(0..=200_000)?),
                8 => model.log.extend(lessor.checkpoints(now, 3)),
                9 => model.commit(Some(&mut lessor)),
                10 if u.ratio(1, 4)? => drop(model.log.pop_front()),
                10 => lessor.allow_checkpoints(u.ratio(1, 2)?),
                // The next leader, which has some part of the log.
                11 if u.ratio(1, 4)? => {
                    for _ in 0..u.int_in_range(0..=model.log.len())? {
                        model.commit(None);
                    }
                    model.log.clear();
                    model.waiting.clear();
                    let rows = &model.rows;
                    let stored = model.leases.iter();
                    let stored = stored
                        .map(|(id, (ttl, _))| (*id, *ttl, rows.get(id).copied().unwrap_or(0)));
                    let stored: Vec<_> = stored.collect();
                    lessor = Lessor::new(ELECTION);
                    lessor.restore(stored, now);
                }
                _ => {
                    for id in lessor.expired(now, 2) {
                        let (_, end) = model.leases[&id];
                        assert!(end <= now, "lease {id} ended early");
                        lessor.revoke(id);
                        model.end(id);
                    }
                }
            }
            assert_eq!(lessor.len(), model.leases.len());
            for (id, (ttl, end)) in &model.leases {
                let lease = lessor.remaining(*id, now).unwrap();
                assert_eq!(lease.granted_ttl, *ttl);
                assert!(now + lease.remaining >= *end, "lease {id} will end early");
            }
        }
        // Every lease expires when the lessor is called at the times it returns.
        for _ in 0..10_000 {
            if lessor.is_empty() {
                return Ok(());
            }
            now = now.max(lessor.next_wake(10).unwrap());
            lessor.checkpoints(now, usize::MAX);
            for id in lessor.expired(now, usize::MAX) {
                lessor.revoke(id);
            }
        }
        panic!("{} leases never ended", lessor.len());
    });
}
