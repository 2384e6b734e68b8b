use serde_json::{Value, json};

use super::{Volume, Volumes, Wanted};
use crate::claims::tests::{LATER, NOW, claim, core, decided, set, with};
use crate::claims::{BOUND, Failed};
use crate::core::Decision;
use crate::tests::pod;

/// A volume of the class `local`, on some nodes.
fn local(name: &str, size: &str, nodes: &[&str], change: Value) -> Value {
    let on = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": nodes});
    let volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"}, "spec": {
        "storageClassName": "local", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}}}});
    machinery::patch::merge(&volume, &change)
}

/// A claim of a class for so much.
fn asks(name: &str, class: &str, size: &str, change: Value) -> Value {
    let spec = json!({"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}}});
    let change = machinery::patch::merge(&json!({"metadata": {"uid": name}}), &change);
    claim(name, spec, change)
}

const UNAVAILABLE: &str = "2 node(s) didn't find available persistent volumes to bind";

#[test]
fn a_claim_that_waits_gets_the_smallest_volume_that_fits_where_the_pod_goes() {
    let mut core = core();
    for volume in [
        local("tiny", "1Gi", &["a", "b"], json!({})),
        local("large", "9Gi", &["b"], json!({})),
        local("good", "5Gi", &["b"], json!({})),
        local(
            "other",
            "4Gi",
            &["b"],
            json!({"spec": {"storageClassName": "late"}}),
        ),
        local(
            "block",
            "4Gi",
            &["b"],
            json!({"spec": {"volumeMode": "Block"}}),
        ),
        local(
            "taken",
            "4Gi",
            &["b"],
            json!({"spec": {"claimRef": {"name": "x"}}}),
        ),
        local(
            "failed",
            "4Gi",
            &["b"],
            json!({"status": {"phase": "Failed"}}),
        ),
        local(
            "once",
            "4Gi",
            &["b"],
            json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
        ),
    ] {
        set(&mut core, "PersistentVolume", volume);
    }
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "local", "3Gi", json!({})),
    );
    core.pod(with("p", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "data gets good, [] on b");
    // Until the claim is bound the pod waits, and nobody else gets the volume.
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("more", "local", "3Gi", json!({})),
    );
    core.pod(with("q", "more"), LATER);
    assert_eq!(decided(&mut core, LATER), "more gets large, [] on b");
    let named =
        json!({"spec": {"claimRef": {"namespace": "default", "name": "data", "uid": "data"}}});
    set(
        &mut core,
        "PersistentVolume",
        local("good", "5Gi", &["b"], named),
    );
    assert_eq!(decided(&mut core, LATER), "nothing");
    let bound =
        json!({"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": "good"}});
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "local", "3Gi", bound),
    );
    assert_eq!(decided(&mut core, LATER + LATER), "to b");
}

#[test]
fn only_volumes_that_a_claim_may_get_are_looked_at_for_it() {
    let names = |claim: &str| json!({"namespace": "default", "name": claim, "uid": ""});
    let naming = |claim: &str| json!({"spec": {"claimRef": names(claim)}});
    let other_class = json!({"spec": {"storageClassName": "late"}});
    let own = machinery::patch::merge(&naming("data"), &other_class);
    let mut volumes = Volumes::default();
    for volume in [
        local("large", "9Gi", &["a"], json!({})),
        local("good", "3Gi", &["b"], json!({})),
        local("small", "2Gi", &["b"], json!({})),
        local("other", "4Gi", &["b"], other_class),
        local("taken", "4Gi", &["b"], naming("more")),
        local("own", "1Gi", &["b"], own),
    ] {
        volumes.insert(Volume::read(&volume, None));
    }
    let wanted = Wanted::read(&asks("data", "local", "3Gi", json!({})));
    let looked_at =
        |volumes: &Volumes| -> Vec<String> { volumes.of(&wanted).map(name_of).collect() };
    assert_eq!(looked_at(&volumes), ["own", "good", "large"]);
    // A volume that changes is looked at as it is now.
    let given = local("good", "3Gi", &["b"], naming("more"));
    volumes.insert(Volume::read(&given, None));
    volumes.remove("own");
    assert_eq!(looked_at(&volumes), ["large"]);
    volumes.clear();
    assert_eq!(looked_at(&volumes), [""; 0]);
}

fn name_of(volume: &Volume) -> String {
    volume.name().to_owned()
}

#[test]
fn a_class_in_an_annotation_comes_before_the_field() {
    let mut core = core();
    let annotated =
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "local"}}});
    let elsewhere = json!({"spec": {"storageClassName": "other"}});
    let change = machinery::patch::merge(&annotated, &elsewhere);
    let disk = local("disk", "1Gi", &["b"], change);
    set(&mut core, "PersistentVolume", disk);
    let data = asks("data", "now", "1Gi", annotated);
    set(&mut core, "PersistentVolumeClaim", data);
    core.pod(with("p", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "data gets disk, [] on b");
}

#[test]
fn a_volume_that_names_its_claim_is_the_only_one_for_it() {
    let mut core = core();
    let names = |uid: &str| {
        let claim = json!({"namespace": "default", "name": "data", "uid": uid});
        json!({"spec": {"claimRef": claim}, "status": {"phase": "Pending"}})
    };
    set(
        &mut core,
        "PersistentVolume",
        local("free", "1Gi", &["a", "b"], json!({})),
    );
    set(
        &mut core,
        "PersistentVolume",
        local("own", "2Gi", &["b"], names("")),
    );
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "local", "1Gi", json!({})),
    );
    core.pod(with("p", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "data gets own, [] on b");
    // One that names an earlier claim of this name is not for it.
    let mut core = self::core();
    set(
        &mut core,
        "PersistentVolume",
        local("own", "2Gi", &["b"], names("earlier")),
    );
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "local", "1Gi", json!({})),
    );
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).contains(UNAVAILABLE));
}

#[test]
fn a_volume_that_was_given_stays_so_when_an_older_state_of_it_arrives() {
    let mut core = core();
    let disk = local("disk", "1Gi", &["b"], json!({}));
    set(&mut core, "PersistentVolume", disk.clone());
    for name in ["data", "more"] {
        let claim = asks(name, "local", "1Gi", json!({}));
        set(&mut core, "PersistentVolumeClaim", claim);
    }
    core.pod(with("p", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "data gets disk, [] on b");
    set(&mut core, "PersistentVolume", disk);
    core.pod(with("q", "more"), LATER);
    assert!(decided(&mut core, LATER).contains(UNAVAILABLE));
    // It is free again if the apiserver refuses that.
    let failed = Failed {
        volumes: vec!["disk".to_owned()],
        ..Failed::default()
    };
    core.claimed("p", &failed, LATER);
    assert_eq!(decided(&mut core, LATER * 2), "data gets disk, [] on b");
}

#[test]
fn two_claims_of_a_pod_get_two_volumes_on_one_node() {
    let mut core = core();
    for volume in [
        local("a1", "5Gi", &["a"], json!({})),
        local("b1", "5Gi", &["b"], json!({})),
        local("b2", "2Gi", &["b"], json!({})),
    ] {
        set(&mut core, "PersistentVolume", volume);
    }
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("big", "local", "3Gi", json!({})),
    );
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("small", "local", "1Gi", json!({})),
    );
    let source =
        |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes = json!([source("big"), source("small")]);
    core.pod(pod("p", json!({"spec": {"volumes": volumes}})), NOW);
    assert_eq!(
        decided(&mut core, NOW),
        "small gets b2, big gets b1, [] on b"
    );
    // With a selector only volumes with such labels fit.
    let mut core = self::core();
    set(
        &mut core,
        "PersistentVolume",
        local("a1", "5Gi", &["a"], json!({})),
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}});
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "local", "1Gi", selector),
    );
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).contains(UNAVAILABLE));
    let fast = json!({"metadata": {"labels": {"disk": "fast"}}});
    set(
        &mut core,
        "PersistentVolume",
        local("b1", "5Gi", &["b"], fast),
    );
    assert_eq!(decided(&mut core, LATER), "data gets b1, [] on b");
}

#[test]
fn a_volume_is_made_only_where_its_class_allows_it() {
    let mut core = core();
    let class = |values: Value| {
        let expression = json!({"key": "kubernetes.io/hostname", "values": values});
        json!({"metadata": {"name": "late"}, "provisioner": "x.com/y",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [expression]}]})
    };
    set(&mut core, "StorageClass", class(json!(["elsewhere"])));
    set(
        &mut core,
        "PersistentVolumeClaim",
        asks("data", "late", "1Gi", json!({})),
    );
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).contains(UNAVAILABLE));
    set(&mut core, "StorageClass", class(json!(["b", "c"])));
    assert_eq!(decided(&mut core, LATER), "[\"data\"] on b");
}

#[test]
fn a_volume_is_made_for_the_claim_that_was_looked_at() {
    let mut core = core();
    let seen = json!({"metadata": {"resourceVersion": "7"}});
    let data = asks("data", "late", "1Gi", seen);
    set(&mut core, "PersistentVolumeClaim", data);
    core.pod(with("p", "data"), NOW);
    let Some(Decision::Claim { plan, .. }) = core.next(NOW) else {
        panic!("nothing is asked for");
    };
    assert_eq!(plan.provision[0].version, "7");
}
