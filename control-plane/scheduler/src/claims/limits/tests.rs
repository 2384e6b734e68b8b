use serde_json::{Value, json};

use crate::claims::tests::{LATER, NOW, bound_to, claim, core, decided, made_room, set, with};
use crate::core::Core;
use crate::tests::on;

const DRIVER: &str = "x.com/y";
const REFUSED: &str = "0/1 nodes are available: 1 node(s) exceed max volume count. ";

/// A core with the node `a`, which takes one volume of the driver.
fn limited() -> Core {
    let mut core = core();
    core.node_gone("b", NOW);
    limit(&mut core, 1);
    core
}

fn limit(core: &mut Core, count: i64) {
    let drivers =
        json!([{"name": "free.com/y"}, {"name": DRIVER, "allocatable": {"count": count}}]);
    let node = json!({"metadata": {"name": "a"}, "spec": {"drivers": drivers}});
    set(core, "CSINode", node);
}

/// A volume of a driver, and the claim of that name that is bound to it.
fn make(core: &mut Core, name: &str, driver: &str) {
    let csi = json!({"driver": driver, "volumeHandle": format!("handle-{name}")});
    let volume = json!({"metadata": {"name": name}, "spec": {"csi": csi}});
    set(core, "PersistentVolume", volume);
    let (spec, bound) = bound_to(name);
    set(core, "PersistentVolumeClaim", claim(name, spec, bound));
}

fn assert_refused(core: &mut Core, now: std::time::Duration) {
    let told = decided(core, now);
    assert!(told.starts_with(REFUSED), "{told}");
}

#[test]
fn a_node_takes_as_many_volumes_of_a_driver_as_it_can_attach() {
    let mut core = limited();
    make(&mut core, "one", DRIVER);
    make(&mut core, "two", DRIVER);
    make(&mut core, "other", "free.com/y");
    core.pod(on("a", &with("there", "one")), NOW);
    core.pod(with("p", "two"), NOW);
    assert_refused(&mut core, NOW);
    core.pod(with("same", "one"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a", "it is attached already");
    core.pod(with("free", "other"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a", "its driver has no limit");
    core.pod_gone("there", LATER);
    assert_refused(&mut core, LATER);
    core.pod_gone("same", LATER * 2);
    assert_eq!(decided(&mut core, LATER * 2), "to a");
}

#[test]
fn a_node_without_limits_takes_any_number_and_a_higher_limit_lets_one_in() {
    let mut core = core();
    core.node_gone("b", NOW);
    for name in ["one", "two", "three"] {
        make(&mut core, name, DRIVER);
    }
    core.pod(on("a", &with("there", "one")), NOW);
    core.pod(with("p", "two"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a");
    limit(&mut core, 2);
    core.pod(with("q", "three"), NOW);
    assert_refused(&mut core, NOW);
    limit(&mut core, 3);
    assert_eq!(decided(&mut core, LATER), "to a");
}

#[test]
fn what_is_still_attached_and_what_is_yet_to_be_made_count() {
    let mut core = limited();
    make(&mut core, "one", DRIVER);
    make(&mut core, "two", DRIVER);
    let attachment = json!({"metadata": {"name": "csi-1"}, "spec": {
        "attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "one"}}});
    set(&mut core, "VolumeAttachment", attachment.clone());
    core.pod(with("p", "two"), NOW);
    assert_refused(&mut core, NOW);
    core.claims(NOW, |claims| claims.remove("VolumeAttachment", &attachment));
    assert_eq!(decided(&mut core, LATER), "to a");
    core.pod_gone("p", LATER);
    // The class of these makes volumes with the same driver.
    let of_class = json!({"storageClassName": "late"});
    for name in ["first", "second"] {
        let claim = claim(name, of_class.clone(), json!({}));
        set(&mut core, "PersistentVolumeClaim", claim);
    }
    core.pod(on("a", &with("waits", "first")), LATER);
    core.pod(with("q", "second"), LATER);
    assert_refused(&mut core, LATER);
}

#[test]
fn a_pod_of_more_priority_gets_the_place_of_a_volume() {
    let mut core = limited();
    make(&mut core, "one", DRIVER);
    make(&mut core, "two", DRIVER);
    core.pod(on("a", &with("there", "one")), NOW);
    let preemption = made_room(&mut core, &with("urgent", "two"), NOW);
    assert_eq!(preemption.victims[0].name, "there");
}

#[test]
fn a_limit_ends_with_its_csi_node() {
    let mut core = limited();
    make(&mut core, "one", DRIVER);
    make(&mut core, "two", DRIVER);
    core.pod(on("a", &with("there", "one")), NOW);
    let gone: Value = json!({"metadata": {"name": "a"}});
    core.claims(NOW, |claims| claims.remove("CSINode", &gone));
    core.pod(with("p", "two"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a");
    limit(&mut core, 1);
    core.claims(NOW, |claims| claims.clear("CSINode"));
    core.pod_gone("p", NOW);
    core.pod(with("q", "two"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a");
}
