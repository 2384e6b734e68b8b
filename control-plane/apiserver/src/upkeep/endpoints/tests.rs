use super::*;

#[test]
fn only_a_difference_is_written_and_labels_of_others_stay() {
    let addresses = ["10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap()];
    for (both, one, none) in [
        (
            endpoints(&addresses, 6443),
            endpoints(&addresses[..1], 6443),
            endpoints(&[], 6443),
        ),
        (
            slice(&addresses, 6443),
            slice(&addresses[..1], 6443),
            slice(&[], 6443),
        ),
    ] {
        let mut there = both.clone();
        there["metadata"]["labels"]["own"] = "x".into();
        assert_eq!(changed(&there, &both), None);
        let less = changed(&there, &one).unwrap();
        assert_eq!(less["metadata"]["labels"]["own"], "x");
        assert_eq!(changed(&less, &one), None);
        let emptied = changed(&less, &none).unwrap();
        assert!(emptied.get("subsets").is_none());
        assert_eq!(changed(&emptied, &none), None);
    }
}
