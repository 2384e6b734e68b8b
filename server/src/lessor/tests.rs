use std::collections::BTreeMap;

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
    // Two of the first were lost on the way: they keep their places, and are tried again.
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
            checkpointed: false
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
fn leases_are_listed_by_remaining_time() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(1, 30, at(0));
    lessor.grant(2, 10, at(0));
    lessor.grant(3, 20, at(0));
    let ids: Vec<i64> = lessor.list(at(500)).iter().map(|lease| lease.id).collect();
    assert_eq!(ids, [2, 3, 1]);
    assert_eq!(lessor.list(at(500))[0].remaining, at(9_500));
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
        // Before its first renewal it may be one of those that nobody renews.
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

#[test]
fn renewing_a_lease_that_is_written_down_asks_to_take_the_row_back_once() {
    let mut lessor = Lessor::new(ELECTION);
    lessor.grant(7, 80, at(0));
    assert_eq!(lessor.checkpoints(at(10_000), 10), [(7, 70)]);
    assert!(lessor.renew(7, at(11_000)).unwrap().checkpointed);
    assert!(!lessor.renew(7, at(12_000)).unwrap().checkpointed);

    let mut restored = Lessor::new(ELECTION);
    restored.restore([(7, 80, 70)], at(0));
    assert!(restored.renew(7, at(1_000)).unwrap().checkpointed);
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

/// What the lessor promises, kept as naively as possible.
#[derive(Default)]
struct Model {
    /// id → (ttl, earliest moment it may expire)
    leases: BTreeMap<i64, (i64, Duration)>,
    /// id → remaining time in the store
    rows: BTreeMap<i64, i64>,
}

#[test]
fn leases_agree_with_a_model_over_random_renewals_time_jumps_and_restarts() {
    arbtest::arbtest(|u| {
        let mut now = at(0);
        let mut lessor = Lessor::new(ELECTION);
        let mut model = Model::default();
        for _ in 0..u.int_in_range(1..=200)? {
            let id = u.int_in_range(1..=8)?;
            match u.int_in_range(0..=9)? {
                0..=1 if !model.leases.contains_key(&id) => {
                    let ttl = u.int_in_range(2..=100)?;
                    lessor.grant(id, ttl, now);
                    model.leases.insert(id, (ttl, now + seconds(ttl)));
                }
                2..=3 => {
                    let renewal = lessor.renew(id, now);
                    let alive = model.leases.get_mut(&id).filter(|(_, end)| *end > now);
                    assert!(
                        alive.is_none() || renewal.is_some(),
                        "a living lease is renewed"
                    );
                    if let (Some(renewal), Some((ttl, end))) = (renewal, alive) {
                        assert_eq!(renewal.ttl, *ttl);
                        *end = now + seconds(*ttl);
                        assert_eq!(renewal.checkpointed, model.rows.remove(&id).is_some());
                    } else if renewal.is_some_and(|renewal| renewal.checkpointed) {
                        model.rows.remove(&id);
                    }
                }
                4..=5 => now += at(u.int_in_range(0..=3_000)?),
                6 => now += at(u.int_in_range(0..=200_000)?),
                7 => model.rows.extend(lessor.checkpoints(now, 3)),
                8 if u.ratio(1, 8)? => {
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
                        model.leases.remove(&id);
                        model.rows.remove(&id);
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
        // Nothing is forgotten: asked at the times it names, everything ends.
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
