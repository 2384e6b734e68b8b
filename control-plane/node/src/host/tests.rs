use super::*;

fn host() -> Host {
    Host {
        name: "node-3".to_owned(),
        number: 3,
        families: vec![Family::V4, Family::V6],
        size: Size::default(),
        labels: vec![("zone".to_owned(), "x".to_owned())],
    }
}

#[test]
fn a_node_says_what_it_has_and_that_it_is_well() {
    let now = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
    let node = host().node(now);
    assert_eq!(
        node["metadata"]["labels"]["kubernetes.io/hostname"],
        "node-3"
    );
    assert_eq!(node["metadata"]["labels"]["zone"], "x");
    assert_eq!(node["spec"]["podCIDR"], "10.244.3.0/24");
    assert_eq!(node["status"]["allocatable"]["pods"], "110");
    let ranges = json!(["10.244.3.0/24", "fd00:10:244:3::/64"]);
    assert_eq!(node["spec"]["podCIDRs"], ranges);
    let addresses = json!([
        {"type": "InternalIP", "address": "172.18.0.5"},
        {"type": "InternalIP", "address": "fd00:172:18::5"},
        {"type": "Hostname", "address": "node-3"},
    ]);
    assert_eq!(node["status"]["addresses"], addresses);
    let features = json!(["RestartAllContainersOnContainerExits"]);
    assert_eq!(node["status"]["declaredFeatures"], features);
    assert!(is_ready(&node) && !is_stopped(&node));
}

#[test]
fn a_heartbeat_keeps_the_time_of_what_did_not_change() {
    let [first, later] = ["2026-01-02T03:04:05Z", "2026-01-02T03:09:05Z"];
    let mut node = host().node(Timestamp::parse(first).unwrap());
    node["status"]["conditions"][3]["status"] = "Unknown".into();
    assert!(!is_ready(&node));
    let status = host().status(Some(&node), Timestamp::parse(later).unwrap());
    let conditions = status["conditions"].as_array().unwrap();
    let times = |at: usize| {
        let one = &conditions[at];
        (
            one["lastHeartbeatTime"].as_str().unwrap(),
            one["lastTransitionTime"].as_str().unwrap(),
        )
    };
    assert_eq!(times(0), (later, first));
    assert_eq!(times(3), (later, later));
}

#[test]
fn a_lease_lasts_for_four_periods_and_belongs_to_the_node() {
    let now = Timestamp::parse("2026-01-02T03:04:05.123456Z").unwrap();
    let lease = host().lease("u", Duration::from_secs(10), now);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.123456Z");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "u");
}
