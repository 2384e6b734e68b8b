use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines};

fn range(name: &str, cidrs: &[&str]) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"cidrs": cidrs},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "",
            "message": READY, "lastTransitionTime": ago(100)}]}})
}

fn deleted(range: Value, seconds: i64) -> Value {
    let mut range = range;
    range["metadata"]["deletionTimestamp"] = ago(seconds).into();
    range
}

fn address(name: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": name, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
        "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}})
}

fn decided(objects: &[Value], name: &str) -> Vec<String> {
    lines(&decide(&ServiceCidrs, &caches(objects), ("", name)))
}

#[test]
fn a_new_range_is_kept_and_ready() {
    let mut new = range("a", &["10.1.0.0/24"]);
    new["metadata"]["finalizers"] = Value::Null;
    new["status"] = Value::Null;
    let decision = decide(&ServiceCidrs, &caches(&[new]), ("", "a"));
    let bodies = bodies(&decision);
    assert_eq!(bodies[0]["metadata"]["finalizers"], json!([FINALIZER]));
    let condition = &bodies[1]["status"]["conditions"][0];
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["message"], READY);
    assert_eq!(decided(&[range("a", &["10.1.0.0/24"])], "a"), [""; 0]);
}

#[test]
fn a_range_stays_while_a_service_needs_it() {
    let gone = deleted(range("a", &["10.1.0.0/24"]), 11);
    let used = address("10.1.0.7");
    let decision = decide(
        &ServiceCidrs,
        &caches(&[gone.clone(), used.clone()]),
        ("", "a"),
    );
    let condition = &bodies(&decision)[0]["status"]["conditions"][0];
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Terminating");
    assert_eq!(condition["message"], NEEDED);
    let frees = |other: Value| {
        let decision = decide(
            &ServiceCidrs,
            &caches(&[gone.clone(), used.clone(), other]),
            ("", "a"),
        );
        bodies(&decision)[0]["metadata"]["finalizers"] == json!([])
    };
    // Whichever other range has the address, in whole or in part.
    assert!(frees(range("b", &["10.1.0.0/16"])));
    assert!(frees(range("b", &["10.1.0.0/24"])));
    assert!(frees(range("b", &["fd00::/64", "10.1.0.0/28"])));
    assert!(!frees(range("b", &["10.1.1.0/24"])));
    assert!(
        !frees(range("b", &["10.1.0.7/32"])),
        "it is the first of that"
    );
}

#[test]
fn a_range_of_two_families_stays_while_a_service_needs_either() {
    let gone = deleted(range("a", &["10.1.0.0/24", "fd00:1::/112"]), 11);
    let frees = |others: &[Value]| {
        let objects = [&[gone.clone()][..], others].concat();
        let decision = decide(&ServiceCidrs, &caches(&objects), ("", "a"));
        bodies(&decision)[0]["metadata"]["finalizers"] == json!([])
    };
    let (four, six) = (address("10.1.0.7"), address("fd00:1::7"));
    assert!(frees(&[]));
    let both = [four, six];
    assert!(!frees(&both[..1]) && !frees(&both[1..]));
    let with = |cidrs: &[&str]| [&both[..], &[range("b", cidrs)]].concat();
    assert!(!frees(&with(&["10.1.0.0/24"])) && !frees(&with(&["fd00:1::/112"])));
    assert!(frees(&with(&["fd00:1::/112", "10.1.0.0/24"])));
}

#[test]
fn a_range_that_nobody_needs_goes_after_a_while() {
    let foreign = {
        let mut foreign = address("10.1.0.7");
        foreign["metadata"]["labels"] = Value::Null;
        foreign
    };
    for others in [vec![], vec![foreign], vec![address("10.1.1.7")]] {
        let at = |seconds: i64| {
            let gone = deleted(range("a", &["10.1.0.0/24"]), seconds);
            let objects = [&[gone][..], &others].concat();
            decide(&ServiceCidrs, &caches(&objects), ("", "a"))
        };
        let early = at(4);
        assert_eq!(lines(&early), [""; 0]);
        assert_eq!(early.after, Some(Duration::from_secs(6)));
        let late = at(10);
        assert_eq!(bodies(&late)[0]["metadata"]["finalizers"], json!([]));
    }
    let mut free = deleted(range("a", &["10.1.0.0/24"]), 20);
    free["metadata"]["finalizers"] = json!(["other"]);
    assert_eq!(decided(&[free], "a"), [""; 0]);
}

#[test]
fn prefixes_give_the_addresses_within_their_ends() {
    let gives = |prefix: &str, address: &str| {
        Prefix::parse(prefix)
            .unwrap()
            .gives(address.parse().unwrap())
    };
    assert!(gives("10.1.0.0/24", "10.1.0.1") && gives("10.1.0.0/24", "10.1.0.254"));
    assert!(!gives("10.1.0.0/24", "10.1.0.0") && !gives("10.1.0.0/24", "10.1.0.255"));
    assert!(!gives("10.1.0.0/24", "10.1.1.1") && !gives("0.0.0.0/0", "::1"));
    assert!(gives("fd00::/120", "fd00::ff") && !gives("fd00::/120", "fd00::"));
    for bad in ["10.1.0.0", "10.1.0.0/33", "x/8"] {
        assert_eq!(Prefix::parse(bad), None, "{bad}");
    }
}
