use super::*;

/// The address of a pod in a pool of one family.
fn of_pod(pool: &mut Pool, uid: &str, has: &str) -> String {
    let all = pool.of_pod(uid, has);
    assert_eq!(all.len(), 1);
    all[0].clone()
}

#[test]
fn addresses_of_nodes_and_pods_do_not_meet() {
    use Family::{V4, V6};
    assert_eq!(V4.of_node(0), "172.18.0.2");
    assert_eq!(V4.of_node(300), "172.18.1.46");
    assert_eq!(V4.range(0), "10.244.0.0/24");
    assert_eq!(V4.range(3072), "10.128.0.0/24");
    assert_eq!(V6.of_node(300), "fd00:172:18::12e");
    assert_eq!(V6.range(300), "fd00:10:244:12c::/64");
    for family in [V4, V6] {
        let ranges: BTreeSet<String> = (0..20_000).map(|number| family.range(number)).collect();
        assert_eq!(ranges.len(), 20_000);
        let nodes: BTreeSet<String> = (0..20_000).map(|number| family.of_node(number)).collect();
        assert_eq!(nodes.len(), 20_000);
    }
}

#[test]
fn a_pod_keeps_its_address_and_one_given_back_rests_for_a_while() {
    let mut pool = Pool::new(1, &[Family::V4]);
    assert_eq!(of_pod(&mut pool, "a", ""), "10.244.1.2");
    assert_eq!(of_pod(&mut pool, "b", ""), "10.244.1.3");
    assert_eq!(of_pod(&mut pool, "a", ""), "10.244.1.2");
    pool.give_back("a");
    assert_eq!(of_pod(&mut pool, "c", ""), "10.244.1.4");
    assert_eq!(
        of_pod(&mut pool, "d", "10.244.1.77"),
        "10.244.1.77",
        "it had one before a restart"
    );
    assert_eq!(
        of_pod(&mut pool, "e", "10.9.9.9"),
        "10.244.1.5",
        "that is not ours"
    );
}

#[test]
fn a_node_that_has_other_ranges_gives_addresses_out_of_them() {
    let mut pool = Pool::new(1, &[Family::V4]);
    for no_use in [
        &["fd00::/64"][..],
        &["10.9.0.0/24", "fd00::/64"],
        &["10.9.0.0/31"],
        &["10.9.0.0"],
        &[],
    ] {
        pool.move_to(no_use);
        assert_eq!(of_pod(&mut pool, "a", ""), "10.244.1.2", "{no_use:?}");
    }
    pool.move_to(&["10.9.0.8/29"]);
    let all = ["a", "b", "c", "d", "e"].map(|uid| of_pod(&mut pool, uid, ""));
    let expected = [10, 11, 12, 13, 14].map(|at| format!("10.9.0.{at}"));
    assert_eq!(all, expected);
    // The same ranges again change nothing.
    pool.move_to(&["10.9.0.8/29"]);
    assert_eq!(of_pod(&mut pool, "e", ""), "10.9.0.14");
    pool.give_back("c");
    assert_eq!(of_pod(&mut pool, "f", ""), "10.9.0.12");
}

#[test]
fn every_pod_of_a_full_node_has_its_own_address() {
    let mut pool = Pool::new(0, &[Family::V4]);
    let first: BTreeSet<String> = (0..PODS_MAX)
        .map(|at| of_pod(&mut pool, &at.to_string(), ""))
        .collect();
    assert_eq!(first.len(), PODS_MAX as usize);
    pool.give_back("100");
    assert!(first.contains(&of_pod(&mut pool, "new", "")));
    of_pod(&mut pool, "one too many", "");
}

#[test]
fn a_pod_has_an_address_of_each_family_and_keeps_both() {
    let mut pool = Pool::new(3, &[Family::V6, Family::V4]);
    let second = ["fd00:10:244:3::2", "10.244.3.2"];
    assert_eq!(pool.of_pod("a", ""), second);
    let by_either = [("b", "fd00:10:244:3::4d"), ("c", "10.244.3.78")];
    let kept = by_either.map(|(uid, has)| pool.of_pod(uid, has));
    assert_eq!(kept[0], ["fd00:10:244:3::4d", "10.244.3.77"]);
    assert_eq!(kept[1], ["fd00:10:244:3::4e", "10.244.3.78"]);
    let third = ["fd00:10:244:3::3", "10.244.3.3"];
    assert_eq!(
        pool.of_pod("d", "fd00:10:244:4::9"),
        third,
        "that is not ours"
    );
}
