//! Columns of volumes and of what provides them.

use machinery::object;
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{Layout, NAME, NONE, UNSET, age, any_or, flag_or, name_of_default, text_or};

pub(crate) const PERSISTENT_VOLUME: Layout = Layout {
    columns: &[
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "VolumeMode*",
    ],
    cells: volume,
};

pub(crate) const PERSISTENT_VOLUME_CLAIM: Layout = Layout {
    columns: &[
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "VolumeMode*",
    ],
    cells: claim,
};

pub(crate) const STORAGE_CLASS: Layout = Layout {
    columns: &[
        NAME,
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ],
    cells: storage_class,
};

pub(crate) const CSI_NODE: Layout = Layout {
    columns: &["Drivers#", "Age"],
    cells: |object| {
        vec![
            object::items(object, &["spec", "drivers"]).len().into(),
            age(object),
        ]
    },
};

pub(crate) const CSI_DRIVER: Layout = Layout {
    columns: &[
        "AttachRequired?",
        "PodInfoOnMount?",
        "StorageCapacity?",
        "TokenRequests",
        "RequiresRepublish?",
        "Modes",
        "Age",
    ],
    cells: csi_driver,
};

pub(crate) const VOLUME_ATTACHMENT: Layout = Layout {
    columns: &["Attacher=", "PV", "Node", "Attached?", "Age"],
    cells: |object| {
        vec![
            text_or(object, &["spec", "attacher"], ""),
            text_or(object, &["spec", "source", "persistentVolumeName"], ""),
            text_or(object, &["spec", "nodeName"], ""),
            flag_or(object, &["status", "attached"], false).into(),
            age(object),
        ]
    },
};

pub(crate) const VOLUME_ATTRIBUTES_CLASS: Layout = Layout {
    columns: &["DriverName", "Age"],
    cells: |object| vec![text_or(object, &["driverName"], ""), age(object)],
};

fn volume(object: &Value) -> Vec<Cell> {
    let claim = |key: &str| object::text(object, &["spec", "claimRef", key]);
    let claim = match claim("name") {
        "" => String::new(),
        name => format!("{}/{name}", claim("namespace")),
    };
    vec![
        any_or(object, &["spec", "capacity", "storage"], "0"),
        modes(object, &["spec", "accessModes"]),
        text_or(object, &["spec", "persistentVolumeReclaimPolicy"], ""),
        phase(object),
        claim.into(),
        class(object),
        any_or(object, &["spec", "volumeAttributesClassName"], UNSET),
        text_or(object, &["status", "reason"], ""),
        age(object),
        text_or(object, &["spec", "volumeMode"], UNSET),
    ]
}

fn claim(object: &Value) -> Vec<Cell> {
    let bound = !object::text(object, &["spec", "volumeName"]).is_empty();
    let (capacity, access) = if bound {
        (
            any_or(object, &["status", "capacity", "storage"], "0"),
            modes(object, &["status", "accessModes"]),
        )
    } else {
        ("".into(), "".into())
    };
    vec![
        phase(object),
        text_or(object, &["spec", "volumeName"], ""),
        capacity,
        access,
        class(object),
        any_or(object, &["spec", "volumeAttributesClassName"], UNSET),
        age(object),
        text_or(object, &["spec", "volumeMode"], UNSET),
    ]
}

fn phase(object: &Value) -> Cell {
    if object::is_deleting(object) {
        "Terminating".into()
    } else {
        text_or(object, &["status", "phase"], "")
    }
}

fn class(object: &Value) -> Cell {
    object::storage_class(object).into()
}

/// The modes that are among those of an object, each once.
fn modes(object: &Value, path: &[&str]) -> Cell {
    let has = object::items(object, path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short = short
        .iter()
        .filter(|(mode, _)| has.iter().any(|one| one == mode));
    let short: Vec<&str> = short.map(|(_, short)| *short).collect();
    short.join(",").into()
}

fn storage_class(object: &Value) -> Vec<Cell> {
    let default = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    vec![
        name_of_default(object, &default),
        text_or(object, &["provisioner"], ""),
        text_or(object, &["reclaimPolicy"], "Delete"),
        text_or(object, &["volumeBindingMode"], "Immediate"),
        flag_or(object, &["allowVolumeExpansion"], false).into(),
        age(object),
    ]
}

fn csi_driver(object: &Value) -> Vec<Cell> {
    let flag = |key: &str, missing| flag_or(object, &["spec", key], missing).into();
    let joined = |list: &[Value], key: &dyn Fn(&Value) -> String| {
        let texts: Vec<String> = list.iter().map(key).collect();
        texts.join(",")
    };
    let tokens = match object::at(object, &["spec", "tokenRequests"]) {
        Some(Value::Array(all)) => joined(all, &|one| object::text(one, &["audience"]).to_owned()),
        _ => UNSET.to_owned(),
    };
    let modes = object::items(object, &["spec", "volumeLifecycleModes"]);
    let modes = match joined(modes, &|one| one.as_str().unwrap_or_default().to_owned()) {
        none if none.is_empty() => NONE.to_owned(),
        modes => modes,
    };
    vec![
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens.into(),
        flag("requiresRepublish", false),
        modes.into(),
        age(object),
    ]
}

#[test]
fn modes_have_an_order_and_classes_may_be_annotations() {
    use serde_json::json;

    let object = json!({
        "metadata": {"annotations": {(object::STORAGE_CLASS): "gold"}},
        "spec": {"accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": "iron"},
    });
    let now = machinery::time::Timestamp::default();
    let shown = modes(&object, &["spec", "accessModes"]);
    assert_eq!(shown.at(now), "RWO,RWX");
    assert_eq!(class(&object).at(now), "gold");
}
