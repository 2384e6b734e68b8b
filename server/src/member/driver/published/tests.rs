use raft::RoleKind;

use super::*;

fn member(id: NodeId, is_learner: bool) -> MemberInfo {
    MemberInfo {
        id,
        is_learner,
        ..MemberInfo::default()
    }
}

/// Leads in term 2, and has applied an entry of it.
fn leader(members: &[MemberInfo]) -> Published {
    let shared = Published::new(1, Standing::among(1, members));
    let leads = RoleChange {
        term: 2,
        role: RoleKind::Leader,
        leader: 1,
    };
    shared.leadership.publish(&leads, 1, Duration::ZERO);
    assert!(!shared.decides_alone(), "nothing of this term is applied");
    shared.progress.publish(7, 2);
    shared
}

#[test]
fn a_leader_with_a_learner_asks_before_it_reads() {
    assert!(leader(&[member(1, false)]).decides_alone());
    let with_learner = [member(1, false), member(2, true)];
    let shared = leader(&with_learner);
    assert!(!shared.decides_alone());
    // The learner is removed, and added again.
    shared
        .progress
        .set_standing(Standing::among(1, &with_learner[..1]));
    assert!(shared.decides_alone());
    shared.leadership.set_known(Some(8));
    assert!(!shared.decides_alone(), "the learner may have applied more");
    shared.leadership.set_known(Some(7));
    assert!(shared.decides_alone());
    shared
        .progress
        .set_standing(Standing::among(1, &with_learner));
    assert!(!shared.decides_alone());
}

#[test]
fn the_cluster_version_tells_whether_a_member_is_older() {
    let shared = Published::new(1, Standing::default());
    for (decided, has_older) in [
        (None, true),
        (Some("3.5.0"), true),
        (Some("3.6.0"), true),
        (Some("3.7.0"), false),
        (Some("3.10.0"), false),
    ] {
        shared.progress.set_cluster_version(decided);
        assert_eq!(
            shared.progress.has_older_members(),
            has_older,
            "{decided:?}"
        );
    }
}

#[test]
fn what_views_held_back_counts_only_while_there_are_views() {
    let space = Space::default();
    let mut stats = Stats {
        file_bytes: 100 << 20,
        viewed_bytes: 50 << 20,
        views: 1,
        ..Stats::default()
    };
    space.publish(&stats, false, false);
    assert_eq!(space.held_back(), HeldBack::Much);
    stats.views = 0;
    space.publish(&stats, false, false);
    assert_eq!(space.held_back(), HeldBack::Little);
}

#[test]
fn a_member_that_is_not_listed_is_not_alone() {
    assert_eq!(Standing::among(1, &[]), Standing::default());
    assert_eq!(Standing::among(1, &[member(2, false)]), Standing::default());
}
