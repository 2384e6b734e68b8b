use serde_json::json;

use crate::claims::tests::{NOW, bound_to, claim, core, decided, set, with};
use crate::core::Core;
use crate::tests::node;

const ZONE: &str = "topology.kubernetes.io/zone";
const OLDER_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const NOWHERE: &str = "0/2 nodes are available: 2 node(s) had no available volume zone.";

/// What becomes of a pod with a volume that has this label.
fn told(core: &mut Core, label: &str, zones: &str) -> String {
    let volume = json!({"metadata": {"name": zones, "labels": {label: zones}}});
    set(core, "PersistentVolume", volume);
    let (spec, bound) = bound_to(zones);
    set(core, "PersistentVolumeClaim", claim(zones, spec, bound));
    core.pod(with(zones, zones), NOW);
    decided(core, NOW)
}

#[test]
fn a_pod_goes_to_a_zone_of_its_volume() {
    let mut core = core();
    assert!(told(&mut core, ZONE, "any").starts_with("to "));
    for name in ["a", "b"] {
        let zone = json!({ZONE: format!("zone-{name}")});
        core.node(&node(name, json!({"metadata": {"labels": zone}})), NOW);
    }
    for (label, zones, expected) in [
        (ZONE, "zone-b", "to b"),
        // The nodes have the newer label.
        (OLDER_ZONE, "zone-a", "to a"),
        (ZONE, "zone-c__zone-a", "to a"),
        (ZONE, "zone-c", NOWHERE),
        (REGION, "region", NOWHERE),
        (ZONE, "zone-c__", "to "),
    ] {
        let told = told(&mut core, label, zones);
        assert!(told.starts_with(expected), "{label} {zones}: {told}");
    }
}
