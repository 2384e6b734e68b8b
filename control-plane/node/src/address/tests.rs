use super::*;

#[test]
fn addresses_of_nodes_and_pods_do_not_meet() {
    assert_eq!(of_node(0), "172.18.0.2");
    assert_eq!(of_node(300), "172.18.1.46");
    assert_eq!(range(0), "10.244.0.0/24");
    assert_eq!(range(3072), "10.128.0.0/24");
    let ranges: BTreeSet<String> = (0..20_000).map(range).collect();
    assert_eq!(ranges.len(), 20_000);
}

#[test]
fn a_pod_keeps_its_address_and_one_given_back_rests_for_a_while() {
    let mut pool = Pool::new(1);
    assert_eq!(pool.of_pod("a", ""), "10.244.1.2");
    assert_eq!(pool.of_pod("b", ""), "10.244.1.3");
    assert_eq!(pool.of_pod("a", ""), "10.244.1.2");
    pool.give_back("a");
    assert_eq!(pool.of_pod("c", ""), "10.244.1.4");
    assert_eq!(
        pool.of_pod("d", "10.244.1.77"),
        "10.244.1.77",
        "it had one before a restart"
    );
    assert_eq!(
        pool.of_pod("e", "10.9.9.9"),
        "10.244.1.5",
        "that is not ours"
    );
}

#[test]
fn every_pod_of_a_full_node_has_its_own_address() {
    let mut pool = Pool::new(0);
    let first: BTreeSet<String> = (0..PODS_MAX)
        .map(|at| pool.of_pod(&at.to_string(), ""))
        .collect();
    assert_eq!(first.len(), PODS_MAX as usize);
    pool.give_back("100");
    assert!(first.contains(&pool.of_pod("new", "")));
    pool.of_pod("one too many", "");
}
